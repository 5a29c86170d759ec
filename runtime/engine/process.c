/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c - the communicators of this process: what one of them owes the others, and what a fork and the end mean to all.
 *
 * Whoever waits for a request of one communicator makes progress for the others too. Else two ranks that wait for the same two
 * requests in different orders would wait for each other.
 *
 * After a fork the child closes its copies of our descriptors and fails its communicators, whose calls from then on do nothing: a
 * destructor that runs in the child must not speak to our peers, and a child that lives on must not keep the connections of a
 * parent that died. The locks are taken around the fork, so that nothing is half changed in the child.
 *
 * A program may end without destroying its communicators, after an error for example. Their service threads are ended before
 * libcrypto, which they use, is taken down. A signal's handler may have called exit() with one of our locks held: then a service
 * thread waits for that lock, and after a moment is left to it.
 *
 * A fork concerns the whole process, and so do its end and a thread that waits: this list is one of the library's few globals.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "auth.h"
#include "dump_signal.h"
#include "engine.h"
#include "mem.h"
#include "state.h"

enum { EXIT_S_MAX = 1 };

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;   /* before any communicator's */
	struct ddl_comm *first; /* list by next */
	atomic_uint n;          /* in the list */
} process = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- fork ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&process.lock);
	for (struct ddl_comm *c = process.first; c; c = c->next)
		pthread_mutex_lock(&c->lock);
}

static void after_fork(void)
{
	for (struct ddl_comm *c = process.first; c; c = c->next)
		pthread_mutex_unlock(&c->lock);
	pthread_mutex_unlock(&process.lock);
}

/* Only what may be done in a child of a process with threads: no memory is given back. */
static void after_fork_in_child(void)
{
	after_fork();
	for (struct ddl_comm *c = process.first; c; c = c->next) {
		for (size_t t = 0; t < c->n_transports; t++)
			if (c->transports[t]->ops->forked)
				c->transports[t]->ops->forked(c->transports[t]);
		ddl__mem_forked(c);
		ddl__state_forked(c);
		close(c->epoll_fd);
		close(c->wake_fd);
		c->error = (struct ddl_error){ -EOPNOTSUPP, "a communicator is of no use in a child of the process that made it: "
							    "make one in the child" };
		atomic_store(&c->failed, -EOPNOTSUPP);
		atomic_store(&c->forked, true);
	}
	if (process.first)
		ddl__dump_signal_forked();
	process.first = NULL;
	atomic_store(&process.n, 0);
}

/* ---- the end ---- */

static void before_exit(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += EXIT_S_MAX;
	if (pthread_mutex_timedlock(&process.lock, &until))
		return;
	for (struct ddl_comm *c = process.first; c; c = c->next)
		ddl__engine_thread_stop_by(c, &until);
	pthread_mutex_unlock(&process.lock);
}

static void watch_process(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
	ddl__auth_open(); /* what is registered last is called first */
	atexit(before_exit);
}

/* ---- the list ---- */

void ddl__process_enter(struct ddl_comm *comm)
{
	pthread_once(&process.once, watch_process);
	pthread_mutex_lock(&process.lock);
	comm->next = process.first;
	process.first = comm;
	atomic_fetch_add(&process.n, 1);
	pthread_mutex_unlock(&process.lock);
}

void ddl__process_leave(struct ddl_comm *comm)
{
	pthread_mutex_lock(&process.lock);
	for (struct ddl_comm **at = &process.first; *at; at = &(*at)->next) {
		if (*at != comm)
			continue;
		*at = comm->next;
		atomic_fetch_sub(&process.n, 1);
		break;
	}
	pthread_mutex_unlock(&process.lock);
}

bool ddl__process_progress(const struct ddl_comm *comm, bool *any)
{
	bool busy = false;
	*any = false;
	if (atomic_load(&process.n) < 2)
		return false;
	if (pthread_mutex_trylock(&process.lock))
		return true;
	for (struct ddl_comm *c = process.first; c; c = c->next)
		if (c != comm && ddl__engine_help(c, any))
			busy = true;
	pthread_mutex_unlock(&process.lock);
	return busy;
}
