/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.h - DDL_CHECK: a sample of the all-reduces of a job in production is compared with another one of the same inputs, whose
 * elements travel as float32 (of float64 data: as float64).
 *
 * Which starts are taken is a hash of request and start, so all ranks take the same. Such a start copies the input and begins the
 * other all-reduce beside the user's; ddl_wait() and ddl_test() are through when both are. What each rank found (a hash of its
 * result, the errors, the first NaN or infinity of its input) is a note. Notes are gathered by an all-gather that begins together
 * with a start too: what is known of the inputs with the same one, what is known of the result with the next one, or when the
 * communicator is destroyed. So nothing ever waits for what another rank has not started anyhow, and ranks may go on starting and
 * waiting in different orders. Rank 0 tells what the notes say.
 *
 * Costs where it is on: for each all-reduce of floating-point numbers the memory of a copy (4 bytes an element; float64: 8), and
 * the slots of two more requests. Where it is off: a branch in each start and each wait.
 */
#ifndef DDL_CORE_AUDIT_H
#define DDL_CORE_AUDIT_H

#include "engine.h"
#include "ulp.h"

enum ddl__odd { DDL__ODD_NONE = 0, DDL__ODD_NAN = 1, DDL__ODD_INFINITY = 2 };

struct ddl__note {            /* what one rank found, in the order of its fields on all machines of a job alike */
	uint64_t start;       /* whose result it is about, from 1; 0: about none */
	uint64_t hash;        /* of the result */
	struct ddl__ulp ulp;  /* its errors */
	double wrong, whole;  /* sums of squares: of the errors, of what is right */
	uint64_t lost;        /* elements that are numbers on one side only */
	uint64_t input_start; /* whose input it is about; 0: about none */
	uint64_t odd_at;      /* first element of the input that is no finite number */
	uint32_t odd;         /* enum ddl__odd: what that is */
	uint32_t request;     /* id */
};

enum ddl__told { DDL__TOLD_ODD = 1, DDL__TOLD_BITS = 2, DDL__TOLD_LOST = 4, DDL__TOLD_ERROR = 8 }; /* bits: once a request each */

struct ddl__late { /* a result that no start followed */
	struct ddl__note note;
	struct ddl__call call;
	unsigned told; /* bits of enum ddl__told */
};

struct ddl__audit {             /* of a communicator */
	uint64_t rate;          /* starts that are taken, in units of 2^-64; UINT64_MAX: all */
	bool closed;            /* requests that are made now are the library's own */
	pthread_mutex_t lock;   /* guards all that follows */
	struct ddl__late *late; /* owned */
	size_t n_late, room_late;
	uint64_t requests;    /* that were made to be compared */
	uint64_t results;     /* that were compared */
	uint64_t odd;         /* inputs with NaN or infinities */
	uint64_t differing;   /* results that are not the same bits on all ranks */
	uint64_t lost;        /* results that lost numbers */
	double most;          /* largest error, ulp */
	uint64_t window_ns;   /* begin of the time in which lines are counted */
	unsigned lines, held; /* told in it; held back since */
};

struct ddl__audited {                          /* of a request */
	struct ddl_request *reference, *notes; /* owned */
	void *copy;                            /* input, and then result of the reference; owned */
	struct ddl__note mine;                 /* goes with the next start that takes notes */
	struct ddl__note *all;                 /* of all ranks; owned */
	uint64_t starts;                       /* so far */
	bool taken, noted;                     /* this start has a reference; takes notes */
	unsigned told;                         /* bits of enum ddl__told */
};

/* Requests made from now on are watched; rate as above, 0: none. The same on all ranks. 0 or -ENOMEM. */
int ddl__audit_open(struct ddl_comm *comm, uint64_t rate);

/* What no start followed is compared, and rank 0 tells how all was. Collective, unless the communicator has failed. */
void ddl__audit_report(struct ddl_comm *comm);
void ddl__audit_close(struct ddl_comm *comm);

/* Of a new request, if it is one that is compared. Collective. Returns 0, or negative with a sentence. */
int ddl__audited_open(struct ddl_request *request, struct ddl_error *err);
void ddl__audited_close(struct ddl_request *request);

/* A start begins; the user's part is not active. Returns 0; -EINVAL (active); or the communicator's failure. */
int ddl__audited_start(struct ddl_request *request);

/* The user's part of a start is complete. Returns 1: all of it; 0: not yet (only without wait); or the communicator's failure. */
int ddl__audited_finish(struct ddl_request *request, bool wait);

/* Whether a start is not finished. */
bool ddl__audited_active(const struct ddl_request *request);

/* audit_tell.c: what the notes of all ranks say, number `at` of each `n`. told: bits, updated. Takes the audit's lock. */
void ddl__audit_judge(struct ddl_comm *comm, const struct ddl__call *call, const struct ddl__note *notes, size_t n, size_t at,
		      unsigned *told);

/* audit_tell.c: the last word. */
void ddl__audit_summary(struct ddl_comm *comm);

/* A hash of bytes, continued: any changed bit changes it. */
uint64_t ddl__audit_hash(uint64_t hash, const void *data, size_t size);

#endif
