/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - what every benchmark program begins with: which rank it is, on which core, and where it meets the others. */
#ifndef DDL_BENCH_RANKS_H
#define DDL_BENCH_RANKS_H

#include "board.h"
#include "harness.h"

/* Rank and size as the launcher's environment tells them; -1 where it does not. */
void ranks_from_environment(struct bench_settings *settings);

/* Whether they can be; -1 after a sentence. */
int ranks_check(const struct bench_settings *settings);

/*
 * Binds this rank to a core and opens the board, which bench_barrier() and bench_share() use from then on. NULL after a sentence.
 * Closed with board_close().
 */
struct board *ranks_meet(struct bench_settings *settings, const char *path);

#endif
