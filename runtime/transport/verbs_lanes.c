/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_lanes.c - see verbs.h: numbers of lanes, lanes that are withdrawn, that end with their queue pair, or go on over another
 * link.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "verbs.h"

/* Numbers */

int ddl__verbs_rx_number(struct verbs *verbs, struct verbs_rx *rx, struct ddl_error *err)
{
	uint32_t number = verbs->free_from;

	while (number < verbs->n_lanes && verbs->lanes[number])
		number++;
	if (number == verbs->room_lanes) {
		uint32_t room = verbs->room_lanes ? 2 * verbs->room_lanes : 64;
		struct verbs_rx **lanes = number < DDL__VERBS_NUMBERS ? realloc(verbs->lanes, room * sizeof(*lanes)) : NULL;

		if (!lanes)
			return ddl__error_set(err, -ENOMEM, "verbs: there is no room for more than %u lanes.", number);
		verbs->lanes = lanes;
		verbs->room_lanes = room;
	}
	if (number == verbs->n_lanes)
		verbs->n_lanes++;
	verbs->free_from = number + 1;
	verbs->lanes[number] = rx;
	rx->in.mesh.number = number;
	rx->numbered = true;
	return 0;
}

void ddl__verbs_rx_free(struct verbs *verbs, struct verbs_rx *rx)
{
	if (rx->numbered) {
		verbs->lanes[rx->in.mesh.number] = NULL;
		if (rx->in.mesh.number < verbs->free_from)
			verbs->free_from = rx->in.mesh.number;
	}
	ddl__verbs_memory_put(verbs->memory, &rx->memory);
	free(rx);
}

void ddl__verbs_tx_free(struct verbs *verbs, struct verbs_tx *tx)
{
	ddl__verbs_memory_put(verbs->memory, &tx->memory);
	free(tx);
}

/* What was granted before the lane was known. */
static void take_early(struct verbs_link *link, struct verbs_tx *tx)
{
	for (uint32_t i = 0; i < DDL__VERBS_EARLY; i++) {
		struct ddl__verbs_grant *grant = &link->early[i];

		if (!grant->start || grant->number != tx->terms.number || grant->opening != tx->mesh.end.grant)
			continue;
		if (grant->start > tx->grant.start)
			tx->grant = *grant;
		grant->start = 0;
	}
}

/* The peer's credits and grants find the lane by its number. */
int ddl__verbs_tx_number(struct verbs_tx *tx)
{
	struct verbs_link *link = (struct verbs_link *)tx->mesh.link;

	if (ddl__table_find(&link->numbers, tx->terms.number, 0))
		return ddl__link_bad(&link->link, "it gave two lanes one number");
	tx->numbered = (struct ddl__end){ .lane.request = tx->terms.number, .owner = tx };
	take_early(link, tx);
	return ddl__table_add(&link->numbers, &tx->numbered);
}

/* What ends */

static void unqueue(struct verbs_link *link, struct verbs_tx *tx)
{
	struct ddl__mesh_tx **at = &link->turns;

	if (!tx->mesh.queued)
		return;
	while (*at != &tx->mesh)
		at = &(*at)->next;
	*at = tx->mesh.next;
	tx->mesh.queued = false;
}

void ddl__verbs_withdrawn(struct ddl__link *base, const struct ddl__frame *frame)
{
	struct verbs_link *link = (struct verbs_link *)base;
	struct ddl__end *end = ddl__table_find(&link->numbers, frame->count, 0);
	struct verbs_tx *tx = end ? end->owner : NULL;

	if (!tx) {
		ddl__verbs_say_freed(link, frame->count);
		return;
	}
	unqueue(link, tx);
	tx->sent = tx->posted; /* nobody would read the rest */
	tx->withdrawn = true;
	ddl__verbs_tx_done(tx);
}

void ddl__verbs_free_closed(struct verbs_link *link)
{
	const uint32_t taken = link->used - (link->peer_receives - link->room); /* in by the peer */
	struct verbs *verbs = (struct verbs *)link->link.mesh;
	struct verbs_rx **at = &link->closed;

	while (*at) {
		struct verbs_rx *rx = *at;

		if (rx->memory.at && rx->freed && (int32_t)(link->received - rx->until) >= 0) {
			ddl__verbs_memory_put(verbs->memory, &rx->memory);
			link->n_freed--;
		}
		if (rx->memory.at || (rx->credited && (int32_t)(taken - rx->mark) < 0)) {
			at = &rx->next_closed;
			continue;
		}
		*at = rx->next_closed;
		ddl__verbs_rx_free(verbs, rx);
	}
}

int ddl__verbs_freed(struct verbs_link *link, const struct ddl__frame *frame)
{
	const struct verbs *verbs = (const struct verbs *)link->link.mesh;
	struct verbs_rx *rx = frame->count < verbs->n_lanes ? verbs->lanes[frame->count] : NULL;

	if (!link->qp)
		return 0; /* let go, and with it all closed lanes */
	if (!rx || !rx->closed || rx->freed || rx->in.mesh.link != &link->link)
		return ddl__link_bad(&link->link, "it gave up a lane that it was not told of");
	rx->freed = true;
	rx->until = frame->request;
	link->n_freed++;
	ddl__verbs_free_closed(link);
	return 0;
}

/* Of a lane nothing is under way any more. */
static void drop_slices(struct verbs *verbs, struct verbs_tx *tx)
{
	tx->posted = tx->completed;
	tx->withdrawn = false;
	if (tx->closed && !tx->mesh.queued)
		ddl__verbs_tx_free(verbs, tx);
}

void ddl__verbs_drop(struct verbs_link *link)
{
	struct verbs *verbs = (struct verbs *)link->link.mesh;
	struct ddl__end *end;

	while (link->turns)
		ddl__lane_dequeue(&link->turns);
	while ((end = ddl__table_first(&link->numbers))) {
		ddl__table_remove(&link->numbers, end);
		drop_slices(verbs, end->owner);
	}
	free(link->numbers.bucket);
	link->numbers = (struct ddl__table){ 0 };
	memset(link->early, 0, sizeof(link->early));
	link->n_completed = link->n_posted;
	link->slices = 0;
	link->flying = 0;
	ddl__slots_forgive(&link->owing);
	for (struct verbs_rx *rx = link->granting; rx; rx = rx->next_granting)
		rx->granting = false;
	link->granting = NULL;
	link->n_freed = 0;
	while (link->closed) {
		struct verbs_rx *rx = link->closed;

		link->closed = rx->next_closed;
		ddl__verbs_rx_free(verbs, rx);
	}
}

/* Credits */

int ddl__verbs_credit(struct verbs_link *link, struct verbs_tx *tx, uint32_t count)
{
	if (count > tx->posted - tx->credited)
		return ddl__link_bad(&link->link, "it gave credits for slices that it cannot have");
	tx->credited += count;
	return 0;
}

/*
 * Those for slices that came before the lane was moved go over the stream, after its announcement: over the queue pair they could
 * be here first, when nobody knows of the lane yet. Slices that come over the new link show that the peer does.
 */
int ddl__verbs_moved_credit(struct verbs_link *link, const struct ddl__frame *frame)
{
	struct ddl__end *end = ddl__table_find(&link->link.tx, frame->request, frame->lane);

	return link->qp && end && end->grant == frame->grant ? ddl__verbs_credit(link, end->owner, frame->count)
							     : 0; /* or closed meanwhile */
}

/* Lanes that go on over another link */

bool ddl__verbs_movable(const struct ddl__link *base)
{
	const struct verbs_link *link = (const struct verbs_link *)base;

	for (const struct ddl__mesh_tx *tx = link->turns; tx; tx = tx->next)
		if (((const struct verbs_tx *)tx)->closed)
			return false;
	for (uint32_t i = link->n_completed; i != link->n_posted; i++) {
		const struct verbs_tx *tx = link->works[i % DDL__VERBS_SENDS].tx;

		if (tx && tx->closed)
			return false;
	}
	return !((const struct verbs *)base->mesh)->let_go;
}

void ddl__verbs_grant_memory(struct verbs_rx *rx)
{
	struct verbs_link *link = (struct verbs_link *)rx->in.mesh.link;

	if (!rx->grant.start || rx->granting)
		return;
	rx->granting = true;
	rx->next_granting = link->granting;
	link->granting = rx;
}

void ddl__verbs_progress(struct ddl__mesh_rx *base, struct ddl__progress *progress)
{
	struct verbs_rx *rx = (struct verbs_rx *)base;

	ddl__slots_progress(base, progress);
	rx->moved = progress->landed > progress->released;
	rx->credited = false;        /* over this link */
	ddl__verbs_grant_memory(rx); /* the keys are of the link's device */
}

int ddl__verbs_resume(struct ddl__mesh_tx *base, const struct ddl__progress *progress)
{
	struct verbs_tx *tx = (struct verbs_tx *)base;
	const uint32_t slots = tx->mesh.end.lane.slots;

	if (progress->landed > tx->sent || progress->released > progress->landed || progress->released < tx->credited)
		return ddl__link_bad(base->link, "it announced a lane that is not where it can be");
	for (uint64_t i = progress->landed; i < tx->settled; i++)
		if (tx->at[i % slots] != tx->memory.at + i % slots * tx->stride)
			return -EAGAIN;
	tx->posted = tx->completed = progress->landed;
	tx->credited = progress->released;
	tx->grant.start = 0;
	if (tx->posted != tx->sent && !tx->mesh.queued) {
		ddl__lane_enqueue(&((struct verbs_link *)base->link)->turns, base);
		ddl__verbs_pend((struct verbs_link *)base->link, true);
	}
	return ddl__verbs_tx_number(tx);
}
