/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.c - all-reduce straight to the owners: the message is cut into N chunks, every rank sends chunk j to its owner, the owner
 * adds all contributions and sends the result to everybody. 2(N-1)/N * S bytes like a ring, but two latencies only, and with a
 * lossy wire one rounding of each contribution and one of the result, however many ranks there are: the partial sum stays in the
 * owner's memory. The price is N-1 messages at once at every rank.
 *
 * Lane d, 1 ... N-1, goes from every rank to the one d further in ring order. The owner adds its own contribution, then that of
 * lane 1, 2, ...: the order is fixed, whatever comes first. Where contributions are to be added in the order of ranks, or memory
 * would round the partial sum, the owner first collects them all, its own too as it would have arrived, and reduces them in one
 * pass: the scratch buffer has a block for every rank, twice, for even and odd pieces. A long message goes in pieces: while one is
 * gathered, the next is added and the one after that is sent. In a lane, for each piece i:
 *     send (my contribution to piece i), reduce (theirs to piece i-1), give (my result of piece i-2), take (theirs of piece i-3)
 * or, collecting, for "reduce" to receive; and in the last lane, when all have been received, to add (sum).
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { COLLECTED_BYTES = 1024 * 1024 }; /* in a piece, by all ranks: what stays in a cache */
/* A lane's receiver holds three contributions and results at most that its sender may be ahead. */
enum { SLOTS = 4, GRAIN = 16, SLICE_BYTES_MAX = 256 * 1024, SLOT_BYTES_ALL = 32 * 1024 * 1024, SLICE_BYTES_MIN = 1024 };

enum { SEND, REDUCE, SUM, GIVE, TAKE, ROLES };           /* in the order in which they follow each other */
static const uint64_t behind[ROLES] = { 0, 1, 1, 2, 3 }; /* pieces by which a role is */

struct maker {
	const struct ddl__build *build;
	struct ddl__schedule *schedule;
	uint64_t n, position; /* ranks, and this one's place in the ring */
	uint64_t pieces;
	uint64_t grain;   /* elements */
	bool collects;    /* before it adds */
	uint64_t block;   /* elements of a rank's block in scratch */
	uint32_t *placed; /* [role][lane index][piece]: its step; DDL__NO_WAIT: that chunk is empty */
};

static uint32_t *placed(const struct maker *m, int role, uint64_t distance, uint64_t piece)
{
	return &m->placed[((uint64_t)role * (m->n - 1) + distance - 1) * m->pieces + piece];
}

/* Chunk of a piece that the rank at that position owns. */
static void chunk_of(const struct maker *m, uint64_t piece, uint64_t position, uint64_t *begin, uint64_t *count)
{
	uint64_t from, length;
	ddl__split(m->build->count, m->pieces, piece, m->grain, &from, &length);
	ddl__split(length, m->n, position, m->grain, begin, count);
	*begin += from;
}

/* Pieces so short that a chunk is one slice, and that the slots of all lanes together stay bounded. */
static void choose_pieces(struct maker *m)
{
	const struct ddl__build *b = m->build;
	uint64_t all = (m->collects ? COLLECTED_BYTES : SLOT_BYTES_ALL / SLOTS) / m->n;
	uint64_t max = all > SLICE_BYTES_MAX ? SLICE_BYTES_MAX : all > SLICE_BYTES_MIN ? all : SLICE_BYTES_MIN;
	max = (b->slice_bytes ? b->slice_bytes : max) / b->wire_bytes;
	m->grain = ddl__grain(b, b->count >= m->n * GRAIN * 4 && max >= GRAIN ? GRAIN : 1);
	max = max / m->grain * m->grain;
	max = max ? max : m->grain;
	m->pieces = (b->count + m->n * max - 1) / (m->n * max);
	m->schedule->slots = SLOTS;
	m->schedule->slice_elements = max < b->count ? max : b->count;
	m->block = m->schedule->slice_elements; /* no chunk is longer */
	m->schedule->scratch_elements = m->collects ? 2 * m->n * m->block : 0;
}

/* Where a rank's contribution to this rank's chunk of a piece is collected. */
static uint64_t collected(const struct maker *m, uint64_t piece, int rank)
{
	return (piece % 2 * m->n + (uint64_t)rank) * m->block;
}

/* The last lane has received the last contribution. */
static void add_sum(struct maker *m, uint64_t distance, uint64_t piece)
{
	struct ddl__steps *lane = &m->schedule->lanes[distance - 1];
	uint64_t begin, count;
	chunk_of(m, piece, m->position, &begin, &count);
	*placed(m, SUM, distance, piece) = DDL__NO_WAIT;
	if (!m->collects || distance < m->n - 1 || count == 0)
		return;
	ddl__schedule_add(lane, DDL__ROUND, DDL__INPUT, begin, DDL__SCRATCH, collected(m, piece, m->build->rank), count);
	*placed(m, SUM, distance, piece) = lane->n;
	struct ddl__step *step = ddl__schedule_add(lane, DDL__REDUCE_MANY, DDL__SCRATCH, collected(m, piece, 0), DDL__OUTPUT, begin,
						   count);
	step->sources = (uint32_t)m->n;
	step->stride = m->block;
	step->final = 1;
}

static void add(struct maker *m, int role, uint64_t distance, uint64_t piece)
{
	static const struct {
		enum ddl__step_kind kind;
		bool mine; /* concerns the chunk that this rank owns */
	} roles[] = { [SEND] = { DDL__SEND, false },
		      [REDUCE] = { DDL__RECV_REDUCE, true },
		      [GIVE] = { DDL__SEND, true },
		      [TAKE] = { DDL__RECV, false } };
	if (role == SUM) {
		add_sum(m, distance, piece);
		return;
	}
	struct ddl__steps *lane = &m->schedule->lanes[distance - 1];
	uint64_t owner = roles[role].mine ? m->position : m->position + (role == SEND ? distance : m->n - distance), begin, count;
	chunk_of(m, piece, owner % m->n, &begin, &count);
	*placed(m, role, distance, piece) = count ? lane->n : DDL__NO_WAIT;
	if (count == 0)
		return; /* on every rank alike */
	bool input = role == SEND || (role == REDUCE && distance == 1);
	bool keeps = role == GIVE && distance == 1; /* what it gives is what it has */
	struct ddl__step *step = ddl__schedule_add(lane, keeps ? DDL__SEND_STORE : roles[role].kind,
						   input ? DDL__INPUT : DDL__OUTPUT, begin, DDL__OUTPUT, begin, count);
	step->final = role == REDUCE && distance == m->n - 1 && !m->collects;
	if (role == REDUCE && m->collects) {
		step->kind = DDL__RECV;
		step->dst_buffer = DDL__SCRATCH;
		step->dst = collected(m, piece, lane->recv_peer);
	}
	/* A result comes from who has read all contributions to it, and is not touched again. */
	step->lend = role == SEND || role == GIVE;
	step->place = role == GIVE;
}

static void wait_for(struct maker *m, int role, uint64_t distance, uint64_t piece, int role_before, uint64_t distance_before,
		     uint64_t piece_before)
{
	uint32_t step = *placed(m, role, distance, piece), before = *placed(m, role_before, distance_before, piece_before);
	if (step == DDL__NO_WAIT || before == DDL__NO_WAIT || distance == distance_before)
		return; /* in one lane they are in order anyway */
	m->schedule->lanes[distance - 1].steps[step].wait_lane = (uint32_t)distance_before - 1;
	m->schedule->lanes[distance - 1].steps[step].wait_step = before;
}

static void add_waits(struct maker *m, uint64_t distance)
{
	for (uint64_t p = 0; p < m->pieces; p++) {
		if (distance > 1) {
			wait_for(m, REDUCE, distance, p, REDUCE, distance - 1, p);
			wait_for(m, GIVE, distance, p, GIVE, 1, p);
		} else {
			wait_for(m, GIVE, distance, p, m->collects ? SUM : REDUCE, m->n - 1, p);
			if (m->collects && p >= 2) /* who used that half before */
				wait_for(m, REDUCE, distance, p, SUM, m->n - 1, p - 2);
		}
		/* in place the result takes the room of the contribution */
		wait_for(m, TAKE, distance, p, SEND, m->n - distance, p);
	}
}

static int build_lanes(struct maker *m, const int *order)
{
	while (order[m->position] != m->build->rank)
		m->position++;
	for (uint64_t d = 1; d < m->n; d++) {
		struct ddl__steps *lane = &m->schedule->lanes[d - 1];
		lane->send_peer = order[(m->position + d) % m->n];
		lane->recv_peer = order[(m->position + m->n - d) % m->n];
		int rc = ddl__schedule_reserve(lane, (ROLES + 1) * m->pieces); /* SUM are two */
		if (rc < 0)
			return rc;
		for (uint64_t i = 0; i < m->pieces + behind[TAKE]; i++)
			for (int role = 0; role < ROLES; role++)
				if (i >= behind[role] && i - behind[role] < m->pieces)
					add(m, role, d, i - behind[role]);
	}
	for (uint64_t d = 1; d < m->n; d++)
		add_waits(m, d);
	return 0;
}

int ddl__build_direct(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	struct maker m = { .build = build, .n = (uint64_t)build->layout->n_ranks };
	bool whole = build->in_order && build->rounds; /* what the owner adds must have been rounded as others' */
	if ((m.n <= 2 && !(m.n == 2 && whole)) || build->count == 0)
		return ddl__build_ring(build, schedule); /* the same steps, the last reduction and the first gift in one */
	m.collects = (build->in_order || build->narrow) && m.n <= DDL__SOURCES_MAX;
	int rc = ddl__schedule_create((uint32_t)m.n - 1, &m.schedule);
	if (rc < 0)
		return rc;
	choose_pieces(&m);
	int *order = calloc(m.n, sizeof(*order));
	m.placed = calloc(ROLES * (m.n - 1) * m.pieces, sizeof(*m.placed));
	rc = order && m.placed ? 0 : -ENOMEM;
	if (rc == 0) {
		ddl__layout_order(build->layout, 0, order);
		rc = build_lanes(&m, order);
	}
	free(m.placed);
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(m.schedule);
	else
		*schedule = m.schedule;
	return rc;
}
