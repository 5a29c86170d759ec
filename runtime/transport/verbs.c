/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c - see verbs.h: the ops. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "error.h"
#include "tcp_net.h"
#include "verbs.h"

#define MAGIC    0x76646471u /* of an address */
#define CHANNELS 2           /* queue pairs of a rail to a peer, where rings share the rail */

static struct verbs *verbs_of(const struct ddl__link *link)
{
	return (struct verbs *)link->mesh;
}

/* What comes over the stream */

static void verbs_pump(struct ddl__link *base)
{
	struct verbs_link *link = (struct verbs_link *)base;
	int rc;

	ddl__verbs_post(link);
	if (base->state != DDL__LINK_UP)
		return;
	ddl__link_write(base);
	ddl__link_settle(base);
	if (!link->join_until_ns || base->state != DDL__LINK_UP)
		return;
	rc = ddl__verbs_join(link); /* after all that, since it may take a second */
	if (rc)
		ddl__link_broken(base, rc);
	else if (!link->join_until_ns)
		verbs_pump(base);
}

static bool verbs_unsent(const struct ddl__link *base)
{
	const struct verbs_link *link = (const struct verbs_link *)base;

	/* one that left before it was ready to receive takes nothing any more */
	return (link->turns && (link->ready || !base->heard_bye)) || link->slices;
}

static uint32_t verbs_parting(const struct ddl__link *base)
{
	return ((const struct verbs_link *)base)->sent;
}

static bool verbs_parted(struct ddl__link *base)
{
	const struct verbs_link *link = (const struct verbs_link *)base;

	return !link->qp || (int32_t)(link->received - base->parting) >= 0;
}

static int verbs_data(struct ddl__link *link, const struct ddl__frame *frame, void **to)
{
	return ddl__link_bad(link, "it sent a slice over the stream");
}

static int on_ready(struct verbs_link *link)
{
	if (!link->paired)
		return ddl__link_bad(&link->link, "its queue pair was ready before it told of it");
	link->ready = link->qp;
	return 0;
}

static int verbs_frame(struct ddl__link *base, const struct ddl__frame *frame, const void *body)
{
	struct verbs_link *link = (struct verbs_link *)base;

	switch (frame->type) {
	case DDL__FRAME_PAIR:
		return ddl__verbs_pair(link, frame, body);
	case DDL__FRAME_READY:
		return on_ready(link);
	case DDL__FRAME_CREDIT:
		return ddl__verbs_moved_credit(link, frame);
	case DDL__FRAME_FREED:
		return ddl__verbs_freed(link, frame);
	case DDL__FRAME_FAULT:
		return ddl__verbs_told_fault(link, frame, body);
	default:
		return ddl__link_bad(base, "it sent a frame that has no meaning over verbs");
	}
}

static void verbs_terms(const struct ddl__mesh_rx *base, void *out)
{
	const struct verbs_rx *rx = (const struct verbs_rx *)base;
	struct ddl__verbs_terms terms = {
		.at = (uintptr_t)rx->memory.at,
		.rkey = rx->memory.region->rkey[((const struct verbs_link *)base->link)->device],
		.number = base->number,
	};

	memcpy(out, &terms, sizeof(terms));
}

static int verbs_offered(struct ddl__link *link, struct ddl__offer *offer, const void *terms)
{
	const struct ddl__verbs_terms *theirs = terms;

	if (theirs->number >= DDL__VERBS_NUMBERS)
		return ddl__link_bad(link, "it announced a lane in a wrong form");
	offer->extra = malloc(sizeof(*theirs));
	if (!offer->extra)
		return -ENOMEM;
	memcpy(offer->extra, terms, sizeof(*theirs));
	return 0;
}

static void verbs_refuse(struct ddl__offer *offer)
{
	free(offer->extra);
}

static void verbs_grant(struct ddl__mesh_tx *base, void *extra)
{
	struct verbs_tx *tx = (struct verbs_tx *)base;

	memcpy(&tx->terms, extra, sizeof(tx->terms));
	free(extra);
}

/* The ops */

static const struct ddl__mesh_ops mesh_ops = {
	.transport = &ddl__transport_verbs,
	.magic = MAGIC,
	.link_size = sizeof(struct verbs_link),
	.channels = CHANNELS,
	.rail_size = sizeof(struct ddl__verbs_address),
	.listen = ddl__verbs_listen,
	.reaches = ddl__verbs_reaches,
	.rails = ddl__verbs_rails,
	.path = ddl__mesh_path,
	.target = ddl__verbs_target,
	.tune = ddl__tcp_tune,
	.admits = ddl__tcp_admits,
	.up = ddl__verbs_up,
	.pump = verbs_pump,
	.unsent = verbs_unsent,
	.data = verbs_data,
	.frame = verbs_frame,
	.offered = verbs_offered,
	.refuse = verbs_refuse,
	.grant = verbs_grant,
	.down = ddl__verbs_down,
	.terms = verbs_terms,
	.withdrawn = ddl__verbs_withdrawn,
	.parting = verbs_parting,
	.parted = verbs_parted,
	.movable = ddl__verbs_movable,
	.progress = ddl__verbs_progress,
	.resume = ddl__verbs_resume,
};

static int verbs_probe(char *why, size_t size)
{
	struct ddl__verbs_api api;
	struct ibv_device **devices;
	int n = 0;

	if (ddl__verbs_load(&api, why, size) < 0)
		return 0;
	devices = api.get_device_list(&n);
	if (devices)
		api.free_device_list(devices);
	if (n == 0)
		snprintf(why, size, "this machine has no RDMA device (ibv_devices lists them)");
	return n > 0;
}

/* What a device has to say beside completions */

static void async_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct verbs_async *async = (struct verbs_async *)source;
	struct verbs *verbs = async->verbs;
	struct ibv_async_event event;

	ddl__mesh_enter(&verbs->mesh);
	if (verbs->api->get_async_event(async->device->context, &event) == 0) {
		verbs->api->ack_async_event(&event); /* first: the end of a queue pair waits for that */
		ddl__verbs_event(verbs, async->device, &event);
	}
	ddl__mesh_leave(&verbs->mesh);
}

/*
 * How much must be lockable at once. Under the small limit that distributions set all goes well until a request needs more, which
 * then fails on one rank, while over TCP it would work. Who may lock any amount (CAP_IPC_LOCK) has such a limit as well: so it is
 * tried.
 */
static size_t must_lock(void)
{
	const size_t least = (size_t)DDL__RDMA_LOCK_MIB << 20;
	struct rlimit limit;

	return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < least ? least : DDL__VERBS_MESSAGE;
}

/* Devices, each once, and the memory that is registered with them. */
static int open_devices(struct verbs *verbs, struct ddl_error *err)
{
	struct ddl__verbs_memory_config config = { .api = verbs->api, .which = verbs->settings.use };
	struct ddl__verbs_piece piece;
	int rc;

	for (size_t i = 0; i < verbs->ports.n; i++) {
		struct ddl__verbs_device *device = verbs->ports.ports[i].device;
		size_t d = 0;

		while (d < config.n_devices && verbs->async[d].device != device)
			d++;
		if (d < config.n_devices)
			continue;
		verbs->async[d] = (struct verbs_async){ { async_ready }, verbs, device, 0 };
		config.devices[config.n_devices++] = (struct ddl__verbs_memory_device){ device->pd, device->name };
	}
	verbs->n_devices = config.n_devices;
	rc = ddl__verbs_memory_create(&config, &verbs->memory, err);
	rc = rc ? rc : ddl__verbs_memory_get(verbs->memory, must_lock(), &piece, err); /* whether it can be registered */
	if (rc == 0)
		ddl__verbs_memory_put(verbs->memory, &piece);
	return rc;
}

static void verbs_free(struct verbs *verbs)
{
	ddl__verbs_queues_fini(verbs);
	ddl__verbs_memory_destroy(verbs->memory);
	ddl__verbs_ports_close(&verbs->ports);
	free(verbs->lanes);
	free(verbs);
}

static int verbs_open(const struct ddl__transport_config *config, struct ddl__transport **transport, struct ddl_error *err)
{
	static const struct ddl__rdma_settings defaults = DDL__RDMA_SETTINGS_INIT;
	const struct ddl__verbs_choice choice = {
		.root = "",
		.settings = config->rdma,
		.interfaces = config->interfaces,
		.n_interfaces = config->interfaces ? config->n_addresses : 0,
		.cpus = config->cpus,
	};
	struct verbs *verbs = calloc(1, sizeof(*verbs));
	char why[128];
	int rc = 0;

	if (!verbs)
		return ddl__error_memory(err);
	verbs->settings = config->rdma ? *config->rdma : defaults;
	verbs->api = config->verbs ? config->verbs : &verbs->loaded;
	if (!config->verbs && ddl__verbs_load(&verbs->loaded, why, sizeof(why)) < 0)
		rc = ddl__error_set(err, -ENODEV, "verbs: %s", why);
	rc = rc ? rc : ddl__verbs_ports_open(verbs->api, &choice, &verbs->ports, err);
	rc = rc ? rc : open_devices(verbs, err);
	rc = rc ? rc : ddl__mesh_init(&verbs->mesh, &mesh_ops, config, err);
	if (rc) {
		verbs_free(verbs);
		return rc;
	}
	for (size_t d = 0; d < verbs->n_devices; d++) /* best effort: without, failures are noticed later */
		ddl__mesh_watch(&verbs->mesh, verbs->async[d].device->context->async_fd, &verbs->async[d].source, EPOLLIN,
				&verbs->async[d].watched);
	*transport = &verbs->mesh.base;
	return 0;
}

static void verbs_close(struct ddl__transport *transport)
{
	struct verbs *verbs = (struct verbs *)transport;

	if (!transport)
		return;
	for (size_t d = 0; d < verbs->n_devices; d++)
		ddl__mesh_watch(&verbs->mesh, verbs->async[d].device->context->async_fd, &verbs->async[d].source, 0,
				&verbs->async[d].watched);
	ddl__mesh_fini(&verbs->mesh);
	verbs_free(verbs);
}

static void verbs_forked(struct ddl__transport *transport)
{
	const struct verbs *verbs = (const struct verbs *)transport;

	for (const struct verbs_queue *queue = verbs->queues; queue; queue = queue->next)
		close(queue->channel->fd);
	for (size_t d = 0; d < verbs->n_devices; d++) {
		close(verbs->async[d].device->context->async_fd);
		close(verbs->async[d].device->context->cmd_fd);
	}
	ddl__mesh_forked(transport);
}

/* Lanes */

static int verbs_rx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__rx **out,
			 struct ddl_error *err)
{
	struct verbs *verbs = (struct verbs *)transport;
	struct verbs_rx *rx;
	int rc = ddl__lane_check(&verbs->mesh, lane, err);

	if (rc)
		return rc;
	rx = calloc(1, sizeof(*rx));
	if (!rx)
		return ddl__error_memory(err);
	rx->in.mesh.fd = -1;
	rx->in.stride = ddl__lane_stride(lane);
	rc = ddl__verbs_memory_get(verbs->memory, rx->in.stride * lane->slots, &rx->memory, err);
	rx->in.memory = rx->memory.at;
	if (rc == 0)
		rc = ddl__verbs_rx_number(verbs, rx, err);
	if (rc == 0)
		rc = ddl__mesh_rx_open(&verbs->mesh, peer, lane, &rx->in.mesh, err);
	if (rc) {
		ddl__verbs_rx_free(verbs, rx);
		return rc;
	}
	*out = &rx->in.mesh.base;
	return 0;
}

static int verbs_tx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__tx **out,
			 struct ddl_error *err)
{
	struct verbs *verbs = (struct verbs *)transport;
	struct verbs_tx *tx;
	int rc = ddl__lane_check(&verbs->mesh, lane, err);

	if (rc)
		return rc;
	tx = calloc(1, sizeof(*tx));
	if (!tx)
		return ddl__error_memory(err);
	tx->stride = ddl__lane_stride(lane);
	rc = ddl__verbs_memory_get(verbs->memory, tx->stride * lane->slots, &tx->memory, err);
	if (rc == 0)
		rc = ddl__mesh_tx_open(&verbs->mesh, peer, lane, &tx->mesh, err);
	if (rc) {
		ddl__verbs_tx_free(verbs, tx);
		return rc;
	}
	rc = tx->mesh.end.grant ? ddl__verbs_tx_number(tx) : 0; /* announced before */
	if (rc) {
		ddl__mesh_tx_close(&tx->mesh);
		ddl__verbs_tx_free(verbs, tx);
		return ddl__error_set(err, rc, "verbs: the lane to rank %d cannot be: %s", peer,
				      rc == -EBADMSG ? "it gave two lanes one number" : strerror(-rc));
	}
	*out = &tx->mesh.base;
	return 0;
}

static void verbs_rx_close(struct ddl__rx *base)
{
	struct verbs_rx *rx = (struct verbs_rx *)base;
	struct verbs_link *link = (struct verbs_link *)rx->in.mesh.link;

	ddl__slots_unlist(&rx->in, &link->owing);
	for (struct verbs_rx **at = &link->granting; rx->granting && *at; at = &(*at)->next_granting) {
		if (*at == rx) {
			*at = rx->next_granting;
			break;
		}
	}
	rx->closed = true;
	if (rx->in.mesh.announced && link->link.state == DDL__LINK_UP && link->qp) { /* the peer may be writing to it */
		rx->next_closed = link->closed;
		link->closed = rx;
		ddl__mesh_rx_close(&rx->in.mesh);
		return;
	}
	ddl__mesh_rx_close(&rx->in.mesh);
	ddl__verbs_rx_free(verbs_of(&link->link), rx);
}

static void verbs_tx_close(struct ddl__tx *base)
{
	struct verbs_tx *tx = (struct verbs_tx *)base;

	ddl__mesh_tx_close(&tx->mesh);
	tx->closed = true;
	if (tx->mesh.link->moved && tx->sent != tx->completed && tx->sent != tx->credited)
		ddl__link_lose(tx->mesh.link); /* nobody is left who could send it again */
	if (tx->mesh.link->state != DDL__LINK_UP || !((struct verbs_link *)tx->mesh.link)->qp)
		tx->sent = tx->posted = tx->completed; /* it goes nowhere */
	ddl__verbs_tx_done(tx);
}

/* Data */

static void *verbs_tx_slot(struct ddl__tx *base)
{
	struct verbs_tx *tx = (struct verbs_tx *)base;
	const uint32_t slots = tx->mesh.end.lane.slots;

	if (!tx->mesh.granted || tx->mesh.link->state != DDL__LINK_UP || tx->sent - tx->credited >= slots ||
	    tx->sent - tx->completed >= slots)
		return NULL;
	return tx->memory.at + tx->sent % slots * tx->stride;
}

static void send_slice(struct verbs_tx *tx, const void *at, const struct ddl__verbs_region *region, size_t bytes,
		       const struct ddl__spot *spot)
{
	static const struct ddl__spot nowhere;
	struct verbs_link *link = (struct verbs_link *)tx->mesh.link;
	const uint32_t slot = (uint32_t)(tx->sent % tx->mesh.end.lane.slots);

	if (link->link.heard_bye)
		ddl__link_fail(&link->link, -ECONNRESET, "it has left");
	if (link->link.state != DDL__LINK_UP)
		return;
	tx->at[slot] = at;
	tx->region[slot] = region;
	tx->sizes[slot] = (uint32_t)bytes;
	tx->spots[slot] = spot ? *spot : nowhere;
	tx->sent++;
	if (!tx->mesh.queued)
		ddl__lane_enqueue(&link->turns, &tx->mesh);
	ddl__verbs_post(link);
}

static void verbs_tx_send(struct ddl__tx *base, size_t bytes)
{
	struct verbs_tx *tx = (struct verbs_tx *)base;
	const uint32_t slots = tx->mesh.end.lane.slots;

	send_slice(tx, tx->memory.at + tx->sent % slots * tx->stride, tx->memory.region, bytes, NULL);
}

/* What is held, if all of these bytes are in it. */
static const struct ddl__verbs_region *covering(const struct verbs *verbs, const void *held, const void *at, size_t bytes)
{
	const struct ddl__verbs_region *region = held;
	const size_t begin = region ? (uintptr_t)at - (uintptr_t)region->at : 0;

	return region && !verbs->let_go && begin <= region->bytes && bytes <= region->bytes - begin ? region : NULL;
}

static bool verbs_tx_borrows(struct ddl__tx *base, void *held, const void *from, size_t bytes)
{
	return covering(verbs_of(((struct verbs_tx *)base)->mesh.link), held, from, bytes);
}

static bool verbs_tx_borrow(struct ddl__tx *base, void *held, const void *from, size_t bytes, const struct ddl__spot *spot)
{
	struct verbs_tx *tx = (struct verbs_tx *)base;
	const struct ddl__verbs_region *region = covering(verbs_of(tx->mesh.link), held, from, bytes);

	if (!region || !verbs_tx_slot(base))
		return false;
	send_slice(tx, from, region, bytes, spot);
	tx->borrowed = tx->sent;
	return true;
}

static bool verbs_tx_flushed(struct ddl__tx *base)
{
	struct verbs_tx *tx = (struct verbs_tx *)base;

	if (tx->posted != tx->sent || tx->completed < tx->borrowed)
		return false;
	tx->settled = tx->sent;
	return true;
}

static void verbs_rx_release(struct ddl__rx *base)
{
	struct verbs_rx *rx = (struct verbs_rx *)base;
	struct verbs_link *link = (struct verbs_link *)rx->in.mesh.link;
	bool soon;

	if (ddl__slots_release(&rx->in, &link->owing, &soon))
		ddl__verbs_pend(link, soon);
}

static void verbs_rx_accept(struct ddl__rx *base, uint64_t start, void *held, void *memory, size_t bytes)
{
	struct verbs_rx *rx = (struct verbs_rx *)base;
	const struct ddl__verbs_region *region = covering(verbs_of(rx->in.mesh.link), held, memory, bytes);

	rx->accepts = region;
	rx->grant = (struct ddl__verbs_grant){
		.number = rx->in.mesh.number,
		.start = region ? start : 0,
		.at = (uintptr_t)memory,
		.bytes = bytes,
		.opening = rx->in.mesh.end.grant,
	};
	if (!rx->grant.start || rx->in.mesh.link->state != DDL__LINK_UP)
		return; /* one that comes up is told with the announcement */
	ddl__verbs_grant_memory(rx);
	ddl__verbs_post((struct verbs_link *)rx->in.mesh.link);
}

/* A window is registered once, whole. */
static void *verbs_hold(struct ddl__transport *transport, void *held, void *memory, size_t bytes, const struct ddl__window *window)
{
	struct verbs *verbs = (struct verbs *)transport;
	const void *at = window ? window->memory : memory;

	return (void *)(uintptr_t)ddl__verbs_memory_hold(verbs->memory, held, at, window ? window->size : bytes, window != NULL);
}

static void verbs_drop(struct ddl__transport *transport, void *held)
{
	ddl__verbs_memory_drop(((struct verbs *)transport)->memory, held);
}

static void verbs_hide(struct ddl__transport *transport, const struct ddl__window *window)
{
	ddl__verbs_memory_forget(((struct verbs *)transport)->memory, window->memory, window->size);
}

static void verbs_let_go(struct ddl__transport *transport)
{
	struct verbs *verbs = (struct verbs *)transport;

	verbs->let_go = true;
	for (size_t i = 0; i < verbs->mesh.n_links; i++)
		if (verbs->mesh.links[i])
			ddl__verbs_unpair((struct verbs_link *)verbs->mesh.links[i]);
}

static void verbs_poll(struct ddl__transport *transport)
{
	ddl__verbs_take((struct verbs *)transport);
}

static void verbs_flush(struct ddl__transport *transport, bool all)
{
	struct verbs *verbs = (struct verbs *)transport;
	struct verbs_link **at = &verbs->pending;

	if (!verbs->pending)
		return;
	all = all || verbs->patience-- == 0;
	while (*at) {
		struct verbs_link *link = *at;

		if (!all && !link->due) {
			at = &link->next;
			continue;
		}
		*at = link->next;
		link->pending = false;
		link->due = true;
		ddl__verbs_post(link);
	}
}

static void verbs_sleeping(struct ddl__transport *transport, bool on)
{
	struct verbs *verbs = (struct verbs *)transport;

	ddl__verbs_memory_tidy(verbs->memory);
	for (struct verbs_queue *queue = verbs->queues; on && queue; queue = queue->next)
		if (!queue->armed && verbs->api->req_notify_cq(queue->cq, 0) == 0)
			queue->armed = true;
}

static unsigned verbs_ports(const struct ddl__transport *transport)
{
	return ((const struct ddl__mesh *)transport)->n_rails;
}

const struct ddl__transport_ops ddl__transport_verbs = {
	.name = "verbs",
	.description = "RDMA over InfiniBand or RoCE (libibverbs)",
	.probe = verbs_probe,
	.open = verbs_open,
	.address = ddl__mesh_address,
	.attach = ddl__verbs_attach,
	.reaches = ddl__mesh_reaches,
	.rx_open = verbs_rx_open,
	.tx_open = verbs_tx_open,
	.rx_close = verbs_rx_close,
	.tx_close = verbs_tx_close,
	.tx_slot = verbs_tx_slot,
	.tx_turn = ddl__mesh_tx_turn,
	.tx_send = verbs_tx_send,
	.tx_borrow = verbs_tx_borrow,
	.tx_borrows = verbs_tx_borrows,
	.tx_flushed = verbs_tx_flushed,
	.rx_slot = ddl__slots_rx_slot,
	.rx_release = verbs_rx_release,
	.rx_expect = ddl__slots_rx_expect,
	.rx_land = ddl__slots_rx_land,
	.rx_accept = verbs_rx_accept,
	.hold = verbs_hold,
	.drop = verbs_drop,
	.hide = verbs_hide,
	.let_go = verbs_let_go,
	.poll = verbs_poll,
	.flush = verbs_flush,
	.sleeping = verbs_sleeping,
	.ports = verbs_ports,
	.rx_rail = ddl__mesh_rx_rail,
	.tx_rail = ddl__mesh_tx_rail,
	.abort = ddl__mesh_abort,
	.goodbye = ddl__mesh_goodbye,
	.done = ddl__mesh_done,
	.close = verbs_close,
	.forked = verbs_forked,
};
