/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the service thread of a communicator: whether there is one, and where it runs.
 */
#ifndef DDL_CORE_SERVE_H
#define DDL_CORE_SERVE_H

#include "engine.h"
#include "exchange.h"

/*
 * Starts the service thread if one is wanted. The first communicator of a rank chooses the cores, those that are split from it take
 * them in turn: a communicator's engine is under one lock, so a second thread for it would only wait for the first.
 * What was chosen, and why, is in comm->origin. Not to be bound is no failure. -ENOMEM; or the thread could not be made.
 */
int ddl__serve_start(struct ddl_comm *comm, const struct ddl__members *members, struct ddl_error *err);

#endif
