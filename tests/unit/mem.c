/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c - memory from ddl_mem_alloc(): all-reduces over shared memory, a thread a rank, whose buffers lie in such memory on some
 * ranks and elsewhere on others, give the same bits as over buffers that nobody shares; and what becomes of the memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"
#include "rank_threads.h"

enum { COUNT_MAX = 300000, MARGIN = 64, ROUNDS = 14 };

static void run_ranks(int n, const char *transports, uint64_t seed, void *(*body)(struct rank *rank), uint64_t *shared)
{
	run_world(n, transports, 0, seed, body, NULL, shared);
}

/* ---- the property ---- */

enum kind { PLAIN = 0, FIRST = 1, SECOND = 2, KINDS = 3 }; /* where a buffer lies: malloc, or one of two pieces of memory */

struct call { /* the same on every rank */
	const char *algorithm;
	enum ddl_type type;
	enum ddl_op op;
	size_t count;
	int rings, starts, blocking, everywhere; /* everywhere: no rank has plain buffers */
};

struct buffer {
	enum kind kind;
	uint8_t *base; /* what is freed, if plain */
	uint8_t *at;
	size_t bytes;
};

static struct call draw_call(uint64_t *seed)
{
	static const char *const algorithms[] = { "ring", "direct", "multiring", "halving", NULL };
	static const enum ddl_type types[] = { DDL_FLOAT32, DDL_FLOAT32, DDL_BFLOAT16, DDL_FLOAT64, DDL_INT8 };
	static const size_t counts[] = { 0, 1, 1000, 5000, 40000, 65536, COUNT_MAX - 1 };
	uint64_t x = next_random(seed);
	struct call call = { .algorithm = algorithms[x % 5],
			     .type = types[(x >> 8) % 5],
			     .op = (x >> 16) % 3 ? DDL_SUM : DDL_AVG,
			     .rings = 1 + (int)((x >> 24) % 3),
			     .starts = 1 + (int)((x >> 32) % 4),
			     .blocking = (x >> 40) % 3 == 0,
			     .everywhere = (x >> 44) % 2 == 0 };

	call.count = counts[(x >> 48) % 7];
	if ((x >> 56) % 2)
		call.count = next_random(seed) % COUNT_MAX;
	return call;
}

/* A random place with a margin on both sides, in which nobody must write. */
static struct buffer draw_buffer(enum kind kind, void *const memory[KINDS], size_t room, size_t bytes, size_t unit, uint64_t *seed)
{
	struct buffer b = { .kind = kind, .bytes = bytes };
	size_t slack = room - bytes - 2 * MARGIN;

	b.base = kind == PLAIN ? malloc(bytes + 2 * MARGIN) : (uint8_t *)memory[kind] + next_random(seed) % slack / unit * unit;
	b.at = b.base + MARGIN;
	memset(b.base, 0xa5, MARGIN);
	memset(b.at + bytes, 0xa5, MARGIN);
	return b;
}

static int is_framed(const struct buffer *b)
{
	for (size_t i = 0; i < MARGIN; i++)
		if (b->base[i] != 0xa5 || b->at[b->bytes + i] != 0xa5)
			return 0;
	return 1;
}

static void fill(void *at, const struct call *call, uint64_t seed)
{
	uint8_t *bytes = at;

	if (call->type == DDL_FLOAT64) {
		for (size_t i = 0; i < call->count; i++)
			((double *)at)[i] = (double)(int64_t)next_random(&seed) * 0x1p-60;
	} else if (call->type == DDL_FLOAT32) {
		for (size_t i = 0; i < call->count; i++)
			((float *)at)[i] = (float)((double)(int64_t)next_random(&seed) * 0x1p-60);
	} else {
		for (size_t i = 0; i < call->count * ddl_type_size(call->type); i++)
			bytes[i] = (uint8_t)(next_random(&seed) & 0x3f); /* bfloat16: small, positive, finite */
	}
}

static int reduce(struct rank *rank, const struct call *call, struct ddl_request *request, const void *send, void *recv)
{
	int rc = 0;

	if (!request)
		return ddl_allreduce(send, recv, call->count, call->type, call->op, rank->comm);
	rc = ddl_start(request);
	return rc ? rc : ddl_wait(request);
}

static int create(struct rank *rank, const struct call *call, const void *send, void *recv, struct ddl_request **request)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err = { 0 };
	int rc;

	options.algorithm = call->algorithm;
	options.rings = call->rings;
	rc = ddl_allreduce_init(send, recv, call->count, call->type, call->op, rank->comm, &options, request, &err);
	if (rc < 0)
		complain(rank, err.text, rc);
	return rc;
}

/* The starts of a call over plain memory: what all others must give. results: one after the other. */
static void refer(struct rank *rank, const struct call *call, uint64_t salt, uint8_t *results)
{
	size_t bytes = call->count * ddl_type_size(call->type);
	uint8_t *send = malloc(bytes + 1), *recv = malloc(bytes + 1);
	struct ddl_request *request = NULL;

	if (!call->blocking && create(rank, call, send, recv, &request) < 0)
		goto out;
	for (int s = 0; s < call->starts; s++) {
		fill(send, call, salt + (uint64_t)(s * RANKS_MAX + rank->rank));
		int rc = reduce(rank, call, request, send, recv);
		if (rc)
			complain(rank, "the reference failed", rc);
		memcpy(results + (size_t)s * bytes, recv, bytes);
	}
	ddl_request_free(request);
out:
	free(send);
	free(recv);
}

struct place { /* where the buffers of a start lie; this rank's own affair */
	struct buffer send, recv;
	int in_place;
};

static struct place draw_place(const struct call *call, void *const memory[KINDS], size_t room, uint64_t *mine)
{
	size_t unit = ddl_type_size(call->type), bytes = call->count * unit;
	uint64_t x = next_random(mine);
	struct place p = { .in_place = x % 2 };
	enum kind kind = call->everywhere ? FIRST : (enum kind)((x >> 8) % KINDS);

	p.recv = draw_buffer(kind, memory, room, bytes, unit, mine);
	/* input and output never in the same piece of memory, so that they cannot overlap */
	kind = call->everywhere ? SECOND : (enum kind)((x >> 16) % KINDS);
	if (kind == p.recv.kind && kind != PLAIN)
		kind = PLAIN;
	if (!p.in_place)
		p.send = draw_buffer(kind, memory, room, bytes, unit, mine);
	return p;
}

static void place_free(const struct place *p)
{
	if (p->recv.kind == PLAIN)
		free(p->recv.base);
	if (!p->in_place && p->send.kind == PLAIN)
		free(p->send.base);
}

static void run_call(struct rank *rank, const struct call *call, void *const memory[KINDS], size_t room, uint64_t salt,
		     uint64_t *mine, uint8_t *results)
{
	size_t bytes = call->count * ddl_type_size(call->type);
	struct place p = draw_place(call, memory, room, mine);
	struct ddl_request *request = NULL;

	if (!call->blocking && create(rank, call, p.in_place ? p.recv.at : p.send.at, p.recv.at, &request) < 0)
		goto out;
	for (int s = 0; s < call->starts; s++) {
		if (call->blocking && s > 0) { /* other buffers in each call, behind one request */
			place_free(&p);
			p = draw_place(call, memory, room, mine);
		}
		uint8_t *send = p.in_place ? p.recv.at : p.send.at;
		fill(send, call, salt + (uint64_t)(s * RANKS_MAX + rank->rank));
		int rc = reduce(rank, call, request, send, p.recv.at);
		if (rc)
			complain(rank, "an all-reduce failed", rc);
		else if (memcmp(p.recv.at, results + (size_t)s * bytes, bytes) != 0)
			complain(rank, "the bits depend on where the buffers lie", s);
		if (!is_framed(&p.recv) || (!p.in_place && !is_framed(&p.send)))
			complain(rank, "something was written beside the buffers", s);
		memset(send, 0x5a, bytes); /* who still reads the input reads this */
	}
	if (request)
		rank->found += request->lent + request->placed;
	ddl_request_free(request);
out:
	place_free(&p);
}

static void *mixed_buffers(struct rank *rank)
{
	const size_t room = COUNT_MAX * sizeof(double) + 100000;
	uint64_t seed = rank->world->seed, mine = seed * RANKS_MAX + (uint64_t)rank->rank;
	void *memory[KINDS] = { NULL };
	uint8_t *results = malloc(4 * COUNT_MAX * sizeof(double));
	struct ddl_error err = { 0 };

	for (int round = 0; round < ROUNDS && !rank->wrong[0]; round++) {
		struct call call = draw_call(&seed);
		uint64_t salt = next_random(&seed);

		for (int k = FIRST; k < KINDS; k++) { /* anew now and then, on some ranks */
			if (memory[k] && next_random(&mine) % 4 == 0) {
				int rc = ddl_mem_free(rank->comm, memory[k]);
				if (rc)
					complain(rank, "ddl_mem_free", rc);
				memory[k] = NULL;
			}
			if (!memory[k] && ddl_mem_alloc(rank->comm, room, &memory[k], &err) < 0)
				complain(rank, err.text, 0);
		}
		if (rank->wrong[0])
			break;
		refer(rank, &call, salt, results);
		run_call(rank, &call, memory, room, salt, &mine, results);
	}
	if (rank->wrong[0])
		ddl_comm_abort(rank->comm, "the test failed");
	free(results);
	return NULL; /* memory that was not freed ends with the communicator */
}

static void where_buffers_lie_changes_no_bit(void **state)
{
	uint64_t shared, all = 0;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		run_ranks(2 + (int)(seed % 3), "shm", seed, mixed_buffers, &shared);
		all += shared;
	}
	assert_true(all > 0);
	run_ranks(2, "tcp", 100, mixed_buffers, &shared);
	assert_int_equal(shared, 0);
}

/* From its third start on a request over such memory copies nothing: the peers have mapped it then. */
static void *all_shared(struct rank *rank)
{
	const struct call call = { "ring", DDL_FLOAT32, DDL_SUM, 65536, 1, 1, 0, 1 };
	struct ddl_request *request;
	struct ddl_error err = { 0 };
	void *send, *recv;
	uint64_t before = 0;

	if (ddl_mem_alloc(rank->comm, call.count * 4, &send, &err) < 0 ||
	    ddl_mem_alloc(rank->comm, call.count * 4, &recv, &err) < 0 || create(rank, &call, send, recv, &request) < 0) {
		complain(rank, err.text, 0);
		return NULL;
	}
	for (int s = 0; s < 6; s++) {
		before = request->lent + request->placed;
		fill(send, &call, (uint64_t)s);
		int rc = reduce(rank, &call, request, send, recv);
		ddl_barrier(rank->comm); /* what was told has come: the peer looked at its socket meanwhile */
		if (rc)
			complain(rank, "an all-reduce failed", rc);
	}
	rank->found = request->lent + request->placed - before;
	if (ddl_mem_free(rank->comm, send) != -EBUSY || ddl_mem_free(rank->comm, recv) != -EBUSY)
		complain(rank, "memory that a request uses was freed", 0);
	if (ddl_mem_free(rank->comm, (char *)send + 4096) != -EINVAL || ddl_mem_free(rank->comm, &before) != -EINVAL)
		complain(rank, "what was never given was freed", 0);
	ddl_request_free(request);
	if (ddl_mem_free(rank->comm, send) || ddl_mem_free(rank->comm, recv) || ddl_mem_free(rank->comm, NULL))
		complain(rank, "memory was not freed", 0);
	if (ddl_mem_free(rank->comm, send) != -EINVAL)
		complain(rank, "memory was freed twice", 0);
	return NULL;
}

static void two_ranks_copy_nothing_over_shared_memory(void **state)
{
	uint64_t shared;

	run_ranks(2, "shm", 1, all_shared, &shared);
	/* each rank lends its half and places the other: as many slices as the schedule has */
	assert_true(shared > 0 && shared % 4 == 0);
}

/* Two ranks with plain buffers send the results of their halves in the slots that the other's contributions came in. */
static void *all_answered(struct rank *rank)
{
	const struct call call = { "ring", DDL_FLOAT32, DDL_SUM, 65536, 1, 1, 0, 1 };
	struct ddl_request *request;
	float *send = calloc(call.count, 4), *recv = calloc(call.count, 4);
	uint64_t before = 0;

	if (!send || !recv || create(rank, &call, send, recv, &request) < 0) {
		complain(rank, "no request", 0);
		free(send);
		free(recv);
		return NULL;
	}
	for (int s = 0; s < 4; s++) {
		before = request->answered;
		fill(send, &call, (uint64_t)s);
		int rc = reduce(rank, &call, request, send, recv);
		if (rc)
			complain(rank, "an all-reduce failed", rc);
	}
	rank->found = request->answered - before;
	if (request->lent || request->placed)
		complain(rank, "plain memory was lent or placed", 0);
	ddl_request_free(request);
	free(send);
	free(recv);
	return NULL;
}

static void two_ranks_answer_in_the_slot(void **state)
{
	uint64_t shared;

	run_ranks(2, "shm", 1, all_answered, &shared);
	assert_int_equal(shared, 2 * 4); /* a chunk has four slices */
	run_ranks(3, "shm", 1, all_answered, &shared);
	assert_int_equal(shared, 0);
	run_ranks(2, "tcp", 1, all_answered, &shared);
	assert_int_equal(shared, 0);
}

static void limit(int what, rlim_t to, struct rlimit *before)
{
	struct rlimit now;

	getrlimit(what, before);
	now = *before;
	now.rlim_cur = to;
	setrlimit(what, &now);
}

/* Under a limit, such memory is plain memory: nobody is ended by a signal, and descriptors are left for connections. */
static void *limited(struct rank *rank)
{
	const struct call call = { "ring", DDL_FLOAT32, DDL_SUM, 65536, 1, 1, 0, 1 };
	struct rlimit before;
	struct ddl_request *request;
	struct ddl_error err = { 0 };
	void *memory[KEYS_MAX] = { NULL };

	pthread_barrier_wait(&rank->world->barrier);
	if (rank->rank == 0) {
		limit(RLIMIT_FSIZE, 65536, &before);
		if (ddl_mem_alloc(rank->comm, call.count * 4, &memory[0], &err) < 0)
			complain(rank, err.text, 0);
		else if (ddl__mem_find(rank->comm, memory[0], 1))
			complain(rank, "the limit of file sizes is not as small as thought", 0);
		setrlimit(RLIMIT_FSIZE, &before);
		limit(RLIMIT_NOFILE, KEYS_MAX, &before);
		for (int i = 1; i < KEYS_MAX; i++)
			if (ddl_mem_alloc(rank->comm, 4096, &memory[i], &err) < 0)
				complain(rank, err.text, 0);
		if (!ddl__mem_find(rank->comm, memory[1], 1) || ddl__mem_find(rank->comm, memory[KEYS_MAX - 1], 1))
			complain(rank, "not half of the descriptors are for memory", 0);
	}
	pthread_barrier_wait(&rank->world->barrier);
	if (rank->rank && ddl_mem_alloc(rank->comm, call.count * 4, &memory[0], &err) < 0)
		complain(rank, err.text, 0);
	if (create(rank, &call, memory[0], memory[0], &request) < 0) {
		complain(rank, "no request under a limit of descriptors", 0);
	} else {
		fill(memory[0], &call, 1);
		if (reduce(rank, &call, request, memory[0], memory[0]))
			complain(rank, "an all-reduce failed under a limit of descriptors", 0);
		ddl_request_free(request);
	}
	for (int i = 0; i < KEYS_MAX; i++)
		if (ddl_mem_free(rank->comm, memory[i]))
			complain(rank, "memory was not freed", 0);
	pthread_barrier_wait(&rank->world->barrier);
	if (rank->rank == 0)
		setrlimit(RLIMIT_NOFILE, &before);
	return NULL;
}

static void limits_of_files_and_descriptors_end_nobody(void **state)
{
	uint64_t shared;

	run_ranks(2, "shm", 1, limited, &shared);
}

/* ---- alone ---- */

static void a_process_alone_gets_plain_memory(void **state)
{
	struct ddl_comm *comm;
	struct ddl_error err = { 0 };
	void *memory;
	pid_t child;
	int status;

	assert_int_equal(ddl_comm_create(NULL, &comm, &err), 0);
	assert_int_equal(ddl_mem_alloc(comm, 0, &memory, &err), 0);
	assert_int_equal((uintptr_t)memory % 4096, 0);
	assert_int_equal(ddl_mem_free(comm, memory), 0);
	assert_int_equal(ddl_mem_alloc(comm, 1000000, &memory, &err), 0);
	for (size_t i = 0; i < 1000000; i++)
		assert_int_equal(((char *)memory)[i], 0);
	memset(memory, 1, 1000000);
	assert_int_equal(ddl_mem_alloc(comm, SIZE_MAX, &(void *){ NULL }, &err), -EINVAL);
	assert_non_null(strstr(err.text, "larger than memory"));
	assert_int_equal(ddl_mem_alloc(comm, SIZE_MAX / 4, &(void *){ NULL }, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "has no memory for"));
	assert_int_equal(ddl_mem_alloc(comm, 2 * (size_t)sysconf(_SC_PHYS_PAGES) * 4096, &(void *){ NULL }, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "are available there")); /* and nothing was touched: the kernel would end processes */
	child = fork();
	if (child == 0)
		_exit(((char *)memory)[5] == 1 && ddl_mem_free(comm, memory) == 0 && ((char *)memory)[5] == 1 ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ddl_comm_destroy(comm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_buffers_lie_changes_no_bit),  cmocka_unit_test(two_ranks_copy_nothing_over_shared_memory),
		cmocka_unit_test(two_ranks_answer_in_the_slot),      cmocka_unit_test(limits_of_files_and_descriptors_end_nobody),
		cmocka_unit_test(a_process_alone_gets_plain_memory),
	};

	return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
