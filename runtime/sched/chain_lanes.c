/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain_lanes.c - chains over the rings of the plan. A slice is a sixteenth of a chain's data, within bounds: the chain fills soon.
 */
#include "chain_lanes.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 8, SLICES = 16, GRAIN = 16 };
enum { SLICE_BYTES_MAX = 256 * 1024, SLICE_BYTES_MIN = 16 * 1024 };

uint64_t ddl__chain_slice(const struct ddl__build *build, uint64_t least_bytes)
{
	uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
	uint64_t min = least_bytes / build->wire_bytes, slice = build->count / build->rings / SLICES;
	slice = slice > min ? slice : min;
	slice = slice < max ? slice : max;
	return ddl__whole_blocks(build, slice ? slice : 1);
}

static uint64_t position_of(const int *order, int rank)
{
	uint64_t position = 0;
	while (order[position] != rank)
		position++;
	return position;
}

int ddl__build_chains(const struct ddl__build *build, void (*add)(const struct ddl__chain *chain, struct ddl__steps *lane),
		      struct ddl__schedule **schedule)
{
	struct ddl__chain chain = { .n = (uint64_t)build->layout->n_ranks };
	struct ddl__schedule *s;
	int rc = ddl__schedule_create(build->count ? build->rings : 0, &s);
	if (rc < 0)
		return rc;
	int *order = calloc(chain.n, sizeof(*order));
	rc = order ? 0 : -ENOMEM;
	s->slots = SLOTS;
	s->slice_elements = ddl__chain_slice(build, SLICE_BYTES_MIN);
	for (uint32_t r = 0; rc == 0 && r < s->n_lanes; r++) {
		ddl__split(build->count, build->rings, r, ddl__grain(build, GRAIN), &chain.begin, &chain.count);
		if (chain.count == 0)
			continue;
		ddl__layout_order(build->layout, r, order);
		uint64_t me = position_of(order, build->rank);
		chain.distance = (me + chain.n - position_of(order, build->root)) % chain.n;
		chain.before = order[(me + chain.n - 1) % chain.n];
		chain.after = order[(me + 1) % chain.n];
		rc = ddl__schedule_reserve(&s->lanes[r], 1);
		if (rc == 0)
			add(&chain, &s->lanes[r]);
	}
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
	return rc;
}
