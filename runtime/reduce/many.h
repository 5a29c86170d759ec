/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.h - what is common to reduce-many of any type and operation: the way through memory in blocks whose accumulators stay in the
 * first cache, and where blocks begin so that whole lines can go past the caches. A kernel set brings the loop over one block.
 */
#ifndef DDL_REDUCE_MANY_H
#define DDL_REDUCE_MANY_H

#include <stddef.h>

enum {
	DDL__MANY_BLOCK = 1024, /* elements whose accumulators are kept */
	DDL__MANY_GROUP = 8,    /* sources at once: more streams than that fall out of caches with few ways */
};

struct ddl__many {              /* one block of one group of sources */
	void *const *dst;       /* n_dst, at least 1 */
	size_t n_dst;           /* destinations */
	void *acc;              /* DDL__MANY_BLOCK accumulators */
	const void *const *src; /* n_src, 1 ... DDL__MANY_GROUP */
	size_t n_src;           /* sources */
	size_t offset;          /* bytes from the beginning of every source and destination to the block */
	size_t n;               /* elements of the block; at most DDL__MANY_BLOCK where acc is used */
	int begin;              /* 1: the accumulators begin with the first source; 0: with acc */
	int ranks;  /* > 0: the last group, results are accumulators / ranks, complete, and go to all dst; 0: back to acc */
	int stream; /* 1: results will not be read again, and dst + offset are whole lines from here on */
};

/*
 * What ddl__kernels.reduce_many says, for elements of type_bytes. free_of_acc: the block function uses acc only where there is more
 * than one group, and then the block may have any size.
 */
struct ddl__many_call {
	void (*block)(const struct ddl__many *m);
	size_t type_bytes;
	int free_of_acc;
};

void ddl__many(const struct ddl__many_call *call, void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n,
	       int ranks, int stream);

/* Copies the block's results from `results`, bytes of them, to all destinations. */
void ddl__many_put(const struct ddl__many *m, const void *results, size_t bytes);

#endif
