/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.h - a common clock for traces: by how much this machine's monotonic clock is ahead of rank 0's.
 *
 * Along a binomial tree each rank asks its parent for the time (Cristian's method): of some round trips the shortest counts, and
 * the answer is taken to be of its middle. The parent answers with rank 0's time as it knows it, so errors add up along at most
 * log2 N ranks. All ranks take part.
 */
#ifndef DDL_CORE_SYNC_H
#define DDL_CORE_SYNC_H

#include <stdint.h>

#include <ddl/ddl.h>

/* error_ns: how wrong it may be: half of the round trips. Returns 0, or negative with a sentence. */
int ddl__sync(struct ddl_comm *comm, int64_t *ahead_ns, uint64_t *error_ns, struct ddl_error *err);

#endif
