/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages.c - steps, stages and exchanges.
 */
#include "stages.h"

#include <errno.h>
#include <stdlib.h>

enum { GRAIN = 16, PIECES_MAX = 4, PIECE_BYTES_MIN = 32 * 1024, ROOM_MIN = 8 };

struct ddl__pieces ddl__pieces_choose(const struct ddl__build *build, uint64_t parts, uint64_t slice_bytes)
{
	uint64_t max = (build->slice_bytes ? build->slice_bytes : slice_bytes) / build->wire_bytes;
	uint64_t count = build->count, enough = PIECE_BYTES_MIN / build->wire_bytes;
	struct ddl__pieces pieces = { .n = 1, .grain = ddl__grain(build, count >= parts * GRAIN * 16 ? GRAIN : 1) };
	while (pieces.n < PIECES_MAX && count / (pieces.n * 2) >= enough)
		pieces.n *= 2;
	uint64_t piece = (count + pieces.n - 1) / pieces.n + pieces.grain;
	max = max ? max : 1;
	pieces.slice = ddl__whole_blocks(build, piece < max ? piece : max);
	return pieces;
}

void ddl__stages_begin(struct ddl__stages *stages)
{
	stages->wait_lane = DDL__NO_WAIT;
}

void ddl__stage_begin(struct ddl__stages *stages, uint32_t lane)
{
	stages->lane = lane;
	stages->first = stages->schedule->lanes[lane].n;
}

void ddl__stage_end(struct ddl__stages *stages)
{
	struct ddl__steps *lane = &stages->schedule->lanes[stages->lane];
	if (stages->rc < 0 || lane->n == stages->first)
		return;
	if (stages->wait_lane != stages->lane) { /* within a lane the order says it all */
		lane->steps[stages->first].wait_lane = stages->wait_lane;
		lane->steps[stages->first].wait_step = stages->wait_step;
	}
	stages->wait_lane = stages->lane;
	stages->wait_step = lane->n - 1;
}

/* The room for steps doubles when their number reaches a power of two. */
static int make_room(struct ddl__steps *lane)
{
	if (lane->n != 0 && (lane->n < ROOM_MIN || (lane->n & (lane->n - 1))))
		return 0;
	size_t room = lane->n ? (size_t)lane->n * 2 : ROOM_MIN;
	if (room >= UINT32_MAX)
		return -EOPNOTSUPP;
	struct ddl__step *more = realloc(lane->steps, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	lane->steps = more;
	return 0;
}

struct ddl__step *ddl__stage_step(struct ddl__stages *stages, enum ddl__step_kind kind, enum ddl__buffer src, enum ddl__buffer dst,
				  uint64_t at, uint64_t count)
{
	struct ddl__steps *lane = &stages->schedule->lanes[stages->lane];
	if (stages->rc == 0)
		stages->rc = make_room(lane);
	return stages->rc < 0 ? &stages->spare : ddl__schedule_add(lane, kind, src, at, dst, at, count);
}

static void add_part(struct ddl__stages *stages, const struct ddl__part *part, uint64_t i)
{
	uint64_t at = i * stages->room;
	if (!part || at >= part->count)
		return;
	uint64_t count = part->count - at < stages->room ? part->count - at : stages->room;
	ddl__stage_step(stages, part->kind, part->src, part->dst, part->begin + at, count)->final = part->final;
}

void ddl__stage_exchange(struct ddl__stages *stages, uint32_t lane, const struct ddl__part *send, const struct ddl__part *receive)
{
	uint64_t sent = send ? send->count : 0, received = receive ? receive->count : 0;
	uint64_t n = ((sent > received ? sent : received) + stages->room - 1) / stages->room;
	ddl__stage_begin(stages, lane);
	for (uint64_t i = 0; i <= n && stages->rc == 0; i++) {
		add_part(stages, send, i);
		if (i > 0)
			add_part(stages, receive, i - 1);
	}
	ddl__stage_end(stages);
}
