/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - the table of what can carry out a collective, and the choice. The choice uses facts that all ranks agree on, only.
 */
#ifndef DDL_SCHED_SELECT_H
#define DDL_SCHED_SELECT_H

#include <ddl/error.h>

#include "schedule.h"

struct ddl__algorithm {
	uint32_t id;                     /* in struct ddl__call; never renumbered */
	enum ddl__collective collective; /* what it carries out */
	const char *name;                /* the spelling of DDL_ALGO and `ddl info` */
	const char *description;         /* one line for people */
	int (*build)(const struct ddl__build *build, struct ddl__schedule **schedule);
};

/* All algorithms, ended by a row whose name is NULL. */
extern const struct ddl__algorithm ddl__algorithms[];

/* "all-reduce", "broadcast", "barrier". Static. */
const char *ddl__collective_name(enum ddl__collective collective);

/*
 * Chooses. wanted: a name, NULL: free choice. Returns 0; -EOPNOTSUPP (no such algorithm for this collective: the sentence lists
 * those that exist).
 */
int ddl__select(enum ddl__collective collective, const char *wanted, const struct ddl__algorithm **algorithm,
		struct ddl_error *err);

#endif
