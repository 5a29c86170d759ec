/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the clock that only goes forward, for every part that links plan/.
 */
#ifndef DDL_PLAN_CLOCK_H
#define DDL_PLAN_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t ddl__now_ms(void);

/* The time in timeout_ms (0 or more) from now, for waits by CLOCK_MONOTONIC. */
struct timespec ddl__deadline(int timeout_ms);

#endif
