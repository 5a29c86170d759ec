/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.c - see clock.h.
 */
#include "clock.h"

int64_t ddl__now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct timespec ddl__deadline(int timeout_ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += timeout_ms / 1000;
	at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	return at;
}
