/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_stats.c - from the times of the iterations to the figures of a row.
 */
#include <stdlib.h>

#include "perf.h"

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void ddl__perf_stats(double *times_us, size_t n, struct ddl__perf_result *result)
{
	qsort(times_us, n, sizeof(*times_us), compare);
	result->min_us = times_us[0];
	result->median_us = (times_us[(n - 1) / 2] + times_us[n / 2]) / 2;
	result->p99_us = times_us[(n * 99 + 99) / 100 - 1];
}

double ddl__perf_algbw(uint64_t bytes, double time_us)
{
	return time_us > 0 ? (double)bytes / time_us / 1e3 : 0;
}

double ddl__perf_busbw(enum ddl__perf_collective collective, int n_ranks, uint64_t bytes, double time_us)
{
	const double others = (double)(n_ranks - 1) / n_ranks;
	double factor = 1;

	switch (collective) {
	case DDL__PERF_ALLREDUCE:
		factor = 2 * others;
		break;
	case DDL__PERF_REDUCE_SCATTER:
	case DDL__PERF_ALLGATHER:
	case DDL__PERF_ALLTOALL:
	case DDL__PERF_GATHER:
	case DDL__PERF_SCATTER:
		factor = others;
		break;
	default:
		break;
	}
	return ddl__perf_algbw(bytes, time_us) * factor;
}
