/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - what every benchmark program begins with: which rank it is, on which core, and where it meets the others. */
#ifndef DDL_BENCH_RANKS_H
#define DDL_BENCH_RANKS_H

#include "board.h"
#include "harness.h"

struct ranks_options { /* that every program has */
	struct bench_settings settings;
	const char *board; /* path of the shared file */
	const char *out;   /* path of the results */
	unsigned limit_s;  /* the whole program's life */
};

/* What they are where nothing is said; their rows for getopt_long(). */
#define RANKS_DEFAULTS                                                                                                             \
	{                                                                                                                          \
		.settings = { .type = BENCH_FLOAT32, .wire = "native", .buffers = "malloc", .interface = "", .way = "" },          \
		.limit_s = 60                                                                                                      \
	}
#define RANKS_OPTIONS                                                                                                              \
	{ "board", 1, NULL, 'b' }, { "out", 1, NULL, 'o' }, { "folder", 1, NULL, 'f' }, { "limit-s", 1, NULL, 'l' },               \
		{ "interface", 1, NULL, 'i' }, { "rank", 1, NULL, 'r' },                                                           \
	{                                                                                                                          \
		"size", 1, NULL, 'n'                                                                                               \
	}

/* Takes one of these; -1: it is none of them, or not with that value. */
int ranks_option(int c, const char *value, struct ranks_options *options);

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
