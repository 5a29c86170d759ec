/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_view.h - a plan with its ranks and rings, as `ddl plan` shows it: who comes after whom, and how often each link is crossed.
 */
#ifndef DDL_TOOLS_PLAN_VIEW_H
#define DDL_TOOLS_PLAN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "layout.h"
#include "plan.h"
#include "select.h"

struct ddl__crossings { /* of one link, by all rings that were counted */
	uint32_t up;    /* from the vertex to its parent */
	uint32_t down;  /* from the parent to the vertex */
};

struct ddl__view_vertex {                 /* one vertex with its link to the parent */
	const struct ddl__vertex *vertex; /* of the plan */
	size_t parent;                    /* index of the parent; the root's own */
	size_t depth;                     /* 0: the root */
	struct ddl__crossings planned;    /* by the rings of the plan */
	struct ddl__crossings by_rank;    /* by as many rings in rank order */
};

struct ddl__view {
	const struct ddl__plan *plan;      /* borrowed */
	struct ddl__layout *layout;        /* owned */
	bool has_ranks;                    /* false: tasks are not known, and every node stands for one rank */
	unsigned n_rings;                  /* rings of the plan, at least 1 */
	int *rings;                        /* n_rings times n_ranks: the ranks in order */
	struct ddl__view_vertex *vertices; /* the root first, every parent before its children, left to right */
	size_t n_vertices;
};

/*
 * Says on which node each rank is, by Slurm's rule: nodes in the order of names (n of them: all nodes of the plan), each with its
 * tasks; cyclic: one task a node in turns. Where the plan does not know the tasks of every node: one a node, *has_ranks false.
 * *node_of_rank: indices into plan->nodes, *n_ranks of them; caller frees. Returns 0; -EINVAL (not the plan's nodes); -ENOMEM.
 */
int ddl__view_place(const struct ddl__plan *plan, const char *const *names, size_t n, bool cyclic, size_t **node_of_rank,
		    int *n_ranks, bool *has_ranks, struct ddl_error *err);

/* Makes a view. node_of_rank is copied. Freed with ddl__view_destroy(). Returns 0; -EINVAL; -ENOMEM. */
int ddl__view_create(const struct ddl__plan *plan, const size_t *node_of_rank, int n_ranks, bool has_ranks, struct ddl__view **view,
		     struct ddl_error *err);

/* The ranks of a ring in order: n_ranks of them. */
const int *ddl__view_ring(const struct ddl__view *view, unsigned ring);

/* What a rank is called: its number, or its node's name where ranks are not known. Returns text. */
const char *ddl__view_rank_name(const struct ddl__view *view, int rank, char *text, size_t size);

void ddl__view_destroy(struct ddl__view *view);

#define DDL__RING_COLOURS 8                                    /* rings in different colours; then they repeat */
extern const char *const ddl__ring_colours[DDL__RING_COLOURS]; /* in plan_svg.c; people with colour blindness can tell them apart */

/* plan_json.c, plan_dot.c, plan_svg.c: whole documents. by_rank: the rings in rank order are drawn instead. Return 0 or -ENOMEM. */
int ddl__view_json(const struct ddl__view *view, FILE *out);
int ddl__view_dot(const struct ddl__view *view, bool by_rank, FILE *out);
int ddl__view_svg(const struct ddl__view *view, bool by_rank, FILE *out);

/* plan_explain.c: prints the cost model of the view's layout, and for each size (bytes on the wire) what it predicts for every
 * all-reduce algorithm, which is chosen and why. Returns 0; -EINVAL or -EOPNOTSUPP (what DDL_ALGO says); -ENOMEM. */
int ddl__view_explain(const struct ddl__view *view, const uint64_t *sizes, size_t n, FILE *out, struct ddl_error *err);

struct ddl__traffic {  /* bytes over one link */
	uint64_t up;   /* from the vertex to its parent */
	uint64_t down; /* from the parent to the vertex */
};

/*
 * plan_traffic.c: counts what an all-reduce of so many bytes of float32 moves over the link of each vertex (traffic: n_vertices of
 * them). Returns 0; -ENOMEM; -EOPNOTSUPP or -EINVAL (what the builder says of dimensions that do not fit the ranks).
 */
int ddl__view_traffic(const struct ddl__view *view, const struct ddl__candidate *candidate, uint64_t bytes,
		      struct ddl__traffic *traffic);

/*
 * Prints it for each size. algorithm: a name as DDL_ALGO takes it; NULL: what the plan asks for, else what the cost model chooses.
 * Returns 0; an error with a sentence.
 */
int ddl__view_print_traffic(const struct ddl__view *view, const char *algorithm, const uint64_t *sizes, size_t n, FILE *out,
			    struct ddl_error *err);

#endif
