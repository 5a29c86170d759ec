/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.c - the shared file: a counting barrier, and room for every rank's times.
 *
 * Waiting spins where every rank has a core for itself, and sleeps where it has not: the last one to arrive could not come
 * otherwise. Yielding is not enough: the kernel may pick the one that yields again and again. Waiting is not bounded here, since
 * the program as a whole is (alarm).
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "board.h"
#include "common.h"

#define LINE  128 /* bytes: two cache lines, which processors fetch in pairs */
#define SPINS 200 /* before it sleeps */

struct shared {
	_Alignas(LINE) _Atomic unsigned arrived;    /* ranks at the barrier */
	_Alignas(LINE) _Atomic unsigned generation; /* barriers passed */
	_Alignas(LINE) unsigned char bytes[BOARD_BYTES];
	_Alignas(LINE) int correct[BENCH_RANKS_MAX];
	_Alignas(LINE) double samples[BENCH_RANKS_MAX][BOARD_SAMPLES];
};

struct board {
	struct shared *shared;
	int rank;   /* of this process */
	int size;   /* number of ranks */
	int sleeps; /* ranks share cores, with each other or with threads */
};

struct board *board_open(const char *path, int rank, int size, int sleeps)
{
	struct board *board = calloc(1, sizeof(*board));
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (!board || fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0) {
		fprintf(stderr, "harness: rank %d cannot open the board \"%s\": %m\n", rank, path);
		goto fail;
	}
	board->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (board->shared == MAP_FAILED) {
		fprintf(stderr, "harness: rank %d cannot map the board \"%s\": %m\n", rank, path);
		goto fail;
	}
	close(fd);
	board->rank = rank;
	board->size = size;
	board->sleeps = sleeps;
	memset(board->shared->samples[rank], 0, sizeof(board->shared->samples[rank])); /* no page fault is timed */
	return board;
fail:
	if (fd >= 0)
		close(fd);
	free(board);
	return NULL;
}

void board_close(struct board *board)
{
	if (!board)
		return;
	munmap(board->shared, sizeof(struct shared));
	free(board);
}

void board_barrier(struct board *board)
{
	struct shared *s = board->shared;
	const unsigned generation = atomic_load_explicit(&s->generation, memory_order_relaxed);

	if (atomic_fetch_add(&s->arrived, 1) + 1 == (unsigned)board->size) {
		atomic_store_explicit(&s->arrived, 0, memory_order_relaxed);
		atomic_store(&s->generation, generation + 1);
		if (board->sleeps)
			syscall(SYS_futex, &s->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		return;
	}
	for (unsigned n = 0; atomic_load(&s->generation) == generation; n++) {
		if (board->sleeps && n >= SPINS)
			syscall(SYS_futex, &s->generation, FUTEX_WAIT, generation, NULL, NULL, 0);
		else
			pause_a_moment();
	}
}

int board_share(struct board *board, void *data, size_t size)
{
	if (size > BOARD_BYTES) {
		fprintf(stderr, "harness: %zu bytes do not fit onto the board of %d\n", size, BOARD_BYTES);
		return -1;
	}
	if (board->rank == 0)
		memcpy(board->shared->bytes, data, size);
	board_barrier(board);
	memcpy(data, board->shared->bytes, size);
	board_barrier(board);
	return 0;
}

double *board_samples(struct board *board, int rank)
{
	return board->shared->samples[rank];
}

void board_verdict(struct board *board, int correct)
{
	board->shared->correct[board->rank] = correct;
}

int board_all_correct(const struct board *board)
{
	for (int rank = 0; rank < board->size; rank++) {
		if (!board->shared->correct[rank])
			return 0;
	}
	return 1;
}
