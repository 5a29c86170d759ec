/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_draw.c - lays a plan out: first all x from left to right, then the rings' pieces and their tracks, then all y.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_draw.h"

#define RANK_WIDTH   32.0  /* a rank with its share of the gaps */
#define LETTER       7.2   /* of a name, about */
#define SWITCH_WIDTH 130.0 /* at least, so that its uplink's count has room beside it */
#define NODE_GAP     16.0  /* between nodes */
#define SWITCH_GAP   30.0  /* between switches */
#define LINK_HEIGHT  62.0  /* between the rows of bars */
#define STRAND       6.0   /* between lines on a link, at most */
#define TRACK        7.0   /* between tracks, at most */
#define TRACKS_HIGH  320.0 /* height of all tracks of a bar, at most */
#define RANK_LINK    20.0  /* from a node's tracks to its ranks */
#define NAME_HEIGHT  20.0  /* below the ranks */
#define MARGIN       7.0   /* above and below the tracks */

static bool is_node(const struct ddl__draw *draw, size_t i)
{
	return draw->view->vertices[i].vertex->n_children == 0;
}

/* Width of a node's ranks side by side. */
static double ranks_width(const struct ddl__draw *draw, const struct ddl__vertex *node)
{
	const struct ddl__layout *layout = draw->view->layout;

	return RANK_WIDTH * (double)(layout->first[node->node + 1] - layout->first[node->node]);
}

static double gap_before(const struct ddl__vertex *child)
{
	return child->n_children ? SWITCH_GAP : NODE_GAP;
}

/* Width of a vertex and *below, that of all below it. */
static double width_of(const struct ddl__draw *draw, const struct ddl__vertex *vertex, double *below)
{
	const double least = vertex->n_children ? SWITCH_WIDTH : LETTER * (double)strlen(vertex->name) + 14;
	double child_below;

	*below = vertex->n_children ? 0 : ranks_width(draw, vertex);
	for (size_t i = 0; i < vertex->n_children; i++)
		*below += (i ? gap_before(vertex->children[i]) : 0) + width_of(draw, vertex->children[i], &child_below);
	return *below > least ? *below : least;
}

/* Places vertex i (and all below it, which follow it) from x on; returns the vertex behind them. */
static size_t place_x(struct ddl__draw *draw, size_t i, double x)
{
	const struct ddl__layout *layout = draw->view->layout;
	const struct ddl__vertex *vertex = draw->view->vertices[i].vertex;
	struct ddl__draw_bar *bar = &draw->bars[i];
	size_t next = i + 1;
	double below;

	bar->left = x;
	bar->right = x + width_of(draw, vertex, &below);
	x += (bar->right - bar->left - below) / 2;
	if (vertex->n_children == 0) {
		for (size_t k = layout->first[vertex->node]; k < layout->first[vertex->node + 1]; k++, x += RANK_WIDTH)
			draw->rank_x[layout->ranks[k]] = x + RANK_WIDTH / 2;
		return next;
	}
	for (size_t child = 0; child < vertex->n_children; child++) {
		const size_t own = next;

		if (child > 0)
			x += gap_before(vertex->children[child]);
		next = place_x(draw, own, x);
		x = draw->bars[own].right;
	}
	return next;
}

/* The next free line on the link of a vertex: those down on the left, those up on the right of them. */
static double take_strand(struct ddl__draw *draw, size_t i, unsigned ring, bool up, size_t n_down_all)
{
	struct ddl__draw_bar *bar = &draw->bars[i];
	const size_t slot = up ? n_down_all + bar->n_up++ : bar->n_down++;
	const double x = (bar->left + bar->right) / 2 + ((double)slot - ((double)bar->n_strands - 1) / 2) * bar->spacing;

	draw->strands[draw->n_strands++] = (struct ddl__draw_strand){ i, ring, x, up };
	return x;
}

static void add_piece(struct ddl__draw *draw, size_t bar, unsigned ring, double from, bool from_top, double to, bool to_top)
{
	draw->pieces[draw->n_pieces++] = (struct ddl__draw_piece){ bar, ring, from, to, from_top, to_top, 0 };
	draw->bars[bar].n_pieces++;
}

static const struct ddl__crossings *crossings(const struct ddl__draw *draw, size_t i, bool by_rank)
{
	const struct ddl__view_vertex *v = &draw->view->vertices[i];

	return by_rank ? &v->by_rank : &v->planned;
}

/* Where ring leaves (out) or enters a rank. */
static double rank_port(const struct ddl__draw *draw, int rank, unsigned ring, bool out)
{
	const double lines = 2.0 * draw->view->n_rings, step = 1.4 * DDL__DRAW_RADIUS / lines;

	return draw->rank_x[rank] + (2.0 * ring + out - (lines - 1) / 2) * step;
}

struct hop {               /* from one rank to the next */
	int from, to;      /* ranks */
	size_t start, end; /* their nodes' vertices */
	unsigned ring;     /* whose */
	bool by_rank;      /* ring in rank order */
};

/* Draws a hop: up from its node to the vertex that both are below, then down. */
static void draw_hop(struct ddl__draw *draw, const struct hop *hop)
{
	const struct ddl__view_vertex *vertices = draw->view->vertices;
	size_t down[DDL__PLAN_DEPTH_MAX + 2], n = 0, at = hop->start, to = hop->end;
	double x = rank_port(draw, hop->from, hop->ring, true);
	bool from_top = false;

	while (at != to) {
		if (vertices[at].depth < vertices[to].depth) {
			down[n++] = to;
			to = vertices[to].parent;
			continue;
		}
		const double next = take_strand(draw, at, hop->ring, true, crossings(draw, at, hop->by_rank)->down);

		add_piece(draw, at, hop->ring, x, false, next, true);
		x = next;
		at = vertices[at].parent;
	}
	while (n-- > 0) {
		const double next = take_strand(draw, down[n], hop->ring, false, 0);

		add_piece(draw, at, hop->ring, x, from_top, next, false);
		x = next;
		at = down[n];
		from_top = true;
	}
	add_piece(draw, at, hop->ring, x, from_top, rank_port(draw, hop->to, hop->ring, false), false);
}

static int draw_rings(struct ddl__draw *draw, bool by_rank)
{
	const struct ddl__view *view = draw->view;
	const int n = view->layout->n_ranks;
	size_t *places = calloc(view->plan->n_nodes, sizeof(*places));

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < view->n_vertices; i++) {
		if (is_node(draw, i))
			places[view->vertices[i].vertex->node] = i;
	}
	for (unsigned ring = 0; ring < view->n_rings && n > 1; ring++) {
		const int *order = ddl__view_ring(view, ring);

		for (int i = 0; i < n; i++) {
			const int from = by_rank ? i : order[i], to = by_rank ? (i + 1) % n : order[(i + 1) % n];
			const struct hop hop = {
				.from = from,
				.to = to,
				.start = places[view->layout->node_of_rank[from]],
				.end = places[view->layout->node_of_rank[to]],
				.ring = ring,
				.by_rank = by_rank,
			};
			draw_hop(draw, &hop);
		}
	}
	free(places);
	return 0;
}

static double left_of(const struct ddl__draw_piece *piece)
{
	return piece->from < piece->to ? piece->from : piece->to;
}

static double right_of(const struct ddl__draw_piece *piece)
{
	return piece->from < piece->to ? piece->to : piece->from;
}

/* By bar, and within it from left to right, long ones first. */
static int by_place(const void *a, const void *b)
{
	const struct ddl__draw_piece *x = a, *y = b;

	if (x->bar != y->bar)
		return x->bar < y->bar ? -1 : 1;
	if (left_of(x) != left_of(y))
		return left_of(x) < left_of(y) ? -1 : 1;
	return (right_of(x) < right_of(y)) - (right_of(x) > right_of(y));
}

/* Gives every piece the uppermost track that is free where it begins. */
static int assign_tracks(struct ddl__draw *draw)
{
	double *ends = calloc(draw->n_pieces + 1, sizeof(*ends));

	if (!ends)
		return -ENOMEM;
	qsort(draw->pieces, draw->n_pieces, sizeof(*draw->pieces), by_place);
	for (size_t i = 0; i < draw->n_pieces; i++) {
		struct ddl__draw_piece *piece = &draw->pieces[i];
		struct ddl__draw_bar *bar = &draw->bars[piece->bar];
		size_t track = 0;

		if (i == 0 || draw->pieces[i - 1].bar != piece->bar)
			bar->first = i;
		while (track < bar->n_tracks && ends[track] > left_of(piece) - 3)
			track++;
		piece->track = track;
		ends[track] = right_of(piece);
		if (track == bar->n_tracks)
			bar->n_tracks++;
	}
	for (size_t i = 0; i < draw->view->n_vertices; i++) {
		struct ddl__draw_bar *bar = &draw->bars[i];

		bar->track = bar->n_tracks * TRACK > TRACKS_HIGH ? TRACKS_HIGH / (double)bar->n_tracks : TRACK;
	}
	free(ends);
	return 0;
}

static double bar_height(const struct ddl__draw *draw, size_t i)
{
	const double tracks = 2 * MARGIN + draw->bars[i].track * (double)draw->bars[i].n_tracks;

	return is_node(draw, i) ? tracks : tracks + DDL__DRAW_HEAD;
}

/* Switches of one depth in one row, all nodes in the last. */
static void place_y(struct ddl__draw *draw)
{
	const struct ddl__view *view = draw->view;
	double rows[DDL__PLAN_DEPTH_MAX + 2] = { 0 }, tops[DDL__PLAN_DEPTH_MAX + 3] = { 0 }, nodes = 0;
	size_t n_rows = 0;

	for (size_t i = 0; i < view->n_vertices; i++) {
		const size_t depth = view->vertices[i].depth;
		const double height = bar_height(draw, i);

		if (is_node(draw, i)) {
			nodes = height > nodes ? height : nodes;
			continue;
		}
		rows[depth] = height > rows[depth] ? height : rows[depth];
		n_rows = depth + 1 > n_rows ? depth + 1 : n_rows;
	}
	for (size_t row = 0; row < n_rows; row++)
		tops[row + 1] = tops[row] + rows[row] + LINK_HEIGHT;
	draw->rank_y = tops[n_rows] + nodes + RANK_LINK + DDL__DRAW_RADIUS;
	draw->name_y = draw->rank_y + DDL__DRAW_RADIUS + NAME_HEIGHT - 5;
	draw->height = draw->rank_y + DDL__DRAW_RADIUS + NAME_HEIGHT + 4;
	for (size_t i = 0; i < view->n_vertices; i++) {
		const size_t depth = view->vertices[i].depth;

		draw->bars[i].top = is_node(draw, i) ? tops[n_rows] : tops[depth];
		draw->bars[i].bottom = is_node(draw, i) ? tops[n_rows] + nodes : tops[depth] + rows[depth];
	}
}

/* Distances of the lines on every link; returns how many there are. */
static size_t space_strands(struct ddl__draw *draw, bool by_rank)
{
	size_t all = 0;

	for (size_t i = 1; i < draw->view->n_vertices; i++) {
		struct ddl__draw_bar *bar = &draw->bars[i];
		const struct ddl__crossings *c = crossings(draw, i, by_rank);
		const double room = (bar->right - bar->left - 10) / ((double)c->up + c->down + 1);

		bar->n_strands = (size_t)c->up + c->down;
		bar->spacing = room < STRAND ? room : STRAND;
		all += bar->n_strands;
	}
	return all;
}

int ddl__draw_create(const struct ddl__view *view, bool by_rank, struct ddl__draw **draw)
{
	struct ddl__draw *d = calloc(1, sizeof(*d));
	const size_t hops = (size_t)view->layout->n_ranks * view->n_rings;
	size_t n_strands;
	int rc = -ENOMEM;

	if (!d)
		return -ENOMEM;
	d->view = view;
	d->bars = calloc(view->n_vertices, sizeof(*d->bars));
	d->rank_x = calloc((size_t)view->layout->n_ranks, sizeof(*d->rank_x));
	if (!d->bars || !d->rank_x)
		goto fail;
	place_x(d, 0, 0);
	d->width = d->bars[0].right;
	n_strands = space_strands(d, by_rank);
	d->strands = calloc(n_strands + 1, sizeof(*d->strands));
	d->pieces = calloc(n_strands + hops, sizeof(*d->pieces)); /* a hop has one more than lines on links */
	if (!d->strands || !d->pieces)
		goto fail;
	rc = draw_rings(d, by_rank);
	if (rc == 0)
		rc = assign_tracks(d);
	if (rc < 0)
		goto fail;
	place_y(d);
	*draw = d;
	return 0;
fail:
	ddl__draw_destroy(d);
	return rc;
}

double ddl__draw_track_y(const struct ddl__draw *draw, const struct ddl__draw_piece *piece)
{
	const struct ddl__draw_bar *bar = &draw->bars[piece->bar];
	const double head = is_node(draw, piece->bar) ? 0 : DDL__DRAW_HEAD;

	return bar->top + head + MARGIN + bar->track * ((double)piece->track + 0.5);
}

void ddl__draw_destroy(struct ddl__draw *draw)
{
	if (!draw)
		return;
	free(draw->bars);
	free(draw->rank_x);
	free(draw->pieces);
	free(draw->strands);
	free(draw);
}
