/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_stats.c - median, percentile and bandwidths of `ddl perf`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "perf.h"

static void one_time_is_all_figures(void **state)
{
	struct ddl__perf_result result = { .correct = 0 };
	double times[] = { 7 };

	ddl__perf_stats(times, 1, &result);
	assert_true(result.min_us == 7 && result.median_us == 7 && result.p99_us == 7);
}

static void the_median_of_an_even_number_is_between_the_middle_ones(void **state)
{
	struct ddl__perf_result result = { .correct = 0 };
	double even[] = { 9, 1, 3, 2 }, odd[] = { 5, 4, 100 };

	ddl__perf_stats(even, 4, &result);
	assert_true(result.min_us == 1 && result.median_us == 2.5 && result.p99_us == 9);
	ddl__perf_stats(odd, 3, &result);
	assert_true(result.min_us == 4 && result.median_us == 5 && result.p99_us == 100);
}

static void the_percentile_is_by_nearest_rank(void **state)
{
	struct ddl__perf_result result = { .correct = 0 };
	double times[200];

	for (int i = 0; i < 200; i++)
		times[i] = 200 - i;
	ddl__perf_stats(times, 200, &result);
	assert_true(result.p99_us == 198);
	for (int i = 0; i < 100; i++)
		times[i] = 100 - i;
	ddl__perf_stats(times, 100, &result);
	assert_true(result.p99_us == 99);
}

static void bandwidths_are_those_of_nccl_tests(void **state)
{
	static const struct {
		enum ddl__perf_collective collective;
		int ranks;
		double factor;
	} rows[] = {
		{ DDL__PERF_ALLREDUCE, 1, 0 },         { DDL__PERF_ALLREDUCE, 2, 1 },
		{ DDL__PERF_ALLREDUCE, 4, 1.5 },       { DDL__PERF_ALLREDUCE, 16, 1.875 },
		{ DDL__PERF_BROADCAST, 4, 1 },         { DDL__PERF_BARRIER, 4, 1 },
		{ DDL__PERF_REDUCE_SCATTER, 4, 0.75 }, { DDL__PERF_ALLGATHER, 8, 0.875 },
		{ DDL__PERF_ALLTOALL, 2, 0.5 },        { DDL__PERF_REDUCE, 4, 1 },
		{ DDL__PERF_GATHER, 4, 0.75 },         { DDL__PERF_SCATTER, 4, 0.75 },
		{ DDL__PERF_SENDRECV, 4, 1 },
	};

	assert_true(ddl__perf_algbw(1000000000, 1e6) == 1.0);
	assert_true(ddl__perf_algbw(0, 5) == 0);
	assert_true(ddl__perf_algbw(5, 0) == 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_true(ddl__perf_busbw(rows[i].collective, rows[i].ranks, 2000000000, 1e6) == 2.0 * rows[i].factor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_time_is_all_figures),
		cmocka_unit_test(the_median_of_an_even_number_is_between_the_middle_ones),
		cmocka_unit_test(the_percentile_is_by_nearest_rank),
		cmocka_unit_test(bandwidths_are_those_of_nccl_tests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
