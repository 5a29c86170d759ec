/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interfaces.h - gathers the network interfaces of a node; see facts.h for what is told of each.
 */
#ifndef DDL_TOPO_INTERFACES_H
#define DDL_TOPO_INTERFACES_H

#include "facts.h"

/* Fills facts->interfaces, in natural order of their names. Returns 0 or -ENOMEM. */
int ddl__interfaces_gather(const char *root, struct ddl__facts *facts);

#endif
