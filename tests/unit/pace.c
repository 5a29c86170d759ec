/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - when a waiter spins, offers its core and sleeps, and what it learns from its offers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "pace.h"

enum { US = 1000, MS = 1000000 };

/* Microseconds of waiting after which a pace first says so, at that time. */
static uint64_t first(const struct ddl__pace *pace, enum ddl__rest rest, uint64_t now)
{
	uint64_t us = 0;
	while (us < 100000 && ddl__pace_next(pace, now, us * US) != rest)
		us++;
	return us;
}

static void a_waiter_with_a_core_of_its_own_spins_then_offers_it_then_sleeps(void **state)
{
	struct ddl__pace pace = { 0 };
	ddl__pace_init(&pace, false);
	assert_false(ddl__pace_crowded(&pace));
	assert_int_equal(first(&pace, DDL__REST_SPIN, 0), 0);
	uint64_t offers = first(&pace, DDL__REST_OFFER, 0), sleeps = first(&pace, DDL__REST_SLEEP, 0);
	assert_in_range(offers, 1, 100);
	assert_in_range(sleeps, offers + 1, 200);
}

static void where_ranks_outnumber_cores_it_offers_at_once(void **state)
{
	struct ddl__pace pace = { 0 };
	ddl__pace_init(&pace, true);
	assert_true(ddl__pace_crowded(&pace));
	assert_int_equal(first(&pace, DDL__REST_OFFER, 0), 0);
	assert_in_range(first(&pace, DDL__REST_SLEEP, 0), 1, 200);
}

static void all_zero_it_sleeps_at_once(void **state)
{
	const struct ddl__pace pace = { 0 };
	assert_int_equal(first(&pace, DDL__REST_SLEEP, 0), 0);
}

static void offers_that_are_taken_tell_of_a_crowd_and_others_of_none(void **state)
{
	struct ddl__pace pace = { 0 };
	int offers = 0;
	ddl__pace_init(&pace, false);
	while (!ddl__pace_crowded(&pace) && offers++ < 100)
		ddl__pace_learn(&pace, 0, 2 * US);
	assert_in_range(offers, 2, 8); /* one may be a chance */
	for (offers = 0; offers < 1000; offers++)
		ddl__pace_learn(&pace, 0, offers % 3 ? 300 : 2 * US); /* some fall into a moment when the other sleeps */
	assert_true(ddl__pace_crowded(&pace));
	for (offers = 0; ddl__pace_crowded(&pace) && offers < 100; offers++)
		ddl__pace_learn(&pace, 0, 300);
	assert_in_range(offers, 2, 50);
	assert_int_equal(first(&pace, DDL__REST_SPIN, 0), 0);
}

static void an_offer_that_comes_back_late_ends_offers_for_a_while(void **state)
{
	struct ddl__pace pace = { 0 };
	const uint64_t now = UINT64_C(1000) * MS, slice = UINT64_C(4) * MS;
	ddl__pace_init(&pace, true);
	ddl__pace_learn(&pace, now, slice);
	assert_int_equal(first(&pace, DDL__REST_SLEEP, now + slice), 0);
	assert_int_equal(first(&pace, DDL__REST_SLEEP, now + slice + slice / 2), 0); /* the most that is lost: half */
	assert_int_equal(first(&pace, DDL__REST_OFFER, now + 3 * slice), 0);
}

static void a_waiter_whose_sleeps_are_long_sleeps_at_once_until_they_are_short(void **state)
{
	struct ddl__pace pace = { 0 };
	int n = 0;
	ddl__pace_init(&pace, false);
	while (first(&pace, DDL__REST_SLEEP, 0) > 0 && n++ < 100)
		ddl__pace_slept(&pace, 300 * US);
	assert_in_range(n, 2, 20);
	for (n = 0; first(&pace, DDL__REST_SLEEP, 0) == 0 && n < 100; n++)
		ddl__pace_slept(&pace, 5 * US);
	assert_in_range(n, 1, 20);
	for (n = 0; n < 1000; n++) { /* one long wait a step, as for gradients, and several short ones */
		ddl__pace_slept(&pace, 3 * MS);
		ddl__pace_paid(&pace);
		ddl__pace_paid(&pace);
	}
	assert_true(first(&pace, DDL__REST_SLEEP, 0) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_waiter_with_a_core_of_its_own_spins_then_offers_it_then_sleeps),
		cmocka_unit_test(where_ranks_outnumber_cores_it_offers_at_once),
		cmocka_unit_test(all_zero_it_sleeps_at_once),
		cmocka_unit_test(offers_that_are_taken_tell_of_a_crowd_and_others_of_none),
		cmocka_unit_test(a_waiter_whose_sleeps_are_long_sleeps_at_once_until_they_are_short),
		cmocka_unit_test(an_offer_that_comes_back_late_ends_offers_for_a_while),
	};

	return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
