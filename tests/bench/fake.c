/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.c - a library for the tests of the benchmarks' harness: sums through a file, rightly or, as FAKE in the environment says,
 * with one of the faults that the harness must find.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define ROOM ((size_t)1 << 20) /* bytes of a rank */

static const struct bench_settings *settings;
static unsigned char *shared; /* ROOM bytes a rank */

static int is(const char *fault)
{
	const char *wanted = getenv("FAKE");

	return wanted && !strcmp(wanted, fault);
}

static int open_fake(const struct bench_settings *s)
{
	char path[4096];
	int fd;

	settings = s;
	if (is("refuse")) {
		fprintf(stderr, "fake: refuses\n");
		return -1;
	}
	snprintf(path, sizeof(path), "%s/fake", s->folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)(ROOM * BENCH_RANKS_MAX)) < 0)
		return -1;
	shared = mmap(NULL, ROOM * BENCH_RANKS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared == MAP_FAILED ? -1 : 0;
}

static void add(const struct bench_call *call, const unsigned char *from)
{
	if (call->type == BENCH_BFLOAT16) {
		bench_add_bfloat16(call->recv, (const unsigned short *)from, call->count);
		return;
	}
	for (size_t i = 0; i < call->count; i++)
		((float *)call->recv)[i] += ((const float *)from)[i];
}

static int run(const struct bench_call *call)
{
	const size_t size = call->type == BENCH_FLOAT32 ? 4 : 2, bytes = call->count * size;
	unsigned char *recv = call->recv;

	if (is("die") && settings->rank == settings->size - 1)
		exit(3);
	if (is("hang") && settings->rank == settings->size - 1)
		pause();
	memcpy(shared + ROOM * (size_t)settings->rank, call->send, bytes);
	bench_barrier();
	if (is("nothing"))
		return 0;
	memset(recv, 0, bytes);
	for (int rank = is("forget") ? 1 : 0; rank < settings->size; rank++)
		add(call, shared + ROOM * (size_t)rank);
	if (is("one") && settings->rank == settings->size - 1) /* one element of one rank */
		recv[(call->count - 1) * size + size - 1] ^= 0x80, recv[(call->count - 1) * size + size - 2] ^= 1;
	if (is("move") && bytes >= 128) { /* a block in another's place */
		memmove(recv, recv + 64, bytes - 64);
		memcpy(recv + bytes - 64, recv, 64);
	}
	bench_barrier();
	return 0;
}

static void close_fake(void)
{
	munmap(shared, ROOM * BENCH_RANKS_MAX);
}

const struct bench_peer bench_peer = {
	.name = "fake",
	.open = open_fake,
	.run = run,
	.close = close_fake,
};

/* Several at once: each is done when it is waited for. */
static int add_call(const struct bench_call *call, int priority, void **handle)
{
	struct bench_call *copy = malloc(sizeof(*copy));

	(void)priority;
	if (!copy)
		return -1;
	*copy = *call;
	*handle = copy;
	return 0;
}

static int start(void *handle)
{
	(void)handle;
	return 0;
}

static int test(void *handle)
{
	(void)handle;
	return 0;
}

static int wait_for(void *handle)
{
	return run(handle);
}

const struct bench_async bench_async = {
	.add = add_call,
	.start = start,
	.test = test,
	.wait = wait_for,
	.drop = free,
};
