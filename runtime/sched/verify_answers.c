/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify_answers.c - see verify_answers.h.
 *
 * A lane is a sequence, and slices arrive in the order in which they are sent: so the number of a slice tells its slot, and
 * counting along both ends tells which slice is answered by which, and what the peer has taken before it sends one.
 */
#include "verify_answers.h"

#include <errno.h>

#include "error.h"

struct place { /* along a lane, from its begin */
	uint32_t step;
	uint64_t slice; /* of the step */
	uint64_t taken; /* slices received before this one */
	uint64_t sent;  /* slices sent before this one */
};

/* To the next slice of the lane; false: there is none. */
static bool go_on(const struct ddl__steps *lane, uint64_t slice_elements, struct place *at)
{
	const struct ddl__step *step = &lane->steps[at->step];
	at->taken += ddl__step_receives(step->kind);
	at->sent += ddl__step_sends(step->kind);
	if (++at->slice == ddl__step_slices(step, slice_elements)) {
		at->slice = 0;
		at->step++;
	}
	return at->step < lane->n;
}

/* To where slice number `sent` is sent, from 0; false: there is no such slice. `at` only goes on. */
static bool find_sent(const struct ddl__steps *lane, uint64_t slice_elements, uint64_t sent, struct place *at)
{
	bool more = at->step < lane->n;
	while (more && (at->sent < sent || !ddl__step_sends(lane->steps[at->step].kind)))
		more = go_on(lane, slice_elements, at);
	return more;
}

static int check_lane(const struct ddl__verify *v, int rank, const struct ddl__steps *lane, struct ddl_error *err)
{
	const struct ddl__schedule *own = v->schedules[rank];
	struct place at = { 0 }, there = { 0 };
	for (bool more = lane->n > 0; more; more = go_on(lane, own->slice_elements, &at)) {
		const struct ddl__step *step = &lane->steps[at.step];
		if (!step->answer)
			continue;
		const char *why = NULL;
		if (!ddl__step_receives(step->kind) || !ddl__step_sends(step->kind) || lane->recv_peer != lane->send_peer) {
			why = "answers, and does not receive from whom it sends to";
		} else {
			const struct ddl__schedule *theirs = v->schedules[lane->send_peer];
			const struct ddl__steps *peer = ddl__schedule_lane(theirs, lane->number);
			/* the slice that uses the slot next; the answer is the one of number at.sent there */
			if (find_sent(peer, theirs->slice_elements, at.taken + theirs->slots, &there) && there.taken <= at.sent)
				why = "answers in a slot that the peer sends into before it has taken the answer";
		}
		if (why)
			return ddl__error_set(err, -EPROTO, "rank %d lane %u step %u (%s) %s", rank, lane->number, at.step,
					      ddl__step_name(step->kind), why);
	}
	return 0;
}

int ddl__verify_answers(const struct ddl__verify *verify, struct ddl_error *err)
{
	int rc = 0;
	for (int r = 0; rc == 0 && r < verify->n_ranks; r++)
		for (uint32_t l = 0; rc == 0 && l < verify->schedules[r]->n_lanes; l++)
			rc = check_lane(verify, r, &verify->schedules[r]->lanes[l], err);
	return rc;
}
