/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dissemination.c - barrier: in round k every rank signals the one 2^k further in ring order and waits for the one 2^k before;
 * after ceil(log2 N) rounds each has heard of all (Hensgen, Finkel and Manber, 1988). A lane a round; signals carry no bytes.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

int ddl__build_dissemination(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	int n = build->layout->n_ranks, position = 0, rc;
	uint32_t rounds = 0;
	struct ddl__schedule *s;
	while ((1LL << rounds) < n)
		rounds++;
	int *order = calloc((size_t)n, sizeof(*order));
	if (!order)
		return -ENOMEM;
	rc = ddl__schedule_create(rounds, &s);
	if (rc < 0)
		goto free_order;
	ddl__layout_order(build->layout, 0, order);
	while (order[position] != build->rank)
		position++;
	s->slots = 2; /* a peer may be one start ahead */
	for (uint32_t k = 0; k < rounds; k++) {
		struct ddl__steps *lane = &s->lanes[k];
		int hop = 1 << k;
		lane->send_peer = order[(position + hop) % n];
		lane->recv_peer = order[(position + n - hop) % n];
		rc = ddl__schedule_reserve(lane, 2);
		if (rc < 0)
			goto destroy;
		struct ddl__step *send = ddl__schedule_add(lane, DDL__SEND, DDL__INPUT, 0, DDL__INPUT, 0, 0);
		if (k > 0) {
			send->wait_lane = k - 1;
			send->wait_step = 1;
		}
		ddl__schedule_add(lane, DDL__RECV, DDL__INPUT, 0, DDL__OUTPUT, 0, 0);
	}
	free(order);
	*schedule = s;
	return 0;

destroy:
	ddl__schedule_destroy(s);
free_order:
	free(order);
	return rc;
}
