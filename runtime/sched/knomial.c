/* SPDX-License-Identifier: Apache-2.0 */
/*
 * knomial.c - all-reduce for short messages: reduced to the first rank of the ring along a tree of radix 4, and back along it.
 * 2 * ceil(log4 N) latencies where handing out three messages costs little, and 2(N-1) messages in all, where recursive doubling
 * has N log2 N.
 *
 * A position in the ring is a number with base 4. The parent of a position is the same number with its lowest digit that is not 0
 * made 0, so a subtree is a run of neighbours. Lanes are edges: up, known by the position of the child; down, by their number from
 * the end, so that the child with the most below it is served first. Contributions are added in the order of the children.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { RADIX = 4, SLOTS = 8, LEVELS = 16, CHILDREN_MAX = LEVELS * (RADIX - 1), SLICE_BYTES_MAX = 64 * 1024 };

struct maker {
	const struct ddl__build *build;
	struct ddl__schedule *schedule;
	uint64_t n, me, parent;          /* positions; parent n: this is the root */
	uint64_t children[CHILDREN_MAX]; /* positions, ascending */
	uint32_t n_children;
};

static void find_family(struct maker *m)
{
	m->parent = m->n;
	for (uint64_t unit = 1; unit < m->n; unit *= RADIX) {
		uint64_t digit = m->me / unit % RADIX;
		if (digit > 0) {
			m->parent = m->me - digit * unit;
			return;
		}
		for (uint64_t d = 1; d < RADIX && m->me + d * unit < m->n; d++)
			m->children[m->n_children++] = m->me + d * unit;
	}
}

/* Indices of lanes in the schedule. */
static uint32_t up_from(const struct maker *m, uint32_t child)
{
	return (m->parent < m->n) + child;
}

static uint32_t down_to(const struct maker *m, uint32_t child)
{
	return up_from(m, m->n_children) + m->n_children - 1 - child;
}

static uint32_t down_from_parent(const struct maker *m)
{
	return up_from(m, m->n_children) + m->n_children;
}

static int open_lanes(struct maker *m, const int *order, uint64_t slices)
{
	struct ddl__steps *lanes = m->schedule->lanes;
	for (uint32_t c = 0; c < m->n_children; c++) {
		lanes[up_from(m, c)].number = (uint32_t)m->children[c];
		lanes[up_from(m, c)].recv_peer = order[m->children[c]];
		lanes[down_to(m, c)].number = (uint32_t)(2 * m->n - m->children[c]);
		lanes[down_to(m, c)].send_peer = order[m->children[c]];
	}
	if (m->parent < m->n) {
		lanes[0].number = (uint32_t)m->me;
		lanes[0].send_peer = order[m->parent];
		lanes[down_from_parent(m)].number = (uint32_t)(2 * m->n - m->me);
		lanes[down_from_parent(m)].recv_peer = order[m->parent];
	}
	for (uint32_t l = 0; l < m->schedule->n_lanes; l++) {
		int rc = ddl__schedule_reserve(&lanes[l], slices);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Adds a step to a lane that waits for the last one so far of lane `before`; NO_WAIT: of none. Returns the lane. */
static uint32_t add(struct maker *m, uint32_t lane, enum ddl__step_kind kind, enum ddl__buffer src, uint64_t begin, uint64_t count,
		    uint32_t before)
{
	struct ddl__step *step = ddl__schedule_add(&m->schedule->lanes[lane], kind, src, begin, DDL__OUTPUT, begin, count);
	if (before != DDL__NO_WAIT)
		ddl__schedule_wait(step, m->schedule, before);
	return lane;
}

static void add_slice(struct maker *m, uint64_t begin, uint64_t count)
{
	bool root = m->parent == m->n;
	uint32_t last = DDL__NO_WAIT; /* lane where the value was completed */
	enum ddl__buffer mine = DDL__INPUT;
	for (uint32_t c = 0; c < m->n_children; c++) {
		last = add(m, up_from(m, c), DDL__RECV_REDUCE, mine, begin, count, last);
		mine = DDL__OUTPUT;
	}
	if (root) {
		struct ddl__steps *lane = &m->schedule->lanes[last];
		lane->steps[lane->n - 1].final = 1;
	} else {
		last = add(m, 0, DDL__SEND, mine, begin, count, last);
		last = add(m, down_from_parent(m), DDL__RECV, DDL__INPUT, begin, count, last);
	}
	for (uint32_t c = m->n_children; c-- > 0;) {
		bool rounds = root && c == m->n_children - 1; /* the root keeps what it sends */
		uint32_t lane = add(m, down_to(m, c), rounds ? DDL__SEND_STORE : DDL__SEND, DDL__OUTPUT, begin, count, last);
		last = rounds ? lane : last;
	}
}

int ddl__build_knomial(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	struct maker m = { .build = build, .n = (uint64_t)build->layout->n_ranks };
	if (m.n == 1 || build->count == 0)
		return ddl__build_ring(build, schedule);
	int *order = calloc(m.n, sizeof(*order));
	if (!order)
		return -ENOMEM;
	ddl__layout_order(build->layout, 0, order);
	while (order[m.me] != build->rank)
		m.me++;
	find_family(&m);
	int rc = ddl__schedule_create(2 * m.n_children + (m.parent < m.n ? 2 : 0), &m.schedule);
	if (rc < 0)
		goto free_order;
	uint64_t slice = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
	slice = ddl__whole_blocks(build, slice ? slice : 1);
	slice = slice < build->count ? slice : build->count;
	m.schedule->slots = SLOTS;
	m.schedule->slice_elements = slice;
	rc = open_lanes(&m, order, (build->count + slice - 1) / slice);
	for (uint64_t at = 0; rc == 0 && at < build->count; at += slice)
		add_slice(&m, at, build->count - at < slice ? build->count - at : slice);
	if (rc < 0)
		ddl__schedule_destroy(m.schedule);
	else
		*schedule = m.schedule;
free_order:
	free(order);
	return rc;
}
