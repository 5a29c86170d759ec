/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - what a caller asks for, from the public calls' arguments to a request.
 */
#ifndef DDL_CORE_ASK_H
#define DDL_CORE_ASK_H

#include "engine.h"

struct ddl__ask {
	struct ddl__request_args args; /* type and operation as given, unchecked */
	const void *send;
	void *recv;
	bool by_counts; /* args.counts must be given, and with an all-to-all args.recv_counts */
};

/* Checks what was asked for and makes the request. Returns 0 or negative with a sentence. */
int ddl__ask_init(struct ddl_comm *comm, struct ddl__ask *ask, const struct ddl_request_options *options,
		  struct ddl_request **request, struct ddl_error *err);

/* Carries it out by a request of the cache; see cache.c. */
int ddl__ask_run(struct ddl_comm *comm, struct ddl__ask *ask);

/* The all-reduce that the environment (DDL_ALGO) or the plan (--ddl=ring, dims=) asks for by name; NULL: a free choice. */
const char *ddl__ask_forced(const struct ddl_comm *comm);

/* Checks the arguments and fills in what depends on the counts. */
int ddl__ask_check(const struct ddl_comm *comm, struct ddl__ask *ask, struct ddl_error *err);

#endif
