/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h - lanes over RDMA (libibverbs): what the files of this member share.
 *
 * A link to a peer is a TCP stream, as tcp has it, and beside it a reliable connected queue pair between two ports. Over the
 * stream go the handshake, the numbers of the queue pairs, announcements, withdrawals, aborts and goodbyes; so queue pairs are
 * only connected to ranks that know the job's secret, and a process that dies is noticed at once. Over the queue pair go
 *
 *     slices    RDMA writes with immediate, into the receiver's slot or (placed) straight into its output
 *     credits   empty writes with immediate
 *     grants    short sends: in this start slices may be written there
 *     flow      empty writes with immediate: so many messages have been taken in
 *
 * A grant may be here before the announcement of its lane, and waits for it. Each of these takes up a receive of the peer, which
 * has RECEIVES of them, and says (flow) when it has posted as many again: so no message ever meets a queue pair that is not ready
 * to receive. The immediate holds what it is and the number of its lane, which the receiver gave it. Little is in the send queue at
 * any time: what is more urgent comes soon.
 *
 * A lane that is closed at the receiving end keeps its memory until the sender has said that nothing more comes for it (FREED), and
 * all has come that was sent before; and its number until the sender has taken in (flow) its last credit, which would be another
 * lane's then. A lane that goes on over another link is announced there over the stream, and credits for slices that came before
 * follow over it too: over the queue pair they could be there first.
 *
 * Files: verbs.c (the ops: lanes, opening, closing), verbs_link.c (queue pairs, their making and end), verbs_post.c (what is sent),
 * verbs_take.c (completions), verbs_lanes.c (what ends, and goes on), verbs_net.c (addresses); verbs_api.h (libibverbs),
 * verbs_device.h (ports, that is rails), verbs_memory.h (registered memory).
 */
#ifndef DDL_TRANSPORT_VERBS_H
#define DDL_TRANSPORT_VERBS_H

#include "mesh.h"
#include "slots.h"
#include "verbs_api.h"
#include "verbs_device.h"
#include "verbs_memory.h"

#define DDL__VERBS_RECEIVES      256u       /* of a queue pair: messages that the peer may have under way */
#define DDL__VERBS_SENDS         128u       /* of a queue pair: work requests that are not complete */
#define DDL__VERBS_SPARE         8u         /* of both: for what must never wait for slices */
#define DDL__VERBS_MESSAGE       64u        /* bytes of a receive's buffer, and of a message in the making */
#define DDL__VERBS_FLYING        (1u << 20) /* bytes of slices under way, but for the last one: then others have their turn */
#define DDL__VERBS_SIGNAL        16u        /* every so many work requests are told of, */
#define DDL__VERBS_SIGNAL_BYTES  (1u << 18) /* and those that make up so many bytes */
#define DDL__VERBS_LINKS_A_QUEUE 32u        /* links that share a completion queue */
#define DDL__VERBS_EARLY         64u        /* grants of a link that wait for their lane; those before these are lost */

enum verbs_kind { /* upper two bits of an immediate */
		  VERBS_SLICE = 0,
		  VERBS_PLACED = 1,
		  VERBS_CREDIT = 2,
		  VERBS_FLOW = 3,
};

#define DDL__VERBS_NUMBERS (1u << 23) /* lanes at a time; in a credit their count is above that */

struct ddl__verbs_terms { /* with an announcement. No padding. */
	uint64_t at;      /* address of the slots */
	uint32_t rkey;
	uint32_t number; /* of the lane */
};

struct ddl__verbs_grant { /* a message. No padding. */
	uint32_t number;  /* of the lane */
	uint32_t rkey;
	uint64_t start;   /* of the request */
	uint64_t at;      /* address of the output */
	uint64_t bytes;   /* of it */
	uint32_t opening; /* of the lane, as its announcement has it: numbers are used again */
	uint32_t zero;
};

struct ddl__verbs_pair { /* body of its frame. No padding. */
	uint32_t qp;     /* its number, 24 bits */
	uint32_t psn;    /* of the first packet that it sends, 24 bits */
	uint32_t receives;
	uint32_t zero;
};

struct verbs_tx {
	struct ddl__mesh_tx mesh;
	struct ddl__verbs_piece memory; /* slots, stride bytes each */
	size_t stride;
	const uint8_t *at[DDL__SLOTS_MAX];                      /* where each slice lies: its slot, or the caller's memory */
	const struct ddl__verbs_region *region[DDL__SLOTS_MAX]; /* that it lies in */
	uint32_t sizes[DDL__SLOTS_MAX];                         /* bytes in each */
	struct ddl__spot spots[DDL__SLOTS_MAX];                 /* where each belongs in the output; start 0: nowhere */
	uint64_t sent;                                          /* by the engine */
	uint64_t posted;                                        /* to the queue pair */
	uint64_t completed;                                     /* of those */
	uint64_t credited;                                      /* came back */
	uint64_t borrowed;                                      /* behind the last slice that lies in the caller's memory */
	uint64_t settled;              /* where the caller's memory was its own again: it lies there no more */
	struct ddl__verbs_terms terms; /* the receiver's */
	struct ddl__verbs_grant grant; /* the receiver's, for one start */
	struct ddl__end numbered;      /* in link->numbers */
	bool closed;                   /* freed when all is complete */
	bool withdrawn;                /* the peer is told when all is complete */
};

struct verbs_rx {
	struct ddl__slots_rx in;
	struct ddl__verbs_piece memory;               /* in.memory; gone: nothing comes any more */
	bool moved;                                   /* the peer may not know its number yet */
	struct ddl__verbs_grant grant;                /* to be sent; start 0: none */
	const struct ddl__verbs_region *accepts;      /* where that lies: held while it is not 0 */
	bool granting;                                /* in the link's list */
	bool numbered;                                /* has its number */
	bool closed;                                  /* waits for FREED, */
	bool freed;                                   /* and has it: all has come after that many */
	uint32_t until;                               /* messages, modulo 2^32 */
	bool credited;                                /* has sent a credit over this link: */
	uint32_t mark;                                /* messages sent up to its last credit, as link->used */
	struct verbs_rx *next_granting, *next_closed; /* in the link's lists */
};

struct verbs_sent {          /* a work request that is not complete */
	struct verbs_tx *tx; /* whose slice; NULL: a message */
	uint32_t bytes;
};

struct verbs_queue { /* a completion queue with its channel */
	struct ddl__poll_source source;
	struct verbs *verbs;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ddl__verbs_device *device;
	uint32_t watched;         /* epoll events that the channel is registered for */
	unsigned links;           /* that use it */
	bool armed;               /* the next completion wakes us, or has */
	struct verbs_queue *next; /* of the transport's */
};

struct verbs_async { /* what a device has to say beside completions */
	struct ddl__poll_source source;
	struct verbs *verbs;
	struct ddl__verbs_device *device;
	uint32_t watched; /* epoll events that it is registered for */
};

struct verbs_link {
	struct ddl__link link;
	struct ddl__verbs_port *port;
	unsigned device;           /* its device's index, in keys */
	struct verbs_queue *queue; /* where its completions come */
	struct ibv_qp *qp;         /* NULL: none */
	bool paired;               /* the peer has told of its own */
	bool ending;               /* it is being ended here */
	bool broken;               /* it has failed: `what` says why; told of when all that came was taken in */
	bool ready;                /* the peer's receives */
	uint32_t inline_max;
	uint32_t psn;
	uint32_t peer_qp, peer_psn;     /* paired: those that it told of */
	uint64_t join_until_ns;         /* paired, and not joined: when to give up; else 0 */
	uint32_t peer_receives;         /* of the peer, but for the spare */
	struct ddl__verbs_piece memory; /* receives' buffers, then those of messages to be sent */
	uint32_t room;                  /* messages that the peer can take in */
	uint32_t used;                  /* messages that took room, modulo 2^32 */
	uint32_t taken;                 /* messages taken in that it was not told of */
	uint32_t sent, received;        /* messages, modulo 2^32 */
	struct verbs_sent works[DDL__VERBS_SENDS];
	uint32_t n_posted, n_completed; /* work requests, modulo 2^32 */
	uint32_t unsignaled, unsignaled_bytes;
	uint32_t slices;                                 /* under way */
	size_t flying;                                   /* bytes of them */
	struct ddl__mesh_tx *turns;                      /* lanes with slices to post, in their order */
	struct ddl__table numbers;                       /* lanes by the peer's number */
	struct ddl__verbs_grant early[DDL__VERBS_EARLY]; /* whose lanes are not announced yet; start 0: none */
	uint32_t n_early;                                /* ever */
	struct ddl__slots_rx *owing;
	struct verbs_rx *granting, *closed;
	uint32_t n_freed;                /* of closed that have FREED, and wait for messages that come before */
	bool pending;                    /* in the list of all links */
	bool due;                        /* credits are sent as soon as there is room */
	char what[96];                   /* broken: why */
	int bad;                         /* the peer broke the protocol: -EBADMSG, and link.why */
	char words[400];                 /* what went wrong, for link.why */
	struct verbs_link *next;         /* in that list */
	bool stirred;                    /* in the list of those that completions came for */
	struct verbs_link *next_stirred; /* in that list */
};

struct verbs {
	struct ddl__mesh mesh;
	struct ddl__verbs_api loaded;
	const struct ddl__verbs_api *api;
	struct ddl__rdma_settings settings;
	struct ddl__verbs_ports ports;            /* rails */
	struct verbs_async async[DDL__RAILS_MAX]; /* their devices, each once; memory is registered with all */
	size_t n_devices;
	struct ddl__verbs_memory *memory;
	struct verbs_queue *queues;
	struct verbs_rx **lanes; /* by number; NULL: free */
	uint32_t n_lanes, room_lanes, free_from;
	struct verbs_link *stirred; /* links that completions came for */
	struct verbs_link *pending; /* links that owe credits */
	unsigned patience;          /* passes that they may wait */
	bool let_go;                /* the caller's memory is not to be touched any more */
};

/* verbs_link.c */
int ddl__verbs_up(struct ddl__link *link);    /* mesh op: makes the queue pair, tells the peer */
void ddl__verbs_down(struct ddl__link *link); /* mesh op */
int ddl__verbs_pair(struct verbs_link *link, const struct ddl__frame *frame, const void *body); /* the peer's queue pair */
int ddl__verbs_join(struct verbs_link *link); /* that and ours are joined, or will be: join_until_ns. 0, negative: as above */
void ddl__verbs_fail(struct verbs_link *link, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int ddl__verbs_told_fault(struct verbs_link *link, const struct ddl__frame *frame, const void *body);
void ddl__verbs_event(struct verbs *verbs, const struct ddl__verbs_device *device, const struct ibv_async_event *event);
void ddl__verbs_unpair(struct verbs_link *link); /* ends the queue pair: from then on no device touches memory for it */
void ddl__verbs_queues_fini(struct verbs *verbs);

/* What tells a completion's link, which has one queue pair in its life, and the buffer or work request. */
static inline uint64_t ddl__verbs_id(const struct verbs_link *link, bool receives, uint32_t which)
{
	const struct ddl__link *base = &link->link;
	const uint64_t index = (uint64_t)base->peer * base->mesh->n_paths + base->channel * base->mesh->n_rails + base->rail;

	return (uint64_t)receives << 63 | index << 16 | (which & 0xffff);
}

/* verbs_post.c */
void ddl__verbs_post(struct verbs_link *link);                    /* as much as may go */
int ddl__verbs_receive(struct verbs_link *link, uint32_t buffer); /* posts one. 0, -errno */
void ddl__verbs_pend(struct verbs_link *link, bool due);          /* credits are owed */

/* verbs_take.c */
void ddl__verbs_take(struct verbs *verbs);        /* all completions that have come */
void ddl__verbs_drain(struct verbs_queue *queue); /* those of one */
/* Tells the peer that nothing more comes for a lane of its that it has closed, unless the stream is gone. */
void ddl__verbs_say_freed(struct verbs_link *link, uint32_t number);
void ddl__verbs_tx_done(struct verbs_tx *tx); /* nothing of it is under way: frees it, tells, where that is due */

/* verbs_lanes.c */
int ddl__verbs_credit(struct verbs_link *link, struct verbs_tx *tx, uint32_t count); /* so many came. 0, -EBADMSG */
int ddl__verbs_tx_number(struct verbs_tx *tx);     /* the peer's credits and grants find it. 0, -ENOMEM, -EBADMSG */
void ddl__verbs_grant_memory(struct verbs_rx *rx); /* the sender is told what it may write to, if anything */
void ddl__verbs_withdrawn(struct ddl__link *link, const struct ddl__frame *frame); /* and mesh ops: */
bool ddl__verbs_movable(const struct ddl__link *link);
void ddl__verbs_progress(struct ddl__mesh_rx *rx, struct ddl__progress *progress);
int ddl__verbs_resume(struct ddl__mesh_tx *tx, const struct ddl__progress *progress);
int ddl__verbs_moved_credit(struct verbs_link *link, const struct ddl__frame *frame);
int ddl__verbs_rx_number(struct verbs *verbs, struct verbs_rx *rx, struct ddl_error *err);
void ddl__verbs_rx_free(struct verbs *verbs, struct verbs_rx *rx);
int ddl__verbs_freed(struct verbs_link *link, const struct ddl__frame *frame); /* the peer sends no more for a closed lane */
void ddl__verbs_free_closed(struct verbs_link *link);                          /* what closed lanes need no more */
void ddl__verbs_tx_free(struct verbs *verbs, struct verbs_tx *tx);
void ddl__verbs_drop(struct verbs_link *link); /* what was to be sent, or is closed, when the queue pair is no more */

/* verbs_net.c: mesh ops */
const struct ddl__verbs_address *ddl__verbs_address_of(const struct ddl__mesh *mesh, int peer, unsigned rail);
int ddl__verbs_listen(struct ddl__mesh *mesh, const struct ddl__transport_config *config, int *fds, void *own, size_t *size,
		      struct ddl_error *err);
/* An op of the transport: also tells, once, of ranks that have RDMA, but not of a kind that reaches them. */
int ddl__verbs_attach(struct ddl__transport *transport, const struct ddl__peer *peers, const uint8_t *secret,
		      struct ddl_error *err);
bool ddl__verbs_reaches(const struct ddl__mesh *mesh, const void *own, size_t size, const char *machine);
unsigned ddl__verbs_rails(const struct ddl__mesh *mesh, const void *own, size_t size, bool here);
void ddl__verbs_target(const void *own, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size);

#endif
