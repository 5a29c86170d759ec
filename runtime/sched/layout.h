/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - the plan with its ranks: what schedule builders see. Pure data, the same on every rank.
 */
#ifndef DDL_SCHED_LAYOUT_H
#define DDL_SCHED_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "plan.h"

struct ddl__layout {
	const struct ddl__plan *plan; /* borrowed; outlives the layout */
	int n_ranks;                  /* at least 1 */
	size_t *node_of_rank;         /* n_ranks indices into plan->nodes */
	size_t *first;                /* plan->n_nodes+1: where a node's ranks begin in ranks[] */
	int *ranks;                   /* n_ranks, by node from left to right, ascending within a node */
	uint32_t link_Mbps;           /* speed of a node's slowest link, as the nodes say; 0 not known */
};

/* Makes a layout; node_of_rank is copied. Returns 0; -EINVAL (an index out of range); -ENOMEM. */
int ddl__layout_create(const struct ddl__plan *plan, const size_t *node_of_rank, int n_ranks, struct ddl__layout **layout);

/*
 * The ranks in the order of ring `ring`: the tree's leaves from left to right, the children of every vertex (the ranks of every
 * node) rotated by `ring`; odd rings run backwards. So each ring enters and leaves a switch by another node, and every uplink is
 * crossed once in each direction. order: n_ranks ints.
 */
void ddl__layout_order(const struct ddl__layout *layout, unsigned ring, int *order);

void ddl__layout_destroy(struct ddl__layout *layout);

#endif
