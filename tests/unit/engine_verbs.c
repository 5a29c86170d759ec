/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_verbs.c - collectives over RDMA, on a fabric in this process, a thread a rank: the same bits as over tcp, from and to
 * memory of every kind, also such as comes and goes; parts of communicators; ranks that die.
 *
 * DDL_TEST_SEED=N runs the random tests with that seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fake_verbs.h"
#include "mem.h"
#include "select.h"
#include "verbs.h"
#define RANK_VERBS (&fake_verbs_api)
#include "rank_threads.h"

#ifdef __SANITIZE_THREAD__ /* values are made and compared some ten times slower, and threads meet as often */
#define COUNT_MAX 20001
#else
#define COUNT_MAX 70001
#endif

/* InfiniBand ports, which need no network interface: rails of all ranks. */
static void fabric_begin(int rails, enum fake_delivery delivery, uint64_t seed)
{
	static const char *const names[] = { "r0", "r1", "r2" };

	fake_verbs_begin();
	for (int i = 0; i < rails; i++)
		fake_verbs_add(&(struct fake_device){ .name = names[i], .max_cqe = 1 << 16 });
	fake_verbs_delivery(delivery, seed);
}

static void fabric_end(void)
{
	assert_string_equal(fake_verbs_end(), "");
}

static uint64_t seed_of(uint64_t otherwise)
{
	const char *text = getenv("DDL_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : otherwise;

	print_message("DDL_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

/* ---- the same bits ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
	return hash;
}

/* Values that sum differently in another order. */
static void fill(void *data, enum ddl_type type, size_t count, uint64_t *seed)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t x = next_random(seed);
		float f = (float)((double)(x >> 40) / 3 - 2500000);

		if (type == DDL_FLOAT64)
			((double *)data)[i] = (double)f / 7;
		else if (type == DDL_FLOAT32)
			((float *)data)[i] = f;
		else
			memcpy((uint8_t *)data + i * ddl_type_size(type), &x, ddl_type_size(type));
		if (type == DDL_FLOAT16 || type == DDL_BFLOAT16) /* finite */
			((uint16_t *)data)[i] &= 0xbbff;
	}
}

struct combo {
	const char *algorithm;
	enum ddl_type type;
	enum ddl_wire wire;
	size_t count;
	int rings;
};

static bool run_combo(struct rank *rank, const struct combo *combo, uint8_t *send, uint8_t *recv, uint64_t seed)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_request *request = NULL;
	struct ddl_error err = { 0 };
	uint64_t mine = seed + (uint64_t)rank->rank * 7919;
	const size_t bytes = combo->count * ddl_type_size(combo->type);
	int rc;

	options.algorithm = combo->algorithm;
	options.wire = combo->wire;
	options.rings = combo->rings;
	rc = ddl_allreduce_init(send, recv, combo->count, combo->type, DDL_SUM, rank->comm, &options, &request, &err);
	for (int start = 0; start < 2 && rc == 0; start++) {
		fill(send, combo->type, combo->count, &mine);
		rc = ddl_start(request);
		rc = rc ? rc : ddl_wait(request);
		rank->found = mix(rank->found, recv, bytes);
	}
	ddl_request_free(request);
	if (rc)
		complain(rank, *err.text ? err.text : combo->algorithm, rc);
	return rc == 0;
}

/* All algorithms, types and wires, with odd counts, from plain memory and from shared memory. found: a hash of all results. */
static void *all_combos(struct rank *rank)
{
	static const size_t counts[] = { 1, 211, 5003, COUNT_MAX };
	uint8_t *plain[2] = { malloc(COUNT_MAX * 8 + 16), malloc(COUNT_MAX * 8 + 16) };
	void *shared[2] = { NULL, NULL };
	uint64_t seed = 1;
	bool good = plain[0] && plain[1] && ddl_mem_alloc(rank->comm, COUNT_MAX * 8 + 16, &shared[0], NULL) == 0 &&
		    ddl_mem_alloc(rank->comm, COUNT_MAX * 8 + 16, &shared[1], NULL) == 0;

	for (const struct ddl__algorithm *a = ddl__algorithms; a->name && good; a++) {
		for (unsigned k = 0; a->collective == DDL__ALLREDUCE && k < 8 + 3 && good; k++) {
			struct combo combo = {
				.algorithm = a->name,
				.type = k < 8 ? (enum ddl_type)(k + 1) : DDL_FLOAT32,
				.wire = k < 8 ? DDL_WIRE_NATIVE : (enum ddl_wire)(DDL_WIRE_BFLOAT16 + k - 8),
				.count = counts[(seed + k) % 4],
				.rings = (int)(seed % 3),
			};

			seed = seed * 5 + 3;
			good = run_combo(rank, &combo, plain[0], plain[1] + 8, seed) &&
			       run_combo(rank, &combo, (uint8_t *)shared[0] + 8, shared[1], seed);
		}
	}
	for (int i = 0; i < 2; i++) {
		ddl_mem_free(rank->comm, shared[i]);
		free(plain[i]);
	}
	return NULL;
}

static uint64_t bits_over(const char *transports, int n, enum ddl__register use)
{
	const struct world like = { .transports = transports, .seed = 1, .use = use };
	uint64_t found;

	run_world_like(&like, n, all_combos, &found);
	return found;
}

static void results_have_the_same_bits_as_over_tcp(void **state)
{
	for (int n = 2; n <= RANKS_MAX; n++) {
		uint64_t wanted = bits_over("tcp", n, DDL__REGISTER_AUTO);

		for (int way = 0; way < 4; way++) {
			fabric_begin(1 + way % 2, way < 2 ? FAKE_AT_ONCE : FAKE_BY_THREAD, (uint64_t)n);
			if (bits_over("verbs", n, way % 2 ? DDL__REGISTER_ALL : DDL__REGISTER_AUTO) != wanted)
				fail_msg("%d ranks, %d rails: results differ from those over tcp", n, 1 + way % 2);
			fabric_end();
		}
	}
}

/* What was written straight from and to memory: otherwise the tests above have shown nothing of it. */
static void *watch_placing(struct rank *rank)
{
	struct verbs *verbs = (struct verbs *)rank->comm->transports[0];
	struct combo combo = { "ring", DDL_FLOAT32, DDL_WIRE_NATIVE, COUNT_MAX, 1 };
	void *memory[2];

	if (ddl_mem_alloc(rank->comm, COUNT_MAX * 4, &memory[0], NULL) ||
	    ddl_mem_alloc(rank->comm, COUNT_MAX * 4, &memory[1], NULL)) {
		complain(rank, "no memory", -1);
		return NULL;
	}
	run_combo(rank, &combo, memory[0], memory[1], 3);
	for (uint32_t i = 0; i < verbs->n_lanes; i++)
		rank->found += verbs->lanes[i] && verbs->lanes[i]->grant.start > 0;
	return NULL;
}

static void memory_of_the_communicator_is_written_straight(void **state)
{
	const struct world like = { .transports = "verbs", .seed = 1 };
	uint64_t granted;

	fabric_begin(1, FAKE_AT_ONCE, 1);
	run_world_like(&like, 3, watch_placing, &granted);
	assert_true(granted >= 3);
	fabric_end();
}

/* ---- memory that comes and goes ---- */

struct piece { /* a buffer, made anew for each call */
	void *at;
	size_t bytes;
	int kind; /* 0 malloc, 1 mmap, 2 ddl_mem_alloc, 3 mmap at the place of the one before */
};

static void *last_mapped[RANKS_MAX];

static bool piece_make(struct rank *rank, struct piece *piece, size_t bytes, int kind)
{
	*piece = (struct piece){ NULL, bytes + 1, kind };
	if (kind == 0)
		piece->at = malloc(piece->bytes);
	else if (kind == 2)
		ddl_mem_alloc(rank->comm, piece->bytes, &piece->at, NULL);
	else
		piece->at = mmap(kind == 3 ? last_mapped[rank->rank] : NULL, piece->bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (piece->at == MAP_FAILED)
		piece->at = NULL;
	return piece->at;
}

static void piece_end(struct rank *rank, struct piece *piece)
{
	if (!piece->at)
		return;
	if (piece->kind == 0) {
		free(piece->at);
	} else if (piece->kind == 2) {
		ddl_mem_free(rank->comm, piece->at);
	} else {
		last_mapped[rank->rank] = piece->at;
		munmap(piece->at, piece->bytes);
	}
}

static void *buffers_change(struct rank *rank)
{
	const int n = rank->world->n;
	uint64_t common = rank->world->seed, mine = rank->world->seed * 31 + (uint64_t)rank->rank;

	for (int i = 0; i < 150; i++) {
		const size_t count = 1 + next_random(&common) % 30000;
		struct piece send = { 0 }, recv = { 0 };
		struct ddl_error err = { 0 };
		size_t bad = 0;
		int rc;

		if (!piece_make(rank, &send, count * 4, (int)(next_random(&mine) % 4)) ||
		    !piece_make(rank, &recv, count * 4, (int)(next_random(&mine) % 4))) {
			complain(rank, "no memory", -1);
			return NULL;
		}
		for (size_t k = 0; k < count; k++)
			((int32_t *)send.at)[k] = (int32_t)(k * 3 + (unsigned)i * 5 + (unsigned)rank->rank);
		rc = ddl_allreduce(send.at, recv.at, count, DDL_INT32, DDL_SUM, rank->comm);
		for (size_t k = 0; rc == 0 && k < count; k++)
			bad += ((int32_t *)recv.at)[k] !=
			       (int32_t)((k * 3 + (unsigned)i * 5) * (unsigned)n + (unsigned)(n * (n - 1) / 2));
		if (rc || bad) {
			ddl_comm_get_error(rank->comm, &err);
			complain(rank, rc ? "a call failed" : "results are wrong", rc ? rc : (int)bad);
			return NULL;
		}
		piece_end(rank, &send);
		piece_end(rank, &recv);
	}
	return NULL;
}

static void buffers_may_change_from_call_to_call(void **state)
{
	for (int way = 0; way < 6; way++) {
		const struct world like = { .transports = "verbs", .seed = seed_of(40 + (uint64_t)way), .progress = way % 3 == 2 };

		fabric_begin(1 + way % 2, way < 3 ? FAKE_AT_ONCE : FAKE_BY_THREAD, like.seed);
		run_world_like(&like, 2 + way % 3, buffers_change, NULL);
		fabric_end();
	}
}

/* ---- parts ---- */

static int sum_ranks(struct ddl_comm *comm, int *sum)
{
	static _Thread_local int32_t data[5000];
	int rc;

	for (size_t i = 0; i < 5000; i++)
		data[i] = ddl_comm_rank(comm) + 1;
	rc = ddl_allreduce(data, data, 5000, DDL_INT32, DDL_SUM, comm);
	*sum = data[4999];
	return rc;
}

static void *take_parts(struct rank *rank)
{
	for (int i = 0; i < 3; i++) {
		struct ddl_comm *part = NULL, *twin = NULL;
		struct ddl_error err = { 0 };
		int sums[3] = { 0 }, size, n = rank->world->n;
		int rc = ddl_comm_split(rank->comm, rank->rank % 2, rank->rank, &part, &err);

		rc = rc ? rc : ddl_comm_dup(rank->comm, &twin, &err);
		rc = rc ? rc : sum_ranks(part, &sums[0]);
		rc = rc ? rc : sum_ranks(twin, &sums[1]);
		rc = rc ? rc : sum_ranks(rank->comm, &sums[2]);
		size = part ? ddl_comm_size(part) : 0;
		if (rc || sums[0] != size * (size + 1) / 2 || sums[1] != n * (n + 1) / 2 || sums[2] != n * (n + 1) / 2)
			complain(rank, rc ? err.text : "a part sums up wrongly", rc);
		ddl_comm_destroy(part);
		ddl_comm_destroy(twin);
	}
	return NULL;
}

static void parts_of_communicators_go_over_rdma(void **state)
{
	for (int n = 2; n <= RANKS_MAX; n++) {
		fabric_begin(2, FAKE_BY_THREAD, (uint64_t)n);
		run_world(n, "verbs", 0, 1, take_parts, NULL, NULL);
		fabric_end();
	}
}

/* ---- ends ---- */

static float ending[RANKS_MAX][2][100000];

/* Its connections end, as those of a process that is killed. */
static void die(struct rank *rank)
{
	struct ddl_comm *comm = rank->comm;

	pthread_mutex_lock(&comm->lock);
	for (size_t t = 0; t < comm->n_transports; t++) {
		struct ddl__mesh *mesh = (struct ddl__mesh *)comm->transports[t];

		for (size_t i = 0; i < mesh->n_links; i++)
			if (mesh->links[i] && mesh->links[i]->stream)
				shutdown(mesh->links[i]->stream->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&comm->lock);
}

static void *one_dies(struct rank *rank)
{
	float(*data)[100000] = ending[rank->rank];
	struct ddl_error err = { 0 };
	int rc = 0;

	for (int i = 0; i < 200 && rc == 0; i++) {
		if (i == 20 && rank->rank == 1)
			die(rank);
		rc = ddl_allreduce(data[0], data[1], 100000, DDL_FLOAT32, DDL_SUM, rank->comm);
	}
	ddl_comm_get_error(rank->comm, &err);
	if (rc >= 0 || !strstr(err.text, "closed the connection") || !strstr(err.text, "rank ")) {
		snprintf(rank->wrong, sizeof(rank->wrong), "rank %d: %d, %.300s", rank->rank, rc, err.text);
		return NULL;
	}
	memset(data, 0, sizeof(ending[0])); /* it is ours again */
	rank->found = 1;
	return NULL;
}

static void the_death_of_a_rank_ends_all(void **state)
{
	for (int way = 0; way < 6; way++) {
		const struct world like = { .transports = "verbs", .use = DDL__REGISTER_ALL, .progress = way % 3 == 2 };
		uint64_t found;

		fabric_begin(1 + way % 2, way < 3 ? FAKE_AT_ONCE : FAKE_BY_THREAD, (uint64_t)way);
		run_world_like(&like, 2 + way % 3, one_dies, &found);
		assert_int_equal(found, 2 + way % 3);
		fabric_end();
	}
}

static void *one_stays_away(struct rank *rank)
{
	float(*data)[100000] = ending[rank->rank];
	struct ddl_error err = { 0 };
	int rc = ddl_allreduce(data[0], data[1], 100000, DDL_FLOAT32, DDL_SUM, rank->comm);

	if (rc)
		complain(rank, "the first call failed", rc);
	pthread_barrier_wait(&rank->world->barrier);
	if (rank->rank == 0) {
		fake_verbs_cut("r0", 1, "r0", 1, true); /* nobody answers, and no timer goes off */
		rank->found = 1;
	}
	rank->comm->timeout_ms = 1000; /* only from here on, since all before may take its time */
	pthread_barrier_wait(&rank->world->barrier);
	rc = ddl_allreduce(data[0], data[1], 100000, DDL_FLOAT32, DDL_SUM, rank->comm);
	ddl_comm_get_error(rank->comm, &err);
	if (rc >= 0 || !err.text[0])
		snprintf(rank->wrong, sizeof(rank->wrong), "rank %d: %d, %.300s", rank->rank, rc, err.text);
	return NULL;
}

static void a_wire_that_is_cut_ends_at_the_deadline(void **state)
{
	const struct world like = { .transports = "verbs" };

	fabric_begin(1, FAKE_AT_ONCE, 1);
	run_world_like(&like, 3, one_stays_away, NULL);
	fabric_end();
}

/* ---- faults of rails ---- */

static void *rail_fails(struct rank *rank)
{
	const int n = rank->world->n;
	const uint64_t seed = rank->world->seed;
	struct ddl_request *request = NULL;
	struct ddl_error err = { 0 };
	enum { COUNT = 60000 };
	int32_t *data = NULL;
	int rc = ddl_mem_alloc(rank->comm, COUNT * 4, (void **)&data, &err);

	rc = rc ? rc : ddl_allreduce_init(data, data, COUNT, DDL_INT32, DDL_SUM, rank->comm, NULL, &request, &err);
	for (int i = 0; i < 60 && rc == 0; i++) {
		size_t bad = 0;

		for (size_t k = 0; k < COUNT; k++)
			data[k] = (int32_t)(k + (unsigned)i + (unsigned)rank->rank);
		if (i == 20 && rank->rank == 0)
			fake_verbs_fail_send(seed % 2 ? "r0" : "r1", 1 + seed % 40, IBV_WC_GENERAL_ERR);
		rc = ddl_start(request);
		rc = rc ? rc : ddl_wait(request);
		for (size_t k = 0; rc == 0 && k < COUNT; k++)
			bad += data[k] != (int32_t)((k + (unsigned)i) * (unsigned)n + (unsigned)(n * (n - 1) / 2));
		if (bad)
			complain(rank, "results are wrong", (int)bad);
	}
	if (rc)
		complain(rank, "it failed", rc);
	ddl_request_free(request);
	if (data)
		ddl_mem_free(rank->comm, data);
	return NULL;
}

static void collectives_go_on_when_a_rail_fails(void **state)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		const struct world like = { .transports = "verbs", .seed = seed, .progress = seed % 4 == 3 };

		fabric_begin(2, seed % 2 ? FAKE_AT_ONCE : FAKE_BY_THREAD, seed);
		run_world_like(&like, 2 + (int)(seed % 3), rail_fails, NULL);
		fabric_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_have_the_same_bits_as_over_tcp),
		cmocka_unit_test(memory_of_the_communicator_is_written_straight),
		cmocka_unit_test(buffers_may_change_from_call_to_call),
		cmocka_unit_test(parts_of_communicators_go_over_rdma),
		cmocka_unit_test(the_death_of_a_rank_ends_all),
		cmocka_unit_test(a_wire_that_is_cut_ends_at_the_deadline),
		cmocka_unit_test(collectives_go_on_when_a_rail_fails),
	};

	return cmocka_run_group_tests_name("engine_verbs", tests, NULL, NULL);
}
