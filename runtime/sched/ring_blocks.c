/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_blocks.c - reduce-scatter and all-gather around a ring: the two halves of ring.c, for blocks of any size. N-1 steps; every
 * block leaves every rank but one once, the least possible (Patarasuk and Yuan, 2009), and the order crosses each uplink once.
 *
 * Each block is cut into parts (one a ring, a lane each), each part into as many pieces as make the largest at most half of the
 * receiver's slots, so that every rank may send its first piece before it receives. Ranks whose blocks are empty pass on only.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "shape.h"

enum { SLOTS = 8, PIECE_SLICES = 4, GRAIN = 16 };
enum { SLICE_BYTES_MAX = 256 * 1024, SLICE_BYTES_MIN = 32 * 1024 };

struct ring { /* of one lane */
	const struct ddl__build *build;
	const uint64_t *at; /* where blocks begin, by rank */
	int *order;         /* ranks by position */
	uint64_t n;         /* ranks */
	uint64_t me;        /* this rank's position */
	uint32_t index;     /* of the ring */
	uint64_t pieces;    /* a part */
};

typedef void (*add_pieces)(const struct ring *ring, struct ddl__steps *lane, uint64_t piece);

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

/* Where the piece of this ring of the block of the rank at a position lies in the whole. */
static uint64_t piece_of(const struct ring *ring, uint64_t position, uint64_t piece, uint64_t *at)
{
	int rank = ring->order[position % ring->n];
	uint64_t begin, part, more, count;
	ddl__split(ddl__block(ring->build, rank), ring->build->rings, ring->index, ddl__grain(ring->build, GRAIN), &begin, &part);
	ddl__split(part, ring->pieces, piece, ddl__grain(ring->build, 1), &more, &count);
	*at = ring->at[rank] + begin + more;
	return count;
}

/* Step k sends what step k-1 received reduced; the last step receives the own block. */
static void add_reduce_scatter(const struct ring *ring, struct ddl__steps *lane, uint64_t piece)
{
	uint64_t n = ring->n, own = ring->at[ring->build->rank];
	for (uint64_t k = 0; k < n; k++) {
		enum ddl__step_kind kind = k == 0 ? DDL__SEND : k < n - 1 ? DDL__RECV_REDUCE_SEND : DDL__RECV_REDUCE;
		uint64_t at, count = piece_of(ring, ring->me + 2 * n - 1 - k, piece, &at);
		if (count == 0)
			continue; /* empty on every rank alike */
		struct ddl__step *step = ddl__schedule_add(lane, kind, DDL__INPUT, at, DDL__OUTPUT, k == n - 1 ? at - own : 0,
							   count);
		step->final = k == n - 1;
		step->lend = k == 0; /* in place only the own block is written, and that is not sent */
	}
}

/* Step k sends what step k-1 received; the first sends the own block, which is then copied to its place, or kept as it was sent. */
static void add_allgather(const struct ring *ring, struct ddl__steps *lane, uint64_t piece)
{
	uint64_t n = ring->n, own = ring->at[ring->build->rank];
	for (uint64_t k = 0; k < n; k++) {
		enum ddl__step_kind first = ring->build->rounds ? DDL__SEND_STORE : DDL__SEND;
		enum ddl__step_kind kind = k == 0 ? first : k < n - 1 ? DDL__RECV_STORE_SEND : DDL__RECV;
		uint64_t at, count = piece_of(ring, ring->me + n - k, piece, &at);
		if (count == 0)
			continue;
		struct ddl__step *step = ddl__schedule_add(lane, kind, DDL__INPUT, k == 0 ? at - own : 0, DDL__OUTPUT, at, count);
		step->lend = k == 0;
		step->place = k < n - 1;
		if (kind == DDL__SEND)
			ddl__schedule_add(lane, DDL__COPY, DDL__INPUT, at - own, DDL__OUTPUT, at, count);
	}
}

/* Chooses the slice and how many pieces a part has; the same on every rank. */
static uint64_t cut(const struct ddl__build *build, struct ddl__schedule *s)
{
	uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
	uint64_t min = SLICE_BYTES_MIN / build->wire_bytes, largest = 0, begin, part;
	for (int r = 0; r < build->layout->n_ranks; r++)
		if (ddl__block(build, r) > largest)
			largest = ddl__block(build, r);
	ddl__split(largest, build->rings, 0, ddl__grain(build, GRAIN), &begin, &part); /* the first part is the largest */
	max = max ? max : 1;
	min = min < max ? min : max;
	uint64_t pieces = ceil_div(part, max * PIECE_SLICES);
	pieces = pieces ? pieces : 1;
	uint64_t slice = ceil_div(ceil_div(ddl__whole_blocks(build, part), pieces), PIECE_SLICES);
	s->slots = SLOTS;
	s->slice_elements = ddl__whole_blocks(build, slice > min ? slice : min ? min : 1);
	return pieces;
}

static int build_lanes(struct ring *ring, add_pieces add, struct ddl__schedule *s)
{
	const struct ddl__build *build = ring->build;
	ring->pieces = cut(build, s);
	for (ring->index = 0; ring->index < s->n_lanes; ring->index++) {
		struct ddl__steps *lane = &s->lanes[ring->index];
		ddl__layout_order(build->layout, ring->index, ring->order);
		for (ring->me = 0; ring->order[ring->me] != build->rank;)
			ring->me++;
		lane->send_peer = ring->order[(ring->me + 1) % ring->n];
		lane->recv_peer = ring->order[(ring->me + ring->n - 1) % ring->n];
		int rc = ddl__schedule_reserve(lane, ring->pieces * (ring->n + 1));
		if (rc < 0)
			return rc;
		for (uint64_t p = 0; p < ring->pieces; p++)
			add(ring, lane, p);
	}
	return 0;
}

static int build_half(const struct ddl__build *build, add_pieces add, struct ddl__schedule **schedule)
{
	int n = build->layout->n_ranks;
	uint64_t *at = ddl__displacements(n, build->counts, build->count);
	int *order = calloc((size_t)n, sizeof(*order));
	struct ring ring = { .build = build, .at = at, .order = order, .n = (uint64_t)n };
	struct ddl__schedule *s = NULL;
	int rc = at && order ? 0 : -ENOMEM;
	rc = rc ? rc : ddl__schedule_create(at[n] == 0 ? 0 : n == 1 ? 1 : build->rings, &s);
	if (rc == 0 && n == 1 && at[n]) {
		rc = ddl__schedule_reserve(&s->lanes[0], 1);
		if (rc == 0) {
			s->slice_elements = at[n];
			ddl__schedule_add(&s->lanes[0], DDL__COPY, DDL__INPUT, 0, DDL__OUTPUT, 0, at[n])->final = 1;
		}
	} else if (rc == 0) {
		rc = build_lanes(&ring, add, s);
	}
	free(at);
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
	return rc;
}

int ddl__build_ring_reduce_scatter(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_half(build, add_reduce_scatter, schedule);
}

int ddl__build_ring_allgather(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_half(build, add_allgather, schedule);
}
