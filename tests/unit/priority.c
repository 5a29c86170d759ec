/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priorities in the engine, over transport/loop: all ranks in this process, one thread. Whenever a rank is about to send a slice,
 * no request that is more urgent there and active may be able to move. What makes one able to move in the middle of a pass (a start
 * by another thread, a slice that came, a credit) is done from within the sending of slices, by chance: a seed fixes it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine_world.h"

enum { JOBS = 3, STARTS = 4 };

struct job { /* a request on all ranks */
	struct ddl_request *requests[RANKS_MAX];
	float *send[RANKS_MAX], *recv[RANKS_MAX];
	size_t count;
	int priority;
	int starts[RANKS_MAX]; /* so far */
	size_t sent;           /* slices */
};

static struct {
	struct world w;
	struct job jobs[JOBS];
	const struct ddl__transport_ops *real;
	struct ddl__transport_ops hooked;
	uint64_t seed;
	unsigned depth;   /* of slices that are sent from within the sending of slices */
	bool stirs;       /* others are started and driven meanwhile */
	size_t overtaken; /* slices sent while a more urgent request was active and could not move */
	char fault[256];  /* the first, told when the engine's locks are given back */
} race;

static bool lane_moves(const struct ddl_request *r, const struct ddl__lane_state *lane)
{
	const struct ddl__step *step = &lane->steps->steps[lane->step];
	size_t bytes;

	if (lane->step == lane->steps->n)
		return false;
	if (step->wait_lane != DDL__NO_WAIT && r->lanes[step->wait_lane].step <= step->wait_step)
		return false;
	if (ddl__step_receives(step->kind) && !lane->rx_ops->rx_slot(lane->rx, &bytes))
		return false;
	return !ddl__step_sends(step->kind) || lane->tx_ops->tx_slot(lane->tx);
}

static bool can_move(const struct ddl_request *r)
{
	for (uint32_t l = 0; l < r->schedule->n_lanes; l++)
		if (lane_moves(r, &r->lanes[l]))
			return true;
	return false;
}

static void start(int job, int rank)
{
	struct job *j = &race.jobs[job];

	if (j->starts[rank] == STARTS || atomic_load(&j->requests[rank]->active))
		return;
	j->starts[rank]++;
	assert_int_equal(ddl_start(j->requests[rank]), 0);
}

/* Something of somebody: what another thread, or another process, might do at this moment. */
static void stir(void)
{
	for (int k = 0; k < 3; k++) {
		uint64_t x = next_random(&race.seed);
		int job = (int)(x % JOBS), rank = (int)((x >> 8) % (uint64_t)race.w.n);

		if ((x >> 16) % 2)
			start(job, rank);
		else
			assert_true(ddl_test(race.jobs[job].requests[rank]) >= 0);
	}
}

static void find(const struct ddl__tx *tx, int *job, int *rank)
{
	for (*job = 0; *job < JOBS; ++*job)
		for (*rank = 0; *rank < race.w.n; ++*rank) {
			const struct ddl_request *r = race.jobs[*job].requests[*rank];

			for (uint32_t l = 0; l < r->schedule->n_lanes; l++)
				if (r->lanes[l].tx == tx)
					return;
		}
	fail_msg("a slice of no request");
}

static void tx_send(struct ddl__tx *tx, size_t bytes)
{
	int job, rank;

	find(tx, &job, &rank);
	for (int other = 0; other < JOBS; other++) {
		const struct ddl_request *r = race.jobs[other].requests[rank];

		if (race.jobs[other].priority <= race.jobs[job].priority || !atomic_load(&r->active))
			continue;
		if (can_move(r) && !race.fault[0])
			snprintf(race.fault, sizeof(race.fault),
				 "rank %d of %d sends a slice of priority %d while one of priority %d can move (%zu slices so far)",
				 rank, race.w.n, race.jobs[job].priority, race.jobs[other].priority, race.jobs[job].sent);
		race.overtaken++;
	}
	race.jobs[job].sent++;
	race.real->tx_send(tx, bytes);
	if (race.stirs && race.depth == 0) {
		race.depth++;
		stir();
		race.depth--;
	}
}

static void make_job(int job, size_t count, int priority, int rings, const char *algorithm)
{
	struct job *j = &race.jobs[job];
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err = { 0 };

	*j = (struct job){ .count = count, .priority = priority };
	options.priority = priority;
	options.rings = rings;
	options.algorithm = algorithm;
	for (int r = 0; r < race.w.n; r++) {
		j->send[r] = malloc(count * sizeof(float));
		j->recv[r] = malloc(count * sizeof(float));
		for (size_t i = 0; i < count; i++)
			j->send[r][i] = (float)((int)(i % 100) + r);
		if (ddl_allreduce_init(j->send[r], j->recv[r], count, DDL_FLOAT32, DDL_SUM, race.w.comms[r], &options,
				       &j->requests[r], &err) < 0)
			fail_msg("%s", err.text);
	}
	for (int r = 0; r < race.w.n; r++)
		start(job, r);
	drive_well(j->requests, race.w.n); /* all lanes are connected now */
	for (int r = 0; r < race.w.n; r++)
		for (uint32_t l = 0; l < j->requests[r]->schedule->n_lanes; l++) {
			race.real = j->requests[r]->lanes[l].tx_ops ? j->requests[r]->lanes[l].tx_ops : race.real;
			j->requests[r]->lanes[l].tx_ops = &race.hooked;
		}
	race.hooked = *race.real;
	race.hooked.tx_send = tx_send;
}

static void free_job(int job)
{
	struct job *j = &race.jobs[job];
	const int n = race.w.n;

	for (int r = 0; r < n; r++) {
		for (size_t i = 0; i < j->count; i++)
			assert_true(j->recv[r][i] == (float)(n * (int)(i % 100) + n * (n - 1) / 2));
		for (uint32_t l = 0; l < j->requests[r]->schedule->n_lanes; l++)
			j->requests[r]->lanes[l].tx_ops = race.real;
		assert_int_equal(ddl_request_free(j->requests[r]), 0);
		free(j->send[r]);
		free(j->recv[r]);
	}
}

/* Starts all jobs on all ranks as often as they are to be, and drives them to the end. */
static void run_to_the_end(void)
{
	for (int left = 1, pass = 0; left; pass++) {
		assert_true(pass < PASSES_MAX);
		left = 0;
		for (int job = 0; job < JOBS; job++)
			for (int r = 0; r < race.w.n; r++) {
				start(job, r);
				int rc = ddl_test(race.jobs[job].requests[r]);
				assert_true(rc >= 0);
				left += rc == 0 || race.jobs[job].starts[r] < STARTS;
			}
	}
}

static void race_of(int n, int rings, const char *algorithm, uint64_t seed)
{
	memset(&race, 0, sizeof(race));
	race.seed = seed;
	world_init(&race.w, n, seed, TIMEOUT_MS);
	make_job(0, 150000, 0, rings, algorithm); /* more slices than slots */
	make_job(1, 40000, 3, rings, algorithm);
	make_job(2, 5000, 7, 1, NULL);
	race.stirs = true;
	run_to_the_end();
	if (race.fault[0])
		fail_msg("%s: %s", algorithm, race.fault);
	for (int job = 0; job < JOBS; job++) {
		assert_true(race.jobs[job].sent > 0);
		free_job(job);
	}
	world_fini(&race.w);
}

static void no_slice_goes_before_a_more_urgent_one_that_can(void **state)
{
	static const char *const algorithms[] = { "ring", "multiring", "direct", "halving", "knomial", "tree", "doubling" };
	size_t overtaken = 0;

	for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++)
		for (int n = 2; n <= 9; n += n < 5 ? 1 : 4) {
			race_of(n, n % 3 + 1, algorithms[a], 1000 * a + (uint64_t)n);
			overtaken += race.overtaken;
		}
	assert_true(overtaken > 1000); /* less urgent ones do go on while the urgent ones wait for others */
}

static void a_long_request_that_was_started_earlier_hardly_holds_an_urgent_one_up(void **state)
{
	size_t before, all;

	memset(&race, 0, sizeof(race));
	race.seed = 7;
	world_init(&race.w, 4, 1, TIMEOUT_MS);
	make_job(0, 2000000, 0, 1, "ring");
	make_job(1, 2000, 1, 1, "ring");
	make_job(2, 1, 9, 1, NULL);
	all = race.jobs[0].sent;
	for (int r = 0; r < race.w.n; r++)
		start(0, r);
	for (int r = 0; r < race.w.n; r++)
		assert_int_equal(ddl_test(race.jobs[0].requests[r]), 0);
	before = race.jobs[0].sent;
	for (int r = 0; r < race.w.n; r++)
		start(1, r);
	drive_well(race.jobs[1].requests, race.w.n);
	before = race.jobs[0].sent - before;
	run_to_the_end();
	all = (race.jobs[0].sent - all) / (STARTS - 1);
	assert_true(before > 0);
	assert_true(before < all / 2); /* slices of all ranks */
	for (int job = 0; job < JOBS; job++)
		free_job(job);
	world_fini(&race.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_slice_goes_before_a_more_urgent_one_that_can),
		cmocka_unit_test(a_long_request_that_was_started_earlier_hardly_holds_an_urgent_one_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
