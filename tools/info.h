/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info.h - the parts of `ddl info` that have a file of their own.
 */
#ifndef DDL_TOOLS_INFO_H
#define DDL_TOOLS_INFO_H

#include <stdbool.h>

#include <jansson.h>

/*
 * info_ranks.c: {"rows": [{rank, node, usable, service, cpus}...], "why"}: which hardware threads serve which rank, of all ranks on
 * rank 0. Takes up to 10 s where ranks are missing; "why" says what was in the way. alone: nobody is asked.
 */
json_t *ddl__info_ranks(bool alone);

void ddl__info_print_ranks(const json_t *ranks);

#endif
