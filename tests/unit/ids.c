/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ids.c - requests by id: what was created and freed is told apart from what is not created yet, in room for those that live.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "engine.h"

enum { LIVE_MAX = 300, STEPS = 20000 };

static void ids_find_what_lives_and_know_what_is_gone(void **state)
{
	static struct ddl_request requests[LIVE_MAX];
	struct ddl__ids ids = { 0 };
	struct ddl_request *free_ones[LIVE_MAX], *of_id[STEPS], *found;
	uint64_t random = 7;
	size_t n_free = 0;

	for (size_t i = 0; i < LIVE_MAX; i++)
		free_ones[n_free++] = &requests[i];
	for (size_t step = 0; step < STEPS; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		uint32_t any = (uint32_t)(random >> 33);

		if (n_free && (n_free == LIVE_MAX || any % 2)) {
			struct ddl_request *r = free_ones[--n_free];

			assert_int_equal(ddl__ids_enter(&ids, r), 0);
			assert_int_equal(r->id, ids.created - 1);
			of_id[r->id] = r;
		} else {
			uint32_t id = any / 2 % ids.created;

			while (!of_id[id])
				id = (id + 1) % ids.created;
			ddl__ids_leave(&ids, of_id[id]);
			free_ones[n_free++] = of_id[id];
			of_id[id] = NULL;
		}
		uint32_t id = any % (ids.created + 3);
		assert_int_equal(ddl__ids_find(&ids, id, &found), id < ids.created);
		if (id < ids.created)
			assert_ptr_equal(found, of_id[id]);
		assert_int_equal(ids.live, LIVE_MAX - n_free);
		for (uint32_t i = 1; step % 100 == 0 && i < ids.n; i++)
			assert_true(ids.rows[i - 1].id < ids.rows[i].id);
	}
	assert_true(ids.created > STEPS / 3);
	assert_true(ids.room <= 4 * LIVE_MAX);
	ddl__ids_fini(&ids);
}

/* One that lives on must not keep the room of all that came after it. */
static void room_does_not_grow_with_what_was_freed(void **state)
{
	static struct ddl_request first, other;
	struct ddl__ids ids = { 0 };
	struct ddl_request *found;

	assert_int_equal(ddl__ids_enter(&ids, &first), 0);
	for (int i = 0; i < 100000; i++) {
		assert_int_equal(ddl__ids_enter(&ids, &other), 0);
		ddl__ids_leave(&ids, &other);
	}
	assert_true(ids.room <= 64);
	assert_true(ddl__ids_find(&ids, 0, &found));
	assert_ptr_equal(found, &first);
	assert_true(ddl__ids_find(&ids, 50000, &found));
	assert_null(found);
	assert_false(ddl__ids_find(&ids, 100001, &found));
	ddl__ids_fini(&ids);
}

static void what_never_entered_does_not_leave(void **state)
{
	static struct ddl_request in, out;
	struct ddl__ids ids = { 0 };
	struct ddl_request *found;

	ddl__ids_leave(&ids, &out);
	assert_int_equal(ddl__ids_enter(&ids, &in), 0);
	ddl__ids_leave(&ids, &out); /* of the same id, as all that is zero */
	assert_true(ddl__ids_find(&ids, 0, &found));
	assert_ptr_equal(found, &in);
	ddl__ids_fini(&ids);
}

static void ids_end_before_those_of_channels_begin(void **state)
{
	static struct ddl_request last, none;
	struct ddl__ids ids = { .created = DDL__IDS_MAX - 1 };

	assert_int_equal(ddl__ids_enter(&ids, &last), 0);
	assert_int_equal(last.id, DDL__IDS_MAX - 1);
	assert_int_equal(ddl__ids_enter(&ids, &none), -EOVERFLOW);
	ddl__ids_fini(&ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_find_what_lives_and_know_what_is_gone),
		cmocka_unit_test(room_does_not_grow_with_what_was_freed),
		cmocka_unit_test(what_never_entered_does_not_leave),
		cmocka_unit_test(ids_end_before_those_of_channels_begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
