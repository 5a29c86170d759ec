/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stages.h - building schedules stage by stage: a stage is a run of steps in one lane, and it begins when the stage before it has
 * ended, whatever lane that was in. So the waits of algorithms that go through rounds are written once, here.
 */
#ifndef DDL_SCHED_STAGES_H
#define DDL_SCHED_STAGES_H

#include "schedule.h"

struct ddl__stages {
	struct ddl__schedule *schedule; /* borrowed */
	uint32_t lane;                  /* of the current stage: index in the schedule */
	uint32_t first;                 /* index of its first step */
	uint32_t wait_lane;             /* where the stage before it ended; DDL__NO_WAIT: there is none */
	uint32_t wait_step;             /* the last step of that one */
	uint64_t room;                  /* elements of the longest step that sends or receives: half of the slots */
	int rc;                         /* the first failure: later calls do nothing */
	struct ddl__step spare;         /* what step returns then */
};

struct ddl__part { /* one side of an exchange */
	enum ddl__step_kind kind;
	enum ddl__buffer src, dst; /* as the kind needs them */
	uint64_t begin, count;     /* elements */
	bool final;
};

/* How a message is cut for algorithms that send it, or large parts of it, to one peer after another. */
struct ddl__pieces {
	uint64_t n;     /* pieces, at least 1, so that one piece's round overlaps with another's */
	uint64_t slice; /* elements */
	uint64_t grain; /* elements: pieces and parts of them are multiples of it */
};

/* parts: into how many a piece is cut at most; slice_bytes: of the longest slice where the build does not say. */
struct ddl__pieces ddl__pieces_choose(const struct ddl__build *build, uint64_t parts, uint64_t slice_bytes);

/* The next stage follows nothing. */
void ddl__stages_begin(struct ddl__stages *stages);

/* Begins a stage in the lane of that index, and ends it. A stage without steps is as if it were not there. */
void ddl__stage_begin(struct ddl__stages *stages, uint32_t lane);
void ddl__stage_end(struct ddl__stages *stages);

/* Adds a step to the current stage; room is made as needed. Never NULL. */
struct ddl__step *ddl__stage_step(struct ddl__stages *stages, enum ddl__step_kind kind, enum ddl__buffer src, enum ddl__buffer dst,
				  uint64_t at, uint64_t count);

/*
 * A stage that sends one part and receives another, NULL: does not, in steps of `room` elements that take turns, the sends one
 * ahead: so two ranks that exchange parts of any length never wait for each other's room. Slots must hold two steps.
 */
void ddl__stage_exchange(struct ddl__stages *stages, uint32_t lane, const struct ddl__part *send, const struct ddl__part *receive);

#endif
