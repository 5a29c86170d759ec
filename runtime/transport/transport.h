/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - the one contract between the engine and what moves bytes: lanes with slots and credits.
 *
 * A lane is one direction between two ranks that belongs to one request. The receiver owns its slots: it opens the lane
 * (rx_open), and the announcement that reaches the sender grants all slots as credits. The sender fills the next free slot
 * (tx_slot) and sends it (tx_send); the receiver sees landed slices in order (rx_slot), reads them in place and returns the credit
 * (rx_release). So a sender never sends what the receiver cannot hold, one stalled request never blocks another on the same
 * connection, and data may land before the receiver's request was started.
 *
 * Opening a lane never waits for the peer: until the peer's announcement came, tx_slot has no credit. Connections are made lazily,
 * by the lower rank to the higher one's address, when the first lane with that peer is opened on either side; both have
 * the connection in their schedules.
 *
 * Threads: the engine calls every op of one transport under one lock, except wake-ups, which are the kernel's.
 * Nothing here sleeps. A transport registers its file descriptors in the engine's epoll set with a struct ddl__poll_source.
 */
#ifndef DDL_TRANSPORT_TRANSPORT_H
#define DDL_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#define DDL__SECRET_SIZE    32   /* bytes of the job's secret */
#define DDL__ADDRESS_MAX    1024 /* bytes of a transport's address */
#define DDL__CALL_DIMS      8    /* dimensions of multiring that a call may name */
#define DDL__SLOTS_MAX      64   /* slots of a lane */
#define DDL__RAILS_MAX      8    /* network interfaces that a rank's traffic is spread over */
#define DDL__SLOT_BYTES_MAX (1u << 22)
#define DDL__DEVICE_MAX     64 /* bytes of an RDMA device's name, with its end */
#define DDL__RDMA_LOCK_MIB  64 /* who may lock less memory has no RDMA: the slots of a few requests */

#define DDL__WINDOW_ALIGNMENT 4096u /* bytes: of windows */
#define DDL__LEND_BYTES_MIN   4096u /* shorter slices are copied: that costs less than waiting until they were read */

struct ddl__transport;
struct ddl__tx; /* sender's end of a lane; each transport has its own struct */
struct ddl__rx; /* receiver's end of a lane */

struct ddl__call {           /* the call a request was made by; compared between ranks before the first byte. No padding. */
	uint32_t collective; /* enum ddl__collective */
	uint32_t algorithm;  /* id of the selection table */
	uint32_t type;       /* enum ddl_type */
	uint32_t op;         /* enum ddl_op; 0 none */
	uint32_t wire;       /* enum ddl_wire, resolved */
	int32_t root;        /* -1 none */
	uint32_t rings;      /* rings that share the data */
	int32_t priority;    /* higher goes first */
	uint64_t count;      /* elements; of one block where there is a block a rank */
	uint64_t counts;     /* blocks by counts: tells the counts apart; else 0 */
	uint64_t seed;       /* of random rounding; else 0 */
	uint32_t rounding;   /* enum ddl_rounding; to nearest where the wire rounds nothing */
	uint32_t feedback;   /* 1: errors are fed back */
	uint32_t accuracy;   /* enum ddl_accuracy; 0: nothing said, or nothing is rounded anyway */
	uint32_t in_order;   /* 1: contributions are reduced in the order of ranks */
	uint32_t dims[DDL__CALL_DIMS]; /* of multiring, where they were chosen with it; the rest 0 */
};

struct ddl__lane {           /* a lane as both ends must describe it. No padding. */
	uint32_t request;    /* id of the request, the same on every rank */
	uint32_t index;      /* which lane of the request (the same number at both ends) */
	uint32_t slots;      /* 1 ... DDL__SLOTS_MAX */
	uint32_t slot_bytes; /* 0 ... DDL__SLOT_BYTES_MAX; 0: slices carry no bytes */
	struct ddl__call call;
};

struct ddl__poll_source { /* epoll_event.data.ptr points to one of these; lives until the transport is closed */
	void (*ready)(struct ddl__poll_source *source, uint32_t events); /* called under the engine's lock */
};

struct ddl__events { /* what a transport tells the engine; called under the engine's lock; must not call back into the transport */
	/* A peer announced its receiving end of a lane; comes for every announcement, also for requests that are not created
	 * yet. */
	void (*announced)(void *context, int peer, const struct ddl__lane *lane);
	/* A peer is gone (-ECONNRESET), could not be connected (-ECONNREFUSED, -ETIMEDOUT) or broke the protocol (-EPROTO,
	 * -EBADMSG); detail is a clause for the error's sentence, which the engine completes with rank and node. Said once a
	 * peer. */
	void (*lost)(void *context, int peer, int code, const char *detail);
	/* A peer said goodbye: what it sent before has landed, nothing will follow. Said once a peer. */
	void (*left)(void *context, int peer);
	/* A peer aborted the communicator and says why. */
	void (*aborted)(void *context, int peer, int code, const char *text);
	/* Somebody who is no peer connected and was sent away; what: who and why, a clause. Said once. NULL: nobody wants to
	 * know. */
	void (*stranger)(void *context, const char *what);
	/* A connection to a peer is lost, and others carry on; what: which and why, a clause. NULL: nobody wants to know. */
	void (*moved)(void *context, int peer, const char *what);
};

/* Which memory of the program RDMA devices are given where it lies (DDL_RDMA_REGISTER). */
enum ddl__register {
	DDL__REGISTER_AUTO = 0,  /* of ddl_mem_alloc(), and other where the kernel tells when it is unmapped */
	DDL__REGISTER_ALLOC = 1, /* of ddl_mem_alloc() alone */
	DDL__REGISTER_ALL = 2,   /* all: the program promises not to unmap it while the communicator lives */
};

struct ddl__rdma_port {               /* what DDL_RDMA names */
	char device[DDL__DEVICE_MAX]; /* as libibverbs calls it: "mlx5_0" */
	int port;                     /* 1 ... 255; 0: all ports of that device */
};

struct ddl__rdma_settings { /* of transport/verbs, from DDL_RDMA and DDL_RDMA_*; checked for their form alone */
	struct ddl__rdma_port ports[DDL__RAILS_MAX]; /* that are rails, in this order */
	size_t n_ports;                              /* 0: by rule */
	int gid_index;                               /* 0 ... 255; -1: by rule */
	int pkey;               /* 0x0001 ... 0xffff, of which bit 15 (full member) is not compared; -1: the first */
	int service_level;      /* 0 ... 15 */
	int traffic_class;      /* 0 ... 255 */
	int mtu;                /* bytes, at most: 256, 512, 1024, 2048, 4096; 0: what the port has */
	int timeout;            /* 1 ... 31: an acknowledgement is waited for 4.096 us * 2^timeout */
	int retry;              /* 0 ... 6: how often a message that was not acknowledged is sent again */
	enum ddl__register use; /* of the program's memory */
};

/* What is in force where no variable says otherwise. */
#define DDL__RDMA_SETTINGS_INIT                                                                                                    \
	{                                                                                                                          \
		.gid_index = -1, .pkey = -1, .timeout = 18, .retry = 6                                                             \
	}

struct ddl__cpus;
struct ddl__verbs_api;

struct ddl__transport_config {
	int rank;                              /* this rank */
	int n_ranks;                           /* ranks of the communicator */
	int epoll_fd;                          /* the engine's */
	int timeout_ms;                        /* for making a connection */
	const char *machine;                   /* equal on ranks that can share memory; borrowed */
	const char *const *addresses;          /* numeric addresses this rank listens at, one a rail; borrowed */
	const char *const *interfaces;         /* names of theirs, to bind connections to; NULL: as the routes say; borrowed */
	size_t n_addresses;                    /* at least 1 */
	const struct ddl__events *events;      /* borrowed until close */
	void *context;                         /* handed to events */
	void *loop;                            /* transport/loop: the world its ranks share; else NULL */
	const struct ddl__rdma_settings *rdma; /* transport/verbs: borrowed until close; NULL: defaults */
	const struct ddl__cpus
		*cpus; /* transport/verbs: that threads of this process may use; borrowed while it opens; NULL: not known */
	const struct ddl__verbs_api *verbs; /* transport/verbs, in tests: in place of libibverbs; borrowed until close; else NULL */
};

struct ddl__peer {           /* what is known of a rank after the exchange */
	const void *address; /* what its transport's address op wrote; NULL: that rank does not have this transport */
	size_t size;         /* bytes of it */
	const char *machine; /* equal on ranks that can share memory */
};

struct ddl__spot {       /* where bytes belong in the receiver's output; the sender knows it from its schedule */
	uint64_t start;  /* in that start of the request */
	uint64_t offset; /* bytes from the begin of the output */
};

struct ddl__window {              /* memory of this process that its node's other processes may map (core/mem.c) */
	uint32_t id;              /* of this communicator, from 1; never used again */
	int fd;                   /* its sealed memfd; -1: plain memory, which nobody else can map */
	uint8_t *memory;          /* where it is mapped here */
	size_t size;              /* bytes: whole pages */
	struct ddl__window *next; /* of the communicator's */
};

struct ddl__transport_ops {
	const char *name;        /* spelling in DDL_TRANSPORTS and `ddl info` */
	const char *description; /* one line for people */
	/* 1: works on this machine; 0: why (size bytes) gets a clause that says what is missing. */
	int (*probe)(char *why, size_t size);
	int (*open)(const struct ddl__transport_config *config, struct ddl__transport **transport, struct ddl_error *err);
	/* Writes what peers need to reach this rank, at most DDL__ADDRESS_MAX bytes. */
	int (*address)(struct ddl__transport *transport, void *buffer, size_t *size);
	/* Tells who the peers are: n_ranks of them, copied as needed; secret: DDL__SECRET_SIZE bytes, the same on every rank of the
	 * job. */
	int (*attach)(struct ddl__transport *transport, const struct ddl__peer *peers, const uint8_t *secret,
		      struct ddl_error *err);
	/* Whether a lane with that peer can go this way. Symmetric: both sides must say the same, from the addresses alone. */
	bool (*reaches)(const struct ddl__transport *transport, int peer);
	int (*rx_open)(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__rx **rx,
		       struct ddl_error *err);
	int (*tx_open)(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__tx **tx,
		       struct ddl_error *err);
	void (*rx_close)(struct ddl__rx *rx); /* what lands later for it is dropped */
	void (*tx_close)(struct ddl__tx *tx); /* what was sent is still delivered */
	/* Data path. No allocation. */
	void *(*tx_slot)(struct ddl__tx *tx); /* next free slot, slot_bytes long; NULL: no credit now. Same slot until sent */
	void (*tx_send)(struct ddl__tx *tx, size_t bytes); /* sends the first bytes of that slot */
	/* A start of the lane's request begins, the turn-th of this rank: where lanes share a connection, slices of the one with
	 * the higher priority go first, and of equal ones those of the start that came first. NULL: lanes share nothing. */
	void (*tx_turn)(struct ddl__tx *tx, uint64_t turn);
	bool (*tx_flushed)(struct ddl__tx *tx); /* whether all that was sent reaches the peer without another call here */
	const void *(*rx_slot)(struct ddl__rx *rx, size_t *bytes); /* oldest landed slice; NULL: none. Same slice until released */
	void (*rx_release)(struct ddl__rx *rx);                    /* returns its credit */
	/* Tells how many slices come in a start of the request: as long as the sender has credits for so many, others may be
	 * returned later. NULL: credits are returned at once. */
	void (*rx_expect)(struct ddl__rx *rx, uint64_t slices);
	/*
	 * Windows; all of these but hide are NULL where the transport has none. A slice of a window need not pass through a slot:
	 * it may be lent, and the receiver reads it where it lies in the sender's memory, or be placed, where the sender writes
	 * it into the receiver's memory. Either way it takes its place and credit in the lane; rx_slot then points to where it
	 * lies. Both need a window that the other side has mapped: until then slices go through slots, and nobody waits.
	 */
	/* Shows a window to a peer, once; it maps it when it gets to it. Best effort: told again, it tries again. */
	void (*show)(struct ddl__transport *transport, int peer, const struct ddl__window *window);
	/* Its memory goes: the peers unmap it. Nothing of it is lent, and no request that is granted it goes on. */
	void (*hide)(struct ddl__transport *transport, const struct ddl__window *window);
	/* Sends a slice by lending it; its bytes must not change until tx_flushed, or until it is known otherwise that the peer
	 * has read them. False: no credit, or the peer has not mapped the window: it goes through a slot. */
	bool (*tx_lend)(struct ddl__tx *tx, const struct ddl__window *window, size_t offset, size_t bytes);
	/* Receiver: in the start of that number the sender may write its slices straight to these bytes. window NULL: not. */
	void (*rx_grant)(struct ddl__rx *rx, uint64_t start, const struct ddl__window *window, size_t offset, size_t bytes);
	/* Sender: where a slice goes that the peer keeps that far into what it granted in that start; NULL: not granted, not
	 * mapped, or no credit. Then tx_placed sends it; nothing else may be sent in between. */
	void *(*tx_place)(struct ddl__tx *tx, uint64_t start, size_t offset, size_t bytes);
	void (*tx_placed)(struct ddl__tx *tx, size_t bytes);
	/*
	 * Answers; NULL where the transport has none. pair: both are ends of lanes with one peer, of the same request and index,
	 * and the schedule sees to it that a slot is not sent into before what was answered in it was read.
	 */
	void (*pair)(struct ddl__tx *tx, struct ddl__rx *rx);
	/* Where the slice lies that rx_slot of the other end tells of, to be written over with what is sent back; NULL: not in a
	 * slot of at least so many bytes, or no credit. Then tx_answered sends that; nothing else may be sent in between. */
	void *(*tx_answer)(struct ddl__tx *tx, size_t bytes);
	void (*tx_answered)(struct ddl__tx *tx, size_t bytes);
	/*
	 * Memory of the caller that nobody else maps; all of these are NULL where the transport has no use for it.
	 */
	/* Sends a slice from where it lies; its bytes must not change until tx_flushed. held: what hold returned for that memory.
	 * spot: they are final, belong at that place in the receiver's output, and may be there at once; NULL: they are not. False:
	 * no credit. */
	bool (*tx_borrow)(struct ddl__tx *tx, void *held, const void *from, size_t bytes, const struct ddl__spot *spot);
	/* Whether those bytes can be sent from where they lie; else they go through a slot. NULL: all can. */
	bool (*tx_borrows)(struct ddl__tx *tx, void *held, const void *from, size_t bytes);
	/* Receiver: when a slice that is final begins to land, where() tells where it goes: `ahead` slices after the one that
	 * rx_slot tells of next, or will. NULL: to a slot. */
	void (*rx_land)(struct ddl__rx *rx, void *(*where)(void *context, uint64_t ahead, size_t bytes), void *context);
	/* Receiver, where the sender writes into its memory without asking: in the start of that number it may write slices that
	 * are final into these bytes, the output; start 0: in none, before held is dropped. Lanes with rx_land. NULL: nobody writes
	 * so. */
	void (*rx_accept)(struct ddl__rx *rx, uint64_t start, void *held, void *memory, size_t bytes);
	/*
	 * The lanes that a request has this way send from, and land in, these bytes, until drop, as far as they stay mapped.
	 * window: that they lie in, or NULL. held: what this returned for the same use in an earlier start, or NULL. Returns what
	 * to drop, or NULL: that memory is used through slots. Both NULL: any memory is as good as any other.
	 */
	void *(*hold)(struct ddl__transport *transport, void *held, void *memory, size_t bytes, const struct ddl__window *window);
	void (*drop)(struct ddl__transport *transport, void *held);
	/* The communicator failed: what is borrowed is not read, and where slices were to land is not written, from now on. May be
	 * called from within events. */
	void (*let_go)(struct ddl__transport *transport);
	/* A pass of the engine ends: what was sent and released in it goes out now. all: also credits that could wait for more;
	 * comes before the engine sleeps. NULL: there is nothing that waits. */
	void (*flush)(struct ddl__transport *transport, bool all);
	/* A pass begins: takes in what has come without a descriptor that tells of it. NULL: nothing does. */
	void (*poll)(struct ddl__transport *transport);
	/* Ports that are this transport's rails, in place of the interfaces that it was opened with. NULL: they are those. */
	unsigned (*ports)(const struct ddl__transport *transport);
	/* The rail that a lane goes over, below DDL__RAILS_MAX. NULL ops: 0. */
	unsigned (*rx_rail)(const struct ddl__rx *rx);
	unsigned (*tx_rail)(const struct ddl__tx *tx);
	/* Around sleeping in epoll: on - peers must from now on wake this rank through the epoll set when they send or return a
	 * credit; the engine then looks at its lanes once more before it sleeps. off - they need not. NULL op allowed: descriptors
	 * wake anyway. */
	void (*sleeping)(struct ddl__transport *transport, bool on);
	/* Tells every peer that is connected, or will be, that the communicator is aborted; best effort, does not block. Afterwards
	 * done() tells when no connection is in the making and all is written. */
	void (*abort)(struct ddl__transport *transport, int code, const char *text);
	/* Says goodbye to the connected peers; afterwards done() tells when all of them said so too and everything is flushed. */
	void (*goodbye)(struct ddl__transport *transport);
	bool (*done)(const struct ddl__transport *transport);
	void (*close)(struct ddl__transport *transport); /* NULL does nothing; all lanes are closed before */
	/* In a child after a fork: closes its copies of the descriptors and does nothing else. NULL op allowed: there are none. */
	void (*forked)(struct ddl__transport *transport);
};

struct ddl__transport { /* first field of each member's own struct */
	const struct ddl__transport_ops *ops;
};
struct ddl__tx {
	const struct ddl__transport_ops *ops;
};
struct ddl__rx {
	const struct ddl__transport_ops *ops;
};

extern const struct ddl__transport_ops ddl__transport_loop; /* many ranks in one process, for tests */
extern const struct ddl__transport_ops ddl__transport_shm;
extern const struct ddl__transport_ops ddl__transport_verbs;
extern const struct ddl__transport_ops ddl__transport_tcp;

/* All members in the order of preference; ended by NULL. */
extern const struct ddl__transport_ops *const ddl__transports[];

#endif
