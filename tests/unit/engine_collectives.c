/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives beside all-reduce, broadcast and barrier, and send/receive, over transport/loop: drawn at random, and how they
 * refuse what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "engine_world.h"
#include "select.h"
#include "shape.h"

struct draw { /* one collective, as drawn */
	int n;
	const struct ddl__algorithm *algorithm;
	enum ddl_type type;
	enum ddl_op op;
	struct ddl_request_options options;
	size_t count;   /* of a block, or of the whole */
	size_t *counts; /* n, of an all-to-all n*n; NULL: equal blocks */
	int in_place, root;
	size_t column[RANKS_MAX]; /* of counts, of the rank at hand */
};

static bool reduces(const struct draw *d)
{
	return d->algorithm->collective == DDL__REDUCE_SCATTER || d->algorithm->collective == DDL__REDUCE;
}

/* What the rank's request is built from; d->column is its own until the next call. */
static struct ddl__build build_of(struct draw *d, int rank, const struct ddl__layout *layout)
{
	bool matrix = d->counts && d->algorithm->collective == DDL__ALLTOALL;
	size_t n = (size_t)d->n;
	for (size_t i = 0; matrix && i < n; i++)
		d->column[i] = d->counts[i * n + (size_t)rank];
	return (struct ddl__build){ .layout = layout,
				    .rank = rank,
				    .count = d->count,
				    .counts = matrix ? d->counts + (size_t)rank * n : d->counts,
				    .recv_counts = matrix ? d->column : NULL,
				    .root = d->root };
}

static int init(struct draw *d, struct ddl_comm *comm, const void *send, void *recv, struct ddl_request **request,
		struct ddl_error *err)
{
	const struct ddl__build b = build_of(d, comm->rank, comm->layout);
	const struct ddl_request_options *o = &d->options;
	enum ddl_type type = d->type;
	switch (d->algorithm->collective) {
	case DDL__REDUCE_SCATTER:
		return d->counts ? ddl_reduce_scatter_counts_init(send, recv, b.counts, type, d->op, comm, o, request, err)
				 : ddl_reduce_scatter_init(send, recv, d->count, type, d->op, comm, o, request, err);
	case DDL__ALLGATHER:
		return d->counts ? ddl_allgather_counts_init(send, recv, b.counts, type, comm, o, request, err)
				 : ddl_allgather_init(send, recv, d->count, type, comm, o, request, err);
	case DDL__REDUCE:
		return ddl_reduce_init(send, recv, d->count, type, d->op, d->root, comm, o, request, err);
	case DDL__ALLTOALL:
		return d->counts ? ddl_alltoall_counts_init(send, b.counts, recv, b.recv_counts, type, comm, o, request, err)
				 : ddl_alltoall_init(send, recv, d->count, type, comm, o, request, err);
	case DDL__GATHER:
		return d->counts ? ddl_gather_counts_init(send, recv, b.counts, type, d->root, comm, o, request, err)
				 : ddl_gather_init(send, recv, d->count, type, d->root, comm, o, request, err);
	case DDL__SCATTER:
		return d->counts ? ddl_scatter_counts_init(send, recv, b.counts, type, d->root, comm, o, request, err)
				 : ddl_scatter_init(send, recv, d->count, type, d->root, comm, o, request, err);
	default:
		return -EINVAL;
	}
}

/* Which rank's input element `*i` element *i of a rank's output is; -1: of all ranks. */
static int source(struct draw *d, int rank, size_t *i)
{
	size_t n = (size_t)d->n, me = (size_t)rank, from = 0, before = 0;
	enum ddl__collective c = d->algorithm->collective;
	for (size_t r = 0; r < me && c != DDL__ALLTOALL; r++)
		before += d->counts ? d->counts[r] : d->count;
	if (c == DDL__REDUCE)
		return -1;
	if (c == DDL__REDUCE_SCATTER || c == DDL__SCATTER) {
		*i += before;
		return c == DDL__SCATTER ? d->root : -1;
	}
	for (;; from++) {
		size_t block = !d->counts ? d->count : c == DDL__ALLTOALL ? d->counts[from * n + me] : d->counts[from];
		if (*i < block)
			break;
		*i -= block;
	}
	for (size_t r = 0; c == DDL__ALLTOALL && r < me; r++)
		*i += d->counts ? d->counts[from * n + r] : d->count;
	return (int)from;
}

static void check_rank(struct draw *d, int rank, const void *recv, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = i;
		int from = source(d, rank, &at);
		double got = fetch(recv, d->type, i), want, tolerance = 0;
		if (from >= 0) {
			uint64_t word = 0;
			store(&word, d->type, 0, value(DDL_SUM, from, at));
			want = fetch(&word, d->type, 0);
			if (d->algorithm->collective == DDL__ALLGATHER && d->type == DDL_FLOAT32 &&
			    d->options.wire == DDL_WIRE_INT8)
				tolerance = 11.0 / 254 * 1.01;
		} else {
			enum ddl_wire wire = ddl__wire_resolve(d->options.wire, d->type);
			want = expected(d->op, d->type, wire, d->n, at, &tolerance);
			if (is_whole(d->type)) {
				if (d->op == DDL_AVG)
					want = trunc(wrap(want * d->n + copysign(0.1, want), d->type) / d->n);
				want = wrap(want, d->type);
				tolerance = 0;
			}
		}
		if (!(fabs(got - want) <= tolerance))
			fail_msg("%s %s, %d ranks%s%s, type %d op %d wire %d: rank %d element %zu is %.9g where %.9g was expected",
				 ddl__collective_name(d->algorithm->collective), d->algorithm->name, d->n,
				 d->counts ? ", by counts" : "", d->in_place ? ", in place" : "", d->type, d->op, d->options.wire,
				 rank, i, got, want);
	}
}

struct buffers { /* of one rank */
	struct ddl__shape shape;
	char *memory[2]; /* the second is NULL in place */
	void *send, *recv;
};

static void buffers_init(struct draw *d, const struct ddl_comm *comm, struct buffers *b)
{
	const struct ddl__build build = build_of(d, comm->rank, comm->layout);
	size_t size = ddl_type_size(d->type);
	assert_int_equal(ddl__shape_of(d->algorithm->collective, &build, &b->shape), 0);
	size_t in = b->shape.input * size, out = b->shape.output * size;
	size_t in_at = b->shape.input_at * size, out_at = b->shape.output_at * size;
	if (d->in_place) { /* exactly as long as must be: what lies outside is found by AddressSanitizer */
		b->memory[0] = calloc(1, (in_at + in > out_at + out ? in_at + in : out_at + out) + 1);
		b->memory[1] = NULL;
		b->send = b->memory[0] + in_at;
		b->recv = b->memory[0] + out_at;
	} else {
		b->memory[0] = calloc(1, in + 1);
		b->memory[1] = calloc(1, out + 1);
		b->send = in ? b->memory[0] : NULL;
		b->recv = out ? b->memory[1] : NULL;
	}
}

static void run_draw(struct world *w, struct draw *d)
{
	struct ddl_request *requests[RANKS_MAX];
	struct buffers b[RANKS_MAX];
	struct ddl_error err = { 0 };
	size_t size = ddl_type_size(d->type);
	for (int r = 0; r < d->n; r++) {
		buffers_init(d, w->comms[r], &b[r]);
		if (init(d, w->comms[r], b[r].send, b[r].recv, &requests[r], &err) < 0)
			fail_msg("%s %s: %s", ddl__collective_name(d->algorithm->collective), d->algorithm->name, err.text);
	}
	for (int start = 0; start < 2; start++) {
		for (int r = 0; r < d->n; r++) {
			if (!d->in_place && b[r].recv)
				memset(b[r].recv, 0x55, b[r].shape.output * size);
			for (size_t i = 0; i < b[r].shape.input; i++)
				store(b[r].send, d->type, i, value(reduces(d) ? d->op : DDL_SUM, r, i));
		}
		for (int r = 0; r < d->n; r++)
			assert_int_equal(ddl_start(requests[(r + start) % d->n]), 0);
		drive_well(requests, d->n);
		for (int r = 0; r < d->n; r++)
			check_rank(d, r, b[r].recv, b[r].shape.output);
	}
	for (int r = 0; r < d->n; r++) {
		assert_int_equal(ddl_request_free(requests[r]), 0);
		free(b[r].memory[0]);
		free(b[r].memory[1]);
	}
}

static size_t *random_counts(uint64_t *seed, size_t n, bool matrix, bool symmetric)
{
	size_t all = matrix ? n * n : n, *counts = calloc(all, sizeof(*counts));
	for (size_t i = 0; i < all; i++) {
		uint64_t x = next_random(seed);
		counts[i] = x % 3 == 0 ? 0 : x / 3 % 40;
	}
	for (size_t i = 0; matrix && symmetric && i < all; i++)
		counts[i] = counts[i % n * n + i / n];
	return counts;
}

static void draw_and_run(struct world *w, uint64_t *seed)
{
	const struct ddl__algorithm *rows[64];
	size_t n_rows = 0;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		if (a->collective >= DDL__REDUCE_SCATTER && a->collective != DDL__SENDRECV)
			rows[n_rows++] = a;
	uint64_t x = next_random(seed);
	struct draw d = { .n = w->n,
			  .algorithm = rows[x % n_rows],
			  .type = (enum ddl_type)(1 + (x >> 20) % 8),
			  .op = (enum ddl_op)(1 + (x >> 24) % 5),
			  .options = DDL_REQUEST_OPTIONS_INIT,
			  .count = (x >> 40) % 4 ? (x >> 42) % 50 : (x >> 42) % 3,
			  .in_place = (int)((x >> 36) % 2),
			  .root = (int)((x >> 50) % (uint64_t)w->n) };
	d.options.wire = (enum ddl_wire)((x >> 28) % 5);
	d.options.rings = (int)((x >> 32) % 4);
	d.options.algorithm = d.algorithm->name;
	if (d.algorithm->collective == DDL__ALLGATHER && ddl__wire_resolve(d.options.wire, d.type) != DDL_WIRE_NATIVE)
		d.options.algorithm = "ring"; /* the only one that rounds once */
	if (ddl__has_blocks(d.algorithm->collective) && (x >> 37) % 2)
		d.counts = random_counts(seed, (size_t)w->n, d.algorithm->collective == DDL__ALLTOALL, d.in_place);
	run_draw(w, &d);
	free(d.counts);
}

static void any_collective_count_type_and_tree_gives_what_it_should(void **state)
{
	uint64_t seed = 4711;
	for (int round = 0; round < 60; round++) {
		struct world w;
		world_init(&w, 1 + (int)(next_random(&seed) % RANKS_MAX), next_random(&seed), TIMEOUT_MS);
		ddl__loop_world_jitter(w.loop, round % 2 ? 3 : 0, seed);
		for (int k = 0; k < 12; k++)
			draw_and_run(&w, &seed);
		world_fini(&w);
	}
}

static void blocks_of_many_slices_are_right(void **state)
{
	struct world w;
	world_init(&w, 3, 9, TIMEOUT_MS);
	size_t counts[] = { 700001, 0, 300007 }, matrix[] = { 3, 600001, 0, 200001, 7, 400003, 0, 500009, 1 };
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		if (a->collective < DDL__REDUCE_SCATTER || a->collective == DDL__SENDRECV)
			continue;
		struct draw d = { .n = 3,
				  .algorithm = a,
				  .type = DDL_FLOAT32,
				  .op = DDL_SUM,
				  .options = DDL_REQUEST_OPTIONS_INIT,
				  .count = 600011,
				  .root = 1 };
		d.options.algorithm = a->name;
		run_draw(&w, &d);
		if (ddl__has_blocks(a->collective)) {
			d.counts = a->collective == DDL__ALLTOALL ? matrix : counts;
			run_draw(&w, &d);
		}
	}
	world_fini(&w);
}

/* ---- send and receive ---- */

static void messages_meet_by_their_order_on_each_tag_whatever_else_is_created(void **state)
{
	enum { N = 4, MESSAGES = 40 };
	struct world w;
	uint64_t seed = 3;
	static int32_t out[MESSAGES][100], in[MESSAGES][100];
	struct ddl_request *send[MESSAGES], *recv[MESSAGES];
	int from[MESSAGES], to[MESSAGES], results[2];
	uint32_t tag[MESSAGES];
	size_t count[MESSAGES];
	world_init(&w, N, 3, TIMEOUT_MS);
	ddl__loop_world_jitter(w.loop, 3, 17);
	for (int m = 0; m < MESSAGES; m++) {
		uint64_t x = next_random(&seed);
		from[m] = (int)(x % N);
		to[m] = (int)((x % N + 1 + x / 4 % (N - 1)) % N);
		tag[m] = x / 64 % 3 ? (uint32_t)(x / 64 % 3) : UINT32_MAX;
		count[m] = x / 256 % 100;
		memset(in[m], 0, sizeof(in[m]));
		for (size_t i = 0; i < 100; i++)
			out[m][i] = (int32_t)(m * 1000) + (int32_t)i;
		assert_int_equal(ddl_send_init(out[m], count[m], DDL_INT32, to[m], tag[m], w.comms[from[m]], NULL, &send[m], NULL),
				 0);
		if (m % 8 == 0) { /* two ranks' collectives are out of step with the messages */
			struct ddl_request *barrier;
			assert_int_equal(ddl_barrier_init(w.comms[from[m]], NULL, &barrier, NULL), 0);
			assert_int_equal(ddl_request_free(barrier), 0);
		}
	}
	for (uint32_t t = 0; t < 3; t++) /* tag by tag: the order between tags is another than that of the sends */
		for (int m = 0; m < MESSAGES; m++)
			if (tag[m] == (t ? 3 - t : UINT32_MAX))
				assert_int_equal(ddl_recv_init(in[m], count[m], DDL_INT32, from[m], tag[m], w.comms[to[m]], NULL,
							       &recv[m], NULL),
						 0);
	for (int start = 0; start < 3; start++)
		for (int k = 0; k < MESSAGES; k++) {
			int m = (k * 7 + start) % MESSAGES;
			struct ddl_request *pair[] = { send[m], recv[m] };
			out[m][0] = start;
			assert_int_equal(ddl_start(pair[start % 2]), 0);
			assert_int_equal(ddl_start(pair[1 - start % 2]), 0);
			drive(pair, 2, results);
			assert_true(results[0] == 1 && results[1] == 1);
			assert_memory_equal(in[m], out[m], count[m] * sizeof(int32_t));
			assert_int_equal(in[m][count[m]], 0);
		}
	for (int m = 0; m < MESSAGES; m++) {
		assert_int_equal(ddl_request_free(send[m]), 0);
		assert_int_equal(ddl_request_free(recv[m]), 0);
	}
	world_fini(&w);
}

struct thread {
	struct world *w;
	int rank, rc;
	pthread_t id;
};

/* Every rank calls the same blocking calls in the same order, with messages in between that only two ranks know of. */
static void *call_blocking(void *argument)
{
	struct thread *t = argument;
	struct ddl_comm *comm = t->w->comms[t->rank];
	int n = t->w->n, me = t->rank, next = (me + 1) % n, before = (me + n - 1) % n;
	int32_t in[64], out[64];
	for (size_t round = 0; round < 60 && t->rc == 0; round++) {
		size_t counts[RANKS_MAX], send_counts[RANKS_MAX], recv_counts[RANKS_MAX], total = 0;
		for (int r = 0; r < n; r++) {
			counts[r] = ((size_t)r + round) % (size_t)n; /* the same sum in every round */
			send_counts[r] = (size_t)(me + r) % 2 + round % 2;
			recv_counts[r] = send_counts[r];
			total += counts[r];
		}
		for (int i = 0; i < 64; i++)
			in[i] = me * 100 + i;
		t->rc = ddl_reduce_scatter(in, out, round % 4 + 1, DDL_INT32, DDL_MAX, comm);
		t->rc = t->rc ? t->rc : out[0] == (n - 1) * 100 + me * ((int)round % 4 + 1) ? 0 : -EBADMSG;
		t->rc = t->rc ? t->rc : ddl_allgather_counts(in, out, counts, DDL_INT32, comm);
		for (size_t i = 0, r = 0, k = 0; t->rc == 0 && i < total; i++, k++) {
			for (; k == counts[r]; r++)
				k = 0;
			t->rc = out[i] == (int32_t)(r * 100 + k) ? 0 : -EBADMSG;
		}
		t->rc = t->rc ? t->rc : ddl_alltoall_counts(in, send_counts, out, recv_counts, DDL_INT32, comm);
		for (size_t r = 0, k = 0; t->rc == 0 && r < (size_t)n;
		     r++) { /* what rank r sends lies behind what the lower ones get */
			size_t at = 0;
			for (size_t q = 0; q < (size_t)me; q++)
				at += (r + q) % 2 + round % 2;
			for (size_t i = 0; i < recv_counts[r]; i++)
				t->rc = t->rc ? t->rc : out[k++] == (int32_t)(r * 100 + at + i) ? 0 : -EBADMSG;
		}
		for (uint32_t tag = 0; tag < 2 && me % 2 == 0 && next % 2 == 1 && t->rc == 0; tag++)
			t->rc = ddl_send(in, round % 7 + tag, DDL_INT32, next, tag, comm);
		for (uint32_t tag = 0; tag < 2 && me % 2 == 1 && t->rc == 0; tag++) {
			t->rc = ddl_recv(out, round % 7 + tag, DDL_INT32, before, tag, comm);
			if (tag == 1 && out[0] != before * 100)
				t->rc = t->rc ? t->rc : -EBADMSG;
		}
	}
	return NULL;
}

static void blocking_calls_of_all_kinds_work_side_by_side(void **state)
{
	struct world w;
	struct thread threads[RANKS_MAX];
	world_init(&w, 5, 6, TIMEOUT_MS);
	for (int r = 0; r < w.n; r++) {
		threads[r] = (struct thread){ .w = &w, .rank = r };
		assert_int_equal(pthread_create(&threads[r].id, NULL, call_blocking, &threads[r]), 0);
	}
	for (int r = 0; r < w.n; r++)
		pthread_join(threads[r].id, NULL);
	for (int r = 0; r < w.n; r++)
		assert_int_equal(threads[r].rc, 0);
	world_fini(&w);
}

/* ---- what is wrong ---- */

static void ranks_that_disagree_are_told(struct ddl_request **requests, int n, const char *says)
{
	int results[RANKS_MAX];
	for (int r = 0; r < n; r++) {
		int rc = ddl_start(requests[r]);
		assert_true(rc == 0 || rc == -EPROTO);
	}
	drive(requests, n, results);
	for (int r = 0; r < n; r++) {
		struct ddl_error err;
		assert_int_equal(results[r], -EPROTO);
		assert_int_equal(ddl_comm_get_error(requests[r]->comm, &err), -EPROTO);
		if (!strstr(err.text, says))
			fail_msg("\"%s\" where \"%s\" was expected", err.text, says);
		ddl_request_free(requests[r]);
	}
}

static void other_counts_on_a_rank_are_told(void **state)
{
	struct world w;
	struct ddl_request *requests[3];
	float data[3][8] = { { 0 } }, out[3][8];
	world_init(&w, 3, 2, TIMEOUT_MS);
	for (int r = 0; r < 3; r++) { /* the same sum */
		const size_t counts[] = { 2, r == 1 ? 3 : 4, r == 1 ? 3 : 2 };
		assert_int_equal(ddl_reduce_scatter_counts_init(data[r], out[r], counts, DDL_FLOAT32, DDL_SUM, w.comms[r], NULL,
								&requests[r], NULL),
				 0);
	}
	ranks_that_disagree_are_told(requests, 3, "by counts (digest ");
	world_fini(&w);
}

static void a_pair_that_disagrees_in_an_all_to_all_is_told_though_others_differ_by_right(void **state)
{
	struct world w;
	struct ddl_request *requests[3];
	float data[3][8] = { { 0 } }, out[3][8];
	/* rank 1 sends rank 2 two elements; rank 2 expects none and sends none */
	const size_t send[3][3] = { { 1, 2, 0 }, { 0, 1, 2 }, { 3, 0, 0 } }, recv[3][3] = { { 1, 0, 3 }, { 2, 1, 0 }, { 0, 0, 0 } };
	world_init(&w, 3, 2, TIMEOUT_MS);
	for (int r = 0; r < 3; r++)
		assert_int_equal(ddl_alltoall_counts_init(data[r], send[r], out[r], recv[r], DDL_FLOAT32, w.comms[r], NULL,
							  &requests[r], NULL),
				 0);
	ranks_that_disagree_are_told(requests, 3, "all-to-all of f32 by counts (digest ");
	world_fini(&w);
}

static void a_message_of_another_length_is_told(void **state)
{
	struct world w;
	struct ddl_request *requests[2];
	float x[2] = { 0 };
	world_init(&w, 2, 2, TIMEOUT_MS);
	assert_int_equal(ddl_send_init(x, 2, DDL_FLOAT32, 1, 0, w.comms[0], NULL, &requests[0], NULL), 0);
	assert_int_equal(ddl_recv_init(x, 1, DDL_FLOAT32, 0, 0, w.comms[1], NULL, &requests[1], NULL), 0);
	ranks_that_disagree_are_told(requests, 2, "send/receive of 2 f32 from rank 0");
	world_fini(&w);
}

static void a_message_of_another_length_is_told_also_where_the_receiver_was_long_ready(void **state)
{
	struct world w;
	struct ddl_request *requests[2];
	float x[2] = { 0 };
	world_init(&w, 2, 2, TIMEOUT_MS);
	for (int k = 0; k < 2; k++) { /* the second message on a channel that both know */
		assert_int_equal(ddl_recv_init(x, 1, DDL_FLOAT32, 0, 0, w.comms[1], NULL, &requests[1], NULL), 0);
		if (k == 1)
			break;
		assert_int_equal(ddl_send_init(x, 1, DDL_FLOAT32, 1, 0, w.comms[0], NULL, &requests[0], NULL), 0);
		for (int r = 0; r < 2; r++)
			assert_int_equal(ddl_start(requests[r]), 0);
		drive_well(requests, 2);
		for (int r = 0; r < 2; r++)
			assert_int_equal(ddl_request_free(requests[r]), 0);
	}
	for (int pass = 0; pass < 10; pass++)
		ddl__engine_poke(w.comms[pass % 2]); /* the announcement arrives */
	assert_int_equal(w.comms[0]->n_early, 1);
	assert_int_equal(ddl_send_init(x, 2, DDL_FLOAT32, 1, 0, w.comms[0], NULL, &requests[0], NULL), 0);
	ranks_that_disagree_are_told(requests, 2, "send/receive of 2 f32 from rank 0");
	world_fini(&w);
}

static void bad_arguments_are_refused_with_a_sentence(void **state)
{
	struct world w;
	struct ddl_request *request;
	struct ddl_error err = { 0 };
	float x[8] = { 0 };
	const size_t counts[] = { 2, 1 }, twisted[] = { 1, 2 }, huge[] = { SIZE_MAX, 2 };
	world_init(&w, 2, 2, TIMEOUT_MS);
	struct ddl_comm *c = w.comms[1];
	assert_int_equal(ddl_allgather_counts_init(x, x + 4, NULL, DDL_FLOAT32, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "counts are NULL"));
	assert_int_equal(ddl_allgather_counts_init(x, x + 4, huge, DDL_FLOAT32, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "larger than memory"));
	assert_int_equal(ddl_allgather_init(x, x + 1, SIZE_MAX / 4, DDL_FLOAT32, c, NULL, &request, &err), -EINVAL);
	err.text[0] = '\0';
	assert_int_equal(ddl_allgather_init(x, x + 1, SIZE_MAX / 16 + 1, DDL_FLOAT32, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "larger than memory")); /* no buffer has more bytes than pointers can be apart */
	assert_int_equal(ddl_allgather_counts_init(x, x, counts, DDL_FLOAT32, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "overlap"));
	assert_int_equal(ddl_alltoall_counts_init(x, counts, x, twisted, DDL_FLOAT32, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "all-to-all in place: 2 elements go to rank 0 and 1 come from it"));
	assert_int_equal(ddl_alltoall_counts_init(x, counts, x + 4, NULL, DDL_FLOAT32, c, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_gather_init(x, x, 1, DDL_FLOAT32, 2, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "root 2"));
	assert_int_equal(ddl_reduce_scatter_init(x, NULL, 1, DDL_FLOAT32, DDL_SUM, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "receive buffer is NULL"));
	assert_int_equal(ddl_reduce_scatter_init(x, x + 4, 1, DDL_FLOAT32, 0, c, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_send_init(x, 1, DDL_FLOAT32, 1, 0, c, NULL, &request, &err), -EINVAL);
	assert_non_null(strstr(err.text, "name another rank"));
	assert_int_equal(ddl_recv_init(x, 1, DDL_FLOAT32, 2, 0, c, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_recv_init(x, 1, DDL_FLOAT32, -1, 0, c, NULL, &request, &err), -EINVAL);
	assert_int_equal(ddl_recv(NULL, 1, DDL_FLOAT32, 0, 0, c), -EINVAL);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_collective_count_type_and_tree_gives_what_it_should),
		cmocka_unit_test(blocks_of_many_slices_are_right),
		cmocka_unit_test(messages_meet_by_their_order_on_each_tag_whatever_else_is_created),
		cmocka_unit_test(blocking_calls_of_all_kinds_work_side_by_side),
		cmocka_unit_test(other_counts_on_a_rank_are_told),
		cmocka_unit_test(a_pair_that_disagrees_in_an_all_to_all_is_told_though_others_differ_by_right),
		cmocka_unit_test(a_message_of_another_length_is_told),
		cmocka_unit_test(a_message_of_another_length_is_told_also_where_the_receiver_was_long_ready),
		cmocka_unit_test(bad_arguments_are_refused_with_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
