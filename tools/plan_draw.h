/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_draw.h - where everything of a drawing of a plan lies, in pixels.
 *
 * Drawn like a map of railway lines: every switch and node is a bar as wide as all below it, so that links are upright. A ring is a
 * line from rank to rank through the bars: upright along the links, where side by side lines show how often a link is crossed, and
 * level within the bars, each piece on a track of its own.
 */
#ifndef DDL_TOOLS_PLAN_DRAW_H
#define DDL_TOOLS_PLAN_DRAW_H

#include <stdbool.h>
#include <stddef.h>

#include "plan_view.h"

struct ddl__draw_bar {          /* one vertex */
	double left, right;     /* its sides */
	double top, bottom;     /* of the bar; a node's ranks are below its tracks, inside */
	double track;           /* height of a track */
	size_t n_tracks;        /* level pieces above each other */
	double spacing;         /* between the lines on the link to the parent */
	size_t n_strands;       /* lines on that link */
	size_t n_down, n_up;    /* of them: placed so far */
	size_t first, n_pieces; /* its pieces */
};

struct ddl__draw_piece {       /* of a ring, within one bar */
	size_t bar;            /* index of the vertex */
	unsigned ring;         /* whose */
	double from, to;       /* x where it enters and leaves */
	bool from_top, to_top; /* by the upper edge; else by the lower one */
	size_t track;          /* 0: the uppermost */
};

struct ddl__draw_strand { /* of a ring, on the link of a vertex to its parent */
	size_t bar;       /* index of the vertex */
	unsigned ring;    /* whose */
	double x;         /* upright line */
	bool up;          /* towards the parent */
};

struct ddl__draw {
	const struct ddl__view *view;   /* borrowed */
	double width, height;           /* of all bars, from 0 */
	struct ddl__draw_bar *bars;     /* one for each vertex of the view */
	struct ddl__draw_piece *pieces; /* sorted by bar */
	size_t n_pieces;
	struct ddl__draw_strand *strands;
	size_t n_strands;
	double *rank_x; /* middle of each rank */
	double rank_y;  /* middle of all ranks */
	double name_y;  /* base line of the nodes' names */
};

#define DDL__DRAW_RADIUS 11.0 /* of a rank */
#define DDL__DRAW_HEAD   18.0 /* of a switch's bar, for its name */

/* Lays a plan out; by_rank: the rings in rank order. Freed with ddl__draw_destroy(). Returns 0 or -ENOMEM. */
int ddl__draw_create(const struct ddl__view *view, bool by_rank, struct ddl__draw **draw);

/* Upright place of a piece's track. */
double ddl__draw_track_y(const struct ddl__draw *draw, const struct ddl__draw_piece *piece);

void ddl__draw_destroy(struct ddl__draw *draw);

#endif
