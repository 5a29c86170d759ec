/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move.c - a link to a peer is lost while another one to it, over another rail, is up: its lanes go on there. Where none is up
 * one is made, if it was the network that failed: a peer that closed the link itself is gone.
 *
 * The receiver decides. It tells the peer that the link is lost, and announces its lanes anew on the other link, with the
 * slices that have landed and been released so far: that is where the sender goes on, and what its credits are. Sending ends
 * stay where they are, without credit, until that announcement comes. Either side may notice first, or both at once. A lane
 * that is opened later for the lost link is opened on another one, and its ends find each other as they always do: by the
 * announcement.
 *
 * What was written and has not landed is sent again. That it cannot be, where it lay in memory that is the caller's again, is a
 * loss of the peer, as every loss is where no other link is up.
 */
#include <errno.h>
#include <stdio.h>

#include "mesh.h"

#define REPLACE_MS 45000 /* for a link in place of another: the peer may notice the loss half a minute later */

_Static_assert(sizeof(struct ddl__progress) == 16, "the progress of a lane has no padding");

struct ddl__link *ddl__link_other(const struct ddl__link *link)
{
	const struct ddl__mesh *mesh = link->mesh;
	struct ddl__link *found = NULL;

	for (unsigned i = 0; i < mesh->n_paths; i++) {
		struct ddl__link *other = mesh->links[(size_t)link->peer * mesh->n_paths + i];

		if (!other || other->rail == link->rail || other->state != DDL__LINK_UP || other->mute || other->said_bye ||
		    other->heard_bye)
			continue;
		if (!found || other->channel == link->channel)
			found = other;
	}
	return found;
}

struct ddl__link *ddl__link_instead(const struct ddl__link *link)
{
	struct ddl__mesh *mesh = link->mesh;
	struct ddl__link *other = ddl__link_other(link);

	for (unsigned rail = 0; !other && link->silent && rail < mesh->peers[link->peer].rails; rail++) {
		struct ddl__link *spare = rail == link->rail ? NULL : ddl__mesh_link(mesh, link->peer, rail, 0);

		if (spare && spare->state < DDL__LINK_UP)
			other = spare;
	}
	return other;
}

static int say_lost(struct ddl__link *on, const struct ddl__link *link)
{
	const struct ddl__frame frame = { .type = DDL__FRAME_LOST, .lane = link->channel, .count = link->rail };

	return ddl__stream_put(on->stream, &frame, NULL, NULL, 0);
}

int ddl__link_say_lost(struct ddl__link *on)
{
	const struct ddl__mesh *mesh = on->mesh;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < mesh->n_paths; i++) {
		const struct ddl__link *other = mesh->links[(size_t)on->peer * mesh->n_paths + i];

		if (other && other->moved)
			rc = say_lost(on, other);
	}
	return rc;
}

/* Moves all receiving ends of the link to the other one, which announces them. Negative: no memory, and both are lost. */
static int move_receivers(struct ddl__link *link, struct ddl__link *to)
{
	struct ddl__end *end;
	int rc = 0;

	link->unannounced = NULL;
	while (rc == 0 && (end = ddl__table_first(&link->rx))) {
		struct ddl__mesh_rx *rx = end->owner;

		ddl__table_remove(&link->rx, end);
		rc = ddl__table_add(&to->rx, end);
		rx->link = to;
		if (rc == 0 && to->state == DDL__LINK_UP) {
			rc = ddl__lane_announce(rx);
		} else if (rc == 0) {
			rx->next = to->unannounced;
			to->unannounced = rx;
		}
	}
	return rc;
}

/* Sending ends wait for another announcement; those of lanes that are not open here come anew as well. */
static void forget_grants(struct ddl__link *link)
{
	for (size_t i = 0; i < link->tx.n_buckets; i++) {
		for (struct ddl__end *end = link->tx.bucket[i]; end; end = end->next) {
			end->grant = 0;
			((struct ddl__mesh_tx *)end->owner)->granted = false;
		}
	}
	ddl__lanes_forget(link);
}

bool ddl__link_move(struct ddl__link *link, bool was_up)
{
	const bool in_use = link->rx.n || link->tx.n;
	struct ddl__mesh *mesh = link->mesh;
	struct ddl__link *to = ddl__link_instead(link);
	char what[sizeof(link->detail) + 32];

	if (!to || !mesh->ops->progress || mesh->abort_code || mesh->leaving || link->heard_bye)
		return false;
	link->moved = true;
	if (to->state == DDL__LINK_UP && ddl__link_say_lost(to)) { /* all: what was said before may be lost with this link */
		link->moved = false;
		return false;
	}
	snprintf(what, sizeof(what), "%s; goes on over rail %u", link->detail, to->rail);
	if (mesh->events->moved && was_up)
		mesh->events->moved(mesh->context, link->peer, what);
	forget_grants(link);
	if (move_receivers(link, to)) {
		ddl__link_fail(to, -ENOMEM, "there is no memory to go on with fewer rails");
	} else if (to->state == DDL__LINK_UP) {
		to->retry_ns = 1; /* it is written soon, not from within a callback */
		ddl__mesh_due(mesh, 1);
	} else if (in_use) {
		to->limit_ms = mesh->timeout_ms < REPLACE_MS ? mesh->timeout_ms : REPLACE_MS;
		ddl__link_bring_up(to);
		if (to->state == DDL__LINK_WAITING)
			ddl__greet_connect(to); /* who would connect may not hear of the loss for half a minute */
	}
	return true;
}

int ddl__link_told_lost(struct ddl__link *on, const struct ddl__frame *frame)
{
	struct ddl__mesh *mesh = on->mesh;
	struct ddl__link *link;

	if (frame->bytes || frame->count >= mesh->n_rails || frame->lane >= mesh->n_paths / mesh->n_rails ||
	    (frame->count == on->rail && frame->lane == on->channel))
		return ddl__link_bad(on, "it told of the loss of a rail that cannot be");
	link = ddl__mesh_link(mesh, on->peer, frame->count, frame->lane);
	if (!link)
		return -ENOMEM;
	if (link->state != DDL__LINK_LEFT)
		ddl__link_fail(link, -ECONNRESET, "it has lost the connection");
	return 0;
}

struct ddl__link *ddl__link_with(struct ddl__link *link, uint32_t request, uint32_t index, bool offered)
{
	const struct ddl__mesh *mesh = link->mesh;

	for (unsigned i = 0; i < mesh->n_paths; i++) {
		struct ddl__link *other = mesh->links[(size_t)link->peer * mesh->n_paths + i];

		if (other && other != link && ddl__table_find(offered ? &other->offers : &other->tx, request, index))
			return other;
	}
	return link;
}

void ddl__link_lose(struct ddl__link *link)
{
	if (link->state != DDL__LINK_DOWN || !link->told)
		return;
	link->told = false;
	link->mesh->untold++;
	if (!link->mesh->telling)
		ddl__mesh_due(link->mesh, 1);
}

int ddl__lane_resume(struct ddl__link *link, struct ddl__mesh_tx *tx, const struct ddl__progress *progress)
{
	struct ddl__link *from = tx->link;
	int rc;

	if (from != link) {
		ddl__table_remove(&from->tx, &tx->end);
		rc = ddl__table_add(&link->tx, &tx->end);
		if (rc)
			return rc;
		tx->link = link;
	}
	rc = link->mesh->ops->resume(tx, progress);
	if (rc != -EAGAIN)
		return rc;
	ddl__link_lose(from);
	return 0;
}
