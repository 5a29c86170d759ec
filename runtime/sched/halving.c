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
#include "stages.h"

#include <errno.h>

enum { SLOTS = 8, STEP_SLICES = SLOTS / 2, SLICE_BYTES_MAX = 128 * 1024 };

struct maker {
	struct ddl__cube cube;
	struct ddl__stages stages;
	uint64_t begin, count, grain; /* of the current piece, elements */
};

/* The chunks from ... to-1 of the current piece, whose chunks are as many as members. */
static struct ddl__part chunks(const struct maker *m, uint32_t from, uint32_t to, enum ddl__step_kind kind, enum ddl__buffer src)
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

static void set_all_peers(struct maker *m)
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

static void add_extra_piece(struct maker *m)
{
	struct ddl__part give = chunks(m, 0, m->cube.n, DDL__SEND, DDL__INPUT);
	struct ddl__part take = chunks(m, 0, m->cube.n, DDL__RECV, DDL__INPUT);
	ddl__stage_exchange(&m->stages, 0, &give, NULL);
	ddl__stage_exchange(&m->stages, last_lane(&m->cube), NULL, &take);
}

static void add_member_piece(struct maker *m)
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

int ddl__build_halving(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	struct maker m = { 0 };
	if (build->layout->n_ranks == 1 || build->count == 0)
		return ddl__build_ring(build, schedule);
	int rc = ddl__cube_init(build->layout, build->rank, &m.cube);
	if (rc < 0)
		return rc;
	struct ddl__schedule *s;
	rc = ddl__schedule_create(last_lane(&m.cube) + 1, &s);
	if (rc < 0)
		goto fini_cube;
	struct ddl__pieces pieces = ddl__pieces_choose(build, m.cube.n, SLICE_BYTES_MAX);
	m.stages.schedule = s;
	m.stages.room = pieces.slice * STEP_SLICES;
	m.grain = pieces.grain;
	s->slots = SLOTS;
	s->slice_elements = pieces.slice;
	set_all_peers(&m);
	for (uint64_t p = 0; p < pieces.n; p++) {
		ddl__split(build->count, pieces.n, p, pieces.grain, &m.begin, &m.count);
		ddl__stages_begin(&m.stages);
		if (m.cube.extra)
			add_extra_piece(&m);
		else
			add_member_piece(&m);
	}
	rc = m.stages.rc;
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
fini_cube:
	ddl__cube_fini(&m.cube);
	return rc;
}
