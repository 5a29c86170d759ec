/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h - what requests wait for, for people: of one request as a clause, of all that are active as the hang dump.
 *
 * A dump goes to the standard error stream, and where there is a trace also into its folder. It is written when a request is
 * overdue, and when somebody asks by a signal (dump_signal.h).
 */
#ifndef DDL_ENGINE_DUMP_H
#define DDL_ENGINE_DUMP_H

#include "engine.h"

enum ddl__wait_for {                         /* what a lane waits for */
		     DDL__WAIT_NOTHING = 0,  /* it is done, or another lane of this rank must go on first */
		     DDL__WAIT_DATA = 1,     /* that the peer sends */
		     DDL__WAIT_ROOM = 2,     /* that the peer has a free slot */
		     DDL__WAIT_DELIVERY = 3, /* that what was sent is on its way */
};

struct ddl__lane_wait {
	enum ddl__wait_for what;
	int peer;          /* rank that it waits for */
	uint32_t step;     /* from 0 */
	uint32_t steps;    /* of the lane */
	uint8_t step_kind; /* enum ddl__step_kind */
};

/* What a lane of an active request waits for. The lock is held. */
struct ddl__lane_wait ddl__lane_wait(const struct ddl_request *request, uint32_t lane);

/* Bytes that this start has carried along its lanes so far, and has to. The lock is held. */
void ddl__request_done(const struct ddl_request *request, uint64_t *done, uint64_t *all);

/* Dumps all active requests of comm; why: a clause that begins the dump. The lock is held. */
void ddl__dump(struct ddl_comm *comm, const char *why);

/* The same into the trace's folder only, where there is one. The lock is held. */
void ddl__dump_quietly(struct ddl_comm *comm, const char *why);

#endif
