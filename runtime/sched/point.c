/* SPDX-License-Identifier: Apache-2.0 */
/* point.c - send/receive: one lane from the sender (root) to the receiver (peer), whose number is the tag. */
#include "schedule.h"

#include <errno.h>

enum { SLOTS = 8, SLICES = 16 };
enum { SLICE_BYTES_MAX = 256 * 1024, SLICE_BYTES_MIN = 16 * 1024 };

int ddl__build_point(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	bool sends = build->rank == build->root, receives = build->rank == build->peer;
	uint64_t max = (build->slice_bytes ? build->slice_bytes : SLICE_BYTES_MAX) / build->wire_bytes;
	uint64_t min = SLICE_BYTES_MIN / build->wire_bytes, slice = build->count / SLICES;
	struct ddl__schedule *s;
	if (build->root == build->peer)
		return -EOPNOTSUPP;
	int rc = ddl__schedule_create(sends || receives ? 1 : 0, &s);
	if (rc < 0)
		return rc;
	slice = slice > min ? slice : min;
	slice = slice < max ? slice : max;
	s->slots = SLOTS;
	s->slice_elements = slice ? slice : 1;
	if (s->n_lanes) {
		struct ddl__steps *lane = &s->lanes[0];
		lane->number = build->tag;
		lane->send_peer = sends ? build->peer : -1;
		lane->recv_peer = receives ? build->root : -1;
		rc = ddl__schedule_reserve(lane, 1);
		if (rc < 0) {
			ddl__schedule_destroy(s);
			return rc;
		}
		/* not lent: a short message may be complete before the receiver has started */
		ddl__schedule_add(lane, sends ? DDL__SEND : DDL__RECV, DDL__INPUT, 0, DDL__OUTPUT, 0, build->count)->place = sends;
	}
	*schedule = s;
	return 0;
}
