/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - frames over a connected, non-blocking stream socket (TCP or unix).
 *
 * Control frames are copied into a buffer that grows in set-up calls only. A few data frames may be in the works; their bodies
 * are written straight from where they lie, in one call as far as the socket takes them. Frames go out whole: a data frame that
 * has begun is finished first, otherwise control goes first. What comes in is handed to a sink; the body of a data frame is
 * received straight into its place, together with the beginning of what follows. Over unix sockets control frames may carry file
 * descriptors.
 */
#ifndef DDL_TRANSPORT_STREAM_H
#define DDL_TRANSPORT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#define DDL__STREAM_IN      4096u       /* bytes read ahead */
#define DDL__STREAM_OUT     4096u       /* bytes of control frames that never need an allocation */
#define DDL__STREAM_OUT_MAX (16u << 20) /* bytes of control frames that may wait */
#define DDL__STREAM_FDS     2u          /* descriptors that one frame carries */
#define DDL__STREAM_SLICES  8u          /* data frames in the works */

struct ddl__stream_pass {              /* descriptors that go out with a control frame */
	uint64_t at;                   /* position of the frame's first byte in the control bytes of this stream */
	int fds[DDL__STREAM_FDS];      /* owned */
	size_t n;                      /* of them */
	struct ddl__stream_pass *next; /* in the order of at */
};

struct ddl__stream_slice { /* a data frame in the works */
	struct ddl__frame frame;
	const uint8_t *body; /* borrowed until it is written */
};

struct ddl__stream {
	int fd;                                            /* owned */
	bool passes_fds;                                   /* a unix socket */
	struct ddl__parser parser;                         /* of what comes in */
	uint8_t in[DDL__STREAM_IN];                        /* read ahead */
	size_t in_head, in_tail;                           /* what of it is not parsed yet */
	int in_fds[2 * DDL__STREAM_FDS];                   /* came, not taken yet; owned */
	size_t n_in_fds;                                   /* of them */
	uint8_t *out;                                      /* control bytes */
	size_t out_head, out_tail, out_size;               /* what of them is not written yet; size of the buffer */
	uint64_t out_put;                                  /* control bytes ever put */
	struct ddl__stream_pass *passes;                   /* descriptors to go out */
	struct ddl__stream_slice data[DDL__STREAM_SLICES]; /* data frames in the works, in order */
	size_t n_data;                                     /* of them */
	size_t data_done;                                  /* bytes of the first that are written */
};

/* Makes a stream of a socket, which it owns from then on. NULL: no memory. */
struct ddl__stream *ddl__stream_create(int fd, bool passes_fds);
void ddl__stream_destroy(struct ddl__stream *stream); /* closes; NULL does nothing */

/* Queues a control frame (frame->magic is filled in). fds: n_fds descriptors, owned by the stream if it returns 0.
 * Allocates where the buffer is full. 0, -ENOMEM, -ENOBUFS (too much waits already). */
int ddl__stream_put(struct ddl__stream *stream, const struct ddl__frame *frame, const void *body, const int *fds, size_t n_fds);
bool ddl__stream_fits(struct ddl__stream *stream, size_t body); /* whether put needs no allocation */
/* Takes a data frame into the works; fewer than DDL__STREAM_SLICES may be there. body is borrowed until it is out of them. */
void ddl__stream_data(struct ddl__stream *stream, const struct ddl__frame *frame, const void *body);
size_t ddl__stream_busy(const struct ddl__stream *stream); /* data frames in the works */
/* The body of the data frame in the works at that place in their order lies elsewhere now. */
void ddl__stream_move(struct ddl__stream *stream, size_t place, const void *body);
bool ddl__stream_idle(const struct ddl__stream *stream); /* nothing waits to be written */
/* Writes what the socket takes. 0 all is written, 1 something waits, -ETOOMANYREFS wait a little, else a negative errno. */
int ddl__stream_write(struct ddl__stream *stream);

/* Hands what came to the sink until there is no more for now (bounded: a busy peer does not keep us here). 0 good; 1 the sink
 * stopped it: call again, frames may be left in the buffer; -ECONNRESET at the end of the stream; else a negative errno. */
int ddl__stream_read(struct ddl__stream *stream, const struct ddl__frame_sink *sink, void *context);
int ddl__stream_take_fd(struct ddl__stream *stream); /* next descriptor that came, owned by the caller; -1 none */

#endif
