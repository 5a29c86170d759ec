/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.c - the lanes of a link: tables of the ends open here, and of announcements that came before their lane was opened here.
 *
 * Each opening of a receiving end has a number (grant). Credits and data carry it, so that what is still under way for an
 * earlier opening of the same lane is told apart and dropped.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "mesh.h"

_Static_assert(sizeof(struct ddl__call) == 104, "the call has no padding");
_Static_assert(sizeof(struct ddl__lane) == 120, "the lane has no padding");

/* Tables */

static size_t bucket_of(const struct ddl__table *table, uint32_t request, uint32_t index)
{
	uint64_t key = ((uint64_t)request << 32 | index) * 0x9e3779b97f4a7c15u;

	return (size_t)(key >> 32) & (table->n_buckets - 1);
}

struct ddl__end *ddl__table_find(const struct ddl__table *table, uint32_t request, uint32_t index)
{
	if (table->n == 0)
		return NULL;
	for (struct ddl__end *end = table->bucket[bucket_of(table, request, index)]; end; end = end->next)
		if (end->lane.request == request && end->lane.index == index)
			return end;
	return NULL;
}

static void link_in(struct ddl__table *table, struct ddl__end *end)
{
	struct ddl__end **bucket = &table->bucket[bucket_of(table, end->lane.request, end->lane.index)];

	end->next = *bucket;
	*bucket = end;
}

int ddl__table_add(struct ddl__table *table, struct ddl__end *end)
{
	if (table->n == table->n_buckets) {
		struct ddl__table larger = { .n_buckets = table->n_buckets ? 2 * table->n_buckets : 16, .n = table->n };

		larger.bucket = calloc(larger.n_buckets, sizeof(*larger.bucket));
		if (!larger.bucket)
			return -ENOMEM;
		for (size_t i = 0; i < table->n_buckets; i++) {
			for (struct ddl__end *each = table->bucket[i], *next; each; each = next) {
				next = each->next;
				link_in(&larger, each);
			}
		}
		free(table->bucket);
		*table = larger;
	}
	link_in(table, end);
	table->n++;
	end->listed = true;
	return 0;
}

void ddl__table_remove(struct ddl__table *table, struct ddl__end *end)
{
	struct ddl__end **at;

	if (!end->listed)
		return;
	at = &table->bucket[bucket_of(table, end->lane.request, end->lane.index)];
	while (*at != end)
		at = &(*at)->next;
	*at = end->next;
	table->n--;
	end->listed = false;
}

struct ddl__end *ddl__table_first(const struct ddl__table *table)
{
	for (size_t i = 0; table->n && i < table->n_buckets; i++)
		if (table->bucket[i])
			return table->bucket[i];
	return NULL;
}

/* Opening */

/*
 * Ring r goes over rail r modulo their number; rings that share a rail have connections of their own as far as there are channels.
 * Where lanes are not rings, those of one request are spread over the rails by their numbers.
 */
void ddl__mesh_path(const struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, unsigned *rail, unsigned *channel)
{
	unsigned rails = mesh->peers[peer].rails, rings = lane->call.rings;

	*rail = lane->index % rails;
	*channel = rings > rails ? lane->index % rings / rails % mesh->ops->channels : 0;
}

static bool is_possible(const struct ddl__lane *lane)
{
	return lane->slots >= 1 && lane->slots <= DDL__SLOTS_MAX && lane->slot_bytes <= DDL__SLOT_BYTES_MAX;
}

int ddl__lane_check(const struct ddl__mesh *mesh, const struct ddl__lane *lane, struct ddl_error *err)
{
	if (is_possible(lane))
		return 0;
	return ddl__error_set(err, -EINVAL, "%s: a lane with %u slots of %u bytes cannot be opened (1 to %u slots of at most %u).",
			      mesh->base.ops->name, lane->slots, lane->slot_bytes, DDL__SLOTS_MAX, DDL__SLOT_BYTES_MAX);
}

size_t ddl__lane_stride(const struct ddl__lane *lane)
{
	return ((size_t)lane->slot_bytes + DDL__MESH_ALIGNMENT - 1) / DDL__MESH_ALIGNMENT * DDL__MESH_ALIGNMENT;
}

/* The link that the lane with that peer goes over; NULL: *rc and err say why not. */
static struct ddl__link *link_for(struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, int *rc, struct ddl_error *err)
{
	const char *name = mesh->base.ops->name;
	unsigned rail = 0, channel = 0;
	struct ddl__link *link, *instead;

	if (!ddl__mesh_reaches(&mesh->base, peer)) {
		*rc = ddl__error_set(err, -EINVAL, "%s: rank %d cannot be reached this way.", name, peer);
		return NULL;
	}
	if (mesh->ops->path)
		mesh->ops->path(mesh, peer, lane, &rail, &channel);
	link = ddl__mesh_link(mesh, peer, rail, channel);
	instead = link && link->moved ? ddl__link_instead(link) : NULL;
	link = instead ? instead : link;
	if (!link)
		*rc = ddl__error_memory(err);
	else if (link->state == DDL__LINK_DOWN)
		*rc = ddl__error_set(err, link->code, "%s: rank %d is lost: %s.", name, peer, link->detail);
	else if (link->state == DDL__LINK_LEFT || link->heard_bye || mesh->leaving)
		*rc = ddl__error_set(err, -ECONNRESET, "%s: rank %d and this one have said goodbye.", name, peer);
	else
		return link;
	return NULL;
}

void ddl__link_bring_up(struct ddl__link *link)
{
	struct ddl__mesh *mesh = link->mesh;

	if (link->state != DDL__LINK_IDLE)
		return;
	link->deadline_ns = ddl__mesh_now() + (uint64_t)(link->limit_ms ? link->limit_ms : mesh->timeout_ms) * 1000000u;
	if (mesh->rank < link->peer)
		ddl__greet_connect(link);
	else
		link->state = DDL__LINK_WAITING;
	ddl__mesh_due(mesh, link->deadline_ns);
}

uint32_t ddl__lane_announcement_bytes(const struct ddl__mesh *mesh)
{
	return mesh->ops->terms      ? sizeof(struct ddl__announcement)
	       : mesh->ops->progress ? offsetof(struct ddl__announcement, terms)
				     : sizeof(struct ddl__lane);
}

int ddl__lane_announce(struct ddl__mesh_rx *rx)
{
	const struct ddl__mesh *mesh = rx->link->mesh;
	struct ddl__announcement body = { .lane = rx->end.lane };
	struct ddl__frame frame = {
		.type = DDL__FRAME_ANNOUNCE,
		.bytes = ddl__lane_announcement_bytes(mesh),
		.request = rx->end.lane.request,
		.lane = rx->end.lane.index,
		.grant = rx->end.grant,
	};
	int rc;

	if (mesh->ops->progress)
		mesh->ops->progress(rx, &body.progress);
	if (mesh->ops->terms)
		mesh->ops->terms(rx, body.terms);
	rc = ddl__stream_put(rx->link->stream, &frame, &body, &rx->fd, rx->fd >= 0 ? 1 : 0);
	if (rc)
		return rc;
	rx->fd = -1;
	rx->announced = true;
	return 0;
}

int ddl__mesh_rx_open(struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, struct ddl__mesh_rx *rx,
		      struct ddl_error *err)
{
	int rc = 0;
	struct ddl__link *link = link_for(mesh, peer, lane, &rc, err);

	if (!link)
		return rc;
	if (ddl__table_find(&link->rx, lane->request, lane->index))
		return ddl__error_set(err, -EINVAL, "%s: lane %u of request %u from rank %d is open already.", mesh->base.ops->name,
				      lane->index, lane->request, peer);
	rx->base.ops = mesh->base.ops;
	rx->link = link;
	rx->end = (struct ddl__end){ .lane = *lane, .grant = ++mesh->grants, .owner = rx };
	if (ddl__table_add(&link->rx, &rx->end))
		return ddl__error_memory(err);
	if (link->state == DDL__LINK_UP) {
		rc = ddl__lane_announce(rx);
		if (rc) {
			ddl__table_remove(&link->rx, &rx->end);
			return ddl__error_set(err, rc,
					      "%s: no room to announce a lane to rank %d: too many are being opened at once.",
					      mesh->base.ops->name, peer);
		}
		mesh->ops->pump(link);
	} else {
		rx->next = link->unannounced;
		link->unannounced = rx;
		ddl__link_bring_up(link);
	}
	return 0;
}

/* A lane open here meets its announcement. One of another shape gets no credit: the engine compares, and tells. */
static void meet(struct ddl__mesh_tx *tx, const struct ddl__lane *announced, uint32_t grant, void *extra)
{
	tx->end.grant = grant;
	tx->granted = announced->slots == tx->end.lane.slots && announced->slot_bytes == tx->end.lane.slot_bytes;
	tx->link->mesh->ops->grant(tx, extra);
}

int ddl__mesh_tx_open(struct ddl__mesh *mesh, int peer, const struct ddl__lane *lane, struct ddl__mesh_tx *tx,
		      struct ddl_error *err)
{
	struct ddl__end *offered;
	int rc = 0;
	struct ddl__link *link = link_for(mesh, peer, lane, &rc, err);

	if (!link)
		return rc;
	if (ddl__table_find(&link->tx, lane->request, lane->index))
		return ddl__error_set(err, -EINVAL, "%s: lane %u of request %u to rank %d is open already.", mesh->base.ops->name,
				      lane->index, lane->request, peer);
	link = ddl__link_with(link, lane->request, lane->index, true);
	tx->base.ops = mesh->base.ops;
	tx->link = link;
	tx->granted = tx->queued = false;
	tx->end = (struct ddl__end){ .lane = *lane, .owner = tx };
	if (ddl__table_add(&link->tx, &tx->end))
		return ddl__error_memory(err);
	offered = ddl__table_find(&link->offers, lane->request, lane->index);
	if (offered) {
		struct ddl__offer *offer = offered->owner;

		ddl__table_remove(&link->offers, offered);
		meet(tx, &offered->lane, offered->grant, offer->extra);
		free(offer);
	}
	ddl__link_bring_up(link);
	return 0;
}

/* Closing */

void ddl__mesh_rx_close(struct ddl__mesh_rx *rx)
{
	struct ddl__link *link = rx->link;
	struct ddl__frame frame = {
		.type = DDL__FRAME_WITHDRAW,
		.request = rx->end.lane.request,
		.lane = rx->end.lane.index,
		.grant = rx->end.grant,
		.count = rx->number,
	};

	ddl__table_remove(&link->rx, &rx->end);
	for (struct ddl__mesh_rx **at = &link->unannounced; *at; at = &(*at)->next) {
		if (*at == rx) {
			*at = rx->next;
			break;
		}
	}
	if (rx->fd >= 0)
		close(rx->fd);
	rx->fd = -1;
	/* Without memory the peer keeps an announcement that it never uses: no harm. */
	if (rx->announced && link->state == DDL__LINK_UP && !link->said_bye && !link->mute &&
	    ddl__stream_put(link->stream, &frame, NULL, NULL, 0) == 0)
		link->mesh->ops->pump(link);
}

void ddl__mesh_tx_close(struct ddl__mesh_tx *tx)
{
	ddl__table_remove(&tx->link->tx, &tx->end);
}

/* Announcements that come */

/* The sending end of the lane; it waits at another link where that is lost. */
static struct ddl__end *open_end(struct ddl__link *link, const struct ddl__frame *frame)
{
	struct ddl__end *open = ddl__table_find(&link->tx, frame->request, frame->lane);
	const struct ddl__link *at = open ? link : ddl__link_with(link, frame->request, frame->lane, false);

	return ddl__table_find(&at->tx, frame->request, frame->lane);
}

static int check_announcement(struct ddl__link *link, const struct ddl__frame *frame, const struct ddl__lane *lane)
{
	struct ddl__end *open = open_end(link, frame);

	if (lane->request != frame->request || lane->index != frame->lane || !is_possible(lane))
		return ddl__link_bad(link, "it announced a lane that cannot be");
	if (ddl__table_find(&link->offers, frame->request, frame->lane) || (open && open->grant))
		return ddl__link_bad(link, "it announced a lane twice");
	if (link->offers.n >= DDL__MESH_OFFERS_MAX)
		return ddl__link_bad(link, "it announced too many lanes");
	return 0;
}

/* Whether the peer is lost, or will be as soon as the engine may be told: then nothing that it says counts any more. */
static bool is_lost(const struct ddl__link *link)
{
	const struct ddl__mesh *mesh = link->mesh;

	for (unsigned i = 0; i < mesh->n_paths; i++) {
		const struct ddl__link *other = mesh->links[(size_t)link->peer * mesh->n_paths + i];

		if (other && other->state == DDL__LINK_DOWN && !(other->moved && other->told))
			return true;
	}
	return false;
}

int ddl__lanes_announced(struct ddl__link *link, const struct ddl__frame *frame, const void *body)
{
	struct ddl__mesh *mesh = link->mesh;
	struct ddl__announcement announcement = { 0 };
	struct ddl__offer *offer;
	struct ddl__lane lane;
	struct ddl__end *open;
	int rc;

	if (frame->bytes != ddl__lane_announcement_bytes(mesh) || frame->grant == 0)
		return ddl__link_bad(link, "it announced a lane in a wrong form");
	memcpy(&announcement, body, frame->bytes);
	lane = announcement.lane;
	if (is_lost(link))
		return 0;
	rc = check_announcement(link, frame, &lane);
	if (rc)
		return rc;
	offer = calloc(1, sizeof(*offer));
	if (!offer)
		return -ENOMEM;
	offer->end = (struct ddl__end){ .lane = lane, .grant = frame->grant, .owner = offer };
	rc = mesh->ops->offered(link, offer, mesh->ops->terms ? announcement.terms : NULL);
	if (rc) {
		free(offer);
		return rc;
	}
	open = open_end(link, frame);
	if (open) {
		meet(open->owner, &lane, frame->grant, offer->extra);
		free(offer);
		rc = mesh->ops->resume ? ddl__lane_resume(link, open->owner, &announcement.progress) : 0;
		if (rc)
			return rc;
	} else if (ddl__table_add(&link->offers, &offer->end)) {
		mesh->ops->refuse(offer);
		free(offer);
		return -ENOMEM;
	}
	mesh->events->announced(mesh->context, link->peer, &lane);
	return 0;
}

void ddl__lanes_withdrawn(struct ddl__link *link, const struct ddl__frame *frame)
{
	struct ddl__end *end = ddl__table_find(&link->offers, frame->request, frame->lane);

	if (end && end->grant == frame->grant) {
		ddl__table_remove(&link->offers, end);
		link->mesh->ops->refuse(end->owner);
		free(end->owner);
	} else {
		/* The lane here gets no more credit; the same lane may be opened and announced anew beside it. */
		end = ddl__table_find(&link->tx, frame->request, frame->lane);
		if (end && end->grant == frame->grant) {
			ddl__table_remove(&link->tx, end);
			((struct ddl__mesh_tx *)end->owner)->granted = false;
		}
	}
	if (link->mesh->ops->withdrawn)
		link->mesh->ops->withdrawn(link, frame);
}

int ddl__link_up(struct ddl__link *link)
{
	struct ddl__mesh_rx *rx;
	int rc;

	link->state = DDL__LINK_UP;
	link->deadline_ns = 0;
	link->retry_ns = 0;
	rc = link->mesh->ops->up(link);
	rc = rc ? rc : ddl__link_say_lost(link);
	while (rc == 0 && (rx = link->unannounced)) {
		rc = ddl__lane_announce(rx);
		if (rc == 0)
			link->unannounced = rx->next;
	}
	if (rc == 0 && link->mesh->abort_code)
		rc = ddl__link_abort(link);
	if (rc)
		return rc;
	link->mesh->ops->pump(link);
	return 0;
}

/* Sending in turn */

/* Whether a lane's slices go before those of another one that came later. */
static bool precedes(const struct ddl__mesh_tx *tx, const struct ddl__mesh_tx *later)
{
	const int32_t mine = tx->end.lane.call.priority, other = later->end.lane.call.priority;

	return mine > other || (mine == other && tx->turn <= later->turn);
}

void ddl__lane_enqueue(struct ddl__mesh_tx **queue, struct ddl__mesh_tx *tx)
{
	while (*queue && precedes(*queue, tx))
		queue = &(*queue)->next;
	tx->next = *queue;
	*queue = tx;
	tx->queued = true;
}

struct ddl__mesh_tx *ddl__lane_dequeue(struct ddl__mesh_tx **queue)
{
	struct ddl__mesh_tx *tx = *queue;

	*queue = tx->next;
	tx->queued = false;
	return tx;
}

void ddl__mesh_tx_turn(struct ddl__tx *tx, uint64_t turn)
{
	((struct ddl__mesh_tx *)tx)->turn = turn;
}

unsigned ddl__mesh_rx_rail(const struct ddl__rx *rx)
{
	return ((const struct ddl__mesh_rx *)rx)->link->rail;
}

unsigned ddl__mesh_tx_rail(const struct ddl__tx *tx)
{
	return ((const struct ddl__mesh_tx *)tx)->link->rail;
}

void ddl__lanes_forget(struct ddl__link *link)
{
	struct ddl__end *end;

	while ((end = ddl__table_first(&link->offers))) {
		ddl__table_remove(&link->offers, end);
		link->mesh->ops->refuse(end->owner);
		free(end->owner);
	}
}

void ddl__lanes_fini(struct ddl__link *link)
{
	ddl__lanes_forget(link);
	free(link->rx.bucket);
	free(link->tx.bucket);
	free(link->offers.bucket);
}
