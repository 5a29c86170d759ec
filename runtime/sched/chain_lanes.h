/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain_lanes.h - what collectives along a chain share: the length of slices; and of broadcast and reduce the data cut over the
 * rings, a lane each, and a rank's distance from the root along it.
 */
#ifndef DDL_SCHED_CHAIN_LANES_H
#define DDL_SCHED_CHAIN_LANES_H

#include "schedule.h"

struct ddl__chain {        /* one rank's place in one of the chains */
	uint64_t n;        /* ranks */
	uint64_t distance; /* from the root, in ring order: 0 ... n-1 */
	int before, after; /* ranks next to it in the ring */
	uint64_t begin;    /* elements that this chain carries */
	uint64_t count;    /* at least 1 */
};

/* Elements of a slice of a chain: a sixteenth of what it carries, from least_bytes to what a slice has at most. */
uint64_t ddl__chain_slice(const struct ddl__build *build, uint64_t least_bytes);

/*
 * Makes a schedule of build->rings lanes; `add` gives each that carries something its peers and its only step, for which there is
 * room. Returns 0 or -ENOMEM.
 */
int ddl__build_chains(const struct ddl__build *build, void (*add)(const struct ddl__chain *chain, struct ddl__steps *lane),
		      struct ddl__schedule **schedule);

#endif
