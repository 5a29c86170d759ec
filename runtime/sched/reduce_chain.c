/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_chain.c - reduce along the ring order: the root's successor sends, each rank adds its own and passes on, slice by slice,
 * until the root adds the last contribution. Every uplink carries the data once in each direction at most; the chain fills in N-2
 * slices.
 */
#include "chain_lanes.h"

static void add(const struct ddl__chain *chain, struct ddl__steps *lane)
{
	bool root = chain->distance == 0, first = chain->distance == 1;
	enum ddl__step_kind kind = chain->n == 1 ? DDL__COPY : first ? DDL__SEND : root ? DDL__RECV_REDUCE : DDL__RECV_REDUCE_SEND;
	if (!root)
		lane->send_peer = chain->after;
	if (!first && chain->n > 1)
		lane->recv_peer = chain->before;
	struct ddl__step *step = ddl__schedule_add(lane, kind, DDL__INPUT, chain->begin, DDL__OUTPUT, chain->begin, chain->count);
	step->final = root;
	step->lend = kind == DDL__SEND;
}

int ddl__build_reduce_chain(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return ddl__build_chains(build, add, schedule);
}
