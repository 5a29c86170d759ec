/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - see mesh.h: opening and closing, the timer, links that are up, lost or left. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "mesh.h"

#define RETRY_WRITE_NS 10000000u /* the kernel was short of something: write again after that */

_Static_assert(sizeof(struct ddl__mesh_address) == 16, "the head of an address has no padding");

/* Time and epoll */

uint64_t ddl__mesh_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ddl__mesh_due(struct ddl__mesh *mesh, uint64_t ns)
{
	struct itimerspec when = { .it_value = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) } };

	if (ns == 0 || (mesh->timer_ns && mesh->timer_ns <= ns))
		return;
	mesh->timer_ns = ns;
	timerfd_settime(mesh->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

int ddl__mesh_watch(struct ddl__mesh *mesh, int fd, struct ddl__poll_source *source, uint32_t events, uint32_t *watched)
{
	struct epoll_event event = { .events = events, .data.ptr = source };
	int op = !*watched ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (events == *watched)
		return 0;
	if (epoll_ctl(mesh->epoll_fd, op, fd, &event))
		return -errno;
	*watched = events;
	return 0;
}

/* Telling the engine */

void ddl__mesh_enter(struct ddl__mesh *mesh)
{
	mesh->telling = true;
}

void ddl__mesh_leave(struct ddl__mesh *mesh)
{
	for (size_t i = 0; mesh->untold && i < mesh->n_links; i++) {
		struct ddl__link *link = mesh->links[i];

		if (!link || link->state != DDL__LINK_DOWN || link->told)
			continue;
		link->told = true;
		mesh->untold--;
		if (mesh->peers[link->peer].lost)
			continue;
		mesh->peers[link->peer].lost = true;
		mesh->events->lost(mesh->context, link->peer, link->code, link->detail);
	}
	mesh->telling = false;
}

/* Links */

static void link_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct ddl__link *link = (struct ddl__link *)source;

	ddl__mesh_enter(link->mesh);
	if (link->state == DDL__LINK_CONNECTING || link->state == DDL__LINK_GREETING)
		ddl__greet_ready(link);
	else if (link->state == DDL__LINK_UP && events & ~(uint32_t)EPOLLOUT)
		ddl__link_read(link);
	else if (link->state == DDL__LINK_UP)
		link->mesh->ops->pump(link);
	ddl__mesh_leave(link->mesh);
}

static struct ddl__link **links_of(const struct ddl__mesh *mesh, int peer)
{
	return &mesh->links[(size_t)peer * mesh->n_paths];
}

struct ddl__link *ddl__mesh_link(struct ddl__mesh *mesh, int peer, unsigned rail, unsigned channel)
{
	struct ddl__link **at = &links_of(mesh, peer)[channel * mesh->n_rails + rail], *link = *at;

	if (link)
		return link;
	link = calloc(1, mesh->ops->link_size);
	if (!link)
		return NULL;
	link->source.ready = link_ready;
	link->mesh = mesh;
	link->peer = peer;
	link->rail = rail;
	link->channel = channel;
	*at = link;
	return link;
}

void ddl__link_close(struct ddl__link *link)
{
	if (!link->stream)
		return;
	ddl__mesh_watch(link->mesh, link->stream->fd, &link->source, 0, &link->watched);
	ddl__stream_destroy(link->stream);
	link->stream = NULL;
	if (link->state == DDL__LINK_UP)
		link->mesh->ops->down(link);
}

void ddl__link_fail(struct ddl__link *link, int code, const char *fmt, ...)
{
	struct ddl__mesh *mesh = link->mesh;
	va_list args;
	int used;
	const bool was_up = link->state == DDL__LINK_UP;
	bool moves = code != -EBADMSG && code != -EMFILE && mesh->ops->movable && mesh->ops->movable(link);

	if (link->state == DDL__LINK_DOWN)
		return;
	va_start(args, fmt);
	used = vsnprintf(link->detail, sizeof(link->detail), fmt, args);
	va_end(args);
	if (mesh->n_rails > 1 && used >= 0 && used < (int)sizeof(link->detail))
		snprintf(link->detail + used, sizeof(link->detail) - (size_t)used, " (rail %u%s%s)", link->rail,
			 *mesh->rail_name[link->rail] ? ", " : "", mesh->rail_name[link->rail]);
	ddl__link_close(link);
	link->state = DDL__LINK_DOWN;
	link->code = code;
	link->told = moves && ddl__link_move(link, was_up);
	if (link->told)
		return;
	mesh->untold++;
	if (!mesh->telling)
		ddl__mesh_due(mesh, 1);
}

/* Whether all is here that the peer sent before its goodbye. */
static bool has_parted(struct ddl__link *link)
{
	return !link->mesh->ops->parted || link->mesh->ops->parted(link);
}

/* Its goodbye came over this link: it has left when it came over all that are up, and all that was sent before. */
static void on_bye(struct ddl__link *link)
{
	struct ddl__mesh *mesh = link->mesh;
	struct ddl__link *const *links = links_of(mesh, link->peer);

	for (unsigned i = 0; i < mesh->n_paths; i++)
		if (links[i] && links[i]->state == DDL__LINK_UP && !(links[i]->heard_bye && has_parted(links[i])))
			return;
	if (!mesh->peers[link->peer].left)
		mesh->events->left(mesh->context, link->peer);
	mesh->peers[link->peer].left = true;
}

int ddl__link_bad(struct ddl__link *link, const char *why)
{
	link->why = why;
	return -EBADMSG;
}

void ddl__link_broken(struct ddl__link *link, int rc)
{
	char why[DDL__REASON_SIZE];

	if (link->heard_bye && rc != -EBADMSG) {
		if (link->mesh->ops->unsent(link)) {
			ddl__link_fail(link, -ECONNRESET, "it has left");
		} else {
			ddl__link_close(link);
			link->state = DDL__LINK_LEFT;
			on_bye(link); /* what it sent before and is not here never comes */
		}
		return;
	}
	if (link->write_error == -ETIMEDOUT)
		rc = -ETIMEDOUT;
	switch (rc) {
	case -EBADMSG:
		ddl__link_fail(link, rc, "%s", link->why ? link->why : "it sent bytes that are no frame of this protocol");
		break;
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		link->silent = true;
		ddl__link_fail(link, -ECONNRESET, "it or the network to it has not answered for a long time");
		break;
	case -EMFILE:
		ddl__link_fail(link, rc, "the files that it sends cannot be taken: %s", ddl__error_reason(why, sizeof(why), rc));
		break;
	case -ECONNRESET:
	case -EPIPE:
		ddl__link_fail(link, -ECONNRESET, "it closed the connection without a goodbye");
		break;
	case -EHOSTDOWN: /* no socket's: a transport that has something beside it */
		ddl__link_fail(link, -EHOSTUNREACH, "%s", link->why);
		break;
	default:
		ddl__link_fail(link, -ECONNRESET, "the connection to it broke: %s", strerror(-rc));
	}
}

static int on_abort(struct ddl__link *link, const struct ddl__frame *frame, const void *body)
{
	struct ddl__mesh *mesh = link->mesh;
	char text[DDL_ERROR_TEXT_SIZE];
	int code = (int)frame->count;

	ddl__error_word(text, sizeof(text), body, frame->bytes);
	mesh->events->aborted(mesh->context, link->peer, code < 0 ? code : -ECANCELED, text);
	return 0;
}

static int on_frame(void *context, const struct ddl__frame *frame, const void *body)
{
	struct ddl__link *link = context;

	if (link->heard_bye)
		return ddl__link_bad(link, "it went on after its goodbye");
	switch (frame->type) {
	case DDL__FRAME_ANNOUNCE:
		return ddl__lanes_announced(link, frame, body);
	case DDL__FRAME_WITHDRAW:
		ddl__lanes_withdrawn(link, frame);
		return 0;
	case DDL__FRAME_ABORT:
		return on_abort(link, frame, body);
	case DDL__FRAME_BYE:
		link->heard_bye = true;
		link->parting = frame->count;
		on_bye(link);
		return 0;
	case DDL__FRAME_LOST:
		return ddl__link_told_lost(link, frame);
	case DDL__FRAME_DATA:
	case DDL__FRAME_CREDIT:
	case DDL__FRAME_DOORBELL:
	case DDL__FRAME_WINDOW:
	case DDL__FRAME_MAPPED:
	case DDL__FRAME_HIDE:
	case DDL__FRAME_PAIR:
	case DDL__FRAME_READY:
	case DDL__FRAME_FREED:
	case DDL__FRAME_FAULT:
		return link->mesh->ops->frame(link, frame, body);
	default:
		return ddl__link_bad(link, "it began the handshake anew");
	}
}

static int on_data(void *context, const struct ddl__frame *frame, void **to)
{
	struct ddl__link *link = context;

	if (link->heard_bye)
		return ddl__link_bad(link, "it went on after its goodbye");
	return link->mesh->ops->data(link, frame, to);
}

const struct ddl__frame_sink ddl__link_sink = { .data = on_data, .frame = on_frame };

void ddl__link_read(struct ddl__link *link)
{
	int rc = ddl__stream_read(link->stream, &ddl__link_sink, link);

	if (rc < 0)
		ddl__link_broken(link, rc);
	else
		link->mesh->ops->pump(link);
}

int ddl__link_write(struct ddl__link *link)
{
	int rc = link->mute || link->retry_ns ? 1 : ddl__stream_write(link->stream);

	if (rc >= 0)
		return rc;
	if (rc == -ETOOMANYREFS || rc == -ENOBUFS || rc == -ENOMEM) {
		link->retry_ns = ddl__mesh_now() + RETRY_WRITE_NS;
		ddl__mesh_due(link->mesh, link->retry_ns);
	} else {
		link->mute = true; /* what the peer sent before may still be there: the reading side finds the end */
		link->write_error = rc;
	}
	return 1;
}

static int say_bye(struct ddl__link *link)
{
	const struct ddl__mesh_ops *ops = link->mesh->ops;
	const struct ddl__frame bye = { .type = DDL__FRAME_BYE, .count = ops->parting ? ops->parting(link) : 0 };

	return ddl__stream_put(link->stream, &bye, NULL, NULL, 0);
}

void ddl__link_settle(struct ddl__link *link)
{
	bool room;

	if (link->mesh->leaving && !link->said_bye && !link->mute && !link->mesh->ops->unsent(link) && say_bye(link) == 0) {
		link->said_bye = true;
		ddl__link_write(link);
	}
	if (link->said_bye && link->heard_bye && (link->mute || ddl__stream_idle(link->stream)) && has_parted(link)) {
		ddl__link_close(link);
		link->state = DDL__LINK_LEFT;
		return;
	}
	room = !ddl__stream_idle(link->stream) && !link->mute && !link->retry_ns;
	ddl__mesh_watch(link->mesh, link->stream->fd, &link->source, room ? EPOLLIN | EPOLLOUT : EPOLLIN, &link->watched);
}

/* The timer */

static void link_late(struct ddl__link *link)
{
	int ms = link->limit_ms ? link->limit_ms : link->mesh->timeout_ms;

	if (link->state == DDL__LINK_WAITING)
		ddl__link_fail(link, -ETIMEDOUT, "it did not connect within %d ms", ms);
	else if (link->why)
		ddl__link_fail(link, -ETIMEDOUT, "%s, for %d ms", link->why, ms);
	else if (link->state == DDL__LINK_CONNECTING)
		ddl__link_fail(link, -ETIMEDOUT, "connecting to it took longer than %d ms", ms);
	else
		ddl__link_fail(link, -ETIMEDOUT, "it took the connection but did not answer within %d ms", ms);
}

static bool in_set_up(const struct ddl__link *link)
{
	return link->state >= DDL__LINK_WAITING && link->state <= DDL__LINK_GREETING;
}

static void link_timer(struct ddl__link *link, uint64_t now)
{
	if (link->retry_ns && link->retry_ns <= now) {
		link->retry_ns = 0;
		if (link->state == DDL__LINK_UP)
			link->mesh->ops->pump(link);
		else if (link->state == DDL__LINK_CONNECTING)
			ddl__greet_connect(link);
	}
	if (link->state == DDL__LINK_UP && link->heard_bye && has_parted(link)) {
		on_bye(link);
		link->mesh->ops->pump(link);
	}
	if (in_set_up(link) && link->deadline_ns <= now) {
		if (link->stream)
			ddl__greet_ready(link); /* the answer may be there, and we are late */
		if (in_set_up(link))
			link_late(link);
	}
	ddl__mesh_due(link->mesh, link->retry_ns);
	if (in_set_up(link))
		ddl__mesh_due(link->mesh, link->deadline_ns);
}

static void timer_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)((char *)source - offsetof(struct ddl__mesh, timer));
	uint64_t now = ddl__mesh_now();
	uint64_t ticks;

	ddl__mesh_enter(mesh);
	if (read(mesh->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks)) {
		mesh->timer_ns = 0;
		ddl__greet_strangers(mesh);
		for (size_t i = 0; i < mesh->n_links; i++)
			if (mesh->links[i])
				link_timer(mesh->links[i], now);
	}
	ddl__mesh_leave(mesh);
}

static void listener_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct ddl__listener *listener = (struct ddl__listener *)source;

	ddl__mesh_enter(listener->mesh);
	ddl__greet_accept(listener);
	ddl__mesh_leave(listener->mesh);
}

/* Opening and closing */

static int init_memory(struct ddl__mesh *mesh, const struct ddl__transport_config *config)
{
	mesh->n_paths = mesh->n_rails * (mesh->ops->channels ? mesh->ops->channels : 1);
	mesh->n_links = (size_t)config->n_ranks * mesh->n_paths;
	mesh->links = calloc(mesh->n_links, sizeof(*mesh->links));
	mesh->peers = calloc((unsigned int)config->n_ranks, sizeof(*mesh->peers));
	mesh->strangers = calloc(DDL__MESH_STRANGERS, sizeof(*mesh->strangers));
	mesh->machine = strdup(config->machine ? config->machine : "");
	return mesh->links && mesh->peers && mesh->strangers && mesh->machine ? 0 : -ENOMEM;
}

static int init_timer(struct ddl__mesh *mesh, struct ddl_error *err)
{
	char why[DDL__REASON_SIZE];
	uint32_t watched = 0;
	int rc;

	mesh->timer.ready = timer_ready;
	mesh->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	rc = mesh->timer_fd < 0 ? -errno : ddl__mesh_watch(mesh, mesh->timer_fd, &mesh->timer, EPOLLIN, &watched);
	return rc ? ddl__error_set(err, rc, "%s: no timer: %s", mesh->ops->transport->name, ddl__error_reason(why, sizeof(why), rc))
		  : 0;
}

static int init_address(struct ddl__mesh *mesh, const struct ddl__transport_config *config, struct ddl_error *err)
{
	struct ddl__mesh_address head = { .magic = mesh->ops->magic, .rank = (uint32_t)mesh->rank };
	size_t own = sizeof(mesh->address) - sizeof(head);
	int fds[DDL__RAILS_MAX] = { -1, -1, -1, -1, -1, -1, -1, -1 };
	int rc = ddl__auth_random(&mesh->instance, sizeof(mesh->instance));

	if (rc)
		return ddl__error_set(err, rc, "%s: no random numbers: %s.", mesh->ops->transport->name, strerror(-rc));
	head.instance = mesh->instance;
	memcpy(mesh->address, &head, sizeof(head));
	rc = mesh->ops->listen(mesh, config, fds, mesh->address + sizeof(head), &own, err);
	if (rc)
		return rc;
	mesh->address_size = sizeof(head) + own;
	while (mesh->n_rails < DDL__RAILS_MAX && fds[mesh->n_rails] >= 0) {
		mesh->listeners[mesh->n_rails].fd = fds[mesh->n_rails];
		mesh->n_rails++;
	}
	return 0;
}

int ddl__mesh_init(struct ddl__mesh *mesh, const struct ddl__mesh_ops *ops, const struct ddl__transport_config *config,
		   struct ddl_error *err)
{
	int rc;

	mesh->base.ops = ops->transport;
	mesh->ops = ops;
	mesh->rank = config->rank;
	mesh->n_ranks = config->n_ranks;
	mesh->epoll_fd = config->epoll_fd;
	mesh->timeout_ms = config->timeout_ms;
	mesh->events = config->events;
	mesh->context = config->context;
	for (int i = 0; i < (int)DDL__RAILS_MAX; i++)
		mesh->listeners[i] = (struct ddl__listener){ { listener_ready }, mesh, -1, 0 };
	mesh->stranger_ms = DDL__MESH_STRANGER_MS;
	mesh->timer_fd = -1;
	rc = init_timer(mesh, err);
	if (rc == 0)
		rc = init_address(mesh, config, err);
	if (rc == 0 && init_memory(mesh, config))
		rc = ddl__error_memory(err);
	if (rc)
		ddl__mesh_fini(mesh);
	return rc;
}

void ddl__mesh_fini(struct ddl__mesh *mesh)
{
	uint32_t watched = EPOLLIN;

	for (size_t i = 0; mesh->links && i < mesh->n_links; i++) {
		if (!mesh->links[i])
			continue;
		ddl__link_close(mesh->links[i]);
		ddl__lanes_fini(mesh->links[i]);
		free(mesh->links[i]);
	}
	if (mesh->strangers)
		ddl__greet_close(mesh);
	ddl__greet_listen(mesh, false);
	for (unsigned i = 0; i < mesh->n_rails; i++)
		close(mesh->listeners[i].fd);
	if (mesh->timer_fd >= 0) {
		ddl__mesh_watch(mesh, mesh->timer_fd, &mesh->timer, 0, &watched);
		close(mesh->timer_fd);
	}
	explicit_bzero(mesh->secret, sizeof(mesh->secret));
	free(mesh->links);
	free(mesh->strangers);
	free(mesh->machine);
	free(mesh->addresses);
	free(mesh->peers);
}

int ddl__mesh_address(struct ddl__transport *transport, void *buffer, size_t *size)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;

	memcpy(buffer, mesh->address, mesh->address_size);
	*size = mesh->address_size;
	return 0;
}

/* Copies one peer's address to *copy, past which it moves. */
static int attach_peer(struct ddl__mesh *mesh, int rank, const struct ddl__peer *peer, uint8_t **copy, struct ddl_error *err)
{
	struct ddl__mesh_address head;
	uint8_t *own;
	size_t size;
	bool here;

	if (!peer->address || rank == mesh->rank)
		return 0;
	memset(&head, 0, sizeof(head));
	if (peer->size >= sizeof(head) && peer->size <= DDL__ADDRESS_MAX)
		memcpy(&head, peer->address, sizeof(head));
	if (head.magic != mesh->ops->magic || head.rank != (uint32_t)rank)
		return ddl__error_set(err, -EBADMSG,
				      "The %s address that rank %d published is malformed; all ranks need the same version of DDL.",
				      mesh->ops->transport->name, rank);
	own = *copy;
	here = !peer->machine || !*peer->machine || strcmp(peer->machine, mesh->machine) == 0;
	size = peer->size - sizeof(head);
	memcpy(own, (const uint8_t *)peer->address + sizeof(head), size);
	*copy += size;
	if (mesh->ops->reaches(mesh, own, size, peer->machine ? peer->machine : ""))
		mesh->peers[rank] = (struct ddl__mesh_peer){
			.own = own,
			.size = size,
			.instance = head.instance,
			.rails = mesh->ops->rails ? mesh->ops->rails(mesh, own, size, here) : 1,
			.here = here,
		};
	return 0;
}

int ddl__mesh_attach(struct ddl__transport *transport, const struct ddl__peer *peers, const uint8_t *secret, struct ddl_error *err)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;
	size_t size = 1;
	uint8_t *copy;

	for (int i = 0; i < mesh->n_ranks; i++)
		size += peers[i].address ? peers[i].size : 0;
	memcpy(mesh->secret, secret, sizeof(mesh->secret));
	mesh->addresses = copy = malloc(size);
	if (!mesh->addresses)
		return ddl__error_memory(err);
	for (int i = 0; i < mesh->n_ranks; i++) {
		int rc = attach_peer(mesh, i, &peers[i], &copy, err);

		if (rc)
			return rc;
	}
	ddl__greet_listen(mesh, true);
	return 0;
}

bool ddl__mesh_reaches(const struct ddl__transport *transport, int peer)
{
	const struct ddl__mesh *mesh = (const struct ddl__mesh *)transport;

	return peer >= 0 && peer < mesh->n_ranks && mesh->peers[peer].own;
}

int ddl__link_abort(struct ddl__link *link)
{
	const struct ddl__mesh *mesh = link->mesh;
	const struct ddl__frame frame = {
		.type = DDL__FRAME_ABORT,
		.bytes = (uint32_t)strlen(mesh->abort_text),
		.count = (uint32_t)mesh->abort_code,
	};

	return ddl__stream_put(link->stream, &frame, mesh->abort_text, NULL, 0);
}

void ddl__mesh_abort(struct ddl__transport *transport, int code, const char *text)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;

	mesh->abort_code = code;
	snprintf(mesh->abort_text, sizeof(mesh->abort_text), "%s", text);
	for (size_t i = 0; i < mesh->n_links; i++) {
		struct ddl__link *link = mesh->links[i];

		if (link && link->state == DDL__LINK_UP && !link->said_bye && !link->mute && ddl__link_abort(link) == 0)
			mesh->ops->pump(link);
	}
}

void ddl__mesh_goodbye(struct ddl__transport *transport)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;

	mesh->leaving = true;
	for (size_t i = 0; i < mesh->n_links; i++) {
		struct ddl__link *link = mesh->links[i];

		if (link && link->state == DDL__LINK_UP) {
			mesh->ops->pump(link);
		} else if (link && in_set_up(link)) {
			if (link->proved && link->stream && say_bye(link) == 0) /* the peer may take it as up already */
				ddl__stream_write(link->stream);
			ddl__link_close(link);
			link->state = DDL__LINK_LEFT;
		}
	}
}

bool ddl__mesh_done(const struct ddl__transport *transport)
{
	const struct ddl__mesh *mesh = (const struct ddl__mesh *)transport;

	for (size_t i = 0; i < mesh->n_links; i++) {
		const struct ddl__link *link = mesh->links[i];

		if (!link)
			continue;
		if (mesh->abort_code
			    ? in_set_up(link) || (link->state == DDL__LINK_UP && !link->mute && !ddl__stream_idle(link->stream))
			    : link->state == DDL__LINK_UP)
			return false;
	}
	return true;
}

void ddl__mesh_forked(struct ddl__transport *transport)
{
	const struct ddl__mesh *mesh = (const struct ddl__mesh *)transport;

	for (size_t i = 0; i < mesh->n_links; i++)
		if (mesh->links[i] && mesh->links[i]->stream)
			close(mesh->links[i]->stream->fd);
	for (size_t i = 0; i < DDL__MESH_STRANGERS; i++)
		if (mesh->strangers[i].stream)
			close(mesh->strangers[i].stream->fd);
	for (unsigned i = 0; i < mesh->n_rails; i++)
		close(mesh->listeners[i].fd);
	close(mesh->timer_fd);
}

uint64_t ddl__mesh_dropped(const struct ddl__transport *transport)
{
	return ((const struct ddl__mesh *)transport)->n_dropped;
}
