/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_net.c - see tcp_net.h.
 *
 * Each rail has a listening socket of its own. Rail i of one rank is joined to rail i of another as far as both go; both see from
 * the addresses alone how far. A connection is tied to its rail's interface where the kernel permits that, else by its source
 * address, which is enough where rails are different subnets. Between ranks of one machine packets take the loopback whatever
 * address they go to, so there the device is not asked for. Nor is anything gained by pacing there: where the system's way of
 * congestion control paces (bbr), its timers took a third to half of the time (64 MiB, two ranks: 29 and 21 ms; four: 83 and 46).
 */
#include "tcp_net.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

#define BACKLOG         4096
#define KEEPALIVE_S     10     /* idle before the first probe; then a probe every 5 s, 4 of them */
#define USER_TIMEOUT_MS 30000  /* unacknowledged for so long: the cable is pulled */
#define UNSENT_BYTES    131072 /* that the kernel takes ahead of what it may send: more could not be overtaken */
#define UNPACED         "reno" /* every kernel has it for everybody */

_Static_assert(sizeof(struct ddl__tcp_address) == 20, "the address has no padding");

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

static int own_address(int fd, struct ddl__tcp_address *own)
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

int ddl__tcp_listen_at(const char *text, int *fd, struct ddl__tcp_address *own)
{
	int rc = listen_at(text, fd);

	if (rc == 0) {
		rc = own_address(*fd, own);
		if (rc)
			close(*fd);
	}
	return rc;
}

int ddl__tcp_listen(struct ddl__mesh *mesh, const struct ddl__transport_config *config, int *fds, void *own, size_t *size,
		    struct ddl_error *err)
{
	struct ddl__tcp_address rails[DDL__RAILS_MAX];
	char why[DDL__REASON_SIZE];
	size_t n = 0;
	int rc = -ENOENT;

	if (config->n_addresses == 0)
		return ddl__error_set(err, rc, "tcp: this node has no address to listen at; name its interface.");
	for (size_t i = 0; i < config->n_addresses && n < DDL__RAILS_MAX; i++) {
		int failed = ddl__tcp_listen_at(config->addresses[i], &fds[n], &rails[n]);

		if (failed) {
			rc = failed;
			fds[n] = -1;
			continue;
		}
		if (config->interfaces)
			snprintf(mesh->rail_name[n], sizeof(mesh->rail_name[n]), "%s", config->interfaces[i]);
		n++;
	}
	if (n == 0)
		return ddl__error_set(err, rc, "tcp: cannot listen at %s%s: %s", config->addresses[0],
				      config->n_addresses > 1 ? " nor at the other addresses" : "",
				      ddl__error_reason(why, sizeof(why), rc));
	*size = n * sizeof(rails[0]);
	memcpy(own, rails, *size);
	return 0;
}

static bool is_loopback(const struct ddl__tcp_address *address)
{
	return address->family == 6 ? IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)address->host) : address->host[0] == 127;
}

static const struct ddl__tcp_address *ours(const struct ddl__mesh *mesh)
{
	return (const struct ddl__tcp_address *)(mesh->address + sizeof(struct ddl__mesh_address));
}

/* A loopback address is another's on another machine: there, it would be taken for one of ours that is not listening. */
bool ddl__tcp_joins(const struct ddl__tcp_address *a, const struct ddl__tcp_address *b, bool apart)
{
	return a->family == b->family && !(apart && (is_loopback(a) || is_loopback(b)));
}

bool ddl__tcp_reaches(const struct ddl__mesh *mesh, const void *own, size_t size, const char *machine)
{
	struct ddl__tcp_address theirs;

	if (size < sizeof(theirs) || size % sizeof(theirs) || size > DDL__RAILS_MAX * sizeof(theirs))
		return false;
	memcpy(&theirs, own, sizeof(theirs));
	return ddl__tcp_joins(&theirs, ours(mesh), machine[0] && mesh->machine[0] && strcmp(machine, mesh->machine));
}

unsigned ddl__tcp_rails(const struct ddl__mesh *mesh, const void *own, size_t size, bool here)
{
	struct ddl__tcp_address theirs;
	unsigned n = 1;

	for (; n < mesh->n_rails && (n + 1) * sizeof(theirs) <= size; n++) {
		memcpy(&theirs, (const uint8_t *)own + n * sizeof(theirs), sizeof(theirs));
		if (!ddl__tcp_joins(&theirs, &ours(mesh)[n], !here))
			break;
	}
	return n;
}

void ddl__tcp_target(const void *own, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size)
{
	struct ddl__tcp_address address;
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

/* The rail's own address with any port, as a source. */
static void tie_address(const struct ddl__link *link, int fd)
{
	struct sockaddr_storage from;
	struct ddl__tcp_address own = ours(link->mesh)[link->rail];
	socklen_t size;
	char words[96];
	int on = 1;

	own.port = 0;
	ddl__tcp_target(&own, &from, &size, words, sizeof(words));
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	(void)!bind(fd, (struct sockaddr *)&from, size); /* else the routes choose, and the peer's address names the rail */
}

void ddl__tcp_tie(const struct ddl__link *link, int fd, bool connects)
{
	const char *name = link->mesh->rail_name[link->rail];
	const bool here = link->mesh->peers[link->peer].here;

	if (here) /* best effort */
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, UNPACED, sizeof(UNPACED) - 1);
	if (!*name)
		return;
	if (!here)
		setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name));
	if (connects)
		tie_address(link, fd);
}

void ddl__tcp_tune(int fd)
{
	int on = 1, idle = KEEPALIVE_S, interval = 5, count = 4, unsent = UNSENT_BYTES;
	unsigned int timeout = USER_TIMEOUT_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

bool ddl__tcp_admits(int fd)
{
	return true; /* the handshake decides */
}
