/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binomial.c - gather and scatter of short blocks along a binomial tree over the ring order from the root on: ceil(log2 N) levels,
 * and no rank speaks to more than that many others.
 *
 * Numbers v count along the ring from the root (0). The subtree of v is the numbers from v to v + lowest bit of v; its blocks lie
 * in that order in scratch. Lane 0 of a rank is its edge to the parent (numbered v; on the root it only copies), the others are the
 * edges to the children, numbered by them. A leaf needs no scratch. Empty subtrees have no lane at either end.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "shape.h"

enum { SLOTS = 8 };
enum { SLICE_BYTES_MAX = 256 * 1024 };

struct binomial {
	const struct ddl__build *build;
	const uint64_t *at; /* where blocks begin, by rank */
	const int *order;   /* ranks by position */
	int n, root;        /* ranks; position of the root */
	int me, span;       /* own number; numbers in the own subtree */
	struct ddl__schedule *s;
};

static int rank_of(const struct binomial *b, int v)
{
	return b->order[(b->root + v) % b->n];
}

/* Numbers in the subtree of v. */
static int span_of(const struct binomial *b, int v)
{
	int low = v ? v & -v : b->n;
	return b->n - v < low ? b->n - v : low;
}

/* Elements of the blocks of `count` numbers from v on. */
static uint64_t blocks(const struct binomial *b, int v, int count)
{
	uint64_t sum = 0;
	for (int i = 0; i < count; i++)
		sum += ddl__block(b->build, rank_of(b, v + i));
	return sum;
}

/* The children whose subtrees hold anything get lanes from 1 on. */
static int add_children(struct binomial *b, bool gather)
{
	uint32_t l = 1;
	for (int bit = 1; bit < b->span; bit <<= 1) {
		int child = b->me + bit;
		uint64_t count = blocks(b, child, span_of(b, child)), at = blocks(b, b->me, bit);
		if (count == 0)
			continue;
		struct ddl__steps *lane = &b->s->lanes[l++];
		int rc = ddl__schedule_reserve(lane, 1);
		if (rc < 0)
			return rc;
		lane->number = (uint32_t)child;
		if (gather)
			lane->recv_peer = rank_of(b, child);
		else
			lane->send_peer = rank_of(b, child);
		ddl__schedule_add(lane, gather ? DDL__RECV : DDL__SEND, DDL__SCRATCH, at, DDL__SCRATCH, at, count);
	}
	return 0;
}

/* Steps of lane 0 that do nothing but wait for all children. */
static void join(struct binomial *b)
{
	for (uint32_t l = 1; l < b->s->n_lanes; l++)
		ddl__schedule_wait(ddl__schedule_add(&b->s->lanes[0], DDL__COPY, DDL__SCRATCH, 0, DDL__SCRATCH, 0, 0), b->s, l);
}

/* On the root: between scratch, by number, and the user's whole buffer, by rank; the own block goes straight. */
static void copy_whole(struct binomial *b, bool gather)
{
	struct ddl__steps *lane = &b->s->lanes[0];
	uint64_t from = ddl__block(b->build, b->build->rank), own = b->at[b->build->rank];
	if (from)
		ddl__schedule_add(lane, DDL__COPY, DDL__INPUT, gather ? 0 : own, DDL__OUTPUT, gather ? own : 0, from);
	for (int v = 1; v < b->n; v++) {
		int rank = rank_of(b, v);
		uint64_t count = ddl__block(b->build, rank);
		if (count && gather)
			ddl__schedule_add(lane, DDL__COPY, DDL__SCRATCH, from, DDL__OUTPUT, b->at[rank], count);
		else if (count)
			ddl__schedule_add(lane, DDL__COPY, DDL__INPUT, b->at[rank], DDL__SCRATCH, from, count);
		from += count;
	}
}

static int build_gather(struct binomial *b)
{
	struct ddl__steps *up = &b->s->lanes[0];
	uint64_t own = ddl__block(b->build, b->build->rank), all = blocks(b, b->me, b->span);
	int rc = add_children(b, true);
	if (rc < 0)
		return rc;
	if (b->s->n_lanes == 1 && b->me != 0) { /* nothing but the own block */
		ddl__schedule_add(up, DDL__SEND, DDL__INPUT, 0, DDL__OUTPUT, 0, all);
		return 0;
	}
	b->s->scratch_elements = all;
	if (b->me != 0 && own)
		ddl__schedule_add(up, DDL__COPY, DDL__INPUT, 0, DDL__SCRATCH, 0, own);
	join(b);
	if (b->me == 0)
		copy_whole(b, true);
	else
		ddl__schedule_add(up, DDL__SEND, DDL__SCRATCH, 0, DDL__OUTPUT, 0, all);
	return 0;
}

static int build_scatter(struct binomial *b)
{
	struct ddl__steps *down = &b->s->lanes[0];
	uint64_t own = ddl__block(b->build, b->build->rank), all = blocks(b, b->me, b->span);
	int rc = add_children(b, false);
	if (rc < 0)
		return rc;
	if (b->s->n_lanes == 1 && b->me != 0) {
		ddl__schedule_add(down, DDL__RECV, DDL__INPUT, 0, DDL__OUTPUT, 0, all);
		return 0;
	}
	b->s->scratch_elements = all;
	if (b->me == 0)
		copy_whole(b, false);
	else
		ddl__schedule_add(down, DDL__RECV, DDL__INPUT, 0, DDL__SCRATCH, 0, all);
	for (uint32_t l = 1; l < b->s->n_lanes; l++)
		ddl__schedule_wait(&b->s->lanes[l].steps[0], b->s, 0);
	if (b->me != 0 && own)
		ddl__schedule_add(down, DDL__COPY, DDL__SCRATCH, 0, DDL__OUTPUT, 0, own);
	return 0;
}

/* Lanes: none where the subtree is empty, else the parent's and those of the children whose subtrees are not. */
static uint32_t count_lanes(const struct binomial *b)
{
	uint32_t n = 1;
	if (blocks(b, b->me, b->span) == 0)
		return 0;
	for (int bit = 1; bit < b->span; bit <<= 1)
		n += blocks(b, b->me + bit, span_of(b, b->me + bit)) != 0;
	return n;
}

static int build_lanes(struct binomial *b, bool gather)
{
	uint64_t max = (b->build->slice_bytes ? b->build->slice_bytes : SLICE_BYTES_MAX) / b->build->wire_bytes;
	uint32_t n_lanes = count_lanes(b);
	int rc = ddl__schedule_create(n_lanes, &b->s);
	if (rc < 0 || n_lanes == 0)
		return rc;
	b->s->slots = SLOTS;
	b->s->slice_elements = max ? max : 1;
	b->s->lanes[0].number = (uint32_t)b->me;
	if (b->me != 0) {
		int parent = rank_of(b, b->me - (b->me & -b->me));
		b->s->lanes[0].send_peer = gather ? parent : -1;
		b->s->lanes[0].recv_peer = gather ? -1 : parent;
	}
	rc = ddl__schedule_reserve(&b->s->lanes[0], (uint64_t)n_lanes + (b->me == 0 ? (uint64_t)b->n : 2));
	return rc ? rc : gather ? build_gather(b) : build_scatter(b);
}

static int build_tree(const struct ddl__build *build, bool gather, struct ddl__schedule **schedule)
{
	int n = build->layout->n_ranks, me = 0;
	uint64_t *at = ddl__displacements(n, build->counts, build->count);
	int *order = calloc((size_t)n, sizeof(*order));
	struct binomial b = { .build = build, .at = at, .order = order, .n = n };
	int rc = -ENOMEM;
	if (at && order) {
		ddl__layout_order(build->layout, 0, order);
		while (order[b.root] != build->root)
			b.root++;
		while (order[me] != build->rank)
			me++;
		b.me = (me + n - b.root) % n;
		b.span = span_of(&b, b.me);
		rc = build_lanes(&b, gather);
	}
	free(at);
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(b.s);
	else
		*schedule = b.s;
	return rc;
}

int ddl__build_binomial_gather(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_tree(build, true, schedule);
}

int ddl__build_binomial_scatter(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_tree(build, false, schedule);
}
