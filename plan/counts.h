/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counts.h - numbers with runs, "2(x3),1", in 64 bits: what tasks-per-node and link speeds are written in.
 */
#ifndef DDL_PLAN_COUNTS_H
#define DDL_PLAN_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

/*
 * Reads exactly n numbers of at most max. what: how a sentence calls them ("tasks").
 * Returns 0; -EBADMSG (malformed, too large, or another count than n). On failure some of values may be written.
 */
int ddl__counts_expand(const char *text, size_t length, const char *what, uint64_t max, uint64_t *values, size_t n,
		       struct ddl_error *err);

/* The opposite; *text is NUL-ended; caller frees. Returns 0 or -ENOMEM. */
int ddl__counts_compress(const uint64_t *values, size_t n, char **text);

#endif
