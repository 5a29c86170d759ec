/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - what a communicator is doing, where other processes can read it: `ddl stat` asks a job that computes or hangs.
 *
 * Each communicator keeps a small memfd named ddl-state, which shows in /proc/PID/fd. Who may look at the process (its user, root)
 * opens it there and reads; nothing has to run in the process for that, and nothing is left behind when it ends. Counters are
 * written as requests start and complete; what they wait for is noted when a wait has lasted for a while, under a sequence lock:
 * the sequence is odd while it is written. All times are of the machine's monotonic clock.
 */
#ifndef DDL_ENGINE_STATE_H
#define DDL_ENGINE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport.h"

#define DDL__STATE_NAME    "ddl-state"
#define DDL__STATE_MAGIC   0x646c2d6574617473u
#define DDL__STATE_VERSION 1u
#define DDL__STATE_WAITS   32 /* waits that are noted at most */

struct ddl_comm;

struct ddl__state_wait {       /* of a lane of an active request */
	struct ddl__call call; /* of the request */
	uint64_t start;        /* how many times the request was started, with this one */
	uint64_t since_ns;     /* when the request moved last */
	uint64_t done, all;    /* bytes of the request */
	uint32_t request;      /* its id */
	uint32_t lane, step, steps;
	int32_t peer;      /* waited for */
	uint8_t what;      /* enum ddl__wait_for */
	uint8_t step_kind; /* enum ddl__step_kind */
	uint16_t spare;
	char peer_node[64]; /* NUL-ended, perhaps cut */
};

struct ddl__state {       /* version 1 */
	uint64_t magic;   /* DDL__STATE_MAGIC */
	uint32_t version; /* DDL__STATE_VERSION */
	uint32_t size;    /* of this struct */
	int32_t rank, ranks;
	int32_t pid;                          /* of the process, in its own namespace */
	int32_t polls;                        /* 1: a service thread makes progress */
	char job[64];                         /* of the communicator: PMIx's name, and which part of it */
	char slurm_job[24];                   /* SLURM_JOB_ID; "" none */
	char slurm_step[24];                  /* SLURM_STEP_ID */
	char node[64];                        /* name of the node */
	_Atomic uint64_t starts, completions; /* of requests, so far */
	_Atomic uint64_t tested_ns; /* when the program last asked for an active request that had not moved for a while; coarse */
	_Atomic uint32_t asleep;    /* a thread waits in a call */
	_Atomic int32_t failed;     /* 0, or the code it failed with */
	_Atomic uint32_t sequence;  /* odd while what follows is written */
	uint32_t n_active;          /* requests then */
	uint32_t n_waits;           /* noted */
	uint32_t spare;
	uint64_t noted_ns;                              /* when */
	uint64_t noted_starts, noted_completions;       /* the counters then */
	struct ddl__state_wait waits[DDL__STATE_WAITS]; /* the most urgent requests first */
};

/* Counts one more. The lock is held, so it need not be atomic for other writers: a short request would feel that. */
static inline void ddl__state_count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Makes comm's. Where there is no memfd it is plain memory, which nobody sees. -ENOMEM. */
int ddl__state_open(struct ddl_comm *comm);

/* Tells who it is, when rank, ranks, job and plan are known. From now on it is shown. */
void ddl__state_show(struct ddl_comm *comm);

/* Notes what the active requests wait for. The lock is held. */
void ddl__state_note(struct ddl_comm *comm);

/* The same, unless it was noted since the last start, completion or movement. The lock is held. */
void ddl__state_note_changed(struct ddl_comm *comm);

/* In a child after a fork, which is no rank. */
void ddl__state_forked(struct ddl_comm *comm);

void ddl__state_close(struct ddl_comm *comm);

/*
 * Reads the state behind a descriptor. Where it is caught in the middle of a change its waits are left out.
 * Returns 0; -EBADMSG (none of ours, or of another version).
 */
int ddl__state_read(int fd, struct ddl__state *state);

#endif
