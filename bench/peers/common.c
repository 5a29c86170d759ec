/* SPDX-License-Identifier: Apache-2.0 */
/* common.c - lists of sizes, the clock, sorting. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common.h"

int sizes_parse(const char *text, struct sizes *sizes)
{
	char *end;

	for (sizes->n = 0; sizes->n < SIZES_MAX; text = end + 1) {
		unsigned long long value;

		if (!isdigit((unsigned char)*text))
			return -1;
		errno = 0;
		value = strtoull(text, &end, 10);
		if (errno || value == 0)
			return -1;
		sizes->bytes[sizes->n++] = (size_t)value;
		if (!*end)
			return 0;
		if (*end != ',')
			return -1;
	}
	return -1;
}

double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void sort_doubles(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
}

double median(const double *sorted, size_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}
