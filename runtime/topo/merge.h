/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - from what all ranks told to the plan in force, the same bytes on every rank.
 */
#ifndef DDL_TOPO_MERGE_H
#define DDL_TOPO_MERGE_H

#include <stddef.h>

#include <ddl/error.h>

#include "facts.h"
#include "plan.h"

/*
 * Makes the plan in force and says on which of its nodes each rank is.
 *
 * text     rank 0's plan text; NULL: there is none, the plan is built from the nodes' addresses (source "env", or "none" where no
 *          node knows its place)
 * places   of all ranks, n_ranks of them
 * job      name for a plan that is built here
 * options  for a plan that is built here
 * Nodes that have ranks but are not in rank 0's plan are added below the root; nodes of the plan that have no rank are dropped;
 * tasks are set to what is there. rails is set to the smallest number of usable interfaces.
 * plan            freed with ddl__plan_destroy()
 * node_of_rank    n_ranks indices into plan->nodes; caller frees
 * Returns 0; -EBADMSG or -EPROTO (text); -EINVAL (no ranks, or a node name that is not possible); -ENOMEM.
 */
int ddl__merge(const char *text, const struct ddl__place *places, size_t n_ranks, const char *job,
	       const struct ddl__options *options, struct ddl__plan **plan, size_t **node_of_rank, struct ddl_error *err);

#endif
