/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mesh.h - one transport's connections to its peers: what transports over streams have in common.
 *
 * A link is a connection to one peer; there may be several to it, one for each rail (network interface) and channel, which a lane
 * goes over for its whole life. It is made when the first lane that goes over it is opened: the lower rank connects to the
 * higher one's address, the higher one waits. Who connects to our listening socket is a stranger until it has proved itself
 * (auth.h); then its stream becomes the link's. Over the link go announcements of lanes, what the transport itself sends (credits,
 * data, descriptors), aborts and goodbyes.
 *
 *     idle -> waiting ----------------------.         (higher rank: for the lower one to connect)
 *         \-> connecting -> greeting -> up -+-> left  (both said goodbye, or the peer did and closed)
 *                    \----------\----------\--> down  (lost)
 *
 * Files: mesh.c (open to close, the timer, losing and leaving), greet.c (connecting, strangers, the handshake), lanes.c (lanes
 * and their announcements), move.c (lanes of a lost link go over another one). What differs between tcp and shm is behind struct
 * ddl__mesh_ops.
 *
 * Rules. Events are told to the engine only from within a ready() of ours, never from within one of its calls. A stream is
 * destroyed only outside the callbacks of its sink, which return negative instead. Links and stranger slots live until close,
 * so that an event that epoll has already handed out never meets freed memory.
 */
#ifndef DDL_TRANSPORT_MESH_H
#define DDL_TRANSPORT_MESH_H

#include <sys/socket.h>

#include "auth.h"
#include "stream.h"
#include "transport.h"

#define DDL__MESH_ALIGNMENT   64u        /* bytes: of slots */
#define DDL__MESH_STRANGERS   64u        /* connections that have not proved themselves */
#define DDL__MESH_STRANGER_MS 5000u      /* time they have for it */
#define DDL__MESH_OFFERS_MAX  (1u << 16) /* announcements of one peer that wait for their lane to be opened */
#define DDL__MESH_TERMS       16u        /* bytes: what a transport adds to its announcements */

struct ddl__mesh;
struct ddl__link;

/* Lanes */

struct ddl__end {              /* one end of a lane in a table; part of a mesh_rx, mesh_tx or offer */
	struct ddl__lane lane; /* as its opener described it */
	uint32_t grant;        /* receiver's number of this opening */
	bool listed;           /* in a table */
	struct ddl__end *next; /* in its bucket */
	void *owner;           /* the struct that this is part of */
};

struct ddl__table {               /* ends by request and index */
	struct ddl__end **bucket; /* n_buckets of them */
	size_t n_buckets;         /* 0 or a power of two */
	size_t n;                 /* ends */
};

struct ddl__offer { /* an announcement whose lane is not open here yet */
	struct ddl__end end;
	void *extra; /* the transport's: what came with it */
};

struct ddl__progress {     /* of a receiving end: goes with its announcement where lanes may move. No padding. */
	uint64_t landed;   /* slices */
	uint64_t released; /* of them */
};

struct ddl__announcement { /* body of its frame. No padding. */
	struct ddl__lane lane;
	struct ddl__progress progress;  /* only where lanes may move */
	uint8_t terms[DDL__MESH_TERMS]; /* only where the transport adds something */
};

struct ddl__mesh_rx { /* first field of a transport's struct ddl__rx */
	struct ddl__rx base;
	struct ddl__link *link;
	struct ddl__end end; /* in link->rx */
	int fd;              /* goes with the announcement; -1: none. Owned until announced */
	uint32_t number;     /* the transport's; goes with the withdrawal */
	bool announced;
	struct ddl__mesh_rx *next; /* of link->unannounced */
};

struct ddl__mesh_tx { /* first field of a transport's struct ddl__tx */
	struct ddl__tx base;
	struct ddl__link *link;
	struct ddl__end end;       /* in link->tx */
	bool granted;              /* the receiver's announcement came and fits */
	uint64_t turn;             /* which of the rank's starts it works for */
	bool queued;               /* in a queue */
	struct ddl__mesh_tx *next; /* in that queue */
};

/* Links */

enum ddl__link_state {
	DDL__LINK_IDLE = 0,
	DDL__LINK_WAITING = 1,
	DDL__LINK_CONNECTING = 2,
	DDL__LINK_GREETING = 3,
	DDL__LINK_UP = 4,
	DDL__LINK_LEFT = 5,
	DDL__LINK_DOWN = 6,
};

struct ddl__link { /* first field of a transport's own */
	struct ddl__poll_source source;
	struct ddl__mesh *mesh;
	int peer; /* rank */
	unsigned rail, channel;
	enum ddl__link_state state;
	struct ddl__stream *stream;   /* connecting, greeting, up */
	uint32_t watched;             /* epoll events it is registered for */
	uint64_t deadline_ns;         /* waiting, connecting, greeting */
	int limit_ms;                 /* for all that; 0: the mesh's timeout */
	uint64_t retry_ns;            /* connecting without a stream: when to try again; up: when to write again; 0: not */
	struct ddl__auth_hello hello; /* greeting */
	struct ddl__table rx, tx, offers;
	struct ddl__mesh_rx *unannounced; /* opened before the link was up; in any order */
	bool mute;                        /* writing failed: the reading side tells why */
	int write_error;                  /* -errno of that */
	bool heard_bye, said_bye;
	uint32_t parting; /* heard_bye: what came with it */
	bool proved;      /* greeting: our proof is under way */
	const char *why;  /* what the peer did wrong, for the refusal that a callback returns; static text */
	int code;         /* down: why */
	char detail[400]; /* the same in words */
	bool told;        /* down: nobody is to be told any more */
	bool moved;       /* down: its lanes go over another link */
	bool silent;      /* down: the network failed, not the peer */
};

struct ddl__stranger { /* a connection to our listening socket */
	struct ddl__poll_source source;
	struct ddl__mesh *mesh;
	struct ddl__stream *stream; /* NULL: the slot is free */
	uint32_t watched;           /* epoll events it is registered for */
	uint64_t deadline_ns;
	struct ddl__auth_hello hello;   /* what it said; from is not believed before the proof */
	uint8_t nonce[DDL__AUTH_NONCE]; /* ours */
	bool greeted;                   /* our challenge is under way */
};

/* The mesh */

struct ddl__mesh_address { /* head of an address; the transport's own part follows. No padding. */
	uint32_t magic;
	uint32_t rank;
	uint64_t instance;
};

struct ddl__mesh_peer {
	const void *own; /* the transport's part of the address; NULL: cannot be reached this way */
	size_t size;     /* bytes of it */
	uint64_t instance;
	unsigned rails; /* that join both of us, at least 1 */
	bool here;      /* on this machine */
	bool lost;      /* the engine was told that it is lost */
	bool left;      /* the engine was told that it has left */
};

struct ddl__listener { /* a listening socket, one a rail */
	struct ddl__poll_source source;
	struct ddl__mesh *mesh;
	int fd;           /* -1 none */
	uint32_t watched; /* epoll events it is registered for */
};

struct ddl__mesh_ops { /* what differs */
	const struct ddl__transport_ops *transport;
	uint32_t magic;   /* of its addresses */
	size_t link_size; /* of its struct, which begins with a struct ddl__link */
	bool passes_fds;
	unsigned channels; /* links a rail and peer at most; 0: one */
	size_t rail_size;  /* bytes of the own part of an address that each rail has */
	/* Makes the listening sockets (non-blocking), one a rail, and writes the own part of the address. fds: room for
	 * DDL__RAILS_MAX, all -1. */
	int (*listen)(struct ddl__mesh *mesh, const struct ddl__transport_config *config, int *fds, void *own, size_t *size,
		      struct ddl_error *err);
	/* Whether that own part of a peer's address is well-formed and can be reached from ours. Symmetric. */
	bool (*reaches)(const struct ddl__mesh *mesh, const void *own, size_t size, const char *machine);
	/* How many rails that own part and ours have in common; here: the peer is on this machine. Symmetric. NULL: one. */
	unsigned (*rails)(const struct ddl__mesh *mesh, const void *own, size_t size, bool here);
	/* The rail and channel that a lane with that peer goes over; the same at both ends. NULL: the only ones. */
	void (*path)(const struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, unsigned *rail, unsigned *channel);
	/* Ties a socket to the link's rail: before it connects, or after it was accepted. NULL: nothing to tie. */
	void (*tie)(const struct ddl__link *link, int fd, bool connects);
	/* The socket address in a rail's part of a peer's own part, and in words. */
	void (*target)(const void *own, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size);
	void (*tune)(int fd);                         /* a new socket */
	bool (*admits)(int fd);                       /* whether the other end may talk to us at all */
	int (*up)(struct ddl__link *link);            /* proved itself; before announcements go out */
	void (*pump)(struct ddl__link *link);         /* write what there is; sets the events to watch */
	bool (*unsent)(const struct ddl__link *link); /* lanes have sent what is not written yet */
	int (*data)(struct ddl__link *link, const struct ddl__frame *frame, void **to);
	int (*frame)(struct ddl__link *link, const struct ddl__frame *frame, const void *body); /* those the mesh does not know */
	/* Announcement came: take what comes with it; terms: see below, else NULL. */
	int (*offered)(struct ddl__link *link, struct ddl__offer *offer, const void *terms);
	void (*refuse)(struct ddl__offer *offer);            /* gives that back */
	void (*grant)(struct ddl__mesh_tx *tx, void *extra); /* the lane gets its credits; extra is its own now */
	void (*down)(struct ddl__link *link);                /* the stream is gone: forget what was to be written or to land */
	/* Writes what is added to an announcement, DDL__MESH_TERMS bytes. NULL: nothing is. */
	void (*terms)(const struct ddl__mesh_rx *rx, void *terms);
	/* The peer has withdrawn a lane, whose sending end, if there is one, has no credit any more. NULL: nothing to do. */
	void (*withdrawn)(struct ddl__link *link, const struct ddl__frame *frame);
	/* What was sent before a goodbye comes another way than the goodbye. parting: what tells the peer how much there was;
	 * parted: whether all of it is here. Both NULL: all comes over the stream. */
	uint32_t (*parting)(const struct ddl__link *link);
	bool (*parted)(struct ddl__link *link);
	/* Lanes may move to another link; all NULL: they may not. movable: nothing on the link belongs to a lane that was closed
	 * here. progress: what an end that is announced has had; no credit is owed after that. resume: the sender goes on there;
	 * -EAGAIN: it cannot, since that memory is the caller's again; -EBADMSG. */
	bool (*movable)(const struct ddl__link *link);
	void (*progress)(struct ddl__mesh_rx *rx, struct ddl__progress *progress);
	int (*resume)(struct ddl__mesh_tx *tx, const struct ddl__progress *progress);
};

struct ddl__mesh { /* first field of a transport's own struct */
	struct ddl__transport base;
	const struct ddl__mesh_ops *ops;
	int rank, n_ranks;
	int epoll_fd;
	int timeout_ms;
	const struct ddl__events *events;
	void *context;
	uint8_t secret[DDL__SECRET_SIZE];
	char *machine;
	struct ddl__listener listeners[DDL__RAILS_MAX];
	char rail_name[DDL__RAILS_MAX][32]; /* interfaces that links are tied to; "": not tied */
	unsigned n_rails;                   /* listeners, at least 1 */
	unsigned n_paths;                   /* rails times channels: links to a peer at most */
	size_t n_links;                     /* n_ranks times n_paths */
	int timer_fd;
	struct ddl__poll_source timer;
	uint64_t timer_ns;        /* what it is set to; 0 not */
	uint64_t listen_again_ns; /* no descriptors were left: when to accept again; 0 not */
	uint8_t address[DDL__ADDRESS_MAX];
	size_t address_size;
	uint64_t instance;
	void *addresses;                 /* copies of the peers' own parts */
	struct ddl__mesh_peer *peers;    /* n_ranks of them */
	struct ddl__link **links;        /* n_links of them, peer by peer, NULL where there is none */
	struct ddl__stranger *strangers; /* DDL__MESH_STRANGERS of them */
	size_t n_strangers;
	uint32_t stranger_ms; /* time they have to prove themselves */
	uint64_t n_dropped;   /* strangers that were sent away */
	bool stranger_told;   /* the engine knows that there are some */
	uint32_t grants;      /* lanes ever announced */
	bool telling;         /* within a ready() of ours */
	size_t untold;        /* links down that the engine does not know of */
	bool leaving;         /* after goodbye */
	int abort_code;       /* after abort; 0 before */
	char abort_text[DDL_ERROR_TEXT_SIZE];
};

/* mesh.c: the ops that a transport takes as they are, or calls from its own */

/* mesh: zeroed memory of the transport's struct; on failure nothing is left open and the memory stays the caller's. */
int ddl__mesh_init(struct ddl__mesh *mesh, const struct ddl__mesh_ops *ops, const struct ddl__transport_config *config,
		   struct ddl_error *err);
void ddl__mesh_fini(struct ddl__mesh *mesh);
int ddl__mesh_address(struct ddl__transport *transport, void *buffer, size_t *size);
int ddl__mesh_attach(struct ddl__transport *transport, const struct ddl__peer *peers, const uint8_t *secret, struct ddl_error *err);
bool ddl__mesh_reaches(const struct ddl__transport *transport, int peer);
void ddl__mesh_tx_turn(struct ddl__tx *tx, uint64_t turn);
unsigned ddl__mesh_rx_rail(const struct ddl__rx *rx);
unsigned ddl__mesh_tx_rail(const struct ddl__tx *tx);
void ddl__mesh_abort(struct ddl__transport *transport, int code, const char *text);
void ddl__mesh_goodbye(struct ddl__transport *transport);
bool ddl__mesh_done(const struct ddl__transport *transport);
void ddl__mesh_forked(struct ddl__transport *transport);
uint64_t ddl__mesh_dropped(const struct ddl__transport *transport); /* strangers sent away so far */

/* The link to a peer over that rail and channel, made if there is none; NULL: no memory. */
struct ddl__link *ddl__mesh_link(struct ddl__mesh *mesh, int peer, unsigned rail, unsigned channel);
void ddl__mesh_enter(struct ddl__mesh *mesh);            /* at the begin of every ready() */
void ddl__mesh_leave(struct ddl__mesh *mesh);            /* at its end: tells losses */
void ddl__mesh_due(struct ddl__mesh *mesh, uint64_t ns); /* the timer goes off then at the latest */
uint64_t ddl__mesh_now(void);                            /* monotonic, ns */

/* Registers fd, changes or (events 0, watched not 0) ends its registration. *watched is what it is registered for. */
int ddl__mesh_watch(struct ddl__mesh *mesh, int fd, struct ddl__poll_source *source, uint32_t events, uint32_t *watched);

/* The link is lost: closes it, tells the engine when that is allowed. Does nothing to a link that is down. */
void ddl__link_fail(struct ddl__link *link, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Reading or a callback returned that error. */
void ddl__link_broken(struct ddl__link *link, int rc);
int ddl__link_bad(struct ddl__link *link, const char *why); /* notes why; returns -EBADMSG */
void ddl__link_close(struct ddl__link *link);               /* its stream */
/* Reads what there is on a link that is up. */
void ddl__link_read(struct ddl__link *link);
/* For pumps: writes what waits on the stream. 0 all is written, 1 something waits. */
int ddl__link_write(struct ddl__link *link);
/* For pumps, at their end: says goodbye where that is due and no lane has anything to send, closes the link when both have said
 * it, otherwise watches for room to write where something waits. */
void ddl__link_settle(struct ddl__link *link);
/* Tells the peer of the abort; the caller pumps. Returns 0 or the stream's error. */
int ddl__link_abort(struct ddl__link *link);

extern const struct ddl__frame_sink ddl__link_sink; /* what a link that is up listens to; context: the link */

/* greet.c */
void ddl__greet_connect(struct ddl__link *link);         /* begins, or tries again */
void ddl__greet_ready(struct ddl__link *link);           /* connecting or greeting, and its socket has something */
void ddl__greet_accept(struct ddl__listener *listener);  /* the listening socket has something */
void ddl__greet_strangers(struct ddl__mesh *mesh);       /* the timer: reads once more, sends the late ones away */
void ddl__greet_close(struct ddl__mesh *mesh);           /* all strangers */
void ddl__greet_listen(struct ddl__mesh *mesh, bool on); /* the listening sockets in the epoll set */
int ddl__link_up(struct ddl__link *link);                /* lanes.c: announces what was opened before */

/* lanes.c */
/* Whether a lane's slots are possible: 0; -EINVAL with a sentence. For what a transport opens, before it makes memory for it. */
int ddl__lane_check(const struct ddl__mesh *mesh, const struct ddl__lane *lane, struct ddl_error *err);
/* The mesh op path, for those that have rails and channels. */
void ddl__mesh_path(const struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, unsigned *rail, unsigned *channel);
size_t ddl__lane_stride(const struct ddl__lane *lane); /* bytes from slot to slot: whole cache lines */
/* Fill and register the common part of a lane's end. On failure nothing is left. rx->fd is set by the caller before. */
int ddl__mesh_rx_open(struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, struct ddl__mesh_rx *rx,
		      struct ddl_error *err);
int ddl__mesh_tx_open(struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, struct ddl__mesh_tx *tx,
		      struct ddl_error *err);
void ddl__mesh_rx_close(struct ddl__mesh_rx *rx); /* tells the peer; the memory stays the caller's */
void ddl__mesh_tx_close(struct ddl__mesh_tx *tx);
struct ddl__end *ddl__table_find(const struct ddl__table *table, uint32_t request, uint32_t index);
int ddl__lanes_announced(struct ddl__link *link, const struct ddl__frame *frame, const void *body);
void ddl__lanes_withdrawn(struct ddl__link *link, const struct ddl__frame *frame);
void ddl__lanes_forget(struct ddl__link *link); /* announcements whose lanes are not open here */
void ddl__lanes_fini(struct ddl__link *link);   /* offers and tables */
int ddl__table_add(struct ddl__table *table, struct ddl__end *end);
void ddl__table_remove(struct ddl__table *table, struct ddl__end *end);
struct ddl__end *ddl__table_first(const struct ddl__table *table); /* any; NULL: it is empty */
/* Begins to make the connection if nobody has. May fail the link, which the engine hears through its events. */
void ddl__link_bring_up(struct ddl__link *link);
uint32_t ddl__lane_announcement_bytes(const struct ddl__mesh *mesh);
int ddl__lane_announce(struct ddl__mesh_rx *rx); /* puts it on the stream; the caller pumps */
/* Puts a lane that has slices to send in a queue: those of the highest priority first, of equal ones those of the first start. */
void ddl__lane_enqueue(struct ddl__mesh_tx **queue, struct ddl__mesh_tx *tx);
struct ddl__mesh_tx *ddl__lane_dequeue(struct ddl__mesh_tx **queue); /* the first, taken out; not of an empty queue */

/* move.c */
/* A link to the same peer over another rail that is up; NULL none. */
struct ddl__link *ddl__link_other(const struct ddl__link *link);
/* The one that lanes of a link go over that is down: such a link, or one that can be made; NULL none. */
struct ddl__link *ddl__link_instead(const struct ddl__link *link);
/* The link is down (was_up: it was up before): its lanes go over another one. False: there is none. */
bool ddl__link_move(struct ddl__link *link, bool was_up);
int ddl__link_say_lost(struct ddl__link *on);                                  /* a link is up: which others are lost */
int ddl__link_told_lost(struct ddl__link *on, const struct ddl__frame *frame); /* the peer has lost another link to us */
/* The link is down and was moved, and something cannot go on: a loss of the peer after all. */
void ddl__link_lose(struct ddl__link *link);
/* The link to the same peer that has that sending end open, or (offered) its announcement; the link itself if none has. */
struct ddl__link *ddl__link_with(struct ddl__link *link, uint32_t request, uint32_t index, bool offered);
/* A sending end, open on any link to the peer, goes on over this one. 0 good, or a loss to be told; negative: the link is bad. */
int ddl__lane_resume(struct ddl__link *link, struct ddl__mesh_tx *tx, const struct ddl__progress *progress);

#endif
