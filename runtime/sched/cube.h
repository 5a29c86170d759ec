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

#include "stages.h"

struct ddl__cube {
	int *order;      /* ranks in ring order; owned */
	uint32_t n;      /* members, a power of two */
	uint32_t rounds; /* log2 of it */
	uint32_t extras; /* less than n; behind members 0, 1, ... */
	uint32_t member; /* number of the rank, or of the member that it stands behind */
	bool extra;      /* the rank stands behind a member */
};

/* The rank that is a member, and the one behind it; -1: nobody is. */
int ddl__cube_rank(const struct ddl__cube *cube, uint32_t member);
int ddl__cube_extra(const struct ddl__cube *cube, uint32_t member);

/* An algorithm over the hypercube, piece by piece: what ddl__cube_build() does not know. */
struct ddl__cube_maker {
	struct ddl__cube cube;
	struct ddl__stages stages;
	uint64_t begin, count, grain; /* of the current piece, elements */
};

struct ddl__cube_algorithm {
	uint32_t slice_bytes; /* of the longest slice where the build does not say */
	bool in_chunks;       /* a piece is cut into as many chunks as there are members */
	uint32_t (*lanes)(const struct ddl__cube *cube);
	void (*set_peers)(struct ddl__cube_maker *m);
	void (*add_extra_piece)(struct ddl__cube_maker *m);
	void (*add_member_piece)(struct ddl__cube_maker *m);
};

/* Builds an all-reduce of it; one rank alone or nothing to reduce is the ring's. Returns as a builder does. */
int ddl__cube_build(const struct ddl__build *build, const struct ddl__cube_algorithm *algorithm, struct ddl__schedule **schedule);

#endif
