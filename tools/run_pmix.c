/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_pmix.c - the PMIx server inside `ddl run`: one node, all processes local.
 *
 * The library collects what the processes put; since nobody is elsewhere, a fence hands its data straight back. What is rare
 * (publish, spawn, groups) is not offered, as under Slurm. The library calls us from its own thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "run.h"

void ddl__run_env_destroy(char **env)
{
	for (char **entry = env; entry && *entry; entry++)
		free(*entry);
	free(env);
}

#ifdef DDL_HAVE_PMIX

#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <time.h>

#ifndef PMIX_PROC_INFO_ARRAY /* before PMIx 4 */
#define PMIX_PROC_INFO_ARRAY PMIX_PROC_DATA
#endif
#ifdef PMIX_REGEX
#define MAP_TYPE PMIX_REGEX
#else
#define MAP_TYPE PMIX_STRING
#endif

#define REPLY_SECONDS 30 /* deadline of what the library does by itself */
#define JOB_INFOS     14 /* facts about the job, besides those about each rank */
#define RANK_INFOS    7  /* facts about a rank */

struct ddl__run_pmix {
	size_t n;                /* processes */
	pmix_nspace_t nspace;    /* name of the job */
	int wake_fd;             /* written when something happened */
	pthread_mutex_t mutex;   /* guards what follows */
	pthread_cond_t replied;  /* the library replied to register */
	int waiting;             /* 1: a reply is awaited */
	pmix_status_t reply;     /* what it replied */
	int aborted;             /* 1: a process called PMIx_Abort, not told yet */
	int abort_status;        /* its status */
	pmix_rank_t abort_rank;  /* who */
	char abort_message[256]; /* why */
};

static pmix_status_t on_client(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t callback, void *context)
{
	(void)proc;
	(void)object;
	(void)callback;
	(void)context;
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char message[], pmix_proc_t procs[],
			      size_t n, pmix_op_cbfunc_t callback, void *context)
{
	struct ddl__run_pmix *pmix = object;
	uint64_t one = 1;

	(void)procs;
	(void)n;
	pthread_mutex_lock(&pmix->mutex);
	if (!pmix->aborted) {
		pmix->aborted = 1;
		pmix->abort_status = status;
		pmix->abort_rank = proc->rank;
		snprintf(pmix->abort_message, sizeof(pmix->abort_message), "%s", message ? message : "");
	}
	pthread_mutex_unlock(&pmix->mutex);
	if (write(pmix->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		return PMIX_ERROR;
	if (callback)
		callback(PMIX_SUCCESS, context);
	return PMIX_SUCCESS;
}

static void release_data(void *data)
{
	free(data);
}

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t n_info, char *data, size_t size,
			      pmix_modex_cbfunc_t callback, void *context)
{
	(void)procs;
	(void)n;
	(void)info;
	(void)n_info;
	if (callback)
		callback(PMIX_SUCCESS, data, size, context, release_data, data);
	return PMIX_SUCCESS;
}

/* Only asked about processes elsewhere, and there are none. */
static pmix_status_t on_direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_modex_cbfunc_t callback,
				     void *context)
{
	(void)proc;
	(void)info;
	(void)n;
	(void)callback;
	(void)context;
	return PMIX_ERR_NOT_FOUND;
}

/* The library keeps a copy, but wants it writable. */
static pmix_server_module_t module = {
	.client_connected = on_client,
	.client_finalized = on_client,
	.abort = on_abort,
	.fence_nb = on_fence,
	.direct_modex = on_direct_modex,
};

static void on_reply(pmix_status_t status, void *context)
{
	struct ddl__run_pmix *pmix = context;

	pthread_mutex_lock(&pmix->mutex);
	pmix->reply = status;
	pmix->waiting = 0;
	pthread_cond_signal(&pmix->replied);
	pthread_mutex_unlock(&pmix->mutex);
}

static void expect_reply(struct ddl__run_pmix *pmix)
{
	pthread_mutex_lock(&pmix->mutex);
	pmix->waiting = 1;
	pthread_mutex_unlock(&pmix->mutex);
}

/* What a call that was given on_reply() came to. */
static pmix_status_t await_reply(struct ddl__run_pmix *pmix, pmix_status_t status)
{
	struct timespec deadline;
	int rc = 0;

	if (status == PMIX_OPERATION_SUCCEEDED)
		return PMIX_SUCCESS;
	if (status != PMIX_SUCCESS)
		return status;
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += REPLY_SECONDS;
	pthread_mutex_lock(&pmix->mutex);
	while (pmix->waiting && rc == 0)
		rc = pthread_cond_timedwait(&pmix->replied, &pmix->mutex, &deadline);
	status = pmix->waiting ? PMIX_ERR_TIMEOUT : pmix->reply;
	pthread_mutex_unlock(&pmix->mutex);
	return status;
}

static void add_number(pmix_info_t *info, size_t *n, const char *key, uint32_t value)
{
	PMIX_INFO_LOAD(&info[*n], key, &value, PMIX_UINT32);
	(*n)++;
}

static void add_string(pmix_info_t *info, size_t *n, const char *key, const char *value)
{
	PMIX_INFO_LOAD(&info[*n], key, value, PMIX_STRING);
	(*n)++;
}

/* What is known of a rank. */
static int add_rank(pmix_info_t *info, size_t *n, size_t rank, const char *host)
{
	pmix_data_array_t *array = malloc(sizeof(*array));
	pmix_rank_t pmix_rank = (pmix_rank_t)rank;
	uint16_t local = (uint16_t)rank;
	size_t count = 0;
	pmix_info_t *list;

	if (!array)
		return -ENOMEM;
	PMIX_INFO_CREATE(list, RANK_INFOS);
	if (!list) {
		free(array);
		return -ENOMEM;
	}
	PMIX_INFO_LOAD(&list[count], PMIX_RANK, &pmix_rank, PMIX_PROC_RANK); /* must be the first */
	count++;
	PMIX_INFO_LOAD(&list[count], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	count++;
	PMIX_INFO_LOAD(&list[count], PMIX_NODE_RANK, &local, PMIX_UINT16);
	count++;
	PMIX_INFO_LOAD(&list[count], PMIX_GLOBAL_RANK, &pmix_rank, PMIX_PROC_RANK);
	count++;
	add_number(list, &count, PMIX_NODEID, 0);
	add_number(list, &count, PMIX_APPNUM, 0);
	add_string(list, &count, PMIX_HOSTNAME, host);

	PMIX_LOAD_KEY(info[*n].key, PMIX_PROC_INFO_ARRAY);
	info[*n].value.type = PMIX_DATA_ARRAY;
	info[*n].value.data.darray = array;
	array->type = PMIX_INFO;
	array->size = count;
	array->array = list;
	(*n)++;
	return 0;
}

/* The list of ranks: "0,1,2". Caller frees. */
static char *list_ranks(size_t n)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t rank = 0; rank < n; rank++)
		fprintf(out, "%s%zu", rank ? "," : "", rank);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int add_job(struct ddl__run_pmix *pmix, pmix_info_t *info, size_t *n, const char *host, const char *folder)
{
	char *ranks = list_ranks(pmix->n), *nodes = NULL, *map = NULL;
	pmix_rank_t leader = 0;
	int rc = -ENOMEM;

	if (!ranks || PMIx_generate_regex(host, &nodes) != PMIX_SUCCESS || PMIx_generate_ppn(ranks, &map) != PMIX_SUCCESS)
		goto free_lists;
	PMIX_INFO_LOAD(&info[*n], PMIX_NODE_MAP, nodes, MAP_TYPE);
	(*n)++;
	PMIX_INFO_LOAD(&info[*n], PMIX_PROC_MAP, map, MAP_TYPE);
	(*n)++;
	add_string(info, n, PMIX_JOBID, pmix->nspace);
	add_string(info, n, PMIX_NODE_LIST, host);
	add_string(info, n, PMIX_LOCAL_PEERS, ranks);
	add_string(info, n, PMIX_NSDIR, folder);
	add_number(info, n, PMIX_UNIV_SIZE, (uint32_t)pmix->n);
	add_number(info, n, PMIX_JOB_SIZE, (uint32_t)pmix->n);
	add_number(info, n, PMIX_MAX_PROCS, (uint32_t)pmix->n);
	add_number(info, n, PMIX_LOCAL_SIZE, (uint32_t)pmix->n);
	add_number(info, n, PMIX_NODE_SIZE, (uint32_t)pmix->n);
	add_number(info, n, PMIX_NUM_NODES, 1);
	PMIX_INFO_LOAD(&info[*n], PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
	(*n)++;
	add_string(info, n, PMIX_TMPDIR, folder);
	rc = 0;
free_lists:
	free(ranks);
	free(nodes);
	free(map);
	return rc;
}

/* Tells the library of the job and of each process. */
static int register_job(struct ddl__run_pmix *pmix, const char *host, const char *folder, struct ddl_error *err)
{
	size_t room = JOB_INFOS + pmix->n, count = 0;
	pmix_status_t status;
	pmix_info_t *info;
	pmix_proc_t proc;
	int rc;

	PMIX_INFO_CREATE(info, room);
	if (!info)
		return ddl__error_memory(err);
	rc = add_job(pmix, info, &count, host, folder);
	for (size_t rank = 0; rank < pmix->n && rc == 0; rank++)
		rc = add_rank(info, &count, rank, host);
	if (rc < 0) {
		PMIX_INFO_FREE(info, room);
		return ddl__error_memory(err);
	}
	expect_reply(pmix);
	status = await_reply(pmix, PMIx_server_register_nspace(pmix->nspace, (int)pmix->n, info, count, on_reply, pmix));
	if (status != PMIX_ERR_TIMEOUT) /* else the library still reads it */
		PMIX_INFO_FREE(info, room);
	for (size_t rank = 0; rank < pmix->n && status == PMIX_SUCCESS; rank++) {
		PMIX_LOAD_PROCID(&proc, pmix->nspace, (pmix_rank_t)rank);
		expect_reply(pmix);
		status = await_reply(pmix, PMIx_server_register_client(&proc, geteuid(), getegid(), pmix, on_reply, pmix));
	}
	if (status != PMIX_SUCCESS)
		return ddl__error_set(err, -EIO, "the PMIx server does not take the job: %s", PMIx_Error_string(status));
	return 0;
}

static pmix_status_t start_server(const char *folder)
{
	pmix_info_t info[3];
	pmix_status_t status;
	bool no = false;

	for (size_t i = 0; i < sizeof(info) / sizeof(info[0]); i++)
		PMIX_INFO_CONSTRUCT(&info[i]);
	PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, folder, PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, folder, PMIX_STRING);
	PMIX_INFO_LOAD(&info[2], PMIX_SERVER_TOOL_SUPPORT, &no, PMIX_BOOL);
	status = PMIx_server_init(&module, info, sizeof(info) / sizeof(info[0]));
	for (size_t i = 0; i < sizeof(info) / sizeof(info[0]); i++)
		PMIX_INFO_DESTRUCT(&info[i]);
	return status;
}

int ddl__run_pmix_open(size_t n, const char *host, const char *folder, int wake_fd, struct ddl__run_pmix **pmix,
		       struct ddl_error *err)
{
	struct ddl__run_pmix *server = calloc(1, sizeof(*server));
	pmix_status_t status;
	int rc;

	if (!server)
		return ddl__error_memory(err);
	pthread_mutex_init(&server->mutex, NULL);
	pthread_cond_init(&server->replied, NULL);
	server->n = n;
	server->wake_fd = wake_fd;
	snprintf(server->nspace, sizeof(server->nspace), "ddl-run.%ld", (long)getpid());
	status = start_server(folder);
	if (status != PMIX_SUCCESS) {
		rc = ddl__error_set(err, -EIO,
				    "the PMIx server does not start: %s (it listens on the loopback interface: is lo up?)",
				    PMIx_Error_string(status));
		goto free_server;
	}
	rc = register_job(server, host, folder, err);
	if (rc < 0)
		goto finalize;
	*pmix = server;
	return 0;

finalize:
	PMIx_server_finalize();
free_server:
	pthread_cond_destroy(&server->replied);
	pthread_mutex_destroy(&server->mutex);
	free(server);
	return rc;
}

/* A copy of our environment without what an outer launcher's PMIx said. */
static char **copy_environ(void)
{
	size_t n = 0, kept = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++) {
		if (!strncmp(environ[i], "PMIX_", 5))
			continue;
		env[kept] = strdup(environ[i]);
		if (!env[kept++]) {
			ddl__run_env_destroy(env);
			return NULL;
		}
	}
	return env;
}

int ddl__run_pmix_env(struct ddl__run_pmix *pmix, size_t rank, char ***env, struct ddl_error *err)
{
	char **copy = copy_environ();
	pmix_status_t status;
	pmix_proc_t proc;

	if (!copy)
		return ddl__error_memory(err);
	PMIX_LOAD_PROCID(&proc, pmix->nspace, (pmix_rank_t)rank);
	status = PMIx_server_setup_fork(&proc, &copy);
	if (status != PMIX_SUCCESS) {
		ddl__run_env_destroy(copy);
		return ddl__error_set(err, -EIO, "PMIx cannot prepare rank %zu: %s", rank, PMIx_Error_string(status));
	}
	*env = copy;
	return 0;
}

int ddl__run_pmix_aborted(struct ddl__run_pmix *pmix, size_t *rank, int *status, char *message, size_t size)
{
	int aborted;

	pthread_mutex_lock(&pmix->mutex);
	aborted = pmix->aborted;
	if (aborted) {
		*rank = pmix->abort_rank;
		*status = pmix->abort_status;
		snprintf(message, size, "%s", pmix->abort_message);
		pmix->aborted = 0;
	}
	pthread_mutex_unlock(&pmix->mutex);
	return aborted;
}

void ddl__run_pmix_close(struct ddl__run_pmix *pmix)
{
	if (!pmix)
		return;
	PMIx_server_finalize();
	pthread_cond_destroy(&pmix->replied);
	pthread_mutex_destroy(&pmix->mutex);
	free(pmix);
}

#else

int ddl__run_pmix_open(size_t n, const char *host, const char *folder, int wake_fd, struct ddl__run_pmix **pmix,
		       struct ddl_error *err)
{
	(void)n;
	(void)host;
	(void)folder;
	(void)wake_fd;
	(void)pmix;
	return ddl__error_set(err, -EOPNOTSUPP, "this DDL was built without PMIx; build it with libpmix's development package");
}

int ddl__run_pmix_env(struct ddl__run_pmix *pmix, size_t rank, char ***env, struct ddl_error *err)
{
	(void)pmix;
	(void)rank;
	(void)env;
	return ddl__error_set(err, -EOPNOTSUPP, "this DDL was built without PMIx");
}

int ddl__run_pmix_aborted(struct ddl__run_pmix *pmix, size_t *rank, int *status, char *message, size_t size)
{
	(void)pmix;
	(void)rank;
	(void)status;
	(void)message;
	(void)size;
	return 0;
}

void ddl__run_pmix_close(struct ddl__run_pmix *pmix)
{
	(void)pmix;
}

#endif
