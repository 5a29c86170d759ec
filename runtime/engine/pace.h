/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h - how a thread that waits passes the time: it spins for some microseconds, then offers its core to others, then sleeps.
 *
 * Spinning is the fastest where every rank has a core of its own, and the slowest where ranks share one: the rank that is waited
 * for cannot run. There a waiter offers its core at once (sched_yield), which costs one switch, not a scheduler slice and not the
 * wake-up of a sleeper. Which of the two it is cannot be told from the number of ranks and cores alone: ranks may be bound, and a
 * scheduler may put two on one core while another is idle. But it can be felt: an offer that somebody takes lasts as long as that
 * one runs, an offer that nobody takes returns at once. So the pace learns from the offers.
 *
 * All that is worth while only where the peer answers soon. A wait that ends in a long sleep was not worth its spinning, one that
 * ends before, or in a short sleep, was; where most are not, as with long messages over slow links, a waiter sleeps at once.
 *
 * An offer that comes back late went to somebody who computes. Then no offers are made for a while: who sleeps is woken when its
 * peer has something, and the kernel lets a sleeper that wakes run before one that computes.
 *
 * Threads: any may wait at a time. The fields are hints, and no order between them matters.
 */
#ifndef DDL_ENGINE_PACE_H
#define DDL_ENGINE_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ddl__pace {                 /* of a communicator; all zero: sleeps at once */
	uint64_t spin_ns;          /* how long to spin */
	uint64_t offer_ns;         /* how long to offer the core, after that */
	atomic_int crowd;          /* 0 ... 16: how sure it is that ranks share this core */
	atomic_int patience;       /* 0 ... 16: how sure it is that spinning and offers pay */
	_Atomic uint64_t until_ns; /* no offers before that time */
};

enum ddl__rest { /* what a waiter does next */
		 DDL__REST_SPIN = 0,
		 DDL__REST_OFFER = 1,
		 DDL__REST_SLEEP = 2,
};

/* crowded: what to believe at first. */
void ddl__pace_init(struct ddl__pace *pace, bool crowded);

/* Whether ranks seem to share this core. */
bool ddl__pace_crowded(const struct ddl__pace *pace);

/* What to do at time now_ns, when nothing has moved for idle_ns. */
enum ddl__rest ddl__pace_next(const struct ddl__pace *pace, uint64_t now_ns, uint64_t idle_ns);

/* What was waited for came before it was time to sleep. */
void ddl__pace_paid(struct ddl__pace *pace);

/* A sleep lasted for lasted_ns. */
void ddl__pace_slept(struct ddl__pace *pace, uint64_t lasted_ns);

/* An offer began at now_ns and lasted for lasted_ns. */
void ddl__pace_learn(struct ddl__pace *pace, uint64_t now_ns, uint64_t lasted_ns);

#endif
