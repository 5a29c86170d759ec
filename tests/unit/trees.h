/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trees.h - plans and layouts for tests: a tree is written as nested groups of nodes, each node with its number of ranks.
 */
#ifndef DDL_TESTS_TREES_H
#define DDL_TESTS_TREES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "plan.h"

/*
 * Up to how many ranks schedules are proved. Under AddressSanitizer, which looks for faults of memory and costs ten times as much,
 * fewer: the proofs themselves are those of the plain build.
 */
#ifdef __SANITIZE_ADDRESS__
enum { PROVED_RANKS = 20, PROVED_RANKS_MAX = 128 };
#else
enum { PROVED_RANKS = 64, PROVED_RANKS_MAX = 1024 };
#endif

/* splitmix64: the same numbers everywhere. */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

struct random_tree {
	char text[8192];
	size_t n_nodes;
	uint64_t state;
};

/* Appends a group of `ranks` ranks as children of one vertex; levels: switches still allowed below. */
static inline void grow(struct random_tree *tree, int ranks, int levels, uint32_t *tasks, int *switches)
{
	int first = 1;
	while (ranks > 0) {
		int part = 1 + (int)(next_random(&tree->state) % (uint64_t)ranks);
		size_t used = strlen(tree->text);
		char *at = tree->text + used;
		size_t room = sizeof(tree->text) - used;
		if (levels > 0 && part > 1 && next_random(&tree->state) % 2) {
			snprintf(at, room, "%ss%d(", first ? "" : ",", (*switches)++);
			grow(tree, part, levels - 1, tasks, switches);
			strcat(tree->text, ")");
		} else {
			snprintf(at, room, "%sn%zu", first ? "" : ",", tree->n_nodes);
			tasks[tree->n_nodes++] = (uint32_t)part;
		}
		first = 0;
		ranks -= part;
	}
}

struct world_plan {
	struct ddl__plan *plan;
	size_t *node_of_rank;
	char *text;
};

/* A random tree of n ranks with up to `levels` levels of switches below the root; cyclic: ranks are dealt over the nodes. */
static inline int random_plan(uint64_t seed, int n, int levels, int cyclic, struct world_plan *w)
{
	struct random_tree tree = { .state = seed };
	uint32_t *tasks = calloc((size_t)n, sizeof(*tasks));
	struct ddl_error err = { 0 };
	int switches = 0;
	strcpy(tree.text, "1;job=;mode=ring;src=none/tree;tree=root(");
	grow(&tree, n, levels, tasks, &switches);
	strcat(tree.text, ")");
	w->node_of_rank = calloc((size_t)n, sizeof(*w->node_of_rank));
	int rc = ddl__plan_decode(tree.text, strlen(tree.text), &w->plan, &err);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", tree.text, err.text);
		return rc;
	}
	size_t node = 0;
	for (int r = 0; r < n; r++) {
		while (tasks[node] == 0)
			node = (node + 1) % w->plan->n_nodes;
		w->node_of_rank[r] = node;
		tasks[node]--;
		if (cyclic)
			node = (node + 1) % w->plan->n_nodes;
	}
	free(tasks);
	w->text = strdup(tree.text);
	return 0;
}

static inline void world_plan_fini(struct world_plan *w)
{
	ddl__plan_destroy(w->plan);
	free(w->node_of_rank);
	free(w->text);
}

#endif
