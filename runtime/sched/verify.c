/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - symbolic execution of schedules.
 *
 * An element's value is the set of ranks whose contribution it holds (a bit set), or "undefined", and what verify_value.h knows.
 * Slices under way carry these values through queues of `slots` slices. Beside the values each lane has a clock: the last step of
 * every other lane that is known to be complete, learnt by waits; an element that another lane wrote or read may only be touched
 * when the clock covers that step. For barriers the message carries the set of ranks that are known to have started. In place,
 * input and output are windows onto the same elements.
 *
 * Where ranks share memory, lanes of other ranks touch elements too. Then a clock counts the lanes of all ranks, and slices carry
 * it. A clock counts slices, since what comes later may depend on a part of a step.
 */
#include "verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "shape.h"
#include "verify_answers.h"
#include "verify_value.h"

struct cell {         /* one element of one buffer of one rank; its set is in world.sets */
	bool defined; /* holds a value */
	struct ddl__value value;
	uint32_t writer_lane; /* who wrote it last, index in clocks; DDL__NO_WAIT: nobody */
	uint32_t writer_at;   /* what that lane's clock was then (count) */
};

struct slice { /* under way */
	uint64_t count;
	uint64_t *sets;               /* count * words */
	struct ddl__value *values;    /* count */
	uint64_t *heard;              /* words: ranks known to have started when it was sent */
	uint32_t *clock;              /* shared: the sender's clock when it was sent; else NULL */
	const struct ddl__step *lent; /* shared: the sender's step, whose src is read where it lies; else NULL */
	uint64_t offset;              /* in that step */
	uint64_t placed_at;           /* shared: 1 + the element of the receiver's output where it was placed; else 0 */
};

struct lane { /* state of one lane of one rank */
	uint32_t step;
	uint64_t slice;
	uint32_t ran;          /* slices so far */
	uint64_t *heard;       /* words: ranks known to have started */
	uint32_t *clock;       /* span: slices of that lane known to be done (count) */
	struct slice *queue;   /* slots: what has landed here */
	uint32_t head, length; /* of the queue */
	uint32_t slots;        /* of the queue */
	struct lane *to;       /* the peer's end; NULL: does not send */
	uint32_t *snapshots;   /* steps * span: the clock after each step */
	uint64_t *heard_after; /* steps * words */
};

struct rank {
	struct lane *lanes;
	struct cell *cells[DDL__BUFFERS];
	uint64_t *sets[DDL__BUFFERS];    /* elements * words */
	uint32_t *readers[DDL__BUFFERS]; /* elements * span: last slice (count) of that lane that read it */
	uint64_t elements[DDL__BUFFERS];
	struct cell *own_cells[DDL__BUFFERS]; /* what is to be freed; the pointers above point into these */
	uint64_t *own_sets[DDL__BUFFERS];
	uint32_t *own_readers[DDL__BUFFERS];
	struct ddl__shape shape;
	uint32_t first; /* index of its first lane in clocks */
	uint32_t span;  /* lanes that clocks count: its own, or those of all ranks */
};

struct world {
	const struct ddl__verify *v;
	struct ddl_error *err;
	size_t words; /* of a set */
	struct rank *ranks;
};

static uint64_t *set_of(const struct world *w, int rank, int buffer, uint64_t i)
{
	return w->ranks[rank].sets[buffer] + i * w->words;
}

static int fault(const struct world *w, int rank, uint32_t lane, const struct ddl__step *step, const char *what, uint64_t element)
{
	uint32_t index = (uint32_t)(step - w->v->schedules[rank]->lanes[lane].steps);
	return ddl__error_set(w->err, -EPROTO, "rank %d lane %u step %u (%s): %s (element %llu)", rank, lane, index,
			      ddl__step_name(step->kind), what, (unsigned long long)element);
}

/* Who touches an element: a lane, of this rank or of another that shares its memory. */
struct actor {
	int rank; /* whose lane; faults are told of it */
	uint32_t lane;
	const struct ddl__step *step;
};

/* Whether everything that other lanes did to an element of a rank happened before the actor's current slice. */
static bool ordered(const struct world *w, const struct actor *actor, int rank, int buffer, uint64_t i, bool write)
{
	const struct rank *r = &w->ranks[rank];
	const struct cell *cell = &r->cells[buffer][i];
	const uint32_t *clock = w->ranks[actor->rank].lanes[actor->lane].clock;
	uint32_t me = w->ranks[actor->rank].first + actor->lane;
	if (cell->writer_lane != DDL__NO_WAIT && cell->writer_lane != me && clock[cell->writer_lane] < cell->writer_at)
		return false;
	for (uint32_t l = 0; write && l < r->span; l++)
		if (l != me && clock[l] < r->readers[buffer][i * r->span + l])
			return false;
	return true;
}

/* The actor's lane reads element i of a rank's buffer. */
static int touch_read(const struct world *w, const struct actor *actor, int rank, int b, uint64_t i)
{
	struct rank *r = &w->ranks[rank];
	const struct rank *me = &w->ranks[actor->rank];
	if (i >= r->elements[b])
		return fault(w, actor->rank, actor->lane, actor->step, "reads out of bounds", i);
	if (!r->cells[b][i].defined)
		return fault(w, actor->rank, actor->lane, actor->step, "reads what was never written", i);
	if (!ordered(w, actor, rank, b, i, false))
		return fault(w, actor->rank, actor->lane, actor->step, "reads what another lane writes, without waiting for it", i);
	r->readers[b][i * r->span + me->first + actor->lane] = me->lanes[actor->lane].ran + 1;
	return 0;
}

static int read_element(const struct world *w, int rank, uint32_t lane, const struct ddl__step *step, uint64_t i)
{
	const struct actor actor = { rank, lane, step };
	return touch_read(w, &actor, rank, step->src_buffer, i);
}

/* The actor's lane writes element i of a rank's buffer. */
static int touch_write(const struct world *w, const struct actor *actor, int rank, int b, uint64_t i, const uint64_t *set,
		       const struct ddl__value *value)
{
	struct rank *r = &w->ranks[rank];
	const struct rank *me = &w->ranks[actor->rank];
	if (b == DDL__INPUT && !w->v->in_place)
		return fault(w, actor->rank, actor->lane, actor->step, "writes the input", i);
	if (i >= r->elements[b])
		return fault(w, actor->rank, actor->lane, actor->step, "writes out of bounds", i);
	if (!ordered(w, actor, rank, b, i, true))
		return fault(w, actor->rank, actor->lane, actor->step, "writes what another lane uses, without waiting for it", i);
	struct cell *cell = &r->cells[b][i];
	memcpy(set_of(w, rank, b, i), set, w->words * sizeof(*set));
	cell->defined = true;
	cell->value = *value;
	cell->writer_lane = me->first + actor->lane;
	cell->writer_at = me->lanes[actor->lane].ran + 1;
	return 0;
}

static int write_element(const struct world *w, int rank, uint32_t lane, const struct ddl__step *step, uint64_t i,
			 const uint64_t *set, const struct ddl__value *value)
{
	const struct actor actor = { rank, lane, step };
	return touch_write(w, &actor, rank, step->dst_buffer, i, set, value);
}

/* Reduces element i of the step's source into set and value. */
static int reduce_element(const struct world *w, int rank, uint32_t lane, const struct ddl__step *step, uint64_t i, uint64_t *set,
			  struct ddl__value *value)
{
	const struct ddl__value *own = &w->ranks[rank].cells[step->src_buffer][i].value;
	const char *wrong = ddl__value_reduce(w->v, w->words, value, set, own, set_of(w, rank, step->src_buffer, i));
	return wrong ? fault(w, rank, lane, step, wrong, i) : 0;
}

/* Element i of the step's source becomes the value. */
static void copy_element(const struct world *w, int rank, const struct ddl__step *step, uint64_t i, uint64_t *set,
			 struct ddl__value *value)
{
	memcpy(set, set_of(w, rank, step->src_buffer, i), w->words * sizeof(*set));
	*value = w->ranks[rank].cells[step->src_buffer][i].value;
}

/* Reduces the step's sources, of which the first's element is i, into set. */
static int reduce_sources(const struct world *w, int rank, uint32_t lane, const struct ddl__step *step, uint64_t i, uint64_t *set,
			  struct ddl__value *value)
{
	int rc = read_element(w, rank, lane, step, i);
	if (rc < 0)
		return rc;
	copy_element(w, rank, step, i, set, value);
	for (uint32_t k = 1; k < step->sources; k++) {
		rc = read_element(w, rank, lane, step, i + k * step->stride);
		rc = rc ? rc : reduce_element(w, rank, lane, step, i + k * step->stride, set, value);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Whether a step would copy memory onto itself. Where ranks share memory elements travel as they are, and nothing is written. */
static bool onto_itself(const struct world *w, int rank, const struct ddl__step *step)
{
	const struct rank *r = &w->ranks[rank];
	return w->v->shared && (step->kind == DDL__COPY || step->kind == DDL__SEND_STORE) && step->count &&
	       r->cells[step->src_buffer] + step->src == r->cells[step->dst_buffer] + step->dst;
}

/* Reads element src as the step's kind has it; set and value become what is sent or stored. */
static int apply_read(const struct world *w, int rank, uint32_t lane, const struct ddl__step *step, uint64_t src, uint64_t *set,
		      struct ddl__value *value)
{
	int rc = 0;
	if (!ddl__step_reads(step->kind))
		return 0;
	if (step->kind == DDL__REDUCE_MANY) {
		rc = reduce_sources(w, rank, lane, step, src, set, value);
	} else {
		rc = read_element(w, rank, lane, step, src);
		if (rc == 0 && ddl__step_reduces(step->kind))
			rc = reduce_element(w, rank, lane, step, src, set, value);
		else if (rc == 0)
			copy_element(w, rank, step, src, set, value);
	}
	if (ddl__step_reduces(step->kind))
		ddl__value_reduced(w->v, value);
	value->final |= step->final;
	return rc;
}

/* Carries one slice of a step out on values; the slice holds what was received and becomes what is sent. */
static int apply(const struct world *w, int rank, uint32_t lane, const struct ddl__step *step, uint64_t offset, struct slice *slice)
{
	int rc = 0;
	for (uint64_t e = 0; rc == 0 && e < slice->count; e++) {
		uint64_t *set = slice->sets + e * w->words, dst = step->dst + offset + e;
		struct ddl__value *value = &slice->values[e];
		rc = apply_read(w, rank, lane, step, step->src + offset + e, set, value);
		if (rc == 0 && (ddl__step_sends(step->kind) || step->kind == DDL__ROUND))
			ddl__value_travels(w->v, &w->v->schedules[rank]->lanes[lane], value);
		if (rc == 0 && onto_itself(w, rank, step))
			w->ranks[rank].cells[step->dst_buffer][dst].value = *value;
		else if (rc == 0 && ddl__step_writes(step->kind))
			rc = write_element(w, rank, lane, step, dst, set, value);
	}
	return rc;
}

static void slice_free(struct slice *slice)
{
	free(slice->sets);
	free(slice->values);
	free(slice->heard);
	free(slice->clock);
	memset(slice, 0, sizeof(*slice));
}

static int slice_alloc(const struct world *w, uint64_t count, struct slice *slice)
{
	slice->count = count;
	slice->sets = calloc(count * w->words + 1, sizeof(*slice->sets));
	slice->values = calloc(count + 1, sizeof(*slice->values));
	slice->heard = calloc(w->words, sizeof(*slice->heard));
	if (slice->sets && slice->values && slice->heard)
		return 0;
	slice_free(slice);
	return -ENOMEM;
}

static void merge_sets(uint64_t *into, const uint64_t *from, size_t words)
{
	for (size_t k = 0; k < words; k++)
		into[k] |= from[k];
}

static void merge_clocks(uint32_t *into, const uint32_t *from, uint32_t span)
{
	for (uint32_t l = 0; l < span; l++)
		if (into[l] < from[l])
			into[l] = from[l];
}

/* A wait that is satisfied teaches the lane what the other lane knew after that step. */
static void learn(const struct world *w, int rank, struct lane *lane, const struct ddl__step *step)
{
	const struct lane *other = &w->ranks[rank].lanes[step->wait_lane];
	uint32_t span = w->ranks[rank].span;
	merge_clocks(lane->clock, other->snapshots + (size_t)step->wait_step * span, span);
	merge_sets(lane->heard, other->heard_after + (size_t)step->wait_step * w->words, w->words);
}

/* A slice that was lent is read where it lies in the sender's memory. */
static int read_lent(const struct world *w, int rank, uint32_t l, const struct ddl__step *step, const struct slice *slice)
{
	const struct actor actor = { rank, l, step };
	int rc = 0;
	for (uint64_t e = 0; rc == 0 && e < slice->count; e++)
		rc = touch_read(w, &actor, w->v->schedules[rank]->lanes[l].recv_peer, slice->lent->src_buffer,
				slice->lent->src + slice->offset + e);
	return rc;
}

/* A slice that is placed is in the receiver's memory when it is sent. */
static int write_placed(const struct world *w, int rank, uint32_t l, const struct ddl__step *step, uint64_t offset,
			const struct slice *slice)
{
	const struct actor actor = { rank, l, step };
	int rc = 0;
	for (uint64_t e = 0; rc == 0 && e < slice->count; e++)
		rc = touch_write(w, &actor, w->v->schedules[rank]->lanes[l].send_peer, DDL__OUTPUT, step->dst + offset + e,
				 slice->sets + e * w->words, &slice->values[e]);
	return rc;
}

/* What the sender adds to a slice where ranks share memory. */
static int share(const struct world *w, int rank, uint32_t l, const struct ddl__step *step, uint64_t offset, struct slice *slice)
{
	const struct rank *r = &w->ranks[rank];
	if (step->lend) {
		slice->lent = step;
		slice->offset = offset;
	}
	slice->placed_at = step->place ? step->dst + offset + 1 : 0;
	int rc = step->place ? write_placed(w, rank, l, step, offset, slice) : 0;
	free(slice->clock); /* of what it received */
	slice->clock = calloc(r->span, sizeof(*slice->clock));
	if (!slice->clock)
		return -ENOMEM;
	memcpy(slice->clock, r->lanes[l].clock, r->span * sizeof(*slice->clock));
	slice->clock[r->first + l] = r->lanes[l].ran + 1;
	return rc;
}

/* Takes what has landed for the current slice, or makes an empty one. */
static int take(const struct world *w, int rank, uint32_t l, const struct ddl__step *step, uint64_t count, struct slice *slice)
{
	struct lane *lane = &w->ranks[rank].lanes[l];
	if (!ddl__step_receives(step->kind))
		return slice_alloc(w, count, slice);
	*slice = lane->queue[lane->head];
	memset(&lane->queue[lane->head], 0, sizeof(*slice));
	lane->head = (lane->head + 1) % lane->slots;
	lane->length--;
	merge_sets(lane->heard, slice->heard, w->words);
	if (slice->count != count)
		return fault(w, rank, l, step, "receives a slice of another length than it expects", slice->count);
	if (slice->clock)
		merge_clocks(lane->clock, slice->clock, w->ranks[rank].span);
	return slice->lent ? read_lent(w, rank, l, step, slice) : 0;
}

static void step_done(const struct world *w, int rank, uint32_t l)
{
	struct lane *lane = &w->ranks[rank].lanes[l];
	uint32_t span = w->ranks[rank].span;
	memcpy(lane->snapshots + (size_t)lane->step * span, lane->clock, span * sizeof(*lane->clock));
	memcpy(lane->heard_after + (size_t)lane->step * w->words, lane->heard, w->words * sizeof(*lane->heard));
	lane->step++;
	lane->slice = 0;
}

/* Runs one slice of a lane. Returns 1 done, 0 blocked (or at its end), negative a fault. */
static int advance(const struct world *w, int rank, uint32_t l)
{
	const struct ddl__schedule *s = w->v->schedules[rank];
	const struct ddl__steps *steps = &s->lanes[l];
	struct lane *lane = &w->ranks[rank].lanes[l];
	if (lane->step == steps->n)
		return 0;
	const struct ddl__step *step = &steps->steps[lane->step];
	if (step->wait_lane != DDL__NO_WAIT) {
		if (w->ranks[rank].lanes[step->wait_lane].step <= step->wait_step)
			return 0;
		learn(w, rank, lane, step);
	}
	struct lane *peer = ddl__step_sends(step->kind) ? lane->to : NULL;
	if (ddl__step_receives(step->kind) && lane->length == 0)
		return 0;
	if (peer && peer->length == peer->slots)
		return 0;
	uint64_t offset = lane->slice * s->slice_elements;
	uint64_t count = step->count - offset < s->slice_elements ? step->count - offset : s->slice_elements;
	struct slice slice = { 0 };
	int rc = take(w, rank, l, step, count, &slice);
	if (rc == 0 && slice.placed_at &&
	    ((step->kind != DDL__RECV && step->kind != DDL__RECV_STORE_SEND) || step->dst_buffer != DDL__OUTPUT ||
	     step->dst + offset != slice.placed_at - 1))
		rc = fault(w, rank, l, step, "stores elsewhere what was placed in its output", slice.placed_at - 1);
	slice.lent = NULL;
	slice.placed_at = 0;
	if (rc == 0)
		rc = apply(w, rank, l, step, offset, &slice);
	if (rc == 0 && peer && w->v->shared)
		rc = share(w, rank, l, step, offset, &slice);
	lane->ran++;
	lane->clock[w->ranks[rank].first + l] = lane->ran;
	if (rc < 0 || !peer) {
		slice_free(&slice);
	} else {
		memcpy(slice.heard, lane->heard, w->words * sizeof(*slice.heard));
		peer->queue[(peer->head + peer->length++) % peer->slots] = slice;
	}
	if (rc < 0)
		return rc;
	if (++lane->slice == ddl__step_slices(step, s->slice_elements))
		step_done(w, rank, l);
	return 1;
}

static int run(const struct world *w)
{
	for (bool moved = true; moved;) {
		moved = false;
		for (int r = 0; r < w->v->n_ranks; r++)
			for (uint32_t l = 0; l < w->v->schedules[r]->n_lanes; l++)
				for (int rc = 1; rc > 0;) {
					rc = advance(w, r, l);
					if (rc < 0)
						return rc;
					moved |= rc > 0;
				}
	}
	return 0;
}

/* A lane's peers exist and name this rank as theirs. */
static int check_peers(const struct world *w, int rank, uint32_t l)
{
	const struct ddl__steps *lane = &w->v->schedules[rank]->lanes[l];
	int to = lane->send_peer, from = lane->recv_peer;
	if (to >= w->v->n_ranks || from >= w->v->n_ranks || to == rank || from == rank)
		return ddl__error_set(w->err, -EPROTO, "rank %d lane %u: peer out of range", rank, l);
	const struct ddl__steps *at_to = to < 0 ? NULL : ddl__schedule_lane(w->v->schedules[to], lane->number);
	const struct ddl__steps *at_from = from < 0 ? NULL : ddl__schedule_lane(w->v->schedules[from], lane->number);
	if (to >= 0 && (!at_to || at_to->recv_peer != rank))
		return ddl__error_set(w->err, -EPROTO, "rank %d lane %u sends to rank %d, which does not receive from it", rank, l,
				      to);
	if (from >= 0 && (!at_from || at_from->send_peer != rank))
		return ddl__error_set(w->err, -EPROTO, "rank %d lane %u receives from rank %d, which does not send to it", rank, l,
				      from);
	return 0;
}

static int check_step(const struct world *w, int rank, uint32_t l, const struct ddl__step *step)
{
	const struct ddl__schedule *s = w->v->schedules[rank];
	const struct ddl__steps *lane = &s->lanes[l];
	if (step->kind < DDL__SEND || step->kind > DDL__ROUND || step->src_buffer >= DDL__BUFFERS ||
	    step->dst_buffer >= DDL__BUFFERS)
		return ddl__error_set(w->err, -EPROTO, "rank %d lane %u step %u: unknown kind or buffer", rank, l,
				      (uint32_t)(step - lane->steps));
	if (step->kind == DDL__REDUCE_MANY && (step->sources < 1 || step->sources > DDL__SOURCES_MAX))
		return fault(w, rank, l, step, "has no sources, or too many", step->sources);
	if ((ddl__step_sends(step->kind) && lane->send_peer < 0) || (ddl__step_receives(step->kind) && lane->recv_peer < 0))
		return fault(w, rank, l, step, "has no peer", 0);
	if ((step->lend && step->kind != DDL__SEND && step->kind != DDL__SEND_STORE) ||
	    (step->place && !ddl__step_sends(step->kind)))
		return fault(w, rank, l, step, "cannot lend or place", 0);
	if (step->wait_lane != DDL__NO_WAIT && (step->wait_lane >= s->n_lanes || step->wait_step >= s->lanes[step->wait_lane].n))
		return fault(w, rank, l, step, "waits for a step that does not exist", 0);
	return 0;
}

/* Both ends of every lane name each other, waits and kinds make sense. */
static int check_shape(const struct world *w)
{
	for (int r = 0; r < w->v->n_ranks; r++)
		for (uint32_t l = 0; l < w->v->schedules[r]->n_lanes; l++) {
			const struct ddl__steps *lane = &w->v->schedules[r]->lanes[l];
			int rc = check_peers(w, r, l);
			for (uint32_t i = 0; rc == 0 && i < lane->n; i++)
				rc = check_step(w, r, l, &lane->steps[i]);
			if (rc < 0)
				return rc;
		}
	return 0;
}

static bool full(const struct world *w, const uint64_t *set)
{
	for (int r = 0; r < w->v->n_ranks; r++)
		if (!(set[r / 64] >> (r % 64) & 1))
			return false;
	return true;
}

/* Whether a set holds this rank and no other. */
static bool just(const struct world *w, const uint64_t *set, int rank)
{
	for (size_t k = 0; k < w->words; k++)
		if (set[k] != (k == (size_t)rank / 64 ? 1ULL << (rank % 64) : 0))
			return false;
	return true;
}

static int check_ended(const struct world *w)
{
	for (int r = 0; r < w->v->n_ranks; r++)
		for (uint32_t l = 0; l < w->v->schedules[r]->n_lanes; l++) {
			const struct ddl__steps *steps = &w->v->schedules[r]->lanes[l];
			const struct lane *lane = &w->ranks[r].lanes[l];
			if (lane->step < steps->n)
				return fault(w, r, l, &steps->steps[lane->step], "waits for ever", 0);
			if (lane->length)
				return ddl__error_set(w->err, -EPROTO, "rank %d lane %u: %u slices are never received", r, l,
						      lane->length);
			if (w->v->collective == DDL__BARRIER)
				merge_sets(w->ranks[r].lanes[0].heard, lane->heard, w->words);
		}
	return 0;
}

/* Elements that `from` sends to `to` in an all-to-all. */
static uint64_t pair_count(const struct ddl__verify *v, int from, int to)
{
	return v->counts ? v->counts[(size_t)from * (size_t)v->n_ranks + (size_t)to] : v->count;
}

/* Which rank's block element *i of an output is in; *i becomes its index in it. to: of an all-to-all whose output; else -1. */
static int block_of(const struct ddl__verify *v, int to, uint64_t *i)
{
	int r = 0;
	for (; r < v->n_ranks - 1; r++) {
		uint64_t n = to >= 0 ? pair_count(v, r, to) : v->counts ? v->counts[r] : v->count;
		if (*i < n)
			break;
		*i -= n;
	}
	return r;
}

/* What element i of a rank's output must be: element *origin of the input of the rank returned, or the reduction of all (-1). */
static int expected(const struct world *w, int rank, uint64_t i, uint64_t *origin)
{
	const struct ddl__verify *v = w->v;
	const size_t *counts = v->counts;
	uint64_t before = 0;
	int from = v->root;
	for (int r = 0; r < rank; r++)
		before += counts && v->collective != DDL__ALLTOALL ? counts[r] : v->count;
	*origin = i;
	switch (v->collective) {
	case DDL__ALLGATHER:
	case DDL__GATHER:
		return block_of(v, -1, origin);
	case DDL__ALLTOALL:
		from = block_of(v, rank, origin);
		for (int r = 0; r < rank; r++)
			*origin += pair_count(v, from, r);
		return from;
	case DDL__REDUCE_SCATTER:
		*origin = before + i;
		return -1;
	case DDL__SCATTER:
		*origin = before + i;
		return from;
	case DDL__ALLREDUCE:
	case DDL__REDUCE:
		return -1;
	default:
		return from;
	}
}

static int check_element(const struct world *w, int rank, uint64_t i)
{
	const struct cell *cell = &w->ranks[rank].cells[DDL__OUTPUT][i];
	const uint64_t *set = set_of(w, rank, DDL__OUTPUT, i);
	uint64_t origin;
	int from = expected(w, rank, i, &origin);
	bool good = from < 0 ? full(w, set) && cell->value.final : just(w, set, from);
	const char *wrong = !cell->defined                                             ? "never written"
			    : cell->value.origin != origin                             ? "made of another element"
			    : w->v->roundings && cell->value.rounded > w->v->roundings ? "rounded too often"
			    : good                                                     ? NULL
			    : from >= 0    ? "not that of the rank that it must come from"
			    : full(w, set) ? "not divided"
					   : "not the reduction of all ranks";
	return wrong ? ddl__error_set(w->err, -EPROTO, "rank %d: element %llu of the result is %s", rank, (unsigned long long)i,
				      wrong)
		     : 0;
}

static int check_result(const struct world *w)
{
	const struct ddl__verify *v = w->v;
	for (int r = 0; r < v->n_ranks; r++) {
		if (v->collective == DDL__BARRIER && v->n_ranks > 1 &&
		    (v->schedules[r]->n_lanes == 0 || !full(w, w->ranks[r].lanes[0].heard)))
			return ddl__error_set(w->err, -EPROTO, "rank %d ends before all ranks have started", r);
		for (uint64_t i = 0; i < w->ranks[r].shape.output; i++) {
			int rc = check_element(w, r, i);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static int lane_init(const struct world *w, int rank, uint32_t l, struct lane *lane)
{
	const struct ddl__schedule *s = w->v->schedules[rank];
	uint32_t span = w->ranks[rank].span;
	size_t steps = (size_t)s->lanes[l].n + 1;
	lane->slots = s->slots ? s->slots : 1;
	lane->heard = calloc(w->words, sizeof(*lane->heard));
	lane->clock = calloc(span, sizeof(*lane->clock));
	lane->queue = calloc(lane->slots, sizeof(*lane->queue));
	lane->snapshots = calloc(steps * span, sizeof(*lane->snapshots));
	lane->heard_after = calloc(steps * w->words, sizeof(*lane->heard_after));
	if (!lane->heard || !lane->clock || !lane->queue || !lane->snapshots || !lane->heard_after)
		return -ENOMEM;
	lane->heard[rank / 64] |= 1ULL << (rank % 64);
	return 0;
}

/* Memory of n elements, owned as that of buffer b. */
static int memory_init(const struct world *w, int rank, int b, uint64_t n)
{
	struct rank *r = &w->ranks[rank];
	r->own_cells[b] = calloc((size_t)n + 1, sizeof(*r->own_cells[b]));
	r->own_sets[b] = calloc(((size_t)n + 1) * w->words, sizeof(*r->own_sets[b]));
	r->own_readers[b] = calloc(((size_t)n + 1) * (r->span + 1), sizeof(*r->own_readers[b]));
	if (!r->own_cells[b] || !r->own_sets[b] || !r->own_readers[b])
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		r->own_cells[b][i].writer_lane = DDL__NO_WAIT;
	return 0;
}

/* Lets a buffer of n elements begin at `at` of the memory of buffer `of`. */
static void window(const struct world *w, int rank, int b, uint64_t n, int of, uint64_t at)
{
	struct rank *r = &w->ranks[rank];
	r->elements[b] = n;
	r->cells[b] = r->own_cells[of] + at;
	r->sets[b] = r->own_sets[of] + at * w->words;
	r->readers[b] = r->own_readers[of] + at * r->span;
}

/* Whether a rank's input holds anything at the start. */
static bool given(const struct ddl__verify *v, int rank)
{
	return v->collective != DDL__BROADCAST || rank == v->root;
}

static int buffers_init(const struct world *w, int rank)
{
	struct rank *r = &w->ranks[rank];
	const struct ddl__shape *s = &r->shape;
	uint64_t scratch = w->v->schedules[rank]->scratch_elements;
	uint64_t in_end = s->input_at + s->input, out_end = s->output_at + s->output;
	int rc = memory_init(w, rank, DDL__SCRATCH, scratch);
	if (w->v->in_place) {
		rc = rc ? rc : memory_init(w, rank, DDL__INPUT, in_end > out_end ? in_end : out_end);
	} else {
		rc = rc ? rc : memory_init(w, rank, DDL__INPUT, s->input);
		rc = rc ? rc : memory_init(w, rank, DDL__OUTPUT, s->output);
	}
	if (rc < 0)
		return rc;
	window(w, rank, DDL__SCRATCH, scratch, DDL__SCRATCH, 0);
	window(w, rank, DDL__INPUT, s->input, DDL__INPUT, w->v->in_place ? s->input_at : 0);
	window(w, rank, DDL__OUTPUT, s->output, w->v->in_place ? DDL__INPUT : DDL__OUTPUT, w->v->in_place ? s->output_at : 0);
	for (uint64_t i = 0; i < s->input && given(w->v, rank); i++) {
		r->cells[DDL__INPUT][i].defined = true;
		r->cells[DDL__INPUT][i].value.origin = i;
		set_of(w, rank, DDL__INPUT, i)[rank / 64] |= 1ULL << (rank % 64);
	}
	return 0;
}

/* What the rank's buffers hold; an all-to-all by counts takes its own row and column of them. */
static int shape_init(const struct world *w, int rank)
{
	const struct ddl__verify *v = w->v;
	const struct ddl__layout layout = { .n_ranks = v->n_ranks };
	bool matrix = v->collective == DDL__ALLTOALL && v->counts;
	size_t n = (size_t)v->n_ranks, *column = matrix ? calloc(n, sizeof(*column)) : NULL;
	if (matrix && !column)
		return -ENOMEM;
	for (size_t r = 0; matrix && r < n; r++)
		column[r] = v->counts[r * n + (size_t)rank];
	const struct ddl__build build = { .layout = &layout,
					  .rank = rank,
					  .count = v->count,
					  .counts = matrix ? v->counts + (size_t)rank * n : v->counts,
					  .recv_counts = column,
					  .root = v->root,
					  .peer = v->peer };
	int rc = ddl__shape_of(v->collective, &build, &w->ranks[rank].shape);
	free(column);
	return rc;
}

static int rank_init(const struct world *w, int rank)
{
	struct rank *r = &w->ranks[rank];
	const struct ddl__schedule *s = w->v->schedules[rank];
	r->span = s->n_lanes;
	if (w->v->shared) {
		r->span = 0;
		for (int q = 0; q < w->v->n_ranks; q++) {
			r->first += q < rank ? w->v->schedules[q]->n_lanes : 0;
			r->span += w->v->schedules[q]->n_lanes;
		}
	}
	r->lanes = calloc(s->n_lanes + 1, sizeof(*r->lanes));
	if (!r->lanes)
		return -ENOMEM;
	int rc = shape_init(w, rank);
	for (uint32_t l = 0; rc == 0 && l < s->n_lanes; l++)
		rc = lane_init(w, rank, l, &r->lanes[l]);
	return rc ? rc : buffers_init(w, rank);
}

/* Each lane that sends learns where its slices land. */
static void connect_lanes(const struct world *w)
{
	for (int r = 0; r < w->v->n_ranks; r++)
		for (uint32_t l = 0; l < w->v->schedules[r]->n_lanes; l++) {
			const struct ddl__steps *steps = &w->v->schedules[r]->lanes[l];
			const struct ddl__schedule *at = steps->send_peer < 0 ? NULL : w->v->schedules[steps->send_peer];
			if (at)
				w->ranks[r].lanes[l].to =
					&w->ranks[steps->send_peer].lanes[ddl__schedule_lane(at, steps->number) - at->lanes];
		}
}

static void rank_fini(const struct world *w, int rank)
{
	struct rank *r = &w->ranks[rank];
	for (uint32_t l = 0; r->lanes && l < w->v->schedules[rank]->n_lanes; l++) {
		struct lane *lane = &r->lanes[l];
		for (uint32_t q = 0; lane->queue && q < lane->slots; q++)
			slice_free(&lane->queue[q]);
		free(lane->heard);
		free(lane->clock);
		free(lane->queue);
		free(lane->snapshots);
		free(lane->heard_after);
	}
	free(r->lanes);
	for (int b = 0; b < DDL__BUFFERS; b++) {
		free(r->own_cells[b]);
		free(r->own_sets[b]);
		free(r->own_readers[b]);
	}
}

int ddl__verify(const struct ddl__verify *verify, struct ddl_error *err)
{
	struct world w = { .v = verify, .err = err, .words = ((size_t)verify->n_ranks + 63) / 64 };
	if (verify->n_ranks < 1)
		return ddl__error_set(err, -EINVAL, "verify needs at least one rank");
	w.ranks = calloc((size_t)verify->n_ranks, sizeof(*w.ranks));
	if (!w.ranks)
		return ddl__error_set(err, -ENOMEM, "out of memory");
	int rc = check_shape(&w);
	int made = 0;
	for (; rc == 0 && made < verify->n_ranks; made++) {
		rc = rank_init(&w, made);
		if (rc < 0)
			ddl__error_set(err, rc, "%s", strerror(-rc));
	}
	if (rc == 0)
		connect_lanes(&w);
	rc = rc ? rc : run(&w);
	rc = rc ? rc : check_ended(&w);
	rc = rc ? rc : check_result(&w);
	rc = rc ? rc : ddl__verify_answers(verify, err);
	for (int r = 0; r < made; r++)
		rank_fini(&w, r);
	free(w.ranks);
	return rc;
}
