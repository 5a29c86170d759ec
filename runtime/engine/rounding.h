/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rounding.h - requests whose wire rounds by chance, or that add what rounding took away to the next start (error feedback).
 *
 * Chance. What is rounded depends on the request, its seed, the start, the element and the rank alone, so every run is the same.
 * Where several ranks hold the same partial sum and each rounds it (recursive doubling), the rank is left out: they must agree.
 *
 * Feedback. A start does not read the input but the input plus the residual, and the residual becomes what this rank's roundings
 * took away: of what it contributes, and of partial sums and results that it alone rounds, in units of its input.
 */
#ifndef DDL_ENGINE_ROUNDING_H
#define DDL_ENGINE_ROUNDING_H

#include "engine.h"

struct ddl__rounding {
	bool random;       /* by chance, not to nearest */
	bool result;       /* elements of input and output are the same, and no other rank rounds what this one does */
	uint64_t elements; /* of the input */
	float *input;      /* as this start reads it; NULL: no feedback */
	float *residual;   /* what is added in the next start; NULL: no feedback */
};

/* Of a new request that has a schedule; request->rounding stays NULL where nothing is to be done. 0 or -ENOMEM. */
int ddl__rounding_open(struct ddl_request *request);
void ddl__rounding_close(struct ddl_request *request);

/* A start begins. */
void ddl__rounding_start(struct ddl_request *request);

/* Whether the step rounds, so that run() must carry it out. */
bool ddl__rounding_concerns(const struct ddl_request *request, const struct ddl__step *step);

/* The work of one slice of such a step. src, dst: of the slice's elements. */
void ddl__rounding_run(const struct ddl_request *request, const struct ddl__step *step, uint64_t offset, size_t n, const void *in,
		       void *out, const void *src, void *dst);

/* A slice of DDL__ROUND on any wire: dst = src as it would arrive. */
void ddl__rounding_round(const struct ddl_request *request, const struct ddl__step *step, uint64_t offset, size_t n,
			 const void *src, void *dst);

#endif
