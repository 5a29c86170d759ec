/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_inside.h - what the formulas of cost.c and cost_blocks.c are made of.
 */
#ifndef DDL_SCHED_COST_INSIDE_H
#define DDL_SCHED_COST_INSIDE_H

#include <stdbool.h>

#include "cost.h"

#define DDL__MESSAGE_US 4.0 /* the work of one message more at the same time */

/* Whether ranks meet at that level. */
static inline bool ddl__model_joins(const struct ddl__model *model, uint32_t level)
{
	return model->level[level].ranks > (level == 0 ? 1 : model->level[level - 1].ranks);
}

/* Time that a rank takes to reduce so many bytes, or to copy them. */
static inline double ddl__model_reduce_us(const struct ddl__model *model, double bytes)
{
	return model->reduce_GBps > 0 ? bytes / (model->reduce_GBps * 1000) : 0;
}

/* Levels of a tree over so many ranks, in which each level is radix times as wide as the one above. */
static inline uint32_t ddl__tree_depth(uint64_t ranks, uint64_t radix)
{
	uint32_t depth = 0;
	for (uint64_t reach = 1; reach < ranks; reach *= radix)
		depth++;
	return depth;
}

#endif
