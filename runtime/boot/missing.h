/* SPDX-License-Identifier: Apache-2.0 */
/*
 * missing.h - which ranks a fence waited for in vain, as a sentence.
 */
#ifndef DDL_BOOT_MISSING_H
#define DDL_BOOT_MISSING_H

#include <ddl/error.h>

#define DDL__MISSING_MAX 4 /* ranks that the sentence names */

struct ddl__missing { /* starts as all zero */
	int n;        /* missing ranks */
	char list[DDL__MISSING_MAX * 12 + 16];
};

/* One more is missing; they come in any order. */
void ddl__missing_add(struct ddl__missing *missing, int rank);

/* The sentence; over: the way of the exchange ("PMIx"). At least one rank is missing. Returns -ETIMEDOUT. */
int ddl__missing_tell(const struct ddl__missing *missing, int n_ranks, const char *over, int timeout_ms, struct ddl_error *err);

#endif
