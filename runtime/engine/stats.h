/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.h - where the time of requests goes: what their lanes carried, and what they waited for.
 *
 * A request is watched (struct ddl__watch) where statistics or a trace are wanted. The time of each of its lanes is cut into
 * spans: waiting for the peer's data, for room at the peer, for another lane of this rank, and work, which is a slice through the
 * kernels and into the transport. The clock is read when a slice is through, and when a wait ends; a request that is not watched
 * costs a branch a slice.
 *
 * What requests did is added up by rows, which stay when a request is freed: one for all messages sent, one for all received (these
 * are of two ranks alone), then one for each collective in the order of creation, which is the same on every rank.
 */
#ifndef DDL_ENGINE_STATS_H
#define DDL_ENGINE_STATS_H

#include "engine.h"

enum ddl__observe {                         /* what is wanted; bits */
		    DDL__OBSERVE_STATS = 1, /* statistics */
		    DDL__OBSERVE_ALONE = 2, /* and the time that each collective takes alone */
		    DDL__OBSERVE_PEERS = 4, /* and those of each two ranks */
		    DDL__OBSERVE_TRACE = 8, /* a trace on this or another rank */
};

enum {
	DDL__ROWS_MAX = 1024, /* of a communicator; later collectives share the last one */
	DDL__ROW_SENDS = 0,
	DDL__ROW_RECEIVES = 1,
	DDL__ROW_COLLECTIVES = 2, /* the first of them */
};

struct ddl__lane_watch {
	struct ddl_stats done;          /* in both directions */
	uint64_t since_ns;              /* begin of the present span */
	uint32_t sent, received;        /* slices in this start */
	uint8_t halt;                   /* enum ddl__halt: what it waits for; DDL__MOVED: between two slices */
	uint8_t recv_level, send_level; /* at which the ranks meet */
	uint8_t recv_rail, send_rail;   /* over which they do */
};

struct ddl__watch {                    /* of a request */
	struct ddl__lane_watch *lanes; /* as many as the schedule's */
	uint64_t starts;               /* that are complete */
	uint64_t total_ns, shortest_ns, longest_ns;
	uint32_t row;   /* of the communicator's */
	uint32_t trace; /* name in the trace */
	bool added;     /* to the row */
};

struct ddl__stats_row {
	struct ddl__call call;   /* of the first request of the row */
	size_t *counts;          /* blocks by counts, where they are needed later; owned; else NULL */
	uint64_t requests;       /* that it adds up */
	uint64_t alone_ns;       /* a start alone; 0 not measured */
	struct ddl__watch times; /* starts, total, shortest, longest */
	struct ddl_stats all;
	struct ddl_stats levels[DDL_STATS_LEVELS];
	struct ddl_stats rails[DDL_STATS_RAILS];
};

struct ddl__stats {
	struct ddl__stats_row *rows;
	size_t n_rows;
	struct ddl_stats *peers; /* size of the communicator */
	unsigned n_levels;       /* that the tree has */
	unsigned n_rails;
};

/* Begins to watch the requests that are made from now on. -ENOMEM. */
int ddl__stats_open(struct ddl_comm *comm, unsigned observe);

/* No more requests are watched. */
void ddl__stats_end(struct ddl_comm *comm);

/* Adds up what requests that were not freed did so far; they are done. Takes the lock. */
void ddl__stats_add_live(struct ddl_comm *comm);

void ddl__stats_close(struct ddl_comm *comm);

/* Watches a request that is made, if any are watched. -ENOMEM. The lock is held. */
int ddl__watch_open(struct ddl_request *request, const struct ddl__request_args *args);

/* Adds what it did to its row and forgets it. The lock is held. */
void ddl__watch_close(struct ddl_request *request);

/* What a watched request's lane does: a start begins; a slice can go on; it is through (bytes: on the wire); the lane waits. */
void ddl__watch_start(struct ddl_request *request);
void ddl__watch_begin(struct ddl_request *request, uint32_t lane);
void ddl__watch_moved(struct ddl_request *request, uint32_t lane, const struct ddl__step *step, size_t bytes);
void ddl__watch_halt(struct ddl_request *request, uint32_t lane, enum ddl__halt halt);
void ddl__watch_complete(struct ddl_request *request);

#endif
