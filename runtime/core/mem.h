/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h - memory from ddl_mem_alloc(): windows that transports may show to the node's other processes.
 *
 * Whether a buffer lies in such memory is this process's own affair: no peer's schedule and no result depends on it.
 */
#ifndef DDL_CORE_MEM_H
#define DDL_CORE_MEM_H

#include <stddef.h>

#include "transport.h"

struct ddl_comm;

/* The shared memory that holds all of these bytes; NULL: none does. The engine's lock is held. */
const struct ddl__window *ddl__mem_find(const struct ddl_comm *comm, const void *at, size_t bytes);

/* The memory from ddl_mem_alloc() that holds all of these bytes, shared or not; NULL: none does. The engine's lock is held. */
const struct ddl__window *ddl__mem_holder(const struct ddl_comm *comm, const void *at, size_t bytes);

/* In a child after a fork: closes its copies of the descriptors. The memory stays what it is. */
void ddl__mem_forked(const struct ddl_comm *comm);

/* Gives everything back. The transports are closed. */
void ddl__mem_fini(struct ddl_comm *comm);

#endif
