/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.c - making schedules, and what the kinds of steps do, in one table.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { SLICE_BYTES_MIN = 4 * 1024, SLICE_BYTES_MAX = 256 * 1024, SLOT_MEMORY = 32 * 1024 * 1024 };

static const struct {
	const char *name; /* as in the design */
	bool receives, sends, reads, writes, reduces;
} kinds[] = {
	[DDL__SEND] = { "send", false, true, true, false, false },
	[DDL__RECV] = { "recv-store", true, false, false, true, false },
	[DDL__RECV_REDUCE] = { "recv-reduce-store", true, false, true, true, true },
	[DDL__RECV_REDUCE_SEND] = { "recv-reduce-send", true, true, true, false, true },
	[DDL__RECV_REDUCE_STORE_SEND] = { "recv-reduce-store-send", true, true, true, true, true },
	[DDL__RECV_STORE_SEND] = { "recv-store-send", true, true, false, true, false },
	[DDL__COPY] = { "copy", false, false, true, true, false },
	[DDL__SEND_STORE] = { "send-store", false, true, true, true, false },
	[DDL__REDUCE_MANY] = { "reduce-many", false, false, true, true, true },
	[DDL__ROUND] = { "round", false, false, true, true, false },
};

bool ddl__step_receives(uint8_t kind)
{
	return kinds[kind].receives;
}

bool ddl__step_sends(uint8_t kind)
{
	return kinds[kind].sends;
}

bool ddl__step_reads(uint8_t kind)
{
	return kinds[kind].reads;
}

bool ddl__step_writes(uint8_t kind)
{
	return kinds[kind].writes;
}

bool ddl__step_reduces(uint8_t kind)
{
	return kinds[kind].reduces;
}

const char *ddl__step_name(uint8_t kind)
{
	return kinds[kind].name;
}

int ddl__schedule_create(uint32_t n_lanes, struct ddl__schedule **schedule)
{
	struct ddl__schedule *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->lanes = calloc(n_lanes ? n_lanes : 1, sizeof(*s->lanes));
	if (!s->lanes) {
		free(s);
		return -ENOMEM;
	}
	for (uint32_t l = 0; l < n_lanes; l++) {
		s->lanes[l].number = l;
		s->lanes[l].recv_peer = s->lanes[l].send_peer = -1;
	}
	s->n_lanes = n_lanes;
	s->slots = 1;
	s->slice_elements = 1;
	*schedule = s;
	return 0;
}

void ddl__schedule_destroy(struct ddl__schedule *schedule)
{
	if (!schedule)
		return;
	for (uint32_t l = 0; l < schedule->n_lanes; l++)
		free(schedule->lanes[l].steps);
	free(schedule->lanes);
	free(schedule);
}

int ddl__schedule_reserve(struct ddl__steps *lane, uint64_t n)
{
	if (n >= UINT32_MAX)
		return -EOPNOTSUPP;
	lane->steps = calloc(n ? n : 1, sizeof(*lane->steps));
	return lane->steps ? 0 : -ENOMEM;
}

struct ddl__step *ddl__schedule_add(struct ddl__steps *lane, enum ddl__step_kind kind, enum ddl__buffer src_buffer, uint64_t src,
				    enum ddl__buffer dst_buffer, uint64_t dst, uint64_t count)
{
	struct ddl__step *step = &lane->steps[lane->n++];
	*step = (struct ddl__step){ .kind = (uint8_t)kind,
				    .src_buffer = (uint8_t)src_buffer,
				    .dst_buffer = (uint8_t)dst_buffer,
				    .wait_lane = DDL__NO_WAIT,
				    .src = src,
				    .dst = dst,
				    .count = count };
	return step;
}

struct ddl__steps *ddl__schedule_lane(const struct ddl__schedule *schedule, uint32_t number)
{
	uint32_t low = 0, high = schedule->n_lanes;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (schedule->lanes[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < schedule->n_lanes && schedule->lanes[low].number == number ? &schedule->lanes[low] : NULL;
}

uint64_t ddl__steps_slice(const struct ddl__steps *lane, uint64_t slice_elements, bool sent)
{
	uint64_t longest = 0;
	for (uint32_t i = 0; i < lane->n; i++) {
		const struct ddl__step *step = &lane->steps[i];
		if ((sent ? ddl__step_sends(step->kind) : ddl__step_receives(step->kind)) && step->count > longest)
			longest = step->count;
	}
	return longest < slice_elements ? longest : slice_elements;
}

uint64_t ddl__steps_received(const struct ddl__steps *lane, uint64_t slice_elements)
{
	uint64_t slices = 0;
	for (uint32_t i = 0; i < lane->n; i++)
		slices += ddl__step_receives(lane->steps[i].kind) ? ddl__step_slices(&lane->steps[i], slice_elements) : 0;
	return slices;
}

uint64_t ddl__step_slices(const struct ddl__step *step, uint64_t slice_elements)
{
	return step->count <= slice_elements ? 1 : (step->count + slice_elements - 1) / slice_elements;
}

void ddl__schedule_wait(struct ddl__step *step, const struct ddl__schedule *schedule, uint32_t before)
{
	step->wait_lane = before;
	step->wait_step = schedule->lanes[before].n - 1;
}

uint64_t ddl__slice_bounded(const struct ddl__build *build, uint64_t lanes, uint32_t slots)
{
	uint64_t bytes = SLOT_MEMORY / (lanes * slots);
	bytes = bytes < SLICE_BYTES_MAX ? bytes : SLICE_BYTES_MAX;
	bytes = bytes > SLICE_BYTES_MIN ? bytes : SLICE_BYTES_MIN;
	bytes = build->slice_bytes ? build->slice_bytes : bytes;
	return ddl__whole_blocks(build, bytes >= build->wire_bytes ? bytes / build->wire_bytes : 1);
}

uint64_t ddl__grain(const struct ddl__build *build, uint64_t grain)
{
	return build->wire_block > 1 ? build->wire_block : grain;
}

uint64_t ddl__whole_blocks(const struct ddl__build *build, uint64_t elements)
{
	uint64_t block = ddl__grain(build, 1);
	return (elements + block - 1) / block * block;
}

void ddl__split(uint64_t total, uint64_t n, uint64_t i, uint64_t grain, uint64_t *begin, uint64_t *count)
{
	uint64_t units = (total + grain - 1) / grain;
	uint64_t each = units / n, more = units % n; /* the first `more` parts have one unit more */
	uint64_t b = (each * i + (i < more ? i : more)) * grain;
	uint64_t e = b + (each + (i < more ? 1 : 0)) * grain;
	b = b < total ? b : total;
	*begin = b;
	*count = (e < total ? e : total) - b;
}
