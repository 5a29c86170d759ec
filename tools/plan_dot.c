/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_dot.c - a plan in Graphviz's language: the tree from top to bottom in grey, its links labelled with their crossings, and the
 * rings over it in colour.
 */
#include "plan_view.h"

/* A name within double quotes. */
static void print_quoted(const char *name, FILE *out)
{
	for (; *name; name++) {
		if (*name == '"' || *name == '\\')
			fputc('\\', out);
		fputc(*name, out);
	}
}

static void print_vertex(const struct ddl__view *view, size_t i, bool by_rank, FILE *out)
{
	const struct ddl__view_vertex *v = &view->vertices[i];
	const struct ddl__crossings *c = by_rank ? &v->by_rank : &v->planned;

	fprintf(out, "  v%zu [label=\"", i);
	print_quoted(v->vertex->name, out);
	fprintf(out, "\", shape=box, style=\"filled%s\", fillcolor=\"%s\"];\n", v->vertex->n_children ? ",rounded" : "",
		v->vertex->n_children ? "#dde3ea" : "#f6f6f6");
	if (i > 0)
		fprintf(out, "  v%zu -> v%zu [dir=none, color=\"#9aa5b1\", penwidth=2, label=\" %u up, %u down\"];\n", v->parent, i,
			c->up, c->down);
}

static void print_ranks(const struct ddl__view *view, size_t i, FILE *out)
{
	const struct ddl__layout *layout = view->layout;
	const size_t node = view->vertices[i].vertex->node;

	for (size_t k = layout->first[node]; k < layout->first[node + 1]; k++) {
		char label[16] = "";

		if (view->has_ranks)
			snprintf(label, sizeof(label), "%d", layout->ranks[k]);
		fprintf(out, "  r%d [label=\"%s\", shape=circle, width=0.35, fixedsize=true];\n", layout->ranks[k], label);
		fprintf(out, "  v%zu -> r%d [dir=none, color=\"#9aa5b1\"];\n", i, layout->ranks[k]);
	}
}

static void print_ring(const struct ddl__view *view, unsigned ring, bool by_rank, FILE *out)
{
	const int n = view->layout->n_ranks, *order = ddl__view_ring(view, ring);

	for (int i = 0; i < n && n > 1; i++) {
		const int from = by_rank ? i : order[i], to = by_rank ? (i + 1) % n : order[(i + 1) % n];

		fprintf(out, "  r%d -> r%d [color=\"%s\", constraint=false, penwidth=1.6];\n", from, to,
			ddl__ring_colours[ring % DDL__RING_COLOURS]);
	}
}

int ddl__view_dot(const struct ddl__view *view, bool by_rank, FILE *out)
{
	fprintf(out,
		"digraph plan {\n  graph [rankdir=TB, fontname=\"sans-serif\", label=\"%s\"];\n"
		"  node [fontname=\"sans-serif\", fontsize=11];\n  edge [fontname=\"sans-serif\", fontsize=9];\n",
		by_rank ? "rings in rank order" : "rings of the plan");
	for (size_t i = 0; i < view->n_vertices; i++) {
		const struct ddl__vertex *vertex = view->vertices[i].vertex;

		print_vertex(view, i, by_rank, out);
		if (vertex->n_children == 0)
			print_ranks(view, i, out);
	}
	for (unsigned ring = 0; ring < view->n_rings; ring++)
		print_ring(view, ring, by_rank, out);
	fputs("}\n", out);
	return 0;
}
