/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ids.h - the requests of a communicator by id. An id is the place in the order in which all ranks create requests, so it is never
 * used again: ranks free requests when they like, and a peer may still speak of one that is gone here.
 *
 * What is kept grows with the requests that live at a time, not with those that ever did: rows in ascending order of ids, those of
 * freed requests empty until there are too many of them.
 */
#ifndef DDL_ENGINE_IDS_H
#define DDL_ENGINE_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define DDL__IDS_MAX 0x80000000u /* requests that a communicator may create: ids from here on are channels' (channel.h) */

struct ddl_request;

struct ddl__ids_row {
	struct ddl_request *request; /* NULL: freed */
	uint32_t id;
};

struct ddl__ids {                  /* all zero: none yet */
	struct ddl__ids_row *rows; /* owned */
	uint32_t n, room;          /* rows used and there */
	uint32_t live;             /* rows with a request */
	uint32_t created;          /* requests so far: the next id */
};

/* Gives a request the next id. Returns 0; -ENOMEM; -EOVERFLOW (there are no more). */
int ddl__ids_enter(struct ddl__ids *ids, struct ddl_request *request);

/* Takes a request out, if it is in. */
void ddl__ids_leave(struct ddl__ids *ids, const struct ddl_request *request);

/* The request with an id, NULL where it was freed. False: it is not created yet. */
bool ddl__ids_find(const struct ddl__ids *ids, uint32_t id, struct ddl_request **request);

void ddl__ids_fini(struct ddl__ids *ids);

#endif
