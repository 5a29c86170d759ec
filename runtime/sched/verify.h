/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.h - runs the schedules of all ranks symbolically and proves that they carry the collective out.
 */
#ifndef DDL_SCHED_VERIFY_H
#define DDL_SCHED_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <ddl/error.h>

#include "schedule.h"

enum ddl__rounded { /* what rounds */
		    DDL__ROUNDED_NOWHERE = 0,
		    DDL__ROUNDED_BY_WIRE = 1,   /* what travels has fewer bits than it has in memory */
		    DDL__ROUNDED_IN_MEMORY = 2, /* elements have 16 bits in memory, and are reduced in more */
};

struct ddl__verify {
	enum ddl__collective collective;              /* what the schedules should do */
	const struct ddl__schedule *const *schedules; /* one a rank */
	int n_ranks;                                  /* at least 1 */
	uint64_t count;                               /* elements; of one block where there is a block a rank */
	const size_t *counts; /* blocks by counts: each rank's; of an all-to-all: [i * n_ranks + j] from i to j; NULL: count each */
	int root;             /* of rooted collectives, the sender of a send/receive; else -1 */
	int peer;             /* the receiver of a send/receive; else not read */
	bool in_place;        /* input and output share memory: see struct ddl__shape */
	bool shared;          /* the ranks share memory: every slice that may be lent or placed is */
	enum ddl__rounded rounding; /* see verify_value.h */
	uint32_t roundings;         /* of one contribution at most; 0: any number */
	bool in_order;              /* contributions must be reduced in the order of ranks */
};

/*
 * Returns 0 if, whatever the timing:
 *   - every element of the result holds the contribution of every rank to that element exactly once, divided once where a mean is
 *     asked for (all-reduce, reduce, reduce-scatter); the element of the input of the rank that it must come from (broadcast,
 *     all-gather, gather, scatter, all-to-all, send/receive); no rank ends before all have started (barrier);
 *   - nothing is read before it is written, the input is never written, nothing is out of bounds;
 *   - steps of different lanes that touch the same element are ordered by waits;
 *   - lanes fit together: both ends name each other, send and receive the same slices, nothing is left over;
 *   - there is no cycle of waits, with no more than `slots` slices under way on a lane. Lanes are sequential processes with bounded
 *     queues (Kahn networks): whether they block for ever does not depend on timing, so one execution decides;
 *   - with `shared`: what is lent is not written before the peer has read it, what is placed meets no other use of that memory, and
 *     the peer stores it just there. That all slices are shared is the hardest case: a slice that goes through a slot touches the
 *     sender's memory no later, and the receiver's no earlier. So this and the proof without it hold for any mix.
 *   - with `roundings`: no contribution to an element is rounded more often on its way into the result;
 *   - with `in_order`: each element of the result is ((0 op 1) op 2) op ..., of the ranks' contributions, either operand first;
 *   - what is answered in the slot that it came in is read before that slot is used again (verify_answers.h).
 * -EPROTO with a sentence that names rank, lane, step and element otherwise; -ENOMEM; -EINVAL.
 * Cost: about n_ranks * count * steps, with `shared` times the lanes of all ranks; for tests and tools, not for the data path.
 */
int ddl__verify(const struct ddl__verify *verify, struct ddl_error *err);

#endif
