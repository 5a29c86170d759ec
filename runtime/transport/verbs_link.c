/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_link.c - see verbs.h: queue pairs and completion queues, their making and their end.
 *
 * The peer sends only after this end has said that its queue pair receives (READY): a packet that came earlier would be dropped,
 * and sent again after a second. A queue pair is ended before any memory that it may touch is given back: destroying it is what the
 * device's driver promises no access after.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "auth.h"
#include "error.h"
#include "verbs.h"

#define RNR_NAK_TIMER 12 /* 0.64 ms; receives are there before messages, so this is never waited for */
#define RNR_RETRY     7  /* for ever */
#define INLINE_BYTES  220u
#define JOIN_MS       10000 /* that a peer's hardware address is asked for: a second at a time, in which nothing else goes on */
#define JOIN_AGAIN_NS 1000000

_Static_assert(sizeof(struct ddl__verbs_terms) == DDL__MESH_TERMS, "the terms have no padding");
_Static_assert(sizeof(struct ddl__verbs_grant) == 40 && sizeof(struct ddl__verbs_grant) <= DDL__VERBS_MESSAGE,
	       "the grant has no padding");
_Static_assert(sizeof(struct ddl__verbs_pair) == 16, "the pair has no padding");

static struct verbs *verbs_of(const struct verbs_link *link)
{
	return (struct verbs *)link->link.mesh;
}

/* The index of the device that a port is of, in keys. */
static unsigned device_of(const struct verbs *verbs, const struct ddl__verbs_port *port)
{
	unsigned i = 0;

	while (i + 1 < verbs->n_devices && verbs->async[i].device != port->device)
		i++;
	return i;
}

/* Completion queues */

static void queue_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct verbs_queue *queue = (struct verbs_queue *)source;
	struct verbs *verbs = queue->verbs;
	struct ibv_cq *cq;
	void *context;

	ddl__mesh_enter(&verbs->mesh);
	if (verbs->api->get_cq_event(queue->channel, &cq, &context) == 0) {
		verbs->api->ack_cq_events(cq, 1);
		queue->armed = false;
		ddl__verbs_take(verbs);
	}
	ddl__mesh_leave(&verbs->mesh);
}

static void queue_destroy(struct verbs_queue *queue)
{
	const struct ddl__verbs_api *api = queue->verbs->api;

	if (queue->cq)
		api->destroy_cq(queue->cq);
	if (queue->channel) {
		ddl__mesh_watch(&queue->verbs->mesh, queue->channel->fd, &queue->source, 0, &queue->watched);
		api->destroy_comp_channel(queue->channel);
	}
	free(queue);
}

void ddl__verbs_queues_fini(struct verbs *verbs)
{
	while (verbs->queues) {
		struct verbs_queue *queue = verbs->queues;

		verbs->queues = queue->next;
		queue_destroy(queue);
	}
}

static unsigned links_a_queue(const struct ddl__verbs_device *device)
{
	unsigned links = (unsigned)device->limits.max_cqe / (DDL__VERBS_RECEIVES + DDL__VERBS_SENDS);

	return links < DDL__VERBS_LINKS_A_QUEUE ? links : DDL__VERBS_LINKS_A_QUEUE;
}

/* A completion queue of the device with room for one more link; NULL: errno. */
static struct verbs_queue *queue_for(struct verbs *verbs, struct ddl__verbs_device *device)
{
	const unsigned links = links_a_queue(device);
	struct verbs_queue *queue = verbs->queues;
	int flags;

	while (queue && (queue->device != device || queue->links >= links))
		queue = queue->next;
	if (queue)
		return queue;
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return NULL;
	queue->source.ready = queue_ready;
	queue->verbs = verbs;
	queue->device = device;
	queue->channel = verbs->api->create_comp_channel(device->context);
	flags = queue->channel ? fcntl(queue->channel->fd, F_GETFL) : -1;
	if (flags >= 0 && fcntl(queue->channel->fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
	    ddl__mesh_watch(&verbs->mesh, queue->channel->fd, &queue->source, EPOLLIN, &queue->watched) == 0)
		queue->cq = verbs->api->create_cq(device->context, (int)(links * (DDL__VERBS_RECEIVES + DDL__VERBS_SENDS)), queue,
						  queue->channel, 0);
	if (!queue->cq) {
		int error = errno;

		queue_destroy(queue);
		errno = error;
		return NULL;
	}
	queue->next = verbs->queues;
	verbs->queues = queue;
	return queue;
}

/* Making */

/* This link is given up here: the peer hears why, and neither is gone for that. */
static void tell_peer(struct verbs_link *link, const char *verb, const char *what)
{
	struct ddl__link *base = &link->link;
	struct ddl__frame frame = { .type = DDL__FRAME_FAULT };

	snprintf(link->words, sizeof(link->words), "RDMA from its %.32s port %u %s: %.320s", link->port->device->name,
		 link->port->number, verb, what);
	frame.bytes = (uint32_t)strlen(link->words);
	if (!base->said_bye && ddl__stream_put(base->stream, &frame, link->words, NULL, 0) == 0)
		ddl__link_write(base);
	base->silent = true;
}

static int give_up(struct verbs_link *link, const char *what)
{
	tell_peer(link, "cannot be set up", what);
	snprintf(link->words, sizeof(link->words), "RDMA to it over %.32s port %u cannot be set up: %.320s",
		 link->port->device->name, link->port->number, what);
	link->link.why = link->words;
	return -EHOSTDOWN;
}

static int say(struct verbs_link *link, int rc, const char *what)
{
	char why[DDL__REASON_SIZE], all[2 * DDL__REASON_SIZE];

	snprintf(all, sizeof(all), "%s: %s", what, ddl__error_reason(why, sizeof(why), rc));
	return give_up(link, all);
}

/* Providers take different amounts inline; some refuse what is too much instead of saying how much they take. */
static int create(struct verbs_link *link)
{
	const struct ddl__verbs_api *api = verbs_of(link)->api;
	static const uint32_t amounts[] = { INLINE_BYTES, DDL__VERBS_MESSAGE, sizeof(struct ddl__verbs_grant), 0 };

	for (size_t i = 0; !link->qp && i < sizeof(amounts) / sizeof(*amounts); i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = link->queue->cq,
			.recv_cq = link->queue->cq,
			.cap = { .max_send_wr = DDL__VERBS_SENDS,
				 .max_recv_wr = DDL__VERBS_RECEIVES,
				 .max_send_sge = 1,
				 .max_recv_sge = 1,
				 .max_inline_data = amounts[i] },
			.qp_type = IBV_QPT_RC,
		};

		link->qp = api->create_qp(link->port->device->pd, &attr);
		link->inline_max = attr.cap.max_inline_data;
	}
	return link->qp ? 0 : errno ? -errno : -EIO;
}

static int init(struct verbs_link *link)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = link->port->pkey_index,
		.port_num = link->port->number,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	int rc = verbs_of(link)->api->modify_qp(link->qp, &attr,
						IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	for (uint32_t i = 0; rc == 0 && i < DDL__VERBS_RECEIVES; i++)
		rc = -ddl__verbs_receive(link, i);
	return -rc;
}

int ddl__verbs_up(struct ddl__link *base)
{
	struct verbs_link *link = (struct verbs_link *)base;
	struct verbs *verbs = verbs_of(link);
	struct ddl__frame frame = { .type = DDL__FRAME_PAIR, .bytes = sizeof(struct ddl__verbs_pair) };
	struct ddl__verbs_pair pair = { .receives = DDL__VERBS_RECEIVES };
	struct ddl_error err = { 0 };
	int rc;

	link->port = &verbs->ports.ports[base->rail];
	link->device = device_of(verbs, link->port);
	if (verbs->let_go)
		return 0;
	rc = ddl__verbs_memory_get(verbs->memory, (DDL__VERBS_RECEIVES + DDL__VERBS_SENDS) * DDL__VERBS_MESSAGE, &link->memory,
				   &err);
	if (rc)
		return give_up(link, err.text);
	link->queue = queue_for(verbs, link->port->device);
	if (!link->queue)
		return say(link, errno ? -errno : -ENOMEM, "no completion queue");
	link->queue->links++;
	rc = create(link);
	if (rc)
		return say(link, rc, "no queue pair");
	rc = init(link);
	if (rc)
		return say(link, rc, "its queue pair does not begin");
	rc = ddl__auth_random(&link->psn, sizeof(link->psn));
	link->psn &= 0xffffff;
	pair.psn = link->psn;
	pair.qp = link->qp->qp_num;
	return rc ? rc : ddl__stream_put(base->stream, &frame, &pair, NULL, 0);
}

static int to_rtr(struct verbs_link *link)
{
	const struct verbs *verbs = verbs_of(link);
	const struct ddl__verbs_address *theirs = ddl__verbs_address_of(&verbs->mesh, link->link.peer, link->link.rail);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = link->peer_qp,
		.rq_psn = link->peer_psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = RNR_NAK_TIMER,
	};

	ddl__verbs_path(link->port, theirs, &verbs->settings, &attr);
	return -verbs->api->modify_qp(link->qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct verbs_link *link)
{
	const struct verbs *verbs = verbs_of(link);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = link->psn,
		.rnr_retry = RNR_RETRY,
		.max_rd_atomic = 1,
		.timeout = (uint8_t)verbs->settings.timeout,
		.retry_cnt = (uint8_t)verbs->settings.retry,
	};

	return -verbs->api->modify_qp(link->qp, &attr,
				      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					      IBV_QP_MAX_QP_RD_ATOMIC);
}

static int nobody_there(struct verbs_link *link)
{
	const struct ddl__verbs_address *theirs = ddl__verbs_address_of(link->link.mesh, link->link.peer, link->link.rail);
	char gid[INET6_ADDRSTRLEN], what[320];

	snprintf(what, sizeof(what),
		 "its queue pair cannot be joined to the peer's: nobody on that port's network answers for the "
		 "peer's address %s (are both ports on one network, VLAN and subnet, or routed? DDL_TRANSPORTS=shm,tcp does "
		 "without)",
		 ddl__verbs_gid((enum ddl__verbs_kind)theirs->kind, theirs->gid, gid));
	return give_up(link, what);
}

/*
 * Over RoCE the kernel asks the network for the peer's hardware address, and has it after a second or gives up with ETIMEDOUT: one
 * packet that is lost is enough for that, and the queue pair is as before. So it is tried again, when what else there is has had
 * its turn.
 */
int ddl__verbs_join(struct verbs_link *link)
{
	const struct ddl__frame ready = { .type = DDL__FRAME_READY };
	int rc = to_rtr(link);

	if (rc == -ETIMEDOUT && ddl__mesh_now() < link->join_until_ns) {
		link->link.retry_ns = ddl__mesh_now() + JOIN_AGAIN_NS;
		ddl__mesh_due(link->link.mesh, link->link.retry_ns);
		return 0;
	}
	link->join_until_ns = 0;
	if (rc == -ETIMEDOUT && link->port->kind != DDL__VERBS_IB)
		return nobody_there(link);
	rc = rc ? rc : to_rts(link);
	if (rc)
		return say(link, rc, "its queue pair cannot be joined to the peer's");
	return link->link.said_bye ? 0 : ddl__stream_put(link->link.stream, &ready, NULL, NULL, 0);
}

int ddl__verbs_pair(struct verbs_link *link, const struct ddl__frame *frame, const void *body)
{
	const int timeout_ms = link->link.mesh->timeout_ms;
	struct ddl__verbs_pair pair;

	if (frame->bytes != sizeof(pair) || link->paired)
		return ddl__link_bad(&link->link, "it told of a queue pair that cannot be");
	memcpy(&pair, body, sizeof(pair));
	if (pair.qp > 0xffffff || pair.psn > 0xffffff || pair.receives <= DDL__VERBS_SPARE || pair.receives > 1u << 20)
		return ddl__link_bad(&link->link, "it told of a queue pair that cannot be");
	link->paired = true;
	link->peer_receives = link->room = pair.receives - DDL__VERBS_SPARE;
	link->peer_qp = pair.qp;
	link->peer_psn = pair.psn;
	if (link->qp) /* else it was let go */
		link->join_until_ns = ddl__mesh_now() + (uint64_t)(timeout_ms < JOIN_MS ? timeout_ms : JOIN_MS) * 1000000;
	return 0;
}

/* The end */

void ddl__verbs_unpair(struct verbs_link *link)
{
	struct verbs *verbs = verbs_of(link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (link->qp && !link->ending) {
		link->ending = true; /* what ended with it is no failure */
		verbs->api->modify_qp(link->qp, &attr, IBV_QP_STATE);
		ddl__verbs_drain(link->queue); /* what has landed has landed */
		verbs->api->destroy_qp(link->qp);
		link->qp = NULL;
		link->ending = false;
	}
	if (link->queue)
		link->queue->links--;
	link->queue = NULL;
	link->ready = false;
	link->join_until_ns = 0;
	ddl__verbs_memory_put(verbs->memory, &link->memory);
	ddl__verbs_drop(link);
}

void ddl__verbs_down(struct ddl__link *base)
{
	ddl__verbs_unpair((struct verbs_link *)base);
}

/* The device is asked: that it has lost its link it may tell later than what fails for that. */
static bool port_is_down(const struct verbs_link *link)
{
	const struct ddl__verbs_port *port = link->port;
	struct ibv_port_attr attr = { 0 };

	return verbs_of(link)->api->query_port(port->device->context, port->number, &attr) == 0 && attr.state != IBV_PORT_ACTIVE;
}

void ddl__verbs_fail(struct verbs_link *link, const char *fmt, ...)
{
	struct ddl__link *base = &link->link;
	char what[128];
	va_list args;
	int used;

	if (base->state != DDL__LINK_UP)
		return;
	va_start(args, fmt);
	used = vsnprintf(what, 96, fmt, args);
	va_end(args);
	if (port_is_down(link))
		snprintf(what + (used < 96 ? used : 95), 32, "; that port is down");
	tell_peer(link, "failed", what);
	ddl__link_fail(base, -EHOSTUNREACH, "RDMA to it over %s port %u failed: %s", link->port->device->name, link->port->number,
		       what);
}

int ddl__verbs_told_fault(struct verbs_link *link, const struct ddl__frame *frame, const void *body)
{
	ddl__error_word(link->words, sizeof(link->words), body, frame->bytes);
	if (port_is_down(link)) { /* why the peer heard nothing */
		const size_t used = strlen(link->words);

		snprintf(link->words + used, sizeof(link->words) - used, "; %.32s port %u here is down", link->port->device->name,
			 link->port->number);
	}
	link->link.silent = true;
	link->link.why = link->words;
	return -EHOSTDOWN;
}

/* Events of a device */

/* Links over that port. Where another rail is up they go on there; else what is sent and not answered tells. */
static void port_down(struct verbs *verbs, const struct ddl__verbs_device *device, unsigned port)
{
	for (size_t i = 0; i < verbs->mesh.n_links; i++) {
		struct verbs_link *link = (struct verbs_link *)verbs->mesh.links[i];

		if (link && link->link.state == DDL__LINK_UP && link->port->device == device && link->port->number == port &&
		    ddl__link_other(&link->link))
			ddl__verbs_fail(link, "it lost its link");
	}
}

static void pair_failed(struct verbs *verbs, const struct ibv_qp *qp, const char *what)
{
	for (size_t i = 0; i < verbs->mesh.n_links; i++) {
		struct verbs_link *link = (struct verbs_link *)verbs->mesh.links[i];

		if (link && link->qp == qp)
			ddl__verbs_fail(link, "%s", what);
	}
}

static void queue_failed(struct verbs *verbs, const struct ibv_cq *cq)
{
	for (size_t i = 0; i < verbs->mesh.n_links; i++) {
		struct verbs_link *link = (struct verbs_link *)verbs->mesh.links[i];

		if (link && link->queue && link->queue->cq == cq)
			ddl__verbs_fail(link, "its completion queue failed");
	}
}

static void device_gone(struct verbs *verbs, const struct ddl__verbs_device *device)
{
	for (size_t i = 0; i < verbs->mesh.n_links; i++) {
		struct verbs_link *link = (struct verbs_link *)verbs->mesh.links[i];

		if (link && link->link.state == DDL__LINK_UP && link->port->device == device)
			ddl__verbs_fail(link, "the device failed");
	}
}

void ddl__verbs_event(struct verbs *verbs, const struct ddl__verbs_device *device, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ERR:
		port_down(verbs, device, (unsigned)event->element.port_num);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		device_gone(verbs, device);
		break;
	case IBV_EVENT_CQ_ERR:
		queue_failed(verbs, event->element.cq);
		break;
	case IBV_EVENT_QP_FATAL:
		pair_failed(verbs, event->element.qp, "its queue pair failed");
		break;
	case IBV_EVENT_QP_REQ_ERR:
		pair_failed(verbs, event->element.qp, "it was sent a request that makes no sense");
		break;
	case IBV_EVENT_QP_ACCESS_ERR:
		pair_failed(verbs, event->element.qp, "it was sent a write to memory that it does not grant");
		break;
	default:
		break;
	}
}
