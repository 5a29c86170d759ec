/* SPDX-License-Identifier: Apache-2.0 */
/* slots.c - see slots.h. */
#include "slots.h"

static uint32_t slot_of(const struct ddl__slots_rx *rx, uint64_t slice)
{
	return (uint32_t)(slice % rx->mesh.end.lane.slots);
}

const void *ddl__slots_rx_slot(struct ddl__rx *base, size_t *bytes)
{
	const struct ddl__slots_rx *rx = (const struct ddl__slots_rx *)base;
	const uint32_t slot = slot_of(rx, rx->released);

	if (rx->landed == rx->released)
		return NULL;
	*bytes = rx->sizes[slot];
	return rx->at[slot];
}

void ddl__slots_rx_expect(struct ddl__rx *base, uint64_t slices)
{
	((struct ddl__slots_rx *)base)->expected = slices;
}

void ddl__slots_rx_land(struct ddl__rx *base, void *(*where)(void *context, uint64_t ahead, size_t bytes), void *context)
{
	struct ddl__slots_rx *rx = (struct ddl__slots_rx *)base;

	rx->where = where;
	rx->context = context;
}

void ddl__slots_progress(struct ddl__mesh_rx *base, struct ddl__progress *progress)
{
	struct ddl__slots_rx *rx = (struct ddl__slots_rx *)base;

	progress->landed = rx->landed;
	progress->released = rx->released;
	rx->owed = 0;
}

const char *ddl__slots_refuse(const struct ddl__slots_rx *rx, uint32_t bytes)
{
	if (bytes > rx->mesh.end.lane.slot_bytes)
		return "it sent a slice that is larger than its slot";
	if (rx->landed - rx->released >= rx->mesh.end.lane.slots)
		return "it sent a slice without a credit";
	return NULL;
}

uint8_t *ddl__slots_next(const struct ddl__slots_rx *rx)
{
	return rx->memory + slot_of(rx, rx->landed) * rx->stride;
}

uint8_t *ddl__slots_where(const struct ddl__slots_rx *rx, uint32_t bytes)
{
	return rx->where ? rx->where(rx->context, rx->landed - rx->released, bytes) : NULL;
}

void ddl__slots_landed(struct ddl__slots_rx *rx, const uint8_t *at, uint32_t bytes)
{
	const uint32_t slot = slot_of(rx, rx->landed++);

	rx->at[slot] = at;
	rx->sizes[slot] = bytes;
}

bool ddl__slots_release(struct ddl__slots_rx *rx, struct ddl__slots_rx **owing, bool *soon)
{
	const uint32_t slots = rx->mesh.end.lane.slots;

	rx->released++;
	rx->owed++;
	if (rx->mesh.link->state != DDL__LINK_UP)
		return false;
	if (!rx->owing) {
		rx->owing = true;
		rx->next = *owing;
		*owing = rx;
	}
	*soon = 2 * rx->owed >= slots;
	return !rx->expected || rx->owed + rx->expected > slots;
}

uint32_t ddl__slots_pay(struct ddl__slots_rx **owing)
{
	struct ddl__slots_rx *rx = *owing;
	const uint32_t owed = rx->owed;

	*owing = rx->next;
	rx->owing = false;
	rx->owed = 0;
	return owed;
}

void ddl__slots_unlist(struct ddl__slots_rx *rx, struct ddl__slots_rx **owing)
{
	while (rx->owing && *owing != rx)
		owing = &(*owing)->next;
	if (rx->owing)
		*owing = rx->next;
	rx->owing = false;
}

void ddl__slots_forgive(struct ddl__slots_rx **owing)
{
	for (struct ddl__slots_rx *rx = *owing; rx; rx = rx->next)
		rx->owing = false;
	*owing = NULL;
}
