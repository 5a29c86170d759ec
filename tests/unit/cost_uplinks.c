/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_uplinks.c - what the cost model makes of the plan's word on uplinks: ratios, link speeds with and without a unit, nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>

#include "cost.h"

#define HEAD "1;mode=auto;src=none/tree;tree="
#define TWO  HEAD "spine(leaf1(n[1-4]),leaf2(n[5-8]));tasks=2(x8)"

#define BYTES 64e6

static void assert_near(double got, double want)
{
	if (fabs(got - want) > 1e-6 * (fabs(want) + 1e-3))
		fail_msg("%.9f where %.9f was expected", got, want);
}

/* The model of a plan whose nodes have their tasks, on links of 1 GB/s. */
static struct ddl__model model_of(const char *text)
{
	struct ddl_error err = { 0, "" };
	struct ddl__plan *plan;
	struct ddl__layout *layout;
	struct ddl__model model;
	size_t node_of_rank[64], n = 0;
	if (ddl__plan_decode(text, strlen(text), &plan, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	for (size_t i = 0; i < plan->n_nodes; i++)
		for (uint32_t t = 0; t < plan->nodes[i]->tasks; t++)
			node_of_rank[n++] = i;
	assert_int_equal(ddl__layout_create(plan, node_of_rank, (int)n, &layout), 0);
	layout->link_Mbps = 8000;
	ddl__model_init(&model, layout);
	ddl__layout_destroy(layout);
	ddl__plan_destroy(plan);
	return model;
}

struct uplink_case {
	const char *text;
	uint32_t level;
	double uplink; /* GB/s of the uplink of the largest switch */
	double narrow; /* GB/s of the slowest */
	int from;
};

static const struct uplink_case cases[] = {
	/* nothing is known: as narrow as a node's link */
	{ TWO, 2, 1, 1, DDL__FROM_DEFAULT },
	/* ratios: the nodes' links together by the ratio */
	{ TWO ";oversub=100(x2)", 2, 4, 4, DDL__FROM_PLAN },
	{ TWO ";oversub=200(x2)", 2, 2, 2, DDL__FROM_PLAN },
	{ TWO ";oversub=400(x2)", 2, 1, 1, DDL__FROM_PLAN },
	{ TWO ";oversub=400,0", 2, 1, 1, DDL__FROM_PLAN },
	/* uneven switches: per rank they are alike, for one ring the smallest is the slowest */
	{ HEAD "s(a(n[1-3]),b(n[4-6]),c(n[7-8]));tasks=2(x8);oversub=100(x3)", 2, 3, 2, DDL__FROM_PLAN },
	/* one switch is worse than the other: 2 ranks by 0.2 GB/s are 0.1 a rank, so 0.6 for 6 */
	{ HEAD "s(a(n[1-3]),b(n[4-5]));tasks=2(x3),1(x2);oversub=100,1000", 2, 0.6, 0.2, DDL__FROM_PLAN },
	/* a node without ranks gives no link */
	{ HEAD "s(a(n[1-4]),b(n[5-8]));tasks=2(x3),0,2(x3),0;oversub=100(x2)", 2, 3, 3, DDL__FROM_PLAN },
	/* LinkSpeed without a unit: the slowest counts as a node's link */
	{ TWO ";speed=100(x2)", 2, 1, 1, DDL__FROM_PLAN },
	{ HEAD "r(s(a(n[1-2]),b(n[3-4])),t(c(n[5-6]),d(n[7-8])));tasks=1(x8);speed=400,100(x2),400,100(x2)", 3, 4, 4,
	  DDL__FROM_PLAN },
	{ HEAD "r(s(a(n[1-2]),b(n[3-4])),t(c(n[5-6]),d(n[7-8])));tasks=1(x8);speed=400,100(x2),400,100(x2)", 2, 1, 1,
	  DDL__FROM_PLAN },
	/* and in Mbit/s */
	{ TWO ";speed=20000(x2);uplink=linkspeed", 2, 2.5, 2.5, DDL__FROM_PLAN },
	{ TWO ";speed=20000,0;uplink=linkspeed", 2, 1, 1, DDL__FROM_PLAN },
	/* a ratio wins over a link speed */
	{ TWO ";speed=100(x2);oversub=200(x2)", 2, 2, 2, DDL__FROM_PLAN },
	/* what is known of one level says nothing of another */
	{ HEAD "r(s(a(n[1-2]),b(n[3-4])),t(c(n[5-6]),d(n[7-8])));tasks=1(x8);oversub=0,100(x2),0,100(x2)", 2, 2, 2,
	  DDL__FROM_PLAN },
	{ HEAD "r(s(a(n[1-2]),b(n[3-4])),t(c(n[5-6]),d(n[7-8])));tasks=1(x8);oversub=0,100(x2),0,100(x2)", 3, 1, 1,
	  DDL__FROM_DEFAULT },
};

static void uplinks_have_the_speed_that_the_plan_tells(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ddl__model model = model_of(cases[i].text);
		const struct ddl__level *level = &model.level[cases[i].level];
		if (fabs(level->uplink_GBps - cases[i].uplink) > 1e-9 || fabs(level->narrow_GBps - cases[i].narrow) > 1e-9)
			fail_msg("%s: %g and %g GB/s", cases[i].text, level->uplink_GBps, level->narrow_GBps);
		assert_int_equal(level->uplink_from, cases[i].from);
		assert_int_equal(level->bandwidth_from, DDL__FROM_LINKS);
		assert_true(model.level[0].uplink_GBps == 0 && model.level[1].uplink_GBps == 0);
	}
}

/* With one rank a node or two: all ranks of a switch cross its uplink in these, and one does in the ring. */
static void what_crosses_an_uplink_often_is_cheaper_at_1_to_1_than_at_4_to_1(void **state)
{
	static const char *const tasks[] = { "1", "2" };
	for (size_t i = 0; i < 2; i++) {
		char text[256];
		snprintf(text, sizeof(text), HEAD "spine(leaf1(n[1-4]),leaf2(n[5-8]));tasks=%s(x8);oversub=100(x2)", tasks[i]);
		struct ddl__model wide = model_of(text);
		snprintf(text, sizeof(text), HEAD "spine(leaf1(n[1-4]),leaf2(n[5-8]));tasks=%s(x8);oversub=400(x2)", tasks[i]);
		struct ddl__model narrow = model_of(text);
		assert_true(ddl__cost_halving(&wide, BYTES) < 0.9 * ddl__cost_halving(&narrow, BYTES));
		assert_true(ddl__cost_doubling(&wide, BYTES) < 0.6 * ddl__cost_doubling(&narrow, BYTES));
		assert_true(ddl__cost_multiring(&wide, BYTES) < 0.9 * ddl__cost_multiring(&narrow, BYTES));
		assert_true(ddl__cost_direct(&wide, BYTES) < 0.5 * ddl__cost_direct(&narrow, BYTES));
		assert_true(ddl__cost_bruck_allgather(&wide, BYTES) < 0.9 * ddl__cost_bruck_allgather(&narrow, BYTES));
		assert_near(ddl__cost_ring(&wide, BYTES), ddl__cost_ring(&narrow, BYTES));
		assert_near(ddl__cost_ring_allgather(&wide, BYTES), ddl__cost_ring_allgather(&narrow, BYTES));
	}
}

/* 4 nodes of 2 ranks below each of 2 switches, a link 1 GB/s, S = 64 MB: the exact times at 4:1, without what memory takes. */
static void the_time_on_a_narrow_uplink_is_that_of_all_that_crosses_it(void **state)
{
	struct ddl__model model = model_of(TWO ";oversub=400(x2)");
	model.reduce_GBps = 0;
	model.level[0].bandwidth_GBps = 6;
	model.level[0].fused = 0;
	for (uint32_t l = 0; l < model.n_levels; l++)
		model.level[l].latency_us = 0;
	/* in the node 1/2 S by 6 GB/s; 3/4 of 1/2 S by 2 ranks a node; 1/2 of 1/8 S by 8 ranks an uplink */
	assert_near(ddl__cost_multiring(&model, BYTES),
		    2 * (BYTES / 2 / 6000 + BYTES / 2 * 3 / 4 * 2 / 1000 + BYTES / 8 / 2 * 8 / 1000));
	assert_near(ddl__cost_halving(&model, BYTES),
		    2 * (BYTES / 2 / 6000 + BYTES / 4 * 2 / 1000 + BYTES / 8 * 2 / 1000 + BYTES / 16 * 8 / 1000));
	assert_near(ddl__cost_doubling(&model, BYTES), BYTES / 6000 + 2 * (BYTES * 2 / 1000) + BYTES * 8 / 1000);
	assert_near(ddl__cost_ring(&model, BYTES), 2 * BYTES * 15 / 16 / 1000);
	/* four groups of four neighbours: a ring over them crosses each uplink once, but four rings do at once */
	model.n_dims = 2;
	model.dims[0] = model.dims[1] = 4;
	assert_near(ddl__cost_multiring(&model, BYTES), 2 * (BYTES * 3 / 4 / 1000 + BYTES / 4 * 3 / 4 * 4 / 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uplinks_have_the_speed_that_the_plan_tells),
		cmocka_unit_test(what_crosses_an_uplink_often_is_cheaper_at_1_to_1_than_at_4_to_1),
		cmocka_unit_test(the_time_on_a_narrow_uplink_is_that_of_all_that_crosses_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
