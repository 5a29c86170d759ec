/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every algorithm for all-reduce promises beside the right sum: the same bits on all ranks and in every run, for any values,
 * and how often values are rounded on a lossy wire.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "engine_world.h"

enum { COUNT = 211, ELEMENT_MAX = 8 };

struct job {
	const char *algorithm;
	enum ddl_type type;
	enum ddl_op op;
	enum ddl_wire wire;
	char *data[RANKS_MAX];   /* inputs: COUNT elements of a rank */
	char *result[RANKS_MAX]; /* outputs */
};

static void job_init(struct job *job, int n)
{
	for (int r = 0; r < n; r++) {
		job->data[r] = calloc(COUNT, ELEMENT_MAX);
		job->result[r] = calloc(COUNT, ELEMENT_MAX);
	}
}

static void job_fini(struct job *job, int n)
{
	for (int r = 0; r < n; r++) {
		free(job->data[r]);
		free(job->result[r]);
	}
}

static void run_job(struct world *w, struct job *job)
{
	struct ddl_request *requests[RANKS_MAX];
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err = { 0 };
	options.algorithm = job->algorithm;
	options.wire = job->wire;
	for (int r = 0; r < w->n; r++) {
		memset(job->result[r], 0, COUNT * ELEMENT_MAX);
		if (ddl_allreduce_init(job->data[r], job->result[r], COUNT, job->type, job->op, w->comms[r], &options, &requests[r],
				       &err) < 0)
			fail_msg("%s", err.text);
		assert_int_equal(ddl_start(requests[r]), 0);
	}
	drive_well(requests, w->n);
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl_request_free(requests[r]), 0);
}

/* Any bits are a value; often it is a zero of either sign or a NaN with a sign and a payload. */
static uint64_t any_bits(uint64_t *seed, enum ddl_type type)
{
	static const uint64_t quiet[] = { [DDL_FLOAT64] = 0x7ff8u * 0x1000000000000u,
					  [DDL_FLOAT32] = 0x7fc00000,
					  [DDL_FLOAT16] = 0x7e00,
					  [DDL_BFLOAT16] = 0x7fc0 };
	uint64_t x = next_random(seed), sign = (x >> 8 & 1) << (ddl_type_size(type) * 8 - 1);
	switch (x % 8) {
	case 0:
	case 1:
		return sign;
	case 2:
		return sign | quiet[type] | (x >> 16 & 0x1f);
	default:
		return x >> 9;
	}
}

static void check_bits(struct world *w, struct job *job, uint64_t *seed)
{
	size_t size = ddl_type_size(job->type);
	char first[COUNT * ELEMENT_MAX];
	for (int r = 0; r < w->n; r++)
		for (size_t i = 0; i < COUNT; i++) {
			uint64_t bits = any_bits(seed, job->type);
			memcpy(job->data[r] + i * size, &bits, size); /* the low bytes: little-endian hosts only */
		}
	for (int run = 0; run < 2; run++) {
		ddl__loop_world_jitter(w->loop, run ? 3 : 0, *seed);
		run_job(w, job);
		for (int r = 0; r < w->n; r++)
			for (size_t i = 0; i < COUNT; i++)
				if (memcmp(job->result[0] + i * size, job->result[r] + i * size, size) != 0)
					fail_msg("%s, %d ranks, type %d, operation %d, wire %d: element %zu is %.9g on rank 0 and "
						 "%.9g on rank %d, or has other bits",
						 job->algorithm, w->n, job->type, job->op, job->wire, i,
						 fetch(job->result[0], job->type, i), fetch(job->result[r], job->type, i), r);
		if (run == 0)
			memcpy(first, job->result[0], COUNT * size);
		assert_memory_equal(first, job->result[0], COUNT * size);
	}
}

static void every_algorithm_gives_the_same_bits_on_all_ranks_for_any_values(void **state)
{
	static const int sizes[] = { 2, 3, 6, 8, 11, 16 };
	uint64_t seed = 2026;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct world w;
		struct job job = { 0 };
		world_init(&w, sizes[s], 31 + s, TIMEOUT_MS);
		job_init(&job, w.n);
		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
			if (a->collective != DDL__ALLREDUCE)
				continue;
			job.algorithm = a->name;
			for (int op = DDL_SUM; op <= DDL_PROD; op++) {
				job.op = (enum ddl_op)op;
				job.wire = DDL_WIRE_NATIVE;
				for (int type = DDL_FLOAT64; type <= DDL_BFLOAT16; type++) {
					job.type = (enum ddl_type)type;
					check_bits(&w, &job, &seed);
				}
				job.type = DDL_FLOAT32;
				for (int wire = DDL_WIRE_BFLOAT16; wire <= DDL_WIRE_INT8; wire++) {
					job.wire = (enum ddl_wire)wire;
					check_bits(&w, &job, &seed);
				}
			}
		}
		job_fini(&job, w.n);
		world_fini(&w);
	}
}

/* With bfloat16 on the wire one rounding is off by 2^-8 of the value at most. */
static void direct_rounds_each_contribution_once_and_the_result_once(void **state)
{
	enum { N = 16 };
	const double unit = 0x1p-8, float32 = N * 0x1p-24;
	struct world w;
	struct job job = { .algorithm = "direct", .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_BFLOAT16 };
	uint64_t seed = 7;
	world_init(&w, N, 3, TIMEOUT_MS);
	job_init(&job, N);
	for (int r = 0; r < N; r++)
		for (size_t i = 0; i < COUNT; i++)
			store(job.data[r], DDL_FLOAT32, i, (double)(next_random(&seed) >> 11) * 0x1p-53 - (i % 2 ? 0.5 : 0));
	run_job(&w, &job);
	for (size_t i = 0; i < COUNT; i++) {
		double sum = 0, size = 0;
		for (int r = 0; r < N; r++) {
			sum += fetch(job.data[r], DDL_FLOAT32, i);
			size += fabs(fetch(job.data[r], DDL_FLOAT32, i));
		}
		double contributions = size * (unit + float32), result = (fabs(sum) + contributions) * unit;
		double off = fabs(fetch(job.result[0], DDL_FLOAT32, i) - sum);
		if (off > contributions + result)
			fail_msg("element %zu is off by %g, which is more than %g", i, off, contributions + result);
	}
	job_fini(&job, N);
	world_fini(&w);
}

/* Data in bfloat16 is added in float32: the result is off by its own rounding only. */
static void exchange_rounds_the_sum_of_short_floats_once(void **state)
{
	enum { N = 16 };
	struct world w;
	struct job job = { .algorithm = "exchange", .type = DDL_BFLOAT16, .op = DDL_SUM, .wire = DDL_WIRE_NATIVE };
	uint64_t seed = 11;
	world_init(&w, N, 3, TIMEOUT_MS);
	job_init(&job, N);
	for (int r = 0; r < N; r++)
		for (size_t i = 0; i < COUNT; i++)
			store(job.data[r], DDL_BFLOAT16, i, (double)(next_random(&seed) >> 11) * 0x1p-53 - (i % 2 ? 0.5 : 0));
	run_job(&w, &job);
	for (size_t i = 0; i < COUNT; i++) {
		double sum = 0, size = 0;
		for (int r = 0; r < N; r++) {
			sum += fetch(job.data[r], DDL_BFLOAT16, i);
			size += fabs(fetch(job.data[r], DDL_BFLOAT16, i));
		}
		double off = fabs(fetch(job.result[0], DDL_BFLOAT16, i) - sum), most = fabs(sum) * 0x1p-8 + size * N * 0x1p-24;
		if (off > most)
			fail_msg("element %zu is off by %g, which is more than %g", i, off, most);
	}
	job_fini(&job, N);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_gives_the_same_bits_on_all_ranks_for_any_values),
		cmocka_unit_test(direct_rounds_each_contribution_once_and_the_result_once),
		cmocka_unit_test(exchange_rounds_the_sum_of_short_floats_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
