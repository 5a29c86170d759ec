/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_threads.h - a communicator of ranks that are threads of this process: over transport/loop, or over shared memory or tcp,
 * where they find each other through a store in memory. Over verbs too in programs that define RANK_VERBS, the table of verbs.
 */
#ifndef DDL_TESTS_RANK_THREADS_H
#define DDL_TESTS_RANK_THREADS_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm.h"
#include "engine.h"
#include "trees.h"

enum { RANKS_MAX = 5, KEYS_MAX = 256 };

struct world {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct {
		char name[128];
		char *data;
		size_t size;
	} keys[KEYS_MAX];
	size_t n_keys;
	pthread_barrier_t barrier; /* of all ranks, for the body */
	uint64_t seed;
	const char *transports;       /* as in ddl_comm_options, or "loop" */
	struct ddl__loop_world *loop; /* for that */
	struct world_plan plan;       /* for that */
	int progress;                 /* service threads of each rank */
	int timeout_ms;               /* of the communicators */
	enum ddl__register use;       /* over verbs: of memory */
	int n;                        /* ranks */
	const void *argument;         /* for the body */
};

struct rank {
	struct world *world;
	int rank;
	struct ddl_comm *comm;
	void *(*body)(struct rank *rank);
	uint64_t found;  /* by the body; summed up over the ranks */
	char wrong[768]; /* what went wrong first; "": nothing */
};

static inline int set_key(void *context, const char *key, const void *data, size_t size)
{
	struct world *w = ((struct rank *)context)->world;
	int rc = -ENOSPC;

	pthread_mutex_lock(&w->lock);
	if (w->n_keys < KEYS_MAX) {
		snprintf(w->keys[w->n_keys].name, sizeof(w->keys[0].name), "%s", key);
		w->keys[w->n_keys].data = malloc(size + 1);
		memcpy(w->keys[w->n_keys].data, data, size);
		w->keys[w->n_keys++].size = size;
		pthread_cond_broadcast(&w->changed);
		rc = 0;
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static inline int get_key(void *context, const char *key, void *data, size_t capacity, size_t *size, int timeout_ms)
{
	struct world *w = ((struct rank *)context)->world;
	struct timespec until;
	size_t i;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000 + 1; /* then the other has failed, and what it complains of is the reason */
	pthread_mutex_lock(&w->lock);
	for (;;) {
		for (i = 0; i < w->n_keys && strcmp(w->keys[i].name, key) != 0; i++)
			;
		if (i < w->n_keys)
			break;
		if (pthread_cond_timedwait(&w->changed, &w->lock, &until) == ETIMEDOUT) {
			pthread_mutex_unlock(&w->lock);
			return -ETIMEDOUT;
		}
	}
	*size = w->keys[i].size;
	if (*size <= capacity)
		memcpy(data, w->keys[i].data, *size);
	pthread_mutex_unlock(&w->lock);
	return *size <= capacity ? 0 : -EMSGSIZE;
}

/* In threads no assertion of cmocka's may be used. The others are told, so that they do not wait for this one. */
static inline void complain(struct rank *rank, const char *what, int rc)
{
	struct ddl_error err = { 0 };

	if (rank->comm)
		ddl_comm_get_error(rank->comm, &err);
	if (!rank->wrong[0])
		snprintf(rank->wrong, sizeof(rank->wrong), "rank %d: %s (%d) %.150s", rank->rank, what, rc, err.text);
	if (rank->comm)
		ddl_comm_abort(rank->comm, "something is wrong there");
}

static inline int join_loop(struct rank *rank, struct ddl_error *err)
{
	static const struct ddl__cpus any = { { ~UINT64_C(0) } };
	struct world *w = rank->world;
	int rc = ddl__comm_create_loop(w->loop, w->plan.text, w->plan.node_of_rank, rank->rank, w->n, 60000, &rank->comm, err);

	return rc < 0 || !w->progress ? rc : ddl__engine_thread_start(rank->comm, &any, &(bool){ false }, err);
}

#ifdef RANK_VERBS
/* As ddl_comm_create(), but over a stand-in for RDMA. */
static inline int join_stand_in(struct rank *rank, const struct ddl_comm_options *options, struct ddl_error *err)
{
	struct ddl__settings settings;
	struct ddl__origin *origin = NULL;
	struct ddl__boot *boot = NULL;
	int rc = ddl__settings_read(options, &settings, err);

	settings.rdma.use = rank->world->use;
	rc = rc ? rc : ddl__origin_create(&settings, &origin, err);
	rc = rc ? rc : ddl__boot_open(options, settings.timeout_ms, &boot, err);
	rc = rc ? rc : ddl__facts_gather("", boot->host, &origin->facts, err);
	if (rc == 0) {
		origin->verbs = RANK_VERBS;
		rc = ddl__comm_make(boot, origin, &rank->comm, err);
		origin = NULL; /* taken over */
	}
	ddl__origin_destroy(origin);
	if (boot)
		boot->ops->close(boot);
	return rc ? rc : ddl__comm_connect(rank->comm, err);
}
#endif

static inline int join_store(struct rank *rank, struct ddl_error *err)
{
	struct ddl_store store = { rank, rank->rank, rank->world->n, set_key, get_key };
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;

	options.store = &store;
	options.transports = rank->world->transports;
	options.timeout_ms = rank->world->timeout_ms ? rank->world->timeout_ms : 60000;
	options.measure = 0;
	options.progress_threads = rank->world->progress;
	options.interfaces = "lo"; /* others come and go with what else runs on this machine */
#ifdef RANK_VERBS
	if (strstr(options.transports, "verbs"))
		return join_stand_in(rank, &options, err);
#endif
	return ddl_comm_create(&options, &rank->comm, err);
}

static inline void *run_rank(void *argument)
{
	struct rank *rank = argument;
	struct ddl_error err = { 0 };
	int rc = rank->world->loop ? join_loop(rank, &err) : join_store(rank, &err);

	pthread_barrier_wait(&rank->world->barrier); /* transport/loop drops what goes to a rank that is not there yet */
	if (rc < 0)
		complain(rank, err.text, rc);
	else
		rank->body(rank);
	ddl_comm_destroy(rank->comm);
	return NULL;
}

/* Runs the body on n ranks in a world with these settings; fails the test with the first that went wrong. found: may be NULL. */
static inline void run_world_like(const struct world *like, int n, void *(*body)(struct rank *rank), uint64_t *found)
{
	struct rank ranks[RANKS_MAX] = { 0 };
	pthread_t threads[RANKS_MAX];
	struct world w = *like;
	const char *transports = w.transports;
	uint64_t all = 0, seed = w.seed;

	w.n = n;

	if (strcmp(transports, "loop") == 0) {
		assert_int_equal(random_plan(seed, n, 2, (int)(seed & 1), &w.plan), 0);
		w.loop = ddl__loop_world_create(n);
		assert_non_null(w.loop);
	}
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.changed, NULL);
	pthread_barrier_init(&w.barrier, NULL, (unsigned)n);
	for (int r = 0; r < n; r++) {
		ranks[r] = (struct rank){ .world = &w, .rank = r, .body = body };
		assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
	}
	for (int r = 0; r < n; r++) {
		pthread_join(threads[r], NULL);
		all += ranks[r].found;
	}
	for (size_t i = 0; i < w.n_keys; i++)
		free(w.keys[i].data);
	pthread_barrier_destroy(&w.barrier);
	pthread_cond_destroy(&w.changed);
	pthread_mutex_destroy(&w.lock);
	if (w.loop) {
		ddl__loop_world_destroy(w.loop);
		world_plan_fini(&w.plan);
	}
	bool wrong = false;
	for (int r = 0; r < n; r++)
		if (ranks[r].wrong[0]) {
			print_error("%s\n", ranks[r].wrong);
			wrong = true;
		}
	if (wrong)
		fail_msg("%d ranks over %s, seed %llu", n, transports, (unsigned long long)seed);
	if (found)
		*found = all;
}

static inline void run_world(int n, const char *transports, int progress, uint64_t seed, void *(*body)(struct rank *rank),
			     const void *argument, uint64_t *found)
{
	const struct world like = { .seed = seed, .transports = transports, .progress = progress, .argument = argument };

	run_world_like(&like, n, body, found);
}

#endif
