/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddl.c - ours: a persistent all-reduce, started and waited for. With --buffers ddl_mem its buffers come from ddl_mem_alloc().
 * Where no launcher speaks PMIx to the ranks they find each other through files in the folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ddl/ddl.h>

#include "harness.h"

static struct {
	const struct bench_settings *settings;
	struct ddl_comm *comm;
	struct ddl_request *request;
} state;

/* The file of a key, in which there are slashes. */
static void key_path(const char *key, char path[4096])
{
	const size_t folder = (size_t)snprintf(path, 4096, "%s/", state.settings->folder);

	snprintf(path + folder, 4096 - folder, "%s", key);
	for (char *c = path + folder; *c; c++)
		if (*c == '/')
			*c = '-';
}

/* A value is written under another name first, so that readers see all of it or nothing. */
static int store_set(void *context, const char *key, const void *data, size_t size)
{
	char path[4096], temporary[4096];
	FILE *file;
	int good;

	(void)context;
	key_path(key, path);
	snprintf(temporary, sizeof(temporary), "%s/.%d", state.settings->folder, state.settings->rank);
	file = fopen(temporary, "w");
	if (!file)
		return -errno;
	good = fwrite(data, 1, size, file) == size;
	if (fclose(file) != 0 || !good || rename(temporary, path) < 0)
		return -EIO;
	return 0;
}

static int store_get(void *context, const char *key, void *data, size_t capacity, size_t *size, int timeout_ms)
{
	char path[4096];
	struct stat status;
	int fd, rc;

	(void)context;
	key_path(key, path);
	while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
		if (errno != ENOENT)
			return -errno;
		if (timeout_ms-- <= 0)
			return -ETIMEDOUT;
		usleep(1000);
	}
	rc = fstat(fd, &status) < 0 ? -errno : 0;
	if (rc == 0) {
		*size = (size_t)status.st_size;
		rc = *size > capacity ? -EMSGSIZE : read(fd, data, *size) == status.st_size ? 0 : -EIO;
	}
	close(fd);
	return rc;
}

static int open_ddl(const struct bench_settings *settings)
{
	const struct ddl_store store = { .rank = settings->rank, .size = settings->size, .set = store_set, .get = store_get };
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct ddl_error err;

	state.settings = settings;
	if (!getenv("PMIX_NAMESPACE"))
		options.store = &store;
	if (ddl_comm_create(&options, &state.comm, &err) < 0) {
		fprintf(stderr, "ddl: %s\n", err.text);
		return -1;
	}
	if (ddl_comm_rank(state.comm) != settings->rank || ddl_comm_size(state.comm) != settings->size) {
		fprintf(stderr, "ddl: rank %d of %d, the launcher says %d of %d\n", ddl_comm_rank(state.comm),
			ddl_comm_size(state.comm), settings->rank, settings->size);
		return -1;
	}
	return 0;
}

static int alloc(size_t bytes, void **memory)
{
	if (!strcmp(state.settings->buffers, "malloc")) {
		*memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
		if (*memory)
			return 0;
		fprintf(stderr, "ddl: no memory for %zu bytes\n", bytes);
		return -1;
	}
#ifdef HAVE_DDL_MEM_ALLOC
	struct ddl_error err;

	if (ddl_mem_alloc(state.comm, bytes, memory, &err) == 0)
		return 0;
	fprintf(stderr, "ddl: %s\n", err.text);
#else
	fprintf(stderr, "ddl: this libddl has no ddl_mem_alloc()\n");
#endif
	return -1;
}

static void release(void *memory)
{
#ifdef HAVE_DDL_MEM_ALLOC
	if (!strcmp(state.settings->buffers, "ddl_mem")) {
		ddl_mem_free(state.comm, memory);
		return;
	}
#endif
	free(memory);
}

static int make(const struct bench_call *call, int priority, struct ddl_request **request)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err;

	options.priority = priority;
	options.wire = DDL_WIRE_NATIVE;
	if (!strcmp(state.settings->wire, "bfloat16"))
		options.wire = DDL_WIRE_BFLOAT16;
	else if (!strcmp(state.settings->wire, "float16"))
		options.wire = DDL_WIRE_FLOAT16;
	else if (!strcmp(state.settings->wire, "int8"))
		options.wire = DDL_WIRE_INT8;
	if (ddl_allreduce_init(call->send, call->recv, call->count, call->type == BENCH_FLOAT32 ? DDL_FLOAT32 : DDL_BFLOAT16,
			       DDL_SUM, state.comm, &options, request, &err) == 0)
		return 0;
	fprintf(stderr, "ddl: %s\n", err.text);
	return -1;
}

static int prepare(const struct bench_call *call)
{
	return make(call, 0, &state.request);
}

/* What a call returned, a failure told. */
static int told(int rc)
{
	struct ddl_error err;

	if (rc >= 0)
		return rc;
	if (ddl_comm_get_error(state.comm, &err) == 0)
		snprintf(err.text, sizeof(err.text), "%s", strerror(-rc));
	fprintf(stderr, "ddl: %s\n", err.text);
	return -1;
}

static int run(const struct bench_call *call)
{
	int rc = ddl_start(state.request);

	(void)call;
	return told(rc == 0 ? ddl_wait(state.request) : rc);
}

static void finish(const struct bench_call *call)
{
	(void)call;
	ddl_request_free(state.request);
	state.request = NULL;
}

static void close_ddl(void)
{
	ddl_comm_destroy(state.comm);
}

const struct bench_peer bench_peer = {
	.name = "ddl",
	.open = open_ddl,
	.alloc = alloc,
	.release = release,
	.prepare = prepare,
	.run = run,
	.finish = finish,
	.close = close_ddl,
};

/* Ways: "" gives the priorities that the caller asks for, "fcfs" none. */
static int add(const struct bench_call *call, int priority, void **handle)
{
	struct ddl_request *request;

	if (make(call, strcmp(state.settings->way, "fcfs") ? priority : 0, &request) < 0)
		return -1;
	*handle = request;
	return 0;
}

static int start(void *handle)
{
	return told(ddl_start(handle));
}

static int test(void *handle)
{
	return told(ddl_test(handle));
}

static int wait_for(void *handle)
{
	return told(ddl_wait(handle));
}

static void drop(void *handle)
{
	ddl_request_free(handle);
}

const struct bench_async bench_async = {
	.add = add,
	.start = start,
	.test = test,
	.wait = wait_for,
	.drop = drop,
};
