/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pmix.c - the bootstrap over PMIx: srun --mpi=pmix, ddl run, mpirun. All that PMIx under Slurm taught us is in this file:
 *
 *  - Without a launcher PMIx_Init fails slowly and leaves PMIx_Initialized() at 1. So PMIX_NAMESPACE and PMIX_RANK are looked for
 *    first.
 *  - A fence is a barrier across nodes only with PMIX_COLLECT_DATA=true and over all ranks.
 *  - PMIX_TIMEOUT is ignored. So every wait is a non-blocking call with our own deadline; a call that misses it is abandoned to
 *    its callback, which frees what it needs (struct waiter has two owners).
 *  - A plain get of a key that its rank never put waits for ever. After the fence we ask with PMIX_IMMEDIATE.
 *  - Values are byte objects; keys are "ddl.<generation>.<key>". The generation counts the communicators that this process made
 *    one after the other, so that none reads the values of an earlier one. Communicators are created by all ranks in the same
 *    order, so they agree on it. It is found by asking for the marks that this rank put itself.
 *  - PMIx_Init and PMIx_Finalize count their calls, so it does not matter whether the program (MPI) uses PMIx too. But after the
 *    last PMIx_Finalize nothing works reliably any more in a process, values that it put itself are lost among others. So the first
 *    communicator takes one more reference, which is given back when the process ends.
 */
#include <stdio.h>
#include <stdlib.h>

#include "boot.h"
#include "clock.h"
#include "error.h"
#include "missing.h"

#ifdef DDL_HAVE_PMIX

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define GET_MS          60000 /* deadline of a get after the fence: the data are on this node */
#define LAST_LOOK_MS    1000  /* time in which the ranks that are there answer after a fence failed */
#define LAST_LOOK_RANKS 1024  /* larger jobs are not searched for the missing */
#define GENERATIONS_MAX 65536 /* communicators one after the other */

struct pmix {
	struct ddl__boot boot; /* first */
	pmix_proc_t self;      /* this process */
	int timeout_ms;        /* deadline of a fence */
	int generation;        /* which communicator of this process it is */
};

struct waiter {                 /* a non-blocking call under way; owned by the caller and by the callback */
	pthread_mutex_t mutex;  /* guards what follows */
	pthread_cond_t changed; /* signalled when done is set */
	int owners;             /* 2, 1; at 0 it is freed */
	int done;               /* 1: the callback came */
	pmix_status_t status;   /* what it said */
	void *data;             /* get: a copy of the value, NUL-ended beyond size */
	size_t size;            /* get: bytes of data */
	pmix_info_t info;       /* handed to PMIx; must live as long as the call */
	pmix_proc_t proc;       /* the same */
	char key[PMIX_MAX_KEYLEN + 1];
};

static int pmix_probe(const struct ddl_comm_options *options, char *why, size_t size)
{
	const char *nspace = getenv("PMIX_NAMESPACE");
	const char *rank = getenv("PMIX_RANK");

	(void)options;
	if (!nspace || !*nspace || !rank || !*rank) {
		snprintf(why, size, "no PMIx launcher (PMIX_NAMESPACE is not set)");
		return 0;
	}
	snprintf(why, size, "PMIx job %.64s, rank %.16s", nspace, rank);
	return 1;
}

static struct waiter *waiter_create(void)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));
	pthread_condattr_t attr;

	if (!waiter)
		return NULL;
	pthread_mutex_init(&waiter->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&waiter->changed, &attr);
	pthread_condattr_destroy(&attr);
	PMIX_INFO_CONSTRUCT(&waiter->info);
	waiter->owners = 2;
	return waiter;
}

/* Gives up one ownership. */
static void waiter_put(struct waiter *waiter)
{
	int owners;

	pthread_mutex_lock(&waiter->mutex);
	owners = --waiter->owners;
	pthread_mutex_unlock(&waiter->mutex);
	if (owners > 0)
		return;
	PMIX_INFO_DESTRUCT(&waiter->info);
	pthread_cond_destroy(&waiter->changed);
	pthread_mutex_destroy(&waiter->mutex);
	free(waiter->data);
	free(waiter);
}

/* What a call that will not call back leaves behind. */
static void waiter_finish(struct waiter *waiter, pmix_status_t status)
{
	pthread_mutex_lock(&waiter->mutex);
	waiter->status = status;
	waiter->done = 1;
	pthread_cond_signal(&waiter->changed);
	pthread_mutex_unlock(&waiter->mutex);
	waiter_put(waiter);
}

/* 0: the callback came; -ETIMEDOUT. */
static int waiter_wait(struct waiter *waiter, const struct timespec *deadline)
{
	int rc = 0, done;

	pthread_mutex_lock(&waiter->mutex);
	while (!waiter->done && rc == 0)
		rc = pthread_cond_timedwait(&waiter->changed, &waiter->mutex, deadline);
	done = waiter->done;
	pthread_mutex_unlock(&waiter->mutex);
	return done ? 0 : -ETIMEDOUT;
}

static void on_fence(pmix_status_t status, void *context)
{
	waiter_finish(context, status);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *context)
{
	struct waiter *waiter = context;
	const char *bytes;
	char *copy;
	size_t size;

	if (status != PMIX_SUCCESS) {
		waiter_finish(waiter, status);
		return;
	}
	if (!value || value->type != PMIX_BYTE_OBJECT) {
		waiter_finish(waiter, PMIX_ERR_TYPE_MISMATCH);
		return;
	}
	bytes = value->data.bo.bytes;
	size = bytes ? value->data.bo.size : 0;
	copy = malloc(size + 1);
	if (!copy) {
		waiter_finish(waiter, PMIX_ERR_NOMEM);
		return;
	}
	if (size)
		memcpy(copy, bytes, size);
	copy[size] = '\0';
	waiter->data = copy; /* the caller looks at it only once done is set */
	waiter->size = size;
	waiter_finish(waiter, status);
}

/* Starts reading a key of a rank. immediate: fail rather than wait until it is put. NULL: no memory. */
static struct waiter *get_start(const struct pmix *pmix, pmix_rank_t rank, const char *key, bool immediate)
{
	struct waiter *waiter = waiter_create();
	pmix_status_t status;

	if (!waiter)
		return NULL;
	PMIX_LOAD_PROCID(&waiter->proc, pmix->self.nspace, rank);
	snprintf(waiter->key, sizeof(waiter->key), "%s", key);
	PMIX_INFO_LOAD(&waiter->info, PMIX_IMMEDIATE, &immediate, PMIX_BOOL);
	status = PMIx_Get_nb(&waiter->proc, waiter->key, immediate ? &waiter->info : NULL, immediate ? 1 : 0, on_value, waiter);
	if (status != PMIX_SUCCESS)
		waiter_finish(waiter, status);
	return waiter; /* NOLINT(clang-analyzer-unix.Malloc): finishing gives up one of two references */
}

static int full_key(const struct pmix *pmix, char *full, const char *key, struct ddl_error *err)
{
	if (snprintf(full, PMIX_MAX_KEYLEN, "ddl.%d.%s", pmix->generation, key) >= PMIX_MAX_KEYLEN)
		return ddl__error_set(err, -EINVAL, "the key %.64s... is too long for PMIx", key);
	return 0;
}

/* Sets this rank's value of a full key and sends it to the server. */
static int publish(struct pmix *pmix, const char *full, const void *data, size_t size, struct ddl_error *err)
{
	pmix_status_t status;
	pmix_value_t value;

	PMIX_VALUE_CONSTRUCT(&value);
	value.type = PMIX_BYTE_OBJECT;
	value.data.bo.bytes = (char *)data; /* PMIx_Put copies it */
	value.data.bo.size = size;
	status = PMIx_Put(PMIX_GLOBAL, full, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	if (status != PMIX_SUCCESS)
		return ddl__error_set(err, status == PMIX_ERR_NOMEM ? -ENOMEM : -EIO,
				      "rank %d could not publish %zu bytes under %s over PMIx: %s", pmix->boot.rank, size, full,
				      PMIx_Error_string(status));
	return 0;
}

static int pmix_put(struct ddl__boot *boot, const char *key, const void *data, size_t size, struct ddl_error *err)
{
	struct pmix *pmix = (struct pmix *)boot;
	char full[PMIX_MAX_KEYLEN + 1];
	int rc = full_key(pmix, full, key, err);

	return rc < 0 ? rc : publish(pmix, full, data, size, err);
}

/* Reads a job-wide (rank PMIX_RANK_WILDCARD) or rank-wide value that the launcher knows; NULL: it does not. */
static pmix_value_t *ask(const struct pmix *pmix, pmix_rank_t rank, const char *key)
{
	pmix_value_t *value = NULL;
	pmix_info_t info;
	pmix_proc_t proc;
	bool immediate = true;

	PMIX_LOAD_PROCID(&proc, pmix->self.nspace, rank);
	PMIX_INFO_CONSTRUCT(&info);
	/* Not PMIX_OPTIONAL: where the program used and left PMIx before us, only the server knows. */
	PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &immediate, PMIX_BOOL);
	if (PMIx_Get(&proc, key, &info, 1, &value) != PMIX_SUCCESS)
		value = NULL;
	PMIX_INFO_DESTRUCT(&info);
	return value;
}

static void ask_string(const struct pmix *pmix, pmix_rank_t rank, const char *key, char *text, size_t size)
{
	pmix_value_t *value = ask(pmix, rank, key);

	if (value && value->type == PMIX_STRING && value->data.string)
		snprintf(text, size, "%s", value->data.string);
	if (value)
		PMIX_VALUE_RELEASE(value);
}

/* How many communicators this process made before: the first mark that this rank did not put. */
static int find_generation(struct pmix *pmix, struct ddl_error *err)
{
	struct timespec deadline = ddl__deadline(GET_MS);
	int rc = 0;

	for (; pmix->generation < GENERATIONS_MAX; pmix->generation++) {
		char key[PMIX_MAX_KEYLEN + 1];
		struct waiter *waiter;
		pmix_status_t status;

		rc = full_key(pmix, key, "mark", err);
		if (rc < 0)
			return rc;
		waiter = get_start(pmix, pmix->self.rank, key, true);
		if (!waiter)
			return ddl__error_set(err, -ENOMEM, "no memory to ask PMIx for %s", key);
		rc = waiter_wait(waiter, &deadline);
		status = rc == 0 ? waiter->status : PMIX_ERR_TIMEOUT;
		waiter_put(waiter);
		if (rc < 0)
			return ddl__error_set(err, rc, "rank %d: the PMIx server did not answer within %d ms", pmix->boot.rank,
					      GET_MS);
		if (status != PMIX_SUCCESS)
			return publish(pmix, key, "1", 1, err);
	}
	return ddl__error_set(err, -EINVAL, "more than %d communicators were made by this process", GENERATIONS_MAX);
}

/* The end of the process. A forked child that ends must not sign its parent off. */
static void release_at_exit(void *pid)
{
	if ((intptr_t)pid == (intptr_t)getpid())
		PMIx_Finalize(NULL, 0);
}

/*
 * Keeps PMIx alive until the process ends or this library is unloaded. __cxa_atexit (Itanium C++ ABI, in every libc here) does
 * what atexit does and hands over an argument, which saves a global.
 */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *dso);
extern void *__dso_handle;

static int keep_alive(const struct pmix *pmix, struct ddl_error *err)
{
	pmix_proc_t self;
	pmix_status_t status = PMIx_Init(&self, NULL, 0);

	if (status == PMIX_SUCCESS && __cxa_atexit(release_at_exit, (void *)(intptr_t)getpid(), &__dso_handle) == 0)
		return 0;
	if (status == PMIX_SUCCESS)
		PMIx_Finalize(NULL, 0);
	return ddl__error_set(err, -ENOMEM, "rank %d could not keep PMIx alive: %s", pmix->boot.rank, PMIx_Error_string(status));
}

static int learn_job(struct pmix *pmix, struct ddl_error *err)
{
	static const char slurm[] = "slurm.pmix."; /* Slurm's name of a step: slurm.pmix.4242.0 */
	const char *name = pmix->self.nspace;
	pmix_value_t *value = ask(pmix, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
	uint32_t size = value && value->type == PMIX_UINT32 ? value->data.uint32 : 0;

	if (value)
		PMIX_VALUE_RELEASE(value);
	if (size == 0 || size > INT32_MAX || pmix->self.rank >= size)
		return ddl__error_set(err, -EPROTO,
				      "PMIx says rank %u of %u ranks in the job %s: the launcher's PMIx is not usable",
				      pmix->self.rank, size, name);
	pmix->boot.rank = (int)pmix->self.rank;
	pmix->boot.size = (int)size;
	if (!strncmp(name, slurm, sizeof(slurm) - 1))
		name += sizeof(slurm) - 1;
	snprintf(pmix->boot.job, sizeof(pmix->boot.job), "%.63s", name);
	ask_string(pmix, pmix->self.rank, PMIX_HOSTNAME, pmix->boot.host, sizeof(pmix->boot.host));
	return 0;
}

static int pmix_open(const struct ddl_comm_options *options, int timeout_ms, struct ddl__boot **boot, struct ddl_error *err)
{
	struct pmix *pmix = calloc(1, sizeof(*pmix));
	pmix_status_t status;
	int rc;

	(void)options;
	if (!pmix)
		return ddl__error_set(err, -ENOMEM, "no memory for the bootstrap");
	status = PMIx_Init(&pmix->self, NULL, 0);
	if (status != PMIX_SUCCESS) {
		rc = ddl__error_set(
			err, -ECONNREFUSED,
			"rank %s of the job %s could not reach its PMIx server: %s (was it started by the launcher itself?)",
			getenv("PMIX_RANK"), getenv("PMIX_NAMESPACE"), PMIx_Error_string(status));
		goto free_pmix;
	}
	pmix->boot.ops = &ddl__boot_pmix;
	pmix->timeout_ms = timeout_ms;
	rc = learn_job(pmix, err);
	if (rc < 0)
		goto finalize;
	rc = find_generation(pmix, err);
	if (rc == 0 && pmix->generation == 0)
		rc = keep_alive(pmix, err);
	if (rc < 0)
		goto finalize;
	*boot = &pmix->boot;
	return 0;

finalize:
	PMIx_Finalize(NULL, 0);
free_pmix:
	free(pmix);
	return rc;
}

/*
 * Asks for a value of every rank's, all at once, and collects the ranks that do not answer in a short while. A rank that published
 * something answers even now: the servers fetch it directly.
 */
static void find_missing(const struct pmix *pmix, struct ddl__missing *missing)
{
	struct timespec deadline = ddl__deadline(LAST_LOOK_MS);
	struct waiter **waiters;
	char key[PMIX_MAX_KEYLEN + 1];

	if (pmix->boot.size > LAST_LOOK_RANKS || full_key(pmix, key, "mark", NULL) < 0)
		return;
	waiters = calloc((size_t)pmix->boot.size, sizeof(struct waiter *));
	if (!waiters)
		return;
	for (int rank = 0; rank < pmix->boot.size; rank++)
		waiters[rank] = rank == pmix->boot.rank ? NULL : get_start(pmix, (pmix_rank_t)rank, key, false);
	for (int rank = 0; rank < pmix->boot.size; rank++) {
		if (!waiters[rank])
			continue;
		if (waiter_wait(waiters[rank], &deadline) < 0 || waiters[rank]->status != PMIX_SUCCESS)
			ddl__missing_add(missing, rank);
		waiter_put(waiters[rank]);
	}
	free(waiters);
}

static int fence_failed(const struct pmix *pmix, struct ddl_error *err)
{
	struct ddl__missing missing = { 0, "" };

	find_missing(pmix, &missing);
	if (missing.n > 0)
		return ddl__missing_tell(&missing, pmix->boot.size, "PMIx", pmix->timeout_ms, err);
	return ddl__error_set(
		err, -ETIMEDOUT,
		"the exchange of %d ranks over PMIx did not end within %d ms: some rank never came (do all of them make "
		"the communicator?); raise DDL_TIMEOUT if they start slowly",
		pmix->boot.size, pmix->timeout_ms);
}

/* What servers say of a fence that a rank left by dying. */
static int is_loss(pmix_status_t status)
{
	switch (status) {
	case PMIX_ERR_LOST_CONNECTION:
	case PMIX_ERR_PROC_ABORTED:
#ifdef PMIX_ERR_PARTIAL_SUCCESS
	case PMIX_ERR_PARTIAL_SUCCESS:
#endif
		return 1;
	default:
		return 0;
	}
}

static int pmix_fence(struct ddl__boot *boot, struct ddl_error *err)
{
	struct pmix *pmix = (struct pmix *)boot;
	struct timespec deadline = ddl__deadline(pmix->timeout_ms);
	struct waiter *waiter = waiter_create();
	pmix_status_t status;
	bool collect = true;
	int rc;

	if (!waiter)
		return ddl__error_set(err, -ENOMEM, "no memory for a fence over PMIx");
	PMIX_INFO_LOAD(&waiter->info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	status = PMIx_Fence_nb(NULL, 0, &waiter->info, 1, on_fence, waiter);
	if (status != PMIX_SUCCESS) /* then nobody calls back; PMIX_OPERATION_SUCCEEDED: it is done already */
		waiter_finish(waiter, status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
	rc = waiter_wait(waiter, &deadline); /* NOLINT(clang-analyzer-unix.Malloc): finishing gives up one of two references */
	status = rc == 0 ? waiter->status : PMIX_ERR_TIMEOUT;
	waiter_put(waiter);
	if (status == PMIX_ERR_TIMEOUT)
		return fence_failed(pmix, err);
	if (status != PMIX_SUCCESS)
		return ddl__error_set(
			err, is_loss(status) ? -ECONNRESET : -EIO,
			"the exchange of %d ranks over PMIx failed: %s (another rank than %d or its node may have died)",
			boot->size, PMIx_Error_string(status), boot->rank);
	return 0;
}

static int pmix_get(struct ddl__boot *boot, int rank, const char *key, void **data, size_t *size, struct ddl_error *err)
{
	struct pmix *pmix = (struct pmix *)boot;
	struct timespec deadline = ddl__deadline(GET_MS);
	char full[PMIX_MAX_KEYLEN + 1];
	struct waiter *waiter;
	int rc;

	if (rank < 0 || rank >= boot->size)
		return ddl__error_set(err, -EINVAL, "there is no rank %d: the PMIx job has %d ranks", rank, boot->size);
	rc = full_key(pmix, full, key, err);
	if (rc < 0)
		return rc;
	waiter = get_start(pmix, (pmix_rank_t)rank, full, true);
	if (!waiter)
		return ddl__error_set(err, -ENOMEM, "no memory to ask PMIx for %s", full);
	if (waiter_wait(waiter, &deadline) < 0) {
		rc = ddl__error_set(err, -ETIMEDOUT, "rank %d: the PMIx server did not tell %s of rank %d within %d ms", boot->rank,
				    full, rank, GET_MS);
	} else if (waiter->status == PMIX_SUCCESS) {
		*data = waiter->data;
		*size = waiter->size;
		waiter->data = NULL;
		rc = 0;
	} else if (waiter->status == PMIX_ERR_NOMEM) {
		rc = ddl__error_set(err, -ENOMEM, "no memory for %s of rank %d", full, rank);
	} else {
		rc = ddl__error_set(err, -ENOENT, "rank %d never put %s: %s (it may have died)", rank, full,
				    PMIx_Error_string(waiter->status));
	}
	waiter_put(waiter);
	return rc;
}

static void pmix_close(struct ddl__boot *boot)
{
	if (!boot)
		return;
	PMIx_Finalize(NULL, 0);
	free(boot);
}

const struct ddl__boot_ops ddl__boot_pmix = {
	.name = "pmix",
	.description = "PMIx: srun --mpi=pmix, ddl run, mpirun",
	.probe = pmix_probe,
	.open = pmix_open,
	.put = pmix_put,
	.fence = pmix_fence,
	.get = pmix_get,
	.close = pmix_close,
};

#else

static int pmix_probe(const struct ddl_comm_options *options, char *why, size_t size)
{
	(void)options;
	snprintf(why, size, "built without PMIx");
	return 0;
}

const struct ddl__boot_ops ddl__boot_pmix = {
	.name = "pmix",
	.description = "PMIx: srun --mpi=pmix, ddl run, mpirun (not in this build)",
	.probe = pmix_probe,
};

#endif
