/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.c - the table of transports, the preferred first. loop comes last: it opens only where a test made a world for it.
 */
#include "transport.h"

const struct ddl__transport_ops *const ddl__transports[] = {
	&ddl__transport_shm, &ddl__transport_verbs, &ddl__transport_tcp, &ddl__transport_loop, NULL,
};
