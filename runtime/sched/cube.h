/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cube.h - any number of ranks as a hypercube: the largest power of two of them are members, the others extras that stand behind
 * one member each, their neighbour in ring order. Members are numbered in ring order too, so that the members whose numbers differ
 * in a low bit are near each other in the switch tree.
 */
#ifndef DDL_SCHED_CUBE_H
#define DDL_SCHED_CUBE_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

struct ddl__cube {
	int *order;      /* ranks in ring order; owned */
	uint32_t n;      /* members, a power of two */
	uint32_t rounds; /* log2 of it */
	uint32_t extras; /* less than n; behind members 0, 1, ... */
	uint32_t member; /* number of the rank, or of the member that it stands behind */
	bool extra;      /* the rank stands behind a member */
};

/* Returns 0 or -ENOMEM; fini is due after success only. */
int ddl__cube_init(const struct ddl__layout *layout, int rank, struct ddl__cube *cube);
void ddl__cube_fini(struct ddl__cube *cube);

/* The rank that is a member, and the one behind it; -1: nobody is. */
int ddl__cube_rank(const struct ddl__cube *cube, uint32_t member);
int ddl__cube_extra(const struct ddl__cube *cube, uint32_t member);

#endif
