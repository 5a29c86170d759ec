/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.h - reduce-many for any type and operation: goes through memory in blocks whose accumulators stay in the first cache, in the
 * order of the sources; a kernel set brings the loops.
 */
#ifndef DDL_REDUCE_MANY_H
#define DDL_REDUCE_MANY_H

#include <stddef.h>

enum { DDL__MANY_BLOCK = 512 }; /* elements */

struct ddl__many {         /* the loops of one (type, operation) */
	size_t type_bytes; /* of an element in memory */
	/* acc = src */
	void (*load)(void *acc, const void *src, size_t n);
	/* acc = op(a, b) */
	void (*first)(void *acc, const void *a, const void *b, size_t n);
	/* acc = op(acc, a) */
	void (*more)(void *acc, const void *a, size_t n);
	/* acc = op(op(acc, a), b) */
	void (*more2)(void *acc, const void *a, const void *b, size_t n);
	/* dst = round(acc / ranks), complete */
	void (*last)(void *dst, const void *acc, size_t n, int ranks);
};

/* What ddl__kernels.reduce_many says, by these loops. */
void ddl__many(const struct ddl__many *loops, void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n,
	       int ranks, int stream);

#endif
