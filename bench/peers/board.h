/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - a file that all ranks of a run have mapped: the barrier before every iteration, the times, the verdicts.
 *
 * It is the harness's own so that all libraries start from the same barrier, and none is measured with another's.
 */
#ifndef DDL_BENCH_BOARD_H
#define DDL_BENCH_BOARD_H

#include <stddef.h>

#include "harness.h"

#define BOARD_SAMPLES 4096 /* iterations at most */
#define BOARD_BYTES   8192 /* of bench_share() at most */

struct board;

/* Maps the file, which is empty at first. Returns NULL after a sentence on standard error. */
struct board *board_open(const char *path, int rank, int size, int sleeps);
void board_close(struct board *board);

void board_barrier(struct board *board);                       /* returns when all ranks are here */
int board_share(struct board *board, void *data, size_t size); /* rank 0's bytes for all; -1: too many */
double *board_samples(struct board *board, int rank);          /* BOARD_SAMPLES numbers of a rank, seen by all */
void board_verdict(struct board *board, int correct);          /* this rank's */
int board_all_correct(const struct board *board);              /* of all ranks; valid behind a barrier */

#endif
