/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.c - sorts the ranks into the plan's nodes and walks the tree in ring order.
 */
#include "layout.h"

#include <errno.h>
#include <stdlib.h>

int ddl__layout_create(const struct ddl__plan *plan, const size_t *node_of_rank, int n_ranks, struct ddl__layout **layout)
{
	if (n_ranks < 1)
		return -EINVAL;
	for (int r = 0; r < n_ranks; r++)
		if (node_of_rank[r] >= plan->n_nodes)
			return -EINVAL;
	struct ddl__layout *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->plan = plan;
	l->n_ranks = n_ranks;
	l->node_of_rank = calloc((size_t)n_ranks, sizeof(*l->node_of_rank));
	l->first = calloc(plan->n_nodes + 2, sizeof(*l->first));
	l->ranks = calloc((size_t)n_ranks, sizeof(*l->ranks));
	if (!l->node_of_rank || !l->first || !l->ranks) {
		ddl__layout_destroy(l);
		return -ENOMEM;
	}
	/* counting sort: first[n+1] counts, then becomes the running position, and ends as the next node's begin */
	for (int r = 0; r < n_ranks; r++) {
		l->node_of_rank[r] = node_of_rank[r];
		l->first[node_of_rank[r] + 2]++;
	}
	for (size_t n = 2; n < plan->n_nodes + 2; n++)
		l->first[n] += l->first[n - 1];
	for (int r = 0; r < n_ranks; r++)
		l->ranks[l->first[node_of_rank[r] + 1]++] = r;
	*layout = l;
	return 0;
}

void ddl__layout_destroy(struct ddl__layout *layout)
{
	if (!layout)
		return;
	free(layout->node_of_rank);
	free(layout->first);
	free(layout->ranks);
	free(layout);
}

/* Appends the ranks below a vertex; returns the new length. The tree is at most DDL__PLAN_DEPTH_MAX deep. */
static size_t walk(const struct ddl__layout *layout, const struct ddl__vertex *vertex, unsigned ring, int *order, size_t length)
{
	if (vertex->n_children == 0) {
		size_t begin = layout->first[vertex->node], n = layout->first[vertex->node + 1] - begin;
		for (size_t i = 0; i < n; i++)
			order[length++] = layout->ranks[begin + (i + ring) % n];
		return length;
	}
	for (size_t i = 0; i < vertex->n_children; i++)
		length = walk(layout, vertex->children[(i + ring) % vertex->n_children], ring, order, length);
	return length;
}

void ddl__layout_order(const struct ddl__layout *layout, unsigned ring, int *order)
{
	size_t n = walk(layout, layout->plan->root, ring, order, 0);
	if (ring % 2 == 0)
		return;
	for (size_t i = 0; i < n / 2; i++) {
		int keep = order[i];
		order[i] = order[n - 1 - i];
		order[n - 1 - i] = keep;
	}
}
