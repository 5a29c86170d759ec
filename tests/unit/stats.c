/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c - the statistics of requests: bytes add up by peer and level to what the algorithm says, waits go to whom was waited for,
 * and rank 0 tells of all ranks, also of requests that were freed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "engine_world.h"
#include "origin.h"
#include "stats.h"

enum { N = 5, COUNT = 10000, LATE_MS = 30 };

struct sums { /* an all-reduce of all ranks */
	float data[N][COUNT];
	struct ddl_request *requests[N];
};

static void observe(struct world *w, unsigned what)
{
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl__stats_open(w->comms[r], what), 0);
}

static struct sums *make_sums(struct world *w, const char *algorithm)
{
	struct sums *s = calloc(1, sizeof(*s));
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err;
	assert_non_null(s);
	options.algorithm = algorithm;
	for (int r = 0; r < w->n; r++)
		assert_int_equal(ddl_allreduce_init(s->data[r], s->data[r], COUNT, DDL_FLOAT32, DDL_SUM, w->comms[r], &options,
						    &s->requests[r], &err),
				 0);
	return s;
}

static void start_all(const struct sums *s)
{
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_start(s->requests[r]), 0);
	drive_well(s->requests, N);
}

static void free_sums(struct sums *s)
{
	for (int r = 0; r < N; r++)
		assert_int_equal(ddl_request_free(s->requests[r]), 0);
	free(s);
}

static void bytes_of_a_ring_are_those_of_the_algorithm_by_peer_and_by_level(void **state)
{
	static const int starts = 3;
	uint64_t sent = 0, received = 0;
	struct world w;
	world_init(&w, N, 4, TIMEOUT_MS);
	observe(&w, DDL__OBSERVE_STATS);
	struct sums *s = make_sums(&w, "ring");
	for (int i = 0; i < starts; i++)
		start_all(s);
	for (int r = 0; r < N; r++) {
		struct ddl_request_stats stats = { .struct_size = sizeof(stats) };
		uint64_t by_peer = 0, by_level = 0, between_nodes = 0, by_rail = 0;
		assert_int_equal(ddl_request_get_stats(s->requests[r], &stats), 0);
		assert_int_equal(stats.starts, starts);
		assert_true(stats.shortest_ns <= stats.longest_ns && stats.longest_ns <= stats.total_ns);
		assert_true(stats.all.slices_sent >= (uint64_t)starts * 2 * (N - 1));
		for (int p = 0; p < N; p++) {
			struct ddl_stats peer;
			assert_int_equal(ddl_request_get_peer_stats(s->requests[r], p, &peer), 0);
			by_peer += peer.bytes_sent;
			assert_true(p != r || (peer.slices_sent == 0 && peer.slices_received == 0));
		}
		for (uint32_t l = 0; l < stats.n_levels; l++) {
			by_level += stats.levels[l].bytes_sent;
			between_nodes += l ? stats.levels[l].bytes_sent : 0;
		}
		for (uint32_t i = 0; i < stats.n_rails; i++)
			by_rail += stats.rails[i].bytes_sent;
		assert_int_equal(by_peer, stats.all.bytes_sent);
		assert_int_equal(by_level, stats.all.bytes_sent);
		assert_int_equal(by_rail, between_nodes);
		sent += stats.all.bytes_sent;
		received += stats.all.bytes_received;
	}
	assert_int_equal(sent, received);
	assert_int_equal(sent, (uint64_t)starts * 2 * (N - 1) * COUNT * sizeof(float));
	free_sums(s);
	world_fini(&w);
}

static void what_a_rank_waits_for_is_counted_for_the_rank_that_came_late(void **state)
{
	struct world w;
	struct ddl_stats late, all[N];
	world_init(&w, N, 4, TIMEOUT_MS);
	observe(&w, DDL__OBSERVE_STATS);
	struct sums *s = make_sums(&w, "exchange");
	for (int r = 1; r < N; r++)
		assert_int_equal(ddl_start(s->requests[r]), 0);
	for (int pass = 0; pass < 100; pass++)
		for (int r = 1; r < N; r++)
			assert_int_equal(ddl_test(s->requests[r]), 0);
	usleep(LATE_MS * 1000);
	assert_int_equal(ddl_start(s->requests[0]), 0);
	drive_well(s->requests, N);
	for (int r = 0; r < N; r++) {
		struct ddl_request_stats stats = { .struct_size = sizeof(stats) };
		assert_int_equal(ddl_request_get_stats(s->requests[r], &stats), 0);
		all[r] = stats.all;
		if (r == 0)
			continue;
		assert_int_equal(ddl_request_get_peer_stats(s->requests[r], 0, &late), 0);
		assert_true(late.wait_data_ns >= LATE_MS * 1000000u);
		assert_true(stats.longest_ns >= LATE_MS * 1000000u);
	}
	assert_true(all[1].wait_data_ns >= LATE_MS * 1000000u);
	free_sums(s);
	world_fini(&w);
}

static void without_statistics_and_with_wrong_arguments_the_calls_say_so(void **state)
{
	struct ddl_request_stats stats = { .struct_size = sizeof(stats) }, unset = { 0 };
	struct ddl_stats peer;
	struct world w;
	world_init(&w, N, 4, TIMEOUT_MS);
	struct sums *s = make_sums(&w, "ring");
	assert_int_equal(ddl_request_get_stats(s->requests[0], &stats), -EOPNOTSUPP);
	assert_int_equal(ddl_request_get_peer_stats(s->requests[0], 1, &peer), -EOPNOTSUPP);
	free_sums(s);
	observe(&w, DDL__OBSERVE_STATS);
	s = make_sums(&w, "ring");
	assert_int_equal(ddl_request_get_stats(NULL, &stats), -EINVAL);
	assert_int_equal(ddl_request_get_stats(s->requests[0], NULL), -EINVAL);
	assert_int_equal(ddl_request_get_stats(s->requests[0], &unset), -EINVAL);
	assert_int_equal(ddl_request_get_peer_stats(s->requests[0], -1, &peer), -EINVAL);
	assert_int_equal(ddl_request_get_peer_stats(s->requests[0], N, &peer), -EINVAL);
	assert_int_equal(ddl_request_get_stats(s->requests[0], &stats), 0);
	assert_int_equal(stats.starts, 0);
	free_sums(s);
	world_fini(&w);
}

static json_int_t figure(const json_t *row, const char *part, const char *key)
{
	return json_integer_value(json_object_get(json_object_get(json_object_get(row, "all"), part), key));
}

/* The file that rank 0 wrote; it is gone afterwards. */
static json_t *take_report(const char *path)
{
	json_error_t error;
	json_t *report = json_load_file(path, 0, &error);
	if (!report)
		fail_msg("%s:%d: %s", path, error.line, error.text);
	unlink(path);
	return report;
}

static void rank_0_tells_of_all_ranks_and_of_requests_that_were_freed(void **state)
{
	char path[] = "/tmp/ddl-stats-XXXXXX.json";
	struct world w;
	int fd = mkstemps(path, 5);
	assert_true(fd >= 0);
	close(fd);
	world_init(&w, N, 4, TIMEOUT_MS);
	observe(&w, DDL__OBSERVE_STATS | DDL__OBSERVE_ALONE | DDL__OBSERVE_PEERS);
	for (int r = 0; r < N; r++)
		strcpy(w.comms[r]->origin->settings.stats_file, path);
	struct sums *kept = make_sums(&w, "ring"), *freed = make_sums(&w, "tree");
	start_all(kept);
	start_all(kept);
	start_all(freed);
	free_sums(freed);
	world_fini(&w); /* frees those of kept */
	free(kept);

	json_t *report = take_report(path);
	const json_t *rows = json_object_get(report, "requests"), *first = json_array_get(rows, 0),
		     *second = json_array_get(rows, 1);
	assert_int_equal(json_integer_value(json_object_get(report, "ranks")), N);
	assert_int_equal(json_array_size(rows), 2);
	assert_non_null(strstr(json_string_value(json_object_get(first, "what")), "ring"));
	assert_non_null(strstr(json_string_value(json_object_get(second, "what")), "tree"));
	assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "starts"), "sum")), 2 * N);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(second, "starts"), "most")), 1);
	assert_int_equal(figure(first, "sum", "bytes_sent"), 2l * 2 * (N - 1) * COUNT * (long)sizeof(float));
	assert_true(figure(first, "least", "bytes_sent") <= figure(first, "most", "bytes_sent"));
	assert_true(json_integer_value(json_object_get(json_object_get(first, "alone_ns"), "least")) > 0);
	assert_true(json_integer_value(json_object_get(json_object_get(second, "alone_ns"), "least")) > 0);
	json_int_t sent = 0;
	const json_t *peer;
	size_t i;
	json_array_foreach(json_object_get(report, "peers"), i, peer)
	{
		sent += json_integer_value(json_object_get(peer, "bytes_sent"));
	}
	assert_int_equal(sent, figure(first, "sum", "bytes_sent") + figure(second, "sum", "bytes_sent"));
	json_decref(report);
}

static void of_a_failed_communicator_rank_0_tells_its_own(void **state)
{
	char path[] = "/tmp/ddl-stats-XXXXXX.json";
	struct world w;
	int fd = mkstemps(path, 5);
	assert_true(fd >= 0);
	close(fd);
	world_init(&w, N, 4, TIMEOUT_MS);
	observe(&w, DDL__OBSERVE_STATS);
	for (int r = 0; r < N; r++)
		strcpy(w.comms[r]->origin->settings.stats_file, path);
	struct sums *s = make_sums(&w, "ring");
	start_all(s);
	ddl_comm_abort(w.comms[2], "a test");
	world_fini(&w);
	free(s);
	json_t *report = take_report(path);
	assert_true(json_is_true(json_object_get(report, "of_rank_0_alone")));
	assert_int_equal(json_array_size(json_object_get(report, "requests")), 1);
	json_decref(report);
}

static void messages_of_two_ranks_are_told_as_sent_and_received(void **state)
{
	char path[] = "/tmp/ddl-stats-XXXXXX.json";
	float data[2][COUNT] = { { 0 } };
	struct ddl_request *requests[2];
	struct ddl_error err;
	struct world w;
	int fd = mkstemps(path, 5);
	assert_true(fd >= 0);
	close(fd);
	world_init(&w, N, 4, TIMEOUT_MS);
	observe(&w, DDL__OBSERVE_STATS);
	strcpy(w.comms[0]->origin->settings.stats_file, path);
	assert_int_equal(ddl_send_init(data[0], COUNT, DDL_FLOAT32, 3, 7, w.comms[1], NULL, &requests[0], &err), 0);
	assert_int_equal(ddl_recv_init(data[1], COUNT, DDL_FLOAT32, 1, 7, w.comms[3], NULL, &requests[1], &err), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ddl_start(requests[i]), 0);
	drive_well(requests, 2);
	assert_int_equal(ddl_request_free(requests[1]), 0);
	assert_int_equal(ddl_request_free(requests[0]), 0);
	world_fini(&w);
	json_t *report = take_report(path);
	const json_t *rows = json_object_get(report, "requests");
	assert_int_equal(json_array_size(rows), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "what")), "messages sent");
	assert_int_equal(figure(json_array_get(rows, 0), "most", "bytes_sent"), COUNT * sizeof(float));
	assert_int_equal(figure(json_array_get(rows, 1), "sum", "bytes_received"), COUNT * sizeof(float));
	json_decref(report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_of_a_ring_are_those_of_the_algorithm_by_peer_and_by_level),
		cmocka_unit_test(what_a_rank_waits_for_is_counted_for_the_rank_that_came_late),
		cmocka_unit_test(without_statistics_and_with_wrong_arguments_the_calls_say_so),
		cmocka_unit_test(rank_0_tells_of_all_ranks_and_of_requests_that_were_freed),
		cmocka_unit_test(of_a_failed_communicator_rank_0_tells_its_own),
		cmocka_unit_test(messages_of_two_ranks_are_told_as_sent_and_received),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
