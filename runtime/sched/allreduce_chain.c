/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce_chain.c - all-reduce along the ranks by their numbers: rank 0 sends to rank 1, which adds its own and sends to rank 2,
 * and so on to the last; from there the result comes back the same way. Contributions are added in the order of ranks, whatever the
 * message's length, and each rank sends and receives the message twice, as around a ring. What it costs: 2(N-1) slices until the
 * first comes back, and that it goes by rank numbers, not by switches.
 *
 * The message is cut over `rings` chains of two lanes, up and down. Slices go down while others still go up: rank r's step down
 * waits for nothing, since what comes down it has sent up before. Only the last rank turns: its lane down waits for the lane up,
 * piece by piece. A piece is a slice.
 */
#include "chain_lanes.h"

enum { SLOTS = 8, GRAIN = 16, SLICE_BYTES_MIN = 4 * 1024 };

/* One piece in both lanes of a chain. */
static void add_piece(const struct ddl__build *build, struct ddl__schedule *s, uint32_t up, uint64_t begin, uint64_t count)
{
	struct ddl__steps *lanes = &s->lanes[up];
	const bool first = build->rank == 0, last = build->rank == build->layout->n_ranks - 1;
	const enum ddl__step_kind kinds[] = { first  ? DDL__SEND
					      : last ? DDL__RECV_REDUCE
						     : DDL__RECV_REDUCE_SEND,
					      last    ? DDL__SEND_STORE
					      : first ? DDL__RECV
						      : DDL__RECV_STORE_SEND };
	struct ddl__step *step = ddl__schedule_add(&lanes[0], kinds[0], DDL__INPUT, begin, DDL__OUTPUT, begin, count);
	step->final = last;
	step->lend = first; /* it comes back complete, so after it was read */
	step = ddl__schedule_add(&lanes[1], kinds[1], DDL__OUTPUT, begin, DDL__OUTPUT, begin, count);
	step->place = !first;
	step->lend = last;
	step->wait_lane = up; /* in place the result takes the room of what was sent up; the last has added by then */
	step->wait_step = lanes[0].n - 1;
}

int ddl__build_allreduce_chain(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	const int n = build->layout->n_ranks;
	struct ddl__schedule *s;
	if (n == 1 || build->count == 0)
		return ddl__build_ring(build, schedule);
	int rc = ddl__schedule_create(2 * build->rings, &s);
	if (rc < 0)
		return rc;
	s->slots = SLOTS;
	s->slice_elements = ddl__chain_slice(build, SLICE_BYTES_MIN);
	for (uint32_t r = 0; rc == 0 && r < build->rings; r++) {
		const bool first = build->rank == 0, last = build->rank == n - 1;
		struct ddl__steps *up = &s->lanes[2 * r], *down = up + 1;
		uint64_t begin, count;
		ddl__split(build->count, build->rings, r, ddl__grain(build, GRAIN), &begin, &count);
		const uint64_t pieces = (count + s->slice_elements - 1) / s->slice_elements;
		up->recv_peer = down->send_peer = first ? -1 : build->rank - 1;
		up->send_peer = down->recv_peer = last ? -1 : build->rank + 1;
		rc = ddl__schedule_reserve(up, pieces);
		rc = rc ? rc : ddl__schedule_reserve(down, pieces);
		for (uint64_t at = 0; rc == 0 && at < count; at += s->slice_elements)
			add_piece(build, s, 2 * r, begin + at, count - at < s->slice_elements ? count - at : s->slice_elements);
	}
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
	return rc;
}
