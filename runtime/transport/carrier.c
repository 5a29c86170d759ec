/* SPDX-License-Identifier: Apache-2.0 */
/* carrier.c - see carrier.h. */
#include "carrier.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MESSAGES 64 /* read in a row; what is left, or was too much for the socket, comes with the next event */

/* Whether the rail's interface is known to be down, or without a cable. */
static bool is_dead(const struct ddl__mesh *mesh, unsigned rail)
{
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", mesh->rail_name[rail]);
	if (ioctl(mesh->listeners[rail].fd, SIOCGIFFLAGS, &request))
		return errno == ENODEV;
	return !(request.ifr_flags & IFF_UP) || !(request.ifr_flags & IFF_RUNNING);
}

/* A link that nothing can replace stays: the interface may come back before its connection gives up. */
static void leave_rail(struct ddl__mesh *mesh, unsigned rail)
{
	for (size_t i = 0; i < mesh->n_links; i++) {
		struct ddl__link *link = mesh->links[i];

		if (!link || link->rail != rail || link->state < DDL__LINK_WAITING || link->state > DDL__LINK_UP)
			continue;
		link->silent = true;
		if (ddl__link_instead(link))
			ddl__link_fail(link, -ENETDOWN, "the network interface here is down or has no cable");
		else
			link->silent = false;
	}
}

static void carrier_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct ddl__carrier *carrier = (struct ddl__carrier *)source;
	struct ddl__mesh *mesh = carrier->mesh;
	char message[4096];

	ddl__mesh_enter(mesh);
	for (int i = 0; i < MESSAGES && recv(carrier->fd, message, sizeof(message), 0) > 0; i++)
		; /* which interface it is about is seen below */
	for (unsigned rail = 0; rail < mesh->n_rails; rail++)
		if (is_dead(mesh, rail))
			leave_rail(mesh, rail);
	ddl__mesh_leave(mesh);
}

void ddl__carrier_open(struct ddl__carrier *carrier, struct ddl__mesh *mesh)
{
	struct sockaddr_nl links = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };

	*carrier = (struct ddl__carrier){ { carrier_ready }, mesh, -1, 0 };
	if (mesh->n_rails < 2 || !*mesh->rail_name[0])
		return;
	carrier->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (carrier->fd < 0)
		return;
	if (bind(carrier->fd, (struct sockaddr *)&links, sizeof(links)) ||
	    ddl__mesh_watch(mesh, carrier->fd, &carrier->source, EPOLLIN, &carrier->watched))
		ddl__carrier_close(carrier);
}

void ddl__carrier_close(struct ddl__carrier *carrier)
{
	if (carrier->fd < 0)
		return;
	ddl__mesh_watch(carrier->mesh, carrier->fd, &carrier->source, 0, &carrier->watched);
	close(carrier->fd);
	carrier->fd = -1;
}
