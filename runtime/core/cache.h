/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - the requests that the blocking calls keep.
 */
#ifndef DDL_CORE_CACHE_H
#define DDL_CORE_CACHE_H

struct ddl_comm;

/* Frees them all, and what is left of sends and receives. */
void ddl__cache_clear(struct ddl_comm *comm);

#endif
