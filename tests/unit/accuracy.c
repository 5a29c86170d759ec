/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What schedules keep, proved by running them symbolically: how often a contribution is rounded on its way into the result, and
 * that contributions are added in the order of ranks. And that what cannot keep it is found out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "select.h"
#include "trees.h"
#include "verify.h"

enum { BLOCK = 256, RANKS_MAX = 20, FLAT = 2 };

struct setting {
	const struct ddl__algorithm *algorithm;
	int n;
	uint64_t count, seed;
	uint32_t rings, slice_bytes;
	struct ddl__need need;
};

/* Builds the schedules of all ranks and verifies them; asked: of verify, roundings and order. */
static int prove(const struct setting *t, const struct ddl__verify *asked, struct ddl_error *err)
{
	struct world_plan w;
	struct ddl__layout *layout;
	struct ddl__schedule *s[RANKS_MAX];
	int rc = 0;
	assert_int_equal(random_plan(t->seed, t->n, 2, (int)(t->seed & 1), &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, t->n, &layout), 0);
	for (int r = 0; r < t->n; r++) {
		const struct ddl__build build = { .layout = layout,
						  .rank = r,
						  .count = t->count,
						  .wire_bytes = t->need.rounds || t->need.narrow ? 2 : 4,
						  .wire_block = t->need.rounds && t->seed & 2 ? BLOCK : 0,
						  .rounds = t->need.rounds,
						  .narrow = t->need.narrow,
						  .in_order = t->need.in_order,
						  .root = -1,
						  .rings = t->rings,
						  .slice_bytes = t->slice_bytes };
		assert_int_equal(t->algorithm->build(&build, &s[r]), 0);
	}
	for (int how = 0; rc == 0 && how < (t->need.rounds ? 2 : 4); how++) {
		struct ddl__verify verify = *asked;
		verify.collective = DDL__ALLREDUCE;
		verify.schedules = (const struct ddl__schedule *const *)s;
		verify.n_ranks = t->n;
		verify.count = t->count;
		verify.root = -1;
		verify.in_place = how & 1;
		verify.shared = how & 2; /* only what travels as it is may be shared */
		verify.rounding = t->need.rounds   ? DDL__ROUNDED_BY_WIRE
				  : t->need.narrow ? DDL__ROUNDED_IN_MEMORY
						   : DDL__ROUNDED_NOWHERE;
		rc = ddl__verify(&verify, err);
	}
	for (int r = 0; r < t->n; r++)
		ddl__schedule_destroy(s[r]);
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
	return rc;
}

/* Random settings of all algorithms that are said to keep what is needed; at least `least` of them are proved. */
static void prove_all(const struct ddl__need *need, int rounds, int least)
{
	static const uint32_t slices[] = { 0, 0, 64, 700, 1024 };
	const struct ddl__verify asked = { .roundings = need->flat ? FLAT : 0, .in_order = need->in_order };
	struct ddl_error err = { 0 };
	uint64_t seed = 11;
	int proved = 0;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		for (int round = 0; a->collective == DDL__ALLREDUCE && round < rounds; round++) {
			uint64_t x = next_random(&seed);
			struct setting t = { .algorithm = a,
					     .n = 1 + (int)(x % RANKS_MAX),
					     .count = (x >> 8) % 4 ? (x >> 16) % 3000 : (x >> 16) % 50,
					     .seed = x >> 24,
					     .rings = 1 + (uint32_t)(x >> 40) % 3,
					     .slice_bytes = slices[(x >> 44) % 5],
					     .need = *need };
			if (!ddl__algorithm_keeps(a, need, (uint32_t)t.n))
				continue;
			if (prove(&t, &asked, &err) < 0)
				fail_msg("%s, %d ranks, %llu elements, %u rings, slices of %u: %s", a->name, t.n,
					 (unsigned long long)t.count, t.rings, t.slice_bytes, err.text);
			proved++;
		}
	if (proved < least)
		fail_msg("only %d settings were proved", proved);
}

static void flat_rounds_each_contribution_once_and_the_result_once(void **state)
{
	prove_all(&(const struct ddl__need){ .flat = true, .rounds = true }, 16, 20);
}

static void flat_adds_16_bits_in_more(void **state)
{
	prove_all(&(const struct ddl__need){ .flat = true, .narrow = true }, 16, 20);
}

static void in_order_is_the_order_of_ranks(void **state)
{
	prove_all(&(const struct ddl__need){ .in_order = true }, 16, 20);
	prove_all(&(const struct ddl__need){ .in_order = true, .rounds = true, .flat = true }, 16, 10);
	prove_all(&(const struct ddl__need){ .in_order = true, .narrow = true, .flat = true }, 16, 10);
}

static const struct ddl__algorithm *named(const char *name)
{
	struct ddl__candidate candidate;
	assert_int_equal(ddl__select(DDL__ALLREDUCE, name, &candidate, NULL), 0);
	return candidate.algorithm;
}

static void expect_refused(const struct setting *t, const struct ddl__verify *asked, const char *why)
{
	struct ddl_error err = { 0 };
	assert_int_equal(prove(t, asked, &err), -EPROTO);
	if (!strstr(err.text, why))
		fail_msg("%s: \"%s\" does not say \"%s\"", t->algorithm->name, err.text, why);
}

static void what_rounds_too_often_or_adds_in_another_order_is_found_out(void **state)
{
	static const char *const names[] = { "ring", "multiring", "doubling", "halving", "tree", "knomial" };
	const struct ddl__verify flat = { .roundings = FLAT }, order = { .in_order = true };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct setting t = { .algorithm = named(names[i]), .n = 12, .count = 700, .seed = 4, .rings = 1 };
		expect_refused(&t, &order, "order of ranks");
		t.need.narrow = true;
		expect_refused(&t, &flat, "rounded too often");
		t.need = (struct ddl__need){ .rounds = true };
		expect_refused(&t, &flat, "rounded too often");
		assert_false(ddl__algorithm_keeps(t.algorithm, &(const struct ddl__need){ .rounds = true, .flat = true }, 12));
	}
	struct setting direct = { .algorithm = named("direct"), .n = 5, .count = 700, .seed = 3, .rings = 1 };
	expect_refused(&direct, &order, "order of ranks"); /* since the build did not ask for it */
}

/* The number of roundings is the depth of the reduction: a ring of n ranks rounds the first contribution n times. */
static void a_ring_rounds_at_every_hop(void **state)
{
	struct ddl_error err = { 0 };
	for (int n = 2; n <= 8; n++) {
		struct setting t = { .algorithm = named("ring"), .n = n, .count = 100, .seed = 8, .rings = 1 };
		t.need.rounds = true;
		const struct ddl__verify enough = { .roundings = (uint32_t)n }, less = { .roundings = (uint32_t)n - 1 };
		if (prove(&t, &enough, &err) < 0)
			fail_msg("%s", err.text);
		expect_refused(&t, &less, "rounded too often");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flat_rounds_each_contribution_once_and_the_result_once),
		cmocka_unit_test(flat_adds_16_bits_in_more),
		cmocka_unit_test(in_order_is_the_order_of_ranks),
		cmocka_unit_test(what_rounds_too_often_or_adds_in_another_order_is_found_out),
		cmocka_unit_test(a_ring_rounds_at_every_hop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
