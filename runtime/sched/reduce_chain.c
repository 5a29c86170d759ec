/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_chain.c - reduce along the ring order: the root's successor sends, each rank adds its own and passes on, slice by slice,
 * until the root adds the last contribution. Every uplink carries the data once in each direction at most; the chain fills in N-2
 * slices.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 8, SLICES = 16, GRAIN = 16 };
enum { SLICE_BYTES_MAX = 256 * 1024, SLICE_BYTES_MIN = 16 * 1024 };

static int build_lane(const struct ddl__build *build, struct ddl__steps *lane, const int *order, uint64_t begin, uint64_t count)
{
	uint64_t n = (uint64_t)build->layout->n_ranks, me = 0, root = 0;
	if (count == 0)
		return 0;
	while (order[me] != build->rank)
		me++;
	while (order[root] != build->root)
		root++;
	uint64_t distance = (me + n - root) % n; /* from the root along the ring */
	if (distance != 0)
		lane->send_peer = order[(me + 1) % n];
	if (distance != 1 && n > 1)
		lane->recv_peer = order[(me + n - 1) % n];
	int rc = ddl__schedule_reserve(lane, 1);
	if (rc < 0)
		return rc;
	enum ddl__step_kind kind = n == 1          ? DDL__COPY
				   : distance == 1 ? DDL__SEND
				   : distance == 0 ? DDL__RECV_REDUCE
						   : DDL__RECV_REDUCE_SEND;
	ddl__schedule_add(lane, kind, DDL__INPUT, begin, DDL__OUTPUT, begin, count)->final = distance == 0;
	return 0;
}

int ddl__build_reduce_chain(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	struct ddl__schedule *s;
	int rc = ddl__schedule_create(build->count ? build->rings : 0, &s);
	if (rc < 0)
		return rc;
	int *order = calloc((size_t)build->layout->n_ranks, sizeof(*order));
	if (!order) {
		ddl__schedule_destroy(s);
		return -ENOMEM;
	}
	uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
	uint64_t min = SLICE_BYTES_MIN / build->wire_bytes, slice = build->count / build->rings / SLICES;
	slice = slice > min ? slice : min;
	slice = slice < max ? slice : max;
	s->slots = SLOTS;
	s->slice_elements = slice ? slice : 1;
	for (uint32_t r = 0; rc == 0 && r < s->n_lanes; r++) {
		uint64_t begin, count;
		ddl__split(build->count, build->rings, r, GRAIN, &begin, &count);
		ddl__layout_order(build->layout, r, order);
		rc = build_lane(build, &s->lanes[r], order, begin, count);
	}
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
	return rc;
}
