/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - what harness.c and limit.c share. */
#ifndef DDL_BENCH_COMMON_H
#define DDL_BENCH_COMMON_H

#include <stddef.h>

#define SIZES_MAX 64

struct sizes {
	size_t bytes[SIZES_MAX];
	size_t n;
};

int sizes_parse(const char *text, struct sizes *sizes); /* "8,1024"; -1: not such a list, or too long */

double now_us(void); /* on a clock that all processes of this machine share */

void sort_doubles(double *values, size_t n);

double median(const double *sorted, size_t n); /* n > 0 */

/* One look less often at a flag that another core will write. */
static inline void pause_a_moment(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
