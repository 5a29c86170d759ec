/* SPDX-License-Identifier: Apache-2.0 */
/* sync.c - see sync.h. Source of the method: Cristian, "Probabilistic clock synchronization", 1989. */
#include "sync.h"

#include <string.h>

#include "engine.h"
#include "error.h"

enum { ROUNDS = 12, TAG = 0x636c6f63 }; /* a channel of its own: programs seldom use that tag, and may */

struct exchange {
	struct ddl_comm *comm;
	struct ddl_error *err;
	int peer;
	struct ddl_request *send, *recv; /* owned */
	uint64_t out[2], in[2];          /* rank 0's time, and how wrong it may be */
};

static int open_exchange(struct exchange *e)
{
	int rc = ddl_send_init(e->out, 2, DDL_INT64, e->peer, TAG, e->comm, NULL, &e->send, e->err);
	return rc ? rc : ddl_recv_init(e->in, 2, DDL_INT64, e->peer, TAG, e->comm, NULL, &e->recv, e->err);
}

static void close_exchange(struct exchange *e)
{
	ddl_request_free(e->send);
	ddl_request_free(e->recv);
}

static int run(struct exchange *e, struct ddl_request *request)
{
	int rc = ddl_start(request);
	rc = rc ? rc : ddl_wait(request);
	if (rc < 0 && ddl_comm_get_error(e->comm, e->err) == 0)
		ddl__error_set(e->err, rc, "rank %d: comparing the clocks with rank %d failed: %s", e->comm->rank, e->peer,
			       strerror(-rc));
	return rc;
}

/* The first round makes the connection. */
static int ask(struct exchange *e, int64_t *ahead, uint64_t *error)
{
	uint64_t shortest = UINT64_MAX;
	int rc = 0;
	for (int i = 0; rc == 0 && i <= ROUNDS; i++) {
		const uint64_t begin = ddl__now_ns();
		rc = run(e, e->send);
		rc = rc ? rc : run(e, e->recv);
		const uint64_t trip = ddl__now_ns() - begin;
		if (rc < 0 || trip >= shortest)
			continue;
		shortest = trip;
		*ahead = (int64_t)(begin + trip / 2) - (int64_t)e->in[0];
		*error = trip / 2 + e->in[1];
	}
	return rc;
}

static int answer(struct exchange *e, int64_t ahead, uint64_t error)
{
	int rc = 0;
	for (int i = 0; rc == 0 && i <= ROUNDS; i++) {
		rc = run(e, e->recv);
		e->out[0] = (uint64_t)((int64_t)ddl__now_ns() - ahead);
		e->out[1] = error;
		rc = rc ? rc : run(e, e->send);
	}
	return rc;
}

int ddl__sync(struct ddl_comm *comm, int64_t *ahead_ns, uint64_t *error_ns, struct ddl_error *err)
{
	const int rank = comm->rank, low = rank ? rank & -rank : comm->size; /* children are rank + 1, 2, 4 ... below low */
	int rc = 0;
	*ahead_ns = 0;
	*error_ns = 0;
	if (rank) {
		struct exchange e = { .comm = comm, .err = err, .peer = rank & (rank - 1) };
		rc = open_exchange(&e);
		rc = rc ? rc : ask(&e, ahead_ns, error_ns);
		close_exchange(&e);
	}
	int most = 1;
	while (most < low && most < comm->size - rank)
		most *= 2;
	for (int step = most / 2; rc == 0 && step > 0; step /= 2) { /* the largest part of the tree first */
		struct exchange e = { .comm = comm, .err = err, .peer = rank + step };
		rc = open_exchange(&e);
		rc = rc ? rc : answer(&e, *ahead_ns, *error_ns);
		close_exchange(&e);
	}
	return rc;
}
