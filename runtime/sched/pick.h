/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pick.h - the choice of an algorithm, and of the wire where that is open, by the least time among those that keep what is asked
 * for. Times are measured ones where there are such, else the model's.
 */
#ifndef DDL_SCHED_PICK_H
#define DDL_SCHED_PICK_H

#include "select.h"
#include "tuning.h"

#define DDL__WAYS_MAX 2

struct ddl__way {       /* a wire that elements may take */
	uint32_t wire;  /* enum ddl_wire, resolved */
	uint64_t bytes; /* of all elements on it */
	double widen;   /* bytes in memory of one byte on it; 1: as they are */
	double work;    /* time that a rank works on an element, natively 1 */
	bool rounds;    /* elements have more bits in memory */
};

struct ddl__pick {
	enum ddl__collective collective;
	const struct ddl__model *model;      /* of elements that travel as they are */
	const struct ddl__tuning *tuning;    /* of all-reduces; NULL: none */
	const struct ddl__candidate *forced; /* asked for by name; NULL: none */
	struct ddl__need need;               /* its `rounds` is each way's own */
	struct ddl__way ways[DDL__WAYS_MAX]; /* the first is taken where the second is not clearly faster */
	size_t n_ways;                       /* at least 1 */
};

struct ddl__picked { /* of each way what would carry it out */
	struct ddl__candidate candidate[DDL__WAYS_MAX];
	double us[DDL__WAYS_MAX];     /* and how long it takes; 0: not known; negative: nothing keeps what is needed */
	bool measured[DDL__WAYS_MAX]; /* that time is a measured one */
	size_t way;                   /* the one to take */
};

/* Returns 0, or -ENOENT: on no way anything keeps what is needed. */
int ddl__pick(const struct ddl__pick *pick, struct ddl__picked *picked);

#endif
