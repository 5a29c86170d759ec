/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controller.c - the one RPC, on a thread of its own, so that a slurmctld that is slow or gone does not hold up the step.
 *
 * Slurm's call tries for MessageTimeout (10 s and more) and takes no deadline. When ours passes, the thread is left to itself:
 * it owns its half of the record, blocks all signals, and ends when Slurm's call returns or the process does. The plugin is
 * linked with -z nodelete, so the code stays mapped under it after Slurm has closed the plugin.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "controller.h"
#include "error.h"
#include "release.h"

struct call {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int owners;           /* the caller and the thread: the last one frees */
	int done;             /* 1: the rest is filled */
	int rc;               /* of ddl__release_topology() */
	char *text;           /* NULL: none, or taken by the caller */
	size_t length;        /* of text */
	struct ddl_error err; /* if rc is negative */
};

static struct call *call_create(void)
{
	struct call *call = calloc(1, sizeof(*call));
	pthread_condattr_t attr;

	if (!call)
		return NULL;
	pthread_mutex_init(&call->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&call->ended, &attr);
	pthread_condattr_destroy(&attr);
	return call;
}

/* Gives up one ownership; call->lock is held and is released. */
static void call_put(struct call *call)
{
	int last = --call->owners == 0;

	pthread_mutex_unlock(&call->lock);
	if (!last)
		return;
	pthread_cond_destroy(&call->ended);
	pthread_mutex_destroy(&call->lock);
	free(call->text);
	free(call);
}

static void *ask(void *argument)
{
	struct call *call = argument;
	struct ddl_error err = { 0 };
	char *text = NULL;
	size_t length = 0;
	int rc = ddl__release_topology(&text, &length, &err);

	pthread_mutex_lock(&call->lock);
	call->rc = rc;
	call->err = err;
	call->text = text;
	call->length = length;
	call->done = 1;
	pthread_cond_signal(&call->ended);
	call_put(call);
	return NULL;
}

/* Starts ask() on a detached thread that no signal of srun's reaches. Returns 0 or an errno. */
static int start(struct call *call)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	call->owners = 2;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, ask, call);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_detach(thread);
	else
		call->owners = 1;
	return rc;
}

static int call_wait(int timeout_ms, char **text, size_t *length, struct ddl_error *err)
{
	struct timespec at = ddl__deadline(timeout_ms);
	struct call *call = call_create();
	int rc, waited = 0;

	if (!call)
		return ddl__error_memory(err);
	rc = start(call);
	pthread_mutex_lock(&call->lock);
	while (rc == 0 && !call->done && waited == 0)
		waited = pthread_cond_timedwait(&call->ended, &call->lock, &at);
	if (rc) {
		rc = ddl__error_set(err, -ENOMEM, "no thread to ask slurmctld with: %s", strerror(rc));
	} else if (!call->done) {
		rc = ddl__error_set(err, -ETIMEDOUT, "slurmctld did not tell the topology within %d ms", timeout_ms);
	} else if (call->rc < 0) {
		rc = ddl__error_set(err, call->rc, "%s", call->err.text);
	} else {
		*text = call->text;
		*length = call->length;
		call->text = NULL;
	}
	call_put(call);
	return rc;
}

int ddl__controller_topology(int timeout_ms, char **text, size_t *length, struct ddl_error *err)
{
	const char *set = getenv("SLURM_TOPO_LEN"); /* would cut the lines that Slurm prints */
	char *saved = set ? strdup(set) : NULL;
	int rc;

	if (set)
		unsetenv("SLURM_TOPO_LEN");
	rc = call_wait(timeout_ms, text, length, err);
	if (saved)
		setenv("SLURM_TOPO_LEN", saved, 1);
	free(saved);
	return rc;
}
