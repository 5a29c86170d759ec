/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c - lanes over TCP: one connection to each peer, slices as frames, credits as frames.
 *
 * Both ends of a lane have its slots: the sender fills its own and keeps them until their credits come back, the receiver's are
 * where slices land straight from the socket. A connection always writes the slice of the lane with the highest priority next,
 * lanes of equal priority in turn. Credits of many slots go in one frame, in front of the next slice.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "mesh.h"

#define MAGIC           0x74646470u /* of an address */
#define BACKLOG         4096
#define KEEPALIVE_S     10    /* idle before the first probe; then a probe every 5 s, 4 of them */
#define USER_TIMEOUT_MS 30000 /* unacknowledged for so long: the cable is pulled */

struct tcp_address {      /* own part of an address. No padding. */
	uint16_t family;  /* 4 or 6 */
	uint16_t port;    /* host order */
	uint8_t host[16]; /* network order; 4: the first four */
};

struct tcp_tx {
	struct ddl__mesh_tx mesh;
	uint8_t *memory; /* slots, stride bytes each */
	size_t stride;
	uint32_t sizes[DDL__SLOTS_MAX]; /* bytes in each */
	uint64_t sent;                  /* by the engine */
	uint64_t written;               /* to the kernel */
	uint64_t credited;              /* came back */
	bool queued;                    /* in the link's queue, or in the works */
	bool closed;                    /* freed when all is written */
	struct tcp_tx *next;            /* in the queue */
};

struct tcp_rx {
	struct ddl__mesh_rx mesh;
	uint8_t *memory; /* slots, stride bytes each */
	size_t stride;
	uint32_t sizes[DDL__SLOTS_MAX]; /* bytes in each */
	uint64_t landed;
	uint64_t released;
	uint32_t owed;       /* credits not sent yet */
	bool owing;          /* in the link's list */
	struct tcp_rx *next; /* in that list */
};

struct tcp_link {
	struct ddl__link link;
	struct tcp_tx *queue;   /* lanes with slices to write: highest priority first */
	struct tcp_tx *writing; /* whose slice is in the works */
	struct tcp_rx *owing;   /* lanes with credits to send */
	struct tcp_rx *landing; /* whose slice is coming in */
};

_Static_assert(sizeof(struct tcp_address) == 20, "the address has no padding");

static uint8_t *slots_create(const struct ddl__lane *lane)
{
	size_t bytes = ddl__lane_stride(lane) * lane->slots;

	return aligned_alloc(DDL__MESH_ALIGNMENT, bytes ? bytes : DDL__MESH_ALIGNMENT);
}

/* Addresses and sockets */

static int numeric(const char *text, struct sockaddr_storage *address, socklen_t *size)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	struct addrinfo *found;

	if (getaddrinfo(text, NULL, &hints, &found))
		return -EINVAL;
	memset(address, 0, sizeof(*address));
	memcpy(address, found->ai_addr, found->ai_addrlen);
	*size = found->ai_addrlen;
	freeaddrinfo(found);
	return address->ss_family == AF_INET || address->ss_family == AF_INET6 ? 0 : -EINVAL;
}

static int listen_at(const char *text, int *fd)
{
	struct sockaddr_storage address;
	socklen_t size;
	int on = 1;
	int made;
	int rc = numeric(text, &address, &size);

	if (rc)
		return rc;
	made = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (made < 0)
		return -errno;
	if (address.ss_family == AF_INET6)
		setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(made, (struct sockaddr *)&address, size) || listen(made, BACKLOG)) {
		rc = -errno;
		close(made);
		return rc;
	}
	*fd = made;
	return 0;
}

static int own_address(int fd, struct tcp_address *own)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} name;
	socklen_t size = sizeof(name);

	memset(own, 0, sizeof(*own));
	memset(&name, 0, sizeof(name));
	if (getsockname(fd, &name.any, &size))
		return -errno;
	if (name.any.sa_family == AF_INET6) {
		own->family = 6;
		own->port = ntohs(name.in6.sin6_port);
		memcpy(own->host, &name.in6.sin6_addr, sizeof(name.in6.sin6_addr));
	} else {
		own->family = 4;
		own->port = ntohs(name.in.sin_port);
		memcpy(own->host, &name.in.sin_addr, sizeof(name.in.sin_addr));
	}
	return 0;
}

static int tcp_listen(struct ddl__mesh *mesh, const struct ddl__transport_config *config, int *fd, void *own, size_t *size,
		      struct ddl_error *err)
{
	struct tcp_address address;
	char why[DDL__REASON_SIZE];
	int made = -1;
	int rc = -ENOENT;

	if (config->n_addresses == 0)
		return ddl__error_set(err, rc, "tcp: this node has no address to listen at; name its interface.");
	for (size_t i = 0; rc && i < config->n_addresses; i++)
		rc = listen_at(config->addresses[i], &made);
	if (rc == 0) {
		rc = own_address(made, &address);
		if (rc)
			close(made);
	}
	if (rc)
		return ddl__error_set(err, rc, "tcp: cannot listen at %s%s: %s", config->addresses[0],
				      config->n_addresses > 1 ? " nor at the other addresses" : "",
				      ddl__error_reason(why, sizeof(why), rc));
	*fd = made;
	memcpy(own, &address, sizeof(address));
	*size = sizeof(address);
	return 0;
}

static bool is_loopback(const struct tcp_address *address)
{
	return address->family == 6 ? IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)address->host) : address->host[0] == 127;
}

/* A loopback address is another's on another machine: there, it would be taken for one of ours that is not listening. */
static bool tcp_reaches(const struct ddl__mesh *mesh, const void *own, size_t size, const char *machine)
{
	struct tcp_address theirs, ours;

	if (size != sizeof(theirs))
		return false;
	memcpy(&theirs, own, sizeof(theirs));
	memcpy(&ours, mesh->address + sizeof(struct ddl__mesh_address), sizeof(ours));
	if ((is_loopback(&theirs) || is_loopback(&ours)) && machine[0] && mesh->machine[0] && strcmp(machine, mesh->machine))
		return false;
	return theirs.family == ours.family;
}

static void tcp_target(const void *own, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size)
{
	struct tcp_address address;
	char host[INET6_ADDRSTRLEN] = "?";

	memcpy(&address, own, sizeof(address));
	memset(to, 0, sizeof(*to));
	if (address.family == 6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(address.port);
		memcpy(&in6->sin6_addr, address.host, sizeof(in6->sin6_addr));
		*size = sizeof(*in6);
		inet_ntop(AF_INET6, address.host, host, sizeof(host));
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)to;

		in->sin_family = AF_INET;
		in->sin_port = htons(address.port);
		memcpy(&in->sin_addr, address.host, sizeof(in->sin_addr));
		*size = sizeof(*in);
		inet_ntop(AF_INET, address.host, host, sizeof(host));
	}
	snprintf(words, words_size, "address %s port %u", host, address.port);
}

static void tcp_tune(int fd)
{
	int on = 1, idle = KEEPALIVE_S, interval = 5, count = 4;
	unsigned int timeout = USER_TIMEOUT_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static bool tcp_admits(int fd)
{
	return true; /* the handshake decides */
}

static int tcp_up(struct ddl__link *link)
{
	return 0;
}

/* Writing */

static void enqueue(struct tcp_link *link, struct tcp_tx *tx)
{
	struct tcp_tx **at = &link->queue;

	while (*at && (*at)->mesh.end.lane.call.priority >= tx->mesh.end.lane.call.priority)
		at = &(*at)->next;
	tx->next = *at;
	*at = tx;
	tx->queued = true;
}

static void tx_free(struct tcp_tx *tx)
{
	free(tx->memory);
	free(tx);
}

/* Puts the credits that are owed in front of what is written next, as far as there is room without an allocation. */
static void put_credits(struct tcp_link *link)
{
	while (link->owing && !link->link.said_bye && ddl__stream_fits(link->link.stream, 0)) {
		struct tcp_rx *rx = link->owing;
		struct ddl__frame frame = {
			.type = DDL__FRAME_CREDIT,
			.request = rx->mesh.end.lane.request,
			.lane = rx->mesh.end.lane.index,
			.grant = rx->mesh.end.grant,
			.count = rx->owed,
		};

		ddl__stream_put(link->link.stream, &frame, NULL, NULL, 0);
		rx->owed = 0;
		rx->owing = false;
		link->owing = rx->next;
	}
}

static void begin_slice(struct tcp_link *link)
{
	struct tcp_tx *tx = link->queue;
	uint32_t slot = (uint32_t)(tx->written % tx->mesh.end.lane.slots);
	struct ddl__frame frame = {
		.type = DDL__FRAME_DATA,
		.bytes = tx->sizes[slot],
		.request = tx->mesh.end.lane.request,
		.lane = tx->mesh.end.lane.index,
		.grant = tx->mesh.end.grant,
	};

	link->queue = tx->next;
	link->writing = tx;
	ddl__stream_data(link->link.stream, &frame, tx->memory + slot * tx->stride);
}

static void end_slice(struct tcp_link *link)
{
	struct tcp_tx *tx = link->writing;

	link->writing = NULL;
	tx->written++;
	tx->queued = false;
	if (tx->written != tx->sent)
		enqueue(link, tx);
	else if (tx->closed)
		tx_free(tx);
}

static void tcp_pump(struct ddl__link *base)
{
	struct tcp_link *link = (struct tcp_link *)base;
	int rc;

	do {
		put_credits(link);
		if (!link->writing && link->queue && !base->mute)
			begin_slice(link);
		rc = ddl__link_write(base);
		if (link->writing && !ddl__stream_busy(base->stream))
			end_slice(link);
	} while (rc == 0 && (link->queue || (link->owing && !base->said_bye)));
	ddl__link_settle(base);
}

static bool tcp_unsent(const struct ddl__link *base)
{
	const struct tcp_link *link = (const struct tcp_link *)base;

	return link->queue || link->writing;
}

static void tcp_down(struct ddl__link *base)
{
	struct tcp_link *link = (struct tcp_link *)base;
	struct tcp_tx *tx;

	if (link->writing)
		link->writing->next = link->queue;
	tx = link->writing ? link->writing : link->queue;
	while (tx) {
		struct tcp_tx *next = tx->next;

		tx->queued = false;
		if (tx->closed)
			tx_free(tx);
		tx = next;
	}
	link->queue = link->writing = NULL;
	for (struct tcp_rx *rx = link->owing; rx; rx = rx->next)
		rx->owing = false;
	link->owing = NULL;
	link->landing = NULL;
}

/* What comes in */

static int tcp_data(struct ddl__link *base, const struct ddl__frame *frame, void **to)
{
	struct tcp_link *link = (struct tcp_link *)base;
	struct ddl__end *end = ddl__table_find(&base->rx, frame->request, frame->lane);
	struct tcp_rx *rx;

	link->landing = NULL;
	if (!end || end->grant != frame->grant)
		return 0; /* closed meanwhile */
	rx = end->owner;
	if (frame->bytes > end->lane.slot_bytes)
		return ddl__link_bad(base, "it sent a slice that is larger than its slot");
	if (rx->landed - rx->released >= end->lane.slots)
		return ddl__link_bad(base, "it sent a slice without a credit");
	link->landing = rx;
	*to = rx->memory + rx->landed % end->lane.slots * rx->stride;
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
	struct tcp_rx *rx = link->landing;

	if (frame->type == DDL__FRAME_CREDIT && frame->bytes == 0)
		return on_credit(base, frame);
	if (frame->type != DDL__FRAME_DATA)
		return ddl__link_bad(base, "it sent a frame that has no meaning over tcp");
	link->landing = NULL;
	if (rx) {
		rx->sizes[rx->landed % rx->mesh.end.lane.slots] = frame->bytes;
		rx->landed++;
	}
	return 0;
}

static int tcp_offered(struct ddl__link *link, struct ddl__offer *offer)
{
	return 0;
}

static void tcp_refuse(struct ddl__offer *offer)
{
}

static void tcp_grant(struct ddl__mesh_tx *tx, void *extra)
{
}

/* The ops */

static const struct ddl__mesh_ops mesh_ops = {
	.transport = &ddl__transport_tcp,
	.magic = MAGIC,
	.link_size = sizeof(struct tcp_link),
	.listen = tcp_listen,
	.reaches = tcp_reaches,
	.target = tcp_target,
	.tune = tcp_tune,
	.admits = tcp_admits,
	.up = tcp_up,
	.pump = tcp_pump,
	.unsent = tcp_unsent,
	.data = tcp_data,
	.frame = tcp_frame,
	.offered = tcp_offered,
	.refuse = tcp_refuse,
	.grant = tcp_grant,
	.down = tcp_down,
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
	struct ddl__mesh *mesh = calloc(1, sizeof(*mesh));
	int rc;

	if (!mesh)
		return ddl__error_memory(err);
	rc = ddl__mesh_init(mesh, &mesh_ops, config, err);
	if (rc) {
		free(mesh);
		return rc;
	}
	*transport = &mesh->base;
	return 0;
}

static int tcp_rx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__rx **out,
		       struct ddl_error *err)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;
	struct tcp_rx *rx;
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
	struct tcp_rx *rx = (struct tcp_rx *)base;
	struct tcp_link *link = (struct tcp_link *)rx->mesh.link;

	if (link->landing == rx) {
		ddl__parser_drop(&link->link.stream->parser);
		link->landing = NULL;
	}
	for (struct tcp_rx **at = &link->owing; rx->owing && *at; at = &(*at)->next) {
		if (*at == rx) {
			*at = rx->next;
			break;
		}
	}
	ddl__mesh_rx_close(&rx->mesh);
	free(rx->memory);
	free(rx);
}

static void tcp_tx_close(struct ddl__tx *base)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;

	ddl__mesh_tx_close(&tx->mesh);
	tx->closed = true;
	if (!tx->queued)
		tx_free(tx);
}

static void *tcp_tx_slot(struct ddl__tx *base)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;

	if (!tx->mesh.granted || tx->mesh.link->state != DDL__LINK_UP || tx->sent - tx->credited >= tx->mesh.end.lane.slots)
		return NULL;
	return tx->memory + tx->sent % tx->mesh.end.lane.slots * tx->stride;
}

static void tcp_tx_send(struct ddl__tx *base, size_t bytes)
{
	struct tcp_tx *tx = (struct tcp_tx *)base;
	struct ddl__link *link = tx->mesh.link;

	if (link->heard_bye)
		ddl__link_fail(link, -ECONNRESET, "it has left");
	if (link->state != DDL__LINK_UP)
		return;
	tx->sizes[tx->sent % tx->mesh.end.lane.slots] = (uint32_t)bytes;
	tx->sent++;
	if (!tx->queued)
		enqueue((struct tcp_link *)link, tx);
	tcp_pump(link);
}

static bool tcp_tx_flushed(const struct ddl__tx *base)
{
	const struct tcp_tx *tx = (const struct tcp_tx *)base;

	return tx->written == tx->sent;
}

static const void *tcp_rx_slot(struct ddl__rx *base, size_t *bytes)
{
	struct tcp_rx *rx = (struct tcp_rx *)base;
	uint32_t slot = (uint32_t)(rx->released % rx->mesh.end.lane.slots);

	if (rx->landed == rx->released)
		return NULL;
	*bytes = rx->sizes[slot];
	return rx->memory + slot * rx->stride;
}

static void tcp_rx_release(struct ddl__rx *base)
{
	struct tcp_rx *rx = (struct tcp_rx *)base;
	struct tcp_link *link = (struct tcp_link *)rx->mesh.link;

	rx->released++;
	rx->owed++;
	if (link->link.state != DDL__LINK_UP)
		return;
	if (!rx->owing) {
		rx->owing = true;
		rx->next = link->owing;
		link->owing = rx;
	}
	tcp_pump(&link->link);
}

static void tcp_close(struct ddl__transport *transport)
{
	if (!transport)
		return;
	ddl__mesh_fini((struct ddl__mesh *)transport);
	free(transport);
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
	.tx_send = tcp_tx_send,
	.tx_flushed = tcp_tx_flushed,
	.rx_slot = tcp_rx_slot,
	.rx_release = tcp_rx_release,
	.abort = ddl__mesh_abort,
	.goodbye = ddl__mesh_goodbye,
	.done = ddl__mesh_done,
	.close = tcp_close,
	.forked = ddl__mesh_forked,
};
