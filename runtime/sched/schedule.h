/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h - a collective on one rank as data: lanes of steps. Builders make it, verify.c proves it, the engine runs it.
 *
 * A lane is an in-order list of steps with at most one peer that it receives from and one that it sends to. Lanes have a number
 * that both ends know them by; a rank has only the lanes that it takes part in, in ascending order of their numbers. The engine
 * carries a step out in slices of slice_elements; a receiver holds at most `slots` slices of a lane, so a lane that sends more than
 * that before it receives may wait for its peer: verify.c finds cycles of such waits.
 *
 * Where ranks share memory a slice need not be copied. lend and place are permissions that the builder gives: what is sent is not
 * overwritten before the peer has read it, and where it goes is not used any more for anything else. Whether they are made use of
 * may differ from slice to slice, and changes no result; verify.c proves that too. answer is one more: what is sent may be written
 * over what was received, in the very slot that it came in, since the peer does not use that slot again before it has read it.
 */
#ifndef DDL_SCHED_SCHEDULE_H
#define DDL_SCHED_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

enum ddl__collective {
	DDL__ALLREDUCE = 1,
	DDL__BROADCAST = 2,
	DDL__BARRIER = 3,
	DDL__REDUCE_SCATTER = 4,
	DDL__ALLGATHER = 5,
	DDL__REDUCE = 6,
	DDL__ALLTOALL = 7,
	DDL__GATHER = 8,
	DDL__SCATTER = 9,
	DDL__SENDRECV = 10, /* from root to peer; the two ranks alone have a schedule */
};

enum ddl__step_kind {                            /* rx: the slice received; tx: the slice sent */
		      DDL__SEND = 1,             /* tx = src */
		      DDL__RECV = 2,             /* dst = rx */
		      DDL__RECV_REDUCE = 3,      /* dst = op(rx, src) */
		      DDL__RECV_REDUCE_SEND = 4, /* tx = op(rx, src) */
		      DDL__RECV_REDUCE_STORE_SEND =
			      5,                /* tx = op(rx, src), dst = tx: the owner keeps what it sent, not what it had */
		      DDL__RECV_STORE_SEND = 6, /* tx = rx, dst = rx */
		      DDL__COPY = 7,            /* dst = src */
		      DDL__SEND_STORE = 8,      /* tx = src, dst = tx: the sender keeps what it sent, not what it had */
		      DDL__REDUCE_MANY = 9,     /* dst = op(src, src + stride, ...), so many sources, in one pass */
		      DDL__ROUND = 10,          /* dst = src as it would arrive elsewhere */
};

enum ddl__buffer {
	DDL__INPUT = 0,   /* the user's send buffer; read only */
	DDL__OUTPUT = 1,  /* the user's receive buffer; may be the same memory as the input */
	DDL__SCRATCH = 2, /* the request's own, scratch_elements of the element type */
	DDL__BUFFERS = 3, /* how many there are */
};

#define DDL__NO_WAIT            UINT32_MAX
#define DDL__SOURCES_MAX        1024 /* of one reduction */
#define DDL__EXCHANGE_RANKS_MAX 64   /* that send everything to each other */

struct ddl__step {
	uint8_t kind;       /* enum ddl__step_kind */
	uint8_t src_buffer; /* enum ddl__buffer; of kinds that have a src */
	uint8_t dst_buffer; /* enum ddl__buffer; of kinds that have a dst */
	uint8_t final;      /* 1: the reduction is complete with this step: an average is divided here */
	uint8_t lend;       /* 1: the peer may read what is sent where it lies (src), when it comes to it */
	uint8_t place;      /* 1: the peer stores what is sent at element dst of its output, and it may be written there at once */
	uint8_t answer;     /* 1: what is sent to the peer that this step received from may lie where that came */
	uint32_t wait_lane; /* index of the lane whose step wait_step must be complete before; DDL__NO_WAIT: none */
	uint32_t wait_step; /* index in that lane */
	uint64_t src;       /* offset in elements */
	uint64_t dst;       /* offset in elements */
	uint64_t count;     /* elements; 0: one slice without bytes (a signal) */
	uint64_t stride;    /* of reduce-many: elements from source to source */
	uint32_t sources;   /* of reduce-many: how many, 1 ... DDL__SOURCES_MAX */
};

struct ddl__steps {              /* a lane */
	uint32_t number;         /* the same at both ends; ascending within a schedule */
	int recv_peer;           /* rank it receives from; -1 none */
	int send_peer;           /* rank it sends to; -1 none */
	uint32_t n;              /* steps */
	bool native;             /* elements travel as they are in memory, whatever the wire */
	struct ddl__step *steps; /* owned by the schedule */
};

struct ddl__schedule {
	uint32_t n_lanes;          /* may be 0 (nothing to do) */
	struct ddl__steps *lanes;  /* n_lanes */
	uint32_t slots;            /* slices of a lane that a receiver holds */
	uint64_t slice_elements;   /* elements of a slice, at least 1 */
	uint64_t scratch_elements; /* elements of the scratch buffer */
	bool replicas;             /* what is sent and kept from the output, several ranks have: they must round it alike */
};

struct ddl__build {                       /* what a builder is told; but for rank the same on every rank */
	const struct ddl__layout *layout; /* borrowed */
	int rank;                         /* whose schedule */
	uint64_t count;                   /* elements of the collective; of one block where it has a block a rank */
	uint32_t wire_bytes;              /* bytes of an element on the wire */
	uint32_t wire_block;              /* elements on the wire that share a scale: slices begin with a block; 0: any */
	bool rounds;                      /* elements may not be what they were before they travelled: who sends one keeps that */
	bool narrow;                      /* memory rounds what is reduced: it has 16 bits */
	bool in_order;                    /* contributions are to be reduced in the order of ranks, however that is cut */
	const size_t *counts;             /* blocks by counts: each rank's; of an all-to-all: to each rank; NULL: count each */
	const size_t *recv_counts;        /* all-to-all by counts: elements from each rank; else NULL */
	int root;                         /* of rooted collectives, the sender of a send/receive; else -1 */
	int peer;                         /* the receiver of a send/receive; else not read */
	uint32_t tag;                     /* of a send/receive: number of its lane */
	uint32_t rings;                   /* rings that share the data, at least 1 */
	const uint32_t *dims;             /* dimensions of multiring; NULL: those of the tree */
	size_t n_dims;                    /* how many */
	uint32_t slice_bytes;             /* largest slice; 0: the builder's choice */
};

/* Makes an empty schedule of n_lanes lanes without steps and peers, numbered 0, 1, ... -ENOMEM. */
int ddl__schedule_create(uint32_t n_lanes, struct ddl__schedule **schedule);
void ddl__schedule_destroy(struct ddl__schedule *schedule);

/* Gives a lane room for n steps, to be filled through lane->steps[lane->n++]. -ENOMEM. */
int ddl__schedule_reserve(struct ddl__steps *lane, uint64_t n);

/* Appends a step that waits for nothing; room must have been reserved. Returns it, so that the rest can be set. */
struct ddl__step *ddl__schedule_add(struct ddl__steps *lane, enum ddl__step_kind kind, enum ddl__buffer src_buffer, uint64_t src,
				    enum ddl__buffer dst_buffer, uint64_t dst, uint64_t count);

/* The lane of that number; NULL: this rank does not take part in it. */
struct ddl__steps *ddl__schedule_lane(const struct ddl__schedule *schedule, uint32_t number);

/* Elements of the longest slice that a lane sends, or receives: what one end sends the other receives. */
uint64_t ddl__steps_slice(const struct ddl__steps *lane, uint64_t slice_elements, bool sent);

/* Slices that a lane receives. */
uint64_t ddl__steps_received(const struct ddl__steps *lane, uint64_t slice_elements);

/* Slices of a step, at least 1. */
uint64_t ddl__step_slices(const struct ddl__step *step, uint64_t slice_elements);

/* What a kind does. */
bool ddl__step_receives(uint8_t kind);
bool ddl__step_sends(uint8_t kind);
bool ddl__step_reads(uint8_t kind);  /* has a src */
bool ddl__step_writes(uint8_t kind); /* has a dst */
bool ddl__step_reduces(uint8_t kind);
const char *ddl__step_name(uint8_t kind);

/* Makes step, the first of a later lane, wait until the last step of lane `before` so far is complete. */
void ddl__schedule_wait(struct ddl__step *step, const struct ddl__schedule *schedule, uint32_t before);

/* Elements of a slice so that `lanes` lanes of that many slots hold 32 MiB at most, between 4 and 256 KiB, or as build says. */
uint64_t ddl__slice_bounded(const struct ddl__build *build, uint64_t lanes, uint32_t slots);

/* The grain of a builder's choice, or the wire's block where it has blocks. */
uint64_t ddl__grain(const struct ddl__build *build, uint64_t grain);

/* So many elements, made whole blocks where the wire has blocks. */
uint64_t ddl__whole_blocks(const struct ddl__build *build, uint64_t elements);

/* Part i of n of `total` elements: parts differ by one unit at most, units of `grain` elements (the last part takes the rest). */
void ddl__split(uint64_t total, uint64_t n, uint64_t i, uint64_t grain, uint64_t *begin, uint64_t *count);

/*
 * Builders, one algorithm a file. Each is a pure function. Returns 0; -ENOMEM; -EOPNOTSUPP (not for this count or layout).
 *   ring           all-reduce: reduce-scatter and all-gather around a ring, pipelined; `rings` rings share the data
 *   multiring      all-reduce: reduce-scatter level by level, all-gather back, pipelined; `rings` parts of the data
 *   multidirect    all-reduce: as multiring, but at the top, where alone a wire rounds, straight to the owners
 *   doubling       all-reduce: log2 N rounds in which whole values are exchanged, for short messages
 *   halving        all-reduce: recursive halving and doubling, 2 log2 N rounds
 *   tree           all-reduce: reduced and broadcast along two binary trees, pipelined
 *   direct         all-reduce: every chunk straight to its owner, the result straight to all
 *   knomial        all-reduce: reduced and broadcast along a tree of radix 4, for short messages
 *   exchange       all-reduce: everybody's input straight to everybody, for the shortest messages; doubling where there are more
 *                  ranks than DDL__EXCHANGE_RANKS_MAX
 *   chain          all-reduce: from rank to rank by their numbers and back, pipelined, in the order of ranks
 *   chain          broadcast: from the root along the ring order, pipelined
 *   ring_blocks    reduce-scatter, all-gather: the halves of ring, blocks of any size
 *   bruck          reduce-scatter, all-gather: ceil(log2 N) rounds, for short blocks
 *   reduce_chain   reduce: along the ring order to the root, pipelined
 *   reduce_knomial reduce: up a tree of degree 4, for short messages
 *   pairwise       all-to-all: each two ranks exchange their blocks
 *   star           gather, scatter: straight between the root and each rank
 *   binomial       gather, scatter: along a tree, for short blocks
 *   point          send/receive: one lane
 *   dissemination  barrier: ceil(log2 N) rounds, round k to the rank 2^k further in ring order
 */
int ddl__build_ring(const struct ddl__build *build, struct ddl__schedule **schedule);

/*
 * An all-reduce of `rings` parts of the data, each built by one(), which must give every part the same lanes; one part where they
 * would be very short.
 */
int ddl__build_parts(const struct ddl__build *build, int (*one)(const struct ddl__build *build, struct ddl__schedule **schedule),
		     struct ddl__schedule **schedule);
int ddl__build_multiring(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_multidirect(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_doubling(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_halving(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_tree(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_direct(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_knomial(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_exchange(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_allreduce_chain(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_chain(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_ring_reduce_scatter(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_ring_allgather(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_bruck_reduce_scatter(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_bruck_allgather(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_reduce_chain(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_reduce_knomial(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_pairwise(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_star_gather(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_star_scatter(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_binomial_gather(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_binomial_scatter(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_point(const struct ddl__build *build, struct ddl__schedule **schedule);
int ddl__build_dissemination(const struct ddl__build *build, struct ddl__schedule **schedule);

#endif
