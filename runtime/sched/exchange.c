/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.c - all-reduce in one hop: every rank sends its whole input to all others and reduces all N inputs by itself. That is
 * N - 1 times the bytes of doubling's round, but one latency however many ranks there are: for short messages between near ranks.
 *
 * The same bits everywhere: all ranks reduce the same N values, as they were rounded to the wire, in the order of ranks, in one
 * pass that rounds once.
 *
 * Lane d, 1 ... N-1, goes from every rank to the one d further in ring order. A long message goes in pieces, of which two are under
 * way: the scratch buffer has a half for even pieces and one for odd ones, each with a block for every rank. For each piece i:
 *     send (my input to piece i+1; in lane 1 I keep it as it was rounded), receive (theirs of piece i) into the sender's block
 * and in the last lane reduce, all blocks into the output. A receive waits for that of the lane before, so that the reduction waits
 * for all; what lane 1 sends into a half waits for the reduction that used it last, and all others wait for lane 1.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 4, PIECE_BYTES = 16 * 1024, SCRATCH_BYTES = 8 * 1024 * 1024, PIECE_BYTES_MIN = 64 };

struct maker {
	const struct ddl__build *build;
	struct ddl__schedule *schedule;
	const int *order;     /* ranks in ring order */
	uint64_t n, position; /* ranks, and this one's place in the ring */
	uint64_t pieces;
	uint64_t length;    /* elements of a piece, but for the last */
	uint32_t *received; /* [lane][piece]: its step */
	uint32_t *reduced;  /* [piece]: its step in the last lane */
};

/* Where the block of a rank lies for a piece. */
static uint64_t block_of(const struct maker *m, int rank, uint64_t piece)
{
	return ((piece % 2) * m->n + (uint64_t)rank) * m->length;
}

static uint64_t count_of(const struct maker *m, uint64_t piece)
{
	uint64_t left = m->build->count - piece * m->length;
	return left < m->length ? left : m->length;
}

static void add_send(struct maker *m, struct ddl__steps *lane, uint64_t d, uint64_t piece)
{
	struct ddl__step *step = ddl__schedule_add(lane, d == 1 ? DDL__SEND_STORE : DDL__SEND, DDL__INPUT, piece * m->length,
						   DDL__SCRATCH, block_of(m, m->build->rank, piece), count_of(m, piece));
	if (d == 1 && piece >= 2 && m->n > 2) {
		step->wait_lane = (uint32_t)m->n - 2;
		step->wait_step = m->reduced[piece - 2];
	}
}

static void add_receive(struct maker *m, struct ddl__steps *lane, uint64_t d, uint64_t piece)
{
	m->received[(d - 1) * m->pieces + piece] = lane->n;
	struct ddl__step *step = ddl__schedule_add(lane, DDL__RECV, DDL__SCRATCH, 0, DDL__SCRATCH,
						   block_of(m, lane->recv_peer, piece), count_of(m, piece));
	if (d > 1) {
		step->wait_lane = (uint32_t)d - 2;
		step->wait_step = m->received[(d - 2) * m->pieces + piece];
	}
}

static void add_reduce(struct maker *m, struct ddl__steps *lane, uint64_t piece)
{
	struct ddl__step *step = ddl__schedule_add(lane, DDL__REDUCE_MANY, DDL__SCRATCH, block_of(m, 0, piece), DDL__OUTPUT,
						   piece * m->length, count_of(m, piece));
	step->sources = (uint32_t)m->n;
	step->stride = m->length;
	step->final = 1;
}

/* Where each reduction will be in the last lane: there, as in all, sends are one piece ahead. */
static void place_reductions(struct maker *m)
{
	for (uint64_t p = 0; p < m->pieces; p++)
		m->reduced[p] = (uint32_t)(3 * p + 2 + (p + 1 < m->pieces));
}

static int build_lanes(struct maker *m)
{
	while (m->order[m->position] != m->build->rank)
		m->position++;
	place_reductions(m);
	for (uint64_t d = 1; d < m->n; d++) {
		struct ddl__steps *lane = &m->schedule->lanes[d - 1];
		lane->send_peer = m->order[(m->position + d) % m->n];
		lane->recv_peer = m->order[(m->position + m->n - d) % m->n];
		int rc = ddl__schedule_reserve(lane, 3 * m->pieces);
		if (rc < 0)
			return rc;
		add_send(m, lane, d, 0);
		for (uint64_t p = 0; p < m->pieces; p++) {
			if (p + 1 < m->pieces)
				add_send(m, lane, d, p + 1);
			add_receive(m, lane, d, p);
			if (d == m->n - 1)
				add_reduce(m, lane, p);
		}
	}
	return 0;
}

/* A piece is one slice; what all ranks' blocks take is bounded, as far as there are not too many of them. */
static void choose_pieces(struct maker *m)
{
	const struct ddl__build *b = m->build;
	uint64_t room = SCRATCH_BYTES / 2 / m->n;
	room = room > PIECE_BYTES ? PIECE_BYTES : room > PIECE_BYTES_MIN ? room : PIECE_BYTES_MIN;
	m->length = (b->slice_bytes ? b->slice_bytes : room) / b->wire_bytes;
	m->length = ddl__whole_blocks(b, m->length ? m->length : 1);
	m->length = m->length < b->count ? m->length : b->count;
	m->pieces = (b->count + m->length - 1) / m->length;
	m->schedule->slots = SLOTS;
	m->schedule->slice_elements = m->length;
	m->schedule->scratch_elements = (m->pieces > 1 ? 2 : 1) * m->n * m->length;
}

int ddl__build_exchange(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	struct maker m = { .build = build, .n = (uint64_t)build->layout->n_ranks };
	if (m.n == 1 || build->count == 0)
		return ddl__build_ring(build, schedule);
	if (m.n > DDL__EXCHANGE_RANKS_MAX)
		return ddl__build_doubling(build, schedule);
	int rc = ddl__schedule_create((uint32_t)m.n - 1, &m.schedule);
	if (rc < 0)
		return rc;
	choose_pieces(&m);
	int *order = calloc(m.n, sizeof(*order));
	m.received = calloc((m.n - 1) * m.pieces, sizeof(*m.received));
	m.reduced = calloc(m.pieces, sizeof(*m.reduced));
	rc = order && m.received && m.reduced ? 0 : -ENOMEM;
	if (rc == 0) {
		ddl__layout_order(build->layout, 0, order);
		m.order = order;
		rc = build_lanes(&m);
	}
	free(m.reduced);
	free(m.received);
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(m.schedule);
	else
		*schedule = m.schedule;
	return rc;
}
