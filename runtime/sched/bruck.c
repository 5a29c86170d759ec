/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bruck.c - all-gather and reduce-scatter of short blocks in ceil(log2 N) rounds, for any N (Bruck, Ho, Kipnis, Upfal and
 * Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997).
 *
 * Scratch holds all blocks in ring order, the own one first. All-gather: in round k a rank has the first 2^k of them, sends these
 * to the rank 2^k before it and receives the next from the rank 2^k behind it, as many as are still missing; at the end they are
 * copied to their places. Reduce-scatter runs the same rounds backwards with partial sums: what all-gather received in a round is
 * sent back there, and what it sent is received and added, so that each contribution arrives once. The order of additions is fixed.
 *
 * A lane a round. Blocks may be long: sending and receiving alternate in pieces that fit into half of the receiver's slots. A round
 * waits for the one before, also where a rank had nothing to do in it but wait.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "shape.h"

enum { SLOTS = 8, PIECE_SLICES = 4 };
enum { SLICE_BYTES_MAX = 256 * 1024 };

struct bruck {
	const struct ddl__build *build;
	const uint64_t *at; /* where blocks begin, by rank */
	int *order;         /* ranks by position */
	int n;              /* ranks */
	int me;             /* this rank's position */
	uint32_t rounds;    /* ceil(log2 n) */
	struct ddl__schedule *s;
	uint32_t last; /* lane with the last step so far; DDL__NO_WAIT: none */
};

/* Elements of n blocks in ring order from a position on. */
static uint64_t blocks(const struct bruck *b, int position, int n)
{
	uint64_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += ddl__block(b->build, b->order[(position + i) % b->n]);
	return sum;
}

/* Adds a step; the first of a lane waits for all that was added before. */
static void add(struct bruck *b, uint32_t lane, enum ddl__step_kind kind, enum ddl__buffer src_buffer, uint64_t src,
		enum ddl__buffer dst_buffer, uint64_t dst, uint64_t count, bool final)
{
	struct ddl__step *step = ddl__schedule_add(&b->s->lanes[lane], kind, src_buffer, src, dst_buffer, dst, count);
	step->final = final;
	if (b->last != DDL__NO_WAIT && b->last != lane)
		ddl__schedule_wait(step, b->s, b->last);
	b->last = lane;
}

static uint64_t pieces(const struct bruck *b, uint64_t count)
{
	uint64_t piece = b->s->slice_elements * PIECE_SLICES;
	return (count + piece - 1) / piece;
}

/* Copies between scratch (in ring order) and the user's buffer (in order of ranks), neighbours together. */
static void add_copies(struct bruck *b, uint32_t lane, bool to_scratch)
{
	uint64_t from = 0, length = 0, user = 0;
	for (int i = 0; i <= b->n; i++) {
		int rank = b->order[(b->me + i) % b->n];
		uint64_t count = i < b->n ? ddl__block(b->build, rank) : 0;
		if (i < b->n && length && b->at[rank] == user + length) {
			length += count;
			continue;
		}
		if (length && to_scratch)
			add(b, lane, DDL__COPY, DDL__INPUT, user, DDL__SCRATCH, from, length, false);
		else if (length)
			add(b, lane, DDL__COPY, DDL__SCRATCH, from, DDL__OUTPUT, user, length, false);
		from += length;
		length = count;
		user = b->at[rank];
	}
}

/*
 * The exchange of one round: scratch elements [send_at, +send_n) go, recv_n arrive at recv_at, and are added to what is there if
 * reduce is set. output: the received ones are the complete own block.
 */
struct exchange {
	uint64_t send_at, send_n, recv_at, recv_n;
	bool reduce, output;
};

static void add_exchange(struct bruck *b, uint32_t round, const struct exchange *x)
{
	uint64_t rounds = pieces(b, x->send_n > x->recv_n ? x->send_n : x->recv_n);
	uint64_t piece = b->s->slice_elements * PIECE_SLICES;
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t at = i * piece;
		if (at < x->send_n)
			add(b, round, DDL__SEND, DDL__SCRATCH, x->send_at + at, DDL__SCRATCH, 0,
			    x->send_n - at < piece ? x->send_n - at : piece, false);
		if (at >= x->recv_n)
			continue;
		add(b, round, x->reduce ? DDL__RECV_REDUCE : DDL__RECV, DDL__SCRATCH, x->recv_at + at,
		    x->output ? DDL__OUTPUT : DDL__SCRATCH, x->output ? at : x->recv_at + at,
		    x->recv_n - at < piece ? x->recv_n - at : piece, x->output);
	}
}

static int reserve(struct bruck *b, uint32_t round)
{
	uint64_t total = b->at[b->n];
	return ddl__schedule_reserve(&b->s->lanes[round], 2 * pieces(b, total) + (uint64_t)b->n + 1);
}

/* The blocks that round k moves: rank p's have, from position p + 2^k on. */
static int moved(const struct bruck *b, uint32_t round)
{
	int have = 1 << round;
	return b->n - have < have ? b->n - have : have;
}

static int build_allgather(struct bruck *b)
{
	uint64_t own = ddl__block(b->build, b->build->rank);
	int rc = 0;
	for (uint32_t k = 0; rc == 0 && k < b->rounds; k++) {
		int hop = 1 << k, n = moved(b, k);
		b->s->lanes[k].send_peer = b->order[(b->me + b->n - hop) % b->n];
		b->s->lanes[k].recv_peer = b->order[(b->me + hop) % b->n];
		const struct exchange x = { .send_n = blocks(b, b->me, n),
					    .recv_at = blocks(b, b->me, hop),
					    .recv_n = blocks(b, b->me + hop, n) };
		rc = reserve(b, k);
		if (rc == 0 && k == 0 && own)
			add(b, k, DDL__COPY, DDL__INPUT, 0, DDL__SCRATCH, 0, own, false);
		if (rc == 0)
			add_exchange(b, k, &x);
	}
	if (rc == 0)
		add_copies(b, b->rounds - 1, false);
	return rc;
}

static int build_reduce_scatter(struct bruck *b)
{
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < b->rounds; i++) {
		uint32_t k = b->rounds - 1 - i; /* the rounds of all-gather backwards; lanes ascend with time */
		int hop = 1 << k, n = moved(b, k);
		b->s->lanes[i].send_peer = b->order[(b->me + hop) % b->n];
		b->s->lanes[i].recv_peer = b->order[(b->me + b->n - hop) % b->n];
		const struct exchange x = { .send_at = blocks(b, b->me, hop),
					    .send_n = blocks(b, b->me + hop, n),
					    .recv_n = blocks(b, b->me, n),
					    .reduce = true,
					    .output = k == 0 };
		rc = reserve(b, i);
		if (rc == 0 && i == 0)
			add_copies(b, 0, true);
		if (rc == 0)
			add_exchange(b, i, &x);
	}
	return rc;
}

static int build_one_rank(struct bruck *b)
{
	int rc = ddl__schedule_reserve(&b->s->lanes[0], 1);
	b->s->scratch_elements = 0;
	if (rc == 0)
		add(b, 0, DDL__COPY, DDL__INPUT, 0, DDL__OUTPUT, 0, b->at[1], true);
	return rc;
}

static int build_rounds(const struct ddl__build *build, int (*fill)(struct bruck *b), struct ddl__schedule **schedule)
{
	int n = build->layout->n_ranks;
	uint64_t *at = ddl__displacements(n, build->counts, build->count);
	int *order = calloc((size_t)n, sizeof(*order));
	struct bruck b = { .build = build, .at = at, .order = order, .n = n, .last = DDL__NO_WAIT };
	int rc = at && order ? 0 : -ENOMEM;
	while (1LL << b.rounds < n)
		b.rounds++;
	rc = rc ? rc : ddl__schedule_create(at[n] == 0 ? 0 : n == 1 ? 1 : b.rounds, &b.s);
	if (rc == 0 && at[n]) {
		ddl__layout_order(build->layout, 0, order);
		while (order[b.me] != build->rank)
			b.me++;
		uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
		b.s->slots = SLOTS;
		b.s->slice_elements = ddl__whole_blocks(build, max ? max : 1);
		b.s->scratch_elements = at[n];
		rc = n == 1 ? build_one_rank(&b) : fill(&b);
	}
	free(at);
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(b.s);
	else
		*schedule = b.s;
	return rc;
}

int ddl__build_bruck_reduce_scatter(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_rounds(build, build_reduce_scatter, schedule);
}

/* A block that travels on is not what it was in other company on the wire: where that rounds, results would differ. */
int ddl__build_bruck_allgather(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	if (build->rounds)
		return -EOPNOTSUPP;
	return build_rounds(build, build_allgather, schedule);
}
