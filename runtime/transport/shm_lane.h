/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_lane.h - how a lane lies in the memory that two processes share.
 *
 * First what the receiver writes, then the slots, which the sender writes. A slot is a cache line that says which slice is in it
 * and how long that is, and holds the slice itself where slices of the lane are short: so a short message is one line that goes
 * from one core to another. Slices of up to a page follow their line. Longer ones lie behind all slots, from a page's begin on:
 * copied to a little further in a page than where they come from, loads would wait for stores before them that seem to be to the
 * same place.
 *
 * Slice k of the lane, from 1, lies in slot (k - 1) modulo the slots, whose sequence becomes k when the slice is complete. Before,
 * it is that of the slice that was there last, k minus the slots, or 0: a receiver that waits for slice k knows these two values
 * and takes any other for a lie.
 */
#ifndef DDL_TRANSPORT_SHM_LANE_H
#define DDL_TRANSPORT_SHM_LANE_H

#include <stdatomic.h>

#include "shm_window.h"

struct ddl__shm_slot {                          /* written by the sender */
	_Alignas(64) _Atomic uint64_t sequence; /* number of the slice that lies in it, from 1; 0 none yet */
	_Atomic uint32_t what;                  /* bytes of it, and whether it lies elsewhere */
	uint32_t unused;
	union {
		uint8_t bytes[48];               /* the slice, where those of the lane fit */
		struct ddl__elsewhere elsewhere; /* where it lies */
	} inside;
};

struct ddl__shm_segment {                       /* head of a lane's memory; the slots follow */
	_Alignas(64) _Atomic uint64_t consumed; /* slices released; written by the receiver */
	struct ddl__grant grant;
};

struct ddl__shm_lane {                    /* one end of a mapped lane */
	struct ddl__shm_segment *segment; /* where it is mapped */
	size_t size;                      /* bytes mapped */
	size_t slices_at;                 /* bytes from the segment to the first slice */
	size_t slice_stride;              /* bytes from slice to slice */
	size_t slot_stride;               /* bytes from slot to slot */
	uint32_t slots;                   /* how many */
	uint32_t next;                    /* index of the slot that this end is at */
	struct ddl__shm_slot *at;         /* that slot */
};

_Static_assert(sizeof(struct ddl__shm_slot) == 64 && sizeof(struct ddl__shm_segment) == 128, "cache lines");

/* The end of a lane in memory of ddl__shm_lane_size() bytes, at its first slot. */
void ddl__shm_lane_init(struct ddl__shm_lane *lane, const struct ddl__lane *as, void *memory);
size_t ddl__shm_lane_size(const struct ddl__lane *as);

/* Where the slice of that slot lies. */
static inline void *ddl__shm_slice_of(const struct ddl__shm_lane *lane, uint32_t slot)
{
	return (uint8_t *)lane->segment + lane->slices_at + slot * lane->slice_stride;
}

/* The same of the slot that this end is at. */
static inline void *ddl__shm_slice(const struct ddl__shm_lane *lane)
{
	return ddl__shm_slice_of(lane, lane->next);
}

/* To the next slot. */
static inline void ddl__shm_go_on(struct ddl__shm_lane *lane)
{
	if (++lane->next == lane->slots) {
		lane->next = 0;
		lane->at = (struct ddl__shm_slot *)(lane->segment + 1);
	} else {
		lane->at = (struct ddl__shm_slot *)((uint8_t *)lane->at + lane->slot_stride);
	}
}

#endif
