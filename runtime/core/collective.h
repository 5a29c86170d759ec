/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective.h - the requests that the blocking calls keep.
 */
#ifndef DDL_CORE_COLLECTIVE_H
#define DDL_CORE_COLLECTIVE_H

struct ddl_comm;

/* Frees them all. */
void ddl__cache_clear(struct ddl_comm *comm);

#endif
