/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - what each lane of each request did and when, as JSON that Chrome and Perfetto read, one file a rank.
 *
 * Spans are kept in a ring of bounded size, the newest ones; the file says how many were dropped. It is written when the
 * communicator is destroyed, when it fails, and with a hang dump. Times are rank 0's: what its clock is ahead is told by
 * ddl__trace_clock().
 *
 * The file has one event a line, sorted by time, after a first line that says whose it is: `ddl trace merge` reads line by line,
 * and a file that was cut is still good up to there. A track is a request, or a lane of a request; an arrow leads from a slice that
 * was sent to its place on the rank that received it.
 */
#ifndef DDL_ENGINE_TRACE_H
#define DDL_ENGINE_TRACE_H

#include <stdint.h>

#include <ddl/error.h>

#define DDL__TRACE_FORMAT "ddl-trace-1" /* of the first line */

struct ddl__trace;
struct ddl__call;
struct ddl_comm;

enum ddl__span {                        /* what an event tells of */
		 DDL__SPAN_REQUEST = 0, /* a start of a request, until it was complete */
		 DDL__SPAN_WORK = 1,    /* a slice: kernels and handing it on */
		 DDL__SPAN_DATA = 2,    /* a lane waits for data */
		 DDL__SPAN_CREDIT = 3,  /* for room at its peer */
		 DDL__SPAN_LANE = 4,    /* for another lane of its rank */
};

struct ddl__trace_event {
	uint64_t begin_ns, end_ns; /* this machine's monotonic clock */
	uint32_t request;          /* what ddl__trace_name() gave */
	uint32_t id;               /* of the request, as its ranks know it */
	uint32_t start;            /* which start */
	uint32_t lane;             /* index */
	uint32_t number;           /* of the lane, as both ends know it */
	uint32_t sent, received;   /* which slice of the lane in this start, from 1; 0 none */
	uint32_t bytes;            /* of the slice */
	int32_t from, to;          /* peers of the lane; -1 none */
	uint8_t kind;              /* enum ddl__span */
	uint8_t step;              /* enum ddl__step_kind */
	uint8_t level;             /* at which the peer is */
};

/* folder must exist; megabytes bounds the ring. -ENOMEM; -ENOENT and the like when the file cannot be written. */
int ddl__trace_open(const struct ddl_comm *comm, const char *folder, const char *job, int megabytes, struct ddl__trace **trace,
		    struct ddl_error *err);

/* By how much this machine's clock is ahead of rank 0's, and how wrong that may be. */
void ddl__trace_clock(struct ddl__trace *trace, int64_t ahead_ns, uint64_t error_ns);

/* Names a new request. trace NULL does nothing. The engine's lock is held. */
uint32_t ddl__trace_name(struct ddl__trace *trace, const struct ddl__call *call);

/* Records a span. The engine's lock is held. */
void ddl__trace_add(struct ddl__trace *trace, const struct ddl__trace_event *event);

const char *ddl__trace_folder(const struct ddl__trace *trace);

/* Writes the file anew. NULL does nothing. The engine's lock is held. */
void ddl__trace_write(struct ddl__trace *trace);

/* Writes the file and frees. NULL does nothing. */
void ddl__trace_close(struct ddl__trace *trace);

#endif
