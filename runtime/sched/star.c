/* SPDX-License-Identifier: Apache-2.0 */
/*
 * star.c - gather and scatter straight between the root and each rank: every byte moves once. A lane a rank, numbered by it; empty
 * blocks have none. The slice shrinks with the number of ranks: what the root's lanes hold stays bounded.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "shape.h"

enum { SLOTS = 4 };

/* The lane of one rank's block, on the root or on that rank; its block begins at `whole` of the root's buffer. */
static int add_lane(const struct ddl__build *build, struct ddl__steps *lane, int rank, uint64_t whole, bool gather)
{
	bool at_root = build->rank == build->root, own = rank == build->root;
	enum ddl__step_kind kind = own ? DDL__COPY : at_root == gather ? DDL__RECV : DDL__SEND;
	uint64_t src = at_root && !gather ? whole : 0, dst = at_root && gather ? whole : 0;
	int peer = at_root ? rank : build->root;
	int rc = ddl__schedule_reserve(lane, 1);
	if (rc < 0)
		return rc;
	lane->number = (uint32_t)rank;
	if (kind == DDL__SEND)
		lane->send_peer = peer;
	if (kind == DDL__RECV)
		lane->recv_peer = peer;
	ddl__schedule_add(lane, kind, DDL__INPUT, src, DDL__OUTPUT, dst, ddl__block(build, rank));
	return 0;
}

static int build_star(const struct ddl__build *build, bool gather, struct ddl__schedule **schedule)
{
	int n = build->layout->n_ranks;
	bool at_root = build->rank == build->root;
	uint64_t *at = ddl__displacements(n, build->counts, build->count);
	uint32_t n_lanes = 0, l = 0;
	struct ddl__schedule *s = NULL;
	if (!at)
		return -ENOMEM;
	for (int r = 0; r < n; r++)
		n_lanes += (at_root || r == build->rank) && ddl__block(build, r);
	int rc = ddl__schedule_create(n_lanes, &s);
	if (rc == 0) {
		s->slots = SLOTS;
		s->slice_elements = ddl__slice_bounded(build, (uint64_t)n, SLOTS);
	}
	for (int r = 0; rc == 0 && r < n; r++)
		if ((at_root || r == build->rank) && ddl__block(build, r))
			rc = add_lane(build, &s->lanes[l++], r, at[r], gather);
	free(at);
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
	return rc;
}

int ddl__build_star_gather(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_star(build, true, schedule);
}

int ddl__build_star_scatter(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_star(build, false, schedule);
}
