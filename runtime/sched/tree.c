/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c - all-reduce over two binary trees, half of the message each: reduced to the root, then broadcast from it, slice by slice
 * (Sanders, Speck and Traeff, 2009). About 4 log2 N latencies in the worst case and 2 S bytes a rank, since whoever is an inner
 * vertex of one tree is a leaf of the other.
 *
 * The first tree has the ranks in order: numbered 1 ... N along the ring, a vertex whose number ends in h zero bits has height h,
 * so vertices below each other are neighbours in the ring, and near in the switch tree. The second tree is the first one in a
 * mirror where N is even, and moved on by one rank where it is odd: so odd numbers, the leaves, change places with even ones.
 *
 * Lanes are paths: up from a leaf through left children, until a vertex is a right child (or the root); down the same way. Every
 * vertex but a leaf receives from its left child in the path's lane and passes on, after it added what its right child sent in
 * another lane. A path is known by the number of its leaf. The root rounds the result to the wire, as all others will get it.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 8, GRAIN = 16, TREES = 2, LANES = 4, SLICES = 32 };
enum { SLICE_BYTES_MAX = 128 * 1024, SLICE_BYTES_MIN = 8 * 1024 };

/* A vertex's lanes: its own path up and down, and those of its right child. */
enum lane { UP, RIGHT_UP, DOWN, RIGHT_DOWN };

struct vertex {      /* this rank's in one tree; numbers from 1, 0: there is none */
	uint64_t me; /* own number */
	uint64_t parent, left, right;
	uint32_t lanes[LANES]; /* index in the schedule; DDL__NO_WAIT: it has none */
};

struct maker {
	const struct ddl__build *build;
	struct ddl__schedule *schedule;
	int *order; /* ranks in ring order */
	struct vertex at[TREES];
};

static uint64_t lowest_bit(uint64_t x)
{
	return x & (~x + 1);
}

/* The leaf where the path of a vertex begins. */
static uint64_t path_of(uint64_t vertex)
{
	return vertex - lowest_bit(vertex) + 1;
}

/* Vertices beyond n do not exist: their parent and their left child take their place. */
static uint64_t parent_of(uint64_t vertex, uint64_t n)
{
	uint64_t bit = lowest_bit(vertex), top = 1;
	while (top <= n / 2)
		top *= 2;
	if (vertex == top)
		return 0;
	do {
		vertex = (vertex & ~bit) | bit << 1;
		bit <<= 1;
	} while (vertex > n);
	return vertex;
}

static uint64_t right_of(uint64_t vertex, uint64_t n)
{
	uint64_t bit = lowest_bit(vertex) / 2, child = vertex + bit;
	while (bit > 0 && child > n) {
		bit /= 2;
		child = vertex + bit;
	}
	return bit ? child : 0;
}

/* The position in the ring of a vertex of a tree, and back. */
static uint64_t position_of(uint64_t vertex, uint64_t n, int tree)
{
	return tree == 0 ? vertex - 1 : n % 2 == 0 ? n - vertex : vertex % n;
}

static uint64_t vertex_of(uint64_t position, uint64_t n, int tree)
{
	return tree == 0 ? position + 1 : n % 2 == 0 ? n - position : position == 0 ? n : position;
}

static int rank_of(const struct maker *m, uint64_t vertex, int tree)
{
	return vertex ? m->order[position_of(vertex, (uint64_t)m->build->layout->n_ranks, tree)] : -1;
}

/* Takes a lane of that number into the schedule. Called in ascending order of numbers. */
static void open_lane(struct maker *m, int tree, enum lane which, uint64_t number, uint64_t receives_from, uint64_t sends_to)
{
	struct ddl__steps *lane = &m->schedule->lanes[m->schedule->n_lanes];
	lane->number = (uint32_t)number;
	lane->recv_peer = rank_of(m, receives_from, tree);
	lane->send_peer = rank_of(m, sends_to, tree);
	m->at[tree].lanes[which] = m->schedule->n_lanes++;
}

/* The lanes of both trees: numbers of tree 0 up, tree 0 down, tree 1 up, tree 1 down. */
static void open_lanes(struct maker *m, uint64_t position)
{
	uint64_t n = (uint64_t)m->build->layout->n_ranks;
	m->schedule->n_lanes = 0;
	for (int tree = 0; tree < TREES; tree++) {
		struct vertex *v = &m->at[tree];
		uint64_t base = (uint64_t)tree * 2 * (n + 1);
		v->me = vertex_of(position, n, tree);
		v->parent = parent_of(v->me, n);
		v->left = v->me % 2 ? 0 : v->me - lowest_bit(v->me) / 2;
		v->right = right_of(v->me, n);
		for (int which = 0; which < LANES; which++)
			v->lanes[which] = DDL__NO_WAIT;
		open_lane(m, tree, UP, base + path_of(v->me), v->left, v->parent);
		if (v->right)
			open_lane(m, tree, RIGHT_UP, base + path_of(v->right), v->right, 0);
		open_lane(m, tree, DOWN, base + n + 1 + path_of(v->me), v->parent, v->left);
		if (v->right)
			open_lane(m, tree, RIGHT_DOWN, base + n + 1 + path_of(v->right), 0, v->right);
	}
}

/* Adds a step to one of the vertex's lanes; it waits for the last step of another lane so far. NO_WAIT: it waits for none. */
static void add(struct maker *m, const struct vertex *v, enum lane which, enum ddl__step_kind kind, enum ddl__buffer src,
		uint64_t begin, uint64_t count, uint32_t before)
{
	struct ddl__step *step = ddl__schedule_add(&m->schedule->lanes[v->lanes[which]], kind, src, begin, DDL__OUTPUT, begin,
						   count);
	step->final = kind == DDL__RECV_REDUCE && which == UP;
	if (before != DDL__NO_WAIT)
		ddl__schedule_wait(step, m->schedule, before);
}

/* One slice, up and down again. */
static void add_slice(struct maker *m, const struct vertex *v, uint64_t begin, uint64_t count)
{
	enum ddl__buffer mine = v->right ? DDL__OUTPUT : DDL__INPUT; /* what the left child's partial sum is added to */
	if (v->right)
		add(m, v, RIGHT_UP, DDL__RECV_REDUCE, DDL__INPUT, begin, count, DDL__NO_WAIT);
	add(m, v, UP,
	    !v->left    ? DDL__SEND
	    : v->parent ? DDL__RECV_REDUCE_SEND
			: DDL__RECV_REDUCE,
	    mine, begin, count, v->lanes[RIGHT_UP]);
	add(m, v, DOWN,
	    !v->parent ? DDL__SEND_STORE
	    : v->left  ? DDL__RECV_STORE_SEND
		       : DDL__RECV,
	    DDL__OUTPUT, begin, count, v->lanes[UP]);
	if (v->right)
		add(m, v, RIGHT_DOWN, DDL__SEND, DDL__OUTPUT, begin, count, v->lanes[DOWN]);
}

static uint64_t choose_slice(const struct ddl__build *build)
{
	uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
	uint64_t grain = ddl__grain(build, GRAIN), min = SLICE_BYTES_MIN / build->wire_bytes, half = build->count / 2 + grain;
	uint64_t slice = half / SLICES > min ? half / SLICES : min;
	slice = slice / grain * grain;
	slice = slice < half ? slice : half;
	slice = slice < max ? slice : max;
	return ddl__whole_blocks(build, slice ? slice : 1);
}

static int emit(struct maker *m)
{
	for (int tree = 0; tree < TREES; tree++) {
		const struct vertex *v = &m->at[tree];
		uint64_t begin, count, slice = m->schedule->slice_elements;
		ddl__split(m->build->count, TREES, (uint64_t)tree, ddl__grain(m->build, GRAIN), &begin, &count);
		for (int which = 0; which < LANES; which++) {
			int rc = v->lanes[which] == DDL__NO_WAIT
					 ? 0
					 : ddl__schedule_reserve(&m->schedule->lanes[v->lanes[which]], (count + slice - 1) / slice);
			if (rc < 0)
				return rc;
		}
		for (uint64_t at = 0; at < count; at += slice)
			add_slice(m, v, begin + at, count - at < slice ? count - at : slice);
	}
	return 0;
}

int ddl__build_tree(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	struct maker m = { .build = build };
	uint64_t n = (uint64_t)build->layout->n_ranks, position = 0;
	if (n == 1 || build->count == 0)
		return ddl__build_ring(build, schedule);
	int rc = ddl__schedule_create(TREES * LANES, &m.schedule);
	if (rc < 0)
		return rc;
	m.order = calloc(n, sizeof(*m.order));
	if (!m.order) {
		ddl__schedule_destroy(m.schedule);
		return -ENOMEM;
	}
	ddl__layout_order(build->layout, 0, m.order);
	while (m.order[position] != build->rank)
		position++;
	open_lanes(&m, position);
	m.schedule->slots = SLOTS;
	m.schedule->slice_elements = choose_slice(build);
	rc = emit(&m);
	free(m.order);
	if (rc < 0)
		ddl__schedule_destroy(m.schedule);
	else
		*schedule = m.schedule;
	return rc;
}
