/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - executes schedules over transports: the inside of communicators and requests.
 *
 * Locks: `lock` (the engine's) protects everything that progress touches: transports, lanes, the active list. It is never held
 * while sleeping. `queue_lock` protects the list of requests that were started and not picked up yet, so that a start never waits
 * for progress. One thread at a time sleeps in epoll for all (the poller); others that wait sleep on `changed`.
 */
#ifndef DDL_ENGINE_ENGINE_H
#define DDL_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <ddl/ddl.h>

#include "ids.h"
#include "layout.h"
#include "pace.h"
#include "reduce.h"
#include "schedule.h"
#include "select.h"
#include "sysfs.h"
#include "transport.h"
#include "tuning.h"

#define DDL__TRANSPORTS_MAX 8
#define DDL__CACHE_SIZE     64 /* requests that the blocking calls keep */

struct ddl__lane_state {
	struct ddl_request *request;             /* that it is of */
	const struct ddl__steps *steps;          /* of the schedule */
	const struct ddl__kernels *kernels;      /* the request's, or where the lane's elements travel as they are those; static */
	const struct ddl__transport_ops *rx_ops; /* NULL: does not receive */
	const struct ddl__transport_ops *tx_ops; /* NULL: does not send */
	struct ddl__rx *rx;                      /* owned */
	struct ddl__tx *tx;                      /* owned */
	uint32_t step;                           /* current step; steps->n: through */
	uint64_t slice;                          /* current slice of it */
	bool done;                               /* through and flushed */
};

enum ddl__halt {                         /* why a lane does not go on */
		 DDL__MOVED = 0,         /* it did */
		 DDL__HALT_DATA = 1,     /* no data from its peer */
		 DDL__HALT_CREDIT = 2,   /* no room at its peer */
		 DDL__HALT_LANE = 3,     /* another lane of this rank must go on first */
		 DDL__HALT_DELIVERY = 4, /* through, but what was sent is not on its way */
		 DDL__HALT_START = 5,    /* it has not begun */
		 DDL__HALT_FAILED = 6,   /* the communicator has failed */
};

struct ddl__channel;  /* channel.h */
struct ddl__stats;    /* stats.h */
struct ddl__watch;    /* stats.h */
struct ddl__state;    /* state.h */
struct ddl__rounding; /* rounding.h */
struct ddl__audit;    /* core/audit.h */
struct ddl__audited;  /* core/audit.h */

struct ddl__shared {                      /* where a buffer lies in memory that the node's other processes can map */
	const struct ddl__window *window; /* NULL: in none */
	size_t at;                        /* bytes into it */
};

struct ddl__request_args { /* what a request is made by; pointers are borrowed while it is made */
	struct ddl__call call;
	const size_t *counts;      /* see struct ddl__build */
	const size_t *recv_counts; /* see struct ddl__build */
	int peer;                  /* the receiver of a send/receive */
	uint32_t tag;              /* of a send/receive */
	int64_t in_place;          /* bytes from send to recv where both are one memory; filled in by ddl__ask_check() */
};

struct ddl_request {
	struct ddl_comm *comm;              /* borrowed */
	uint32_t id;                        /* the same on every rank that takes part */
	uint64_t *pair_digests;             /* all-to-all by counts: tells the counts with each rank apart; owned; else NULL */
	struct ddl__channel *channel;       /* of a send/receive; else NULL */
	struct ddl_request *channel_next;   /* in the channel's list */
	struct ddl__call call;              /* compared with the peers' */
	const void *send;                   /* user's, borrowed */
	void *recv;                         /* user's, borrowed */
	size_t send_bytes, recv_bytes;      /* of these */
	int64_t in_place;                   /* bytes from send to recv where they may overlap; INT64_MIN: nowhere */
	bool kept;                          /* for the blocking calls, which change send and recv */
	bool shares;                        /* its steps may lend and place slices */
	bool borrows;                       /* they are sent from, and land in, the caller's memory where a transport can do that */
	struct ddl__shared send_in;         /* where send lies in this start */
	struct ddl__shared recv_in;         /* where recv lies in this start */
	void *held[DDL__TRANSPORTS_MAX][2]; /* what transports hold of send and recv */
	uint64_t lent, placed;              /* slices so far that went without a copy */
	uint64_t answered;                  /* slices so far that were sent in the slot that one had come in */
	uint64_t starts;                    /* so far; as many on every rank that takes part, when it comes to the same start */
	void *scratch;                      /* owned; NULL: none */
	struct ddl__rounding *rounding;     /* owned; NULL: to nearest, and nothing is fed back */
	struct ddl__audited *audited;       /* owned; NULL: not compared, see core/audit.h */
	const struct ddl__kernels *kernels; /* static */
	struct ddl__schedule *schedule;     /* owned */
	struct ddl__lane_state *lanes;      /* schedule->n_lanes */
	uint32_t lanes_left;                /* not done yet in this start */
	atomic_bool active;                 /* from ddl_start() until complete */
	uint64_t started_ns;                /* monotonic clock; only of a watched request */
	struct ddl__watch *watch;           /* owned; NULL: not watched, see stats.h */
	_Atomic uint64_t moved_ns;          /* coarse clock: when a slice last moved, or the start */
	struct ddl_request *next;           /* in the queue or the active list */
};

struct ddl__early { /* an announcement for a request that is not created here yet */
	int peer;
	struct ddl__lane lane;
};

struct ddl__cached {                 /* a request of the blocking calls */
	struct ddl_request *request; /* NULL: free */
	uint64_t used;               /* count of the last use */
};

struct ddl__origin; /* core/origin.h */

struct ddl_comm {
	int rank, size;
	struct ddl__origin *origin;                             /* what it was made with; owned */
	struct ddl__plan *plan;                                 /* owned */
	char *plan_text;                                        /* owned */
	struct ddl__tuning *tuning;                             /* measured choices; owned; NULL: none that fits the layout */
	struct ddl__layout *layout;                             /* owned */
	int timeout_ms;                                         /* of calls that wait for peers */
	struct ddl__pace pace;                                  /* of waits */
	struct ddl__transport *transports[DDL__TRANSPORTS_MAX]; /* open ones, in order of preference */
	size_t n_transports;
	signed char *via;             /* size: index of the transport to a rank; -1 none */
	int epoll_fd;                 /* -1 none */
	bool by_descriptor;           /* to some rank data goes through descriptors, which are asked in every pass */
	bool stirred;                 /* descriptors had something when they were asked last */
	unsigned unasked;             /* passes since then */
	uint64_t asked_ns;            /* coarse clock: when a test asked them last */
	struct ddl__poll_source wake; /* for wake_fd */
	int wake_fd;                  /* eventfd that ends the poller's sleep; -1 none */

	pthread_mutex_t lock;          /* the engine's */
	pthread_cond_t changed;        /* a request completed, the poller left, or the communicator failed */
	bool polling;                  /* a thread sleeps in epoll */
	unsigned waiters;              /* threads that wait on `changed` */
	struct ddl_request *active;    /* started; highest priority first, then in order of starts */
	struct ddl__ids ids;           /* of collectives' requests */
	struct ddl__channel *channels; /* of send/receive; owned */
	struct ddl__early *early;      /* announcements ahead of us */
	size_t n_early, room_early;
	bool *left;             /* size: ranks that said goodbye; NULL before the first */
	atomic_int failed;      /* 0, or the code of `error` */
	struct ddl_error error; /* the first failure; constant once failed is set */
	bool relayed;           /* `error` came from a peer */
	bool abort_told;        /* the peers know */

	struct ddl__window *windows; /* of ddl_mem_alloc(); owned */
	uint32_t n_windows;          /* ever made */

	pthread_mutex_t queue_lock;
	struct ddl_request *queue; /* started, not picked up; newest first */
	atomic_bool queued;        /* queue is not empty */

	pthread_mutex_t cache_lock; /* one blocking call at a time */
	struct ddl__cached cache[DDL__CACHE_SIZE];
	uint64_t uses;

	pthread_t thread; /* service thread */
	bool has_thread;
	atomic_bool stop;             /* tells it to end */
	struct ddl__trace *trace;     /* owned; NULL: none */
	struct ddl__stats *stats;     /* owned; NULL: none */
	unsigned observe;             /* bits of enum ddl__observe; the same on all ranks */
	bool watching;                /* requests that are made are watched */
	struct ddl__audit *audit;     /* owned; NULL: nothing is compared */
	struct ddl__state *state;     /* what others may read; never NULL */
	int state_fd;                 /* its memfd; -1: nobody can read it */
	bool asked_to_dump;           /* dump_signal.h was opened */
	struct ddl__poll_source dump; /* for its descriptor */
	struct ddl_comm *next;        /* of this process's */
	atomic_bool forked;           /* this process is a child of the one that made it: nothing may be touched */
};

/* engine.c: the communicator's machinery. init leaves everything destroyable by fini. */
int ddl__engine_init(struct ddl_comm *comm, struct ddl_error *err);
void ddl__engine_fini(struct ddl_comm *comm);
extern const struct ddl__events ddl__engine_events; /* context: the communicator */

/* From now on that signal (0: none) asks for a hang dump, see dump_signal.h. */
void ddl__engine_listen(struct ddl_comm *comm, int signal);

/* Starts or ends the service thread, which runs on any of these hardware threads where the system lets it (*bound). */
int ddl__engine_thread_start(struct ddl_comm *comm, const struct ddl__cpus *cpus, bool *bound, struct ddl_error *err);
void ddl__engine_thread_stop(struct ddl_comm *comm);
/* The same, but gives up at a time of CLOCK_REALTIME: for a caller that may hold the lock, or be the thread itself. */
void ddl__engine_thread_stop_by(struct ddl_comm *comm, const struct timespec *until);

/* Takes a started request up, or queues it while another thread makes progress, and gives progress a chance. */
void ddl__engine_submit(struct ddl_comm *comm, struct ddl_request *request);

/* Makes progress if no other thread does. */
void ddl__engine_poke(struct ddl_comm *comm);

/* As poke, but waits for the lock: afterwards no request of a failed communicator is active. */
void ddl__engine_settle(struct ddl_comm *comm);

/*
 * Progresses and sleeps until done(context) says so (called with the lock held; must not take it), or the communicator failed
 * unless `even_failed`.
 * deadline_ns 0: none. Returns false at the deadline.
 */
bool ddl__engine_wait(struct ddl_comm *comm, bool (*done)(void *context), void *context, uint64_t deadline_ns, bool even_failed);

/* A pass for a communicator that nobody waits for, if it is free. Sets *any if something moved; returns whether to come back. */
bool ddl__engine_help(struct ddl_comm *comm, bool *any);

/* Records the first failure, completes all active requests with it and wakes everyone; the peers are told. The lock is held. */
void ddl__engine_fail(struct ddl_comm *comm, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Whether others must have their turn before the next slice of an active request: more urgent ones, or what has just been started.
 * The lock is held.
 */
static inline bool ddl__engine_presses(const struct ddl_request *request)
{
	const struct ddl_comm *comm = request->comm;
	return (comm->active && comm->active->call.priority > request->call.priority) ||
	       atomic_load_explicit(&comm->queued, memory_order_relaxed);
}

/* Whether a started request has not moved for the timeout. */
bool ddl__engine_overdue(const struct ddl_request *request);

/* Fails the communicator if an active request is overdue. The lock is held. */
void ddl__engine_check_deadline(struct ddl_request *request);

/* process.c: the communicators of this process, from when they are made until they are destroyed. */
void ddl__process_enter(struct ddl_comm *comm);
void ddl__process_leave(struct ddl_comm *comm);

/* A pass for the others of this process that have active requests; returns whether there are such. */
bool ddl__process_progress(const struct ddl_comm *comm, bool *any);

/* request.c: one request. create takes the lock itself. */
int ddl__request_create(struct ddl_comm *comm, const struct ddl__candidate *candidate, const struct ddl__request_args *args,
			struct ddl_request **request, struct ddl_error *err);
void ddl__request_destroy(struct ddl_request *request);

/* The call as a request and its peer must both describe it. */
struct ddl__call ddl__request_call(const struct ddl_request *request, int peer);

/* Gives a new request its buffers, and shows the peers the memory that they lie in, where they can map it. Takes the lock. */
void ddl__request_lay(struct ddl_request *request, const void *send, void *recv);

/* From now on the buffers may be others in each start. Takes the lock. */
void ddl__request_keep(struct ddl_request *request);

/* Puts every lane at its first step, and grants what may be placed. The lock is held. */
void ddl__request_rewind(struct ddl_request *request);

/* Runs what can run, or a slice where others press; returns whether anything moved. Sets lanes_left. The lock is held. */
bool ddl__request_run(struct ddl_request *request);

/* A rank that left and whose data a lane waits for, or whose reading of what it was lent; -1 none. Only after
 * ddl__request_run(). The lock is held. */
int ddl__request_waits_for_left(const struct ddl_request *request);

/* Which step waits for whom, as a clause: "lane 0 step 3 of 30 (recv-reduce-send) waits for data from rank 1 on n1". */
void ddl__request_describe_wait(const struct ddl_request *request, char *text, size_t size);

/* "all-reduce of 1024 f32 (sum)", with whatever else ranks must agree on. */
void ddl__call_describe(const struct ddl__call *call, char *text, size_t size);

/* What carries it out: "multiring:4x8x8"; text: DDL__CANDIDATE_TEXT_SIZE bytes. Returns text. */
char *ddl__call_how(const struct ddl__call *call, char *text);

/* Monotonic clock. coarse: some milliseconds behind it, and several times faster to read. */
uint64_t ddl__now_ns(void);
uint64_t ddl__coarse_ns(void);

#endif
