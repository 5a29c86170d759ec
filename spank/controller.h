/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controller.h - asks slurmctld for the topology, within a time.
 */
#ifndef DDL_SPANK_CONTROLLER_H
#define DDL_SPANK_CONTROLLER_H

#include <stddef.h>

#include <ddl/error.h>

/*
 * The topology as text (see release.h); caller frees. Returns 0; -ETIMEDOUT when timeout_ms passed without an answer; the errors of
 * ddl__release_topology(). Call it from one thread at a time.
 */
int ddl__controller_topology(int timeout_ms, char **text, size_t *length, struct ddl_error *err);

#endif
