/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reproducible all-reduces over transport/loop have the bits of one loop over the ranks: whatever the algorithm, the rings, the
 * tree and who is where in it, and however the message is cut. Special values too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "engine_world.h"

enum { COUNT = 3000, BLOCK = 256 };

struct job {
	enum ddl_type type;
	enum ddl_op op;
	enum ddl_wire wire;
	enum ddl_rounding rounding;
	const char *algorithm;
	int rings;
	size_t begin, count; /* the part of the message that the request reduces */
};

union array {
	float f32[COUNT];
	double f64[COUNT];
	uint16_t u16[COUNT];
};

struct data {
	union array send[RANKS_MAX], recv[RANKS_MAX], want;
};

static struct data data;

/* Numbers of many magnitudes, so that the order of additions shows; and now and then what is none. */
static double some_number(uint64_t *seed)
{
	static const double odds[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-42, -1e-41 };
	uint64_t x = next_random(seed);
	if (x % 97 == 0)
		return odds[x / 97 % 7];
	double f = ldexp((double)(x >> 40) * 0x1p-24 + 0.25, -(int)(x % 10));
	return x >> 16 & 1 ? -f : f;
}

static void fill(enum ddl_type type, int n)
{
	uint64_t seed = 77;
	for (int r = 0; r < n; r++)
		for (size_t i = 0; i < COUNT; i++)
			store(&data.send[r], type, i, some_number(&seed));
}

/* A contribution as it arrives. */
static void arrive(const struct ddl__kernels *k, const union array *from, union array *to)
{
	static _Alignas(8) char wire[COUNT * 8 + COUNT];
	k->encode(wire, from, COUNT);
	k->decode(to, wire, COUNT);
}

static double apply(enum ddl_op op, enum ddl_type type, double a, double b)
{
	double x = op == DDL_PROD ? a * b : a + b;
	if (type == DDL_FLOAT64)
		return x;
	return op == DDL_PROD ? (double)((float)a * (float)b) : (double)((float)a + (float)b);
}

/* The loop: ((0 + 1) + 2) + ..., of what arrives, divided and rounded once. */
static void expect(const struct job *job, int n)
{
	static union array part[RANKS_MAX], sum;
	const struct ddl__kernels *k = ddl__kernels_get(job->op, job->type, job->wire);
	for (int r = 0; r < n; r++)
		arrive(k, &data.send[r], &part[r]);
	for (size_t i = 0; i < COUNT; i++) {
		double x = fetch(&part[0], job->type, i);
		for (int r = 1; r < n; r++)
			x = apply(job->op, job->type, x, fetch(&part[r], job->type, i));
		if (job->op == DDL_AVG)
			x = job->type == DDL_FLOAT64 ? x / n : (double)((float)x / (float)n);
		store(&sum, job->type, i, isnan(x) ? (double)NAN : x);
	}
	arrive(k, &sum, &data.want);
}

static int run(const struct job *job, struct world *w, struct ddl_error *err)
{
	const size_t size = ddl_type_size(job->type);
	struct ddl_request *requests[RANKS_MAX];
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	options.wire = job->wire;
	options.algorithm = job->algorithm;
	options.rings = job->rings;
	options.rounding = job->rounding;
	options.seed = 5;
	options.reproducible = 1;
	for (int r = 0; r < w->n; r++) {
		int rc = ddl_allreduce_init((char *)&data.send[r] + job->begin * size, (char *)&data.recv[r] + job->begin * size,
					    job->count, job->type, job->op, w->comms[r], &options, &requests[r], err);
		if (rc < 0)
			return rc; /* on the first rank, as on all */
	}
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl_start(requests[r]), 0);
	drive_well(requests, w->n);
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl_request_free(requests[r]), 0);
	return 0;
}

static void compare(const struct job *job, const struct world *w, uint64_t seed)
{
	const size_t size = ddl_type_size(job->type);
	for (int r = 0; r < w->n; r++)
		for (size_t i = 0; i < COUNT; i++)
			if (memcmp((char *)&data.recv[r] + i * size, (char *)&data.want + i * size, size) != 0)
				fail_msg("%s, type %d, wire %d, op %d, %d rings, %d ranks, tree %llu: rank %d element %zu is %a, "
					 "not %a",
					 job->algorithm ? job->algorithm : "chosen", job->type, job->wire, job->op, job->rings,
					 w->n, (unsigned long long)seed, r, i, fetch(&data.recv[r], job->type, i),
					 fetch(&data.want, job->type, i));
}

/* The whole message at once, and in parts. Returns whether the algorithm can do it. */
static bool try(struct job job, struct world *w, uint64_t seed)
{
	static const size_t ends[] = { COUNT, 3 * BLOCK, 8 * BLOCK, COUNT };
	struct ddl_error err = { 0 };
	memset(data.recv, 0x55, sizeof(data.recv));
	job.count = COUNT;
	int rc = run(&job, w, &err);
	if (rc == -EOPNOTSUPP && job.algorithm)
		return false;
	if (rc < 0)
		fail_msg("%s", err.text);
	compare(&job, w, seed);
	memset(data.recv, 0x55, sizeof(data.recv));
	for (int part = 1; part < 4; part++) {
		job.begin = part > 1 ? ends[part - 1] : 0;
		job.count = ends[part] - job.begin;
		assert_int_equal(run(&job, w, &err), 0);
	}
	compare(&job, w, seed);
	return true;
}

static int over_all_algorithms(struct job job, struct world *w, uint64_t seed)
{
	int can = 0;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		for (job.rings = 1; a->collective == DDL__ALLREDUCE && job.rings <= 2; job.rings++) {
			job.algorithm = a->name;
			can += try(job, w, seed);
		}
	job.algorithm = NULL;
	job.rings = 0;
	assert_true(try(job, w, seed));
	return can;
}

static const struct job kinds[] = {
	{ .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_NATIVE },
	{ .type = DDL_FLOAT32, .op = DDL_AVG, .wire = DDL_WIRE_BFLOAT16 },
	{ .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_INT8 },
	{ .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_FLOAT16 },
	{ .type = DDL_FLOAT64, .op = DDL_PROD, .wire = DDL_WIRE_NATIVE },
	{ .type = DDL_BFLOAT16, .op = DDL_SUM, .wire = DDL_WIRE_NATIVE },
	{ .type = DDL_FLOAT16, .op = DDL_AVG, .wire = DDL_WIRE_NATIVE },
};

static void bits_are_those_of_a_loop_over_the_ranks(void **state)
{
	static const int sizes[] = { 2, 3, 7, 16 };
	for (size_t i = 0; i < 4; i++)
		for (uint64_t seed = 2; seed < 4; seed++) { /* trees, and in odd ones ranks in any order */
			struct world w;
			world_init(&w, sizes[i], seed, TIMEOUT_MS);
			for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
				fill(kinds[k].type, w.n);
				expect(&kinds[k], w.n);
				if (over_all_algorithms(kinds[k], &w, seed) < 2)
					fail_msg("no algorithm can do kind %zu on %d ranks", k, w.n);
			}
			world_fini(&w);
		}
}

/* By chance, too: it depends on seed, request, start, element and who contributes, not on who completes the sum. */
static void chance_does_not_depend_on_who_is_where(void **state)
{
	static const struct job job = { .type = DDL_FLOAT32,
					.op = DDL_SUM,
					.wire = DDL_WIRE_BFLOAT16,
					.rounding = DDL_ROUND_STOCHASTIC,
					.algorithm = "direct",
					.rings = 1,
					.count = COUNT };
	static union array first;
	struct ddl_error err = { 0 };
	fill(job.type, 6);
	for (uint64_t seed = 1; seed < 6; seed++) {
		struct world w;
		world_init(&w, 6, seed, TIMEOUT_MS);
		assert_int_equal(run(&job, &w, &err), 0);
		if (seed == 1)
			first = data.recv[0];
		data.want = first;
		compare(&job, &w, seed);
		world_fini(&w);
	}
}

static void what_adds_in_another_order_is_refused_with_a_sentence(void **state)
{
	struct job job = { .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_BFLOAT16, .algorithm = "ring", .count = 9 };
	struct ddl_error err = { 0 };
	struct world w;
	world_init(&w, 4, 3, TIMEOUT_MS);
	assert_int_equal(run(&job, &w, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "ring"));
	assert_non_null(strstr(err.text, "order of ranks"));
	assert_non_null(strstr(err.text, "direct"));
	job.type = DDL_INT32; /* sums of whole numbers are the same in any order */
	assert_int_equal(run(&job, &w, &err), 0);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_are_those_of_a_loop_over_the_ranks),
		cmocka_unit_test(chance_does_not_depend_on_who_is_where),
		cmocka_unit_test(what_adds_in_another_order_is_refused_with_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
