/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_check.h - inputs that every rank can compute for every other rank, and what the result of them must be.
 *
 * Two kinds of inputs. Exact ones are small whole numbers (powers of two for products), so that no order of the additions and no
 * wire type rounds: the result must be met to the bit, an average within the rounding of its division. Rough ones fill the type,
 * and the result must lie within
 *
 *     |error| <= ((1 + u_wire)^k * (1 + u_sum)^k - 1) * sum of |inputs|,     k = ranks + 2
 *
 * where u is the unit roundoff of the type that travels and of the type in which sums are kept: a value is rounded at most once a
 * hop (N), once into the result and once by the division of an average. For products the sum of |inputs| is |product|. Minima and
 * maxima may be rounded once, by the wire; integers are exact always, with wrap-around.
 *
 * Where elements on the wire share a scale, what rounding takes from one depends on its neighbours: each time at most a part
 * (int8: 1/254, float16: 2^-39) of the largest magnitude that any partial result of such inputs can have. That is added to the
 * bound. Where rounding is stochastic, u_wire and that part are twice as much. int8 rounds small whole numbers too: there exact
 * inputs are multiples of 127 that have one magnitude in each partial result, and of products, where that cannot be, -1 and 1.
 * Copies by such a wire are rounded once.
 */
#ifndef DDL_TOOLS_PERF_CHECK_H
#define DDL_TOOLS_PERF_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddl/ddl.h>

#include "ulp.h"

struct ddl__check {
	enum ddl_type type;
	enum ddl_op op;     /* 0: a broadcast from root */
	enum ddl_wire wire; /* type that travels, resolved (AUTO counts as the roughest, bfloat16) */
	bool random;        /* the wire rounds to either neighbour, not to the nearest: by twice as much */
	int n_ranks;
	int root;      /* of a broadcast */
	bool exact;    /* exact inputs, else rough ones */
	uint64_t seed; /* other inputs for another seed */
};

struct ddl__mismatch {   /* the first element that is wrong */
	uint64_t index;  /* of the tensor */
	double got;      /* what the result has */
	double expected; /* what the reference has */
	double bound;    /* the difference that is allowed */
};

/* Fills a tensor with rank's inputs; tensor is its number, so that tensors differ. */
void ddl__check_fill(const struct ddl__check *check, int rank, uint64_t tensor, void *data, uint64_t count);

/*
 * Compares elements first ... end-1 of a tensor (data points to element 0) with the reference, and measures their errors where they
 * are floating-point numbers (ulp: NULL: not).
 * Returns 1 all right; 0 with *mismatch.
 */
int ddl__check_compare(const struct ddl__check *check, uint64_t tensor, const void *data, uint64_t first, uint64_t end,
		       struct ddl__ulp *ulp, struct ddl__mismatch *mismatch);

/* Fills a result's buffer with bytes that no reference expects (elements of 8 bits aside): what was not written shows. */
void ddl__check_poison(void *data, size_t size);

#endif
