/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ulp.h - how wrong rounded results are, in units in the last place of the type that travels.
 *
 * A unit belongs to a magnitude: eps times it, eps being the distance from 1 to the next number of the type (bfloat16 2^-7, float16
 * 2^-10, float32 2^-23). The magnitude is the element's own, but not less than the root of the mean square of its block of 256:
 * where a sum cancels, what was rounded on the way there had the block's magnitude. int8 has one unit for a block, 1/127 of its
 * largest. So a result that is rounded once, to nearest, is wrong by half a unit at most, whatever the data are.
 */
#ifndef DDL_REDUCE_ULP_H
#define DDL_REDUCE_ULP_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/ddl.h>

enum { DDL__ULP_BLOCK = 256 }; /* elements that share a magnitude */

struct ddl__ulp {       /* of all elements so far; zeroed before */
	double most;    /* largest error, units */
	double squares; /* sum of the errors' squares, units squared */
	uint64_t n;     /* elements that both are numbers */
};

/*
 * Adds n elements, of one block or less. type: DDL_FLOAT64, DDL_FLOAT32, DDL_FLOAT16, DDL_BFLOAT16; wire: of DDL_FLOAT32. Elements
 * of which either is no finite number are left out.
 */
void ddl__ulp_add(struct ddl__ulp *ulp, enum ddl_type type, enum ddl_wire wire, const double *got, const double *want, size_t n);

/* Root of the mean square; 0 without elements. */
double ddl__ulp_rms(const struct ddl__ulp *ulp);

#endif
