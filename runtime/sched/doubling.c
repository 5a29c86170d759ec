/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doubling.c - all-reduce by recursive doubling, for short messages: in round k every member of the hypercube exchanges its whole
 * value with the one whose number differs in bit k, and both reduce (Thakur, Rabenseifner and Gropp, 2005, section 4.1).
 * floor(log2 N) rounds, and one more where N is no power of two: extras give their input to their member first.
 *
 * The same bits everywhere. Both sides of an exchange compute the same operation on the same two values: each keeps what it sent
 * (rounded to the wire) and not what it had. The operations give the same bits for either order of their operands.
 * An extra gets no result, which would be rounded once more on the way, but what its member gets and gives in the last round,
 * and does that round's operation itself. So it ends with the others, without a round of its own.
 *
 * Lanes: 0 extras fold in; 1 + k round k; then what an extra hears from its member, and from its member's last partner.
 */
#include "cube.h"

static struct ddl__part whole(const struct ddl__cube_maker *m, enum ddl__step_kind kind, enum ddl__buffer src, bool final)
{
	return (struct ddl__part){ kind, src, DDL__OUTPUT, m->begin, m->count, final };
}

static void set_peers(struct ddl__schedule *s, uint32_t lane, int receives_from, int sends_to)
{
	s->lanes[lane].recv_peer = receives_from;
	s->lanes[lane].send_peer = sends_to;
}

static void set_all_peers(struct ddl__cube_maker *m)
{
	const struct ddl__cube *c = &m->cube;
	struct ddl__schedule *s = m->stages.schedule;
	uint32_t last = c->member ^ c->n / 2;
	if (c->extra) {
		set_peers(s, 0, -1, ddl__cube_rank(c, c->member));
		set_peers(s, c->rounds + 1, ddl__cube_rank(c, c->member), -1);
		set_peers(s, c->rounds + 2, ddl__cube_rank(c, last), -1);
		return;
	}
	set_peers(s, 0, ddl__cube_extra(c, c->member), -1);
	for (uint32_t k = 0; k < c->rounds; k++) {
		int peer = ddl__cube_rank(c, c->member ^ 1u << k);
		set_peers(s, k + 1, peer, peer);
	}
	set_peers(s, c->rounds + 1, -1, ddl__cube_extra(c, c->member));
	set_peers(s, c->rounds + 2, -1, ddl__cube_extra(c, last));
}

static void add_extra_piece(struct ddl__cube_maker *m)
{
	struct ddl__part give = whole(m, DDL__SEND, DDL__INPUT, false);
	struct ddl__part hear = whole(m, DDL__RECV, DDL__INPUT, false);
	struct ddl__part reduce = whole(m, DDL__RECV_REDUCE, DDL__OUTPUT, true);
	ddl__stage_exchange(&m->stages, 0, &give, NULL);
	ddl__stage_exchange(&m->stages, m->cube.rounds + 1, NULL, &hear);
	ddl__stage_exchange(&m->stages, m->cube.rounds + 2, NULL, &reduce);
}

static void add_member_piece(struct ddl__cube_maker *m)
{
	const struct ddl__steps *lanes = m->stages.schedule->lanes;
	uint32_t rounds = m->cube.rounds;
	enum ddl__buffer mine = DDL__INPUT; /* where the value is */
	if (lanes[0].recv_peer >= 0) {
		struct ddl__part fold = whole(m, DDL__RECV_REDUCE, DDL__INPUT, false);
		ddl__stage_exchange(&m->stages, 0, NULL, &fold);
		mine = DDL__OUTPUT;
	}
	for (uint32_t k = 0; k < rounds; k++) {
		for (uint32_t lane = rounds + 1; k == rounds - 1 && lane <= rounds + 2; lane++) {
			struct ddl__part tell = whole(m, DDL__SEND_STORE, mine, false);
			if (lanes[lane].send_peer < 0)
				continue;
			ddl__stage_exchange(&m->stages, lane, &tell, NULL);
			mine = DDL__OUTPUT;
		}
		struct ddl__part send = whole(m, DDL__SEND_STORE, mine, false);
		struct ddl__part reduce = whole(m, DDL__RECV_REDUCE, DDL__OUTPUT, k == rounds - 1);
		ddl__stage_exchange(&m->stages, k + 1, &send, &reduce);
		mine = DDL__OUTPUT;
	}
}

static uint32_t lanes_of(const struct ddl__cube *cube)
{
	return cube->rounds + 3;
}

int ddl__build_doubling(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	static const struct ddl__cube_algorithm algorithm = {
		.slice_bytes = 64 * 1024,
		.in_chunks = false,
		.lanes = lanes_of,
		.set_peers = set_all_peers,
		.add_extra_piece = add_extra_piece,
		.add_member_piece = add_member_piece,
	};
	int rc = ddl__cube_build(build, &algorithm, schedule);
	if (rc == 0)
		(*schedule)->replicas = true;
	return rc;
}
