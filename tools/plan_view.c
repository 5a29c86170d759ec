/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_view.c - numbers the vertices, walks the rings and counts the crossings of every link.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "plan_view.h"

/* Index in the plan of each name, in the order of the names. */
static int find_nodes(const struct ddl__plan *plan, const char *const *names, size_t n, size_t *nodes, struct ddl_error *err)
{
	bool *seen = calloc(plan->n_nodes, sizeof(*seen));
	int rc = n == plan->n_nodes ? 0 : ddl__error_set(err, -EINVAL, "the plan has %zu nodes, not %zu", plan->n_nodes, n);

	if (!seen)
		return ddl__error_memory(err);
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (ddl__plan_find_node(plan, names[i], &nodes[i]) < 0 || seen[nodes[i]])
			rc = ddl__error_set(err, -EINVAL, "node '%.100s' is not in the plan, or named twice", names[i]);
		else
			seen[nodes[i]] = true;
	}
	free(seen);
	return rc;
}

static uint64_t count_tasks(const struct ddl__plan *plan, bool *known)
{
	uint64_t tasks = 0;

	*known = true;
	for (size_t i = 0; i < plan->n_nodes; i++) {
		tasks += plan->nodes[i]->tasks;
		*known = *known && plan->nodes[i]->tasks > 0;
	}
	return *known ? tasks : plan->n_nodes;
}

/* Deals the ranks out: whole nodes, or one task of every node that has one left in turns. */
static void deal(const struct ddl__plan *plan, const size_t *nodes, bool cyclic, bool known, size_t n_ranks, size_t *node_of_rank)
{
	size_t rank = 0;

	for (uint32_t turn = 0; rank < n_ranks; turn++) {
		for (size_t i = 0; i < plan->n_nodes; i++) {
			const uint32_t tasks = known ? plan->nodes[nodes[i]]->tasks : 1;
			const uint32_t here = !cyclic ? tasks : turn < tasks ? 1 : 0;

			for (uint32_t task = 0; task < here; task++)
				node_of_rank[rank++] = nodes[i];
		}
	}
}

int ddl__view_place(const struct ddl__plan *plan, const char *const *names, size_t n, bool cyclic, size_t **node_of_rank,
		    int *n_ranks, bool *has_ranks, struct ddl_error *err)
{
	bool known;
	const uint64_t tasks = count_tasks(plan, &known);
	size_t *nodes, *dealt;
	int rc;

	if (tasks > INT_MAX)
		return ddl__error_set(err, -EINVAL, "%llu tasks are more than ranks can be numbered", (unsigned long long)tasks);
	nodes = calloc(plan->n_nodes, sizeof(*nodes));
	dealt = calloc(tasks, sizeof(*dealt));
	if (!nodes || !dealt)
		rc = ddl__error_memory(err);
	else
		rc = find_nodes(plan, names, n, nodes, err);
	if (rc == 0) {
		deal(plan, nodes, cyclic, known, tasks, dealt);
		*node_of_rank = dealt;
		*n_ranks = (int)tasks;
		*has_ranks = known;
		dealt = NULL;
	}
	free(nodes);
	free(dealt);
	return rc;
}

static size_t count_vertices(const struct ddl__vertex *vertex)
{
	size_t n = 1;

	for (size_t i = 0; i < vertex->n_children; i++)
		n += count_vertices(vertex->children[i]);
	return n;
}

/* Numbers a vertex and all below it; the tree is at most DDL__PLAN_DEPTH_MAX deep. */
static void number_vertices(struct ddl__view *view, const struct ddl__vertex *vertex, size_t parent, size_t depth)
{
	const size_t own = view->n_vertices++;

	view->vertices[own].vertex = vertex;
	view->vertices[own].parent = parent;
	view->vertices[own].depth = depth;
	for (size_t i = 0; i < vertex->n_children; i++)
		number_vertices(view, vertex->children[i], own, depth + 1);
}

/* Follows a hop from node to node along the tree. */
static void count_hop(struct ddl__view *view, size_t from, size_t to, bool by_rank)
{
	while (from != to) {
		struct ddl__view_vertex *a = &view->vertices[from], *b = &view->vertices[to];

		if (a->depth >= b->depth) {
			(by_rank ? &a->by_rank : &a->planned)->up++;
			from = a->parent;
		} else {
			(by_rank ? &b->by_rank : &b->planned)->down++;
			to = b->parent;
		}
	}
}

static int count_crossings(struct ddl__view *view)
{
	const size_t n = (size_t)view->layout->n_ranks;
	size_t *places = calloc(view->plan->n_nodes, sizeof(*places));

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < view->n_vertices; i++) {
		if (view->vertices[i].vertex->n_children == 0)
			places[view->vertices[i].vertex->node] = i;
	}
	for (unsigned ring = 0; ring < view->n_rings; ring++) {
		const int *order = ddl__view_ring(view, ring);
		const size_t *node = view->layout->node_of_rank;

		for (size_t i = 0; i < n; i++) {
			count_hop(view, places[node[order[i]]], places[node[order[(i + 1) % n]]], false);
			count_hop(view, places[node[i]], places[node[(i + 1) % n]], true);
		}
	}
	free(places);
	return 0;
}

int ddl__view_create(const struct ddl__plan *plan, const size_t *node_of_rank, int n_ranks, bool has_ranks, struct ddl__view **view,
		     struct ddl_error *err)
{
	struct ddl__view *v = calloc(1, sizeof(*v));
	int rc;

	if (!v)
		return ddl__error_memory(err);
	v->plan = plan;
	v->has_ranks = has_ranks;
	v->n_rings = plan->options.rings ? plan->options.rings : 1;
	v->rings = calloc((size_t)n_ranks * v->n_rings, sizeof(*v->rings));
	v->vertices = calloc(count_vertices(plan->root), sizeof(*v->vertices));
	rc = v->rings && v->vertices ? ddl__layout_create(plan, node_of_rank, n_ranks, &v->layout) : -ENOMEM;
	if (rc == 0) {
		number_vertices(v, plan->root, 0, 0);
		for (unsigned ring = 0; ring < v->n_rings; ring++)
			ddl__layout_order(v->layout, ring, v->rings + (size_t)ring * (size_t)n_ranks);
		rc = count_crossings(v);
	}
	if (rc < 0) {
		ddl__view_destroy(v);
		return rc == -ENOMEM ? ddl__error_memory(err) : ddl__error_set(err, rc, "ranks and nodes of the plan do not fit");
	}
	*view = v;
	return 0;
}

const int *ddl__view_ring(const struct ddl__view *view, unsigned ring)
{
	return view->rings + (size_t)ring * (size_t)view->layout->n_ranks;
}

const char *ddl__view_rank_name(const struct ddl__view *view, int rank, char *text, size_t size)
{
	if (view->has_ranks)
		snprintf(text, size, "%d", rank);
	else
		snprintf(text, size, "%s", view->plan->nodes[view->layout->node_of_rank[rank]]->name);
	return text;
}

void ddl__view_destroy(struct ddl__view *view)
{
	if (!view)
		return;
	ddl__layout_destroy(view->layout);
	free(view->rings);
	free(view->vertices);
	free(view);
}
