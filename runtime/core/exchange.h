/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - the start: every rank tells its facts and addresses, one fence, and all build the same plan from them.
 */
#ifndef DDL_CORE_EXCHANGE_H
#define DDL_CORE_EXCHANGE_H

#include "boot.h"
#include "facts.h"
#include "plan.h"
#include "settings.h"
#include "transport.h"
#include "tuning.h"

struct ddl__members {                     /* what is known after the exchange */
	struct ddl__plan *plan;           /* in force; owned */
	size_t *node_of_rank;             /* index into plan->nodes; owned */
	struct ddl__place *places;        /* of every rank; owned */
	void **blobs;                     /* of every rank; owned */
	size_t *sizes;                    /* of the blobs */
	struct ddl__tuning *tuning;       /* rank 0's; NULL: it has none. Owned */
	int size;                         /* ranks */
	uint32_t observe;                 /* bits of enum ddl__observe that any rank wants */
	uint64_t check;                   /* the largest share of starts that any rank wants to be compared */
	uint8_t secret[DDL__SECRET_SIZE]; /* of the job */
};

/*
 * Publishes this rank's facts and its transports' addresses, waits for all, and makes the plan. One fence.
 * -EPROTO: a rank runs another version or has another plan (the sentence names it); -EBADMSG; -ETIMEDOUT; -ENOMEM.
 */
int ddl__exchange(struct ddl__boot *boot, const struct ddl__settings *settings, const struct ddl__facts *facts,
		  struct ddl__transport *const *transports, size_t n_transports, struct ddl__members *members,
		  struct ddl_error *err);

/* The address that a rank published for a transport; address NULL: it has none. */
void ddl__members_peer(const struct ddl__members *members, int rank, const char *transport, struct ddl__peer *peer);

void ddl__members_fini(struct ddl__members *members);

#endif
