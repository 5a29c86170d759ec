/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info.h - the parts of `ddl info` that have a file of their own.
 */
#ifndef DDL_TOOLS_INFO_H
#define DDL_TOOLS_INFO_H

#include <stdbool.h>

#include <stdio.h>

#include <jansson.h>

#include "facts.h"

struct ddl__verbs_api;

/*
 * info_ranks.c: {"rows": [{rank, node, usable, service, cpus}...], "why"}: which hardware threads serve which rank, of all ranks on
 * rank 0. Takes up to 10 s where ranks are missing; "why" says what was in the way. alone: nobody is asked.
 */
json_t *ddl__info_ranks(bool alone);

void ddl__info_print_ranks(const json_t *ranks);

/*
 * info_rdma.c: {"ports": [{device, port, state, link_layer, speed_Mbps, mtu, gid_index, gid, gid_kind, interface, numa, rail,
 * why}...], "why"}: what is not known is left out; rail where it becomes one, else why not; the last why: none does. root: folder
 * that proc and sys are below, "": this machine's. api: in place of libibverbs, for tests; else NULL.
 */
json_t *ddl__info_rdma(const char *root, const struct ddl__facts *facts, const struct ddl__verbs_api *api);

void ddl__info_print_rdma(FILE *out, const json_t *rdma);

#endif
