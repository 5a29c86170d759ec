/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.c - what all-reduces take here, before the first one is chosen.
 *
 * At each of a few sizes candidates run in turns, in rounds, each for about SLOT_US or MAX_STARTS starts; the slowest rank's time
 * counts, and of the rounds the shortest: what others do to the machine meanwhile only adds. After the first round only those go on
 * that are near the best. What was much slower than the best is not measured at larger sizes, and what the model puts far behind is
 * not measured at all. The largest size is one that shows what links carry in the long run, not what their queues take at once.
 * Every decision is made of times that all ranks agreed on.
 *
 * What an earlier job kept for the same nodes is confirmed first: the best two of each size run twice. Where many of them take far
 * more or less than they did, everything is measured again.
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
	ROUNDS = 5,
	LARGE = 2,        /* sizes that take long */
	LARGE_ROUNDS = 3, /* of them */
	SLOT_US = 4000,   /* of a candidate in a round */
	MAX_STARTS = 10,  /* in a slot */
	AT_ONCE = 9,      /* candidates of a size */
	FEW = 4,          /* of the largest */
	HOPELESS = 6,     /* times the least prediction */
	DRIFTED = 4,      /* of what was kept, one time in so many may have changed */
	WIDE_RANKS = 128, /* more do not measure what connects each rank with every other */
};

#define SLOW  2.5 /* times the shortest measured at the size before: not measured any more */
#define LATE  1.1 /* the same at the largest size */
#define NEAR  1.6 /* times the shortest so far: goes on after the first round */
#define CLOSE 1.2 /* after the next ones */
#define DRIFT 1.6 /* times what it was: the network, or its use, is another */

#define FILL    262144 /* bytes of messages after which no queue on the way has room left */
#define LARGEST 1048576
static const uint64_t sizes[] = { 1024, 8192, 32768, 65536, 262144, LARGEST };
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
	double us;                   /* of one start */
};

static int run(struct measure *m, struct ddl_request *request)
{
	int rc = ddl_start(request);
	rc = rc ? rc : ddl_wait(request);
	if (rc < 0 && ddl_comm_get_error(m->comm, m->err) == 0)
		ddl__error_set(m->err, rc, "rank %d: measuring the network failed: %s", m->comm->rank, strerror(-rc));
	return rc;
}

/*
 * The time of one of so many starts, the same on every rank. Each begins behind a barrier: without one some algorithms let ranks
 * run ahead into the next start, and seem faster than one start is. The first `before` do not count.
 */
static int time_starts(struct measure *m, struct ddl_request *request, int before, int starts, double *us)
{
	uint64_t ns = 0;
	int rc = 0;
	for (int i = -before; rc == 0 && i < starts; i++) {
		rc = run(m, m->barrier);
		uint64_t begin = ddl__now_ns();
		rc = rc ? rc : run(m, request);
		ns += i < 0 ? 0 : ddl__now_ns() - begin;
	}
	m->time = (double)ns / 1000 / starts;
	rc = rc ? rc : run(m, m->agree);
	*us = m->time;
	return rc;
}

/* How many times the best's time the candidate took at the size before; 0: it was not invited there. */
static double behind(const struct measure *m, const struct ddl__candidate *candidate, size_t size)
{
	struct ddl__candidate best;
	if (size == 0 || ddl__tuning_find(m->tuning, sizes[size - 1], &best) < 0)
		return 0;
	return ddl__tuning_time(m->tuning, candidate, sizes[size - 1]) / ddl__tuning_time(m->tuning, &best, sizes[size - 1]);
}

/* Whether it is worth measuring at a size: what is slow for short messages may be fast for long ones, but not the other way. */
static bool hopeful(const struct measure *m, const struct ddl__candidate *candidate, size_t size)
{
	double times = behind(m, candidate, size);
	if (size + LARGE < N_SIZES)
		return times < SLOW;
	return times > 0 && times < (size == N_SIZES - 1 ? LATE : SLOW);
}

/* Chooses who runs at a size. Returns how many. */
static size_t invite(const struct measure *m, size_t size, struct contestant *contestants)
{
	struct ddl__candidate candidates[DDL__CANDIDATES_MAX];
	struct ddl__model model;
	double bytes = (double)sizes[size];
	ddl__model_init(&model, m->comm->layout);
	size_t n = ddl__candidates(DDL__ALLREDUCE, &model, bytes, &(const struct ddl__need){ 0 }, candidates), invited = 0;
	ddl__select(DDL__ALLREDUCE, NULL, &contestants[invited++].candidate, NULL); /* the ring is always among them */
	for (size_t i = 0; i < n && invited < (size == N_SIZES - 1 ? FEW : AT_ONCE); i++) {
		const struct ddl__candidate *c = &candidates[i];
		bool wide = (c->algorithm->build == ddl__build_direct || c->algorithm->build == ddl__build_exchange) &&
			    m->comm->size > WIDE_RANKS;
		bool hopeless = ddl__candidate_cost(c, &model, bytes) >
				HOPELESS * ddl__candidate_cost(&candidates[0], &model, bytes);
		if (!wide && !hopeless && hopeful(m, c, size) && !ddl__candidate_same(c, &contestants[0].candidate))
			contestants[invited++].candidate = *c;
	}
	return invited;
}

static int prepare(struct measure *m, struct contestant *c, uint64_t bytes)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	char name[DDL__CANDIDATE_TEXT_SIZE];
	double us = 0;
	options.wire = DDL_WIRE_NATIVE;
	options.accuracy = DDL_ACCURACY_FAST;
	options.reproducible = 0;
	options.algorithm = ddl__candidate_text(&c->candidate, name);
	int rc = ddl_allreduce_init(m->buffer, m->buffer, bytes / sizeof(float), DDL_FLOAT32, DDL_SUM, m->comm, &options,
				    &c->request, m->err);
	for (int warm = bytes > sizes[0]; rc == 0 && warm < 2; warm++) /* the first size makes the connections */
		rc = time_starts(m, c->request, 0, 1, &us);
	if (rc < 0)
		return rc;
	c->starts = us * MAX_STARTS < SLOT_US ? MAX_STARTS : us * 2 > SLOT_US ? 1 : (int)(SLOT_US / us);
	return 0;
}

/* Runs them in turns. */
static int compete(struct measure *m, struct contestant *contestants, size_t n, uint64_t bytes, int rounds)
{
	const int fills = bytes < FILL / 8 || bytes > FILL ? 0 : (int)(FILL / bytes); /* starts that fill the queues on the way */
	double best = 0, us = 0;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = prepare(m, &contestants[i], bytes);
	for (int round = 0; round < rounds; round++) {
		double limit = best * (round == 1 ? NEAR : CLOSE);
		for (size_t i = 0; rc == 0 && i < n; i++) {
			struct contestant *c = &contestants[i];
			if (round > 0 && c->us > limit)
				continue;
			rc = time_starts(m, c->request, fills, c->starts, &us);
			c->us = round == 0 || us < c->us ? us : c->us;
			best = best == 0 || us < best ? us : best;
		}
	}
	for (size_t i = 0; i < n; i++)
		ddl_request_free(contestants[i].request);
	return rc;
}

static int measure_size(struct measure *m, size_t size)
{
	struct contestant contestants[AT_ONCE] = { 0 };
	size_t n = invite(m, size, contestants);
	int rc = compete(m, contestants, n, sizes[size], size + LARGE < N_SIZES ? ROUNDS : LARGE_ROUNDS);
	for (size_t i = 0; rc == 0 && i < n; i++)
		ddl__tuning_add(m->tuning, sizes[size], &contestants[i].candidate, (uint64_t)(contestants[i].us * 1000) + 1);
	return rc;
}

/* The best two of a size. */
static size_t best_two(const struct ddl__tuning *tuning, uint64_t bytes, struct contestant *two)
{
	size_t n = 0;
	double ns[2] = { 0 };
	for (size_t i = 0; i < tuning->n; i++) {
		const struct ddl__tuned *t = &tuning->at[i];
		if (t->bytes != bytes || (n == 2 && (double)t->ns >= ns[1]))
			continue;
		n += n < 2;
		size_t at = n == 2 && (double)t->ns >= ns[0] ? 1 : 0;
		if (at == 0) {
			ns[1] = ns[0];
			two[1] = two[0];
		}
		ns[at] = (double)t->ns;
		two[at] = (struct contestant){ .candidate = t->candidate };
	}
	return n;
}

/* Whether what was kept still holds: but for one time in DRIFTED, which chance may have spoilt. */
static int confirm(struct measure *m, bool *holds)
{
	size_t probes = 0, drifted = 0;
	int rc = 0;
	for (size_t s = 0; rc == 0 && s < N_SIZES; s++) {
		struct contestant two[2] = { 0 };
		size_t n = best_two(m->tuning, sizes[s], two);
		rc = compete(m, two, n, sizes[s], LARGE_ROUNDS);
		for (size_t i = 0; rc == 0 && i < n; i++) {
			double was = ddl__tuning_time(m->tuning, &two[i].candidate, sizes[s]) / 1000;
			drifted += two[i].us > was * DRIFT || was > two[i].us * DRIFT;
		}
		probes += n;
	}
	*holds = probes >= N_SIZES && drifted <= probes / DRIFTED;
	return rc;
}

/* Opens what all measuring needs. */
static int begin(struct measure *m)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	m->buffer = calloc(1, LARGEST);
	m->tuning = calloc(1, sizeof(*m->tuning));
	if (!m->buffer || !m->tuning)
		return ddl__error_memory(m->err);
	options.algorithm = "doubling";
	options.reproducible = 0;
	int rc = ddl_barrier_init(m->comm, NULL, &m->barrier, m->err);
	rc = rc ? rc : ddl_allreduce_init(&m->time, &m->time, 1, DDL_FLOAT64, DDL_MAX, m->comm, &options, &m->agree, m->err);
	return rc ? rc : run(m, m->agree);
}

/* Takes over what rank 0 kept for these nodes. *found: it fits. */
static int recall(struct measure *m, const struct ddl__model *model, bool *found)
{
	struct ddl_comm *comm = m->comm;
	char *text = calloc(1, DDL__TUNING_TEXT_MAX);
	if (!text)
		return ddl__error_memory(m->err);
	if (comm->rank == 0)
		ddl__keep_read(comm->plan_text, text, DDL__TUNING_TEXT_MAX);
	int rc = ddl_broadcast(text, DDL__TUNING_TEXT_MAX, DDL_UINT8, 0, comm);
	if (rc < 0)
		ddl_comm_get_error(comm, m->err);
	*found = rc == 0 && *text && ddl__tuning_parse(text, strnlen(text, DDL__TUNING_TEXT_MAX), m->tuning, NULL) == 0 &&
		 ddl__tuning_fits(m->tuning, model);
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
	struct measure m = { .comm = comm, .err = err };
	struct ddl__model model;
	bool holds = false;
	if (!worthwhile(comm))
		return 0;
	ddl__model_init(&model, comm->layout);
	int rc = begin(&m);
	rc = rc ? rc : recall(&m, &model, &holds);
	if (rc == 0 && holds)
		rc = confirm(&m, &holds);
	if (rc == 0 && !holds) {
		ddl__tuning_init(m.tuning, &model);
		for (size_t i = 0; rc == 0 && i < N_SIZES; i++)
			rc = measure_size(&m, i);
		if (rc == 0 && comm->rank == 0)
			ddl__keep_write(comm->plan_text, m.tuning);
	}
	ddl_request_free(m.agree);
	ddl_request_free(m.barrier);
	free(m.buffer);
	if (rc < 0)
		free(m.tuning);
	else
		comm->tuning = m.tuning;
	return rc;
}
