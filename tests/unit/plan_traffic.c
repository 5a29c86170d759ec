/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_traffic.c - bytes over links, counted in schedules: against formulas, against themselves, and the cost model against them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "cost.h"
#include "plan_view.h"
#include "select.h"

#define HEAD   "1;mode=auto;src=none/tree;tree="
#define TWO    HEAD "s(a(n[1-4]),b(n[5-8]));tasks=2(x8)"
#define FOUR   HEAD "s(a(n[1-2]),b(n[3-4]),c(n[5-6]),d(n[7-8]));tasks=2(x8)"
#define THREE  HEAD "s(a(n[1-3]),b(n[4-6]),c(n[7-8]));tasks=2(x8)"
#define HIGH   HEAD "r(s(a(n[1-2]),b(n[3-4])),t(c(n[5-6]),d(n[7-8])));tasks=1(x8)"
#define UNEVEN HEAD "r(s(a(n[1-3]),b(n[4-5])),n6,t(c(n7,n8),d(n9,x)));tasks=1,2,3,1,1,4,2,2,1,1"

#define BYTES (UINT64_C(48) << 20) /* which 16 ranks and groups of 2, 3, 4 and 6 divide, as float32 */

struct fixture {
	struct ddl__plan *plan;
	struct ddl__view *view;
	struct ddl__traffic *traffic;
};

static struct fixture make(const char *text)
{
	struct ddl_error err = { 0, "" };
	size_t node_of_rank[64], n = 0;
	struct fixture f;

	if (ddl__plan_decode(text, strlen(text), &f.plan, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	for (size_t i = 0; i < f.plan->n_nodes; i++)
		for (uint32_t t = 0; t < f.plan->nodes[i]->tasks; t++)
			node_of_rank[n++] = i;
	assert_int_equal(ddl__view_create(f.plan, node_of_rank, (int)n, true, &f.view, &err), 0);
	f.traffic = calloc(f.view->n_vertices, sizeof(*f.traffic));
	assert_non_null(f.traffic);
	return f;
}

static void drop(struct fixture *f)
{
	free(f->traffic);
	ddl__view_destroy(f->view);
	ddl__plan_destroy(f->plan);
}

static void count(struct fixture *f, const char *algorithm, uint64_t bytes)
{
	struct ddl_error err = { 0, "" };
	struct ddl__candidate candidate;

	if (ddl__select(DDL__ALLREDUCE, algorithm, &candidate, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(ddl__view_traffic(f->view, &candidate, bytes, f->traffic), 0);
}

/* The most bytes over a link of a switch, or of a node, in a direction. */
static double most(const struct fixture *f, bool switches)
{
	uint64_t bytes = 0;

	for (size_t i = 1; i < f->view->n_vertices; i++) {
		if ((f->view->vertices[i].vertex->n_children > 0) != switches)
			continue;
		bytes = f->traffic[i].up > bytes ? f->traffic[i].up : bytes;
		bytes = f->traffic[i].down > bytes ? f->traffic[i].down : bytes;
	}
	return (double)bytes;
}

static const struct {
	const char *plan, *algorithm;
	double uplink, node; /* most over a link, in messages */
} known[] = {
	{ TWO, "ring", 2 * 15 / 16.0, 2 * 15 / 16.0 },
	{ TWO, "multiring", 8 * (1 / 8.0), 2 * 2 * (3 / 8.0 + 1 / 16.0) },
	{ TWO, "multiring:4x4", 2 * 3 / 4.0, 2 * 3 / 4.0 + 2 * 2 * 3 / 16.0 },
	{ TWO, "halving", 8 * 2 / 16.0, 2 * 2 * (1 / 4.0 + 1 / 8.0 + 1 / 16.0) },
	{ TWO, "doubling", 8, 2 * 3 },
	{ TWO, "direct", 2 * 8 * 8 / 16.0, 2 * 2 * 14 / 16.0 },
	{ FOUR, "multiring", 4 * 2 * 3 / 4.0 / 4, 2 * 2 * (1 / 4.0 + 3 / 16.0) },
	{ FOUR, "halving", 4 * 2 * (1 / 8.0 + 1 / 16.0), 2 * 2 * (1 / 4.0 + 1 / 8.0 + 1 / 16.0) },
	{ THREE, "ring", 2 * 15 / 16.0, 2 * 15 / 16.0 },
	{ HIGH, "multiring", 2 * 2 * (1 / 4.0 + 1 / 8.0), 2 * (1 / 2.0 + 1 / 4.0 + 1 / 8.0) },
};

static void links_carry_what_the_formulas_say(void **state)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct fixture f = make(known[i].plan);

		count(&f, known[i].algorithm, BYTES);
		if (fabs(most(&f, true) / BYTES - known[i].uplink) > 1e-4 || fabs(most(&f, false) / BYTES - known[i].node) > 1e-4)
			fail_msg("%s by %s: %.6f and %.6f messages over an uplink and a node's link", known[i].plan,
				 known[i].algorithm, most(&f, true) / BYTES, most(&f, false) / BYTES);
		drop(&f);
	}
}

/* Whatever is sent up comes down somewhere: what enters a switch from below and above leaves it below and above. */
static void what_enters_a_switch_leaves_it(void **state)
{
	static const char *const plans[] = { TWO, FOUR, THREE, HIGH, UNEVEN };

	for (size_t p = 0; p < sizeof(plans) / sizeof(*plans); p++) {
		struct fixture f = make(plans[p]);

		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
			if (a->collective != DDL__ALLREDUCE)
				continue;
			count(&f, a->name, 1000000);
			assert_true(f.traffic[0].up == 0 && f.traffic[0].down == 0);
			for (size_t v = 0; v < f.view->n_vertices; v++) {
				uint64_t in = f.traffic[v].down, out = f.traffic[v].up;

				if (f.view->vertices[v].vertex->n_children == 0)
					continue;
				for (size_t c = 1; c < f.view->n_vertices; c++) {
					in += f.view->vertices[c].parent == v ? f.traffic[c].up : 0;
					out += f.view->vertices[c].parent == v ? f.traffic[c].down : 0;
				}
				assert_true(in == out && in > 0);
			}
		}
		drop(&f);
	}
}

static void a_short_wire_halves_the_bytes(void **state)
{
	struct fixture f = make(TWO), g = make(TWO ";wire=bf16");

	count(&f, "ring", BYTES);
	count(&g, "ring", BYTES);
	for (size_t i = 1; i < f.view->n_vertices; i++)
		assert_int_equal(f.traffic[i].up, 2 * g.traffic[i].up);
	drop(&f);
	drop(&g);
}

/* Links of nodes and memory for nothing, an uplink of 1 GB/s: what the model predicts is what crosses the worst uplink. */
static void the_model_knows_what_crosses_the_uplinks(void **state)
{
	static const struct {
		const char *plan, *algorithm;
	} rows[] = {
		{ TWO, "ring" },
		{ TWO, "multiring" },
		{ TWO, "multiring:4x4" },
		{ TWO, "halving" },
		{ TWO, "doubling" },
		{ FOUR, "ring" },
		{ FOUR, "multiring" },
		{ FOUR, "halving" },
		{ FOUR, "doubling" },
		{ FOUR, "multiring:2x8" },
		{ THREE, "ring" },
		{ THREE, "multiring" },
		{ THREE, "multiring:4x4" },
		{ HIGH, "ring" },
		{ HIGH, "multiring" },
		{ HIGH, "halving" },
		{ HIGH, "multiring:2x4" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fixture f = make(rows[i].plan);
		struct ddl__candidate candidate;
		struct ddl__model model;
		double us;

		ddl__model_init(&model, f.view->layout);
		model.reduce_GBps = 0;
		for (uint32_t l = 0; l < model.n_levels; l++) {
			model.level[l].latency_us = 0;
			model.level[l].bandwidth_GBps = 1e12;
			model.level[l].uplink_GBps = model.level[l].narrow_GBps = l == 2 ? 1 : l > 2 ? 1e12 : 0;
		}
		count(&f, rows[i].algorithm, BYTES);
		assert_int_equal(ddl__select(DDL__ALLREDUCE, rows[i].algorithm, &candidate, NULL), 0);
		us = ddl__candidate_cost(&candidate, &model, (double)BYTES);
		if (fabs(us * 1000 - most(&f, true)) > 1e-4 * BYTES)
			fail_msg("%s by %s: %.6f messages are predicted and %.6f counted", rows[i].plan, rows[i].algorithm,
				 us * 1000 / BYTES, most(&f, true) / BYTES);
		drop(&f);
	}
}

static void dimensions_that_do_not_fit_are_refused_with_a_sentence(void **state)
{
	const uint64_t size = 1024;
	struct fixture f = make(TWO);
	struct ddl_error err = { 0, "" };
	FILE *out = fopen("/dev/null", "w");

	assert_non_null(out);
	assert_true(ddl__view_print_traffic(f.view, "multiring:3x3", &size, 1, out, &err) < 0);
	assert_non_null(strstr(err.text, "dims=3x3 makes 9 ranks, but there are 16"));
	assert_true(ddl__view_print_traffic(f.view, "teleport", &size, 1, out, &err) < 0);
	assert_non_null(strstr(err.text, "teleport"));
	assert_int_equal(ddl__view_print_traffic(f.view, NULL, &size, 1, out, &err), 0);
	fclose(out);
	drop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_carry_what_the_formulas_say),
		cmocka_unit_test(what_enters_a_switch_leaves_it),
		cmocka_unit_test(a_short_wire_halves_the_bytes),
		cmocka_unit_test(the_model_knows_what_crosses_the_uplinks),
		cmocka_unit_test(dimensions_that_do_not_fit_are_refused_with_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
