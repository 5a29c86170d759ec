/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c - progress, sleeping, failure.
 *
 * Whoever waits makes progress: it takes the lock, picks up queued starts, runs the active requests in order of priority and hands
 * out the events of the epoll set; when nothing moves it rests as pace.h says, at last in epoll without the lock. Before that it
 * tells the transports (sleeping), looks once more, and only then sleeps: a peer that sends in between writes to a descriptor in
 * the set.
 *
 * Asking the descriptors is a system call, several times as long as the rest of a pass. Where all data goes through memory they
 * only tell of connections, announcements and deaths: there they are asked every so many passes, as long as they have something
 * in every pass, and always before sleeping. Where data comes through them to any rank, they are asked in every pass.
 */
#include "engine.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "dump.h"
#include "dump_signal.h"
#include "error.h"
#include "log.h"
#include "share.h"
#include "state.h"
#include "stats.h"
#include "trace.h"

enum {
	EVENTS_A_PASS = 64,
	EVENTS_A_CALL = 16,
	TURNS_A_PASS = 64, /* slices of less urgent requests, between which more urgent ones have their turn */
	SLEEP_MS_MAX = 1000,
	SLEEP_MS_BUSY = 1,
	SLEEP_MS_NOTE = 100,  /* a wait that lasts longer shows what it waits for */
	UNASKED_WAITING = 64, /* passes of a wait without asking the descriptors */
	UNASKED_TESTING = 8,  /* calls of ddl_test() */
	UNASKED_OFFER = 16,   /* passes that an offer of the core counts for */
	BURST = 16,           /* passes without a look at the clock */
	BURST_CROWDED = 1,    /* where others need the core */
	BURST_MOVING = 128,   /* passes at most before others get the lock */
};

uint64_t ddl__coarse_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- failure ---- */

static void wake_poller(struct ddl_comm *comm)
{
	(void)!write(comm->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

void ddl__engine_fail(struct ddl_comm *comm, int code, const char *format, ...)
{
	va_list args;
	if (atomic_load(&comm->failed))
		return;
	va_start(args, format);
	vsnprintf(comm->error.text, sizeof(comm->error.text), format, args);
	va_end(args);
	comm->error.code = code;
	for (size_t t = 0; t < comm->n_transports; t++)
		if (comm->transports[t]->ops->let_go) /* from now on the callers may free their buffers */
			comm->transports[t]->ops->let_go(comm->transports[t]);
	atomic_store(&comm->failed, code);
	atomic_store_explicit(&comm->state->failed, code, memory_order_relaxed);
	for (struct ddl_request *r = comm->active; r; r = r->next)
		atomic_store(&r->active, false);
	comm->active = NULL;
	ddl__log(DDL__LOG_INFO, "rank %d on node %s: %s", comm->rank, ddl_comm_node_name(comm, comm->rank), comm->error.text);
	pthread_cond_broadcast(&comm->changed);
	wake_poller(comm);
}

/* Tells the peers of a failure: not from within a transport's own callback. The lock is held. */
static void tell_abort(struct ddl_comm *comm)
{
	if (!atomic_load(&comm->failed) || comm->abort_told)
		return;
	char text[DDL_ERROR_TEXT_SIZE];
	comm->abort_told = true;
	if (comm->relayed)
		memcpy(text, comm->error.text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%.400s (seen by rank %d on node %.60s)", comm->error.text, comm->rank,
			 ddl_comm_node_name(comm, comm->rank));
	for (size_t t = 0; t < comm->n_transports; t++)
		comm->transports[t]->ops->abort(comm->transports[t], comm->error.code, text);
	ddl__trace_write(comm->trace); /* programs that fail seldom come to destroy it */
}

/* The request that a peer speaks of; NULL: it was freed. False: it is not created here yet. */
static bool find_request(const struct ddl_comm *comm, int peer, const struct ddl__lane *lane, struct ddl_request **request)
{
	return lane->request & DDL__CHANNEL_BIT ? ddl__channel_find(comm, peer, lane, request)
						: ddl__ids_find(&comm->ids, lane->request, request);
}

/* Fails the communicator if the peer's call is not this rank's. */
static void compare_calls(struct ddl_comm *comm, const struct ddl_request *r, int peer, const struct ddl__lane *lane)
{
	const struct ddl__call call = ddl__request_call(r, peer);
	char mine[160], theirs[160];
	if (memcmp(&call, &lane->call, sizeof(call)) == 0)
		return;
	ddl__call_describe(&call, mine, sizeof(mine));
	ddl__call_describe(&lane->call, theirs, sizeof(theirs));
	ddl__engine_fail(comm, -EPROTO,
			 "ranks disagree on request %u: rank %d asks for %s, rank %d on node %s for %s; all ranks must make the "
			 "same calls in the same order",
			 DDL__REQUEST_NUMBER(lane->request), comm->rank, mine, peer, ddl_comm_node_name(comm, peer), theirs);
}

static void on_announced(void *context, int peer, const struct ddl__lane *lane)
{
	struct ddl_comm *comm = context;
	struct ddl_request *r;
	if (find_request(comm, peer, lane, &r)) {
		if (r)
			compare_calls(comm, r, peer, lane);
		return;
	}
	if (comm->n_early == comm->room_early) {
		size_t room = comm->room_early ? comm->room_early * 2 : 64;
		struct ddl__early *more = realloc(comm->early, room * sizeof(*more));
		if (!more) {
			ddl__engine_fail(comm, -ENOMEM, "out of memory for the announcements of rank %d", peer);
			return;
		}
		comm->early = more;
		comm->room_early = room;
	}
	comm->early[comm->n_early++] = (struct ddl__early){ peer, *lane };
}

static void on_lost(void *context, int peer, int code, const char *detail)
{
	struct ddl_comm *comm = context;
	const char *what = code == -ECONNRESET     ? "is gone"
			   : code == -ECONNREFUSED ? "could not be connected"
			   : code == -ETIMEDOUT    ? "did not answer in time"
			   : code == -EMFILE       ? "cannot be heard"
			   : code == -EHOSTUNREACH ? "cannot be reached any more"
						   : "broke the protocol";
	ddl__engine_fail(comm, code, "rank %d on node %s %s: %s", peer, ddl_comm_node_name(comm, peer), what, detail);
}

static void on_left(void *context, int peer)
{
	struct ddl_comm *comm = context;
	if (!comm->left)
		comm->left = calloc((size_t)comm->size, sizeof(*comm->left));
	if (comm->left)
		comm->left[peer] = true;
	else
		ddl__engine_fail(comm, -ENOMEM, "out of memory when rank %d left", peer);
}

static void on_aborted(void *context, int peer, int code, const char *text)
{
	struct ddl_comm *comm = context;
	char wait[192];
	if (atomic_load(&comm->failed))
		return;
	comm->relayed = true; /* the text says who saw it first */
	if (code == -ETIMEDOUT && comm->active) {
		/* Whose limit passes first is chance: the rank that it waits for may wait for another one, as this one does. */
		ddl__request_describe_wait(comm->active, wait, sizeof(wait));
		ddl__dump_quietly(comm, "another rank's deadline has passed");
		ddl__engine_fail(comm, code, "%.430s; rank %d%s", text, comm->rank, strstr(wait, " waits for "));
	} else {
		ddl__engine_fail(comm, code < 0 ? code : -ECANCELED, "%s", text);
	}
}

static void on_stranger(void *context, const char *what)
{
	const struct ddl_comm *comm = context;
	ddl__log(DDL__LOG_WARNING, "rank %d on node %s: %s; more of these are not told", comm->rank,
		 ddl_comm_node_name(comm, comm->rank), what);
}

static void on_moved(void *context, int peer, const char *what)
{
	const struct ddl_comm *comm = context;
	ddl__log(DDL__LOG_WARNING, "rank %d on node %s: a connection to rank %d on node %s is lost: %s", comm->rank,
		 ddl_comm_node_name(comm, comm->rank), peer, ddl_comm_node_name(comm, peer), what);
}

/* ---- progress ---- */

/* Enters a started request in the active list, by priority, equal ones in order of starts. The lock is held. */
static void activate(struct ddl_comm *comm, struct ddl_request *r)
{
	struct ddl_request **at = &comm->active;
	if (atomic_load(&comm->failed)) {
		atomic_store(&r->active, false);
		return;
	}
	while (*at && (*at)->call.priority >= r->call.priority)
		at = &(*at)->next;
	r->next = *at;
	*at = r;
	ddl__state_count(&comm->state->starts);
	ddl__request_rewind(r);
}

/* Activates what was started and queued. The lock is held. */
static void pick_up(struct ddl_comm *comm)
{
	if (!atomic_load(&comm->queued))
		return;
	pthread_mutex_lock(&comm->queue_lock);
	struct ddl_request *newest = comm->queue, *oldest = NULL;
	comm->queue = NULL;
	atomic_store(&comm->queued, false);
	pthread_mutex_unlock(&comm->queue_lock);
	while (newest) { /* reverse */
		struct ddl_request *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct ddl_request *next = oldest->next;
		activate(comm, oldest);
		oldest = next;
	}
}

/*
 * Hands out what the descriptors have to say, several events a call: sources live until their transport is closed, so that none
 * that was handed out is freed by another's callback. Where another thread sleeps on them it is woken whenever this one took an
 * event: its transports took the doorbell for answered, and it must arm them anew. The lock is held.
 */
static bool dispatch(struct ddl_comm *comm)
{
	struct epoll_event events[EVENTS_A_CALL];
	int n = 0, got;
	do {
		got = epoll_wait(comm->epoll_fd, events, EVENTS_A_CALL, 0);
		for (int i = 0; i < got; i++) {
			struct ddl__poll_source *source = events[i].data.ptr;
			if (source == &comm->wake && comm->polling)
				continue; /* meant for the poller */
			source->ready(source, events[i].events);
			n++;
		}
	} while (got == EVENTS_A_CALL && n < EVENTS_A_PASS);
	if (n > 0 && comm->polling)
		wake_poller(comm);
	comm->stirred = n > 0;
	comm->unasked = 0;
	return n > 0;
}

/* Whether the descriptors are to be asked in this pass, the `most`th since they were at the latest. The lock is held. */
static bool is_due(struct ddl_comm *comm, unsigned most)
{
	return comm->by_descriptor || comm->stirred || !comm->active || ++comm->unasked >= most;
}

static void complete(struct ddl_comm *comm, struct ddl_request *r)
{
	if (r->watch)
		ddl__watch_complete(r);
	ddl__state_count(&comm->state->completions);
	if (r->kept)
		ddl__share_end(r);                                      /* its buffers are the caller's again, who may free them */
	atomic_store_explicit(&r->active, false, memory_order_release); /* the last touch: the owner may free it from now on */
	if (comm->polling)
		wake_poller(comm); /* it may sleep for this very request */
}

static void fail_left(struct ddl_comm *comm, const struct ddl_request *request, int peer)
{
	char call[160];
	ddl__call_describe(&request->call, call, sizeof(call));
	ddl__engine_fail(comm, -ECONNRESET,
			 "rank %d on node %s has left the communicator, and request %u (%s) needs it: every rank must complete the "
			 "same requests before ddl_comm_destroy()",
			 peer, ddl_comm_node_name(comm, peer), DDL__REQUEST_NUMBER(request->id), call);
}

/* Lets the transports send what the pass has made. The lock is held. */
static void flush(struct ddl_comm *comm, bool all)
{
	for (size_t t = 0; t < comm->n_transports; t++)
		if (comm->transports[t]->ops->flush)
			comm->transports[t]->ops->flush(comm->transports[t], all);
}

/*
 * Runs the active requests, the most urgent first. Ends behind a slice where others must have their turn before the next one: sets
 * *again. Returns whether anything moved. The lock is held.
 */
static bool run(struct ddl_comm *comm, bool *again)
{
	bool any = false;
	*again = false;
	for (struct ddl_request **at = &comm->active; !atomic_load(&comm->failed) && *at;) {
		struct ddl_request *r = *at;
		if (any && ddl__engine_presses(r)) {
			*again = true;
			break;
		}
		bool moved = ddl__request_run(r);
		if (moved) {
			any = true;
			atomic_store_explicit(&r->moved_ns, ddl__coarse_ns(), memory_order_relaxed);
		}
		if (atomic_load(&comm->failed))
			break;
		int gone = comm->left && r->lanes_left ? ddl__request_waits_for_left(r) : -1;
		if (gone >= 0) {
			fail_left(comm, r, gone);
			break;
		}
		if (r->lanes_left == 0) {
			*at = r->next;
			complete(comm, r);
			any = true;
		} else if (moved && ddl__engine_presses(r)) {
			*again = true;
			break;
		} else {
			at = &r->next;
		}
	}
	return any;
}

/* Lets the transports take in what has come. The lock is held. */
static void poll_all(struct ddl_comm *comm)
{
	for (size_t t = 0; t < comm->n_transports; t++)
		if (comm->transports[t]->ops->poll)
			comm->transports[t]->ops->poll(comm->transports[t]);
}

/* One pass; ask: the descriptors too. Returns whether anything moved. The lock is held. */
static bool progress(struct ddl_comm *comm, bool ask)
{
	bool any = ask && dispatch(comm), again = true;
	poll_all(comm);
	for (unsigned turn = 0; again && turn < TURNS_A_PASS; turn++) {
		if (turn && ask && comm->by_descriptor)
			dispatch(comm); /* what came for the more urgent ones */
		pick_up(comm);
		any |= run(comm, &again);
		flush(comm, false);
	}
	if (any && comm->by_descriptor)
		run(comm, &again); /* what is written now may have been the last of a request */
	tell_abort(comm);
	if (any && comm->waiters)
		pthread_cond_broadcast(&comm->changed);
	return any;
}

/* Gives the lock back; starts that were queued while it was held are not left to chance. */
static void leave(struct ddl_comm *comm)
{
	pthread_mutex_unlock(&comm->lock);
	while (atomic_load(&comm->queued) && pthread_mutex_trylock(&comm->lock) == 0) {
		progress(comm, false);
		pthread_mutex_unlock(&comm->lock);
	}
}

/* A program that tests and never waits shows what it does as well, now and then. The lock is held. */
static void show_testing(struct ddl_comm *comm, uint64_t now)
{
	const uint64_t shown = atomic_load_explicit(&comm->state->tested_ns, memory_order_relaxed);
	if (now - shown < SLEEP_MS_NOTE * 1000000u)
		return;
	atomic_store_explicit(&comm->state->tested_ns, now, memory_order_relaxed);
	if (now - atomic_load_explicit(&comm->active->moved_ns, memory_order_relaxed) >= SLEEP_MS_NOTE * 1000000u)
		ddl__state_note_changed(comm);
}

void ddl__engine_poke(struct ddl_comm *comm)
{
	if (pthread_mutex_trylock(&comm->lock) == 0) {
		uint64_t now = ddl__coarse_ns();
		progress(comm, is_due(comm, UNASKED_TESTING) || now != comm->asked_ns);
		if (now != comm->asked_ns && comm->active)
			show_testing(comm, now);
		comm->asked_ns = now;
		leave(comm);
	}
}

bool ddl__engine_help(struct ddl_comm *comm, bool *any)
{
	if (pthread_mutex_trylock(&comm->lock))
		return true; /* who holds it may be about to go */
	bool ours = !comm->polling && (comm->active || atomic_load(&comm->queued));
	if (ours)
		*any |= progress(comm, true);
	ours = ours && comm->active;
	leave(comm);
	return ours;
}

void ddl__engine_settle(struct ddl_comm *comm)
{
	pthread_mutex_lock(&comm->lock);
	progress(comm, true);
	leave(comm);
}

void ddl__engine_submit(struct ddl_comm *comm, struct ddl_request *request)
{
	if (pthread_mutex_trylock(&comm->lock) == 0) {
		pick_up(comm); /* what was started before */
		activate(comm, request);
		progress(comm, is_due(comm, UNASKED_WAITING));
		leave(comm);
		return;
	}
	pthread_mutex_lock(&comm->queue_lock);
	request->next = comm->queue;
	comm->queue = request;
	atomic_store(&comm->queued, true);
	pthread_mutex_unlock(&comm->queue_lock);
	ddl__engine_poke(comm);
}

/* ---- waiting ---- */

static void set_sleeping(struct ddl_comm *comm, bool on)
{
	for (size_t t = 0; t < comm->n_transports; t++)
		if (comm->transports[t]->ops->sleeping)
			comm->transports[t]->ops->sleeping(comm->transports[t], on);
}

/* Sleeps until something happens, at most ms. The lock is held, given back while asleep and held again. */
static void doze(struct ddl_comm *comm, int ms)
{
	flush(comm, true);
	if (comm->polling) { /* another thread looks after the descriptors */
		const struct timespec until = ddl__deadline(ms);
		comm->waiters++;
		pthread_cond_timedwait(&comm->changed, &comm->lock, &until);
		comm->waiters--;
		return;
	}
	set_sleeping(comm, true);
	if (!progress(comm, true)) {
		struct epoll_event event;
		comm->polling = true;
		pthread_mutex_unlock(&comm->lock);
		if (!atomic_load(&comm->queued))
			epoll_wait(comm->epoll_fd, &event, 1, ms);
		pthread_mutex_lock(&comm->lock);
		comm->polling = false;
	}
	set_sleeping(comm, false);
	if (comm->waiters)
		pthread_cond_broadcast(&comm->changed);
}

struct wait {
	struct ddl_comm *comm;
	bool (*done)(void *context);
	void *context;
	uint64_t deadline_ns; /* 0: none */
	bool even_failed;
	uint64_t idle_since_ns; /* since when nothing has moved; 0: the clock was not read since it did */
};

/* Some passes, without a look at the clock; ends with the first that completes what is waited for. The lock is held. */
static bool burst(struct wait *wait)
{
	struct ddl_comm *comm = wait->comm;
	unsigned most = ddl__pace_crowded(&comm->pace) ? BURST_CROWDED : BURST;
	for (unsigned idle = 0, passes = 0; idle < most && passes < BURST_MOVING; passes++) {
		if (idle && wait->idle_since_ns)
			relax(); /* at first every nanosecond counts */
		if (progress(comm, is_due(comm, UNASKED_WAITING))) {
			if (wait->idle_since_ns)
				ddl__pace_paid(&comm->pace);
			wait->idle_since_ns = 0;
			idle = 0;
		} else {
			idle++;
		}
		if (wait->done(wait->context) || (!wait->even_failed && atomic_load(&comm->failed)))
			return true;
	}
	return false;
}

/* Shows what is waited for once nothing has moved for a while; false: it is too soon. The lock is held. */
static bool show_wait(struct ddl_comm *comm)
{
	const uint64_t now = ddl__coarse_ns();
	for (const struct ddl_request *r = comm->active; r; r = r->next)
		if (now - atomic_load_explicit(&r->moved_ns, memory_order_relaxed) < SLEEP_MS_NOTE * 1000000u) {
			comm->state->noted_ns = 0; /* what was noted before is over */
			return false;
		}
	ddl__state_note_changed(comm);
	return true;
}

/* Passes the time when nothing moved. The lock is held; given back, and held again, while asleep. */
static enum ddl__rest rest(struct wait *wait, uint64_t now)
{
	struct ddl_comm *comm = wait->comm;
	enum ddl__rest next = ddl__pace_next(&comm->pace, now, now - wait->idle_since_ns);
	bool others = false, busy = next != DDL__REST_SPIN && ddl__process_progress(comm, &others);
	if (others)
		return DDL__REST_SPIN;
	if (next == DDL__REST_OFFER)
		comm->unasked += UNASKED_OFFER;
	if (next != DDL__REST_SLEEP)
		return next;
	uint64_t ms = wait->deadline_ns ? (wait->deadline_ns - now) / 1000000 + 1 : SLEEP_MS_MAX;
	uint64_t most = busy ? SLEEP_MS_BUSY : SLEEP_MS_MAX; /* our descriptors do not tell of the others */
	if (comm->active && !show_wait(comm))
		most = most < SLEEP_MS_NOTE ? most : SLEEP_MS_NOTE;
	atomic_fetch_add_explicit(&comm->state->asleep, 1, memory_order_relaxed);
	doze(comm, (int)(ms < most ? ms : most));
	atomic_fetch_sub_explicit(&comm->state->asleep, 1, memory_order_relaxed);
	ddl__pace_slept(&comm->pace, ddl__now_ns() - now);
	wait->idle_since_ns = 0;
	return next;
}

bool ddl__engine_wait(struct ddl_comm *comm, bool (*done)(void *context), void *context, uint64_t deadline_ns, bool even_failed)
{
	struct wait wait = { comm, done, context, deadline_ns, even_failed, 0 };
	for (;;) {
		pthread_mutex_lock(&comm->lock);
		bool finished = burst(&wait);
		tell_abort(comm); /* done() may have failed it */
		uint64_t now = finished ? 0 : ddl__now_ns();
		bool late = !finished && deadline_ns && now >= deadline_ns;
		if (!wait.idle_since_ns)
			wait.idle_since_ns = now;
		enum ddl__rest next = finished || late ? DDL__REST_SPIN : rest(&wait, now);
		leave(comm);
		if (finished || late)
			return finished;
		if (next == DDL__REST_OFFER) {
			sched_yield();
			ddl__pace_learn(&comm->pace, now, ddl__now_ns() - now);
		}
	}
}

bool ddl__engine_overdue(const struct ddl_request *request)
{
	uint64_t limit = (uint64_t)request->comm->timeout_ms * 1000000;
	return ddl__coarse_ns() - atomic_load_explicit(&request->moved_ns, memory_order_relaxed) >= limit;
}

void ddl__engine_check_deadline(struct ddl_request *request)
{
	struct ddl_comm *comm = request->comm;
	char call[160], wait[192];
	if (!ddl__engine_overdue(request) || !atomic_load(&request->active))
		return;
	ddl__call_describe(&request->call, call, sizeof(call));
	ddl__request_describe_wait(request, wait, sizeof(wait));
	ddl__dump(comm, "the deadline has passed");
	ddl__engine_fail(comm, -ETIMEDOUT,
			 "request %u (%s) has not moved within the timeout of %d ms: %s; is that rank stuck, does it wait for "
			 "another one, or "
			 "did it never start the request? (DDL_TIMEOUT sets the limit)",
			 DDL__REQUEST_NUMBER(request->id), call, comm->timeout_ms, wait);
}

/* ---- the service thread ---- */

static bool stopped(void *context)
{
	return atomic_load(&((struct ddl_comm *)context)->stop);
}

/* Not in the list of what a new thread starts with: one that cannot be bound is of use all the same. */
static bool bind_thread(pthread_t thread, const struct ddl__cpus *cpus)
{
	cpu_set_t *set = CPU_ALLOC(DDL__CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(DDL__CPUS_MAX);
	if (!set)
		return false;
	CPU_ZERO_S(size, set);
	for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++)
		if (ddl__cpus_has(cpus, cpu))
			CPU_SET_S(cpu, size, set);
	int rc = pthread_setaffinity_np(thread, size, set);
	CPU_FREE(set);
	return rc == 0;
}

static void *serve(void *context)
{
	ddl__engine_wait(context, stopped, context, 0, true);
	return NULL;
}

int ddl__engine_thread_start(struct ddl_comm *comm, const struct ddl__cpus *cpus, bool *bound, struct ddl_error *err)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP, SIGPROF };
	sigset_t set, before;
	sigfillset(&set); /* the program's signals are for its own threads, but for what this one raises itself */
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&set, own[i]);
	pthread_sigmask(SIG_SETMASK, &set, &before);
	int rc = pthread_create(&comm->thread, NULL, serve, comm);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return ddl__error_set(err, -rc, "the service thread could not be made: %s", strerror(rc));
	comm->has_thread = true;
	pthread_setname_np(comm->thread, "ddl-progress");
	*bound = bind_thread(comm->thread, cpus);
	return 0;
}

void ddl__engine_thread_stop(struct ddl_comm *comm)
{
	if (!comm->has_thread)
		return;
	atomic_store(&comm->stop, true);
	wake_poller(comm);
	pthread_mutex_lock(&comm->lock);
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->lock);
	pthread_join(comm->thread, NULL);
	comm->has_thread = false;
}

void ddl__engine_thread_stop_by(struct ddl_comm *comm, const struct timespec *until)
{
	if (!comm->has_thread)
		return;
	atomic_store(&comm->stop, true);
	wake_poller(comm);
	if (pthread_mutex_timedlock(&comm->lock, until) == 0) {
		pthread_cond_broadcast(&comm->changed);
		pthread_mutex_unlock(&comm->lock);
	}
	comm->has_thread = pthread_timedjoin_np(comm->thread, NULL, until) != 0;
}

/* ---- making and unmaking ---- */

static void on_wake(struct ddl__poll_source *source, uint32_t events)
{
	struct ddl_comm *comm = (struct ddl_comm *)((char *)source - offsetof(struct ddl_comm, wake));
	uint64_t count;
	(void)!read(comm->wake_fd, &count, sizeof(count));
}

/* Its descriptor is not read: the other communicators are to see it too. */
static void on_dump(struct ddl__poll_source *source, uint32_t events)
{
	ddl__dump((struct ddl_comm *)((char *)source - offsetof(struct ddl_comm, dump)), "asked by a signal");
}

void ddl__engine_listen(struct ddl_comm *comm, int signal)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = &comm->dump };
	int fd = ddl__dump_signal_open(signal);
	comm->asked_to_dump = true;
	comm->dump.ready = on_dump;
	if (fd >= 0)
		epoll_ctl(comm->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int ddl__engine_init(struct ddl_comm *comm, struct ddl_error *err)
{
	pthread_mutex_init(&comm->lock, NULL);
	pthread_mutex_init(&comm->queue_lock, NULL);
	pthread_mutex_init(&comm->cache_lock, NULL);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&comm->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	comm->wake.ready = on_wake;
	comm->state_fd = -1;
	comm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	comm->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &comm->wake };
	char why[DDL__REASON_SIZE];
	if (comm->epoll_fd < 0 || comm->wake_fd < 0 || epoll_ctl(comm->epoll_fd, EPOLL_CTL_ADD, comm->wake_fd, &event) < 0)
		return ddl__error_set(err, -errno, "a communicator could not be made: %s",
				      ddl__error_reason(why, sizeof(why), -errno));
	return ddl__state_open(comm) < 0 ? ddl__error_memory(err) : 0;
}

void ddl__engine_fini(struct ddl_comm *comm)
{
	if (comm->asked_to_dump)
		ddl__dump_signal_close();
	if (comm->epoll_fd >= 0)
		close(comm->epoll_fd);
	if (comm->wake_fd >= 0)
		close(comm->wake_fd);
	ddl__channels_fini(comm);
	ddl__stats_close(comm);
	ddl__state_close(comm);
	ddl__ids_fini(&comm->ids);
	free(comm->early);
	free(comm->left);
	pthread_cond_destroy(&comm->changed);
	pthread_mutex_destroy(&comm->cache_lock);
	pthread_mutex_destroy(&comm->queue_lock);
	pthread_mutex_destroy(&comm->lock);
}

const struct ddl__events ddl__engine_events = {
	.announced = on_announced,
	.lost = on_lost,
	.left = on_left,
	.aborted = on_aborted,
	.stranger = on_stranger,
	.moved = on_moved,
};
