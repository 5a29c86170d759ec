/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_json.c - a plan as one JSON object: its text, its options, the tree, the nodes with their ranks, the rings, and how often
 * the links of the switches are crossed under the plan and under rank order.
 */
#include <errno.h>
#include <stdlib.h>

#include <jansson.h>

#include "plan_view.h"

static json_t *make_tree(const struct ddl__vertex *vertex)
{
	json_t *object = json_pack("{ss}", "name", vertex->name), *children;

	if (vertex->link_speed > 0)
		json_object_set_new(object, "link_speed", json_integer((json_int_t)vertex->link_speed));
	if (vertex->oversubscribed > 0)
		json_object_set_new(object, "oversubscribed", json_real(vertex->oversubscribed / 100.0));
	if (vertex->n_children == 0)
		return object;
	children = json_array();
	for (size_t i = 0; i < vertex->n_children; i++)
		json_array_append_new(children, make_tree(vertex->children[i]));
	json_object_set_new(object, "children", children);
	return object;
}

static json_t *make_nodes(const struct ddl__view *view)
{
	const struct ddl__layout *layout = view->layout;
	json_t *nodes = json_array();

	for (size_t i = 0; i < view->plan->n_nodes; i++) {
		json_t *ranks = json_array();

		for (size_t k = layout->first[i]; k < layout->first[i + 1]; k++)
			json_array_append_new(ranks, json_integer(layout->ranks[k]));
		if (view->has_ranks) {
			json_array_append_new(nodes, json_pack("{sssiso}", "name", view->plan->nodes[i]->name, "tasks",
							       (int)(layout->first[i + 1] - layout->first[i]), "ranks", ranks));
		} else {
			json_decref(ranks);
			json_array_append_new(nodes, json_pack("{ss}", "name", view->plan->nodes[i]->name));
		}
	}
	return nodes;
}

/* Ranks in order; node names where ranks are not known. */
static json_t *make_rings(const struct ddl__view *view)
{
	json_t *rings = json_array();
	char name[256];

	for (unsigned ring = 0; ring < view->n_rings; ring++) {
		const int *order = ddl__view_ring(view, ring);
		json_t *array = json_array();

		for (int i = 0; i < view->layout->n_ranks; i++)
			json_array_append_new(
				array, view->has_ranks ? json_integer(order[i])
						       : json_string(ddl__view_rank_name(view, order[i], name, sizeof(name))));
		json_array_append_new(rings, array);
	}
	return rings;
}

static json_t *make_uplinks(const struct ddl__view *view)
{
	json_t *uplinks = json_array();

	for (size_t i = 1; i < view->n_vertices; i++) {
		const struct ddl__view_vertex *v = &view->vertices[i];

		if (v->vertex->n_children == 0)
			continue;
		json_array_append_new(uplinks, json_pack("{sssssisisisi}", "name", v->vertex->name, "to",
							 view->vertices[v->parent].vertex->name, "plan_up", (int)v->planned.up,
							 "plan_down", (int)v->planned.down, "rank_order_up", (int)v->by_rank.up,
							 "rank_order_down", (int)v->by_rank.down));
	}
	return uplinks;
}

int ddl__view_json(const struct ddl__view *view, FILE *out)
{
	const struct ddl__plan *plan = view->plan;
	char *text = NULL;
	json_t *object;
	int rc = ddl__plan_encode(plan, &text, NULL);

	object = json_pack("{ss ss ss ss ss si si si}", "job", plan->job, "source", plan->source, "mode",
			   ddl__choice_by_id(ddl__modes, (int)plan->options.mode)->name, "order",
			   ddl__choice_by_id(ddl__orders, (int)plan->options.order)->name, "wire",
			   ddl__choice_by_id(ddl__wires, (int)plan->options.wire)->name, "rails", (int)plan->rails, "n_ranks",
			   view->has_ranks ? view->layout->n_ranks : 0, "n_nodes", (int)plan->n_nodes);
	if (rc == 0) /* a text that is too long is left out */
		json_object_set_new(object, "text", json_string(text));
	json_object_set_new(object, "tree", make_tree(plan->root));
	json_object_set_new(object, "nodes", make_nodes(view));
	json_object_set_new(object, "rings", make_rings(view));
	json_object_set_new(object, "uplinks", make_uplinks(view));
	rc = object && json_dumpf(object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 ? 0 : -ENOMEM;
	fputc('\n', out);
	json_decref(object);
	free(text);
	return rc;
}
