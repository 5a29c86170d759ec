/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier.h - hears from the kernel when the network interface of a rail goes down or loses its cable, so that what goes over
 * it moves to another rail at once. TCP alone would notice after half a minute. Peers whose own interface it is not are told by
 * those that saw it.
 */
#ifndef DDL_TRANSPORT_CARRIER_H
#define DDL_TRANSPORT_CARRIER_H

#include "mesh.h"

struct ddl__carrier {
	struct ddl__poll_source source;
	struct ddl__mesh *mesh;
	int fd;           /* netlink; -1: nobody listens */
	uint32_t watched; /* epoll events it is registered for */
};

/* Where there are several rails, bound to interfaces. Best effort: else losses are noticed later. mesh: borrowed until close. */
void ddl__carrier_open(struct ddl__carrier *carrier, struct ddl__mesh *mesh);
void ddl__carrier_close(struct ddl__carrier *carrier);

#endif
