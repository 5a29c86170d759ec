/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_build.h - the last step of every maker of plans. Inside of plan/ only.
 */
#ifndef DDL_PLAN_PLAN_BUILD_H
#define DDL_PLAN_PLAN_BUILD_H

#include "plan.h"

/*
 * Fills plan->nodes and their indices from plan->root, and checks the nodes' names.
 * Returns 0; code with a sentence (a name twice or not possible); -ENOMEM.
 */
int ddl__plan_index(struct ddl__plan *plan, int code, struct ddl_error *err);

#endif
