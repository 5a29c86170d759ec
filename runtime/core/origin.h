/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin.h - what a communicator was made with: kept, since those that are split from it are made with the same.
 */
#ifndef DDL_CORE_ORIGIN_H
#define DDL_CORE_ORIGIN_H

#include "boot.h"
#include "cores.h"
#include "facts.h"
#include "loop.h"
#include "settings.h"
#include "transport.h"

struct ddl__origin {
	struct ddl__facts facts;            /* of this rank's node */
	struct ddl__settings settings;      /* texts as below; the plan's is borrowed while the communicator is made */
	char *transports, *interfaces;      /* what the settings point to; owned; NULL: as there */
	char job[64];                       /* name of the job or step, and which split of it */
	uint8_t secret[DDL__SECRET_SIZE];   /* the same on all ranks */
	struct ddl__loop_world *loop;       /* transport/loop: the world of its ranks; borrowed; else NULL */
	const struct ddl__verbs_api *verbs; /* transport/verbs, in tests: in place of libibverbs; borrowed; else NULL */
	struct ddl__cores cores;            /* for service threads */
	uint64_t turn;                      /* which of these cores the communicator's takes, modulo their number */
	bool part;                          /* it was split from another */
	unsigned observe;                   /* bits of enum ddl__observe that any rank wants */
	bool clock_known;                   /* the clock was compared with that of rank 0 of the whole job */
	int64_t clock_ahead_ns;             /* of that one */
	uint64_t clock_error_ns;            /* how wrong that may be */
	uint64_t splits;                    /* how often the communicator was split; the same on all ranks */
};

/* Copies the settings with their texts, but for the plan's, which is borrowed; the rest is zero. Returns 0 or -ENOMEM. */
int ddl__origin_create(const struct ddl__settings *settings, struct ddl__origin **origin, struct ddl_error *err);

void ddl__origin_destroy(struct ddl__origin *origin);

#endif
