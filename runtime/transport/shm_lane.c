/* SPDX-License-Identifier: Apache-2.0 */
/* shm_lane.c - see shm_lane.h. */
#include "shm_lane.h"

#define PAGE_SIZE 4096u

void ddl__shm_lane_init(struct ddl__shm_lane *lane, const struct ddl__lane *as, void *memory)
{
	size_t slots = sizeof(struct ddl__shm_segment), slice = ddl__lane_stride(as);
	bool inside = as->slot_bytes <= sizeof(lane->at->inside), near = as->slot_bytes <= PAGE_SIZE;

	*lane = (struct ddl__shm_lane){ .segment = memory, .slots = as->slots };
	lane->slot_stride = sizeof(struct ddl__shm_slot) + (inside || !near ? 0 : slice);
	lane->slice_stride = near ? lane->slot_stride : slice;
	if (near)
		lane->slices_at = slots + (inside ? offsetof(struct ddl__shm_slot, inside) : sizeof(struct ddl__shm_slot));
	else
		lane->slices_at = (slots + as->slots * sizeof(struct ddl__shm_slot) + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
	lane->size = near ? slots + as->slots * lane->slot_stride : lane->slices_at + as->slots * slice;
	lane->at = memory ? (struct ddl__shm_slot *)(lane->segment + 1) : NULL;
}

size_t ddl__shm_lane_size(const struct ddl__lane *as)
{
	struct ddl__shm_lane lane;

	ddl__shm_lane_init(&lane, as, NULL);
	return lane.size;
}
