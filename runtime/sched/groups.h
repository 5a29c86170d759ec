/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.h - the dimensions of a multi-level algorithm: a tree whose leaves are ranks. From the plan's tree (ranks in nodes in
 * switches), or from dimensions that a user gives (4x8x8 over the plan's ring order).
 */
#ifndef DDL_SCHED_GROUPS_H
#define DDL_SCHED_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"

struct ddl__group {
	int rank;                     /* a leaf: its rank; else -1 */
	uint32_t n;                   /* children; 0: a leaf */
	struct ddl__group **children; /* owned */
};

/*
 * The plan's tree. Groups of one are left out; ring rotates the children of every group by itself, so that different rings use
 * other ranks as gates. Returns 0 or -ENOMEM.
 */
int ddl__groups_from_layout(const struct ddl__layout *layout, unsigned ring, struct ddl__group **root);

/*
 * dims[0] neighbours in ring order form a group, dims[1] of these the next, and so on; dimensions of 1 are left out. Their product
 * must be the number of ranks. Returns 0; -EINVAL (product); -ENOMEM.
 */
int ddl__groups_from_dims(const struct ddl__layout *layout, unsigned ring, const uint32_t *dims, size_t n_dims,
			  struct ddl__group **root);

void ddl__groups_destroy(struct ddl__group *root);

#endif
