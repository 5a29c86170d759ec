/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_svg.c - a drawing of a plan that a person reads at once: switches, nodes and ranks as bars and circles, the rings over
 * them in colour, and at every switch's uplink how often it is crossed.
 */
#include <stdarg.h>
#include <string.h>

#include "plan_draw.h"

#define SIDE       24.0  /* around the drawing */
#define HEAD       78.0  /* for title and legend */
#define COUNT_WIDE 120.0 /* room for an uplink's count */
#define MIN_WIDE   620.0 /* so that the title fits */

const char *const ddl__ring_colours[DDL__RING_COLOURS] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
							   "#e69f00", "#56b4e9", "#7a5cc0", "#8a8a00" };

static const char *colour(unsigned ring)
{
	return ddl__ring_colours[ring % DDL__RING_COLOURS];
}

static void print_escaped(const char *text, FILE *out)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
	}
}

static void print_text(FILE *out, double x, double y, const char *class, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

static void print_text(FILE *out, double x, double y, const char *class, const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
	print_escaped(text, out);
	fputs("</text>\n", out);
}

struct summary {              /* of the switches' uplinks */
	size_t switches;      /* the root included */
	size_t uplinks;       /* links between switches */
	uint32_t least, most; /* crossings of one in one direction, of the rings drawn */
	uint32_t most_other;  /* the most, of the other kind of rings */
};

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static struct summary summarise(const struct ddl__view *view, bool by_rank)
{
	struct summary s = { .least = UINT32_MAX };

	for (size_t i = 0; i < view->n_vertices; i++) {
		const struct ddl__view_vertex *v = &view->vertices[i];
		const struct ddl__crossings *own = by_rank ? &v->by_rank : &v->planned;
		const struct ddl__crossings *other = by_rank ? &v->planned : &v->by_rank;

		if (v->vertex->n_children == 0)
			continue;
		s.switches++;
		if (i == 0)
			continue;
		s.uplinks++;
		s.most = larger(s.most, larger(own->up, own->down));
		s.most_other = larger(s.most_other, larger(other->up, other->down));
		s.least = own->up < s.least ? own->up : s.least;
	}
	return s;
}

static void print_head(const struct ddl__view *view, bool by_rank, FILE *out)
{
	const struct ddl__plan *plan = view->plan;
	const struct summary s = summarise(view, by_rank);
	double x = SIDE;

	if (view->has_ranks)
		print_text(out, SIDE, 28, "title", "%d ranks on %zu nodes, %zu switch%s", view->layout->n_ranks, plan->n_nodes,
			   s.switches, s.switches == 1 ? "" : "es");
	else
		print_text(out, SIDE, 28, "title", "%zu nodes, %zu switch%s", plan->n_nodes, s.switches,
			   s.switches == 1 ? "" : "es");
	if (s.uplinks == 0)
		print_text(out, SIDE, 46, "note", "mode %s, %s; nothing is known of uplinks",
			   ddl__choice_by_id(ddl__modes, (int)plan->options.mode)->name, plan->source);
	else if (s.most == 1)
		print_text(out, SIDE, 46, "note", "Each uplink is crossed once in each direction (%s: up to %u time%s).",
			   by_rank ? "under the plan" : "in rank order", s.most_other, s.most_other == 1 ? "" : "s");
	else if (s.least == s.most)
		print_text(out, SIDE, 46, "note", "Each uplink is crossed %u times in each direction (%s: up to %u time%s).",
			   s.most, by_rank ? "under the plan" : "in rank order", s.most_other, s.most_other == 1 ? "" : "s");
	else
		print_text(out, SIDE, 46, "note", "Uplinks are crossed %u to %u times in a direction (%s: up to %u time%s).",
			   s.least, s.most, by_rank ? "under the plan" : "in rank order", s.most_other,
			   s.most_other == 1 ? "" : "s");
	for (unsigned ring = 0; ring < view->n_rings && ring < DDL__RING_COLOURS; ring++, x += 70) {
		fprintf(out, "<path class=\"ring\" stroke=\"%s\" d=\"M%.1f 62h18\"/>\n", colour(ring), x);
		print_text(out, x + 23, 66, "small", "ring %u", ring);
	}
	print_text(out, x + 8, 66, "small", "%s", by_rank ? "rings in rank order" : "rings of the plan");
}

static void print_bar(const struct ddl__draw *draw, size_t i, FILE *out)
{
	const struct ddl__draw_bar *bar = &draw->bars[i];
	const struct ddl__vertex *vertex = draw->view->vertices[i].vertex;
	const bool node = vertex->n_children == 0;
	const double middle = (bar->left + bar->right) / 2, bottom = node ? draw->height : bar->bottom;

	if (i > 0 && bar->n_strands > 0) {
		const double wide = bar->spacing * (double)bar->n_strands + 6;
		const double above = draw->bars[draw->view->vertices[i].parent].bottom;

		fprintf(out, "<rect class=\"link\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", middle - wide / 2,
			above, wide, bar->top - above);
	}
	fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"7\"/>\n",
		node ? "node" : "switch", bar->left, bar->top, bar->right - bar->left, bottom - bar->top);
}

static void print_piece(const struct ddl__draw *draw, const struct ddl__draw_piece *piece, FILE *out)
{
	const struct ddl__draw_bar *bar = &draw->bars[piece->bar];
	const double y = ddl__draw_track_y(draw, piece);
	const double below = draw->view->vertices[piece->bar].vertex->n_children == 0 ? draw->rank_y - DDL__DRAW_RADIUS
										      : bar->bottom;

	fprintf(out, "<path class=\"ring\" stroke=\"%s\" d=\"M%.1f %.1fV%.1fH%.1fV%.1f\"/>\n", colour(piece->ring), piece->from,
		piece->from_top ? bar->top : below, y, piece->to, piece->to_top ? bar->top : below);
}

/* A line on a link, with an arrow in its middle. */
static void print_strand(const struct ddl__draw *draw, const struct ddl__draw_strand *strand, FILE *out)
{
	const double top = draw->bars[draw->view->vertices[strand->bar].parent].bottom, bottom = draw->bars[strand->bar].top;
	const double y = top + (bottom - top) * (strand->up ? 0.4 : 0.6), tip = strand->up ? -5 : 5;

	fprintf(out, "<path class=\"ring\" stroke=\"%s\" d=\"M%.1f %.1fV%.1f\"/>", colour(strand->ring), strand->x, top, bottom);
	fprintf(out, "<path fill=\"%s\" d=\"M%.1f %.1fl-3.6 %.1fh7.2z\"/>\n", colour(strand->ring), strand->x, y + tip, -2 * tip);
}

static void print_rank(const struct ddl__draw *draw, int rank, FILE *out)
{
	const double x = draw->rank_x[rank];

	fprintf(out, "<circle class=\"rank\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", x, draw->rank_y, DDL__DRAW_RADIUS);
	if (draw->view->has_ranks)
		print_text(out, x, draw->rank_y + 4, "number", "%d", rank);
}

/* Where the count of an uplink is written: on the right of its lines. */
static double count_x(const struct ddl__draw_bar *bar)
{
	return (bar->left + bar->right) / 2 + bar->spacing * (double)bar->n_strands / 2 + 8;
}

static void print_count(const struct ddl__draw *draw, const struct ddl__draw_bar *bar, double y, const struct ddl__crossings *c,
			FILE *out)
{
	const bool many = larger(c->up, c->down) > draw->view->n_rings;

	print_text(out, count_x(bar), y, many ? "count many" : "count", "%u up, %u down", c->up, c->down);
}

/* How narrow an uplink is, below its count. */
static void print_ratio(const struct ddl__draw_bar *bar, double y, const struct ddl__vertex *vertex, FILE *out)
{
	char ratio[DDL__RATIO_SIZE];

	if (vertex->oversubscribed)
		print_text(out, count_x(bar), y, "small", "uplink %s",
			   ddl__ratio_format(vertex->oversubscribed, ratio, sizeof(ratio)));
}

/* Of everything, the counts of the uplinks on the right included. */
static double total_width(const struct ddl__draw *draw)
{
	double width = draw->width > MIN_WIDE ? draw->width : MIN_WIDE;

	for (size_t i = 1; i < draw->view->n_vertices; i++) {
		if (draw->view->vertices[i].vertex->n_children > 0 && count_x(&draw->bars[i]) + COUNT_WIDE > width)
			width = count_x(&draw->bars[i]) + COUNT_WIDE;
	}
	return width + 2 * SIDE;
}

static void print_names(const struct ddl__draw *draw, bool by_rank, FILE *out)
{
	const struct ddl__view *view = draw->view;

	for (size_t i = 0; i < view->n_vertices; i++) {
		const struct ddl__draw_bar *bar = &draw->bars[i];
		const struct ddl__view_vertex *v = &view->vertices[i];
		const struct ddl__crossings *c = by_rank ? &v->by_rank : &v->planned;
		const double middle = (bar->left + bar->right) / 2;

		if (v->vertex->n_children == 0) {
			print_text(out, middle, draw->name_y, "name", "%s", v->vertex->name);
			continue;
		}
		print_text(out, bar->left + 9, bar->top + 17, "bar", "%s", v->vertex->name);
		if (i == 0)
			continue;
		print_count(draw, bar, (draw->bars[v->parent].bottom + bar->top) / 2 + 5, c, out);
		print_ratio(bar, (draw->bars[v->parent].bottom + bar->top) / 2 + 21, v->vertex, out);
	}
}

static const char style[] = "<style>\n"
			    "text{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#1f2933}\n"
			    ".title{font-size:17px;font-weight:bold}.note{font-size:13px}.small{font-size:12px}\n"
			    ".bar{font-size:13px;font-weight:bold;paint-order:stroke;stroke:#e4e9ef;stroke-width:4px}\n"
			    ".name{font-size:12px;text-anchor:middle}.number{font-size:11px;text-anchor:middle}\n"
			    ".count{font-size:13px;font-weight:bold}.many{fill:#c0172b}\n"
			    ".switch{fill:#e4e9ef;stroke:#9aa5b1}.node{fill:#f7f9fb;stroke:#9aa5b1}.link{fill:#eceff3}\n"
			    ".rank{fill:#fff;stroke:#3e4c59;stroke-width:1.5}\n"
			    ".ring{fill:none;stroke-width:2;stroke-linejoin:round}\n"
			    "</style>\n";

int ddl__view_svg(const struct ddl__view *view, bool by_rank, FILE *out)
{
	struct ddl__draw *draw;
	double width, height;
	int rc = ddl__draw_create(view, by_rank, &draw);

	if (rc < 0)
		return rc;
	width = total_width(draw);
	height = draw->height + HEAD + SIDE;
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n%s",
		width, height, width, height, style);
	fprintf(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
	print_head(view, by_rank, out);
	fprintf(out, "<g transform=\"translate(%.0f %.0f)\">\n", SIDE, HEAD);
	for (size_t i = 0; i < view->n_vertices; i++)
		print_bar(draw, i, out);
	for (size_t i = 0; i < draw->n_pieces; i++)
		print_piece(draw, &draw->pieces[i], out);
	for (size_t i = 0; i < draw->n_strands; i++)
		print_strand(draw, &draw->strands[i], out);
	for (int rank = 0; rank < view->layout->n_ranks; rank++)
		print_rank(draw, rank, out);
	print_names(draw, by_rank, out);
	fputs("</g>\n</svg>\n", out);
	ddl__draw_destroy(draw);
	return 0;
}
