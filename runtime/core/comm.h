/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm.h - making communicators: over any bootstrap, and without one for tests within one process.
 */
#ifndef DDL_CORE_COMM_H
#define DDL_CORE_COMM_H

#include <ddl/ddl.h>

#include "loop.h"
#include "origin.h"
#include "plan.h"

/*
 * The communicator of a bootstrap's ranks. boot stays the caller's; origin, of which facts, settings, loop and verbs are read, is
 * taken over. The rest as ddl_comm_create(), but that nothing is sent to other ranks.
 */
int ddl__comm_make(struct ddl__boot *boot, struct ddl__origin *origin, struct ddl_comm **comm, struct ddl_error *err);

/*
 * What is left to do once all ranks have made it: meets them, so that each hears of the end of any other, measures, and begins to
 * observe. Collective; comm stays the caller's, also on failure.
 */
int ddl__comm_connect(struct ddl_comm *comm, struct ddl_error *err);

/* Aborts a communicator with that code and sentence, unless it failed before. Returns the code with which it did, 0 none. */
int ddl__comm_fail(struct ddl_comm *comm, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * The communicator of one rank over transport/loop. Does not wait for the others: one thread may make those of all ranks. plan_text
 * is copied. The rest as ddl_comm_create().
 */
int ddl__comm_create_loop(struct ddl__loop_world *world, const char *plan_text, const size_t *node_of_rank, int rank, int n_ranks,
			  int timeout_ms, struct ddl_comm **comm, struct ddl_error *err);

#endif
