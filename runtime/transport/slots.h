/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - receiving ends whose slices land in slots of this process, or in the caller's memory, one after the other, and that
 * send credits back: what tcp and verbs have in common.
 *
 * Credits are owed as slots are released. They wait until half of the slots are owed, or for a few passes; where those that the
 * sender has are enough for another start of the request, until they are not.
 */
#ifndef DDL_TRANSPORT_SLOTS_H
#define DDL_TRANSPORT_SLOTS_H

#include "mesh.h"

struct ddl__slots_rx { /* first field of a transport's struct ddl__rx */
	struct ddl__mesh_rx mesh;
	uint8_t *memory; /* slots, stride bytes each */
	size_t stride;
	const uint8_t *at[DDL__SLOTS_MAX]; /* where each slice lies: its slot, or the caller's memory */
	uint32_t sizes[DDL__SLOTS_MAX];    /* bytes in each */
	uint64_t landed;
	uint64_t released;
	void *(*where)(void *context, uint64_t ahead, size_t bytes); /* asks the engine; NULL: in slots */
	void *context;                                               /* of that */
	uint64_t expected;                                           /* slices of a start; 0: not known */
	uint32_t owed;                                               /* credits not sent yet */
	bool owing;                                                  /* in the link's list of those that owe some */
	struct ddl__slots_rx *next;                                  /* in that list */
};

/* Ops that a transport takes as they are. */
const void *ddl__slots_rx_slot(struct ddl__rx *rx, size_t *bytes);
void ddl__slots_rx_expect(struct ddl__rx *rx, uint64_t slices);
void ddl__slots_rx_land(struct ddl__rx *rx, void *(*where)(void *context, uint64_t ahead, size_t bytes), void *context);
void ddl__slots_progress(struct ddl__mesh_rx *rx, struct ddl__progress *progress); /* mesh op */

/* Why the peer may not send a slice of so many bytes now, static text; NULL: it may. */
const char *ddl__slots_refuse(const struct ddl__slots_rx *rx, uint32_t bytes);
/* The slot that the next slice lands in. */
uint8_t *ddl__slots_next(const struct ddl__slots_rx *rx);
/* Where the engine wants the next slice; NULL: in its slot. */
uint8_t *ddl__slots_where(const struct ddl__slots_rx *rx, uint32_t bytes);
/* A slice has landed there. */
void ddl__slots_landed(struct ddl__slots_rx *rx, const uint8_t *at, uint32_t bytes);

/* Releases the oldest slice and enters the lane in the list of those that owe credits, if its link is up. Whether credits are to go
 * before the next start; *soon: at the end of the pass. */
bool ddl__slots_release(struct ddl__slots_rx *rx, struct ddl__slots_rx **owing, bool *soon);
/* Takes the first out of the list; returns what it owes no more. The list is not empty. */
uint32_t ddl__slots_pay(struct ddl__slots_rx **owing);
void ddl__slots_unlist(struct ddl__slots_rx *rx, struct ddl__slots_rx **owing); /* takes that one out, if it is in */
void ddl__slots_forgive(struct ddl__slots_rx **owing);                          /* takes all out */

#endif
