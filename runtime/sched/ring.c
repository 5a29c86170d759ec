/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - all-reduce around a ring: N-1 steps of reduce-scatter, N-1 of all-gather, each rank sending to its successor in the
 * plan's order. 2(N-1)/N * S bytes leave and enter every rank, the least possible (Patarasuk and Yuan, 2009), and every uplink
 * carries just that once in each direction, since the order crosses it once.
 *
 * The data is cut into parts (one a ring, a lane each), a part into pieces, a piece into N chunks. A chunk is at most half of the
 * receiver's slots, so that every rank may send its first chunk before it receives; the next piece follows without a pause.
 * Position p of the ring owns chunk (p+1) mod N: it adds the last contribution, keeps what it sends, and everybody copies that.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 8, CHUNK_SLICES = 4, GRAIN = 16 };
enum { SLICE_BYTES_MAX = 256 * 1024, SLICE_BYTES_MIN = 32 * 1024 };

struct cut {             /* how a part is cut; the same on every rank */
	uint64_t grain;  /* elements: chunks are multiples of it */
	uint64_t pieces; /* per part */
	uint64_t slice;  /* elements */
};

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static struct cut cut_part(const struct ddl__build *build, uint64_t largest_part)
{
	uint64_t n = (uint64_t)build->layout->n_ranks;
	uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
	uint64_t min = SLICE_BYTES_MIN / build->wire_bytes;
	struct cut cut = { .grain = ddl__grain(build, largest_part >= n * GRAIN * 4 ? GRAIN : 1) };

	max = max ? max : 1;
	min = min < max ? min : max;
	cut.pieces = ceil_div(largest_part, n * max * CHUNK_SLICES);
	cut.pieces = cut.pieces ? cut.pieces : 1;
	uint64_t piece = ceil_div(ceil_div(largest_part, cut.grain), cut.pieces) * cut.grain;
	uint64_t chunk = ceil_div(ceil_div(piece, cut.grain), n) * cut.grain;
	cut.slice = ceil_div(chunk, CHUNK_SLICES);
	cut.slice = cut.slice > min ? cut.slice : min;
	cut.slice = cut.slice < chunk || chunk == 0 ? cut.slice : chunk;
	cut.slice = ddl__whole_blocks(build, cut.slice);
	return cut;
}

static void add_piece(struct ddl__steps *lane, uint64_t begin, uint64_t count, uint64_t n, uint64_t position, uint64_t grain)
{
	for (uint64_t k = 0; k <= 2 * (n - 1); k++) {
		/* step k sends the chunk that it received (k > 0) and that the successor receives in its step k+1 */
		enum ddl__step_kind kind = k == 0            ? DDL__SEND
					   : k < n - 1       ? DDL__RECV_REDUCE_SEND
					   : k == n - 1      ? DDL__RECV_REDUCE_STORE_SEND
					   : k < 2 * (n - 1) ? DDL__RECV_STORE_SEND
							     : DDL__RECV;
		uint64_t at, m;
		ddl__split(count, n, (position + 2 * n - k) % n, grain, &at, &m);
		if (m == 0)
			continue; /* empty on every rank alike */
		struct ddl__step *step = ddl__schedule_add(lane, kind, DDL__INPUT, begin + at, DDL__OUTPUT, begin + at, m);
		step->final = kind == DDL__RECV_REDUCE_STORE_SEND;
		/* A chunk comes back complete only after the successor has read it; then nobody needs what was there before. */
		step->lend = k == 0;
		step->place = k >= n - 1 && k < 2 * (n - 1);
		/* Two ranks: a chunk and the answer to it take all slots at most, and the answer is read before the next chunk. */
		step->answer = n == 2 && k == 1;
	}
}

static int build_lane(const struct ddl__build *build, struct ddl__steps *lane, const int *order, uint64_t begin, uint64_t count,
		      const struct cut *cut)
{
	uint64_t n = (uint64_t)build->layout->n_ranks, position = 0;
	if (count == 0)
		return 0;
	while (order[position] != build->rank)
		position++;
	lane->send_peer = order[(position + 1) % n];
	lane->recv_peer = order[(position + n - 1) % n];
	int rc = ddl__schedule_reserve(lane, cut->pieces * (2 * n - 1));
	if (rc < 0)
		return rc;
	for (uint64_t p = 0; p < cut->pieces; p++) {
		uint64_t at, m;
		ddl__split(count, cut->pieces, p, cut->grain, &at, &m);
		if (m)
			add_piece(lane, begin + at, m, n, position, cut->grain);
	}
	return 0;
}

int ddl__build_ring(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	int n = build->layout->n_ranks;
	uint32_t rings = n == 1 ? 1 : build->rings;
	struct ddl__schedule *s;
	uint64_t begin, count;
	int rc = ddl__schedule_create(build->count ? rings : 0, &s);
	if (rc < 0 || build->count == 0) {
		if (rc == 0)
			*schedule = s;
		return rc;
	}
	int *order = calloc((size_t)n, sizeof(*order));
	if (!order) {
		rc = -ENOMEM;
		goto destroy;
	}
	ddl__split(build->count, rings, 0, ddl__grain(build, GRAIN), &begin, &count); /* the first part is the largest */
	struct cut cut = cut_part(build, count);
	s->slots = SLOTS;
	s->slice_elements = cut.slice;
	if (n == 1) {
		rc = ddl__schedule_reserve(&s->lanes[0], 1);
		if (rc < 0)
			goto free_order;
		s->slice_elements = build->count;
		ddl__schedule_add(&s->lanes[0], DDL__COPY, DDL__INPUT, 0, DDL__OUTPUT, 0, build->count)->final = 1;
	}
	for (uint32_t r = 0; n > 1 && r < rings; r++) {
		ddl__split(build->count, rings, r, ddl__grain(build, GRAIN), &begin, &count);
		ddl__layout_order(build->layout, r, order);
		rc = build_lane(build, &s->lanes[r], order, begin, count, &cut);
		if (rc < 0)
			goto free_order;
	}
	free(order);
	*schedule = s;
	return 0;

free_order:
	free(order);
destroy:
	ddl__schedule_destroy(s);
	return rc;
}
