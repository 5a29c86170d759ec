/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wires that round, over transport/loop: how many bytes travel, the same bits on all ranks and in every run whatever is asked for,
 * all-gathers that round once, chance that is right on average, errors that are fed back and do not add up, checkpoints, refusals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "engine_world.h"
#include "stats.h"

enum { COUNT_MAX = 6000 };

struct job {
	enum ddl__collective collective; /* all-reduce, reduce-scatter, all-gather */
	const char *algorithm;
	enum ddl_op op;
	enum ddl_wire wire;
	enum ddl_rounding rounding;
	uint64_t seed;
	int feedback;
	uint32_t rings;
	size_t count; /* of a block, or of the whole */
	float *send[RANKS_MAX], *recv[RANKS_MAX];
	struct ddl_request *requests[RANKS_MAX];
};

static size_t input_of(const struct job *job, int n)
{
	return job->collective == DDL__REDUCE_SCATTER ? job->count * (size_t)n : job->count;
}

static size_t output_of(const struct job *job, int n)
{
	return job->collective == DDL__ALLGATHER ? job->count * (size_t)n : job->count;
}

static int try_init(const struct job *job, struct ddl_comm *comm, int r, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	options.algorithm = job->algorithm;
	options.wire = job->wire;
	options.rounding = job->rounding;
	options.seed = job->seed;
	options.error_feedback = job->feedback;
	options.rings = (int)job->rings;
	if (job->collective == DDL__ALLGATHER)
		return ddl_allgather_init(job->send[r], job->recv[r], job->count, DDL_FLOAT32, comm, &options, request, err);
	if (job->collective == DDL__REDUCE_SCATTER)
		return ddl_reduce_scatter_init(job->send[r], job->recv[r], job->count, DDL_FLOAT32, job->op, comm, &options,
					       request, err);
	return ddl_allreduce_init(job->send[r], job->recv[r], job->count, DDL_FLOAT32, job->op, comm, &options, request, err);
}

static void open_requests(struct world *w, struct job *job)
{
	struct ddl_error err = { 0 };
	for (int r = 0; r < w->n; r++)
		if (try_init(job, w->comms[r], r, &job->requests[r], &err) < 0)
			fail_msg("%s: %s", job->algorithm ? job->algorithm : "", err.text);
}

static void job_open(struct world *w, struct job *job)
{
	for (int r = 0; r < w->n; r++) {
		job->send[r] = calloc(input_of(job, w->n) + 1, sizeof(float));
		job->recv[r] = calloc(output_of(job, w->n) + 1, sizeof(float));
	}
	open_requests(w, job);
}

static void close_requests(struct world *w, struct job *job)
{
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl_request_free(job->requests[r]), 0);
}

static void job_close(struct world *w, struct job *job)
{
	close_requests(w, job);
	for (int r = 0; r < w->n; r++) {
		free(job->send[r]);
		free(job->recv[r]);
	}
}

static void start(struct world *w, struct job *job)
{
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl_start(job->requests[r]), 0);
	drive_well(job->requests, w->n);
}

/* Numbers of many magnitudes, and now and then what is none. */
static float some_number(uint64_t *seed, bool odd)
{
	static const float odds[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f };
	uint64_t x = next_random(seed);
	if (odd && x % 64 == 0)
		return odds[x / 64 % 6];
	float f = ldexpf((float)(x >> 40) * 0x1p-24f, -(int)(x % 12));
	return x >> 16 & 1 ? -f : f;
}

static void fill(struct world *w, struct job *job, uint64_t *seed, bool odd)
{
	for (int r = 0; r < w->n; r++)
		for (size_t i = 0; i < input_of(job, w->n); i++)
			job->send[r][i] = some_number(seed, odd);
}

/* ---- the same bits ---- */

/* Three starts of a request; the last one's output goes to `result`. */
static void run_starts(struct world *w, struct job *job, uint64_t seed, bool odd, float *result)
{
	const size_t bytes = job->count * sizeof(float);
	job_open(w, job);
	for (int s = 0; s < 3; s++) {
		fill(w, job, &seed, odd);
		start(w, job);
		for (int r = 1; r < w->n; r++)
			if (memcmp(job->recv[0], job->recv[r], bytes) != 0)
				fail_msg("%s, %d ranks, %zu elements, op %d, wire %d, rounding %d, feedback %d, start %d: rank %d "
					 "has "
					 "other bits than rank 0",
					 job->algorithm, w->n, job->count, job->op, job->wire, job->rounding, job->feedback, s, r);
	}
	memcpy(result, job->recv[0], bytes);
	job_close(w, job);
}

static void all_ranks_and_runs_have_the_same_bits_whatever_is_asked_for(void **state)
{
	static const int sizes[] = { 1, 2, 3, 6, 8, 11, 16 };
	static float first[COUNT_MAX], second[COUNT_MAX];
	uint64_t seed = 12;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
			for (int k = 0; k < 12 && a->collective == DDL__ALLREDUCE; k++) {
				uint64_t x = next_random(&seed);
				struct job job = { .collective = DDL__ALLREDUCE,
						   .algorithm = a->name,
						   .op = k % 6 ? (x & 1 ? DDL_SUM : DDL_AVG) : DDL_MAX,
						   .wire = (enum ddl_wire)(DDL_WIRE_BFLOAT16 + k % 3),
						   .rounding = (enum ddl_rounding)(k / 3 % 2),
						   .seed = x,
						   .feedback = k % 6 ? k / 6 : 0,
						   .rings = 1 + (uint32_t)(x >> 8) % 3,
						   .count = (x >> 16) % 4 ? (x >> 20) % COUNT_MAX : (x >> 20) % 400 };
				for (int run = 0; run < 2; run++) { /* of fresh communicators, the second with other timing */
					struct world w;
					world_init(&w, sizes[s], 5 + s, TIMEOUT_MS);
					ddl__loop_world_jitter(w.loop, run ? 3 : 0, x);
					run_starts(&w, &job, x, k % 2, run ? second : first);
					world_fini(&w);
				}
				assert_memory_equal(first, second, job.count * sizeof(float));
			}
}

/* ---- bytes ---- */

static uint64_t bytes_sent(struct world *w, struct job *job)
{
	uint64_t sum = 0;
	uint64_t seed = 4;
	job_open(w, job);
	fill(w, job, &seed, false);
	start(w, job);
	for (int r = 0; r < w->n; r++) {
		struct ddl_request_stats stats = { .struct_size = sizeof(stats) };
		assert_int_equal(ddl_request_get_stats(job->requests[r], &stats), 0);
		sum += stats.all.bytes_sent;
	}
	job_close(w, job);
	return sum;
}

static void every_wire_takes_its_share_of_the_bytes(void **state)
{
	static const enum ddl__collective collectives[] = { DDL__ALLREDUCE, DDL__REDUCE_SCATTER, DDL__ALLGATHER };
	static const double shares[] = { [DDL_WIRE_BFLOAT16] = 0.5, [DDL_WIRE_FLOAT16] = 0.505, [DDL_WIRE_INT8] = 0.256 };
	struct world w;
	world_init(&w, 6, 3, TIMEOUT_MS);
	for (int r = 0; r < w.n; r++)
		assert_int_equal(ddl__stats_open(w.comms[r], DDL__OBSERVE_STATS), 0);
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		for (size_t c = 0; c < 3; c++) {
			struct job job = { .collective = collectives[c],
					   .algorithm = a->name,
					   .op = DDL_SUM,
					   .wire = DDL_WIRE_NATIVE,
					   .rings = 1,
					   .count = 100003 };
			if (a->collective != collectives[c] || a->build == ddl__build_bruck_allgather ||
			    a->build == ddl__build_multidirect) /* below the top elements travel as they are */
				continue;
			const uint64_t native = bytes_sent(&w, &job);
			for (int wire = DDL_WIRE_BFLOAT16; wire <= DDL_WIRE_INT8; wire++) {
				job.wire = (enum ddl_wire)wire;
				double share = (double)bytes_sent(&w, &job) / (double)native;
				if (!(share <= shares[wire] && share > 0.98 * shares[wire]))
					fail_msg("%s %s, wire %d: %g of float32's bytes", ddl__collective_name(a->collective),
						 a->name, wire, share);
			}
		}
	world_fini(&w);
}

/* ---- all-gather ---- */

static void an_allgather_rounds_once_and_exactly_so_on_every_rank(void **state)
{
	struct world w;
	uint64_t seed = 8;
	world_init(&w, 5, 3, TIMEOUT_MS);
	for (int k = 0; k < 12; k++) {
		struct job job = { .collective = DDL__ALLGATHER,
				   .wire = (enum ddl_wire)(DDL_WIRE_BFLOAT16 + k % 3),
				   .rings = 1 + (uint32_t)k % 2,
				   .count = next_random(&seed) % 2000 };
		const struct ddl__kernels *kernels = ddl__kernels_get(0, DDL_FLOAT32, job.wire);
		float *want = calloc(job.count + 1, sizeof(float));
		void *wire = calloc(job.count + 2, sizeof(float));
		job_open(&w, &job); /* the choice is the library's: an algorithm that rounds twice is not taken */
		fill(&w, &job, &seed, false);
		start(&w, &job);
		for (int from = 0; from < w.n; from++) {
			if (job.rings == 1) { /* a ring's part begins anew with a block */
				kernels->encode(wire, job.send[from], job.count);
				kernels->decode(want, wire, job.count);
				assert_memory_equal(job.recv[0] + (size_t)from * job.count, want, job.count * sizeof(float));
			}
			assert_memory_equal(job.recv[from], job.recv[0], job.count * (size_t)w.n * sizeof(float));
		}
		job_close(&w, &job);
		free(want);
		free(wire);
	}
	world_fini(&w);
}

/* ---- chance ---- */

/* Mean of the results of many starts of the same input; inputs on no wire's grid, beside one that makes the scale. */
static void mean_result(struct world *w, struct job *job, int starts, double *mean)
{
	for (size_t i = 0; i < job->count; i++)
		mean[i] = 0;
	job_open(w, job);
	for (int s = 0; s < starts; s++) {
		for (int r = 0; r < w->n; r++)
			for (size_t i = 0; i < job->count; i++)
				job->send[r][i] = i % 256 == 0 ? 1 : 0.5f + 0x1p-10f + (float)(i % 64) * 0x1p-16f;
		start(w, job);
		for (size_t i = 0; i < job->count; i++)
			mean[i] += (double)job->recv[0][i] / starts;
	}
	job_close(w, job);
}

/* The root of the mean square of what is wrong. */
static double wrong(const struct job *job, int n, const double *mean)
{
	double sum = 0;
	for (size_t i = 0; i < job->count; i++) {
		double want = n * (i % 256 == 0 ? 1 : 0.5 + 0x1p-10 + (double)(i % 64) * 0x1p-16);
		sum += (mean[i] - want) * (mean[i] - want);
	}
	return sqrt(sum / (double)job->count);
}

static void chance_is_right_on_average_where_the_nearest_is_always_wrong(void **state)
{
	enum { STARTS = 400, COUNT = 1024 };
	static const char *const algorithms[] = { "ring", "direct", "doubling" };
	double mean[COUNT];
	struct world w;
	world_init(&w, 4, 3, TIMEOUT_MS);
	for (int wire = DDL_WIRE_BFLOAT16; wire <= DDL_WIRE_INT8; wire++)
		for (size_t a = 0; a < 3; a++) {
			struct job job = { .collective = DDL__ALLREDUCE,
					   .algorithm = algorithms[a],
					   .op = DDL_SUM,
					   .wire = (enum ddl_wire)wire,
					   .seed = 5,
					   .count = COUNT };
			mean_result(&w, &job, 1, mean);
			const double nearest = wrong(&job, w.n, mean);
			job.rounding = DDL_ROUND_STOCHASTIC;
			mean_result(&w, &job, STARTS, mean);
			const double chance = wrong(&job, w.n, mean);
			if (!(chance < nearest / 4))
				fail_msg("wire %d, %s: by chance wrong by %g on average, to nearest by %g", wire, algorithms[a],
					 chance, nearest);
		}
	world_fini(&w);
}

static void another_seed_start_or_request_rounds_otherwise(void **state)
{
	enum { COUNT = 1000 };
	const size_t bytes = COUNT * sizeof(float);
	float kept[4][COUNT];
	struct world w;
	uint64_t seed = 3;
	world_init(&w, 4, 3, TIMEOUT_MS);
	struct job job = {
		.collective = DDL__ALLREDUCE, .op = DDL_SUM, .wire = DDL_WIRE_INT8, .rounding = DDL_ROUND_STOCHASTIC, .count = COUNT
	};
	job_open(&w, &job);
	fill(&w, &job, &seed, false);
	for (int s = 0; s < 2; s++) {
		start(&w, &job);
		memcpy(kept[s], job.recv[0], bytes);
	}
	for (int s = 2; s < 4; s++) { /* another request, then another with another seed */
		close_requests(&w, &job);
		job.seed = (uint64_t)s / 3;
		open_requests(&w, &job);
		start(&w, &job);
		memcpy(kept[s], job.recv[0], bytes);
	}
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(kept[i], kept[j], bytes);
	job_close(&w, &job);
	world_fini(&w);
}

/* ---- error feedback ---- */

/* The largest difference, in any element, between the sum of all starts' results and what it should be. */
static double drift(struct world *w, struct job *job, int starts)
{
	size_t out = output_of(job, w->n);
	double *sum = calloc(out * 2, sizeof(*sum)), worst = 0;
	uint64_t seed = 17;
	job_open(w, job);
	fill(w, job, &seed, false); /* the same input in every start: to nearest it is wrong in the same way each time */
	for (int s = 0; s < starts; s++) {
		start(w, job);
		for (size_t i = 0; i < out; i++)
			sum[i] += (double)job->recv[0][i];
	}
	for (int r = 0; r < w->n; r++)
		for (size_t i = 0; i < out; i++) {
			bool gather = job->collective == DDL__ALLGATHER;
			if (!gather)
				sum[out + i] += (double)job->send[r][i] / (job->op == DDL_AVG ? w->n : 1);
			else if (i / job->count == (size_t)r)
				sum[out + i] = (double)job->send[r][i % job->count];
		}
	for (size_t i = 0; i < out; i++)
		worst = fmax(worst, fabs(sum[i] - starts * sum[out + i]));
	job_close(w, job);
	free(sum);
	return worst;
}

/* Whether it is one of those for which all that is rounded is fed back. */
static bool feeds_all(const struct ddl__algorithm *a)
{
	return (a->collective == DDL__ALLREDUCE && a->build != ddl__build_doubling) || a->build == ddl__build_ring_allgather ||
	       a->build == ddl__build_ring_reduce_scatter;
}

static void errors_that_are_fed_back_do_not_add_up(void **state)
{
	enum { FEW = 10, MANY = 160 };
	struct world w;
	world_init(&w, 6, 3, TIMEOUT_MS);
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		for (int k = 0; k < 4 && feeds_all(a); k++) {
			struct job job = { .collective = a->collective,
					   .algorithm = a->name,
					   .op = a->collective == DDL__ALLGATHER ? 0
						 : k / 2                         ? DDL_AVG
										 : DDL_SUM,
					   .wire = k % 2 ? DDL_WIRE_INT8 : DDL_WIRE_BFLOAT16,
					   .rings = 1,
					   .count = 700 };
			const double without = drift(&w, &job, MANY);
			job.feedback = 1;
			const double few = drift(&w, &job, FEW), many = drift(&w, &job, MANY);
			if (!(many < 4 * few && many < without / 4))
				fail_msg("%s %s, op %d, wire %d: wrong by %g after %d starts and by %g after %d, without feedback "
					 "by %g",
					 ddl__collective_name(a->collective), a->name, job.op, job.wire, few, FEW, many, MANY,
					 without);
		}
	world_fini(&w);
}

static void what_is_no_number_leaves_nothing_behind(void **state)
{
	struct world w;
	uint64_t seed = 6;
	world_init(&w, 3, 3, TIMEOUT_MS);
	struct job job = { .collective = DDL__ALLREDUCE, .op = DDL_SUM, .wire = DDL_WIRE_INT8, .feedback = 1, .count = 1000 };
	job_open(&w, &job);
	fill(&w, &job, &seed, true);
	job.send[1][500] = NAN;
	job.send[2][501] = INFINITY;
	start(&w, &job);
	assert_true(isnan(job.recv[0][500]) && isinf(job.recv[0][501]));
	fill(&w, &job, &seed, false);
	start(&w, &job);
	for (size_t i = 0; i < job.count; i++)
		assert_true(isfinite(job.recv[0][i]));
	job_close(&w, &job);
	world_fini(&w);
}

static void a_checkpoint_goes_on_where_it_was_taken_and_a_reset_begins_anew(void **state)
{
	enum { COUNT = 1500, N = 4 };
	static float residual[N][COUNT], want[2][COUNT];
	struct world w;
	uint64_t seed = 6;
	world_init(&w, N, 3, TIMEOUT_MS);
	struct job job = { .collective = DDL__ALLREDUCE, .op = DDL_AVG, .wire = DDL_WIRE_INT8, .feedback = 1, .count = COUNT };
	job_open(&w, &job);
	fill(&w, &job, &seed, false);
	start(&w, &job);
	memcpy(want[0], job.recv[0], sizeof(want[0])); /* of a first start */
	start(&w, &job);
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_request_get_feedback(job.requests[r], residual[r], COUNT), 0);
	start(&w, &job);
	memcpy(want[1], job.recv[0], sizeof(want[1])); /* of the start after the checkpoint */
	assert_memory_not_equal(want[0], want[1], sizeof(want[0]));
	close_requests(&w, &job);
	open_requests(&w, &job);
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_request_set_feedback(job.requests[r], residual[r], COUNT), 0);
	start(&w, &job);
	assert_memory_equal(job.recv[0], want[1], sizeof(want[1]));
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_request_reset_feedback(job.requests[r]), 0);
	start(&w, &job);
	assert_memory_equal(job.recv[0], want[0], sizeof(want[0]));
	job_close(&w, &job);
	world_fini(&w);
}

/* ---- refusals ---- */

static void refuse(struct world *w, const struct job *job, int code, const char *word)
{
	struct ddl_request *request;
	struct ddl_error err = { 0 };
	assert_int_equal(try_init(job, w->comms[0], 0, &request, &err), code);
	if (!strstr(err.text, word))
		fail_msg("\"%s\" does not name %s", err.text, word);
}

static void what_cannot_be_is_refused_with_a_sentence(void **state)
{
	struct world w;
	float x[64] = { 0 };
	world_init(&w, 2, 3, TIMEOUT_MS);
	struct job job = { .collective = DDL__ALLREDUCE, .op = DDL_MAX, .wire = DDL_WIRE_INT8, .feedback = 1, .count = 9 };
	job.send[0] = job.recv[0] = x;
	refuse(&w, &job, -EINVAL, "max");
	job.op = DDL_SUM;
	job.feedback = 2;
	refuse(&w, &job, -EINVAL, "error_feedback");
	job.feedback = 0;
	job.rounding = (enum ddl_rounding)7;
	refuse(&w, &job, -EINVAL, "enum ddl_rounding");
	job.rounding = DDL_ROUND_NEAREST;
	job.wire = (enum ddl_wire)99;
	refuse(&w, &job, -EINVAL, "enum ddl_wire");
	job.wire = DDL_WIRE_BFLOAT16;
	job.algorithm = "bruck";
	job.collective = DDL__ALLGATHER;
	job.recv[0] = x + 32;
	refuse(&w, &job, -EOPNOTSUPP, "ring");
	job.collective = DDL__REDUCE_SCATTER;
	job.feedback = 1;
	refuse(&w, &job, -EOPNOTSUPP, "ring");
	world_fini(&w);
}

static void feedback_calls_know_which_requests_keep_any(void **state)
{
	struct world w;
	float residual[10] = { 0 };
	world_init(&w, 2, 3, TIMEOUT_MS);
	struct job job = { .collective = DDL__ALLREDUCE, .op = DDL_SUM, .wire = DDL_WIRE_INT8, .count = 10 };
	job_open(&w, &job);
	assert_int_equal(ddl_request_get_feedback(job.requests[0], residual, 10), -EOPNOTSUPP);
	assert_int_equal(ddl_request_reset_feedback(job.requests[0]), -EOPNOTSUPP);
	job_close(&w, &job);
	job.feedback = 1;
	job.wire = DDL_WIRE_NATIVE; /* rounds nothing */
	job_open(&w, &job);
	assert_int_equal(ddl_request_set_feedback(job.requests[0], residual, 10), -EOPNOTSUPP);
	job_close(&w, &job);
	job.wire = DDL_WIRE_BFLOAT16;
	job_open(&w, &job);
	assert_int_equal(ddl_request_get_feedback(job.requests[0], residual, 9), -EINVAL);
	assert_int_equal(ddl_request_set_feedback(job.requests[0], NULL, 10), -EINVAL);
	assert_int_equal(ddl_request_set_feedback(job.requests[0], residual, 10), 0);
	assert_int_equal(ddl_start(job.requests[0]), 0);
	assert_int_equal(ddl_request_get_feedback(job.requests[0], residual, 10), -EBUSY);
	assert_int_equal(ddl_request_reset_feedback(job.requests[0]), -EBUSY);
	assert_int_equal(ddl_start(job.requests[1]), 0);
	drive_well(job.requests, 2);
	job_close(&w, &job);
	world_fini(&w);
}

static void ranks_that_round_otherwise_are_told_before_the_first_byte(void **state)
{
	static const struct job others[] = {
		{ .rounding = DDL_ROUND_STOCHASTIC, .seed = 2 },
		{ .rounding = DDL_ROUND_NEAREST },
		{ .rounding = DDL_ROUND_STOCHASTIC, .seed = 1, .feedback = 1 },
	};
	for (size_t k = 0; k < 3; k++) {
		struct world w;
		struct ddl_error err = { 0 };
		int results[RANKS_MAX];
		float x[2][10] = { 0 };
		struct job job = { .collective = DDL__ALLREDUCE,
				   .op = DDL_SUM,
				   .wire = DDL_WIRE_INT8,
				   .rounding = DDL_ROUND_STOCHASTIC,
				   .seed = 1,
				   .count = 10 };
		world_init(&w, 2, 3, TIMEOUT_MS);
		for (int r = 0; r < 2; r++) {
			job.send[r] = job.recv[r] = x[r];
			if (r == 1) {
				job.rounding = others[k].rounding;
				job.seed = others[k].seed;
				job.feedback = others[k].feedback;
			}
			assert_int_equal(try_init(&job, w.comms[r], r, &job.requests[r], &err), 0);
		}
		for (int r = 0; r < 2; r++)
			ddl_start(job.requests[r]);
		drive(job.requests, 2, results);
		assert_true(results[0] == -EPROTO || results[1] == -EPROTO);
		ddl_comm_get_error(w.comms[0], &err);
		assert_non_null(strstr(err.text, "disagree"));
		assert_non_null(strstr(err.text, "stochastic with seed 1"));
		close_requests(&w, &job);
		world_fini(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ranks_and_runs_have_the_same_bits_whatever_is_asked_for),
		cmocka_unit_test(every_wire_takes_its_share_of_the_bytes),
		cmocka_unit_test(an_allgather_rounds_once_and_exactly_so_on_every_rank),
		cmocka_unit_test(chance_is_right_on_average_where_the_nearest_is_always_wrong),
		cmocka_unit_test(another_seed_start_or_request_rounds_otherwise),
		cmocka_unit_test(errors_that_are_fed_back_do_not_add_up),
		cmocka_unit_test(what_is_no_number_leaves_nothing_behind),
		cmocka_unit_test(a_checkpoint_goes_on_where_it_was_taken_and_a_reset_begins_anew),
		cmocka_unit_test(what_cannot_be_is_refused_with_a_sentence),
		cmocka_unit_test(feedback_calls_know_which_requests_keep_any),
		cmocka_unit_test(ranks_that_round_otherwise_are_told_before_the_first_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
