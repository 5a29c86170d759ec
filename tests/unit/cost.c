/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model: a worked example from the literature's hardware, and what must hold whatever the numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "cost.h"
#include "select.h"
#include "trees.h"

#define RESNET_BYTES 102228128.0

/* 64 nodes of 4 ranks: 32 GB/s and 5 us within a node; a NIC of 23 GB/s that the node's ranks share, 10 us. */
static struct ddl__model worked_example(void)
{
	struct ddl__model model = { .n_levels = 2, .n_ranks = 256 };
	model.level[0] = (struct ddl__level){ .latency_us = 5, .bandwidth_GBps = 32, .ranks = 4 };
	model.level[1] = (struct ddl__level){ .latency_us = 10, .bandwidth_GBps = 23, .ranks = 256 };
	return model;
}

static double split_cost(const struct ddl__model *tree, const uint32_t *dims, uint32_t n, double bytes)
{
	struct ddl__model model = *tree;
	memcpy(model.dims, dims, n * sizeof(*dims));
	model.n_dims = n;
	return ddl__cost_multiring(&model, bytes);
}

static void assert_near(double got, double want, double within)
{
	if (fabs(got - want) > within)
		fail_msg("%.3f where %.3f was expected", got, want);
}

static void a_worked_example_gives_the_known_times(void **state)
{
	static const uint32_t two[] = { 4, 64 }, three[] = { 4, 8, 8 }, four[] = { 4, 4, 4, 4 };
	struct ddl__model model = worked_example();
	assert_near(ddl__cost_ring(&model, RESNET_BYTES), 13955, 10);
	assert_near(split_cost(&model, two, 2, RESNET_BYTES), 14830, 30);
	assert_near(split_cost(&model, three, 3, RESNET_BYTES), 13900, 60);
	assert_near(split_cost(&model, four, 4, RESNET_BYTES), 13750, 30);
	assert_near(ddl__cost_ring(&model, 65536), 5106, 1);
	assert_near(split_cost(&model, two, 2, 65536), 1299, 1);
	assert_near(split_cost(&model, three, 3, 65536), 319, 1);
	assert_near(split_cost(&model, four, 4, 65536), 219, 1);
}

static void the_tree_gives_its_own_dimensions(void **state)
{
	static const uint32_t two[] = { 4, 64 };
	struct ddl__model model = worked_example();
	assert_near(ddl__cost_multiring(&model, 65536), split_cost(&model, two, 2, 65536), 1e-9);
}

static void a_layout_is_measured_level_by_level(void **state)
{
	static const char text[] = "1;job=;mode=ring;src=none/tree;tree=spine(leaf1(n[1-3]),leaf2(n[4-5]))";
	static const size_t nodes[] = { 0, 0, 1, 1, 2, 2, 3, 3, 4 };
	struct ddl__plan *plan;
	struct ddl__layout *layout;
	struct ddl__model model;
	struct ddl__dimension d[DDL__LEVELS_MAX];
	assert_int_equal(ddl__plan_decode(text, sizeof(text) - 1, &plan, NULL), 0);
	assert_int_equal(ddl__layout_create(plan, nodes, 9, &layout), 0);
	ddl__model_init(&model, layout);
	assert_int_equal(model.n_levels, 3);
	assert_int_equal(model.n_ranks, 9);
	assert_int_equal(model.level[0].ranks, 2);
	assert_int_equal(model.level[1].ranks, 6);
	assert_int_equal(model.level[2].ranks, 9);
	assert_int_equal(model.level[0].uneven, 0);
	assert_int_equal(model.level[1].uneven, 1); /* n5 has one rank, n4 two */
	assert_int_equal(model.level[2].uneven, 1);
	assert_int_equal(ddl__model_dimensions(&model, d), 3);
	assert_int_equal(d[0].n, 2);
	assert_int_equal(d[1].n, 3);
	assert_int_equal(d[2].n, 2);
	assert_int_equal(d[0].sharing, 1);
	assert_int_equal(d[2].sharing, 2);
	plan->options.n_dims = 2; /* as --ddl=multiring,dims=3x3 has it */
	plan->options.dims[0] = plan->options.dims[1] = 3;
	ddl__model_init(&model, layout);
	assert_int_equal(ddl__model_dimensions(&model, d), 2);
	assert_int_equal(d[0].n, 3);
	assert_int_equal(d[0].level, 1);
	assert_int_equal(d[1].level, 2);
	assert_near(model.level[1].bandwidth_GBps, 1.25, 1e-9); /* nothing is known */
	layout->link_Mbps = 400;
	ddl__model_init(&model, layout);
	assert_near(model.level[1].bandwidth_GBps, 0.05, 1e-9);
	assert_near(model.level[2].uplink_GBps, 0.05, 1e-9);
	ddl__layout_destroy(layout);
	ddl__plan_destroy(plan);
}

static void a_rank_alone_takes_no_time(void **state)
{
	struct ddl__model model = { .n_levels = 1, .n_ranks = 1 };
	model.level[0] = (struct ddl__level){ .latency_us = 5, .bandwidth_GBps = 32, .ranks = 1 };
	assert_true(ddl__cost_ring(&model, 1e6) == 0);
	assert_true(ddl__cost_multiring(&model, 1e6) == 0);
	assert_true(ddl__cost_doubling(&model, 1e6) == 0);
	assert_true(ddl__cost_halving(&model, 1e6) == 0);
	assert_true(ddl__cost_tree(&model, 1e6) == 0);
	assert_true(ddl__cost_knomial(&model, 1e6) == 0);
	assert_true(ddl__cost_direct(&model, 1e6) == 0);
}

static void short_messages_favour_few_rounds_and_long_ones_few_bytes(void **state)
{
	struct ddl__model model = worked_example();
	assert_true(ddl__cost_doubling(&model, 8) < ddl__cost_ring(&model, 8) / 20);
	assert_true(ddl__cost_doubling(&model, 1e9) > ddl__cost_ring(&model, 1e9));
	assert_true(ddl__cost_halving(&model, 8) < ddl__cost_ring(&model, 8) / 10);
}

static void a_narrow_uplink_costs_the_algorithms_that_use_it_more(void **state)
{
	struct ddl__model model = { .n_levels = 3, .n_ranks = 64 };
	model.level[0] = (struct ddl__level){ .latency_us = 1, .bandwidth_GBps = 10, .ranks = 1 };
	model.level[1] = (struct ddl__level){ .latency_us = 10, .bandwidth_GBps = 1, .ranks = 16 };
	model.level[2] = (struct ddl__level){ .latency_us = 10, .bandwidth_GBps = 1, .ranks = 64 };
	double ring = ddl__cost_ring(&model, 1e9), halving = ddl__cost_halving(&model, 1e9);
	model.level[2].uplink_GBps = 4; /* 4:1 */
	assert_near(ddl__cost_ring(&model, 1e9), ring, 1e-6);
	model.level[2].uplink_GBps = 0.5;
	assert_true(ddl__cost_ring(&model, 1e9) > ring * 1.5);
	assert_true(ddl__cost_halving(&model, 1e9) >= halving);
}

static void the_choice_is_the_cheapest_of_the_table(void **state)
{
	struct ddl__model model = worked_example();
	for (double bytes = 8; bytes < 2e9; bytes *= 3) {
		const struct ddl__candidate best = ddl__select_cheapest(DDL__ALLREDUCE, &model, bytes);
		double us = ddl__candidate_cost(&best, &model, bytes);
		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
			assert_true(a->collective != DDL__ALLREDUCE || best.algorithm == ddl__algorithms ||
				    us <= a->cost(&model, bytes));
		assert_true(best.algorithm == ddl__algorithms || us < 0.75 * ddl__cost_ring(&model, bytes));
	}
	assert_string_equal(ddl__select_cheapest(DDL__ALLREDUCE, &model, 8).algorithm->name, "doubling");
	assert_string_equal(ddl__select_cheapest(DDL__BROADCAST, &model, 8).algorithm->name, "chain");
}

static void candidates_are_ranked_and_split_the_ranks_in_several_ways(void **state)
{
	struct ddl__candidate c[DDL__CANDIDATES_MAX];
	struct ddl__model model = worked_example();
	size_t n = ddl__candidates(DDL__ALLREDUCE, &model, 65536, &(const struct ddl__need){ 0 }, c), splits = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t product = 1;
		for (uint32_t d = 0; d < c[i].n_dims; d++)
			product *= c[i].dims[d];
		splits += c[i].n_dims > 0;
		assert_true(c[i].n_dims == 0 || product == 256);
		assert_true(i == 0 || ddl__candidate_cost(&c[i - 1], &model, 65536) <= ddl__candidate_cost(&c[i], &model, 65536));
		for (size_t j = 0; j < i; j++)
			assert_false(ddl__candidate_same(&c[i], &c[j]));
	}
	assert_int_equal(splits, 4);
	model.n_ranks = 251; /* prime */
	n = ddl__candidates(DDL__ALLREDUCE, &model, 65536, &(const struct ddl__need){ 0 }, c);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(c[i].n_dims, 0);
}

static void reducing_costs_the_more_the_more_often_a_byte_is_reduced(void **state)
{
	struct ddl__model model = worked_example();
	double ring = ddl__cost_ring(&model, 1e6), doubling = ddl__cost_doubling(&model, 1e6);
	model.reduce_GBps = 1;
	assert_near(ddl__cost_ring(&model, 1e6) - ring, 255.0 / 256 * 1000, 0.01);
	assert_near(ddl__cost_doubling(&model, 1e6) - doubling, 8 * 1000, 0.01);
}

static void check_pick(enum ddl__collective collective, const struct ddl__model *model, double bytes, const char *want)
{
	const struct ddl__algorithm *a = ddl__select_cheapest(collective, model, bytes).algorithm;
	if (strcmp(a->name, want) != 0)
		fail_msg("%s of %.0f bytes by %s where %s was expected", ddl__collective_name(collective), bytes, a->name, want);
}

static void short_blocks_take_few_rounds_and_long_ones_the_ring(void **state)
{
	struct ddl__model model = worked_example();
	model.reduce_GBps = 10;
	check_pick(DDL__REDUCE_SCATTER, &model, 4096, "bruck");
	check_pick(DDL__REDUCE_SCATTER, &model, 1e9, "ring");
	check_pick(DDL__ALLGATHER, &model, 4096, "bruck");
	check_pick(DDL__ALLGATHER, &model, 1e9, "ring");
	check_pick(DDL__REDUCE, &model, 64, "knomial");
	check_pick(DDL__REDUCE, &model, 1e9, "chain");
	check_pick(DDL__GATHER, &model, 4096, "binomial");
	check_pick(DDL__GATHER, &model, 1e9, "direct");
	check_pick(DDL__SCATTER, &model, 4096, "binomial");
	check_pick(DDL__SCATTER, &model, 1e9, "direct");
	check_pick(DDL__ALLTOALL, &model, 4096, "pairwise");
}

/* What is the fastest in a node was measured; the ring goes through memory more often than the others. */
static void within_a_node_the_ring_is_never_chosen(void **state)
{
	static const struct {
		const char *plan;
		int n;
		double bytes;
		const char *want;
	} cases[] = {
		{ "fabric(n0)", 2, 8, "doubling" },      { "fabric(n0)", 2, 4096, "doubling" },
		{ "fabric(n0)", 2, 16384, "direct" },    { "fabric(n0)", 2, 262144, "direct" },
		{ "fabric(n0)", 2, 67108864, "direct" }, { "fabric(n0)", 4, 8, "doubling" },
		{ "fabric(n0)", 4, 16384, "doubling" },  { "fabric(n0)", 8, 8, "doubling" },
		{ "fabric(n0)", 4, 65536, "direct" },    { "fabric(n0)", 4, 67108864, "direct" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t nodes[8] = { 0 };
		char text[128];
		struct ddl__plan *plan;
		struct ddl__layout *layout;
		struct ddl__model model;
		snprintf(text, sizeof(text), "1;job=;mode=auto;src=none/tree;tree=%s", cases[i].plan);
		assert_int_equal(ddl__plan_decode(text, strlen(text), &plan, NULL), 0);
		assert_int_equal(ddl__layout_create(plan, nodes, cases[i].n, &layout), 0);
		ddl__model_init(&model, layout);
		check_pick(DDL__ALLREDUCE, &model, cases[i].bytes, cases[i].want);
		ddl__layout_destroy(layout);
		ddl__plan_destroy(plan);
	}
}

static void more_bytes_never_take_less_time_and_one_rank_takes_none_for_others(void **state)
{
	struct ddl__model model = worked_example(), alone = { .n_levels = 1, .n_ranks = 1 };
	alone.level[0] = (struct ddl__level){ .latency_us = 5, .bandwidth_GBps = 32, .ranks = 1 };
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		if (!a->cost)
			continue;
		for (double bytes = 1; bytes < 1e9; bytes *= 3)
			if (a->cost(&model, bytes) > a->cost(&model, 3 * bytes))
				fail_msg("%s %s at %.0f bytes", ddl__collective_name(a->collective), a->name, bytes);
		assert_near(a->cost(&alone, 0), 0, 1e-9);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_blocks_take_few_rounds_and_long_ones_the_ring),
		cmocka_unit_test(within_a_node_the_ring_is_never_chosen),
		cmocka_unit_test(more_bytes_never_take_less_time_and_one_rank_takes_none_for_others),
		cmocka_unit_test(a_worked_example_gives_the_known_times),
		cmocka_unit_test(the_tree_gives_its_own_dimensions),
		cmocka_unit_test(a_layout_is_measured_level_by_level),
		cmocka_unit_test(a_rank_alone_takes_no_time),
		cmocka_unit_test(short_messages_favour_few_rounds_and_long_ones_few_bytes),
		cmocka_unit_test(the_choice_is_the_cheapest_of_the_table),
		cmocka_unit_test(candidates_are_ranked_and_split_the_ranks_in_several_ways),
		cmocka_unit_test(reducing_costs_the_more_the_more_often_a_byte_is_reduced),
		cmocka_unit_test(a_narrow_uplink_costs_the_algorithms_that_use_it_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
