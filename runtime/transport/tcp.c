/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c - lanes over TCP: a connection to each peer, rail and channel, slices as frames, credits as frames.
 *
 * Both ends of a lane have its slots: the sender fills its own and keeps them until their credits come back, the receiver's are
 * where slices land straight from the socket. Neither is a must: a slice may be written from the caller's memory (tx_borrow), and
 * land in it where the receiver says so when its first bytes come (rx_land). Then nobody but the kernel copies it.
 *
 * A connection always writes the slice of the lane with the highest priority next; of equal ones that of the request which was
 * started first, and the lanes of one request in turn; several short ones go in one call. Short slices and credits wait for the
 * end of the engine's pass (flush), long ones go at once. Credits go in front of the next slice; without one they wait until half
 * of a lane's slots are owed, or for a few passes: the sender has the others meanwhile. Where those are enough for another start
 * of the request (rx_expect) they wait until they are not, however long that takes: so a short message costs one packet, not two.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carrier.h"
#include "error.h"
#include "mesh.h"
#include "slots.h"
#include "tcp_net.h"

#define MAGIC         0x74646471u /* of an address */
#define CHANNELS      4           /* connections of a rail to a peer, where rings share the rail */
#define AT_ONCE_BYTES 65536       /* in the works at once, but for the last slice: what is more urgent comes after them */
#define PATIENCE      16          /* passes that credits may wait for a slice to go with */

struct tcp {
	struct ddl__mesh mesh;
	struct ddl__carrier carrier;
	struct tcp_link *pending; /* links that have something to write at the end of the pass, or owe credits */
	unsigned patience;        /* passes that their credits may still wait */
	bool let_go;              /* the caller's memory is not to be touched any more */
};

struct tcp_tx {
	struct ddl__mesh_tx mesh;
	uint8_t *memory; /* slots, stride bytes each */
	size_t stride;
	const uint8_t *at[DDL__SLOTS_MAX]; /* where each slice lies: its slot, or the caller's memory */
	uint32_t sizes[DDL__SLOTS_MAX];    /* bytes in each */
	bool final[DDL__SLOTS_MAX];        /* whether each may land where it belongs */
	uint64_t sent;                     /* by the engine */
	uint64_t written;                  /* to the kernel */
	uint64_t credited;                 /* came back */
	uint64_t settled;                  /* where the caller's memory was its own again: it lies there no more */
	uint32_t works;                    /* slices in the works */
	bool closed;                       /* freed when all is written */
};

struct tcp_link {
	struct ddl__link link;
	struct ddl__mesh_tx *queue;               /* lanes with slices to write, in their order */
	struct tcp_tx *works[DDL__STREAM_SLICES]; /* whose slices are in the works, in their order */
	size_t n_works;                           /* of them */
	struct ddl__slots_rx *owing;              /* lanes with credits to send */
	struct ddl__slots_rx *landing;            /* whose slice is coming in, */
	const uint8_t *landing_at;                /* and where it goes */
	size_t queued_bytes;                      /* sent since it was written last */
	bool pending;                             /* in the list of all links */
	bool due;                                 /* to be written at the end of the pass */
	struct tcp_link *next;                    /* in that list */
};

static uint8_t *slots_create(const struct ddl__lane *lane)
{
	size_t bytes = ddl__lane_stride(lane) * lane->slots;

	return aligned_alloc(DDL__MESH_ALIGNMENT, bytes ? bytes : DDL__MESH_ALIGNMENT);
}

/* Writing */

static void tx_free(struct tcp_tx *tx)
{
	free(tx->memory);
	free(tx);
}

/* The link is looked at when the pass ends; due: it is written then in any case. */
static void pend(struct tcp_link *link, bool due)
{
	struct tcp *tcp = (struct tcp *)link->link.mesh;

	link->due |= due;
	if (link->pending)
		return;
	link->pending = true;
	link->next = tcp->pending;
	tcp->pending = link;
	tcp->patience = PATIENCE;
}

/* Puts the credits that are owed in front of what is written next, as far as there is room without an allocation. */
static void put_credits(struct tcp_link *link)
{
	while (link->owing && !link->link.said_bye && ddl__stream_fits(link->link.stream, 0)) {
		const struct ddl__end *end = &link->owing->mesh.end;
		struct ddl__frame frame = {
			.type = DDL__FRAME_CREDIT,
			.request = end->lane.request,
			.lane = end->lane.index,
			.grant = end->grant,
			.count = ddl__slots_pay(&link->owing),
		};

		ddl__stream_put(link->link.stream, &frame, NULL, NULL, 0);
	}
}

static size_t begin_slice(struct tcp_link *link)
{
	struct tcp_tx *tx = (struct tcp_tx *)ddl__lane_dequeue(&link->queue);
	uint64_t taken = tx->written + tx->works++;
	uint32_t slot = (uint32_t)(taken % tx->mesh.end.lane.slots);
	struct ddl__frame frame = {
		.type = DDL__FRAME_DATA,
		.bytes = tx->sizes[slot],
		.request = tx->mesh.end.lane.request,
		.lane = tx->mesh.end.lane.index,
		.grant = tx->mesh.end.grant,
		.count = tx->final[slot],
	};

	link->works[link->n_works++] = tx;
	ddl__stream_data(link->link.stream, &frame, tx->at[slot]);
	if (taken + 1 != tx->sent)
		ddl__lane_enqueue(&link->queue, &tx->mesh);
	return frame.bytes;
}

/* Takes slices into the works: one of any size, or short ones together. */
static void fill_works(struct tcp_link *link)
{
	size_t bytes = 0;

	for (size_t i = 0; i < link->n_works; i++)
		bytes += link->link.stream->data[i].frame.bytes;
	while (link->queue && link->n_works < DDL__STREAM_SLICES && bytes < AT_ONCE_BYTES)
		bytes += begin_slice(link);
}

/* Takes those out that are written. */
static void empty_works(struct tcp_link *link, size_t busy)
{
	size_t through = link->n_works - busy;

	for (size_t i = 0; i < through; i++) {
		struct tcp_tx *tx = link->works[i];

		tx->written++;
		tx->works--;
		if (tx->closed && tx->written == tx->sent)
			tx_free(tx);
	}
	if (through)
		memmove(link->works, link->works + through, busy * sizeof(link->works[0]));
	link->n_works = busy;
}

static void tcp_pump(struct ddl__link *base)
{
	struct tcp_link *link = (struct tcp_link *)base;
	int rc;

	do {
		if (link->due || link->queue || link->n_works)
			put_credits(link);
		if (!base->mute)
			fill_works(link);
		rc = ddl__link_write(base);
		empty_works(link, ddl__stream_busy(base->stream));
	} while (rc == 0 && (link->queue || (link->due && link->owing && !base->said_bye)));
	link->due = false;
	link->queued_bytes = 0;
	ddl__link_settle(base);
}

static void tcp_flush(struct ddl__transport *transport, bool all)
{
	struct tcp *tcp = (struct tcp *)transport;
	struct tcp_link **at = &tcp->pending;

	if (!tcp->pending)
		return;
	all = all || tcp->patience-- == 0;
	while (*at) {
		struct tcp_link *link = *at;

		if (!all && !link->due && link->owing) {
			at = &link->next;
			continue;
		}
		*at = link->next;
		link->pending = false;
		link->due = true;
		if (link->link.state == DDL__LINK_UP)
			tcp_pump(&link->link);
	}
}

static bool tcp_unsent(const struct ddl__link *base)
{
	const struct tcp_link *link = (const struct tcp_link *)base;

	return link->queue || link->n_works;
}

/* What was in the works and in the queue is never written. */
static void drop_slices(struct tcp_link *link)
{
	for (size_t i = 0; i < link->n_works; i++) {
		struct tcp_tx *tx = link->works[i];

		if (--tx->works == 0 && tx->closed && !tx->mesh.queued)
			tx_free(tx);
	}
	link->n_works = 0;
	while (link->queue) {
		struct tcp_tx *tx = (struct tcp_tx *)ddl__lane_dequeue(&link->queue);

		if (tx->closed)
			tx_free(tx);
	}
}

static void tcp_down(struct ddl__link *base)
{
	struct tcp_link *link = (struct tcp_link *)base;

	drop_slices(link);
	ddl__slots_forgive(&link->owing);
	link->landing = NULL;
}

/* What comes in */

static int tcp_data(struct ddl__link *base, const struct ddl__frame *frame, void **to)
{
	struct tcp_link *link = (struct tcp_link *)base;
	struct ddl__end *end = ddl__table_find(&base->rx, frame->request, frame->lane);
	struct ddl__slots_rx *rx;
	const char *why;

	link->landing = NULL;
	if (!end || end->grant != frame->grant)
		return 0; /* closed meanwhile */
	rx = end->owner;
	why = ddl__slots_refuse(rx, frame->bytes);
	if (why)
		return ddl__link_bad(base, why);
	link->landing = rx;
	*to = NULL;
	if (frame->count && frame->bytes && !((struct tcp *)base->mesh)->let_go)
		*to = ddl__slots_where(rx, frame->bytes);
	if (!*to)
		*to = ddl__slots_next(rx);
	link->landing_at = *to;
	return 0;
}

static int on_credit(struct ddl__link *base, const struct ddl__frame *frame)
{
	struct ddl__end *end = ddl__table_find(&base->tx, frame->request, frame->lane);
	struct tcp_tx *tx;

	if (!end || end->grant != frame->grant)
		return 0; /* closed meanwhile */
	tx = end->owner;
	if (frame->count > tx->written - tx->credited)
		return ddl__link_bad(base, "it gave credits for slices that it cannot have");
	tx->credited += frame->count;
	return 0;
}

static int tcp_frame(struct ddl__link *base, const struct ddl__frame *frame, const void *body)
{
	struct tcp_link *link = (struct tcp_link *)base;
	struct ddl__slots_rx *rx = link->landing;

	if (frame->type == DDL__FRAME_CREDIT && frame->bytes == 0)
		return on_credit(base, frame);
	if (frame->type != DDL__FRAME_DATA)
		return ddl__link_bad(base, "it sent a frame that has no meaning over tcp");
	link->landing = NULL;
	if (rx)
		ddl__slots_landed(rx, link->landing_at, frame->bytes);
	return 0;
}

static int tcp_up(struct ddl__link *link)
{
	return 0;
}

static int tcp_offered(struct ddl__link *link, struct ddl__offer *offer, const void *terms)
{
	return 0;
}

static void tcp_refuse(struct ddl__offer *offer)
{
}

static void tcp_grant(struct ddl__mesh_tx *tx, void *extra)
{
}

/* A lane that was closed here cannot be told where to go on. */
static bool tcp_movable(const struct ddl__link *base)
{
	const struct tcp_link *link = (const struct tcp_link *)base;

	for (const struct ddl__mesh_tx *tx = link->queue; tx; tx = tx->next)
		if (((const struct tcp_tx *)tx)->closed)
			return false;
	for (size_t i = 0; i < link->n_works; i++)
		if (link->works[i]->closed)
			return false;
	return true;
}

static int tcp_resume(struct ddl__mesh_tx *base, const struct ddl__progress *progress)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;
	const uint32_t slots = tx->mesh.end.lane.slots;

	if (progress->landed > tx->sent || progress->released > progress->landed || progress->released < tx->credited)
		return ddl__link_bad(base->link, "it announced a lane that is not where it can be");
	for (uint64_t i = progress->landed; i < tx->settled; i++)
		if (tx->at[i % slots] != tx->memory + i % slots * tx->stride)
			return -EAGAIN;
	tx->written = progress->landed;
	tx->credited = progress->released;
	if (tx->written != tx->sent && !tx->mesh.queued) {
		ddl__lane_enqueue(&((struct tcp_link *)base->link)->queue, base);
		pend((struct tcp_link *)base->link, true);
	}
	return 0;
}

/* The ops */

static const struct ddl__mesh_ops mesh_ops = {
	.transport = &ddl__transport_tcp,
	.magic = MAGIC,
	.link_size = sizeof(struct tcp_link),
	.channels = CHANNELS,
	.rail_size = sizeof(struct ddl__tcp_address),
	.listen = ddl__tcp_listen,
	.reaches = ddl__tcp_reaches,
	.rails = ddl__tcp_rails,
	.path = ddl__mesh_path,
	.tie = ddl__tcp_tie,
	.target = ddl__tcp_target,
	.tune = ddl__tcp_tune,
	.admits = ddl__tcp_admits,
	.up = tcp_up,
	.pump = tcp_pump,
	.unsent = tcp_unsent,
	.data = tcp_data,
	.frame = tcp_frame,
	.offered = tcp_offered,
	.refuse = tcp_refuse,
	.grant = tcp_grant,
	.down = tcp_down,
	.movable = tcp_movable,
	.progress = ddl__slots_progress,
	.resume = tcp_resume,
};

static int tcp_probe(char *why, size_t size)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		snprintf(why, size, "no TCP sockets here: %s", strerror(errno));
		return 0;
	}
	close(fd);
	return 1;
}

static int tcp_open(const struct ddl__transport_config *config, struct ddl__transport **transport, struct ddl_error *err)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));
	int rc;

	if (!tcp)
		return ddl__error_memory(err);
	rc = ddl__mesh_init(&tcp->mesh, &mesh_ops, config, err);
	if (rc) {
		free(tcp);
		return rc;
	}
	ddl__carrier_open(&tcp->carrier, &tcp->mesh);
	*transport = &tcp->mesh.base;
	return 0;
}

static int tcp_rx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__rx **out,
		       struct ddl_error *err)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;
	struct ddl__slots_rx *rx;
	int rc = ddl__lane_check(mesh, lane, err);

	if (rc)
		return rc;
	rx = calloc(1, sizeof(*rx));
	if (!rx)
		return ddl__error_memory(err);
	rx->mesh.fd = -1;
	rx->stride = ddl__lane_stride(lane);
	rx->memory = slots_create(lane);
	rc = rx->memory ? ddl__mesh_rx_open(mesh, peer, lane, &rx->mesh, err) : ddl__error_memory(err);
	if (rc) {
		free(rx->memory);
		free(rx);
		return rc;
	}
	*out = &rx->mesh.base;
	return 0;
}

static int tcp_tx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__tx **out,
		       struct ddl_error *err)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;
	struct tcp_tx *tx;
	int rc = ddl__lane_check(mesh, lane, err);

	if (rc)
		return rc;
	tx = calloc(1, sizeof(*tx));
	if (!tx)
		return ddl__error_memory(err);
	tx->stride = ddl__lane_stride(lane);
	tx->memory = slots_create(lane);
	rc = tx->memory ? ddl__mesh_tx_open(mesh, peer, lane, &tx->mesh, err) : ddl__error_memory(err);
	if (rc) {
		free(tx->memory);
		free(tx);
		return rc;
	}
	*out = &tx->mesh.base;
	return 0;
}

static void tcp_rx_close(struct ddl__rx *base)
{
	struct ddl__slots_rx *rx = (struct ddl__slots_rx *)base;
	struct tcp_link *link = (struct tcp_link *)rx->mesh.link;

	if (link->landing == rx) {
		ddl__parser_drop(&link->link.stream->parser);
		link->landing = NULL;
	}
	ddl__slots_unlist(rx, &link->owing);
	ddl__mesh_rx_close(&rx->mesh);
	free(rx->memory);
	free(rx);
}

static void tcp_tx_close(struct ddl__tx *base)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;

	ddl__mesh_tx_close(&tx->mesh);
	tx->closed = true;
	if (!tx->mesh.queued && !tx->works)
		tx_free(tx);
}

static void *tcp_tx_slot(struct ddl__tx *base)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;

	if (!tx->mesh.granted || tx->mesh.link->state != DDL__LINK_UP || tx->sent - tx->credited >= tx->mesh.end.lane.slots)
		return NULL;
	return tx->memory + tx->sent % tx->mesh.end.lane.slots * tx->stride;
}

/* Sends the slice that lies there: now where much has come together, else with others at the end of the pass. */
static void send_slice(struct tcp_tx *tx, const uint8_t *at, size_t bytes, bool final)
{
	struct tcp_link *link = (struct tcp_link *)tx->mesh.link;
	uint32_t slot = (uint32_t)(tx->sent % tx->mesh.end.lane.slots);

	if (link->link.heard_bye)
		ddl__link_fail(&link->link, -ECONNRESET, "it has left");
	if (link->link.state != DDL__LINK_UP)
		return;
	tx->at[slot] = at;
	tx->sizes[slot] = (uint32_t)bytes;
	tx->final[slot] = final;
	tx->sent++;
	if (!tx->mesh.queued)
		ddl__lane_enqueue(&link->queue, &tx->mesh);
	link->queued_bytes += bytes;
	if (link->queued_bytes >= AT_ONCE_BYTES)
		tcp_pump(&link->link);
	else
		pend(link, true);
}

static void tcp_tx_send(struct ddl__tx *base, size_t bytes)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;

	send_slice(tx, tx->memory + tx->sent % tx->mesh.end.lane.slots * tx->stride, bytes, false);
}

static bool tcp_tx_borrow(struct ddl__tx *base, void *held, const void *from, size_t bytes, const struct ddl__spot *spot)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;

	if (!tcp_tx_slot(base) || ((struct tcp *)tx->mesh.link->mesh)->let_go)
		return false;
	send_slice(tx, from, bytes, spot != NULL);
	return true;
}

static bool tcp_tx_flushed(struct ddl__tx *base)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;

	if (tx->written != tx->sent)
		return false;
	tx->settled = tx->sent;
	return true;
}

static void tcp_rx_release(struct ddl__rx *base)
{
	struct ddl__slots_rx *rx = (struct ddl__slots_rx *)base;
	struct tcp_link *link = (struct tcp_link *)rx->mesh.link;
	bool soon;

	if (ddl__slots_release(rx, &link->owing, &soon))
		pend(link, soon);
}

/* A slice that is in the works, in its own slot from now on: a frame that has begun must be finished. */
static void keep_slice(struct tcp_link *link, size_t place)
{
	struct tcp_tx *tx = link->works[place];
	const struct ddl__stream_slice *slice = &link->link.stream->data[place];
	size_t before = 0;
	uint8_t *slot;

	for (size_t i = 0; i < place; i++)
		before += link->works[i] == tx;
	slot = tx->memory + (tx->written + before) % tx->mesh.end.lane.slots * tx->stride;
	if (slice->body == slot)
		return;
	memcpy(slot, slice->body, slice->frame.bytes);
	ddl__stream_move(link->link.stream, place, slot);
}

static void tcp_let_go(struct ddl__transport *transport)
{
	struct tcp *tcp = (struct tcp *)transport;

	tcp->let_go = true;
	for (size_t i = 0; i < tcp->mesh.n_links; i++) {
		struct tcp_link *link = (struct tcp_link *)tcp->mesh.links[i];

		if (!link || link->link.state != DDL__LINK_UP)
			continue;
		if (link->landing)
			ddl__parser_drop(&link->link.stream->parser);
		link->landing = NULL;
		for (size_t k = 0; k < link->n_works; k++)
			keep_slice(link, k);
		while (link->queue) { /* nobody needs them any more */
			struct tcp_tx *tx = (struct tcp_tx *)ddl__lane_dequeue(&link->queue);

			if (tx->closed && !tx->works)
				tx_free(tx);
			else
				tx->sent = tx->written + tx->works;
		}
	}
}

static void tcp_close(struct ddl__transport *transport)
{
	if (!transport)
		return;
	ddl__carrier_close(&((struct tcp *)transport)->carrier);
	ddl__mesh_fini((struct ddl__mesh *)transport);
	free(transport);
}

static void tcp_forked(struct ddl__transport *transport)
{
	const struct tcp *tcp = (const struct tcp *)transport;

	if (tcp->carrier.fd >= 0)
		close(tcp->carrier.fd);
	ddl__mesh_forked(transport);
}

const struct ddl__transport_ops ddl__transport_tcp = {
	.name = "tcp",
	.description = "TCP sockets, IPv4 or IPv6",
	.probe = tcp_probe,
	.open = tcp_open,
	.address = ddl__mesh_address,
	.attach = ddl__mesh_attach,
	.reaches = ddl__mesh_reaches,
	.rx_open = tcp_rx_open,
	.tx_open = tcp_tx_open,
	.rx_close = tcp_rx_close,
	.tx_close = tcp_tx_close,
	.tx_slot = tcp_tx_slot,
	.tx_turn = ddl__mesh_tx_turn,
	.tx_send = tcp_tx_send,
	.tx_borrow = tcp_tx_borrow,
	.tx_flushed = tcp_tx_flushed,
	.rx_slot = ddl__slots_rx_slot,
	.rx_release = tcp_rx_release,
	.rx_expect = ddl__slots_rx_expect,
	.rx_land = ddl__slots_rx_land,
	.let_go = tcp_let_go,
	.flush = tcp_flush,
	.rx_rail = ddl__mesh_rx_rail,
	.tx_rail = ddl__mesh_tx_rail,
	.abort = ddl__mesh_abort,
	.goodbye = ddl__mesh_goodbye,
	.done = ddl__mesh_done,
	.close = tcp_close,
	.forked = tcp_forked,
};
