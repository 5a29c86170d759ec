/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - plans of steps without a cluster: sizes and names that no test cluster has, and whose plan a text is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>

#include "plan.h"
#include "step.h"

static struct ddl__options ring(void)
{
	struct ddl__options options;

	ddl__options_init(&options);
	options.mode = DDL__MODE_RING;
	return options;
}

static struct ddl__step step_of(const char *name, const char *nodes, const char *tasks)
{
	struct ddl__step step;

	assert_int_equal(ddl__step_init(&step, name, nodes, tasks, NULL), 0);
	return step;
}

static struct ddl__topology *topology_of(const char *text)
{
	struct ddl__topology *topology;

	assert_int_equal(ddl__topology_read_controller(text, strlen(text), &topology, NULL), 0);
	return topology;
}

static const char two_leaves[] = "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1,3,5]\n"
				 "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[2,4,6]\n"
				 "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-6] Switches=leaf[1-2]\n";

/* agg1 and agg2 have the same switches below them and become agg[1-2], which goes before agg3. */
static const char joined_switches[] = "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
				      "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
				      "SwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=n[5-6]\n"
				      "SwitchName=leaf4 Level=0 LinkSpeed=1 Nodes=n[7-8]\n"
				      "SwitchName=agg1 Level=1 LinkSpeed=1 Switches=leaf[1-2]\n"
				      "SwitchName=agg2 Level=1 LinkSpeed=1 Switches=leaf[1-2]\n"
				      "SwitchName=agg3 Level=1 LinkSpeed=1 Switches=leaf[3-4]\n"
				      "SwitchName=core Level=2 LinkSpeed=1 Switches=agg[1-3]\n";

static void a_wide_plan_cut_down_is_the_plan_that_would_have_been_made(void **state)
{
	static const struct {
		const char *topology, *all; /* of the wide plan */
		const char *nodes, *tasks;  /* of the step */
	} cases[] = {
		{ two_leaves, "n[1-6]", "n[1-6]", "2(x6)" },          { two_leaves, "n[1-6]", "n[2-4]", "1,2,3" },
		{ two_leaves, "n[1-6]", "n[1,3]", "1(x2)" },          { two_leaves, "n[1-6]", "n5", "4" },
		{ two_leaves, "n[1-6]", "n[1,2]", "1(x2)" },          { two_leaves, "n[1-6]", "n[4,2,1]", "3,2,1" },
		{ joined_switches, "n[1-8]", "n[1-8]", "1(x8)" },     { joined_switches, "n[1-8]", "n[1,3,5,7]", "1(x4)" },
		{ joined_switches, "n[1-8]", "n[1-2,5,7]", "1(x4)" },
	};
	struct ddl__options options = ring();
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddl__topology *topology = topology_of(cases[i].topology);
		struct ddl__step wide = step_of("7.0", cases[i].all, NULL);
		struct ddl__step step = step_of("7.0", cases[i].nodes, cases[i].tasks);
		char *wide_text, *cut, *made;

		assert_int_equal(ddl__step_plan(&wide, topology, "slurm", &options, &wide_text, NULL), 0);
		assert_false(ddl__step_plan_has_tasks(wide_text));
		assert_int_equal(ddl__step_plan_narrow(&step, wide_text, &cut, NULL), 0);
		assert_int_equal(ddl__step_plan(&step, topology, "slurm", &options, &made, NULL), 0);
		assert_string_equal(cut, made);
		assert_true(ddl__step_plan_has_tasks(cut));
		free(wide_text);
		free(cut);
		free(made);
		ddl__step_fini(&wide);
		ddl__step_fini(&step);
		ddl__topology_destroy(topology);
	}
}

static void with_order_slurm_the_steps_own_order_counts(void **state)
{
	struct ddl__options options = ring();
	struct ddl__step wide = step_of("7.0", "n[1-6]", NULL), step = step_of("7.0", "n[4,2]", "1,2");
	char *wide_text, *cut;

	options.order = DDL__ORDER_SLURM;
	assert_int_equal(ddl__step_plan(&wide, NULL, "none", &options, &wide_text, NULL), 0);
	assert_int_equal(ddl__step_plan_narrow(&step, wide_text, &cut, NULL), 0);
	assert_non_null(strstr(cut, ";tree=fabric(n[4,2]);tasks=1,2;"));
	free(cut);
	free(wide_text);
	ddl__step_fini(&step);
	ddl__step_fini(&wide);
}

static void five_thousand_nodes_from_a_file_make_a_short_plan(void **state)
{
	struct ddl__spank_settings settings = { .options = ring(), .source = DDL__SPANK_FILE };
	struct ddl__step step = step_of("7.0", "x[1-5000]", "8(x5000)");
	struct ddl__plan *plan;
	char *text;
	FILE *file;
	int i, fd;

	strcpy(settings.file, "/tmp/ddl-topology-XXXXXX");
	fd = mkstemp(settings.file);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	for (i = 0; i < 250; i++)
		fprintf(file, "SwitchName=leaf%d Nodes=x[%d-%d]\n", i + 1, 20 * i + 1, 20 * i + 20);
	fprintf(file, "SwitchName=core Switches=leaf[1-250]\n");
	fclose(file);
	assert_int_equal(ddl__step_plan_from_file(&step, &settings, &text, NULL), 0);
	unlink(settings.file);
	assert_true(strlen(text) < 4096);
	assert_int_equal(ddl__plan_decode(text, strlen(text), &plan, NULL), 0);
	assert_int_equal(plan->n_nodes, 5000);
	assert_int_equal(plan->root->n_children, 250);
	assert_string_equal(plan->nodes[4999]->name, "x5000");
	assert_int_equal(plan->nodes[4999]->tasks, 8);
	ddl__plan_destroy(plan);
	free(text);
	ddl__step_fini(&step);
}

static void a_plan_that_does_not_fit_is_refused_with_its_size(void **state)
{
	struct ddl__options options = ring();
	struct ddl_error err;
	struct ddl__step step;
	char *list = malloc(5000 * 64), *text, *at = list;
	int i;

	assert_non_null(list);
	for (i = 0; i < 5000; i++) /* no two neighbours differ in one number only */
		at += sprintf(at, "%sirregular-%x-of-%d-in-row-%c", i ? "," : "", i * 40503, i * 31, 'a' + i % 26);
	step = step_of("7.0", list, NULL);
	assert_int_equal(step.n_nodes, 5000);
	assert_int_equal(ddl__step_plan(&step, NULL, "none", &options, &text, &err), -E2BIG);
	assert_non_null(strstr(err.text, "bytes"));
	ddl__step_fini(&step);
	free(list);
}

static void the_environment_may_say_nothing_or_nonsense(void **state)
{
	static const struct {
		const char *nodes; /* as in the environment */
		int rc;            /* expected */
	} cases[] = {
		{ NULL, -ENOENT }, { "", -ENOENT }, { "n[1-", -EBADMSG }, { "n[2-1]", -EBADMSG }, { "n[1-4294967295]", -EBADMSG }
	};
	struct ddl__step step;
	struct ddl_error err;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err.text[0] = '\0';
		assert_int_equal(ddl__step_init(&step, "7.0", cases[i].nodes, "1", &err), cases[i].rc);
		assert_true(strlen(err.text) > 10);
	}
	/* tasks that do not fit the nodes are not known */
	step = step_of("7.0", "n[1-3]", "2(x2)");
	assert_null(step.tasks);
	ddl__step_fini(&step);
	step = step_of("7.0", "n[1-3]", "many");
	assert_null(step.tasks);
	ddl__step_fini(&step);
}

static void a_text_that_is_no_plan_is_not_cut_down(void **state)
{
	static const char *const texts[] = { "", "1", "2;job=7.0;tree=a(b)", "1;job=7.0;mode=ring;src=none/flat;tree=a(", ";;;;=" };
	struct ddl__step step = step_of("7.0", "n1", "1");
	char *text;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_true(ddl__step_plan_narrow(&step, texts[i], &text, NULL) < 0);
	ddl__step_fini(&step);
}

static void job_tells_whose_a_plan_is(void **state)
{
	char name[DDL__STEP_NAME_SIZE], text[300] = "1;job=";

	ddl__step_of_plan("1;job=4242.0;mode=ring", name);
	assert_string_equal(name, "4242.0");
	ddl__step_of_plan("1;mode=ring;job=4242.batch", name);
	assert_string_equal(name, "4242.batch");
	ddl__step_of_plan("1;mode=ring", name);
	assert_string_equal(name, "");
	ddl__step_of_plan("1;job=;mode=ring", name);
	assert_string_equal(name, "");
	ddl__step_of_plan(NULL, name);
	assert_string_equal(name, "");
	memset(text + 6, '9', sizeof(text) - 7);
	text[sizeof(text) - 1] = '\0';
	ddl__step_of_plan(text, name);
	assert_int_equal(strlen(name), DDL__STEP_NAME_SIZE - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wide_plan_cut_down_is_the_plan_that_would_have_been_made),
		cmocka_unit_test(with_order_slurm_the_steps_own_order_counts),
		cmocka_unit_test(five_thousand_nodes_from_a_file_make_a_short_plan),
		cmocka_unit_test(a_plan_that_does_not_fit_is_refused_with_its_size),
		cmocka_unit_test(the_environment_may_say_nothing_or_nonsense),
		cmocka_unit_test(a_text_that_is_no_plan_is_not_cut_down),
		cmocka_unit_test(job_tells_whose_a_plan_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
