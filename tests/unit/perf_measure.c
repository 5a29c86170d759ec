/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_measure.c - rows are measured, and a library that computes wrong results is found out: the linker puts the function below
 * before ddl_wait() (--wrap), and it damages results as if the library had.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine.h"
#include "filestore.h"
#include "perf.h"

enum { COUNT = 1000, ITERATIONS = 4, WARMUP = 2 };

static int damaged_wait = -1; /* which wait for a tensor damages its result; -1: none */
static int waits;             /* for tensors, so far */

int __real_ddl_wait(struct ddl_request *request);
int __wrap_ddl_wait(struct ddl_request *request);

int __wrap_ddl_wait(struct ddl_request *request)
{
	int rc = __real_ddl_wait(request);

	if (request->call.count == COUNT && waits++ == damaged_wait)
		((unsigned char *)request->recv)[0] ^= 1; /* the lowest bit of the first element */
	return rc;
}

/* Measures one row on this rank; damage as damaged_wait. Returns whether it came out as correct, -2: it failed. */
static int measure(struct ddl__perf_options *options, const struct ddl_store *store, struct ddl__perf_result *result)
{
	struct ddl_comm_options comm_options = DDL_COMM_OPTIONS_INIT;
	struct ddl__perf_tensor *made = NULL;
	struct ddl__perf_row *rows = NULL;
	uint64_t size = COUNT * ddl_type_size(options->type);
	struct ddl__perf *perf = NULL;
	struct ddl_comm *comm = NULL;
	struct ddl_error err;
	size_t n_rows = 0;
	int rc;

	options->sizes = &size;
	options->n_sizes = 1;
	options->iterations = ITERATIONS;
	options->warmup = WARMUP;
	comm_options.store = store;
	comm_options.timeout_ms = 60000;
	waits = 0;
	rc = ddl_comm_create(&comm_options, &comm, &err);
	if (rc == 0)
		rc = ddl__perf_rows(options, &rows, &n_rows, &made, &err);
	if (rc == 0) {
		const struct ddl__perf_setting setting = { .options = options, .comm = comm, .rows = rows, .n_rows = n_rows };

		rc = ddl__perf_create(&setting, &perf, &err);
	}
	if (rc == 0)
		rc = ddl__perf_measure(perf, rows, result, &err);
	ddl__perf_destroy(perf);
	ddl_comm_destroy(comm);
	free(rows);
	free(made);
	return rc < 0 ? -2 : result->correct;
}

static struct ddl__perf_options allreduce(void)
{
	return (struct ddl__perf_options){
		.collective = DDL__PERF_ALLREDUCE, .type = DDL_FLOAT32, .op = DDL_SUM, .check = true, .seed = 3
	};
}

static void a_row_tells_times_and_what_ran(void **state)
{
	struct ddl__perf_options options = allreduce();
	struct ddl__perf_result result;

	damaged_wait = -1;
	assert_int_equal(measure(&options, NULL, &result), 1);
	assert_int_equal(result.starts, ITERATIONS + WARMUP + 2);
	assert_string_equal(result.algorithm, "ring");
	assert_string_equal(result.wire, "f32");
	assert_int_equal(result.rings, 1);
	assert_true(result.min_us > 0 && result.min_us <= result.median_us && result.median_us <= result.p99_us);
	options.check = false;
	assert_int_equal(measure(&options, NULL, &result), -1);
	assert_int_equal(result.starts, ITERATIONS + WARMUP);
}

static void a_wrong_bit_in_the_first_check_is_found(void **state)
{
	for (int in_place = 0; in_place <= 1; in_place++) {
		for (int collective = DDL__PERF_ALLREDUCE; collective < DDL__PERF_SENDRECV; collective++) {
			struct ddl__perf_options options = allreduce();
			struct ddl__perf_result result;

			options.collective = (enum ddl__perf_collective)collective;
			options.in_place = in_place && ddl__perf_may_share(options.collective);
			if (collective == DDL__PERF_BARRIER)
				continue;
			damaged_wait = 0;
			assert_int_equal(measure(&options, NULL, &result), 0);
			damaged_wait = -1;
			assert_int_equal(measure(&options, NULL, &result), 1);
		}
	}
}

static void a_wrong_bit_in_the_last_check_is_found_in_integers(void **state)
{
	struct ddl__perf_options options = allreduce();
	struct ddl__perf_result result;

	options.type = DDL_INT32;
	damaged_wait = ITERATIONS + WARMUP + 1;
	assert_int_equal(measure(&options, NULL, &result), 0);
	assert_int_equal(waits, ITERATIONS + WARMUP + 2);
}

/* Two ranks, of which only rank 1 damages a result; returns what each made of it. */
static void measure_two(enum ddl__perf_collective collective, int damaged, int correct[2])
{
	char folder[] = "/tmp/ddl-perf-measure-XXXXXX", command[64];
	pid_t children[2];

	assert_non_null(mkdtemp(folder));
	for (int rank = 0; rank < 2; rank++) {
		children[rank] = fork();
		assert_true(children[rank] >= 0);
		if (children[rank] > 0)
			continue;
		struct ddl__perf_options options = allreduce();
		struct ddl__filestore *filestore = NULL;
		struct ddl__perf_result result;
		struct ddl_error err;
		int made = -2;

		options.collective = collective;
		damaged_wait = rank == 1 ? damaged : -1;
		if (ddl__filestore_open(folder, rank, 2, &filestore, &err) == 0)
			made = measure(&options, ddl__filestore_store(filestore), &result);
		ddl__filestore_close(filestore);
		_exit(made & 255);
	}
	for (int rank = 0; rank < 2; rank++) {
		int status = -1;

		assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
		assert_true(WIFEXITED(status));
		correct[rank] = WEXITSTATUS(status);
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

static void ranks_that_differ_in_one_bit_are_found_by_both_though_each_is_within_the_bound(void **state)
{
	int correct[2];

	measure_two(DDL__PERF_ALLREDUCE, -1, correct);
	assert_int_equal(correct[0], 1);
	assert_int_equal(correct[1], 1);
	measure_two(DDL__PERF_ALLREDUCE, ITERATIONS + WARMUP + 1, correct);
	assert_int_equal(correct[0], 0);
	assert_int_equal(correct[1], 0);
}

static void a_wrong_message_is_found_by_both(void **state)
{
	int correct[2];

	measure_two(DDL__PERF_SENDRECV, -1, correct);
	assert_int_equal(correct[0], 1);
	assert_int_equal(correct[1], 1);
	measure_two(DDL__PERF_SENDRECV, 0, correct); /* the receive is waited for first */
	assert_int_equal(correct[0], 0);
	assert_int_equal(correct[1], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_tells_times_and_what_ran),
		cmocka_unit_test(a_wrong_bit_in_the_first_check_is_found),
		cmocka_unit_test(a_wrong_bit_in_the_last_check_is_found_in_integers),
		cmocka_unit_test(ranks_that_differ_in_one_bit_are_found_by_both_though_each_is_within_the_bound),
		cmocka_unit_test(a_wrong_message_is_found_by_both),
	};

	unsetenv("PMIX_NAMESPACE");
	unsetenv("SLURM_STEP_NUM_TASKS");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
