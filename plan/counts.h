/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counts.h - numbers, and numbers with runs, "2(x3),1", in 64 bits: what tasks-per-node and link speeds are written in.
 */
#ifndef DDL_PLAN_COUNTS_H
#define DDL_PLAN_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

/* Reads one decimal number of at most max that fills all length bytes. Returns 0; -EBADMSG. */
int ddl__number_read(const char *text, size_t length, uint64_t max, uint64_t *number);

/*
 * Reads exactly n numbers of at most max. what: how a sentence calls them ("tasks").
 * Returns 0; -EBADMSG (malformed, too large, or another count than n). On failure some of values may be written.
 */
int ddl__counts_expand(const char *text, size_t length, const char *what, uint64_t max, uint64_t *values, size_t n,
		       struct ddl_error *err);

/* The same for Slurm's tasks per node: text is NUL-ended. Returns 0; -EBADMSG; -ENOMEM. */
int ddl__tasks_expand(const char *text, uint32_t *tasks, size_t n, struct ddl_error *err);

/* The opposite of ddl__counts_expand(); *text is NUL-ended; caller frees. Returns 0 or -ENOMEM. */
int ddl__counts_compress(const uint64_t *values, size_t n, char **text);

#endif
