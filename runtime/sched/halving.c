/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halving.c - all-reduce by recursive halving and doubling (Rabenseifner, 2004): 2 * log2 N rounds like a logarithmic algorithm,
 * 2(N-1)/N * S bytes like a ring. In round k every member of the hypercube exchanges halves of what is left with the one whose
 * number differs in bit k: it gives one half away and reduces the other. After that it owns a chunk, rounds it to the wire as all
 * others will get it, and the rounds run backwards to gather. The first round carries most and goes to the nearest member.
 * Where N is no power of two, extras give their input to their member first and get the result last.
 *
 * Lanes: 0 extras fold in; 1 + k halving round k; 1 + rounds + j gathering, the last halving's partner first; then the
 * results of extras. Pieces of a long message are in different rounds at the same time.
 */
#include "cube.h"

/* The chunks from ... to-1 of the current piece, whose chunks are as many as members. */
static struct ddl__part chunks(const struct ddl__cube_maker *m, uint32_t from, uint32_t to, enum ddl__step_kind kind,
			       enum ddl__buffer src)
{
	uint64_t begin, end = m->count, none;
	ddl__split(m->count, m->cube.n, from, m->grain, &begin, &none);
	if (to < m->cube.n)
		ddl__split(m->count, m->cube.n, to, m->grain, &end, &none);
	return (struct ddl__part){ kind, src, DDL__OUTPUT, m->begin + begin, end - begin, false };
}

static uint32_t last_lane(const struct ddl__cube *cube)
{
	return 2 * cube->rounds + 1;
}

static void set_all_peers(struct ddl__cube_maker *m)
{
	const struct ddl__cube *c = &m->cube;
	struct ddl__steps *lanes = m->stages.schedule->lanes;
	uint32_t last = last_lane(c);
	if (c->extra) {
		lanes[0].send_peer = lanes[last].recv_peer = ddl__cube_rank(c, c->member);
		return;
	}
	lanes[0].recv_peer = lanes[last].send_peer = ddl__cube_extra(c, c->member);
	for (uint32_t k = 0; k < c->rounds; k++) {
		int peer = ddl__cube_rank(c, c->member ^ 1u << k);
		lanes[1 + k].recv_peer = lanes[1 + k].send_peer = peer;
		lanes[last - 1 - k].recv_peer = lanes[last - 1 - k].send_peer = peer;
	}
}

static void add_extra_piece(struct ddl__cube_maker *m)
{
	struct ddl__part give = chunks(m, 0, m->cube.n, DDL__SEND, DDL__INPUT);
	struct ddl__part take = chunks(m, 0, m->cube.n, DDL__RECV, DDL__INPUT);
	ddl__stage_exchange(&m->stages, 0, &give, NULL);
	ddl__stage_exchange(&m->stages, last_lane(&m->cube), NULL, &take);
}

static void add_member_piece(struct ddl__cube_maker *m)
{
	const struct ddl__cube *c = &m->cube;
	uint32_t last = last_lane(c), from = 0, length = c->n; /* the chunks that are left */
	enum ddl__buffer mine = DDL__INPUT;                    /* where they are */
	bool folds = m->stages.schedule->lanes[0].recv_peer >= 0;
	if (folds) {
		struct ddl__part fold = chunks(m, 0, c->n, DDL__RECV_REDUCE, DDL__INPUT);
		ddl__stage_exchange(&m->stages, 0, NULL, &fold);
		mine = DDL__OUTPUT;
	}
	for (uint32_t k = 0; k < c->rounds; k++) {
		uint32_t half = length / 2, upper = c->member >> k & 1;
		uint32_t keep = from + upper * half, give = from + (1 - upper) * half;
		struct ddl__part send = chunks(m, give, give + half, DDL__SEND, mine);
		struct ddl__part reduce = chunks(m, keep, keep + half, DDL__RECV_REDUCE, mine);
		reduce.final = k == c->rounds - 1;
		ddl__stage_exchange(&m->stages, 1 + k, &send, &reduce);
		mine = DDL__OUTPUT;
		from = keep;
		length = half;
	}
	for (uint32_t k = c->rounds; k-- > 0;) {
		bool first = k == c->rounds - 1;
		uint32_t other = c->member >> k & 1 ? from - length : from + length;
		struct ddl__part send = chunks(m, from, from + length, first ? DDL__SEND_STORE : DDL__SEND, DDL__OUTPUT);
		struct ddl__part take = chunks(m, other, other + length, DDL__RECV, DDL__OUTPUT);
		ddl__stage_exchange(&m->stages, last - 1 - k, &send, &take);
		from = from < other ? from : other;
		length *= 2;
	}
	if (folds) {
		struct ddl__part result = chunks(m, 0, c->n, DDL__SEND, DDL__OUTPUT);
		ddl__stage_exchange(&m->stages, last, &result, NULL);
	}
}

static uint32_t lanes_of(const struct ddl__cube *cube)
{
	return last_lane(cube) + 1;
}

int ddl__build_halving(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	static const struct ddl__cube_algorithm algorithm = {
		.slice_bytes = 128 * 1024,
		.in_chunks = true,
		.lanes = lanes_of,
		.set_peers = set_all_peers,
		.add_extra_piece = add_extra_piece,
		.add_member_piece = add_member_piece,
	};
	return ddl__cube_build(build, &algorithm, schedule);
}
