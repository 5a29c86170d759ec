/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DDL_CHECK over transport/loop: a rank whose result was damaged is named, and one whose input is not finite, with the element.
 * Good results give no such line whatever the wire, and errors are of the wire's size. Which starts are taken is the same on
 * all ranks, and nothing waits where ranks start in different orders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "audit.h"
#include "engine_world.h"
#include "settings.h"

enum { N = 4, COUNT = 3000 };

/* ---- what is told ---- */

static FILE *told;
static int terminal;

static void listen_in(void)
{
	fflush(stderr);
	told = tmpfile();
	terminal = dup(STDERR_FILENO);
	assert_non_null(told);
	assert_true(terminal >= 0 && dup2(fileno(told), STDERR_FILENO) >= 0);
}

/* What was written to the standard error stream since; to be freed. */
static char *end_listening(void)
{
	char *text = calloc(1, 1 << 16);
	assert_true(dup2(terminal, STDERR_FILENO) >= 0);
	close(terminal);
	rewind(told);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 16) - 1, told) > 0);
	fclose(told);
	return text;
}

static void expect(const char *text, const char *part, int times)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, part)); at++)
		n++;
	if (n != times)
		fail_msg("\"%s\" is told %d times, not %d, in:\n%s", part, n, times, text);
}

/* ---- all-reduces ---- */

struct job {
	enum ddl_type type;
	enum ddl_wire wire;
	enum ddl_op op;
	const char *algorithm;
	int feedback;
	bool in_place;
	void *send[N], *recv[N];
	struct ddl_request *requests[N];
};

/* What is told from here on is kept until end(). */
static void world_audited(struct world *w, double share)
{
	listen_in();
	world_init(w, N, 2, TIMEOUT_MS);
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl__audit_open(w->comms[r], share >= 1 ? UINT64_MAX : (uint64_t)(share * 0x1p64)), 0);
}

static void job_open(struct world *w, struct job *job)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err;
	options.wire = job->wire;
	options.algorithm = job->algorithm;
	options.error_feedback = job->feedback;
	for (int r = 0; r < N; r++) {
		job->recv[r] = calloc(COUNT, ddl_type_size(job->type));
		job->send[r] = job->in_place ? job->recv[r] : calloc(COUNT, ddl_type_size(job->type));
		if (ddl_allreduce_init(job->send[r], job->recv[r], COUNT, job->type, job->op, w->comms[r], &options,
				       &job->requests[r], &err) < 0)
			fail_msg("%s", err.text);
	}
}

static void job_close(struct job *job)
{
	for (int r = 0; r < N; r++) {
		assert_int_equal(ddl_request_free(job->requests[r]), 0);
		free(job->recv[r]);
		if (!job->in_place)
			free(job->send[r]);
	}
}

/* Returns what was told, to be freed. */
static char *end(struct world *w, struct job *jobs, size_t n)
{
	for (size_t j = 0; j < n; j++)
		job_close(&jobs[j]);
	world_fini(w);
	return end_listening();
}

static void fill(struct job *job, uint64_t *seed)
{
	for (int r = 0; r < N; r++)
		for (size_t i = 0; i < COUNT; i++)
			store(job->send[r], job->type, i, (double)(next_random(seed) >> 11) * 0x1p-53 - 0.4);
}

static void start(struct job *job)
{
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_start(job->requests[r]), 0);
	drive_well(job->requests, N);
}

/* ---- tests ---- */

static void any_changed_bit_or_length_changes_the_hash(void **state)
{
	unsigned char data[41] = { 0 };
	const uint64_t hash = ddl__audit_hash(0, data, sizeof(data));
	assert_true(ddl__audit_hash(0, data, 40) != hash);
	for (size_t i = 0; i < sizeof(data) * 8; i++) {
		data[i / 8] ^= (unsigned char)(1 << i % 8);
		assert_true(ddl__audit_hash(0, data, sizeof(data)) != hash);
		data[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	assert_true(ddl__audit_hash(0, data, sizeof(data)) == hash);
}

static void good_results_give_errors_of_the_wires_size_and_no_complaint(void **state)
{
	static const struct job jobs[] = {
		{ .type = DDL_FLOAT32, .wire = DDL_WIRE_NATIVE, .op = DDL_SUM, .algorithm = "ring" },
		{ .type = DDL_FLOAT32, .wire = DDL_WIRE_BFLOAT16, .op = DDL_SUM, .algorithm = "ring", .in_place = true },
		{ .type = DDL_FLOAT32, .wire = DDL_WIRE_FLOAT16, .op = DDL_AVG, .algorithm = "direct", .in_place = true },
		{ .type = DDL_FLOAT32, .wire = DDL_WIRE_INT8, .op = DDL_SUM, .algorithm = "halving" },
		{ .type = DDL_FLOAT32, .wire = DDL_WIRE_INT8, .op = DDL_SUM, .algorithm = "ring", .feedback = 1, .in_place = true },
		{ .type = DDL_FLOAT32, .wire = DDL_WIRE_BFLOAT16, .op = DDL_AVG, .algorithm = "direct", .feedback = 1 },
		{ .type = DDL_BFLOAT16, .wire = DDL_WIRE_NATIVE, .op = DDL_SUM, .algorithm = "tree", .in_place = true },
		{ .type = DDL_FLOAT16, .wire = DDL_WIRE_NATIVE, .op = DDL_MAX, .algorithm = "ring" },
		{ .type = DDL_FLOAT64, .wire = DDL_WIRE_NATIVE, .op = DDL_SUM, .algorithm = "ring", .in_place = true },
	};
	uint64_t seed = 7;
	for (size_t j = 0; j < sizeof(jobs) / sizeof(jobs[0]); j++) {
		struct job job = jobs[j];
		struct world w;
		world_audited(&w, 1);
		job_open(&w, &job);
		for (int s = 0; s < 5; s++) {
			fill(&job, &seed);
			start(&job);
		}
		const double most = w.comms[0]->audit->most;
		char *text = end(&w, &job, 1);
		expect(text, "5 results compared", 1);
		expect(text, job.type == DDL_FLOAT64 ? "against float64" : "against float32", most > 0);
		expect(text, "not the same bits on all ranks: 0; that lost numbers: 0; inputs with NaN or infinity: 0", 1);
		expect(text, "check: ", most > 0 ? 2 : 1);
		if (!(most <= 4 && (most > 0 || job.op == DDL_MAX || (job.type == DDL_FLOAT64 || job.wire == DDL_WIRE_NATIVE))))
			fail_msg("job %zu: %g ulp", j, most);
		free(text);
	}
}

/* The owner's result on its way to another rank: slice 1 between them, behind the contribution; and so on in each start. */
static void a_rank_whose_result_is_damaged_is_named(void **state)
{
	for (int starts = 1; starts <= 4; starts++) { /* alone, and with others behind it */
		struct job job = { .type = DDL_FLOAT32, .wire = DDL_WIRE_BFLOAT16, .op = DDL_SUM, .algorithm = "direct" };
		struct world w;
		uint64_t seed = 1;
		world_audited(&w, 1);
		job_open(&w, &job);
		ddl__loop_world_damage(w.loop, 1, 3, job.requests[3]->id, 1);
		for (int s = 0; s < starts; s++) {
			fill(&job, &seed);
			start(&job);
		}
		assert_memory_equal(job.recv[0], job.recv[2], COUNT * sizeof(float));
		assert_int_equal(memcmp(job.recv[0], job.recv[3], COUNT * sizeof(float)) != 0, starts == 1);
		char *text = end(&w, &job, 1);
		expect(text, "start 1: the result of rank 3 on node ", 1);
		expect(text, "is not the same bits", 1);
		expect(text, "not the same bits on all ranks: 1;", 1);
		free(text);
	}
}

static void the_rank_that_holds_nan_first_is_named_with_the_element_once(void **state)
{
	struct job job = { .type = DDL_FLOAT32, .wire = DDL_WIRE_INT8, .op = DDL_SUM, .in_place = true };
	struct world w;
	uint64_t seed = 1;
	world_audited(&w, 1);
	job_open(&w, &job);
	for (int s = 0; s < 4; s++) {
		fill(&job, &seed);
		for (int r = 0; s > 0 && r < N; r++) /* from the second start on in rank 2, then in all */
			if (r == 2 || s > 1) {
				((float *)job.send[r])[17] = r % 2 ? INFINITY : NAN;
				((float *)job.send[r])[900] = NAN;
			}
		start(&job);
	}
	char *text = end(&w, &job, 1);
	expect(text, "start 2: the input of rank 2 on node ", 1);
	expect(text, "(NaN at element 17) is not finite", 1);
	expect(text, "is not finite", 1);
	expect(text, "inputs with NaN or infinity: 3", 1);
	expect(text, "that lost numbers: 0", 1);
	free(text);
}

static void results_that_overflow_in_the_type_are_told(void **state)
{
	struct job job = { .type = DDL_FLOAT16, .op = DDL_SUM, .algorithm = "ring" };
	struct world w;
	world_audited(&w, 1);
	job_open(&w, &job);
	for (int r = 0; r < N; r++)
		store(job.send[r], DDL_FLOAT16, 5, 30000);
	start(&job);
	char *text = end(&w, &job, 1);
	expect(text, "1 elements are finite numbers in float32 but not in the result", 1);
	free(text);
}

/* The first start of a request that has a share of 1/4 is taken or not on all ranks alike: else the others would wait for ever. */
static void a_share_of_the_starts_is_taken_whatever_the_order_on_each_rank(void **state)
{
	enum { JOBS = 3, STARTS = 200 };
	struct job jobs[JOBS];
	struct world w;
	uint64_t seed = 1;
	world_audited(&w, 0.25);
	ddl__loop_world_jitter(w.loop, 3, 5);
	for (int j = 0; j < JOBS; j++) {
		jobs[j] = (struct job){ .type = DDL_FLOAT32, .wire = DDL_WIRE_BFLOAT16, .op = DDL_SUM, .algorithm = "ring" };
		job_open(&w, &jobs[j]);
		fill(&jobs[j], &seed);
	}
	for (int s = 0; s < STARTS; s++) {
		for (int r = 0; r < N; r++)
			for (int j = 0; j < JOBS; j++) /* each rank in an order of its own */
				assert_int_equal(ddl_start(jobs[(j + r) % JOBS].requests[r]), 0);
		for (int j = 0; j < JOBS; j++)
			drive_well(jobs[j].requests, N);
	}
	const uint64_t results = w.comms[0]->audit->results;
	char *text = end(&w, jobs, JOBS);
	expect(text, "not the same bits on all ranks: 0", 1);
	free(text);
	assert_in_range(results, JOBS * STARTS / 5, JOBS * STARTS * 3 / 10);
}

/* Until the other all-reduce is through the start is active, and a start that nobody asked for again makes room for the next. */
static void a_start_ends_with_its_check(void **state)
{
	struct job job = { .type = DDL_FLOAT32, .op = DDL_SUM, .algorithm = "ring" };
	struct world w;
	int results[N];
	world_audited(&w, 1);
	job_open(&w, &job);
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_start(job.requests[r]), 0);
	for (int r = 0; r < N; r++) {
		assert_int_equal(ddl_start(job.requests[r]), -EINVAL);
		assert_int_equal(ddl_request_free(job.requests[r]), -EINVAL);
	}
	drive(job.requests, N, results);
	start(&job);
	char *text = end(&w, &job, 1);
	expect(text, "2 results compared", 1);
	free(text);
}

static void a_share_that_is_none_is_refused_in_a_sentence(void **state)
{
	static const char *const broken[] = { "2", "-0.1", "often", "0.5x", "nan", "0,01" };
	static const struct {
		const char *text;
		uint64_t rate;
	} good[] = { { "1", UINT64_MAX }, { "0", 0 }, { "", 0 }, { "0.5", UINT64_C(1) << 63 }, { "1e-2", 184467440737095516u } };
	struct ddl__settings settings;
	struct ddl_error err;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		setenv("DDL_CHECK", broken[i], 1);
		assert_int_equal(ddl__settings_read(NULL, &settings, &err), -EINVAL);
		assert_non_null(strstr(err.text, "DDL_CHECK="));
		assert_non_null(strstr(err.text, "such as 0.01"));
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		setenv("DDL_CHECK", good[i].text, 1);
		assert_int_equal(ddl__settings_read(NULL, &settings, &err), 0);
		assert_true(settings.check - good[i].rate + 2048 <= 4096);
	}
	unsetenv("DDL_CHECK");
	assert_int_equal(ddl__settings_read(NULL, &settings, &err), 0);
	assert_int_equal(settings.check, 0);
}

/* As programs do after an error. */
static void requests_that_the_caller_forgot_end_with_the_communicator(void **state)
{
	struct job jobs[2] = { { .type = DDL_FLOAT32, .wire = DDL_WIRE_INT8, .op = DDL_SUM, .feedback = 1 },
			       { .type = DDL_BFLOAT16, .op = DDL_SUM, .in_place = true } };
	uint64_t seed = 8;
	struct world w;
	listen_in();
	world_audited(&w, 1);
	for (int i = 0; i < 2; i++) {
		job_open(&w, &jobs[i]);
		fill(&jobs[i], &seed);
		start(&jobs[i]);
	}
	ddl_comm_abort(w.comms[0], "enough");
	world_fini(&w);
	char *text = end_listening();
	expect(text, "results compared", 1);
	free(text);
	for (int i = 0; i < 2; i++)
		for (int r = 0; r < N; r++) {
			free(jobs[i].recv[r]);
			if (!jobs[i].in_place)
				free(jobs[i].send[r]);
		}
}

/* A locale that writes 0,01, made in a folder. False: this machine has no sources of locales. */
static bool use_decimal_comma(const char *folder)
{
	char command[256];
	snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
	setenv("LOCPATH", folder, 1);
	return system(command) == 0 && setlocale(LC_NUMERIC, "de_DE.UTF-8") && strtod("0,5", NULL) > 0;
}

static void a_share_is_read_alike_whatever_the_programs_language(void **state)
{
	char folder[] = "/tmp/ddl-audit-XXXXXX", command[64];
	struct ddl__settings settings;
	struct ddl_error err;
	assert_non_null(mkdtemp(folder));
	const bool comma = use_decimal_comma(folder);
	setenv("DDL_CHECK", "0.25", 1);
	const int rc = ddl__settings_read(NULL, &settings, &err);
	unsetenv("DDL_CHECK");
	unsetenv("LOCPATH");
	setlocale(LC_NUMERIC, "C");
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
	if (!comma)
		skip();
	assert_int_equal(rc, 0);
	assert_true(settings.check == UINT64_C(1) << 62);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_changed_bit_or_length_changes_the_hash),
		cmocka_unit_test(good_results_give_errors_of_the_wires_size_and_no_complaint),
		cmocka_unit_test(a_rank_whose_result_is_damaged_is_named),
		cmocka_unit_test(the_rank_that_holds_nan_first_is_named_with_the_element_once),
		cmocka_unit_test(results_that_overflow_in_the_type_are_told),
		cmocka_unit_test(a_share_of_the_starts_is_taken_whatever_the_order_on_each_rank),
		cmocka_unit_test(a_start_ends_with_its_check),
		cmocka_unit_test(requests_that_the_caller_forgot_end_with_the_communicator),
		cmocka_unit_test(a_share_that_is_none_is_refused_in_a_sentence),
		cmocka_unit_test(a_share_is_read_alike_whatever_the_programs_language),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
