/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.h - what was said of precision by a request, the environment and the plan, put together: the wires that elements may take,
 * and what an algorithm must keep. Who said it nearest to the call counts.
 */
#ifndef DDL_CORE_CHOOSE_H
#define DDL_CORE_CHOOSE_H

#include <ddl/ddl.h>

#include "options.h"
#include "pick.h"
#include "transport.h"

struct ddl__said {                      /* of precision; 0 and -1 as in the request's options */
	enum ddl_wire wire;             /* by the request */
	enum ddl_accuracy accuracy;     /* by the request */
	int reproducible;               /* by the request */
	enum ddl_accuracy env_accuracy; /* by the environment */
	int env_reproducible;           /* by the environment */
	const struct ddl__options *plan;
};

/* The accuracy that counts; AUTO: nothing was said. */
enum ddl_accuracy ddl__said_accuracy(const struct ddl__said *said);

/*
 * Sets need and ways of pick for a call: collective, type, operation, and how many elements of all blocks travel. Returns 0;
 * -EINVAL, -EOPNOTSUPP with a sentence where a request contradicts itself.
 */
int ddl__choose_ways(const struct ddl__said *said, const struct ddl__call *call, uint64_t elements, struct ddl__pick *pick,
		     struct ddl_error *err);

/*
 * Other collectives than all-reduce do not have algorithms for everything: drops one thing that the environment or the plan says,
 * where nothing keeps it. Returns whether something was dropped.
 */
bool ddl__choose_relax(const struct ddl__said *said, struct ddl__pick *pick);

/* Fills err: why a candidate that is asked for cannot be taken, or why there is none (-EOPNOTSUPP). */
void ddl__choose_refuse(const struct ddl__pick *pick, struct ddl_error *err);

#endif
