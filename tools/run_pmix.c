/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_pmix.c - the PMIx server of `ddl run`: one node, all processes local. It lives in a process of its own.
 *
 * The library collects what the processes put; since nobody is elsewhere, a fence hands its data straight back. What is rare
 * (publish, spawn, groups) is not offered, as under Slurm.
 *
 * Why a process of its own: libpmix 4.2 crashes or hangs now and then while clients die in the middle of an operation, and there is
 * no clean end then. So nobody asks it for one: the server is killed when all is over, and whoever watches the processes has no
 * threads. Through a pipe the server says what each rank's environment needs, and later who called PMIx_Abort.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "run.h"

#define START_MS  60000 /* deadline for the server's start */
#define TEXT_SIZE DDL_ERROR_TEXT_SIZE
#define ENV_MAX   65536 /* bytes of what a rank's environment needs */

struct ddl__run_pmix {
	size_t n;      /* ranks */
	char **extras; /* per rank: NUL-ended entries for its environment, ended by an empty one */
	pid_t pid;     /* the server's process, and its process group */
	int fd;        /* from the server */
};

struct ready {                /* the server's first word */
	int32_t code;         /* 0, or what ddl__run_pmix_open() returns */
	char text[TEXT_SIZE]; /* its sentence */
};

struct aborted {           /* later words: a process called PMIx_Abort. Smaller than PIPE_BUF: written at once */
	uint32_t rank;     /* who */
	int32_t status;    /* its status */
	char message[256]; /* why; "" unknown */
};

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

struct server {                 /* what the server's process knows */
	size_t n;               /* processes */
	pmix_nspace_t nspace;   /* name of the job */
	int fd;                 /* to ddl run */
	pthread_mutex_t mutex;  /* guards what follows */
	pthread_cond_t replied; /* the library replied to register */
	int waiting;            /* 1: a reply is awaited */
	pmix_status_t reply;    /* what it replied */
};

static int write_whole(int fd, const void *data, size_t size)
{
	const char *from = data;

	while (size > 0) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno != EINTR)
			return -errno;
		from += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

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
	struct server *server = object;
	struct aborted word = { proc->rank, status, "" };

	(void)procs;
	(void)n;
	snprintf(word.message, sizeof(word.message), "%s", message ? message : "");
	if (write_whole(server->fd, &word, sizeof(word)) < 0)
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
	struct server *server = context;

	pthread_mutex_lock(&server->mutex);
	server->reply = status;
	server->waiting = 0;
	pthread_cond_signal(&server->replied);
	pthread_mutex_unlock(&server->mutex);
}

static void expect_reply(struct server *server)
{
	pthread_mutex_lock(&server->mutex);
	server->waiting = 1;
	pthread_mutex_unlock(&server->mutex);
}

/* What a call that was given on_reply() came to. */
static pmix_status_t await_reply(struct server *server, pmix_status_t status)
{
	struct timespec deadline;
	int rc = 0;

	if (status == PMIX_OPERATION_SUCCEEDED)
		return PMIX_SUCCESS;
	if (status != PMIX_SUCCESS)
		return status;
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += REPLY_SECONDS;
	pthread_mutex_lock(&server->mutex);
	while (server->waiting && rc == 0)
		rc = pthread_cond_timedwait(&server->replied, &server->mutex, &deadline);
	status = server->waiting ? PMIX_ERR_TIMEOUT : server->reply;
	pthread_mutex_unlock(&server->mutex);
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

static int add_job(struct server *server, pmix_info_t *info, size_t *n, const char *host, const char *folder)
{
	char *ranks = list_ranks(server->n), *nodes = NULL, *map = NULL;
	pmix_rank_t leader = 0;
	int rc = -ENOMEM;

	if (!ranks || PMIx_generate_regex(host, &nodes) != PMIX_SUCCESS || PMIx_generate_ppn(ranks, &map) != PMIX_SUCCESS)
		goto free_lists;
	PMIX_INFO_LOAD(&info[*n], PMIX_NODE_MAP, nodes, MAP_TYPE);
	(*n)++;
	PMIX_INFO_LOAD(&info[*n], PMIX_PROC_MAP, map, MAP_TYPE);
	(*n)++;
	add_string(info, n, PMIX_JOBID, server->nspace);
	add_string(info, n, PMIX_NODE_LIST, host);
	add_string(info, n, PMIX_LOCAL_PEERS, ranks);
	add_string(info, n, PMIX_NSDIR, folder);
	add_number(info, n, PMIX_UNIV_SIZE, (uint32_t)server->n);
	add_number(info, n, PMIX_JOB_SIZE, (uint32_t)server->n);
	add_number(info, n, PMIX_MAX_PROCS, (uint32_t)server->n);
	add_number(info, n, PMIX_LOCAL_SIZE, (uint32_t)server->n);
	add_number(info, n, PMIX_NODE_SIZE, (uint32_t)server->n);
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
static int register_job(struct server *server, const char *host, const char *folder, struct ddl_error *err)
{
	size_t room = JOB_INFOS + server->n, count = 0;
	pmix_status_t status;
	pmix_info_t *info;
	pmix_proc_t proc;
	int rc;

	PMIX_INFO_CREATE(info, room);
	if (!info)
		return ddl__error_memory(err);
	rc = add_job(server, info, &count, host, folder);
	for (size_t rank = 0; rank < server->n && rc == 0; rank++)
		rc = add_rank(info, &count, rank, host);
	if (rc < 0) {
		PMIX_INFO_FREE(info, room);
		return ddl__error_memory(err);
	}
	expect_reply(server);
	status = await_reply(server, PMIx_server_register_nspace(server->nspace, (int)server->n, info, count, on_reply, server));
	if (status != PMIX_ERR_TIMEOUT) /* else the library still reads it */
		PMIX_INFO_FREE(info, room);
	for (size_t rank = 0; rank < server->n && status == PMIX_SUCCESS; rank++) {
		PMIX_LOAD_PROCID(&proc, server->nspace, (pmix_rank_t)rank);
		expect_reply(server);
		status = await_reply(server, PMIx_server_register_client(&proc, geteuid(), getegid(), server, on_reply, server));
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

/* Tells ddl run what a rank's environment needs: its size, then the entries. */
static int send_env(struct server *server, size_t rank, struct ddl_error *err)
{
	char **entries = calloc(1, sizeof(*entries)), *text = NULL;
	pmix_status_t status;
	pmix_proc_t proc;
	uint32_t length;
	size_t size;
	FILE *out;
	int rc = 0;

	if (!entries)
		return ddl__error_memory(err);
	PMIX_LOAD_PROCID(&proc, server->nspace, (pmix_rank_t)rank);
	status = PMIx_server_setup_fork(&proc, &entries);
	if (status != PMIX_SUCCESS)
		rc = ddl__error_set(err, -EIO, "PMIx cannot prepare rank %zu: %s", rank, PMIx_Error_string(status));
	out = rc == 0 ? open_memstream(&text, &size) : NULL;
	for (size_t i = 0; out && entries[i]; i++)
		fwrite(entries[i], strlen(entries[i]) + 1, 1, out);
	ddl__run_env_destroy(entries);
	if (rc < 0)
		return rc;
	if (!out || fputc('\0', out) == EOF || fclose(out) != 0 || size > ENV_MAX) {
		free(text);
		return ddl__error_memory(err);
	}
	length = (uint32_t)size;
	rc = write_whole(server->fd, &length, sizeof(length));
	if (rc == 0)
		rc = write_whole(server->fd, text, size);
	free(text);
	return rc;
}

/* The life of the server's process. */
static void server_main(size_t n, const char *host, const char *folder, int fd)
{
	struct server server = { .n = n, .fd = fd, .mutex = PTHREAD_MUTEX_INITIALIZER, .replied = PTHREAD_COND_INITIALIZER };
	struct ready ready = { .code = 0 };
	struct ddl_error err = { 0 };
	pmix_status_t status;
	int null;

	snprintf(server.nspace, sizeof(server.nspace), "ddl-run.%ld", (long)getppid());
	status = start_server(folder);
	if (status != PMIX_SUCCESS)
		ddl__error_set(&err, -EIO, "the PMIx server does not start: %s (it listens on the loopback interface: is lo up?)",
			       PMIx_Error_string(status));
	else
		register_job(&server, host, folder, &err);
	ready.code = err.code;
	memcpy(ready.text, err.text, sizeof(ready.text));
	if (write_whole(fd, &ready, sizeof(ready)) < 0 || ready.code < 0)
		_exit(1);
	for (size_t rank = 0; rank < n; rank++)
		if (send_env(&server, rank, &err) < 0)
			_exit(1);
	null = open("/dev/null", O_WRONLY); /* what the library says of dying clients is no news */
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	for (;;)
		pause();
}

/* Starts the server's process; its words come from *fd. */
static int start_process(size_t n, const char *host, const char *folder, pid_t *pid, int *fd, struct ddl_error *err)
{
	pid_t parent = getpid(), child;
	int ends[2], null;
	sigset_t all;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return ddl__error_set(err, -errno, "no pipe can be made: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		close(ends[0]);
		null = open("/dev/null", O_RDWR);
		if (null >= 0) {
			dup2(null, STDIN_FILENO);
			dup2(null, STDOUT_FILENO);
		}
		server_main(n, host, folder, ends[1]);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return ddl__error_set(err, -EAGAIN, "no process can be started: %s", strerror(errno));
	}
	setpgid(child, child);
	*pid = child;
	*fd = ends[0];
	return 0;
}

/* Reads from the server until size bytes are there. -ETIMEDOUT; -ECONNRESET: it is gone. */
static int read_whole(int fd, void *data, size_t size, int64_t deadline_ms)
{
	char *to = data;

	while (size > 0) {
		struct pollfd polled = { .fd = fd, .events = POLLIN };
		int64_t left = deadline_ms - ddl__now_ms();
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&polled, 1, (int)left) <= 0)
			continue;
		n = read(fd, to, size);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno != EINTR)
			return -errno;
		to += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Takes the server's first words: whether it is ready, and what the ranks need. */
static int take_ready(struct ddl__run_pmix *pmix, struct ddl_error *err)
{
	int64_t deadline = ddl__now_ms() + START_MS;
	struct ready ready;
	int rc = read_whole(pmix->fd, &ready, sizeof(ready), deadline);

	if (rc == 0 && ready.code < 0)
		return ddl__error_set(err, ready.code, "%.*s", (int)sizeof(ready.text), ready.text);
	for (size_t rank = 0; rank < pmix->n && rc == 0; rank++) {
		uint32_t size = 0;

		rc = read_whole(pmix->fd, &size, sizeof(size), deadline);
		if (rc == 0 && (size == 0 || size > ENV_MAX))
			rc = -EBADMSG;
		if (rc < 0)
			break;
		pmix->extras[rank] = malloc(size);
		rc = pmix->extras[rank] ? read_whole(pmix->fd, pmix->extras[rank], size, deadline) : -ENOMEM;
	}
	if (rc < 0)
		return ddl__error_set(err, rc, "the PMIx server did not start: %s",
				      rc == -ECONNRESET ? "its process ended" : strerror(-rc));
	return 0;
}

int ddl__run_pmix_open(size_t n, const char *host, const char *folder, struct ddl__run_pmix **pmix, struct ddl_error *err)
{
	struct ddl__run_pmix *result = calloc(1, sizeof(*result));
	int rc;

	if (!result)
		return ddl__error_memory(err);
	result->n = n;
	result->fd = -1;
	result->extras = calloc(n, sizeof(*result->extras));
	rc = result->extras ? start_process(n, host, folder, &result->pid, &result->fd, err) : ddl__error_memory(err);
	if (rc == 0)
		rc = take_ready(result, err);
	if (rc < 0)
		ddl__run_pmix_close(result);
	else
		*pmix = result;
	return rc;
}

#else

int ddl__run_pmix_open(size_t n, const char *host, const char *folder, struct ddl__run_pmix **pmix, struct ddl_error *err)
{
	(void)n;
	(void)host;
	(void)folder;
	(void)pmix;
	return ddl__error_set(err, -EOPNOTSUPP, "this DDL was built without PMIx; build it with libpmix's development package");
}

#endif

/* A copy of our environment, without what an outer launcher's PMIx said, with room for more entries. */
static char **copy_environ(size_t more)
{
	size_t n = 0, kept = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + more + 1, sizeof(*env));
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

/* Sets an entry NAME=VALUE, for which there is room. */
static int put_entry(char **env, const char *entry)
{
	size_t name = strcspn(entry, "=") + 1, i = 0;
	char *copy = strdup(entry);

	if (!copy)
		return -ENOMEM;
	while (env[i] && strncmp(env[i], entry, name))
		i++;
	free(env[i]);
	env[i] = copy;
	return 0;
}

int ddl__run_pmix_env(const struct ddl__run_pmix *pmix, size_t rank, char ***env, struct ddl_error *err)
{
	size_t more = 0;
	char **copy;

	for (const char *entry = pmix->extras[rank]; *entry; entry += strlen(entry) + 1)
		more++;
	copy = copy_environ(more);
	if (!copy)
		return ddl__error_memory(err);
	for (const char *entry = pmix->extras[rank]; *entry; entry += strlen(entry) + 1) {
		if (put_entry(copy, entry) == 0)
			continue;
		ddl__run_env_destroy(copy);
		return ddl__error_memory(err);
	}
	*env = copy;
	return 0;
}

int ddl__run_pmix_fd(const struct ddl__run_pmix *pmix)
{
	return pmix->fd;
}

pid_t ddl__run_pmix_pid(const struct ddl__run_pmix *pmix)
{
	return pmix->pid;
}

int ddl__run_pmix_read(struct ddl__run_pmix *pmix, size_t *rank, int *status, char *message, size_t size)
{
	struct aborted word;
	ssize_t n = read(pmix->fd, &word, sizeof(word));

	if (n < 0 && errno == EINTR)
		return 0;
	if (n != sizeof(word))
		return -ECONNRESET;
	*rank = word.rank;
	*status = word.status;
	snprintf(message, size, "%.*s", (int)sizeof(word.message) - 1, word.message);
	return 1;
}

void ddl__run_pmix_close(struct ddl__run_pmix *pmix)
{
	if (!pmix)
		return;
	if (pmix->pid > 0) {
		kill(-pmix->pid, SIGKILL);
		kill(pmix->pid, SIGKILL);
		while (waitpid(pmix->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (pmix->fd >= 0)
		close(pmix->fd);
	for (size_t rank = 0; pmix->extras && rank < pmix->n; rank++)
		free(pmix->extras[rank]);
	free(pmix->extras);
	free(pmix);
}
