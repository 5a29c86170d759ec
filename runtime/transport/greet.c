/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greet.c - making connections: connecting to a peer, strangers at our listening socket, the handshake of auth.h.
 *
 * The lower rank connects. Where a link replaces a lost one its peer may not know of the loss, so the higher rank connects as well;
 * of two connections that meet, the lower rank's stands.
 *
 * Whoever reaches the port may be anything: a port scanner, a rank of another job, a peer. A stranger costs one of a fixed number
 * of slots, for a few seconds at most; when all are taken the oldest that has said nothing sensible goes, so that those who only
 * hold connections open keep nobody out. A connection that the other end closes before it is up is tried again until the
 * deadline: the other end may have been too busy to answer in time.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "error.h"
#include "mesh.h"

#define RETRY_CONNECT_NS  50000000u  /* between attempts */
#define RETRY_ACCEPT_NS   100000000u /* when no descriptors were left */
#define ACCEPTS_AT_A_TIME 64

/* The connecting side */

static void try_later(struct ddl__link *link, const char *why)
{
	ddl__link_close(link);
	link->state = DDL__LINK_CONNECTING;
	link->why = why;
	link->proved = false;
	link->retry_ns = ddl__mesh_now() + RETRY_CONNECT_NS;
	ddl__mesh_due(link->mesh, link->retry_ns);
}

/* The address that the link goes to, also in words. */
static void target(const struct ddl__link *link, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size)
{
	const struct ddl__mesh_ops *ops = link->mesh->ops;
	const uint8_t *own = link->mesh->peers[link->peer].own;

	ops->target(own + link->rail * ops->rail_size, to, size, words, words_size);
}

static void refused(struct ddl__link *link, int error)
{
	struct sockaddr_storage to;
	socklen_t size;
	char words[96], why[DDL__REASON_SIZE];

	target(link, &to, &size, words, sizeof(words));
	if (error == ECONNREFUSED)
		ddl__link_fail(link, -ECONNREFUSED, "nobody listens at its %s any more", words);
	else
		ddl__link_fail(link, error == ETIMEDOUT ? -ETIMEDOUT : -ECONNREFUSED, "connecting to its %s failed: %s", words,
			       ddl__error_reason(why, sizeof(why), -error));
}

static int send_hello(struct ddl__link *link)
{
	struct ddl__mesh *mesh = link->mesh;
	struct ddl__frame frame = { .type = DDL__FRAME_HELLO, .bytes = sizeof(link->hello) };
	int rc;

	link->hello = (struct ddl__auth_hello){
		.version = DDL__AUTH_VERSION,
		.from = (uint32_t)mesh->rank,
		.to = (uint32_t)link->peer,
		.n_ranks = (uint32_t)mesh->n_ranks,
		.instance = mesh->peers[link->peer].instance,
		.rail = link->rail,
		.channel = link->channel,
	};
	rc = ddl__auth_random(link->hello.nonce, sizeof(link->hello.nonce));
	if (rc == 0)
		rc = ddl__stream_put(link->stream, &frame, &link->hello, NULL, 0);
	if (rc == 0)
		rc = ddl__stream_write(link->stream);
	return rc < 0 ? rc : 0;
}

/* The connection stands. */
static void greet(struct ddl__link *link)
{
	if (!link->mesh->ops->admits(link->stream->fd)) {
		ddl__link_fail(link, -EPROTO, "another user's process listens at its address");
		return;
	}
	link->state = DDL__LINK_GREETING;
	if (send_hello(link) || ddl__mesh_watch(link->mesh, link->stream->fd, &link->source, EPOLLIN, &link->watched))
		try_later(link, "the connection to it breaks at once");
}

void ddl__greet_connect(struct ddl__link *link)
{
	struct ddl__mesh *mesh = link->mesh;
	struct sockaddr_storage to;
	socklen_t size;
	char words[96];
	int fd;

	link->state = DDL__LINK_CONNECTING;
	target(link, &to, &size, words, sizeof(words));
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		refused(link, errno);
		return;
	}
	mesh->ops->tune(fd);
	if (mesh->ops->tie)
		mesh->ops->tie(link, fd, true);
	link->stream = ddl__stream_create(fd, mesh->ops->passes_fds);
	if (!link->stream) {
		close(fd);
		refused(link, ENOMEM);
	} else if (connect(fd, (struct sockaddr *)&to, size) == 0) {
		greet(link);
	} else if (errno == EAGAIN) { /* a unix socket whose queue is full */
		try_later(link, "it does not take connections");
	} else if (errno != EINPROGRESS) {
		refused(link, errno);
	} else if (ddl__mesh_watch(mesh, fd, &link->source, EPOLLOUT, &link->watched)) {
		refused(link, errno);
	}
}

static int on_challenge(struct ddl__link *link, const struct ddl__frame *frame, const void *body)
{
	const char *name = link->mesh->ops->transport->name;
	struct ddl__frame answer = { .type = DDL__FRAME_PROOF, .bytes = sizeof(struct ddl__auth_proof) };
	struct ddl__auth_challenge challenge;
	struct ddl__auth_proof proof;
	int rc;

	if (frame->bytes != sizeof(challenge))
		return ddl__link_bad(link, "it speaks another protocol");
	memcpy(&challenge, body, sizeof(challenge));
	if (!ddl__auth_holds(link->mesh->secret, DDL__AUTH_LISTEN, name, &link->hello, challenge.nonce, challenge.mac)) {
		link->why = "it does not know this job's secret";
		return -EPROTO;
	}
	rc = ddl__auth_prove(link->mesh->secret, DDL__AUTH_CONNECT, name, &link->hello, challenge.nonce, proof.mac);
	if (rc == 0)
		rc = ddl__stream_put(link->stream, &answer, &proof, NULL, 0);
	if (rc == 0)
		rc = ddl__stream_write(link->stream);
	link->proved = true;
	return rc < 0 ? rc : 0;
}

static int greeted_frame(void *context, const struct ddl__frame *frame, const void *body)
{
	struct ddl__link *link = context;

	if (frame->type == DDL__FRAME_CHALLENGE && !link->proved)
		return on_challenge(link, frame, body);
	if (frame->type == DDL__FRAME_WELCOME && link->proved && frame->bytes == 0)
		return 1;
	return ddl__link_bad(link, "it speaks another protocol");
}

static int no_data(void *context, const struct ddl__frame *frame, void **to)
{
	return -EBADMSG;
}

static const struct ddl__frame_sink greeting_sink = { .data = no_data, .frame = greeted_frame };

static void greeting_ready(struct ddl__link *link)
{
	int rc = ddl__stream_read(link->stream, &greeting_sink, link);

	if (rc == 0)
		return;
	if (rc == 1) {
		link->why = NULL;
		rc = ddl__link_up(link);
		if (rc)
			ddl__link_broken(link, rc);
		else if (link->state == DDL__LINK_UP)
			ddl__link_read(link);
	} else if (rc == -EBADMSG || rc == -EPROTO) {
		ddl__link_fail(link, rc, "%s", link->why ? link->why : "it speaks another protocol");
	} else {
		try_later(link, "it closes new connections (is it busy, or of another version or job?)");
	}
}

void ddl__greet_ready(struct ddl__link *link)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(int);
	int error = 0;

	if (link->state == DDL__LINK_GREETING) {
		greeting_ready(link);
		return;
	}
	if (!link->stream)
		return;
	getsockopt(link->stream->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	size = sizeof(peer);
	if (error)
		refused(link, error);
	else if (getpeername(link->stream->fd, (struct sockaddr *)&peer, &size) == 0)
		greet(link);
}

/* The listening side */

void ddl__greet_listen(struct ddl__mesh *mesh, bool on)
{
	for (unsigned i = 0; i < mesh->n_rails; i++) {
		struct ddl__listener *each = &mesh->listeners[i];

		ddl__mesh_watch(mesh, each->fd, &each->source, on ? EPOLLIN : 0, &each->watched);
	}
}

static void leave_slot(struct ddl__stranger *stranger)
{
	struct ddl__mesh *mesh = stranger->mesh;

	stranger->stream = NULL;
	mesh->n_strangers--;
	if (!mesh->listen_again_ns)
		ddl__greet_listen(mesh, true);
}

/* Tells of the first stranger: who may come at any rate, such as a port scanner, must not fill a log. */
static void tell_stranger(const struct ddl__stranger *stranger, const char *why)
{
	struct ddl__mesh *mesh = stranger->mesh;
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	socklen_t size = sizeof(from);
	char host[INET6_ADDRSTRLEN] = "", text[192];

	if (mesh->stranger_told || !mesh->events->stranger)
		return;
	mesh->stranger_told = true;
	getpeername(stranger->stream->fd, (struct sockaddr *)&from, &size);
	if (from.ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)&from)->sin_addr, host, sizeof(host));
	else if (from.ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)&from)->sin6_addr, host, sizeof(host));
	snprintf(text, sizeof(text), "a connection over %s from %s that is no rank's was closed: %s", mesh->ops->transport->name,
		 *host ? host : "this machine", why);
	mesh->events->stranger(mesh->context, text);
}

/* why: what is wrong with it; NULL: nothing. */
static void send_away(struct ddl__stranger *stranger, const char *why)
{
	struct ddl__mesh *mesh = stranger->mesh;

	if (why)
		tell_stranger(stranger, why);
	ddl__mesh_watch(mesh, stranger->stream->fd, &stranger->source, 0, &stranger->watched);
	ddl__stream_destroy(stranger->stream);
	mesh->n_dropped++;
	leave_slot(stranger);
}

/* A HELLO that may be a peer's: for us, from a rank that we know. */
static bool plausible(const struct ddl__mesh *mesh, const struct ddl__auth_hello *hello)
{
	return hello->version == DDL__AUTH_VERSION && hello->to == (uint32_t)mesh->rank && hello->from != hello->to &&
	       hello->n_ranks == (uint32_t)mesh->n_ranks && hello->instance == mesh->instance &&
	       ddl__mesh_reaches(&mesh->base, (int)hello->from) && hello->rail < mesh->peers[hello->from].rails &&
	       hello->channel < mesh->n_paths / mesh->n_rails;
}

static int on_hello(struct ddl__stranger *stranger, const struct ddl__frame *frame, const void *body)
{
	struct ddl__mesh *mesh = stranger->mesh;
	struct ddl__frame answer = { .type = DDL__FRAME_CHALLENGE, .bytes = sizeof(struct ddl__auth_challenge) };
	struct ddl__auth_challenge challenge;
	int rc;

	if (frame->bytes != sizeof(stranger->hello))
		return -EBADMSG;
	memcpy(&stranger->hello, body, sizeof(stranger->hello));
	if (!plausible(mesh, &stranger->hello))
		return -EBADMSG;
	rc = ddl__auth_random(stranger->nonce, sizeof(stranger->nonce));
	if (rc)
		return rc;
	memcpy(challenge.nonce, stranger->nonce, sizeof(challenge.nonce));
	rc = ddl__auth_prove(mesh->secret, DDL__AUTH_LISTEN, mesh->ops->transport->name, &stranger->hello, stranger->nonce,
			     challenge.mac);
	if (rc == 0)
		rc = ddl__stream_put(stranger->stream, &answer, &challenge, NULL, 0);
	if (rc == 0)
		rc = ddl__stream_write(stranger->stream);
	stranger->greeted = true;
	return rc ? -EPIPE : 0; /* so few bytes always fit, or something is wrong with it */
}

static int stranger_frame(void *context, const struct ddl__frame *frame, const void *body)
{
	struct ddl__stranger *stranger = context;
	struct ddl__mesh *mesh = stranger->mesh;
	struct ddl__auth_proof proof;

	if (frame->type == DDL__FRAME_HELLO && !stranger->greeted)
		return on_hello(stranger, frame, body);
	if (frame->type != DDL__FRAME_PROOF || !stranger->greeted || frame->bytes != sizeof(proof))
		return -EBADMSG;
	memcpy(&proof, body, sizeof(proof));
	if (!ddl__auth_holds(mesh->secret, DDL__AUTH_CONNECT, mesh->ops->transport->name, &stranger->hello, stranger->nonce,
			     proof.mac))
		return -EPROTO;
	return 1;
}

static const struct ddl__frame_sink stranger_sink = { .data = no_data, .frame = stranger_frame };

/* Whether a connection that the peer has made can be the link's. */
static bool has_use(const struct ddl__link *link)
{
	const bool connects = link->state == DDL__LINK_CONNECTING || link->state == DDL__LINK_GREETING;

	return link->state == DDL__LINK_IDLE || link->state == DDL__LINK_WAITING || (connects && link->peer < link->mesh->rank);
}

/* The stranger is a peer: its stream becomes the link's. */
static void adopt(struct ddl__stranger *stranger)
{
	static const struct ddl__frame welcome = { .type = DDL__FRAME_WELCOME };
	struct ddl__mesh *mesh = stranger->mesh;
	struct ddl__link *link = ddl__mesh_link(mesh, (int)stranger->hello.from, stranger->hello.rail, stranger->hello.channel);
	int rc;

	if (!link || !has_use(link)) {
		send_away(stranger, NULL);
		return;
	}
	ddl__link_close(link); /* our own attempt, if there is one */
	link->why = NULL;
	ddl__mesh_watch(mesh, stranger->stream->fd, &stranger->source, 0, &stranger->watched);
	link->stream = stranger->stream;
	leave_slot(stranger);
	if (mesh->ops->tie)
		mesh->ops->tie(link, link->stream->fd, false);
	rc = ddl__mesh_watch(mesh, link->stream->fd, &link->source, EPOLLIN, &link->watched);
	if (rc == 0)
		rc = ddl__stream_put(link->stream, &welcome, NULL, NULL, 0);
	if (rc == 0)
		rc = ddl__link_up(link);
	if (rc)
		ddl__link_broken(link, rc);
	else if (link->state == DDL__LINK_UP)
		ddl__link_read(link);
}

static void hear(struct ddl__stranger *stranger)
{
	int rc = ddl__stream_read(stranger->stream, &stranger_sink, stranger);

	if (rc == 1)
		adopt(stranger);
	else if (rc < 0)
		send_away(stranger, rc == -EPROTO    ? "it does not know this job's secret"
				    : rc == -EBADMSG ? "it speaks another protocol, or means another job"
						     : "it ended before it had proved itself");
}

static void stranger_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct ddl__stranger *stranger = (struct ddl__stranger *)source;

	ddl__mesh_enter(stranger->mesh);
	if (stranger->stream)
		hear(stranger);
	ddl__mesh_leave(stranger->mesh);
}

static void take_in(struct ddl__mesh *mesh, int fd)
{
	struct ddl__stranger *stranger = mesh->strangers;

	while (stranger->stream)
		stranger++;
	*stranger = (struct ddl__stranger){
		.source.ready = stranger_ready,
		.mesh = mesh,
		.deadline_ns = ddl__mesh_now() + mesh->stranger_ms * 1000000ull,
	};
	mesh->ops->tune(fd);
	if (mesh->ops->admits(fd))
		stranger->stream = ddl__stream_create(fd, mesh->ops->passes_fds);
	if (!stranger->stream) {
		close(fd);
		mesh->n_dropped++;
		return;
	}
	mesh->n_strangers++;
	ddl__mesh_due(mesh, stranger->deadline_ns);
	if (ddl__mesh_watch(mesh, fd, &stranger->source, EPOLLIN, &stranger->watched))
		send_away(stranger, NULL);
}

/* Makes sure that a slot is free: false when all are taken by strangers that may well be peers. */
static bool have_slot(struct ddl__mesh *mesh)
{
	struct ddl__stranger *oldest = NULL;

	if (mesh->n_strangers < DDL__MESH_STRANGERS)
		return true;
	for (size_t i = 0; i < DDL__MESH_STRANGERS; i++) {
		struct ddl__stranger *each = &mesh->strangers[i];

		if (!each->greeted && (!oldest || each->deadline_ns < oldest->deadline_ns))
			oldest = each;
	}
	if (!oldest)
		return false;
	hear(oldest);
	if (oldest->stream && !oldest->greeted)
		send_away(oldest, "it said nothing, and there were many");
	return mesh->n_strangers < DDL__MESH_STRANGERS;
}

void ddl__greet_accept(struct ddl__listener *listener)
{
	struct ddl__mesh *mesh = listener->mesh;

	for (int i = 0; i < ACCEPTS_AT_A_TIME; i++) {
		int fd;

		if (!have_slot(mesh)) {
			ddl__greet_listen(mesh, false);
			return;
		}
		fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take_in(mesh, fd);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			mesh->listen_again_ns = ddl__mesh_now() + RETRY_ACCEPT_NS;
			ddl__mesh_due(mesh, mesh->listen_again_ns);
			ddl__greet_listen(mesh, false);
			return;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return;
		}
	}
}

void ddl__greet_strangers(struct ddl__mesh *mesh)
{
	uint64_t now = ddl__mesh_now();

	if (mesh->listen_again_ns && mesh->listen_again_ns <= now) {
		mesh->listen_again_ns = 0;
		ddl__greet_listen(mesh, true);
	}
	ddl__mesh_due(mesh, mesh->listen_again_ns);
	for (size_t i = 0; i < DDL__MESH_STRANGERS; i++) {
		struct ddl__stranger *stranger = &mesh->strangers[i];

		if (!stranger->stream)
			continue;
		if (stranger->deadline_ns > now) {
			ddl__mesh_due(mesh, stranger->deadline_ns);
			continue;
		}
		hear(stranger); /* the answer may be there, and we are late */
		if (stranger->stream)
			send_away(stranger, "it did not prove itself in time");
	}
}

void ddl__greet_close(struct ddl__mesh *mesh)
{
	for (size_t i = 0; i < DDL__MESH_STRANGERS; i++)
		if (mesh->strangers[i].stream)
			send_away(&mesh->strangers[i], NULL);
}
