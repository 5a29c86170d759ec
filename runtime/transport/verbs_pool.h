/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_pool.h - registered memory in pieces of any size, for the slots of lanes.
 */
#ifndef DDL_TRANSPORT_VERBS_POOL_H
#define DDL_TRANSPORT_VERBS_POOL_H

#include "verbs_registry.h"

struct ddl__verbs_chunk;

struct ddl__verbs_pool {
	struct ddl__verbs_registry *registry; /* borrowed */
	struct ddl__verbs_chunk *first;       /* list by next */
};

/* -ENOMEM, or what a device says; err says what is missing. */
int ddl__verbs_pool_get(struct ddl__verbs_pool *pool, size_t bytes, struct ddl__verbs_piece *piece, struct ddl_error *err);
void ddl__verbs_pool_put(struct ddl__verbs_pool *pool, struct ddl__verbs_piece *piece);
void ddl__verbs_pool_fini(struct ddl__verbs_pool *pool);

#endif
