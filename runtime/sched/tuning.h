/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning.h - which all-reduce was measured to be the fastest at which size, for one shape of job. `ddl perf --explore FILE` writes
 * it, DDL_TUNE=FILE has rank 0 read it and all ranks choose by it.
 *
 *     # ddl tuning 1
 *     ranks 2 6 16                  most ranks below a vertex of level 0, 1, ...: the shape that it holds for
 *     allreduce 8 doubling 92500    bytes on the wire, algorithm, nanoseconds
 */
#ifndef DDL_SCHED_TUNING_H
#define DDL_SCHED_TUNING_H

#include <stdio.h>

#include <ddl/error.h>

#include "select.h"

#define DDL__TUNING_MAX      256   /* sizes */
#define DDL__TUNING_TEXT_MAX 32768 /* bytes of a file */

struct ddl__tuned {
	uint64_t bytes;                         /* on the wire, at least 1 */
	const struct ddl__algorithm *algorithm; /* of the table */
	uint64_t ns;                            /* what it took */
};

struct ddl__tuning {
	uint32_t n_levels;               /* of the shape */
	uint32_t ranks[DDL__LEVELS_MAX]; /* as struct ddl__level has them */
	size_t n;                        /* sizes, ascending */
	struct ddl__tuned at[DDL__TUNING_MAX];
};

/* Sets the shape; no sizes. */
void ddl__tuning_init(struct ddl__tuning *tuning, const struct ddl__model *model);

/* Adds a size, or replaces what it had if this is faster. -ENOSPC: there are DDL__TUNING_MAX. */
int ddl__tuning_add(struct ddl__tuning *tuning, uint64_t bytes, const struct ddl__algorithm *algorithm, uint64_t ns);

/* Reads a text. Returns 0; -EBADMSG with the line (one of an unknown kind too: the version says what there is); -ENOMEM. */
int ddl__tuning_parse(const char *text, size_t length, struct ddl__tuning *tuning, struct ddl_error *err);

/* Writes one. */
void ddl__tuning_print(const struct ddl__tuning *tuning, FILE *out);

/* Whether it was measured for this shape. */
bool ddl__tuning_fits(const struct ddl__tuning *tuning, const struct ddl__model *model);

/* The algorithm of the size nearest to bytes, by ratio; NULL: there is none. */
const struct ddl__algorithm *ddl__tuning_find(const struct ddl__tuning *tuning, uint64_t bytes);

#endif
