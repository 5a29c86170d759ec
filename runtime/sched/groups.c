/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.c - building the tree of groups. Depth is bounded by the plan's depth or by DDL__DIMS_MAX.
 */
#include "groups.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static struct ddl__group *group_new(int rank, uint32_t n)
{
	struct ddl__group *g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->rank = rank;
	g->n = n;
	g->children = n ? calloc(n, sizeof(struct ddl__group *)) : NULL;
	if (n && !g->children) {
		free(g);
		return NULL;
	}
	return g;
}

void ddl__groups_destroy(struct ddl__group *root)
{
	if (!root)
		return;
	for (uint32_t i = 0; i < root->n; i++)
		ddl__groups_destroy(root->children[i]);
	free(root->children);
	free(root);
}

static struct ddl__group *from_vertex(const struct ddl__layout *layout, const struct ddl__vertex *vertex, unsigned ring)
{
	bool node = vertex->n_children == 0;
	size_t first = node ? layout->first[vertex->node] : 0;
	size_t n = node ? layout->first[vertex->node + 1] - first : vertex->n_children;
	if (n == 1)
		return node ? group_new(layout->ranks[first], 0) : from_vertex(layout, vertex->children[0], ring);
	struct ddl__group *g = group_new(-1, (uint32_t)n);
	for (size_t i = 0; g && i < n; i++) {
		size_t at = (i + ring) % n;
		g->children[i] = node ? group_new(layout->ranks[first + at], 0) : from_vertex(layout, vertex->children[at], ring);
		if (!g->children[i]) {
			ddl__groups_destroy(g);
			return NULL;
		}
	}
	return g;
}

int ddl__groups_from_layout(const struct ddl__layout *layout, unsigned ring, struct ddl__group **root)
{
	*root = from_vertex(layout, layout->plan->root, ring);
	return *root ? 0 : -ENOMEM;
}

/* The group of the top dimension n_dims-1 over the ranks order[0 ... product). */
static struct ddl__group *from_order(const int *order, const uint32_t *dims, size_t n_dims)
{
	if (n_dims == 0)
		return group_new(order[0], 0);
	uint32_t n = dims[n_dims - 1], below = 1;
	if (n == 1)
		return from_order(order, dims, n_dims - 1);
	for (size_t d = 0; d + 1 < n_dims; d++)
		below *= dims[d];
	struct ddl__group *g = group_new(-1, n);
	for (uint32_t i = 0; g && i < n; i++) {
		g->children[i] = from_order(order + (size_t)i * below, dims, n_dims - 1);
		if (!g->children[i]) {
			ddl__groups_destroy(g);
			return NULL;
		}
	}
	return g;
}

int ddl__groups_from_dims(const struct ddl__layout *layout, unsigned ring, const uint32_t *dims, size_t n_dims,
			  struct ddl__group **root)
{
	uint64_t product = 1;
	if (n_dims > DDL__DIMS_MAX)
		return -EINVAL;
	for (size_t d = 0; d < n_dims; d++) {
		product *= dims[d];
		if (product == 0 || product > (uint64_t)layout->n_ranks)
			return -EINVAL;
	}
	if (product != (uint64_t)layout->n_ranks)
		return -EINVAL;
	int *order = calloc((size_t)layout->n_ranks, sizeof(*order));
	if (!order)
		return -ENOMEM;
	ddl__layout_order(layout, ring, order);
	*root = from_order(order, dims, n_dims);
	free(order);
	return *root ? 0 : -ENOMEM;
}
