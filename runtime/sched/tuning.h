/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning.h - what each all-reduce took, measured at some sizes for one shape of job; for other sizes the times are interpolated.
 * `ddl perf --explore FILE` writes it and DDL_TUNE=FILE has rank 0 read it; without one a communicator measures for itself
 * (core/measure.h). All ranks choose by the same one.
 *
 *     # ddl tuning 1
 *     ranks 2 6 16                            most ranks below a vertex of level 0, 1, ...: the shape that it holds for
 *     allreduce 8 doubling 92500              bytes on the wire, candidate, nanoseconds
 *     allreduce 8 multiring:2x8 131000
 */
#ifndef DDL_SCHED_TUNING_H
#define DDL_SCHED_TUNING_H

#include <stdio.h>
#include <sys/types.h>

#include <ddl/error.h>

#include "select.h"

#define DDL__TUNING_MAX      512   /* times */
#define DDL__TUNING_TEXT_MAX 32768 /* bytes of a file */

struct ddl__tuned {
	uint64_t bytes;                  /* on the wire, at least 1 */
	struct ddl__candidate candidate; /* of all-reduce */
	uint64_t ns;                     /* what it took */
};

struct ddl__tuning {
	uint32_t n_levels;               /* of the shape */
	uint32_t ranks[DDL__LEVELS_MAX]; /* as struct ddl__level has them */
	size_t n;                        /* times, by ascending size */
	struct ddl__tuned at[DDL__TUNING_MAX];
};

/* Sets the shape; no times. */
void ddl__tuning_init(struct ddl__tuning *tuning, const struct ddl__model *model);

/* Adds a time, or replaces what the candidate had at that size if this is shorter. -ENOSPC: there are DDL__TUNING_MAX. */
int ddl__tuning_add(struct ddl__tuning *tuning, uint64_t bytes, const struct ddl__candidate *candidate, uint64_t ns);

/* Reads a text. Returns 0; -EBADMSG with the line (one of an unknown kind too: the version says what there is); -ENOMEM. */
int ddl__tuning_parse(const char *text, size_t length, struct ddl__tuning *tuning, struct ddl_error *err);

/*
 * Reads a file. text: room for DDL__TUNING_TEXT_MAX, gets its bytes. Returns how many; the errno of opening or reading; as
 * ddl__tuning_parse().
 */
ssize_t ddl__tuning_read(const char *path, char *text, struct ddl__tuning *tuning, struct ddl_error *err);

/* Writes one. */
void ddl__tuning_print(const struct ddl__tuning *tuning, FILE *out);

/* Whether it was measured for this shape. */
bool ddl__tuning_fits(const struct ddl__tuning *tuning, const struct ddl__model *model);

/* Why it does not fit, for people: "measured on 2 ranks, at most 2 on a node; here are 3 and 3". Returns text. */
char *ddl__tuning_misfit(const struct ddl__tuning *tuning, const struct ddl__model *model, char *text, size_t size);

/*
 * The time of a candidate for so many bytes, in nanoseconds: between two sizes that it was measured at on the line through
 * both; below the smallest of all sizes as there; above the largest of all as the last two grow. 0: not known,
 * since it was not measured on both sides (it was too slow to go on with, or was not tried).
 */
double ddl__tuning_time(const struct ddl__tuning *tuning, const struct ddl__candidate *candidate, uint64_t bytes);

/*
 * The fastest candidate for so many bytes, the plain ring where nothing is clearly faster; where no time is known, that of the
 * size nearest by ratio. Returns 0 or -ENOENT: there are no times.
 */
int ddl__tuning_find(const struct ddl__tuning *tuning, uint64_t bytes, struct ddl__candidate *candidate);

#endif
