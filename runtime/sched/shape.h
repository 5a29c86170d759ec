/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape.h - what a collective's buffers hold on a rank: how many elements, and where both begin when they share memory.
 *
 * A collective with a block a rank (reduce-scatter, all-gather, gather, scatter, all-to-all) has its blocks one behind the other in
 * the order of ranks: a block begins where the blocks of the lower ranks end.
 */
#ifndef DDL_SCHED_SHAPE_H
#define DDL_SCHED_SHAPE_H

#include <stdint.h>

#include "schedule.h"

struct ddl__shape {         /* of one rank; elements */
	uint64_t input;     /* that it reads; 0: the buffer is not looked at */
	uint64_t output;    /* that it writes; 0: the buffer is not looked at */
	uint64_t input_at;  /* in place: where the input begins in the memory that both share */
	uint64_t output_at; /* in place: where the output begins in it */
};

/*
 * The shape of build->rank; reads layout->n_ranks, rank, count, counts, recv_counts, root and peer.
 * Returns 0; -EOVERFLOW: the counts' sum is more than 64 bits hold.
 */
int ddl__shape_of(enum ddl__collective collective, const struct ddl__build *build, struct ddl__shape *shape);

/* Elements of rank's block. */
uint64_t ddl__block(const struct ddl__build *build, int rank);

/* Whether each rank has a block of its own. */
bool ddl__has_blocks(enum ddl__collective collective);

/* Whether it takes an operation. */
bool ddl__reduces(enum ddl__collective collective);

/* Where each block begins, n+1 numbers: the last is the sum. counts NULL: n blocks of count. Caller frees; NULL: no memory. */
uint64_t *ddl__displacements(int n, const size_t *counts, uint64_t count);

/*
 * A number that tells arrays of counts apart, never 0: ranks that pass other counts are found by it.
 */
uint64_t ddl__counts_digest(int n, const size_t *counts);

#endif
