/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uplink.h - what an administrator says of the uplinks of switches: how much they are oversubscribed, level by level.
 *
 *     4:1         the nodes of a leaf switch together are 4 times as fast as its uplink; what is above adds nothing
 *     4:1/2:1     and the uplinks of the next level carry half of what comes up to those switches: 8:1 seen from the nodes
 *     linkspeed   no ratios: LinkSpeed= in topology.conf is in Mbit/s
 *
 * A ratio is kept in hundredths: 400 is 4:1.
 */
#ifndef DDL_PLAN_UPLINK_H
#define DDL_PLAN_UPLINK_H

#include <stddef.h>
#include <stdint.h>

#define DDL__UPLINKS_MAX 16  /* levels of ratios: as many as a plan has of switches */
#define DDL__UPLINK_SIZE 256 /* bytes of the longest text with NUL */
#define DDL__RATIO_MAX   UINT32_C(1000000)
#define DDL__RATIO_SIZE  16 /* bytes of a ratio's text with NUL */

struct ddl__uplink {
	uint32_t n;                       /* levels with a ratio; 0: none was said */
	uint32_t ratio[DDL__UPLINKS_MAX]; /* hundredths, 1 ... DDL__RATIO_MAX; that of the leaf switches first */
	uint32_t linkspeed;               /* 1: link speeds are in Mbit/s */
};

/* Reads one of the forms above (length bytes), or auto: nothing is said. Returns 0; -EINVAL, *uplink is not changed then. */
int ddl__uplink_parse(const char *text, size_t length, struct ddl__uplink *uplink);

/* Whether anything is said. */
int ddl__uplink_said(const struct ddl__uplink *uplink);

/* Writes what ddl__uplink_parse() reads, "auto" where nothing is said; size: DDL__UPLINK_SIZE at least. Returns text. */
const char *ddl__uplink_format(const struct ddl__uplink *uplink, char *text, size_t size);

/*
 * Oversubscription of the uplink of a switch of that height (1: of nodes), seen from the nodes: the product of the ratios up to it;
 * levels that were not named count as 1:1. In hundredths, at least 1, at most DDL__RATIO_MAX; 0 where no ratio was said.
 */
uint32_t ddl__uplink_ratio(const struct ddl__uplink *uplink, size_t height);

/* "4:1", "2.5:1". size: DDL__RATIO_SIZE at least. Returns text. */
const char *ddl__ratio_format(uint32_t ratio, char *text, size_t size);

#endif
