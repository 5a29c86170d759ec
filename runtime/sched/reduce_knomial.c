/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_knomial.c - reduce of short messages up a k-nomial tree over the ring order from the root on: ceil(log_K N) levels.
 *
 * A rank's number v (0: the root) is written to base K; its parent has the lowest digit that is not 0 cleared, its children have
 * one of the zeros below that digit set. Neighbours in the order are near in the switch tree, and low digits meet first. A lane an
 * edge, numbered by the child; a parent adds its children's contributions in ascending order, whoever comes first, and so always
 * the same bits.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { K = 4, SLOTS = 8 };
enum { SLICE_BYTES_MAX = 256 * 1024 };

struct tree {
	int n, me; /* ranks, own number */
	int parent;
	int children[4 * 32]; /* ascending */
	uint32_t n_children;
};

static void climb(struct tree *t)
{
	t->parent = -1;
	for (long digit = 1; digit < t->n; digit *= K) {
		long d = t->me / digit % K;
		if (d != 0) {
			t->parent = (int)(t->me - d * digit);
			return;
		}
		for (long j = 1; j < K && t->me + j * digit < t->n; j++)
			t->children[t->n_children++] = (int)(t->me + j * digit);
	}
}

/* Adds what the children bring, one after the other; where the sum ends up is the source of what goes up. */
static int add_children(const struct ddl__build *build, const struct tree *t, struct ddl__schedule *s, const int *order, int root,
			uint32_t first)
{
	enum ddl__buffer sum = t->parent < 0 ? DDL__OUTPUT : DDL__SCRATCH;
	for (uint32_t c = 0; c < t->n_children; c++) {
		struct ddl__steps *lane = &s->lanes[first + c];
		lane->number = (uint32_t)t->children[c];
		lane->recv_peer = order[(root + t->children[c]) % t->n];
		int rc = ddl__schedule_reserve(lane, 1);
		if (rc < 0)
			return rc;
		struct ddl__step *step = ddl__schedule_add(lane, DDL__RECV_REDUCE, c ? sum : DDL__INPUT, 0, sum, 0, build->count);
		step->final = t->parent < 0 && c == t->n_children - 1;
		if (c > 0)
			ddl__schedule_wait(step, s, first + c - 1);
	}
	return 0;
}

static int build_tree(const struct ddl__build *build, struct ddl__schedule *s, const struct tree *t, const int *order, int root)
{
	uint32_t up = t->parent >= 0;
	int rc = add_children(build, t, s, order, root, up);
	if (rc < 0)
		return rc;
	if (t->n == 1 || up) {
		rc = ddl__schedule_reserve(&s->lanes[0], 1);
		if (rc < 0)
			return rc;
	}
	if (t->n == 1)
		ddl__schedule_add(&s->lanes[0], DDL__COPY, DDL__INPUT, 0, DDL__OUTPUT, 0, build->count)->final = 1;
	if (!up)
		return 0;
	s->lanes[0].number = (uint32_t)t->me;
	s->lanes[0].send_peer = order[(root + t->parent) % t->n];
	struct ddl__step *step = ddl__schedule_add(&s->lanes[0], DDL__SEND, t->n_children ? DDL__SCRATCH : DDL__INPUT, 0,
						   DDL__OUTPUT, 0, build->count);
	if (t->n_children) {
		ddl__schedule_wait(step, s, t->n_children);
		s->scratch_elements = build->count;
	}
	return 0;
}

int ddl__build_reduce_knomial(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	struct tree t = { .n = build->layout->n_ranks };
	int root = 0, me = 0;
	struct ddl__schedule *s = NULL;
	int *order = calloc((size_t)t.n, sizeof(*order));
	if (!order)
		return -ENOMEM;
	ddl__layout_order(build->layout, 0, order);
	while (order[root] != build->root)
		root++;
	while (order[me] != build->rank)
		me++;
	t.me = (me + t.n - root) % t.n;
	climb(&t);
	int rc = ddl__schedule_create(!build->count ? 0 : t.n == 1 ? 1 : t.n_children + (t.parent >= 0), &s);
	if (rc == 0 && build->count) {
		uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
		s->slots = SLOTS;
		s->slice_elements = ddl__whole_blocks(build, max ? max : 1);
		rc = build_tree(build, s, &t, order, root);
	}
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
	return rc;
}
