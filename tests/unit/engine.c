/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine over transport/loop: all ranks in this process, driven by one thread in turn (so that a seed fixes the interleaving)
 * or by a thread a rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "engine_world.h"

struct combination {
	int n;
	size_t count;
	enum ddl_type type;
	enum ddl_op op;
	enum ddl_wire wire;
	int rings, in_place;
	const char *algorithm;
};

/* One of the table's algorithms for all-reduce; their number is not known here, so x counts around. */
static const char *some_algorithm(uint64_t x)
{
	const struct ddl__algorithm *a = ddl__algorithms;
	for (x %= 1009; x > 0 || a->collective != DDL__ALLREDUCE; a = a->name ? a + 1 : ddl__algorithms)
		x -= a->name && a->collective == DDL__ALLREDUCE && x > 0;
	return a->name;
}

static void check_results(const struct combination *c, void *const *recv)
{
	for (int r = 1; r < c->n; r++)
		if (c->count)
			assert_memory_equal(recv[0], recv[r], c->count * ddl_type_size(c->type));
	for (size_t i = 0; i < c->count; i++) {
		double tolerance, want = expected(c->op, c->type, ddl__wire_resolve(c->wire, c->type), c->n, i, &tolerance);
		double got = fetch(recv[0], c->type, i);
		if (is_whole(c->type)) {
			if (c->op == DDL_AVG)
				want = trunc(wrap(want * c->n + copysign(0.1, want), c->type) / c->n);
			want = wrap(want, c->type);
			tolerance = 0;
		}
		if (!(fabs(got - want) <= tolerance))
			fail_msg("%s n %d count %zu type %d op %d wire %d rings %d element %zu: %.9g where %.9g was expected",
				 c->algorithm, c->n, c->count, c->type, c->op, c->wire, c->rings, i, got, want);
	}
}

static void run_combination(struct world *w, const struct combination *c, int starts)
{
	struct ddl_request *requests[RANKS_MAX];
	void *send[RANKS_MAX], *recv[RANKS_MAX], *first = NULL;
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err = { 0 };
	size_t size = ddl_type_size(c->type);
	options.wire = c->wire;
	options.rings = c->rings;
	options.algorithm = c->algorithm;
	for (int r = 0; r < c->n; r++) {
		recv[r] = calloc(c->count + 1, size);
		send[r] = c->in_place ? recv[r] : calloc(c->count + 1, size);
		if (ddl_allreduce_init(send[r], recv[r], c->count, c->type, c->op, w->comms[r], &options, &requests[r], &err) < 0)
			fail_msg("%s", err.text);
	}
	for (int s = 0; s < starts; s++) {
		for (int r = 0; r < c->n; r++)
			for (size_t i = 0; i < c->count; i++)
				store(send[r], c->type, i, value(c->op, r, i));
		for (int r = 0; r < c->n; r++)
			assert_int_equal(ddl_start(requests[(r + s) % c->n]), 0);
		drive_well(requests, c->n);
		check_results(c, recv);
		if (!first && c->count) {
			first = malloc(c->count * size);
			memcpy(first, recv[0], c->count * size);
		} else if (c->count) {
			assert_memory_equal(first, recv[0], c->count * size); /* the same bits in every run */
		}
	}
	for (int r = 0; r < c->n; r++) {
		assert_int_equal(ddl_request_free(requests[r]), 0);
		if (!c->in_place)
			free(send[r]);
		free(recv[r]);
	}
	free(first);
}

static void any_count_type_operation_wire_and_tree_gives_the_same_right_bits_on_all_ranks(void **state)
{
	uint64_t seed = 42;
	for (int round = 0; round < 80; round++) {
		struct world w;
		int n = 1 + (int)(next_random(&seed) % RANKS_MAX);
		world_init(&w, n, next_random(&seed), TIMEOUT_MS);
		ddl__loop_world_jitter(w.loop, round % 2 ? 3 : 0, seed);
		for (int k = 0; k < 10; k++) {
			uint64_t x = next_random(&seed);
			struct combination c = { .n = n,
						 .count = x % 4 == 0   ? x / 4 % 3
							  : x % 4 == 1 ? (x / 4) % (uint64_t)n
								       : x / 4 % 700,
						 .type = (enum ddl_type)(1 + (x >> 20) % 8),
						 .op = (enum ddl_op)(1 + (x >> 24) % 5),
						 .wire = (enum ddl_wire)((x >> 28) % 5),
						 .rings = (int)((x >> 32) % 4),
						 .in_place = (int)((x >> 36) % 2),
						 .algorithm = some_algorithm(x >> 40) };
			run_combination(&w, &c, 2);
		}
		world_fini(&w);
	}
}

static void messages_of_many_slices_and_pieces_are_right(void **state)
{
	struct world w;
	world_init(&w, 3, 9, TIMEOUT_MS);
	const struct combination big = {
		.n = 3, .count = 3000001, .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_NATIVE, .rings = 2
	};
	run_combination(&w, &big, 1);
	const struct combination low = {
		.n = 3, .count = 1000003, .type = DDL_FLOAT32, .op = DDL_AVG, .wire = DDL_WIRE_BFLOAT16, .rings = 1
	};
	run_combination(&w, &low, 2);
	world_fini(&w);
	world_init(&w, 6, 10, TIMEOUT_MS);
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		struct combination c = { .n = 6, .count = 300007, .type = DDL_FLOAT32, .op = DDL_AVG, .algorithm = a->name };
		if (a->collective != DDL__ALLREDUCE)
			continue;
		run_combination(&w, &c, 1);
		c.wire = DDL_WIRE_FLOAT16;
		c.in_place = 1;
		run_combination(&w, &c, 1);
		c.wire = DDL_WIRE_INT8;
		run_combination(&w, &c, 2);
	}
	world_fini(&w);
}

static void a_broadcast_reaches_every_rank_from_any_root(void **state)
{
	struct world w;
	uint64_t seed = 77;
	world_init(&w, 7, 4, TIMEOUT_MS);
	for (int root = 0; root < 7; root++) {
		struct ddl_request *requests[RANKS_MAX];
		int32_t *buffers[RANKS_MAX];
		size_t count = next_random(&seed) % 100000;
		for (int r = 0; r < 7; r++) {
			buffers[r] = calloc(count + 1, sizeof(int32_t));
			for (size_t i = 0; r == root && i < count; i++)
				buffers[r][i] = (int32_t)(i * 3 + (size_t)root);
			assert_int_equal(
				ddl_broadcast_init(buffers[r], count, DDL_INT32, root, w.comms[r], NULL, &requests[r], NULL), 0);
			assert_int_equal(ddl_start(requests[r]), 0);
		}
		drive_well(requests, 7);
		for (int r = 0; r < 7; r++) {
			assert_memory_equal(buffers[root], buffers[r], count * sizeof(int32_t) + 1);
			assert_int_equal(ddl_request_free(requests[r]), 0);
		}
		for (int r = 0; r < 7; r++)
			free(buffers[r]);
	}
	world_fini(&w);
}

static void a_barrier_completes_nowhere_before_the_last_rank_started_it(void **state)
{
	for (int n = 1; n <= RANKS_MAX; n++) {
		struct world w;
		struct ddl_request *requests[RANKS_MAX];
		world_init(&w, n, (uint64_t)n, TIMEOUT_MS);
		for (int r = 0; r < n; r++)
			assert_int_equal(ddl_barrier_init(w.comms[r], NULL, &requests[r], NULL), 0);
		for (int start = 0; start < 3; start++) {
			for (int r = 0; r < n; r++) {
				for (int pass = 0; pass < 50; pass++)
					for (int q = 0; q < r; q++)
						assert_int_equal(ddl_test(requests[q]), 0);
				assert_int_equal(ddl_start(requests[r]), 0);
			}
			drive_well(requests, n);
		}
		for (int r = 0; r < n; r++)
			ddl_request_free(requests[r]);
		world_fini(&w);
	}
}

static void requests_started_in_any_order_complete(void **state)
{
	enum { REQUESTS = 60, N = 5, COUNT = 257 };
	struct world w;
	uint64_t seed = 5;
	static struct ddl_request *requests[REQUESTS][N];
	static float data[REQUESTS][N][COUNT];
	world_init(&w, N, 3, TIMEOUT_MS);
	ddl__loop_world_jitter(w.loop, 4, 99);
	for (int q = 0; q < REQUESTS; q++)
		for (int r = 0; r < N; r++) {
			struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
			options.priority = q % 3;
			assert_int_equal(ddl_allreduce_init(data[q][r], data[q][r], COUNT, DDL_FLOAT32, DDL_SUM, w.comms[r],
							    &options, &requests[q][r], NULL),
					 0);
		}
	for (int round = 0; round < 3; round++) {
		for (int q = 0; q < REQUESTS; q++)
			for (int r = 0; r < N; r++)
				for (int i = 0; i < COUNT; i++)
					data[q][r][i] = (float)(q + r);
		for (int r = 0; r < N; r++) { /* each rank starts them in an order of its own */
			int order[REQUESTS];
			for (int q = 0; q < REQUESTS; q++)
				order[q] = q;
			for (int q = REQUESTS - 1; q > 0; q--) {
				int other = (int)(next_random(&seed) % (uint64_t)(q + 1)), keep = order[q];
				order[q] = order[other];
				order[other] = keep;
			}
			for (int q = 0; q < REQUESTS; q++)
				assert_int_equal(ddl_start(requests[order[q]][r]), 0);
		}
		for (int q = 0; q < REQUESTS; q++) {
			drive_well(requests[q], N);
			for (int r = 0; r < N; r++)
				for (int i = 0; i < COUNT; i++)
					assert_true(data[q][r][i] == (float)(N * q + N * (N - 1) / 2));
		}
	}
	for (int q = 0; q < REQUESTS; q++)
		for (int r = 0; r < N; r++)
			assert_int_equal(ddl_request_free(requests[q][r]), 0);
	world_fini(&w);
}

/* ---- a thread a rank ---- */

struct thread {
	struct world *w;
	int rank;
	int rc;
	pthread_t id;
};

static void run_threads(struct world *w, void *(*body)(void *), struct thread *threads)
{
	for (int r = 0; r < w->n; r++) {
		threads[r] = (struct thread){ .w = w, .rank = r };
		assert_int_equal(pthread_create(&threads[r].id, NULL, body, &threads[r]), 0);
	}
	for (int r = 0; r < w->n; r++)
		pthread_join(threads[r].id, NULL);
}

/* Blocking calls with changing buffers and more kinds than the cache holds. */
static void *call_blocking(void *argument)
{
	struct thread *t = argument;
	struct ddl_comm *comm = t->w->comms[t->rank];
	float data[300];
	for (int round = 0; round < 3 && t->rc == 0; round++) {
		for (size_t count = 0; count < 90 && t->rc == 0; count++) {
			float *at = data + (size_t)(t->rank + round) % 7;
			for (size_t i = 0; i < count; i++)
				at[i] = (float)t->rank;
			t->rc = ddl_allreduce(at, at, count, DDL_FLOAT32, DDL_MAX, comm);
			for (size_t i = 0; i < count; i++)
				if (at[i] != (float)(t->w->n - 1))
					t->rc = -EBADMSG;
		}
		int root = round % t->w->n, word = t->rank == root ? 1234 : 0;
		t->rc = t->rc ? t->rc : ddl_broadcast(&word, 1, DDL_INT32, root, comm);
		t->rc = t->rc ? t->rc : ddl_barrier(comm);
		if (word != 1234)
			t->rc = t->rc ? t->rc : -EBADMSG;
	}
	return NULL;
}

static void blocking_calls_share_requests_whatever_the_buffers(void **state)
{
	struct world w;
	struct thread threads[RANKS_MAX];
	world_init(&w, 5, 6, TIMEOUT_MS);
	run_threads(&w, call_blocking, threads);
	for (int r = 0; r < w.n; r++)
		assert_int_equal(threads[r].rc, 0);
	world_fini(&w);
}

static void blocking_calls_work_beside_a_service_thread(void **state)
{
	struct world w;
	struct thread threads[RANKS_MAX];
	static const struct ddl__cpus any = { { ~UINT64_C(0) } }; /* the first 64 hardware threads */
	world_init(&w, 4, 6, TIMEOUT_MS);
	for (int r = 0; r < w.n; r++)
		assert_int_equal(ddl__engine_thread_start(w.comms[r], &any, &(bool){ false }, NULL), 0);
	run_threads(&w, call_blocking, threads);
	for (int r = 0; r < w.n; r++)
		assert_int_equal(threads[r].rc, 0);
	world_fini(&w);
}

/* Two threads of each rank, each with requests of its own. */
struct pair {
	struct ddl_request *request;
	float *data;
	int rc;
};

static void *start_and_wait(void *argument)
{
	struct pair *p = argument;
	for (int i = 0; i < 50 && p->rc == 0; i++) {
		p->rc = ddl_start(p->request);
		p->rc = p->rc ? p->rc : ddl_wait(p->request);
	}
	return NULL;
}

static void two_threads_of_a_rank_may_wait_at_once(void **state)
{
	enum { N = 3, PER_RANK = 2, COUNT = 1000 };
	struct world w;
	struct pair pairs[N][PER_RANK];
	pthread_t ids[N][PER_RANK];
	world_init(&w, N, 8, TIMEOUT_MS);
	for (int q = 0; q < PER_RANK; q++)
		for (int r = 0; r < N; r++) {
			pairs[r][q] = (struct pair){ .data = calloc(COUNT, sizeof(float)) };
			assert_int_equal(ddl_allreduce_init(pairs[r][q].data, pairs[r][q].data, COUNT, DDL_FLOAT32, DDL_SUM,
							    w.comms[r], NULL, &pairs[r][q].request, NULL),
					 0);
		}
	for (int r = 0; r < N; r++)
		for (int q = 0; q < PER_RANK; q++)
			assert_int_equal(pthread_create(&ids[r][q], NULL, start_and_wait, &pairs[r][q]), 0);
	for (int r = 0; r < N; r++)
		for (int q = 0; q < PER_RANK; q++) {
			pthread_join(ids[r][q], NULL);
			assert_int_equal(pairs[r][q].rc, 0);
			assert_int_equal(ddl_request_free(pairs[r][q].request), 0);
			free(pairs[r][q].data);
		}
	world_fini(&w);
}

/* ---- failure ---- */

static void start_all(struct world *w, size_t count, float **data, struct ddl_request **requests, int but)
{
	for (int r = 0; r < w->n; r++) {
		data[r] = calloc(count, sizeof(float));
		assert_int_equal(
			ddl_allreduce_init(data[r], data[r], count, DDL_FLOAT32, DDL_SUM, w->comms[r], NULL, &requests[r], NULL),
			0);
		if (r != but)
			assert_int_equal(ddl_start(requests[r]), 0);
	}
}

static void free_requests(struct world *w, float **data, struct ddl_request **requests)
{
	for (int r = 0; r < w->n; r++) {
		assert_int_equal(ddl_request_free(requests[r]), 0);
		free(data[r]);
	}
}

static void the_death_of_a_rank_is_told_to_all_others_by_name(void **state)
{
	enum { N = 6, DEAD = 2 };
	struct world w;
	float *data[N];
	struct ddl_request *requests[N], *others[N];
	int results[N], n = 0;
	world_init(&w, N, 12, TIMEOUT_MS);
	start_all(&w, 1000, data, requests, DEAD);
	ddl__loop_world_kill(w.loop, DEAD);
	for (int r = 0; r < N; r++)
		if (r != DEAD)
			others[n++] = requests[r];
	drive(others, n, results);
	for (int i = 0; i < n; i++) {
		struct ddl_error err;
		assert_int_equal(results[i], -ECONNRESET);
		assert_int_equal(ddl_comm_get_error(others[i]->comm, &err), -ECONNRESET);
		assert_non_null(strstr(err.text, "rank 2 on node"));
		assert_int_equal(ddl_start(others[i]), -ECONNRESET);
	}
	ddl_comm_abort(w.comms[DEAD], "it is dead");
	free_requests(&w, data, requests);
	world_fini(&w);
}

static void ranks_that_disagree_on_a_call_are_told_what_each_asked_for(void **state)
{
	enum { N = 3 };
	struct world w;
	float data[N][20] = { { 0 } };
	struct ddl_request *requests[N];
	int results[N];
	world_init(&w, N, 2, TIMEOUT_MS);
	for (int r = 0; r < N; r++) {
		assert_int_equal(ddl_allreduce_init(data[r], data[r], r == 1 ? 10 : 20, DDL_FLOAT32, DDL_SUM, w.comms[r], NULL,
						    &requests[r], NULL),
				 0);
		int rc = ddl_start(requests[r]);
		assert_true(rc == 0 || rc == -EPROTO);
	}
	drive(requests, N, results);
	for (int r = 0; r < N; r++) {
		struct ddl_error err;
		assert_int_equal(results[r], -EPROTO);
		assert_int_equal(ddl_comm_get_error(w.comms[r], &err), -EPROTO);
		assert_non_null(strstr(err.text, "all-reduce of 10 f32"));
		assert_non_null(strstr(err.text, "all-reduce of 20 f32"));
		ddl_request_free(requests[r]);
	}
	world_fini(&w);
}

static void ranks_that_call_different_collectives_are_told_so(void **state)
{
	enum { N = 2 };
	struct world w;
	int word[N] = { 0 };
	struct ddl_request *requests[N];
	int results[N];
	world_init(&w, N, 2, TIMEOUT_MS);
	assert_int_equal(ddl_broadcast_init(&word[0], 1, DDL_INT32, 0, w.comms[0], NULL, &requests[0], NULL), 0);
	assert_int_equal(ddl_barrier_init(w.comms[1], NULL, &requests[1], NULL), 0);
	for (int r = 0; r < N; r++)
		ddl_start(requests[r]);
	drive(requests, N, results);
	for (int r = 0; r < N; r++) {
		assert_int_equal(results[r], -EPROTO);
		ddl_request_free(requests[r]);
	}
	world_fini(&w);
}

static void a_rank_that_never_starts_is_named_at_the_deadline(void **state)
{
	enum { N = 4, LATE = 3 };
	struct world w;
	float *data[N];
	struct ddl_request *requests[N], *others[N - 1];
	int results[N], named = 0, n = 0;
	world_init(&w, N, 14, 200);
	start_all(&w, 100, data, requests, LATE);
	for (int r = 0; r < N; r++)
		if (r != LATE)
			others[n++] = requests[r];
	for (int i = 0; i < n; i++)
		results[i] = ddl_wait(others[i]);
	for (int i = 0; i < n; i++) {
		struct ddl_error err;
		assert_int_equal(results[i], -ETIMEDOUT);
		assert_int_equal(ddl_comm_get_error(others[i]->comm, &err), -ETIMEDOUT);
		named += strstr(err.text, "rank ") && strstr(err.text, "waits for data from");
	}
	assert_int_equal(named, n);
	ddl_comm_abort(w.comms[LATE], NULL);
	free_requests(&w, data, requests);
	world_fini(&w);
}

/* Two nodes of two ranks: the gathering lane of a node waits for the lanes above it, and no peer of its own is to blame. */
static void a_lane_that_waits_for_another_lane_blames_no_peer(void **state)
{
	enum { N = 4, LATE = 3, COUNT = 64 };
	static const char text[] = "1;job=;mode=multiring;src=none/tree;tree=fabric(n[0-1])";
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_request *requests[N];
	static float data[N][COUNT];
	struct world w = { .plan.text = strdup(text), .plan.node_of_rank = calloc(N, sizeof(size_t)) };
	char wait[192];
	w.plan.node_of_rank[2] = w.plan.node_of_rank[3] = 1;
	world_open(&w, N, TIMEOUT_MS);
	options.algorithm = "multiring";
	for (int r = 0; r < N; r++) {
		assert_int_equal(
			ddl_allreduce_init(data[r], data[r], COUNT, DDL_FLOAT32, DDL_SUM, w.comms[r], &options, &requests[r], NULL),
			0);
		if (r != LATE)
			assert_int_equal(ddl_start(requests[r]), 0);
	}
	for (int pass = 0; pass < 1000; pass++)
		for (int r = 0; r < LATE; r++)
			assert_int_equal(ddl_test(requests[r]), 0);
	/* rank 2 lacks its neighbour; rank 1 is through on its node and lacks the other node's owner of its chunk */
	ddl__request_describe_wait(requests[2], wait, sizeof(wait));
	assert_non_null(strstr(wait, "data from rank 3"));
	for (int r = 0; r < 2; r++) {
		ddl__request_describe_wait(requests[r], wait, sizeof(wait));
		if (!strstr(wait, "data from rank 2") && !strstr(wait, "data from rank 3"))
			fail_msg("rank %d: %s", r, wait);
	}
	assert_int_equal(ddl_start(requests[LATE]), 0);
	drive_well(requests, N);
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_request_free(requests[r]), 0);
	world_fini(&w);
}

static void whose_limit_passes_first_does_not_hide_who_is_waited_for(void **state)
{
	enum { N = 4 };
	struct world w;
	float *data[N];
	struct ddl_request *requests[N];
	int order[N], results[N], late, next;
	char named[64];
	struct ddl_error err;
	setenv("DDL_ALGO", "ring", 1);
	world_init(&w, N, 14, TIMEOUT_MS);
	assert_int_equal(ddl_comm_order(w.comms[0], 0, order), 0);
	late = order[0];
	next = order[1];
	start_all(&w, 100, data, requests, late);
	unsetenv("DDL_ALGO");
	for (int pass = 0; pass < 100; pass++) /* until the announcements are there */
		assert_int_equal(ddl_test(requests[next]), 0);
	ddl__engine_events.aborted(w.comms[next], order[2], -ETIMEDOUT, "waits for data from another (seen by one more)");
	assert_int_equal(ddl_test(requests[next]), -ETIMEDOUT);
	ddl_comm_get_error(w.comms[next], &err);
	snprintf(named, sizeof(named), "waits for data from rank %d on node", late);
	assert_non_null(strstr(err.text, "(seen by one more); rank "));
	assert_non_null(strstr(err.text, named));
	assert_int_equal(ddl_comm_abort(w.comms[late], NULL), 0);
	drive(requests, N, results);
	free_requests(&w, data, requests);
	world_fini(&w);
}

static void a_rank_that_leaves_while_others_need_it_is_named(void **state)
{
	enum { N = 3 };
	struct world w;
	float *data[N];
	struct ddl_request *requests[N];
	struct ddl_error err;
	pthread_t leaver;
	int results[N];
	world_init(&w, N, 31, TIMEOUT_MS);
	start_all(&w, 100, data, requests, 1);
	assert_int_equal(ddl_request_free(requests[1]), 0);
	assert_int_equal(pthread_create(&leaver, NULL, destroy, w.comms[1]), 0);
	struct ddl_request *others[] = { requests[0], requests[2] };
	drive(others, 2, results);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(results[i], -ECONNRESET);
		ddl_comm_get_error(others[i]->comm, &err);
		assert_non_null(strstr(err.text, "rank 1 on node"));
		assert_non_null(strstr(err.text, "has left"));
		assert_int_equal(ddl_request_free(others[i]), 0);
	}
	pthread_join(leaver, NULL);
	for (int r = 0; r < N; r++)
		free(data[r]);
	ddl_comm_destroy(w.comms[0]);
	ddl_comm_destroy(w.comms[2]);
	ddl__loop_world_destroy(w.loop);
	world_plan_fini(&w.plan);
}

static void what_keeps_a_rank_from_a_blocking_call_is_told_to_all(void **state)
{
	struct world w;
	struct ddl_request *other, *connection;
	struct ddl_error err;
	int result;
	world_init(&w, 2, 3, TIMEOUT_MS);
	assert_int_equal(ddl_barrier_init(w.comms[0], NULL, &connection, NULL), 0);
	assert_int_equal(ddl_barrier_init(w.comms[1], NULL, &other, NULL), 0);
	assert_int_equal(ddl_start(other), 0);
	assert_int_equal(ddl_allreduce(NULL, NULL, 1, DDL_FLOAT32, DDL_SUM, w.comms[0]), -EINVAL);
	assert_int_equal(ddl_comm_get_error(w.comms[0], NULL), 0); /* wrong arguments harm nobody */
	w.comms[0]->via[1] = -1;
	assert_int_equal(ddl_barrier(w.comms[0]), -ENOENT);
	assert_int_equal(ddl_comm_get_error(w.comms[0], &err), -ENOENT);
	assert_non_null(strstr(err.text, "no transport reaches rank 1"));
	drive(&other, 1, &result);
	assert_int_equal(result, -ENOENT);
	assert_int_equal(ddl_request_free(other), 0);
	assert_int_equal(ddl_request_free(connection), 0);
	world_fini(&w);
}

static void a_request_that_a_loss_prevents_fails_with_the_loss(void **state)
{
	struct world w;
	struct ddl_request *request, *second;
	struct ddl_error err;
	world_init(&w, 2, 3, TIMEOUT_MS);
	assert_int_equal(ddl_barrier_init(w.comms[0], NULL, &request, NULL), 0);
	ddl__loop_world_kill(w.loop, 1);
	w.comms[0]->via[1] = -1; /* opening fails before the loss was heard of */
	assert_int_equal(ddl_barrier_init(w.comms[0], NULL, &second, &err), -ECONNRESET);
	assert_non_null(strstr(err.text, "rank 1 on node"));
	assert_int_equal(ddl_request_free(request), 0);
	world_fini(&w);
}

static void an_abort_wakes_everyone_with_its_reason(void **state)
{
	enum { N = 5 };
	struct world w;
	float *data[N];
	struct ddl_request *requests[N];
	int results[N];
	struct ddl_error err;
	world_init(&w, N, 21, TIMEOUT_MS);
	start_all(&w, 5000, data, requests, 4);
	assert_int_equal(ddl_comm_abort(w.comms[4], "the loss is NaN"), 0);
	drive(requests, 4, results);
	for (int r = 0; r < 4; r++) {
		assert_int_equal(results[r], -ECANCELED);
		ddl_comm_get_error(w.comms[r], &err);
		assert_non_null(strstr(err.text, "the loss is NaN"));
	}
	free_requests(&w, data, requests);
	world_fini(&w);
}

static void an_abort_that_comes_twice_is_handed_on_as_it_came_first(void **state)
{
	enum { N = 3 };
	struct world w;
	float *data[N];
	struct ddl_request *requests[N];
	int results[N];
	struct ddl_error err;
	world_init(&w, N, 23, TIMEOUT_MS);
	start_all(&w, 5000, data, requests, 2);
	ddl__engine_events.aborted(w.comms[0], 2, -ECANCELED, "it burns (seen by rank 2)");
	ddl__engine_events.aborted(w.comms[0], 2, -ECANCELED, "it burns (seen by rank 2)");
	ddl__engine_settle(w.comms[0]);
	drive(requests + 1, 1, results);
	assert_int_equal(ddl_comm_get_error(w.comms[1], &err), -ECANCELED);
	assert_string_equal(err.text, "it burns (seen by rank 2)");
	free_requests(&w, data, requests);
	world_fini(&w);
}

static void bad_arguments_are_refused_with_a_sentence(void **state)
{
	struct world w;
	struct ddl_request *request;
	struct ddl_error err = { 0 };
	float x = 0;
	world_init(&w, 2, 2, TIMEOUT_MS);
	struct ddl_comm *comm = w.comms[0];
	assert_int_equal(ddl_allreduce_init(&x, &x, 1, (enum ddl_type)77, DDL_SUM, comm, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_allreduce_init(&x, &x, 1, DDL_FLOAT32, (enum ddl_op)77, comm, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_allreduce_init(NULL, &x, 1, DDL_FLOAT32, DDL_SUM, comm, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_allreduce_init(&x, &x, SIZE_MAX, DDL_FLOAT32, DDL_SUM, comm, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_broadcast_init(&x, 1, DDL_FLOAT32, 2, comm, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "root 2"));
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	options.rings = 65;
	assert_int_equal(ddl_allreduce_init(&x, &x, 1, DDL_FLOAT32, DDL_SUM, comm, &options, &request, &err), -EINVAL);
	options = (struct ddl_request_options){ 0 };
	assert_int_equal(ddl_allreduce_init(&x, &x, 1, DDL_FLOAT32, DDL_SUM, comm, &options, &request, &err), -EINVAL);
	options = (struct ddl_request_options)DDL_REQUEST_OPTIONS_INIT;
	options.algorithm = "magic";
	assert_int_equal(ddl_allreduce_init(&x, &x, 1, DDL_FLOAT32, DDL_SUM, comm, &options, &request, &err), -EOPNOTSUPP);
	int order[2];
	assert_int_equal(ddl_comm_order(comm, -1, order), -EINVAL);
	assert_int_equal(ddl_comm_order(comm, 0, order), 0);
	assert_null(ddl_comm_node_name(comm, 2));
	assert_int_equal(ddl_request_free(NULL), 0);
	ddl_comm_destroy(NULL);
	world_fini(&w);
}

static void an_active_request_is_neither_started_again_nor_freed(void **state)
{
	struct world w;
	struct ddl_request *requests[2];
	world_init(&w, 2, 2, TIMEOUT_MS);
	for (int r = 0; r < 2; r++)
		assert_int_equal(ddl_barrier_init(w.comms[r], NULL, &requests[r], NULL), 0);
	assert_int_equal(ddl_test(requests[0]), 1); /* never started */
	assert_int_equal(ddl_wait(requests[0]), 0);
	assert_int_equal(ddl_start(requests[0]), 0);
	assert_int_equal(ddl_start(requests[0]), -EINVAL);
	assert_int_equal(ddl_request_free(requests[0]), -EINVAL);
	assert_int_equal(ddl_start(requests[1]), 0);
	drive_well(requests, 2);
	for (int r = 0; r < 2; r++)
		assert_int_equal(ddl_request_free(requests[r]), 0);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_count_type_operation_wire_and_tree_gives_the_same_right_bits_on_all_ranks),
		cmocka_unit_test(messages_of_many_slices_and_pieces_are_right),
		cmocka_unit_test(a_broadcast_reaches_every_rank_from_any_root),
		cmocka_unit_test(a_barrier_completes_nowhere_before_the_last_rank_started_it),
		cmocka_unit_test(requests_started_in_any_order_complete),
		cmocka_unit_test(blocking_calls_share_requests_whatever_the_buffers),
		cmocka_unit_test(blocking_calls_work_beside_a_service_thread),
		cmocka_unit_test(two_threads_of_a_rank_may_wait_at_once),
		cmocka_unit_test(the_death_of_a_rank_is_told_to_all_others_by_name),
		cmocka_unit_test(ranks_that_disagree_on_a_call_are_told_what_each_asked_for),
		cmocka_unit_test(ranks_that_call_different_collectives_are_told_so),
		cmocka_unit_test(a_rank_that_never_starts_is_named_at_the_deadline),
		cmocka_unit_test(a_lane_that_waits_for_another_lane_blames_no_peer),
		cmocka_unit_test(whose_limit_passes_first_does_not_hide_who_is_waited_for),
		cmocka_unit_test(a_rank_that_leaves_while_others_need_it_is_named),
		cmocka_unit_test(what_keeps_a_rank_from_a_blocking_call_is_told_to_all),
		cmocka_unit_test(a_request_that_a_loss_prevents_fails_with_the_loss),
		cmocka_unit_test(an_abort_wakes_everyone_with_its_reason),
		cmocka_unit_test(an_abort_that_comes_twice_is_handed_on_as_it_came_first),
		cmocka_unit_test(bad_arguments_are_refused_with_a_sentence),
		cmocka_unit_test(an_active_request_is_neither_started_again_nor_freed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
