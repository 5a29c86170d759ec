/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - what the ranks of a job say to each other over a byte stream: a header of 24 bytes, then a body.
 *
 * The parser takes bytes in pieces of any size, checks every header before it believes it, and hands complete frames to a sink. It
 * knows no sockets, so that it can be fed by a test. Only DATA has a large body, which goes straight where the sink says.
 *
 * Numbers are in the byte order of the machine; a peer of the other order has a wrong magic and is refused in the handshake.
 */
#ifndef DDL_TRANSPORT_FRAME_H
#define DDL_TRANSPORT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define DDL__FRAME_MAGIC 0xdd1au
#define DDL__CONTROL_MAX 1024u /* bytes of a control frame's body */

enum ddl__frame_type {
	DDL__FRAME_HELLO = 1,     /* connecting side: who it is, whom it wants, its nonce */
	DDL__FRAME_CHALLENGE = 2, /* listening side: its nonce and its proof */
	DDL__FRAME_PROOF = 3,     /* connecting side's proof */
	DDL__FRAME_WELCOME = 4,   /* listening side: from here on lanes */
	DDL__FRAME_ANNOUNCE = 5,  /* receiver: a lane is open; body: struct ddl__lane. shm: with a descriptor */
	DDL__FRAME_WITHDRAW = 6,  /* receiver: that lane is closed */
	DDL__FRAME_CREDIT = 7,    /* receiver: count slots are free again */
	DDL__FRAME_DATA = 8,      /* sender: a slice */
	DDL__FRAME_DOORBELL = 9,  /* shm: how to wake the sender of this frame; with two descriptors */
	DDL__FRAME_ABORT = 10,    /* the communicator is aborted; count: the code; body: why, as text without NUL */
	DDL__FRAME_BYE = 11,      /* the last frame */
	DDL__FRAME_WINDOW = 12,   /* shm: memory of the sender of this frame; request: its id; with a descriptor */
	DDL__FRAME_MAPPED = 13,   /* shm: the window of that id (request) is mapped: slices of it may be lent */
	DDL__FRAME_HIDE = 14,     /* shm: the window of that id (request) is gone */
	DDL__FRAME_LOST = 15,     /* the connection over that rail (count) and channel (lane) is lost: its lanes come anew */
	DDL__FRAME_PAIR = 16,     /* verbs: the queue pair of the sender of this frame; body: struct pair */
	DDL__FRAME_READY = 17,    /* verbs: that queue pair takes what is sent to it */
	DDL__FRAME_FREED = 18,    /* verbs: after that many messages (request) nothing comes for the closed lane of number count */
	DDL__FRAME_FAULT = 19,    /* verbs: the sender of this frame gives this connection up; body: why, as text without NUL */
};

struct ddl__frame {       /* No padding. */
	uint16_t magic;   /* DDL__FRAME_MAGIC */
	uint16_t type;    /* enum ddl__frame_type */
	uint32_t bytes;   /* of the body */
	uint32_t request; /* the lane's request; 0 where there is no lane */
	uint32_t lane;    /* the lane's index in its request */
	uint32_t grant;   /* the receiver's number of this opening of the lane: what is left of an earlier one is told apart */
	uint32_t count;   /* CREDIT: slots; DATA: 1: may land where it belongs; ABORT: code; BYE, WITHDRAW: the transport's */
};

struct ddl__frame_sink {
	/* The header of a DATA frame came: *to is where its body goes; NULL: it is dropped. Negative: refused. */
	int (*data)(void *context, const struct ddl__frame *frame, void **to);
	/* A frame is complete; body is NULL for DATA. 0 go on, 1 stop before the next frame, negative refused. */
	int (*frame)(void *context, const struct ddl__frame *frame, const void *body);
};

struct ddl__parser {
	struct ddl__frame frame;                    /* the one that is coming */
	size_t have;                                /* bytes of header and body that came */
	uint8_t *to;                                /* body of DATA; NULL: it is dropped */
	_Alignas(8) uint8_t body[DDL__CONTROL_MAX]; /* body of the others */
};

/* Takes up to n bytes; *used tells how many. 0 all used, 1 the sink stopped it, negative as the sink or -EBADMSG. */
int ddl__parser_feed(struct ddl__parser *parser, const struct ddl__frame_sink *sink, void *context, const void *bytes, size_t n,
		     size_t *used);
/* Where the rest of a DATA body goes and how much it is; NULL: nowhere in particular, feed it. */
void *ddl__parser_room(struct ddl__parser *parser, size_t *room);
/* n bytes were put at ddl__parser_room(). Returns as ddl__parser_feed(). */
int ddl__parser_landed(struct ddl__parser *parser, const struct ddl__frame_sink *sink, void *context, size_t n);
/* The place that the sink gave for the body that is coming is gone: the rest is dropped. */
void ddl__parser_drop(struct ddl__parser *parser);

#endif
