/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.c - what all-reduces take here, before the first one is chosen.
 *
 * Sizes go up by eights. At each, candidates run in turns, ROUNDS times, each for about SLOT_US or MAX_STARTS starts; the slowest
 * rank's time counts, and of the rounds the median. What was several times slower than the best is not measured at larger sizes, and
 * what the model puts far behind is not measured at all. Every decision is made of times that all ranks agreed on.
 */
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "engine.h"
#include "error.h"
#include "keep.h"

enum {
	ROUNDS = 3,
	SLOT_US = 6000,   /* of a candidate in a round */
	MAX_STARTS = 30,  /* in a slot */
	AT_ONCE = 10,     /* candidates of a size */
	HOPELESS = 6,     /* times the least prediction */
	SLOW = 3,         /* times the shortest measured at the size before */
	WIDE_RANKS = 128, /* more do not measure what connects each rank with every other */
};

static const uint64_t sizes[] = { 1024, 8192, 65536, 524288 };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

struct measure {
	struct ddl_comm *comm;
	struct ddl_error *err;
	struct ddl__tuning *tuning;  /* what is being made */
	float *buffer;               /* in place, zeroes */
	struct ddl_request *barrier; /* owned */
	struct ddl_request *agree;   /* owned: the largest of the ranks' `time` */
	double time;                 /* us */
};

struct contestant {
	struct ddl__candidate candidate;
	struct ddl_request *request; /* owned */
	int starts;                  /* in a slot */
	double us[ROUNDS];           /* of one start */
};

static int run(struct measure *m, struct ddl_request *request)
{
	int rc = ddl_start(request);
	rc = rc ? rc : ddl_wait(request);
	if (rc < 0 && ddl_comm_get_error(m->comm, m->err) == 0)
		ddl__error_set(m->err, rc, "rank %d: measuring the network failed: %s", m->comm->rank, strerror(-rc));
	return rc;
}

/* The time of one of so many starts, the same on every rank. */
static int time_starts(struct measure *m, struct ddl_request *request, int starts, double *us)
{
	int rc = run(m, m->barrier);
	uint64_t begin = ddl__now_ns();
	for (int i = 0; rc == 0 && i < starts; i++)
		rc = run(m, request);
	m->time = (double)(ddl__now_ns() - begin) / 1000 / starts;
	rc = rc ? rc : run(m, m->agree);
	*us = m->time;
	return rc;
}

/* Whether the candidate's time at the size before, where it has one, lets hope. */
static bool was_slow(const struct measure *m, const struct ddl__candidate *candidate, size_t size)
{
	struct ddl__candidate best;
	if (size == 0 || ddl__tuning_find(m->tuning, sizes[size - 1], &best) < 0)
		return false;
	double ns = ddl__tuning_time(m->tuning, candidate, sizes[size - 1]);
	return ns > SLOW * ddl__tuning_time(m->tuning, &best, sizes[size - 1]);
}

/* Chooses who runs at a size. Returns how many. */
static size_t invite(const struct measure *m, size_t size, struct contestant *contestants)
{
	struct ddl__candidate candidates[DDL__CANDIDATES_MAX];
	struct ddl__model model;
	double bytes = (double)sizes[size];
	ddl__model_init(&model, m->comm->layout);
	size_t n = ddl__candidates(DDL__ALLREDUCE, &model, bytes, candidates), invited = 0;
	for (size_t i = 0; i < n && invited < AT_ONCE; i++) {
		const struct ddl__candidate *c = &candidates[i];
		bool wide = c->algorithm->build == ddl__build_direct && m->comm->size > WIDE_RANKS;
		bool hopeless = ddl__candidate_cost(c, &model, bytes) >
				HOPELESS * ddl__candidate_cost(&candidates[0], &model, bytes);
		if (!wide && !hopeless && !was_slow(m, c, size))
			contestants[invited++] = (struct contestant){ .candidate = *c };
	}
	return invited;
}

static int prepare(struct measure *m, struct contestant *c, uint64_t bytes)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	char name[DDL__CANDIDATE_TEXT_SIZE];
	double us;
	options.wire = DDL_WIRE_NATIVE;
	options.algorithm = ddl__candidate_text(&c->candidate, name);
	int rc = ddl_allreduce_init(m->buffer, m->buffer, bytes / sizeof(float), DDL_FLOAT32, DDL_SUM, m->comm, &options,
				    &c->request, m->err);
	rc = rc ? rc : time_starts(m, c->request, 1, &us); /* makes the connections */
	rc = rc ? rc : time_starts(m, c->request, 1, &us);
	if (rc < 0)
		return rc;
	c->starts = us * MAX_STARTS < SLOT_US ? MAX_STARTS : us * 2 > SLOT_US ? 1 : (int)(SLOT_US / us);
	return 0;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int measure_size(struct measure *m, size_t size)
{
	struct contestant contestants[AT_ONCE];
	size_t n = invite(m, size, contestants);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = prepare(m, &contestants[i], sizes[size]);
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; rc == 0 && i < n; i++)
			rc = time_starts(m, contestants[i].request, contestants[i].starts, &contestants[i].us[round]);
	for (size_t i = 0; i < n; i++) {
		struct contestant *c = &contestants[i];
		if (rc == 0) {
			qsort(c->us, ROUNDS, sizeof(c->us[0]), by_time);
			ddl__tuning_add(m->tuning, sizes[size], &c->candidate, (uint64_t)(c->us[ROUNDS / 2] * 1000) + 1);
		}
		ddl_request_free(c->request);
	}
	return rc;
}

static int measure_all(struct measure *m)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	m->buffer = calloc(1, sizes[N_SIZES - 1]);
	if (!m->buffer)
		return ddl__error_memory(m->err);
	options.algorithm = "doubling";
	int rc = ddl_barrier_init(m->comm, NULL, &m->barrier, m->err);
	rc = rc ? rc : ddl_allreduce_init(&m->time, &m->time, 1, DDL_FLOAT64, DDL_MAX, m->comm, &options, &m->agree, m->err);
	rc = rc ? rc : run(m, m->agree);
	for (size_t i = 0; rc == 0 && i < N_SIZES; i++)
		rc = measure_size(m, i);
	ddl_request_free(m->agree);
	ddl_request_free(m->barrier);
	free(m->buffer);
	return rc;
}

/* Takes over what rank 0 kept of this job. *found: it fits. */
static int recall(struct ddl_comm *comm, struct ddl__tuning *tuning, bool *found, struct ddl_error *err)
{
	struct ddl__model model;
	char *text = calloc(1, DDL__TUNING_TEXT_MAX);
	if (!text)
		return ddl__error_memory(err);
	if (comm->rank == 0)
		ddl__keep_read(comm->plan, comm->plan_text, text, DDL__TUNING_TEXT_MAX);
	int rc = ddl_broadcast(text, DDL__TUNING_TEXT_MAX, DDL_UINT8, 0, comm);
	if (rc < 0)
		ddl_comm_get_error(comm, err);
	ddl__model_init(&model, comm->layout);
	*found = rc == 0 && *text && ddl__tuning_parse(text, strnlen(text, DDL__TUNING_TEXT_MAX), tuning, NULL) == 0 &&
		 ddl__tuning_fits(tuning, &model);
	free(text);
	return rc;
}

static bool worthwhile(const struct ddl_comm *comm)
{
	size_t nodes = 0;
	for (size_t i = 0; i < comm->plan->n_nodes; i++)
		nodes += comm->layout->first[i + 1] > comm->layout->first[i];
	return nodes > 1 && comm->size > 2 && !comm->tuning && !ddl__ask_forced(comm);
}

int ddl__measure(struct ddl_comm *comm, struct ddl_error *err)
{
	if (!worthwhile(comm))
		return 0;
	struct ddl__tuning *tuning = calloc(1, sizeof(*tuning));
	struct ddl__model model;
	bool found = false;
	int rc = tuning ? 0 : ddl__error_memory(err);
	if (rc == 0 && *comm->plan->job)
		rc = recall(comm, tuning, &found, err);
	if (rc == 0 && !found) {
		struct measure m = { .comm = comm, .err = err, .tuning = tuning };
		ddl__model_init(&model, comm->layout);
		ddl__tuning_init(tuning, &model);
		rc = measure_all(&m);
		if (rc == 0 && comm->rank == 0 && *comm->plan->job)
			ddl__keep_write(comm->plan, comm->plan_text, tuning);
	}
	if (rc < 0)
		free(tuning);
	else
		comm->tuning = tuning;
	return rc;
}
