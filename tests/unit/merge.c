/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - what ranks told, in; the plan in force and the ranks' nodes, out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merge.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RANKS_MAX    16

/*
 * What the ranks told, one word a rank: NODE[@ADDRESS/PATTERN][:SPEED+SPEED...]; speeds of its interfaces in Mbit/s, otherwise one
 * interface of 10000. facts: room for RANKS_MAX. Returns the number of ranks.
 */
static size_t fill(struct ddl__facts *facts, const char *told)
{
	size_t n = 0;

	memset(facts, 0, RANKS_MAX * sizeof(*facts));
	while (*told) {
		struct ddl__facts *rank = &facts[n++];
		char word[256], *speeds;
		int used = 0;

		assert_true(n <= RANKS_MAX);
		assert_int_equal(sscanf(told, "%255s %n", word, &used), 1);
		told += used;
		speeds = strchr(word, ':');
		if (speeds)
			*speeds++ = '\0';
		assert_true(sscanf(word, "%255[^@]@%255[^/]/%255s", rank->node, rank->address, rank->pattern) >= 1);
		do {
			struct ddl__interface *interface = &rank->interfaces[rank->n_interfaces];

			snprintf(interface->name, sizeof(interface->name), "eth%zu", rank->n_interfaces++);
			strcpy(interface->address, "10.0.0.1");
			interface->speed_Mbps = speeds ? (uint32_t)strtoul(speeds, &speeds, 10) : 10000;
			interface->up = 1;
		} while (speeds && *speeds++ == '+');
	}
	return n;
}

/* ddl__merge() on what is kept of the facts. */
static int merge(const char *text, const struct ddl__facts *facts, size_t n, const char *job, const struct ddl__options *options,
		 struct ddl__plan **plan, size_t **node_of_rank, struct ddl_error *err)
{
	struct ddl__place *places = calloc(n + 1, sizeof(*places));
	int rc;

	assert_non_null(places);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(ddl__place_init(&places[i], &facts[i]), 0);
	rc = ddl__merge(text, places, n, job, options, plan, node_of_rank, err);
	for (size_t i = 0; i < n; i++)
		ddl__place_fini(&places[i]);
	free(places);
	return rc;
}

/* The plan's text and "rank nodes": "n1 n1 n2". */
static void outcome(const char *text, const char *told, const char *options_text, char **plan_text, char *nodes)
{
	struct ddl__facts *facts = calloc(RANKS_MAX, sizeof(*facts));
	struct ddl__options options;
	struct ddl__plan *plan;
	size_t *node_of_rank;
	struct ddl_error err = { 0 };
	size_t n;
	int rc;

	assert_non_null(facts);
	n = fill(facts, told);
	ddl__options_init(&options);
	assert_int_equal(ddl__options_parse(options_text, &options, &err), 0);
	rc = merge(text, facts, n, "7.0", &options, &plan, &node_of_rank, &err);
	if (rc < 0)
		print_error("%s\n", err.text);
	assert_int_equal(rc, 0);
	assert_int_equal(ddl__plan_encode(plan, plan_text, &err), 0);
	nodes[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		assert_true(node_of_rank[i] < plan->n_nodes);
		strcat(nodes, i ? " " : "");
		strcat(nodes, plan->nodes[node_of_rank[i]]->name);
	}
	ddl__plan_destroy(plan);
	free(node_of_rank);
	free(facts);
}

#define TREE "1;job=4.0;mode=multiring;src=slurm/tree;tree=spine(leaf1(n[1,4,7]),leaf2(n[2,5,8]),leaf3(n[3,6]))"

static const struct {
	const char *name;
	const char *text;    /* rank 0's plan */
	const char *told;    /* see fill() */
	const char *plan;    /* expected */
	const char *nodes;   /* expected: the node of each rank */
	const char *options; /* NULL: "multiring" */
} cases[] = {
	{ "the plan is complete and ranks come in blocks",
	  "1;job=4.0;mode=multiring;src=slurm/tree;tree=spine(leaf1(n[1,3]),leaf2(n[2,4]))", "n1 n1 n2 n2 n3 n3 n4 n4",
	  "1;job=4.0;mode=multiring;src=slurm/tree;tree=spine(leaf1(n[1,3]),leaf2(n[2,4]));tasks=2(x4);rails=1",
	  "n1 n1 n2 n2 n3 n3 n4 n4", NULL },
	{ "ranks come cyclically", "1;job=4.0;mode=ring;src=slurm/tree;tree=spine(leaf1(n[1,3]),leaf2(n[2,4]))",
	  "n1 n2 n3 n4 n1 n2 n3 n4",
	  "1;job=4.0;mode=ring;src=slurm/tree;tree=spine(leaf1(n[1,3]),leaf2(n[2,4]));tasks=2(x4);rails=1",
	  "n1 n2 n3 n4 n1 n2 n3 n4", NULL },
	{ "tasks are uneven, and what the plan says of them is replaced",
	  "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n[1-3]);tasks=9(x3)", "n3 n1 n2 n2 n3 n3",
	  "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n[1-3]);tasks=1,2,3;rails=1", "n3 n1 n2 n2 n3 n3", NULL },
	{ "nodes without ranks are dropped, and switches that have one child left", TREE, "n1 n4 n2",
	  "1;job=4.0;mode=multiring;src=slurm/tree;tree=spine(leaf1(n[1,4]),n2);tasks=1(x3);rails=1", "n1 n4 n2", NULL },
	{ "one switch is left", TREE, "n5 n8", "1;job=4.0;mode=multiring;src=slurm/tree;tree=leaf2(n[5,8]);tasks=1(x2);rails=1",
	  "n5 n8", NULL },
	{ "one node is left", TREE, "n5 n5", "1;job=4.0;mode=multiring;src=slurm/tree;tree=leaf2(n5);tasks=2;rails=1", "n5 n5",
	  NULL },
	{ "nodes that the plan does not have come last below the root, in natural order", TREE, "x10 n1 n4 x9 n2 n5",
	  "1;job=4.0;mode=multiring;src=slurm/tree;tree=spine(leaf1(n[1,4]),leaf2(n[2,5]),x[9-10]);tasks=1(x6);rails=1",
	  "x10 n1 n4 x9 n2 n5", NULL },
	{ "the plan has none of the nodes", "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n[1-3])", "a b",
	  "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(a,b);tasks=1(x2);rails=1", "a b", NULL },
	{ "names with a domain match names without, both ways", "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1,n2.cluster)",
	  "n1.cluster n2", "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1,n2.cluster);tasks=1(x2);rails=1", "n1 n2.cluster",
	  NULL },
	{ "an exact name wins over a part of a name", "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1,n1.a)", "n1.a n1",
	  "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1,n1.a);tasks=1(x2);rails=1", "n1.a n1", NULL },
	{ "a part of a name that fits two does not match", "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1,n2)", "n1.a n1.b n2",
	  "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n2,n1.a,n1.b);tasks=1(x3);rails=1", "n1.a n1.b n2", NULL },
	{ "the order of the plan's text is kept", "1;job=4.0;mode=ring;src=slurm/flat;order=slurm;tree=fabric(n3,n1,n2)",
	  "n1 n2 n3", "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n[3,1-2]);tasks=1(x3);rails=1;order=slurm", "n1 n2 n3",
	  NULL },
	{ "rails are those that every node has", "1;job=4.0;mode=ring;src=slurm/flat;rails=7;tree=fabric(n[1-2])",
	  "n1:100000+100000+1000 n2:100000+100000+100000",
	  "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n[1-2]);tasks=1(x2);rails=2", "n1 n2", NULL },
	{ "without a plan it is built from the nodes' addresses, whatever the order of the ranks", NULL,
	  "n4@spine.leaf1.n4/switch.switch.node n2@spine.leaf2.n2/switch.switch.node n1@spine.leaf1.n1/switch.switch.node "
	  "n3@spine.leaf2.n3/switch.switch.node n1@spine.leaf1.n1/switch.switch.node",
	  "1;job=7.0;mode=multiring;src=env/tree;tree=spine(leaf1(n[1,4]),leaf2(n[2-3]));tasks=2,1(x3);rails=1", "n4 n2 n1 n3 n1",
	  NULL },
	{ "a node that does not know its place comes last", NULL,
	  "n2 n1@spine.leaf1.n1/switch.switch.node n3@spine.leaf2.n3/switch.switch.node n4@spine.leaf2.n4/switch.switch.node "
	  "n5@spine.leaf1.n5/switch.switch.node",
	  "1;job=7.0;mode=multiring;src=env/tree;tree=spine(leaf1(n[1,5]),leaf2(n[3-4]),n2);tasks=1(x5);rails=1", "n2 n1 n3 n4 n5",
	  NULL },
	{ "nobody knows anything", NULL, "n10 n9 n10",
	  "1;job=7.0;mode=multiring;src=none/flat;tree=fabric(n[9-10]);tasks=1,2;rails=1", "n10 n9 n10", NULL },
	{ "addresses that make no sense count as not known", NULL, "n1@a.b.c.d/switch.node n2@x.n2/torus.node",
	  "1;job=7.0;mode=multiring;src=none/flat;tree=fabric(n[1-2]);tasks=1(x2);rails=1", "n1 n2", NULL },
	{ "order=slurm without a plan is the order of the first ranks", NULL,
	  "n3@s.l1.n3/switch.switch.node n1@s.l2.n1/switch.switch.node n3@s.l1.n3/switch.switch.node",
	  "1;job=7.0;mode=ring;src=env/tree;tree=fabric(n[3,1]);tasks=2,1;rails=1;order=slurm", "n3 n1 n3", "ring,order=slurm" },
	{ "a process alone", NULL, "host", "1;job=7.0;mode=multiring;src=none/flat;tree=fabric(host);tasks=1;rails=1", "host",
	  NULL },
};

static void the_outcome_is_as_expected(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *text, nodes[512];

		print_message("           %s\n", cases[i].name);
		outcome(cases[i].text, cases[i].told, cases[i].options ? cases[i].options : "multiring", &text, nodes);
		assert_string_equal(text, cases[i].plan);
		assert_string_equal(nodes, cases[i].nodes);
		free(text);
	}
}

static void order_is_kept_where_slurm_gives_it(void **state)
{
	struct ddl__plan *plan;
	struct ddl_error err;
	char *text, nodes[512];

	(void)state;
	outcome("1;job=4.0;mode=ring;src=slurm/flat;order=slurm;tree=fabric(n3,n1,n2)", "n1 n2 n3 n1", "ring", &text, nodes);
	assert_int_equal(ddl__plan_decode(text, strlen(text), &plan, &err), 0);
	assert_string_equal(plan->nodes[0]->name, "n3");
	assert_string_equal(plan->nodes[1]->name, "n1");
	assert_string_equal(plan->nodes[2]->name, "n2");
	assert_int_equal(plan->nodes[1]->tasks, 2);
	assert_int_equal(plan->options.order, DDL__ORDER_SLURM);
	ddl__plan_destroy(plan);
	free(text);
}

/* A plan that was cut is as good as one that was made for those nodes: cutting it again changes nothing. */
static void the_plan_in_force_is_its_own_outcome(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *text, *again, nodes[512];

		outcome(cases[i].text, cases[i].told, cases[i].options ? cases[i].options : "multiring", &text, nodes);
		outcome(text, cases[i].told, "ring", &again, nodes);
		assert_string_equal(text, again);
		free(text);
		free(again);
	}
}

static void broken_plans_are_refused(void **state)
{
	static const struct {
		const char *text;
		int rc;
	} broken[] = {
		{ "", -EBADMSG },
		{ "garbage", -EBADMSG },
		{ "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1", -EBADMSG },
		{ "1;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1,n1)", -EBADMSG },
		{ "2;job=4.0;mode=ring;src=slurm/flat;tree=fabric(n1)", -EPROTO },
	};
	static struct ddl__facts facts;
	struct ddl__options options;

	(void)state;
	strcpy(facts.node, "n1");
	ddl__options_init(&options);
	for (size_t i = 0; i < COUNT(broken); i++) {
		struct ddl__plan *plan = NULL;
		size_t *node_of_rank = NULL;
		struct ddl_error err = { 0 };

		assert_int_equal(merge(broken[i].text, &facts, 1, "", &options, &plan, &node_of_rank, &err), broken[i].rc);
		assert_int_equal(err.code, broken[i].rc);
		assert_true(strlen(err.text) > 10);
		assert_null(plan);
		assert_null(node_of_rank);
	}
	assert_int_equal(merge(NULL, &facts, 0, "", &options, NULL, NULL, NULL), -EINVAL);
}

static void impossible_names_are_refused(void **state)
{
	static struct ddl__facts facts[2];
	struct ddl__options options;
	struct ddl__plan *plan = NULL;
	size_t *node_of_rank = NULL;
	struct ddl_error err;

	(void)state;
	strcpy(facts[0].node, "n1");
	strcpy(facts[1].node, "n(2");
	ddl__options_init(&options);
	assert_int_equal(merge(NULL, facts, 2, "", &options, &plan, &node_of_rank, &err), -EINVAL);
	assert_non_null(strstr(err.text, "n(2"));
	assert_true(merge("1;job=;mode=ring;src=none/flat;tree=fabric(n1)", facts, 2, "", &options, &plan, &node_of_rank, &err) <
		    0);
	assert_non_null(strstr(err.text, "n(2"));
}

/* 2,000 nodes with 8 ranks each, dealt in an order that has nothing to do with the plan's. */
static void a_large_job_is_merged(void **state)
{
	const size_t n_nodes = 2000, n = 8 * n_nodes;
	struct ddl__facts *facts = calloc(n, sizeof(*facts));
	struct ddl__options options;
	struct ddl__plan *plan;
	size_t *node_of_rank;
	struct ddl_error err;

	(void)state;
	assert_non_null(facts);
	for (size_t i = 0; i < n; i++) {
		size_t node = i * 7919 % n_nodes;

		snprintf(facts[i].node, sizeof(facts[i].node), "node%zu", node);
		snprintf(facts[i].address, sizeof(facts[i].address), "core.leaf%zu.node%zu", node % 50, node);
		strcpy(facts[i].pattern, "switch.switch.node");
	}
	ddl__options_init(&options);
	assert_int_equal(ddl__options_parse("ring", &options, &err), 0);
	assert_int_equal(merge(NULL, facts, n, "1.0", &options, &plan, &node_of_rank, &err), 0);
	assert_int_equal(plan->n_nodes, n_nodes);
	assert_int_equal(plan->root->n_children, 50);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(plan->nodes[node_of_rank[i]]->name, facts[i].node);
		assert_int_equal(plan->nodes[node_of_rank[i]]->tasks, 8);
	}
	ddl__plan_destroy(plan);
	free(node_of_rank);
	free(facts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_outcome_is_as_expected),           cmocka_unit_test(order_is_kept_where_slurm_gives_it),
		cmocka_unit_test(the_plan_in_force_is_its_own_outcome), cmocka_unit_test(broken_plans_are_refused),
		cmocka_unit_test(impossible_names_are_refused),         cmocka_unit_test(a_large_job_is_merged),
	};

	return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
