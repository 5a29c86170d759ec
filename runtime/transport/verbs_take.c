/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_take.c - see verbs.h: completions of what was sent, messages that have come. */
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

#define AT_ONCE 16   /* completions asked for at a time */
#define MOST    4096 /* taken in before others get their turn */

/* What was sent */

void ddl__verbs_say_freed(struct verbs_link *link, uint32_t number)
{
	const struct ddl__frame freed = { .type = DDL__FRAME_FREED, .count = number, .request = link->sent };

	if (link->link.stream && !link->link.said_bye)
		ddl__stream_put(link->link.stream, &freed, NULL, NULL, 0);
}

void ddl__verbs_tx_done(struct verbs_tx *tx)
{
	struct verbs_link *link = (struct verbs_link *)tx->mesh.link;
	struct verbs *verbs = (struct verbs *)link->link.mesh;

	if (tx->mesh.queued || tx->completed != tx->posted)
		return;
	if (tx->withdrawn) {
		tx->withdrawn = false;
		ddl__table_remove(&link->numbers, &tx->numbered);
		ddl__verbs_say_freed(link, tx->terms.number);
	}
	if (!tx->closed || tx->completed != tx->sent)
		return;
	ddl__table_remove(&link->numbers, &tx->numbered);
	ddl__verbs_tx_free(verbs, tx);
}

/* Work requests up to that one are complete. */
static void sent(struct verbs_link *link, uint32_t which)
{
	const uint32_t up_to = link->n_completed + (uint16_t)(which - link->n_completed) + 1;

	while (link->n_completed != up_to && link->n_completed != link->n_posted) {
		struct verbs_sent *work = &link->works[link->n_completed++ % DDL__VERBS_SENDS];

		if (!work->tx)
			continue;
		link->flying -= work->bytes;
		link->slices--;
		work->tx->completed++;
		if (work->tx->closed || work->tx->withdrawn)
			ddl__verbs_tx_done(work->tx);
	}
}

/* What has come */

static struct verbs_rx *receiver(struct verbs_link *link, uint32_t number)
{
	const struct verbs *verbs = (const struct verbs *)link->link.mesh;
	struct verbs_rx *rx = number < verbs->n_lanes ? verbs->lanes[number] : NULL;

	return rx && rx->in.mesh.link == &link->link ? rx : NULL;
}

static int on_slice(struct verbs_link *link, uint32_t number, uint32_t bytes, bool placed)
{
	const struct verbs *verbs = (const struct verbs *)link->link.mesh;
	struct verbs_rx *rx = receiver(link, number);
	const uint8_t *at;
	const char *why;

	if (!rx)
		return ddl__link_bad(&link->link, "it sent a slice for a lane that it was not told of");
	rx->moved = false;
	if (rx->closed)
		return 0;
	why = ddl__slots_refuse(&rx->in, bytes);
	if (why)
		return ddl__link_bad(&link->link, why);
	if (placed && verbs->let_go)
		return 0;
	at = !placed ? ddl__slots_next(&rx->in) : rx->grant.start ? ddl__slots_where(&rx->in, bytes) : NULL;
	if (!at)
		return ddl__link_bad(&link->link, "it wrote a slice where it was not granted any memory");
	ddl__slots_landed(&rx->in, at, bytes);
	return 0;
}

static struct verbs_tx *sender(struct verbs_link *link, uint32_t number)
{
	struct ddl__end *end = ddl__table_find(&link->numbers, number, 0);

	return end ? end->owner : NULL;
}

static int on_credit(struct verbs_link *link, uint32_t number, uint32_t count)
{
	struct verbs_tx *tx = sender(link, number);

	return tx ? ddl__verbs_credit(link, tx, count) : 0; /* or closed meanwhile */
}

static int on_grant(struct verbs_link *link, uint32_t buffer, uint32_t bytes)
{
	struct ddl__verbs_grant grant;
	struct verbs_tx *tx;

	if (bytes != sizeof(grant))
		return ddl__link_bad(&link->link, "it sent a message that has no meaning over verbs");
	memcpy(&grant, link->memory.at + buffer * DDL__VERBS_MESSAGE, sizeof(grant));
	tx = sender(link, grant.number);
	if (!tx)
		link->early[link->n_early++ % DDL__VERBS_EARLY] = grant;
	else if (tx->mesh.end.grant == grant.opening)
		tx->grant = grant;
	return 0;
}

static int on_flow(struct verbs_link *link, uint32_t count)
{
	if (link->room + count > link->peer_receives)
		return ddl__link_bad(&link->link, "it took in more messages than it was sent");
	link->room += count;
	ddl__verbs_free_closed(link);
	return 0;
}

static int on_message(struct verbs_link *link, const struct ibv_wc *wc)
{
	const uint32_t word = be32toh(wc->imm_data), rest = word & 0x3fffffff;

	if (wc->opcode == IBV_WC_RECV)
		return on_grant(link, (uint32_t)(wc->wr_id & 0xffff), wc->byte_len);
	switch ((enum verbs_kind)(word >> 30)) {
	case VERBS_SLICE:
	case VERBS_PLACED:
		return on_slice(link, rest, wc->byte_len, word >> 30 == VERBS_PLACED);
	case VERBS_CREDIT:
		return on_credit(link, rest & (DDL__VERBS_NUMBERS - 1), rest >> 23);
	case VERBS_FLOW:
		break;
	}
	return on_flow(link, rest);
}

/* What follows from that waits until all that has come was taken in. The first thing that failed tells why. */
static void __attribute__((format(printf, 2, 3))) break_link(struct verbs_link *link, const char *fmt, ...)
{
	va_list args;

	if (link->broken || link->ending)
		return;
	link->broken = true;
	va_start(args, fmt);
	vsnprintf(link->what, sizeof(link->what), fmt, args);
	va_end(args);
}

static void received(struct verbs_link *link, const struct ibv_wc *wc)
{
	const bool flow = wc->opcode != IBV_WC_RECV && be32toh(wc->imm_data) >> 30 == VERBS_FLOW;
	int rc = on_message(link, wc);

	link->received++;
	link->taken += !flow;
	if (rc == 0 && link->qp) {
		rc = ddl__verbs_receive(link, (uint32_t)(wc->wr_id & 0xffff));
		if (rc)
			break_link(link, "its queue pair takes no more receives: %s", strerror(-rc));
	} else if (rc) {
		link->bad = rc;
	}
	if (link->link.heard_bye)
		ddl__mesh_due(link->link.mesh, 1);
}

static void failed(struct verbs_link *link, const struct ibv_wc *wc)
{
	const struct verbs *verbs = (const struct verbs *)link->link.mesh;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		break_link(link, "its queue pair went into the error state");
	else if (wc->status == IBV_WC_RETRY_EXC_ERR)
		break_link(link, "nothing was heard of the peer in %d tries (%s)", verbs->settings.retry + 1,
			   verbs->api->wc_status_str(wc->status));
	else
		break_link(link, "%s (vendor's code 0x%x)", verbs->api->wc_status_str(wc->status), wc->vendor_err);
}

/* The link that a completion is of; NULL: of a queue pair that is no more. */
static struct verbs_link *link_of(const struct verbs *verbs, uint64_t id)
{
	const uint64_t index = id << 1 >> 17;
	struct verbs_link *link = index < verbs->mesh.n_links ? (struct verbs_link *)verbs->mesh.links[index] : NULL;

	return link && link->qp ? link : NULL;
}

static void stir(struct verbs *verbs, struct verbs_link *link)
{
	if (link->stirred)
		return;
	link->stirred = true;
	link->next_stirred = verbs->stirred;
	verbs->stirred = link;
}

void ddl__verbs_drain(struct verbs_queue *queue)
{
	struct verbs *verbs = queue->verbs;
	struct ibv_wc wc[AT_ONCE];
	int n, most = MOST;

	do {
		n = verbs->api->poll_cq(queue->cq, AT_ONCE, wc);
		for (int i = 0; i < n; i++) {
			struct verbs_link *link = link_of(verbs, wc[i].wr_id);

			if (!link)
				continue;
			stir(verbs, link);
			if (wc[i].status != IBV_WC_SUCCESS)
				failed(link, &wc[i]);
			else if (wc[i].wr_id >> 63)
				received(link, &wc[i]);
			else
				sent(link, (uint32_t)(wc[i].wr_id & 0xffff));
		}
		most -= n;
	} while (n == AT_ONCE && most > 0);
}

void ddl__verbs_take(struct verbs *verbs)
{
	for (struct verbs_queue *queue = verbs->queues; queue; queue = queue->next)
		ddl__verbs_drain(queue);
	while (verbs->stirred) {
		struct verbs_link *link = verbs->stirred;

		verbs->stirred = link->next_stirred;
		link->stirred = false;
		if (link->n_freed)
			ddl__verbs_free_closed(link);
		if (link->link.state != DDL__LINK_UP)
			continue;
		if (link->bad)
			ddl__link_broken(&link->link, link->bad);
		else if (link->broken)
			ddl__verbs_fail(link, "%s", link->what);
		else
			verbs->mesh.ops->pump(&link->link);
	}
}
