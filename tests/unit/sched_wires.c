/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules for wires on which elements travel in blocks that have a scale: they carry out what they should, and what is sent
 * begins with a block, as cut by all that send the same elements. Else the same result, sent on in other company, would be rounded
 * anew, and ranks would end with different bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "select.h"
#include "shape.h"
#include "trees.h"
#include "verify.h"

enum { BLOCK = 256, RANKS_MAX = 18 };

struct setting {
	const struct ddl__algorithm *algorithm;
	int n;
	uint64_t count;
	const size_t *counts; /* NULL: equal blocks */
	uint32_t rings, slice_bytes;
};

/* A slice of the whole begins a multiple of the block into it; of blocks by ranks, into its rank's block. */
static bool begins_with_block(const struct setting *t, uint64_t at)
{
	uint64_t begin = 0;
	if (t->algorithm->collective == DDL__ALLREDUCE || t->algorithm->collective == DDL__REDUCE)
		return at % BLOCK == 0;
	for (int r = 0; r < t->n; r++) {
		uint64_t length = t->counts ? t->counts[r] : t->count;
		if (at >= begin && at < begin + length)
			return (at - begin) % BLOCK == 0;
		begin += length;
	}
	return false;
}

static void check_steps(const struct setting *t, const struct ddl__schedule *s, int rank)
{
	for (uint32_t l = 0; l < s->n_lanes; l++)
		for (uint32_t i = 0; i < s->lanes[l].n; i++) {
			const struct ddl__step *step = &s->lanes[l].steps[i];
			uint64_t slice = s->slice_elements;
			if (!ddl__step_sends(step->kind) || step->count == 0)
				continue;
			if (step->count > slice && slice % BLOCK != 0)
				fail_msg("%s, %d ranks, %llu elements: a slice has %llu", t->algorithm->name, t->n,
					 (unsigned long long)t->count, (unsigned long long)slice);
			bool whole = t->algorithm->collective != DDL__ALLGATHER;
			uint64_t at = whole ? step->src : step->dst;
			if (step->src_buffer != DDL__SCRATCH && !begins_with_block(t, at))
				fail_msg("%s, %d ranks, %llu elements, %u rings: rank %d sends %s from element %llu",
					 t->algorithm->name, t->n, (unsigned long long)t->count, t->rings, rank,
					 ddl__step_name(step->kind), (unsigned long long)at);
		}
}

static void check_setting(const struct setting *t, uint64_t seed)
{
	struct world_plan w;
	struct ddl__layout *layout;
	struct ddl__schedule *s[RANKS_MAX];
	struct ddl_error err = { 0 };
	bool rooted = t->algorithm->collective == DDL__REDUCE;
	assert_int_equal(random_plan(seed, t->n, 2, (int)(seed & 1), &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, t->n, &layout), 0);
	for (int r = 0; r < t->n; r++) {
		const struct ddl__build build = { .layout = layout,
						  .rank = r,
						  .count = t->count,
						  .wire_bytes = t->slice_bytes % 2 ? 1 : 2,
						  .wire_block = BLOCK,
						  .rounds = true,
						  .counts = t->counts,
						  .root = rooted ? 0 : -1,
						  .rings = t->rings,
						  .slice_bytes = t->slice_bytes };
		assert_int_equal(t->algorithm->build(&build, &s[r]), 0);
		check_steps(t, s[r], r);
	}
	for (int in_place = 0; in_place < 2; in_place++) {
		struct ddl__verify verify = { .collective = t->algorithm->collective,
					      .schedules = (const struct ddl__schedule *const *)s,
					      .n_ranks = t->n,
					      .count = t->count,
					      .counts = t->counts,
					      .root = rooted ? 0 : -1,
					      .in_place = in_place };
		if (ddl__verify(&verify, &err) < 0)
			fail_msg("%s %s, %d ranks, %llu elements%s: %s", ddl__collective_name(t->algorithm->collective),
				 t->algorithm->name, t->n, (unsigned long long)t->count, t->counts ? ", by counts" : "", err.text);
	}
	for (int r = 0; r < t->n; r++)
		ddl__schedule_destroy(s[r]);
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

static void every_slice_begins_with_a_block_and_every_schedule_is_proved(void **state)
{
	static const uint32_t slices[] = { 0, 1, 700, 1024, 5001 };
	uint64_t seed = 5;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		bool blocks = a->collective == DDL__REDUCE_SCATTER || a->collective == DDL__ALLGATHER;
		if ((a->collective != DDL__ALLREDUCE && a->collective != DDL__REDUCE && !blocks) ||
		    a->build == ddl__build_bruck_allgather)
			continue;
		for (int round = 0; round < 20; round++) {
			size_t counts[RANKS_MAX];
			uint64_t x = next_random(&seed);
			struct setting t = { .algorithm = a,
					     .n = 1 + (int)(x % RANKS_MAX),
					     .count = (x >> 8) % 3 ? (x >> 16) % 20000 : (x >> 16) % 700,
					     .rings = 1 + (uint32_t)(x >> 40) % 3,
					     .slice_bytes = slices[(x >> 44) % 5] };
			if (blocks)
				t.count %= 3000;
			for (int r = 0; r < t.n; r++)
				counts[r] = next_random(&seed) % 4 ? next_random(&seed) % 2000 : 0;
			if (blocks && round % 2)
				t.counts = counts;
			check_setting(&t, x);
		}
	}
}

static void blocks_in_changing_company_are_not_gathered_where_that_rounds(void **state)
{
	struct world_plan w;
	struct ddl__layout *layout;
	struct ddl__schedule *s;
	assert_int_equal(random_plan(1, 4, 2, 0, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, 4, &layout), 0);
	struct ddl__build build = { .layout = layout, .count = 9, .wire_bytes = 2, .root = -1, .rings = 1, .rounds = true };
	assert_true(ddl__build_bruck_allgather(&build, &s) < 0);
	build.rounds = false;
	assert_int_equal(ddl__build_bruck_allgather(&build, &s), 0);
	ddl__schedule_destroy(s);
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_slice_begins_with_a_block_and_every_schedule_is_proved),
		cmocka_unit_test(blocks_in_changing_company_are_not_gathered_where_that_rounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
