/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_buffers.c - requests laid on other buffers: each rank by itself, apart and in place, and what is refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_world.h"

enum { RANKS = 4, COUNT = 3000, ROUNDS = 3 };

static struct world w;

static int world_setup(void **state)
{
	world_init(&w, RANKS, 3, TIMEOUT_MS);
	return 0;
}

static int world_teardown(void **state)
{
	world_fini(&w);
	return 0;
}

static void free_all(struct ddl_request **requests)
{
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(ddl_request_free(requests[r]), 0);
}

/* Round by round another half of the ranks gets other buffers, in place or apart. */
static void sums_are_right_whichever_ranks_change_their_buffers(void **state)
{
	static float memory[RANKS][2 * ROUNDS][COUNT], empty[COUNT];
	struct ddl_request *requests[RANKS];
	float *results[RANKS];
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(
			ddl_allreduce_init(empty, memory[r][0], COUNT, DDL_FLOAT32, DDL_SUM, w.comms[r], NULL, &requests[r], NULL),
			0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int r = 0; r < RANKS; r++) {
			bool in_place = (r + round) % 3 == 0, changed = round == 0 || (r + round) % 2;
			float *send = memory[r][2 * round], *recv = in_place ? send : memory[r][2 * round + 1];
			if (!changed) { /* those of the round before */
				in_place = (r + round - 1) % 3 == 0;
				send = memory[r][2 * round - 2];
				recv = in_place ? send : memory[r][2 * round - 1];
			}
			results[r] = recv;
			for (int i = 0; i < COUNT; i++)
				send[i] = (float)(r + i % 5 + round);
			if (changed)
				assert_int_equal(ddl_request_set_buffers(requests[r], send, recv, NULL), 0);
			assert_int_equal(ddl_start(requests[r]), 0);
		}
		drive_well(requests, RANKS);
		for (int r = 0; r < RANKS; r++)
			for (int i = 0; i < COUNT; i++)
				assert_true(results[r][i] == (float)(RANKS * (i % 5 + round) + RANKS * (RANKS - 1) / 2));
	}
	free_all(requests);
}

static void a_broadcast_moves_to_another_buffer(void **state)
{
	static int32_t memory[RANKS][2][COUNT];
	struct ddl_request *requests[RANKS];
	struct ddl_error err;
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(ddl_broadcast_init(memory[r][0], COUNT, DDL_INT32, 2, w.comms[r], NULL, &requests[r], NULL), 0);
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(ddl_request_set_buffers(requests[r], memory[r][0], memory[r][1], &err), -EINVAL);
		assert_int_equal(ddl_request_set_buffers(requests[r], memory[r][1], memory[r][1], NULL), 0);
		for (int i = 0; i < COUNT; i++)
			memory[r][1][i] = r * i;
		assert_int_equal(ddl_start(requests[r]), 0);
	}
	drive_well(requests, RANKS);
	for (int r = 0; r < RANKS; r++) {
		for (int i = 0; i < COUNT; i++) {
			assert_int_equal(memory[r][1][i], 2 * i);
			assert_int_equal(memory[r][0][i], 0);
		}
	}
	free_all(requests);
}

/* Block r of the sum lies, in place, r blocks into the input. */
static void a_reduce_scatter_in_place_stays_where_its_form_has_it(void **state)
{
	static int32_t memory[RANKS][RANKS * COUNT], apart[RANKS][COUNT];
	struct ddl_request *requests[RANKS];
	struct ddl_error err;
	for (int r = 0; r < RANKS; r++) {
		int32_t *send = memory[r];
		assert_int_equal(
			ddl_reduce_scatter_init(send, apart[r], COUNT, DDL_INT32, DDL_SUM, w.comms[r], NULL, &requests[r], NULL),
			0);
		assert_int_equal(ddl_request_set_buffers(requests[r], send, send + r * COUNT + 1, &err), -EINVAL);
		assert_non_null(strstr(err.text, "overlap"));
		assert_int_equal(ddl_request_set_buffers(requests[r], send, send + r * COUNT, NULL), 0);
		for (int i = 0; i < RANKS * COUNT; i++)
			send[i] = i + r;
		assert_int_equal(ddl_start(requests[r]), 0);
	}
	drive_well(requests, RANKS);
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < COUNT; i++)
			assert_int_equal(memory[r][r * COUNT + i], RANKS * (r * COUNT + i) + RANKS * (RANKS - 1) / 2);
	free_all(requests);
}

static void what_cannot_be_is_refused_with_a_sentence(void **state)
{
	static double memory[RANKS][2][COUNT];
	struct ddl_request *requests[RANKS];
	struct ddl_error err = { 0 };
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(ddl_allreduce_init(memory[r][0], memory[r][0], COUNT, DDL_FLOAT64, DDL_MAX, w.comms[r], NULL,
						    &requests[r], NULL),
				 0);
	assert_int_equal(ddl_request_set_buffers(requests[0], NULL, memory[0][0], &err), -EINVAL);
	assert_non_null(strstr(err.text, "send buffer is NULL"));
	assert_int_equal(ddl_request_set_buffers(requests[0], memory[0][0], NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "receive buffer is NULL"));
	assert_int_equal(ddl_request_set_buffers(requests[0], memory[0][0], memory[0][0] + 1, &err), -EINVAL);
	assert_non_null(strstr(err.text, "overlap"));
	assert_int_equal(ddl_start(requests[0]), 0);
	assert_int_equal(ddl_request_set_buffers(requests[0], memory[0][1], memory[0][1], &err), -EBUSY);
	assert_non_null(strstr(err.text, "active"));
	for (int r = 1; r < RANKS; r++)
		assert_int_equal(ddl_start(requests[r]), 0);
	drive_well(requests, RANKS);
	free_all(requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_right_whichever_ranks_change_their_buffers),
		cmocka_unit_test(a_broadcast_moves_to_another_buffer),
		cmocka_unit_test(a_reduce_scatter_in_place_stays_where_its_form_has_it),
		cmocka_unit_test(what_cannot_be_is_refused_with_a_sentence),
	};
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
