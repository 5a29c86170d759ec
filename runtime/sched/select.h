/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - the table of what can carry out a collective, and the choice. The choice uses facts that all ranks agree on, only.
 */
#ifndef DDL_SCHED_SELECT_H
#define DDL_SCHED_SELECT_H

#include <ddl/error.h>

#include "cost.h"
#include "schedule.h"

struct ddl__algorithm {
	uint32_t id;                     /* in struct ddl__call; never renumbered */
	enum ddl__collective collective; /* what it carries out */
	const char *name;                /* the spelling of DDL_ALGO and `ddl info` */
	const char *description;         /* one line for people */
	int (*build)(const struct ddl__build *build, struct ddl__schedule **schedule);
	/* Predicted time in microseconds of so many bytes on the wire; NULL: never chosen by cost. */
	double (*cost)(const struct ddl__model *model, double bytes);
};

/* All algorithms, ended by a row whose name is NULL. */
extern const struct ddl__algorithm ddl__algorithms[];

/* "all-reduce", "broadcast", "barrier". Static. */
const char *ddl__collective_name(enum ddl__collective collective);

/* The name of an id; "unknown algorithm" for none of the table's. Static. */
const char *ddl__algorithm_name(uint32_t id);

/*
 * Finds by name; NULL: the first of the collective. Returns 0; -EOPNOTSUPP (no such algorithm for this collective: the sentence
 * lists those that exist).
 */
int ddl__select(enum ddl__collective collective, const char *wanted, const struct ddl__algorithm **algorithm,
		struct ddl_error *err);

/* What the plan's options say of all-reduce: "ring" for --ddl=ring, "multiring" where dims are given; NULL: a free choice. */
const char *ddl__select_wanted(const struct ddl__options *options);

/*
 * The algorithm of the least predicted time for so many bytes on the wire; the first of the collective where none has a cost or
 * none is clearly faster than it.
 */
const struct ddl__algorithm *ddl__select_cheapest(enum ddl__collective collective, const struct ddl__model *model, double bytes);

#endif
