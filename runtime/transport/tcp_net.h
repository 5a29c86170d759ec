/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_net.h - addresses and sockets of tcp: a rail is an interface's address that this rank listens at. See ddl__mesh_ops. */
#ifndef DDL_TRANSPORT_TCP_NET_H
#define DDL_TRANSPORT_TCP_NET_H

#include "mesh.h"

struct ddl__tcp_address { /* own part of an address, of one rail. No padding. */
	uint16_t family;  /* 4 or 6 */
	uint16_t port;    /* host order */
	uint8_t host[16]; /* network order; 4: the first four */
};

/* Listens at a numeric address; own: that, with the port. 0, -errno. */
int ddl__tcp_listen_at(const char *text, int *fd, struct ddl__tcp_address *own);
/* Whether one can be reached from the other; apart: they are of two machines. Symmetric. */
bool ddl__tcp_joins(const struct ddl__tcp_address *a, const struct ddl__tcp_address *b, bool apart);

/* Mesh ops */
int ddl__tcp_listen(struct ddl__mesh *mesh, const struct ddl__transport_config *config, int *fds, void *own, size_t *size,
		    struct ddl_error *err);
bool ddl__tcp_reaches(const struct ddl__mesh *mesh, const void *own, size_t size, const char *machine);
unsigned ddl__tcp_rails(const struct ddl__mesh *mesh, const void *own, size_t size, bool here);
void ddl__tcp_target(const void *own, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size);
void ddl__tcp_tie(const struct ddl__link *link, int fd, bool connects);
void ddl__tcp_tune(int fd);
bool ddl__tcp_admits(int fd);

#endif
