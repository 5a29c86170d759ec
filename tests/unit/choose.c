/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of what requests, the environment and the plan say of precision: the wire and the algorithm that a request gets, on
 * a node and between nodes, and what is refused. Over transport/loop; the cost model chooses, by the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "engine_world.h"
#include "origin.h"
#include "pick.h"

enum { RANKS = 4, LONG = 1 << 20, SHORT = 2 };

struct row {
	const char *plan;      /* its options */
	enum ddl_accuracy env; /* DDL_ACCURACY */
	enum ddl_wire wire;    /* of the request */
	enum ddl_accuracy accuracy;
	size_t count;
	enum ddl_wire on_node; /* the wire that is taken on one node */
	enum ddl_wire between; /* and between nodes */
	bool flat;             /* by an algorithm that rounds once */
};

static const struct row rows[] = {
	/* nobody says anything; the plan's wire; the request's */
	{ "", 0, 0, 0, LONG, DDL_WIRE_NATIVE, DDL_WIRE_NATIVE, false },
	{ ";wire=bf16", 0, 0, 0, LONG, DDL_WIRE_BFLOAT16, DDL_WIRE_BFLOAT16, false },
	{ ";wire=bf16", 0, DDL_WIRE_INT8, 0, LONG, DDL_WIRE_INT8, DDL_WIRE_INT8, false },
	{ ";wire=bf16", 0, DDL_WIRE_NATIVE, 0, LONG, DDL_WIRE_NATIVE, DDL_WIRE_NATIVE, false },
	/* an accuracy leaves the wire open: what rounds is taken between nodes alone, and for long messages alone */
	{ "", 0, 0, DDL_ACCURACY_FAST, LONG, DDL_WIRE_NATIVE, DDL_WIRE_BFLOAT16, false },
	{ "", 0, 0, DDL_ACCURACY_FLAT, LONG, DDL_WIRE_NATIVE, DDL_WIRE_BFLOAT16, true },
	{ "", 0, 0, DDL_ACCURACY_FLAT, SHORT, DDL_WIRE_NATIVE, DDL_WIRE_NATIVE, false },
	{ ";wire=i8", 0, 0, DDL_ACCURACY_FLAT, LONG, DDL_WIRE_NATIVE, DDL_WIRE_INT8, true },
	{ ";wire=native", 0, 0, DDL_ACCURACY_FLAT, LONG, DDL_WIRE_NATIVE, DDL_WIRE_NATIVE, false },
	{ ";accuracy=flat", 0, 0, 0, LONG, DDL_WIRE_NATIVE, DDL_WIRE_BFLOAT16, true },
	{ ";accuracy=exact", DDL_ACCURACY_FLAT, 0, 0, LONG, DDL_WIRE_NATIVE, DDL_WIRE_BFLOAT16, true },
	{ ";accuracy=flat", DDL_ACCURACY_FLAT, 0, DDL_ACCURACY_FAST, LONG, DDL_WIRE_NATIVE, DDL_WIRE_BFLOAT16, false },
	/* a request's wire is taken with it */
	{ "", 0, DDL_WIRE_BFLOAT16, DDL_ACCURACY_FLAT, LONG, DDL_WIRE_BFLOAT16, DDL_WIRE_BFLOAT16, true },
	{ "", 0, DDL_WIRE_BFLOAT16, DDL_ACCURACY_FLAT, SHORT, DDL_WIRE_BFLOAT16, DDL_WIRE_BFLOAT16, true },
	/* exact, whatever the plan's wire is, and another's where the environment says it */
	{ ";wire=bf16", 0, 0, DDL_ACCURACY_EXACT, LONG, DDL_WIRE_NATIVE, DDL_WIRE_NATIVE, false },
	{ ";wire=bf16", DDL_ACCURACY_EXACT, 0, 0, LONG, DDL_WIRE_NATIVE, DDL_WIRE_NATIVE, false },
	{ "", DDL_ACCURACY_EXACT, DDL_WIRE_BFLOAT16, 0, LONG, DDL_WIRE_NATIVE, DDL_WIRE_NATIVE, false },
};

static void open_world(struct world *w, const char *options, bool one_node)
{
	char text[256];
	struct ddl_error err = { 0 };
	snprintf(text, sizeof(text), "1;job=;mode=auto;src=none/flat;tree=fabric(%s)%s", one_node ? "n1" : "n[1-2]", options);
	if (ddl__plan_decode(text, strlen(text), &w->plan.plan, &err) < 0)
		fail_msg("%s", err.text);
	w->plan.text = strdup(text);
	w->plan.node_of_rank = calloc(RANKS, sizeof(*w->plan.node_of_rank));
	for (int r = 0; r < RANKS; r++)
		w->plan.node_of_rank[r] = one_node ? 0 : (size_t)r / 2;
	world_open(w, RANKS, TIMEOUT_MS);
}

static float buffer[LONG];

static int ask(struct world *w, enum ddl_type type, size_t count, const struct ddl_request_options *options,
	       struct ddl_request **request, struct ddl_error *err)
{
	return ddl_allreduce_init(buffer, buffer, count, type, DDL_SUM, w->comms[0], options, request, err);
}

static void check_row(const struct row *row, size_t index, bool one_node)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err = { 0 };
	struct ddl_request *requests[RANKS];
	struct world w;
	open_world(&w, row->plan, one_node);
	options.wire = row->wire;
	options.accuracy = row->accuracy;
	for (int r = 0; r < RANKS; r++) { /* all, so that they part in good order */
		w.comms[r]->origin->settings.accuracy = row->env;
		if (ddl_allreduce_init(buffer, buffer, row->count, DDL_FLOAT32, DDL_SUM, w.comms[r], &options, &requests[r], &err) <
		    0)
			fail_msg("row %zu: %s", index, err.text);
	}
	const enum ddl_wire want = one_node ? row->on_node : row->between;
	const enum ddl_wire wire = (enum ddl_wire)requests[0]->call.wire;
	const char *name = ddl__algorithm_name(requests[0]->call.algorithm);
	if (wire != want)
		fail_msg("row %zu%s: %s by %s, not %s", index, one_node ? ", on a node" : "", name, ddl__wire_name(wire),
			 ddl__wire_name(want));
	if (row->flat && want != DDL_WIRE_NATIVE && strcmp(name, "direct") != 0 && strcmp(name, "multidirect") != 0)
		fail_msg("row %zu%s: %s is not flat", index, one_node ? ", on a node" : "", name);
	for (int r = 0; r < RANKS; r++)
		ddl_request_free(requests[r]);
	world_fini(&w);
}

static void who_is_nearest_to_the_call_counts_and_rounding_must_win(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int one_node = 0; one_node < 2; one_node++)
			check_row(&rows[i], i, one_node);
}

static void expect_refused(struct world *w, enum ddl_type type, const struct ddl_request_options *options, int code,
			   const char *word)
{
	struct ddl_request *request;
	struct ddl_error err = { 0 };
	assert_int_equal(ask(w, type, 1000, options, &request, &err), code);
	if (!strstr(err.text, word))
		fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

static void the_model_counts_what_direct_collects(void **state)
{
	struct world w;
	struct ddl__model model;
	struct ddl__candidate direct;
	struct ddl__picked wide, narrow, in_order;
	open_world(&w, "", true);
	ddl__model_init(&model, w.comms[0]->layout);
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "direct", &direct, NULL), 0);
	struct ddl__pick pick = { .collective = DDL__ALLREDUCE,
				  .model = &model,
				  .forced = &direct,
				  .ways = { { .wire = DDL_WIRE_NATIVE, .bytes = LONG, .widen = 1, .work = 1 } },
				  .n_ways = 1 };
	assert_int_equal(ddl__pick(&pick, &wide), 0);
	pick.need.narrow = true;
	assert_int_equal(ddl__pick(&pick, &narrow), 0);
	pick.need = (struct ddl__need){ .in_order = true };
	assert_int_equal(ddl__pick(&pick, &in_order), 0);
	assert_true(narrow.us[0] > wide.us[0]);
	assert_true(narrow.us[0] == in_order.us[0]);
	world_fini(&w);
}

static void wrong_words_of_the_environment_are_told_with_its_name(void **state)
{
	static const struct {
		const char *name, *value, *remedy;
	} wrong[] = { { "DDL_ACCURACY", "good", "choose from auto, fast, flat, exact" },
		      { "DDL_REPRODUCIBLE", "yes", "from 0 to 1" },
		      { "DDL_TRACE", "\t", "without control characters" },
		      { "DDL_MODE", "triangle", "choose from " },
		      { "DDL_MODE", "auto,progress=9", "from 0 to 8" } };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ddl__settings settings;
		struct ddl_error err = { 0 };
		setenv(wrong[i].name, wrong[i].value, 1);
		assert_int_equal(ddl__settings_read(NULL, &settings, &err), -EINVAL);
		unsetenv(wrong[i].name);
		if (strncmp(err.text, wrong[i].name, strlen(wrong[i].name)) != 0 || !strstr(err.text, wrong[i].remedy))
			fail_msg("%s=%s: \"%s\"", wrong[i].name, wrong[i].value, err.text);
	}
}

static void contradictions_are_refused_with_a_sentence(void **state)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct world w;
	open_world(&w, "", false);
	options.accuracy = DDL_ACCURACY_EXACT;
	options.wire = DDL_WIRE_INT8;
	expect_refused(&w, DDL_FLOAT32, &options, -EINVAL, "i8 contradict");
	options.accuracy = DDL_ACCURACY_FLAT;
	options.algorithm = "tree";
	expect_refused(&w, DDL_FLOAT32, &options, -EOPNOTSUPP, "direct, multidirect");
	expect_refused(&w, DDL_BFLOAT16, &options, -EOPNOTSUPP, "direct, exchange");
	options.algorithm = NULL;
	options.accuracy = (enum ddl_accuracy)4;
	expect_refused(&w, DDL_FLOAT32, &options, -EINVAL, "enum ddl_accuracy");
	options.accuracy = DDL_ACCURACY_AUTO;
	options.reproducible = 2;
	expect_refused(&w, DDL_FLOAT32, &options, -EINVAL, "reproducible");
	world_fini(&w);
}

/* Makes a reduce-scatter on all ranks; wire: that it goes by. Returns what the last rank's call did. */
static int scatter(struct world *w, const struct ddl_request_options *options, enum ddl_wire *wire)
{
	struct ddl_request *requests[RANKS] = { NULL };
	struct ddl_error err = { 0 };
	int rc = 0;
	for (int r = 0; r < RANKS; r++)
		rc = ddl_reduce_scatter_init(buffer, buffer + LONG / 2, LONG / 8, DDL_FLOAT32, DDL_SUM, w->comms[r], options,
					     &requests[r], &err);
	if (rc == 0)
		*wire = (enum ddl_wire)requests[0]->call.wire;
	for (int r = 0; r < RANKS; r++)
		ddl_request_free(requests[r]);
	return rc;
}

/* Reduce-scatters have no flat algorithm on a wire that rounds: the request is refused, others' words are kept as far as can be. */
static void other_collectives_keep_what_they_can(void **state)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	enum ddl_wire wire = DDL_WIRE_AUTO;
	struct world w;
	open_world(&w, ";accuracy=flat;reproducible=1", false);
	assert_int_equal(scatter(&w, &options, &wire), 0);
	assert_int_equal(wire, DDL_WIRE_NATIVE);
	options.wire = DDL_WIRE_BFLOAT16;
	assert_int_equal(scatter(&w, &options, &wire), 0);
	assert_int_equal(wire, DDL_WIRE_BFLOAT16);
	options.accuracy = DDL_ACCURACY_FLAT;
	assert_int_equal(scatter(&w, &options, &wire), -EOPNOTSUPP);
	options.accuracy = DDL_ACCURACY_AUTO;
	options.reproducible = 1;
	assert_int_equal(scatter(&w, &options, &wire), -EOPNOTSUPP);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_nearest_to_the_call_counts_and_rounding_must_win),
		cmocka_unit_test(contradictions_are_refused_with_a_sentence),
		cmocka_unit_test(the_model_counts_what_direct_collects),
		cmocka_unit_test(wrong_words_of_the_environment_are_told_with_its_name),
		cmocka_unit_test(other_collectives_keep_what_they_can),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
