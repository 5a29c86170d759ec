/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.c - broadcast along the ring order: the root sends to its successor, each rank stores and passes on, slice by slice. Every
 * rank receives the data once and every uplink carries it once in each direction at most; the chain fills in N-2 slices.
 */
#include "chain_lanes.h"

static void add(const struct ddl__chain *chain, struct ddl__steps *lane)
{
	bool first = chain->distance == 0, last = chain->distance == chain->n - 1;
	if (!first)
		lane->recv_peer = chain->before;
	if (!last)
		lane->send_peer = chain->after;
	enum ddl__step_kind kind = first ? DDL__SEND : last ? DDL__RECV : DDL__RECV_STORE_SEND;
	if (chain->n > 1) {
		struct ddl__step *step = ddl__schedule_add(lane, kind, DDL__INPUT, chain->begin, DDL__OUTPUT, chain->begin,
							   chain->count);
		step->lend = first;
		step->place = !last;
	}
}

int ddl__build_chain(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return ddl__build_chains(build, add, schedule);
}
