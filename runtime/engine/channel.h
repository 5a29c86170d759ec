/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h - the ids of send/receive requests, which two ranks make alone.
 *
 * A collective's request is known by its place in the order in which all ranks create requests. Two ranks cannot count with the
 * others, so each direction between two ranks and each tag on it is a channel that counts for itself: the n-th send created on it
 * meets the n-th receive. The id has DDL__CHANNEL_BIT set, so it is none of a collective's, then the direction, then n modulo 2^30.
 * The tag is the number of the request's only lane; connections are between two ranks, so (id, lane) is unique on each.
 */
#ifndef DDL_ENGINE_CHANNEL_H
#define DDL_ENGINE_CHANNEL_H

#include <pthread.h>

#include "engine.h"

#define DDL__CHANNEL_BIT   0x80000000u
#define DDL__CHANNEL_DOWN  0x40000000u /* from the higher rank to the lower */
#define DDL__CHANNEL_MASK  0x3fffffffu
#define DDL__CHANNEL_CACHE 4 /* requests that the blocking calls keep, a channel */

/* What people are told of an id: its place in the order. */
#define DDL__REQUEST_NUMBER(id) ((id)&DDL__CHANNEL_BIT ? (id)&DDL__CHANNEL_MASK : (id))

struct ddl__channel {
	int peer;                  /* the other rank */
	uint32_t tag;              /* number of the lane */
	bool sends;                /* from here to the peer */
	uint32_t created;          /* requests so far, modulo 2^32 */
	struct ddl_request *live;  /* not freed; by channel_next */
	struct ddl__channel *next; /* of the communicator's */
	pthread_mutex_t turn;      /* one blocking call at a time */
	struct ddl__cached cache[DDL__CHANNEL_CACHE];
	uint64_t uses; /* of the cache */
};

/* The channel, made where there is none; lives as long as comm. NULL: no memory. The engine's lock is held. */
struct ddl__channel *ddl__channel_get(struct ddl_comm *comm, int peer, uint32_t tag, bool sends);

/* Gives a request its id. The engine's lock is held. */
void ddl__channel_enter(struct ddl__channel *channel, struct ddl_request *request);

/* Takes a request out. The engine's lock is held. */
void ddl__channel_leave(struct ddl_request *request);

/*
 * The request that a peer announced its receiving end for. False: it is not created here yet. *request is NULL where it was freed.
 * The engine's lock is held.
 */
bool ddl__channel_find(const struct ddl_comm *comm, int peer, const struct ddl__lane *lane, struct ddl_request **request);

/* Whether is() says so of any request of the channels. The engine's lock is held. */
bool ddl__channels_any(const struct ddl_comm *comm, bool (*is)(const struct ddl_request *request, const void *context),
		       const void *context);

/* Frees the requests of all channels. */
void ddl__channels_clear(struct ddl_comm *comm);

/* Frees the channels, which are clear. */
void ddl__channels_fini(struct ddl_comm *comm);

#endif
