/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.c - what requests wait for: in the hang dump, which a signal asks for or a passed deadline, and in the state that other
 * processes read. And the trace's ring.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "dump.h"
#include "engine_world.h"
#include "state.h"
#include "trace.h"

enum { N = 3, COUNT = 100000 };

static float data[N][COUNT];

static struct ddl_request *make_sum(struct world *w, int rank)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_request *request;
	struct ddl_error err;
	options.algorithm = "ring";
	assert_int_equal(
		ddl_allreduce_init(data[rank], data[rank], COUNT, DDL_FLOAT32, DDL_SUM, w->comms[rank], &options, &request, &err),
		0);
	return request;
}

/* All ranks but `absent` start, and go on as far as they come. */
static void start_without(struct world *w, int absent, struct ddl_request **requests)
{
	for (int r = 0; r < w->n; r++)
		requests[r] = make_sum(w, r);
	for (int r = 0; r < w->n; r++)
		if (r != absent)
			assert_int_equal(ddl_start(requests[r]), 0);
	for (int pass = 0; pass < 200; pass++)
		for (int r = 0; r < w->n; r++)
			if (r != absent)
				assert_int_equal(ddl_test(requests[r]), 0);
}

static void finish(struct world *w, int absent, struct ddl_request **requests)
{
	assert_int_equal(ddl_start(requests[absent]), 0);
	drive_well(requests, w->n);
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl_request_free(requests[r]), 0);
	world_fini(w);
}

/* What the function writes to the standard error stream. */
static void capture(void (*function)(void *context), void *context, char *text, size_t size)
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	assert_non_null(file);
	assert_true(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
	function(context);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	close(before);
	rewind(file);
	size_t n = fread(text, 1, size - 1, file);
	text[n] = '\0';
	fclose(file);
}

static void dump_all(void *context)
{
	const struct world *w = context;
	for (int r = 0; r < w->n; r++) {
		pthread_mutex_lock(&w->comms[r]->lock);
		ddl__dump(w->comms[r], "a test asks");
		pthread_mutex_unlock(&w->comms[r]->lock);
	}
}

static void a_dump_names_the_rank_that_did_not_start_its_node_and_the_bytes(void **state)
{
	char text[8192], want[200];
	struct ddl_request *requests[N];
	struct world w;
	world_init(&w, N, 4, TIMEOUT_MS);
	start_without(&w, 1, requests);
	capture(dump_all, &w, text, sizeof(text));
	snprintf(want, sizeof(want), "waits for data from rank 1 on node %s\n", ddl_comm_node_name(w.comms[0], 1));
	assert_non_null(strstr(text, want));
	assert_non_null(strstr(text, "ddl: a test asks: rank 1 of 3 on node"));
	assert_non_null(strstr(text, ": 0 active requests\n"));
	assert_non_null(strstr(text, "request 0 (all-reduce of 100000 f32 (sum"));
	assert_non_null(strstr(text, "bytes done"));
	finish(&w, 1, requests);
}

static void bytes_done_grow_from_none_to_all(void **state)
{
	struct ddl_request *requests[N];
	struct world w;
	uint64_t done, all, before = 0;
	world_init(&w, N, 4, TIMEOUT_MS);
	start_without(&w, 1, requests);
	for (int r = 0; r < N; r += 2) {
		ddl__request_done(requests[r], &done, &all);
		assert_true(done < all);
		before += done;
	}
	assert_true(before > 0);
	assert_int_equal(ddl_start(requests[1]), 0);
	drive_well(requests, N);
	for (int r = 0; r < N; r++) {
		ddl__request_done(requests[r], &done, &all);
		assert_int_equal(done, all);
		assert_true(all > 0);
		assert_int_equal(ddl__lane_wait(requests[r], 0).what, DDL__WAIT_NOTHING);
		assert_int_equal(ddl_request_free(requests[r]), 0);
	}
	world_fini(&w);
}

struct asked {
	struct world *w;
	struct ddl_request **requests;
};

static void raise_and_test(void *context)
{
	const struct asked *a = context;
	raise(SIGUSR1);
	for (int pass = 0; pass < 50; pass++)
		assert_int_equal(ddl_test(a->requests[0]), 0);
}

static void a_signal_asks_for_one_dump_of_each_communicator_and_its_handler_goes_with_the_last(void **state)
{
	char text[8192];
	struct ddl_request *requests[N];
	struct sigaction now;
	struct world w;
	world_init(&w, N, 4, TIMEOUT_MS);
	for (int r = 0; r < N; r++)
		ddl__engine_listen(w.comms[r], SIGUSR1);
	start_without(&w, 2, requests);
	for (int time = 0; time < 2; time++) { /* and again */
		capture(raise_and_test, &(struct asked){ &w, requests }, text, sizeof(text));
		const char *first = strstr(text, "ddl: asked by a signal: rank 0 of 3");
		assert_non_null(first);
		assert_null(strstr(first + 1, "ddl: asked by a signal: rank 0 of 3"));
		assert_non_null(strstr(text, "from rank 2 on node"));
	}
	finish(&w, 2, requests);
	assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, SIG_DFL);
}

static volatile sig_atomic_t own_calls;

static void own_handler(int signal)
{
	own_calls++;
}

static void a_handler_of_the_program_is_left_alone(void **state)
{
	struct sigaction own = { .sa_handler = own_handler }, now;
	struct world w;
	assert_int_equal(sigaction(SIGUSR1, &own, NULL), 0);
	world_init(&w, N, 4, TIMEOUT_MS);
	ddl__engine_listen(w.comms[0], SIGUSR1); /* theirs was first */
	raise(SIGUSR1);
	assert_int_equal(own_calls, 1);
	signal(SIGUSR1, SIG_DFL);
	ddl__engine_listen(w.comms[1], SIGUSR1); /* ours */
	assert_int_equal(sigaction(SIGUSR1, &own, NULL), 0);
	world_fini(&w);
	assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, own_handler); /* theirs came over ours */
	signal(SIGUSR1, SIG_DFL);
}

static void the_state_shows_who_waits_for_whom_and_what_was_counted(void **state)
{
	struct ddl_request *requests[N];
	struct ddl__state *seen = calloc(1, sizeof(*seen));
	struct world w;
	bool named = false;
	assert_non_null(seen);
	world_init(&w, N, 4, TIMEOUT_MS);
	start_without(&w, 1, requests);
	for (int r = 0; r < N; r++) {
		pthread_mutex_lock(&w.comms[r]->lock);
		ddl__state_note(w.comms[r]);
		pthread_mutex_unlock(&w.comms[r]->lock);
		assert_int_equal(ddl__state_read(w.comms[r]->state_fd, seen), 0);
		assert_int_equal(seen->rank, r);
		assert_int_equal(seen->ranks, N);
		assert_int_equal(seen->pid, getpid());
		assert_string_equal(seen->node, ddl_comm_node_name(w.comms[r], r));
		assert_int_equal(seen->starts - seen->completions, r != 1);
		assert_int_equal(seen->n_active, r != 1);
		for (uint32_t i = 0; i < seen->n_waits; i++) {
			assert_int_equal(seen->waits[i].request, 0);
			assert_int_equal(seen->waits[i].call.count, COUNT);
			named |= seen->waits[i].peer == 1 && seen->waits[i].what == DDL__WAIT_DATA;
		}
	}
	assert_true(named);
	finish(&w, 1, requests);
	free(seen);
}

static int with_bytes(const void *bytes, size_t size, struct ddl__state *seen)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	int rc = ddl__state_read(fd, seen);
	close(fd);
	return rc;
}

static void a_state_that_is_none_of_ours_or_half_written_is_not_believed(void **state)
{
	struct ddl__state *good = calloc(1, sizeof(*good)), *bad = calloc(1, sizeof(*bad)), *seen = calloc(1, sizeof(*seen));
	assert_true(good && bad && seen);
	*good = (struct ddl__state){ .magic = DDL__STATE_MAGIC, .version = DDL__STATE_VERSION, .size = sizeof(*good), .ranks = 1 };
	good->n_waits = good->n_active = 2;
	memset(good->job, 'x', sizeof(good->job));
	assert_int_equal(with_bytes(good, sizeof(*good), seen), 0);
	assert_int_equal(strlen(seen->job), sizeof(good->job) - 1);
	assert_int_equal(seen->n_waits, 2);
	assert_int_equal(with_bytes(good, sizeof(*good) - 1, seen), -EBADMSG);
	assert_int_equal(with_bytes(good, 0, seen), -EBADMSG);
	*bad = *good;
	bad->magic++;
	assert_int_equal(with_bytes(bad, sizeof(*bad), seen), -EBADMSG);
	*bad = *good;
	bad->version++;
	assert_int_equal(with_bytes(bad, sizeof(*bad), seen), -EBADMSG);
	*bad = *good;
	bad->rank = 1;
	assert_int_equal(with_bytes(bad, sizeof(*bad), seen), -EBADMSG);
	*bad = *good;
	bad->n_waits = DDL__STATE_WAITS + 1;
	assert_int_equal(with_bytes(bad, sizeof(*bad), seen), -EBADMSG);
	*bad = *good;
	bad->sequence = 7; /* its process was stopped while it wrote */
	assert_int_equal(with_bytes(bad, sizeof(*bad), seen), 0);
	assert_int_equal(seen->n_waits, 0);
	free(good);
	free(bad);
	free(seen);
}

static void a_trace_keeps_the_newest_spans_on_rank_0s_clock_and_says_how_many_it_dropped(void **state)
{
	enum { MIB = 1 };
	const size_t room = 1024 * 1024 / sizeof(struct ddl__trace_event), all = room + 1000;
	char folder[] = "/tmp/ddl-trace-XXXXXX", path[64];
	const struct ddl__call call = { .collective = DDL__BARRIER, .algorithm = 3, .root = -1 };
	struct ddl__trace *trace;
	struct ddl_error err;
	struct world w;
	json_error_t why;
	assert_non_null(mkdtemp(folder));
	world_init(&w, N, 4, TIMEOUT_MS);
	assert_int_equal(ddl__trace_open(w.comms[1], folder, "a/b", MIB, &trace, &err), 0);
	ddl__trace_clock(trace, 5000000, 700);
	const uint32_t name = ddl__trace_name(trace, &call);
	for (size_t i = 0; i < all; i++)
		ddl__trace_add(trace, &(struct ddl__trace_event){ .begin_ns = 10000000 + 1000 * i,
								  .end_ns = 10000000 + 1000 * i + 500,
								  .request = name,
								  .from = -1,
								  .to = -1,
								  .kind = DDL__SPAN_REQUEST });
	ddl__trace_close(trace);
	snprintf(path, sizeof(path), "%s/ddl-a_b-1.json", folder);
	json_t *file = json_load_file(path, 0, &why);
	if (!file)
		fail_msg("line %d: %s", why.line, why.text);
	const json_t *head = json_object_get(file, "otherData"), *event;
	assert_int_equal(json_integer_value(json_object_get(head, "dropped")), 1000);
	assert_int_equal(json_integer_value(json_object_get(head, "spans")), room);
	assert_int_equal(json_integer_value(json_object_get(head, "clock_error_ns")), 700);
	double first = 0, last = 0;
	size_t i, n = 0;
	json_array_foreach(json_object_get(file, "traceEvents"), i, event)
	{
		if (!json_object_get(event, "ts"))
			continue;
		last = json_number_value(json_object_get(event, "ts"));
		first = n++ ? first : last;
		assert_string_equal(json_string_value(json_object_get(event, "name")), "barrier");
	}
	assert_int_equal(n, room);
	assert_true(first == 5000.0 + 1000 && last == 5000.0 + (double)all - 1);
	json_decref(file);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_names_the_rank_that_did_not_start_its_node_and_the_bytes),
		cmocka_unit_test(bytes_done_grow_from_none_to_all),
		cmocka_unit_test(a_signal_asks_for_one_dump_of_each_communicator_and_its_handler_goes_with_the_last),
		cmocka_unit_test(a_handler_of_the_program_is_left_alone),
		cmocka_unit_test(the_state_shows_who_waits_for_whom_and_what_was_counted),
		cmocka_unit_test(a_state_that_is_none_of_ours_or_half_written_is_not_believed),
		cmocka_unit_test(a_trace_keeps_the_newest_spans_on_rank_0s_clock_and_says_how_many_it_dropped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
