/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairwise.c - all-to-all: each rank exchanges blocks with each other one. In round t the ranks meet whose positions in the ring
 * order have the sum t modulo N: every round is a perfect matching but for those that meet themselves, who copy.
 *
 * A lane a partner, numbered by its round. Both directions share it: pieces go and come in turn, so that a block may be replaced in
 * place once its piece has left. A lane begins when the one WINDOW rounds before is through, so that no more partners are busy with
 * this rank at once; as rounds are the same at both ends, such waits lead to earlier rounds only. The slice shrinks with the number
 * of ranks: what all lanes hold stays bounded.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "shape.h"

enum { SLOTS = 4, PIECE_SLICES = 2, WINDOW = 8 };

struct pairs {
	const struct ddl__build *build;
	const uint64_t *send_at, *recv_at; /* where blocks begin, by rank */
	struct ddl__schedule *s;
};

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What a partner gets and gives, in turn; the rank itself copies. */
static int fill(const struct pairs *p, uint32_t index, int partner)
{
	struct ddl__steps *lane = &p->s->lanes[index];
	uint64_t send = p->send_at[partner + 1] - p->send_at[partner], recv = p->recv_at[partner + 1] - p->recv_at[partner];
	uint64_t piece = p->s->slice_elements * PIECE_SLICES, longest = send > recv ? send : recv;
	int rc = ddl__schedule_reserve(lane, 2 * ((longest + piece - 1) / piece));
	if (rc < 0)
		return rc;
	if (partner == p->build->rank) {
		ddl__schedule_add(lane, DDL__COPY, DDL__INPUT, p->send_at[partner], DDL__OUTPUT, p->recv_at[partner], send);
	} else {
		/* both ways also where one is empty: so the counts of both ranks get compared */
		lane->send_peer = lane->recv_peer = partner;
		for (uint64_t i = 0; i < longest; i += piece) {
			if (i < send)
				ddl__schedule_add(lane, DDL__SEND, DDL__INPUT, p->send_at[partner] + i, DDL__INPUT, 0,
						  min(send - i, piece));
			if (i < recv)
				ddl__schedule_add(lane, DDL__RECV, DDL__INPUT, 0, DDL__OUTPUT, p->recv_at[partner] + i,
						  min(recv - i, piece));
		}
	}
	if (index >= WINDOW)
		ddl__schedule_wait(&lane->steps[0], p->s, index - WINDOW);
	return 0;
}

static bool idle(const struct pairs *p, int partner)
{
	return p->send_at[partner + 1] == p->send_at[partner] && p->recv_at[partner + 1] == p->recv_at[partner];
}

static int build_lanes(struct pairs *p, const int *order)
{
	int n = p->build->layout->n_ranks, me = 0, rc = 0;
	uint32_t n_lanes = 0, index = 0;
	for (int r = 0; r < n; r++)
		n_lanes += !idle(p, r);
	rc = ddl__schedule_create(n_lanes, &p->s);
	if (rc < 0)
		return rc;
	while (order[me] != p->build->rank)
		me++;
	p->s->slots = SLOTS;
	p->s->slice_elements = ddl__slice_bounded(p->build, (uint64_t)n, SLOTS);
	for (int t = 0; rc == 0 && t < n; t++) {
		int partner = order[(t + n - me) % n];
		if (idle(p, partner))
			continue;
		p->s->lanes[index].number = (uint32_t)t;
		rc = fill(p, index++, partner);
	}
	return rc;
}

int ddl__build_pairwise(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	int n = build->layout->n_ranks;
	const size_t *back = build->recv_counts ? build->recv_counts : build->counts;
	uint64_t *send_at = ddl__displacements(n, build->counts, build->count),
		 *recv_at = ddl__displacements(n, back, build->count);
	int *order = calloc((size_t)n, sizeof(*order));
	struct pairs p = { .build = build, .send_at = send_at, .recv_at = recv_at };
	int rc = -ENOMEM;
	if (send_at && recv_at && order) {
		ddl__layout_order(build->layout, 0, order);
		rc = build_lanes(&p, order);
	}
	free(send_at);
	free(recv_at);
	free(order);
	if (rc < 0)
		ddl__schedule_destroy(p.s);
	else
		*schedule = p.s;
	return rc;
}
