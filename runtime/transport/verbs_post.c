/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_post.c - see verbs.h: what goes to the queue pair, and when. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "verbs.h"

#define PATIENCE 16 /* passes that credits may wait */

/* Work requests that are not complete. */
static uint32_t under_way(const struct verbs_link *link)
{
	return link->n_posted - link->n_completed;
}

int ddl__verbs_receive(struct verbs_link *link, uint32_t buffer)
{
	const struct verbs *verbs = (const struct verbs *)link->link.mesh;
	struct ibv_sge sge = {
		.addr = (uintptr_t)(link->memory.at + buffer * DDL__VERBS_MESSAGE),
		.length = DDL__VERBS_MESSAGE,
		.lkey = link->memory.region->lkey[link->device],
	};
	struct ibv_recv_wr wr = { .wr_id = ddl__verbs_id(link, true, buffer), .sg_list = &sge, .num_sge = 1 }, *bad;

	return -verbs->api->post_recv(link->qp, &wr, &bad);
}

/* Room for a message beside the spare, at both ends. */
static bool has_room(const struct verbs_link *link)
{
	return link->room > 0 && under_way(link) < DDL__VERBS_SENDS - DDL__VERBS_SPARE;
}

/* Whether a slice may be posted, if there is one. */
static bool takes_slices(const struct verbs_link *link)
{
	return has_room(link) && link->flying < DDL__VERBS_FLYING;
}

/* Posts a work request with up to one piece of memory. tx: whose slice it is; NULL: a message. False: the link has failed. */
static bool post(struct verbs_link *link, struct ibv_send_wr *wr, struct ibv_sge *sge, struct verbs_tx *tx)
{
	const struct verbs *verbs = (const struct verbs *)link->link.mesh;
	const bool more = tx && (link->turns || tx->posted + 1 != tx->sent);
	struct ibv_send_wr *bad;
	int rc;

	wr->wr_id = ddl__verbs_id(link, false, link->n_posted);
	wr->sg_list = sge;
	wr->num_sge = sge && sge->length ? 1 : 0;
	if (sge && sge->length && sge->length <= link->inline_max)
		wr->send_flags |= IBV_SEND_INLINE;
	link->works[link->n_posted++ % DDL__VERBS_SENDS] = (struct verbs_sent){ tx, tx ? sge->length : 0 };
	link->flying += tx ? sge->length : 0;
	link->slices += tx != NULL;
	link->unsignaled++;
	link->unsignaled_bytes += sge ? sge->length : 0;
	/* that all slices are complete is told, also where what would follow is withdrawn */
	if ((tx && !(more && takes_slices(link))) || link->unsignaled >= DDL__VERBS_SIGNAL ||
	    link->unsignaled_bytes >= DDL__VERBS_SIGNAL_BYTES) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		link->unsignaled = link->unsignaled_bytes = 0;
	}
	rc = verbs->api->post_send(link->qp, wr, &bad);
	if (rc) {
		ddl__verbs_fail(link, "its queue pair takes no more work: %s", strerror(rc));
		return false;
	}
	link->sent++;
	return true;
}

/* An empty message. */
static bool post_word(struct verbs_link *link, enum verbs_kind kind, uint32_t rest)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htobe32((uint32_t)kind << 30 | rest) };

	return post(link, &wr, NULL, NULL);
}

static bool post_flow(struct verbs_link *link)
{
	uint32_t taken = link->taken;

	link->taken = 0;
	return post_word(link, VERBS_FLOW, taken);
}

static void use_room(struct verbs_link *link)
{
	link->room--;
	link->used++;
}

static bool put_credit(struct verbs_link *link, const struct verbs_rx *rx, uint32_t owed)
{
	const struct ddl__frame frame = {
		.type = DDL__FRAME_CREDIT,
		.request = rx->in.mesh.end.lane.request,
		.lane = rx->in.mesh.end.lane.index,
		.grant = rx->in.mesh.end.grant,
		.count = owed,
	};
	int rc = link->link.said_bye ? 0 : ddl__stream_put(link->link.stream, &frame, NULL, NULL, 0);

	if (rc) {
		ddl__verbs_fail(link, "no credit can be given: %s", strerror(-rc));
		return false;
	}
	link->link.retry_ns = 1; /* it is written soon */
	ddl__mesh_due(link->link.mesh, 1);
	return true;
}

static void post_credits(struct verbs_link *link)
{
	while (link->owing && has_room(link)) {
		struct verbs_rx *rx = (struct verbs_rx *)link->owing;
		const uint32_t owed = ddl__slots_pay(&link->owing);

		if (!owed || (rx->moved && put_credit(link, rx, owed)))
			continue;
		if (rx->moved)
			return;
		use_room(link);
		rx->credited = true;
		rx->mark = link->used;
		if (!post_word(link, VERBS_CREDIT, owed << 23 | rx->in.mesh.number))
			return;
	}
	link->due = link->owing != NULL;
}

static void post_grants(struct verbs_link *link)
{
	while (link->granting && has_room(link)) {
		struct verbs_rx *rx = link->granting;
		uint8_t *message = link->memory.at + (DDL__VERBS_RECEIVES + link->n_posted % DDL__VERBS_SENDS) * DDL__VERBS_MESSAGE;
		struct ibv_sge sge = {
			.addr = (uintptr_t)message,
			.length = sizeof(rx->grant),
			.lkey = link->memory.region->lkey[link->device],
		};
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

		link->granting = rx->next_granting;
		rx->granting = false;
		if (!rx->grant.start)
			continue;
		rx->grant.rkey = rx->accepts->rkey[link->device];
		memcpy(message, &rx->grant, sizeof(rx->grant));
		use_room(link);
		if (!post(link, &wr, &sge, NULL))
			return;
	}
}

/* Where a slice is written that belongs in the output; 0: to its slot. */
static uint64_t place(const struct verbs_tx *tx, uint32_t slot)
{
	const struct ddl__spot *spot = &tx->spots[slot];
	const struct ddl__verbs_grant *grant = &tx->grant;

	if (!spot->start || spot->start != grant->start || spot->offset > grant->bytes ||
	    tx->sizes[slot] > grant->bytes - spot->offset)
		return 0;
	return grant->at + spot->offset;
}

static bool post_slice(struct verbs_link *link)
{
	struct verbs_tx *tx = (struct verbs_tx *)ddl__lane_dequeue(&link->turns);
	const uint32_t slot = (uint32_t)(tx->posted % tx->mesh.end.lane.slots);
	const uint64_t at = place(tx, slot);
	struct ibv_sge sge = {
		.addr = (uintptr_t)tx->at[slot],
		.length = tx->sizes[slot],
		.lkey = tx->region[slot]->lkey[link->device],
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htobe32((uint32_t)(at ? VERBS_PLACED : VERBS_SLICE) << 30 | tx->terms.number),
		.wr.rdma = { at ? at : tx->terms.at + slot * tx->stride, at ? tx->grant.rkey : tx->terms.rkey },
	};

	use_room(link);
	if (!post(link, &wr, &sge, tx))
		return false;
	tx->posted++;
	if (tx->posted != tx->sent)
		ddl__lane_enqueue(&link->turns, &tx->mesh);
	return true;
}

void ddl__verbs_post(struct verbs_link *link)
{
	if (!link->ready || link->join_until_ns || !link->qp || link->link.state != DDL__LINK_UP)
		return;
	if (link->taken >= DDL__VERBS_RECEIVES / 4 && under_way(link) < DDL__VERBS_SENDS && !post_flow(link))
		return;
	post_grants(link);
	if (link->due && link->qp)
		post_credits(link);
	while (link->qp && link->turns && takes_slices(link))
		if (!post_slice(link))
			return;
}

void ddl__verbs_pend(struct verbs_link *link, bool due)
{
	struct verbs *verbs = (struct verbs *)link->link.mesh;

	link->due |= due;
	if (link->pending)
		return;
	link->pending = true;
	link->next = verbs->pending;
	verbs->pending = link;
	verbs->patience = PATIENCE;
}
