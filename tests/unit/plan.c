/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - tests of making, encoding, decoding, restricting and printing plans, against tests/golden/plan and tables.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "golden.h"
#include "hostlist.h"
#include "plan.h"
#include "topology.h"

static struct ddl__plan *decode(const char *text)
{
	struct ddl_error err = { 0, "" };
	struct ddl__plan *plan;

	if (ddl__plan_decode(text, strlen(text), &plan, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return plan;
}

static char *encode(const struct ddl__plan *plan)
{
	struct ddl_error err = { 0, "" };
	char *text;

	if (ddl__plan_encode(plan, &text, &err) < 0)
		fail_msg("%s", err.text);
	return text;
}

static const char *const golden_names[] = {
	"two_leaves", "interleaved", "flat", "everything", "groups", "deep", "dims", "uplinks"
};

static void golden_texts_decode_print_and_encode_to_the_same_bytes(void **state)
{
	size_t i, size;

	for (i = 0; i < sizeof(golden_names) / sizeof(*golden_names); i++) {
		char name[64], *text, *tree, *again, *printed;
		struct ddl__plan *plan;
		FILE *out;

		snprintf(name, sizeof(name), "plan/%s.plan", golden_names[i]);
		text = golden_line(name);
		snprintf(name, sizeof(name), "plan/%s.tree", golden_names[i]);
		tree = golden_read(name);
		plan = decode(text);
		again = encode(plan);
		assert_string_equal(again, text);
		out = open_memstream(&printed, &size);
		assert_non_null(out);
		ddl__plan_print(plan, out);
		fclose(out);
		assert_string_equal(printed, tree);
		free(printed);
		free(again);
		ddl__plan_destroy(plan);
		free(tree);
		free(text);
	}
}

static void every_field_of_a_text_is_read(void **state)
{
	char *text = golden_line("plan/everything.plan");
	struct ddl__plan *plan = decode(text);
	size_t index = 77;

	assert_string_equal(plan->job, "job with;%");
	assert_string_equal(plan->source, "env/tree");
	assert_int_equal(plan->options.mode, DDL__MODE_RING);
	assert_int_equal(plan->options.rings, 3);
	assert_int_equal(plan->options.wire, DDL__WIRE_BFLOAT16);
	assert_int_equal(plan->options.order, DDL__ORDER_SLURM);
	assert_int_equal(plan->options.progress, 1);
	assert_string_equal(plan->options.trace, "/tmp/my traces");
	assert_int_equal(plan->rails, 4);
	assert_int_equal(plan->n_nodes, 6);
	assert_string_equal(plan->root->name, "core[1-2]");
	assert_null(plan->root->parent);
	assert_int_equal(plan->root->n_children, 2);
	assert_string_equal(plan->root->children[0]->children[0]->name, "leaf a");
	assert_ptr_equal(plan->root->children[0]->parent, plan->root);
	assert_int_equal(plan->root->children[0]->link_speed, 100);
	assert_int_equal(plan->root->children[0]->children[0]->link_speed, 400);
	assert_string_equal(plan->nodes[2]->name, "n03");
	assert_int_equal(plan->nodes[2]->node, 2);
	assert_int_equal(plan->nodes[2]->tasks, 4);
	assert_int_equal(plan->nodes[5]->tasks, 0);
	assert_int_equal(plan->nodes[5]->link_speed, 25);
	assert_int_equal(ddl__plan_find_node(plan, "y-ib0", &index), 0);
	assert_int_equal(index, 5);
	assert_int_equal(ddl__plan_find_node(plan, "y", &index), -ENOENT);
	assert_int_equal(index, 5);
	ddl__plan_destroy(plan);
	free(text);
}

struct pair {
	const char *in;
	const char *out;
};

/* Texts that no writer writes but every reader takes, and what a writer makes of them. */
static const struct pair loose[] = {
	{ "1;tree=a(n1);src=x;mode=ring", "1;mode=ring;src=x;tree=a(n1)" },
	{ "1;zebra=1;mode=ring;src=x;tree=a(n1);a-b_9=;future=((((%%,[", "1;mode=ring;src=x;tree=a(n1)" },
	{ "1;mode=ring;src=x;tree=a(n1,n2,n3);tasks=1,1,1", "1;mode=ring;src=x;tree=a(n[1-3]);tasks=1(x3)" },
	{ "1;mode=ring;src=x;tree=a(n[1-2]x[1-2])", "1;mode=ring;src=x;tree=a(n1x[1-2],n2x[1-2])" },
	{ "1;mode=ring;src=x;tree=a(b[1-2](1*n1,n2))", "1;mode=ring;src=x;tree=a(b1(n1),b2(n2))" },
	{ "1;mode=ring;src=;tree=%61%5b(n1);job=;tasks=0;rails=0;rings=auto;wire=auto;order=topology",
	  "1;mode=ring;src=;tree=a%5B(n1)" },
	{ "1;mode=ring;src=x;tree=a(b(n1))", "1;mode=ring;src=x;tree=a(b(n1))" },
};

static void fields_in_any_order_and_unknown_keys_are_read(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(loose) / sizeof(*loose); i++) {
		struct ddl__plan *plan;
		char *text;

		plan = decode(loose[i].in);
		text = encode(plan);
		assert_string_equal(text, loose[i].out);
		free(text);
		ddl__plan_destroy(plan);
	}
}

struct bad {
	const char *text;
	int rc;
	const char *part; /* of the sentence */
};

#define HEAD "1;mode=ring;src=x;"

static const struct bad bads[] = {
	{ "", -EBADMSG, "does not begin with a version" },
	{ "1", -EBADMSG, "the field mode is missing" },
	{ "2", -EPROTO, "version 2; this library reads version 1" },
	{ "2;anything at all", -EBADMSG, "byte 11" },
	{ "10;mode=ring", -EPROTO, "version 10" },
	{ "01;mode=ring", -EBADMSG, "does not begin with a version" },
	{ "1(x1);mode=ring", -EBADMSG, "does not begin with a version" },
	{ "99999999999;mode=ring", -EBADMSG, "does not begin with a version" },
	{ "mode=ring", -EBADMSG, "does not begin with a version" },
	{ " 1;mode=ring", -EBADMSG, "byte 1: only printable" },
	{ HEAD "tree=a(n1)\n", -EBADMSG, "only printable" },
	{ HEAD "tree=a(n\xc3\xa4)", -EBADMSG, "only printable" },
	{ "1;src=x;tree=a(n1)", -EBADMSG, "the field mode is missing" },
	{ "1;mode=ring;tree=a(n1)", -EBADMSG, "the field src is missing" },
	{ HEAD, -EBADMSG, "a field looks like key=value" },
	{ "1;mode=ring;src=x", -EBADMSG, "the field tree is missing" },
	{ "1;mode=rang;src=x;tree=a(n1)", -EBADMSG, "byte 8: this mode is not known" },
	{ "1;mode=;src=x;tree=a(n1)", -EBADMSG, "this mode is not known" },
	{ HEAD "tree=a(n1);", -EBADMSG, "byte 30: a field looks like" },
	{ HEAD "tree=a(n1);;x=1", -EBADMSG, "a field looks like" },
	{ HEAD "tree=a(n1);x", -EBADMSG, "a field looks like" },
	{ HEAD "tree=a(n1);=x", -EBADMSG, "a field looks like" },
	{ HEAD "tree=a(n1);X=x", -EBADMSG, "a field looks like" },
	{ HEAD "tree=a(n1);tree=a(n1)", -EBADMSG, "this field is there twice" },
	{ HEAD "tree=a(n1);rings=1;rings=1", -EBADMSG, "this field is there twice" },
	{ HEAD "tree=", -EBADMSG, "name of a switch or node is missing" },
	{ HEAD "tree=n1", -EBADMSG, "the root of the tree is a switch" },
	{ HEAD "tree=n[1-2]", -EBADMSG, "the root of the tree is a switch" },
	{ HEAD "tree=a[1-2](1*n[1-2])", -EBADMSG, "the root of the tree is a switch" },
	{ HEAD "tree=a(n1),b(n2)", -EBADMSG, "one root" },
	{ HEAD "tree=a(n1)b", -EBADMSG, "one root" },
	{ HEAD "tree=a(n1))", -EBADMSG, "one root" },
	{ HEAD "tree=a(n1", -EBADMSG, "closing parenthesis" },
	{ HEAD "tree=a(b(n1)", -EBADMSG, "closing parenthesis" },
	{ HEAD "tree=a()", -EBADMSG, "is missing" },
	{ HEAD "tree=a(", -EBADMSG, "is missing" },
	{ HEAD "tree=(n1)", -EBADMSG, "is missing" },
	{ HEAD "tree=a((n1))", -EBADMSG, "is missing" },
	{ HEAD "tree=a(n1,)", -EBADMSG, "is missing" },
	{ HEAD "tree=a(,n1)", -EBADMSG, "is missing" },
	{ HEAD "tree=a(b(n1)n2)", -EBADMSG, "closing parenthesis" },
	{ HEAD "tree=a(n1,n1)", -EBADMSG, "n1 is named twice" },
	{ HEAD "tree=a(b(n[1-5]),c(n3))", -EBADMSG, "n3 is named twice" },
	{ HEAD "tree=a(n[1-)", -EBADMSG, "host list from byte 26 on" },
	{ HEAD "tree=a(n[2-1])", -EBADMSG, "runs backwards" },
	{ HEAD "tree=a(n%31)", -EBADMSG, "\"n%31\" is not possible" },
	{ HEAD "tree=a(n/1)", -EBADMSG, "\"n/1\" is not possible" },
	{ HEAD "tree=a(n*1)", -EBADMSG, "\"n*1\" is not possible" },
	{ HEAD "tree=a%(n1)", -EBADMSG, "byte 25: a name of a switch needs an escape" },
	{ HEAD "tree=a%5(n1)", -EBADMSG, "byte 25" },
	{ HEAD "tree=a%5g(n1)", -EBADMSG, "byte 25" },
	{ HEAD "tree=a%00(n1)", -EBADMSG, "byte 25" },
	{ HEAD "tree=a](n1)", -EBADMSG, "byte 25" },
	{ HEAD "tree=r(a[1-2](n1,n2))", -EBADMSG, "need the number of nodes" },
	{ HEAD "tree=r(a[1-2](*n1,n2))", -EBADMSG, "need the number of nodes" },
	{ HEAD "tree=r(a[1-2](0*n1,n2))", -EBADMSG, "need the number of nodes" },
	{ HEAD "tree=r(a[1-2](1(x1)*n1,n2))", -EBADMSG, "need the number of nodes" },
	{ HEAD "tree=r(a[1-2](1*n1,n2", -EBADMSG, "need the number of nodes" },
	{ HEAD "tree=r(a[1-2](2*n[1-3]))", -EBADMSG, "not that of the switches times" },
	{ HEAD "tree=r(a[1-2](2*n[1-6]))", -EBADMSG, "not that of the switches times" },
	{ HEAD "tree=r(a[1-2](999999999*n[1-6]))", -EBADMSG, "need the number of nodes" },
	{ HEAD "tree=r(a%[1-2](1*n[1-2]))", -EBADMSG, "not possible here" },
	{ HEAD "tree=r(a[1-300000](1*n[1-300000]))", -EBADMSG, "at most 262144" },
	{ HEAD "tree=r(a(n[1-200000]),b(m[1-200000]))", -EBADMSG, "at most 262144" },
	{ HEAD "tree=a(n1);tasks=", -EBADMSG, "tasks, byte 1" },
	{ HEAD "tree=a(n1);tasks=1,1", -EBADMSG, "more numbers than the 1" },
	{ HEAD "tree=a(n[1-3]);tasks=1(x2)", -EBADMSG, "2 numbers where 3 belong" },
	{ HEAD "tree=a(n1);tasks=4294967296", -EBADMSG, "tasks, byte" },
	{ HEAD "tree=a(n1);tasks=1(x4294967295)", -EBADMSG, "more numbers" },
	{ HEAD "tree=a(n1);speed=1", -EBADMSG, "more numbers than the 0" },
	{ HEAD "tree=a(n1);nodespeed=18446744073709551616", -EBADMSG, "nodespeed" },
	{ HEAD "tree=a(n1);oversub=100", -EBADMSG, "oversub: there are more numbers than the 0" },
	{ HEAD "tree=a(b(n1),c(n2));oversub=100", -EBADMSG, "oversub: there are 1 numbers where 2 belong" },
	{ HEAD "tree=a(b(n1),c(n2));oversub=1000001(x2)", -EBADMSG, "oversub, byte 1" },
	{ HEAD "tree=a(n1);uplink=4", -EBADMSG, "uplink=4 is not possible" },
	{ HEAD "tree=a(n1);rails=4294967296", -EBADMSG, "rails is a number" },
	{ HEAD "tree=a(n1);rails=", -EBADMSG, "rails is a number" },
	{ HEAD "tree=a(n1);rings=65", -EBADMSG, "rings=65" },
	{ HEAD "tree=a(n1);wire=f8", -EBADMSG, "\"f8\"" },
	{ HEAD "tree=a(n1);trace=%0A", -EBADMSG, "control character" },
	{ HEAD "tree=a%1B(n1)", -EBADMSG, "control characters" },
	{ HEAD "tree=a%7F(n1)", -EBADMSG, "control characters" },
	{ HEAD "tree=a(n1);trace=%", -EBADMSG, "needs an escape" },
	{ HEAD "tree=a(n1);job=a b", -EBADMSG, "only printable" },
	{ HEAD "tree=a(n1);job=a,b", -EBADMSG, "needs an escape" },
	{ HEAD "tree=a(a(a(a(a(a(a(a(a(a(a(a(a(a(a(a(a(n1)))))))))))))))))", -EBADMSG, "too deep" },
};

static void broken_texts_are_refused_with_the_place(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(bads) / sizeof(*bads); i++) {
		size_t length = strlen(bads[i].text);
		char *copy = malloc(length + !length); /* no NUL behind it: the sanitizers see a read past the end */
		struct ddl__plan *plan = NULL;
		struct ddl_error err = { 0, "" };
		int rc;

		assert_non_null(copy);
		memcpy(copy, bads[i].text, length);
		rc = ddl__plan_decode(copy, length, &plan, &err);
		free(copy);
		if (rc != bads[i].rc || rc != err.code || !strstr(err.text, bads[i].part) || plan)
			fail_msg("\"%s\" gives %d, \"%s\"", bads[i].text, rc, err.text);
		assert_int_equal(ddl__plan_decode(bads[i].text, length, &plan, NULL), rc);
	}
}

static void every_beginning_of_a_text_is_refused_or_read_without_harm(void **state)
{
	char *text = golden_line("plan/everything.plan"), *copy;
	size_t i, length = strlen(text), good = 0;

	for (i = 0; i < length; i++) {
		struct ddl__plan *plan = NULL;

		copy = malloc(i + !i);
		assert_non_null(copy);
		memcpy(copy, text, i);
		good += ddl__plan_decode(copy, i, &plan, NULL) == 0;
		ddl__plan_destroy(plan);
		free(copy);
	}
	/* Whole fields, and the beginnings of some values, are texts of their own. */
	assert_in_range(good, 10, 60);
	free(text);
}

static void a_text_that_is_too_long_is_refused_both_ways(void **state)
{
	struct ddl_error err = { 0, "" };
	struct ddl__options options;
	struct ddl__plan_request request = { .source = "none", .options = &options };
	const size_t n = 8000;
	char *text = malloc(DDL__PLAN_TEXT_MAX), *store = malloc(n * 32);
	const char **names = malloc(n * sizeof(*names));
	struct ddl__plan *plan = NULL;
	size_t i;

	assert_true(text && store && names);
	memset(text, 'x', DDL__PLAN_TEXT_MAX);
	memcpy(text, "1;x=", 4);
	assert_int_equal(ddl__plan_decode(text, DDL__PLAN_TEXT_MAX, &plan, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "98304 bytes"));
	for (i = 0; i < n; i++) {
		snprintf(store + 32 * i, 32, "host-%06zu-%c", i * 7919 % 1000003, 'a' + (char)(i % 26));
		names[i] = store + 32 * i;
	}
	ddl__options_init(&options);
	request.nodes = names;
	request.n_nodes = n;
	assert_int_equal(ddl__plan_create(&request, &plan, &err), 0);
	free(text);
	text = NULL;
	assert_int_equal(ddl__plan_encode(plan, &text, &err), -E2BIG);
	assert_null(text);
	assert_non_null(strstr(err.text, "8000 nodes"));
	ddl__plan_destroy(plan);
	request.n_nodes = 5000; /* names that share nothing: still fit */
	assert_int_equal(ddl__plan_create(&request, &plan, &err), 0);
	assert_int_equal(ddl__plan_encode(plan, &text, &err), 0);
	ddl__plan_destroy(plan);
	free(text);
	free(names);
	free(store);
}

/* ------------------------------------------------------------------ create */

struct create {
	const char *topology; /* controller text; NULL: none */
	const char *nodes;    /* host list */
	enum ddl__order order;
	const char *tree; /* the plan's tree */
};

#define SPINE                                                                                                                      \
	"SwitchName=spine Level=1 Switches=leaf[1-3]\nSwitchName=leaf1 Level=0 Nodes=n[1,4,7]\n"                                   \
	"SwitchName=leaf2 Level=0 Nodes=n[2,5,8]\nSwitchName=leaf3 Level=0 Nodes=n[3,6]\n"

static const struct create creates[] = {
	{ NULL, "n10,n9,b", DDL__ORDER_TOPOLOGY, "fabric(b,n[9-10])" },
	{ NULL, "n10,n9,b", DDL__ORDER_SLURM, "fabric(n[10,9],b)" },
	{ "", "n2,n1", DDL__ORDER_TOPOLOGY, "fabric(n[1-2])" },
	{ SPINE, "n[1-8]", DDL__ORDER_TOPOLOGY, "spine(leaf1(n[1,4,7]),leaf2(n[2,5,8]),leaf3(n[3,6]))" },
	{ SPINE, "n[8,1-7]", DDL__ORDER_TOPOLOGY, "spine(leaf1(n[1,4,7]),leaf2(n[2,5,8]),leaf3(n[3,6]))" },
	{ SPINE, "n[1-8]", DDL__ORDER_SLURM, "fabric(n[1-8])" },
	{ SPINE, "n[1,4]", DDL__ORDER_TOPOLOGY, "leaf1(n[1,4])" },
	{ SPINE, "n5", DDL__ORDER_TOPOLOGY, "leaf2(n5)" },
	{ SPINE, "n[1-3]", DDL__ORDER_TOPOLOGY, "spine(n[1-3])" },
	{ SPINE, "n[1-4]", DDL__ORDER_TOPOLOGY, "spine(leaf1(n[1,4]),n[2-3])" },
	{ SPINE, "new,n[1,4]", DDL__ORDER_TOPOLOGY, "spine(leaf1(n[1,4]),new)" },
	{ SPINE, "z10,z9,n1,n2,n4", DDL__ORDER_TOPOLOGY, "spine(leaf1(n[1,4]),n2,z[9-10])" },
	{ SPINE, "new", DDL__ORDER_TOPOLOGY, "spine(new)" },
	{ "SwitchName=b Nodes=n[1-2]\nSwitchName=a Nodes=n[3-4]\n", "n[1-4]", DDL__ORDER_TOPOLOGY, "fabric(a(n[3-4]),b(n[1-2]))" },
	{ "SwitchName=b Nodes=n[1-2]\nSwitchName=a Nodes=n[3-4]\n", "n[1-2]", DDL__ORDER_TOPOLOGY, "b(n[1-2])" },
	{ "SwitchName=b Nodes=n[1-2]\nSwitchName=a Nodes=n[3-4]\n", "n[1-2],x", DDL__ORDER_TOPOLOGY, "b(n[1-2],x)" },
	{ "BlockName=b2 Nodes=n[1-2]\nBlockName=b10 Nodes=n[3-4]\n", "n[1-4]", DDL__ORDER_TOPOLOGY,
	  "fabric(b2(n[1-2]),b10(n[3-4]))" },
	{ "SwitchName=n1 Nodes=n[1-2]\nSwitchName=x Nodes=n[3-4]\nSwitchName=top Switches=n1,x\n", "n[1-4]", DDL__ORDER_TOPOLOGY,
	  "top(n1(n[1-2]),x(n[3-4]))" },
};

static void plans_are_cut_out_of_topologies(void **state)
{
	size_t i, n;

	for (i = 0; i < sizeof(creates) / sizeof(*creates); i++) {
		const struct create *row = &creates[i];
		struct ddl__topology *topology = NULL;
		struct ddl__options options;
		struct ddl__plan_request request = { .source = "slurm", .options = &options };
		struct ddl_error err = { 0, "" };
		struct ddl__plan *plan;
		char **names, *text, *tree, expected[256];

		ddl__options_init(&options);
		options.order = row->order;
		if (row->topology)
			assert_int_equal(ddl__topology_read_controller(row->topology, strlen(row->topology), &topology, &err), 0);
		assert_int_equal(ddl__hostlist_expand(row->nodes, strlen(row->nodes), &names, &n, &err), 0);
		request.topology = topology;
		request.nodes = (const char *const *)names;
		request.n_nodes = n;
		if (ddl__plan_create(&request, &plan, &err) < 0)
			fail_msg("row %zu: %s", i, err.text);
		text = encode(plan);
		tree = strstr(text, ";tree=");
		assert_non_null(tree);
		snprintf(expected, sizeof(expected), ";tree=%s%s", row->tree, row->order == DDL__ORDER_SLURM ? ";order=slurm" : "");
		assert_string_equal(tree, expected);
		free(text);
		ddl__plan_destroy(plan);
		free(names);
		ddl__topology_destroy(topology);
	}
}

static void tasks_speeds_and_options_go_into_the_plan(void **state)
{
	static const char text[] = "SwitchName=top Switches=a,b\nSwitchName=a LinkSpeed=100 Nodes=n[1-2]\n"
				   "SwitchName=b LinkSpeed=25 Nodes=n[3-4]\n";
	static const char *const names[] = { "n3", "n2", "n1" };
	static const uint32_t tasks[] = { 3, 2, 1 };
	struct ddl__topology *topology;
	struct ddl__options options;
	struct ddl__plan_request request = { NULL, "slurm", "4242.0", names, tasks, 3, &options };
	struct ddl__plan *plan;
	char *encoded;

	assert_int_equal(ddl__options_parse("multiring,rings=2", &options, NULL), 0);
	assert_int_equal(ddl__topology_read_conf(text, strlen(text), &topology, NULL), 0);
	request.topology = topology;
	assert_int_equal(ddl__plan_create(&request, &plan, NULL), 0);
	ddl__topology_destroy(topology);
	encoded = encode(plan);
	assert_string_equal(encoded, "1;job=4242.0;mode=multiring;src=slurm/tree;tree=top(a(n[1-2]),n3);tasks=1,2,3;speed=100;"
				     "nodespeed=0(x2),25;rings=2");
	free(encoded);
	ddl__plan_destroy(plan);
}

/* Ratios are those of the whole cluster's levels: what a job's plan drops counts all the same. */
static void ratios_of_uplinks_follow_the_levels_of_the_topology(void **state)
{
	static const char text[] =
		"SwitchName=core Switches=agg[1-2]\nSwitchName=agg1 Switches=leaf[1-2]\n"
		"SwitchName=agg2 Switches=leaf[3-4]\nSwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\n"
		"SwitchName=leaf3 Nodes=n[5-6]\nSwitchName=leaf4 Nodes=n[7-8]\n";
	static const struct {
		const char *option, *nodes, *tail;
	} rows[] = {
		{ "uplink=4:1/2:1", "n[1-8]",
		  "tree=core(agg1(leaf1(n[1-2]),leaf2(n[3-4])),agg2(leaf3(n[5-6]),leaf4(n[7-8])));"
		  "oversub=800,400(x2),800,400(x2);uplink=4:1/2:1" },
		{ "uplink=4:1", "n[1-4]", "tree=agg1(leaf1(n[1-2]),leaf2(n[3-4]));oversub=400(x2);uplink=4:1" },
		{ "uplink=4:1/2:1", "n[1,3,5,7]", "tree=core(agg1(n[1,3]),agg2(n[5,7]));oversub=800(x2);uplink=4:1/2:1" },
		{ "uplink=4:1/2:1", "n[1-2,5-6]", "tree=core(leaf1(n[1-2]),leaf3(n[5-6]));oversub=800(x2);uplink=4:1/2:1" },
		{ "uplink=4:1/2:1", "n[1-2]", "tree=leaf1(n[1-2]);uplink=4:1/2:1" },
		{ "order=slurm,uplink=4:1", "n[1-8]", "tree=fabric(n[1-8]);order=slurm;uplink=4:1" },
		{ "uplink=linkspeed", "n[1-4]", "tree=agg1(leaf1(n[1-2]),leaf2(n[3-4]));uplink=linkspeed" },
	};
	struct ddl__topology *topology;
	size_t i;

	assert_int_equal(ddl__topology_read_conf(text, strlen(text), &topology, NULL), 0);
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ddl__plan_request request = { .topology = topology, .source = "slurm" };
		struct ddl__options options;
		struct ddl__plan *plan;
		char asked[64], *encoded, **names;

		snprintf(asked, sizeof(asked), "auto,%s", rows[i].option);
		assert_int_equal(ddl__options_parse(asked, &options, NULL), 0);
		assert_int_equal(ddl__hostlist_expand(rows[i].nodes, strlen(rows[i].nodes), &names, &request.n_nodes, NULL), 0);
		request.nodes = (const char *const *)names;
		request.options = &options;
		assert_int_equal(ddl__plan_create(&request, &plan, NULL), 0);
		encoded = encode(plan);
		assert_string_equal(strstr(encoded, "tree="), rows[i].tail);
		free(encoded);
		ddl__plan_destroy(plan);
		free(names);
	}
	ddl__topology_destroy(topology);
}

static void bad_node_lists_are_refused(void **state)
{
	static const struct {
		const char *names[3];
		const char *part;
	} rows[] = {
		{ { NULL }, "at least one node" },
		{ { "a", "b", "a" }, "a is named twice" },
		{ { "" }, "\"\" is not possible" },
		{ { "a;b" }, "\"a;b\" is not possible" },
		{ { "n[1-2]" }, "\"n[1-2]\" is not possible" },
		{ { "a", "b c" }, "\"b c\" is not possible" },
	};
	struct ddl__options options;
	struct ddl__plan *plan = NULL;
	size_t i;

	ddl__options_init(&options);
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ddl__plan_request request = { .source = "none", .nodes = rows[i].names, .options = &options };
		struct ddl_error err = { 0, "" };

		while (request.n_nodes < 3 && rows[i].names[request.n_nodes])
			request.n_nodes++;
		assert_int_equal(ddl__plan_create(&request, &plan, &err), -EINVAL);
		assert_null(plan);
		if (!strstr(err.text, rows[i].part))
			fail_msg("row %zu: %s", i, err.text);
	}
}

/* ------------------------------------------------------------------ restrict */

struct restriction {
	const char *text;
	const char *names;
	const char *result;
};

static const struct restriction restrictions[] = {
	{ HEAD "tree=s(a(n[1-3]),b(n[4-6]));tasks=9(x6);rails=2;rings=3", "n[6,1,2,4]",
	  HEAD "tree=s(a(n[1-2]),b(n[4,6]));tasks=1(x4);rails=2;rings=3" },
	{ HEAD "tree=s(b(n[4-6]),a(n[3,1]));speed=10,20", "n[1,3-5]", HEAD "tree=s(b(n[4-5]),a(n[3,1]));tasks=1(x4);speed=10,20" },
	{ HEAD "tree=s(a(n[1-3]),b(n[4-6]));speed=10,20", "n[1,4-6]",
	  HEAD "tree=s(n1,b(n[4-6]));tasks=1(x4);speed=20;nodespeed=10,0(x3)" },
	{ HEAD "tree=s(t(a(n[1-2]),b(n[3-4])),u(c(n[5-6]),d(n[7-8])));oversub=800,400(x2),800,400(x2);uplink=4:1/2:1", "n[1-2,5,7]",
	  HEAD "tree=s(a(n[1-2]),u(n[5,7]));tasks=1(x4);oversub=800(x2);uplink=4:1/2:1" },
	{ HEAD "tree=s(a(n[1-3]),b(n[4-6]))", "n[1-2]", HEAD "tree=a(n[1-2]);tasks=1(x2)" },
	{ HEAD "tree=s(a(n[1-3]),b(n[4-6]))", "z2,n[1-2],z10,z1", HEAD "tree=s(a(n[1-2]),z[1-2,10]);tasks=1(x5)" },
	{ HEAD "tree=fabric(n[3,1-2])", "n[1-4]", HEAD "tree=fabric(n[3,1-2,4]);tasks=1(x4)" },
	{ HEAD "tree=fabric(n[3,1-2])", "x", HEAD "tree=fabric(x);tasks=1" },
	{ HEAD "tree=s(a(n[1-3]),b(n[4-6]))", "n2", HEAD "tree=a(n2);tasks=1" },
};

static void a_plan_is_restricted_to_other_nodes(void **state)
{
	size_t i, n;

	for (i = 0; i < sizeof(restrictions) / sizeof(*restrictions); i++) {
		struct ddl__plan *plan = decode(restrictions[i].text), *result;
		static const uint32_t tasks[] = { 1, 1, 1, 1, 1, 1 };
		struct ddl_error err = { 0, "" };
		char **names, *text;

		assert_int_equal(ddl__hostlist_expand(restrictions[i].names, strlen(restrictions[i].names), &names, &n, &err), 0);
		assert_true(n <= 6);
		if (ddl__plan_restrict(plan, (const char *const *)names, tasks, n, &result, &err) < 0)
			fail_msg("row %zu: %s", i, err.text);
		text = encode(result);
		assert_string_equal(text, restrictions[i].result);
		free(text);
		text = encode(plan);
		assert_string_equal(text, restrictions[i].text);
		free(text);
		ddl__plan_destroy(result);
		ddl__plan_destroy(plan);
		free(names);
	}
}

static void a_restriction_to_no_node_or_one_twice_is_refused(void **state)
{
	static const char *const twice[] = { "n1", "n1" };
	struct ddl__plan *plan = decode(HEAD "tree=a(n[1-2])"), *result = NULL;

	assert_int_equal(ddl__plan_restrict(plan, twice, NULL, 0, &result, NULL), -EINVAL);
	assert_int_equal(ddl__plan_restrict(plan, twice, NULL, 2, &result, NULL), -EINVAL);
	assert_null(result);
	ddl__plan_destroy(plan);
}

/* ------------------------------------------------------------------ size and properties */

static void ten_thousand_regular_nodes_stay_below_4_KiB(void **state)
{
	char *topology_text = malloc(1 << 20), *text, **names;
	size_t i, used = 0, n;
	struct ddl__topology *topology;
	struct ddl__options options;
	struct ddl__plan_request request = { .source = "slurm", .options = &options };
	struct ddl__plan *plan, *again;
	struct ddl_error err = { 0, "" };

	assert_non_null(topology_text);
	used += (size_t)sprintf(topology_text, "SwitchName=core Level=2 Switches=pod[1-25]\n");
	for (i = 0; i < 25; i++)
		used += (size_t)sprintf(topology_text + used, "SwitchName=pod%zu Level=1 Switches=leaf[%zu-%zu]\n", i + 1,
					i * 25 + 1, i * 25 + 25);
	for (i = 0; i < 625; i++)
		used += (size_t)sprintf(topology_text + used, "SwitchName=leaf%zu Level=0 Nodes=node[%05zu-%05zu]\n", i + 1,
					i * 16 + 1, i * 16 + 16);
	assert_int_equal(ddl__topology_read_controller(topology_text, used, &topology, &err), 0);
	free(topology_text);
	assert_int_equal(ddl__topology_nodes(topology, &names, &n), 0);
	assert_int_equal(n, 10000);
	ddl__options_init(&options);
	request.topology = topology;
	request.nodes = (const char *const *)names;
	request.n_nodes = n;
	assert_int_equal(ddl__plan_create(&request, &plan, &err), 0);
	text = encode(plan);
	assert_true(strlen(text) < 4096);
	again = decode(text);
	assert_int_equal(again->n_nodes, 10000);
	assert_string_equal(again->nodes[9999]->name, "node10000");
	assert_string_equal(again->nodes[9999]->parent->name, "leaf625");
	ddl__plan_destroy(again);
	ddl__plan_destroy(plan);
	free(text);
	free(names);
	ddl__topology_destroy(topology);
}

struct random {
	uint32_t seed;
	char lines[256][256]; /* of the controller's text */
	size_t n_lines;
	char addresses[512][512];
	char names[512][16];
	struct ddl__node_address nodes[512];
	const char *pointers[512];
	uint32_t tasks[512];
	size_t n_nodes;
	size_t n_switches;
};

static uint32_t draw(struct random *r, uint32_t below)
{
	r->seed = r->seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)r->seed * below >> 32);
}

/* A random tree below one switch: its lines, and the addresses of its nodes. Leaf switches on any level. */
static void grow(struct random *r, const char *path, size_t depth)
{
	char name[32], below[256];
	size_t i, n = 1 + draw(r, 4), line = r->n_lines++, first = r->n_switches;

	assert_true(line < 256);
	snprintf(name, sizeof(name), "%s", strrchr(path, '.') ? strrchr(path, '.') + 1 : path);
	if (depth && draw(r, 3)) {
		r->n_switches += n;
		snprintf(r->lines[line], sizeof(r->lines[line]), "SwitchName=%s Level=%zu Switches=s[%zu-%zu]\n", name, depth,
			 first, first + n - 1);
		for (i = 0; i < n; i++) {
			snprintf(below, sizeof(below), "%s.s%zu", path, first + i);
			grow(r, below, depth - 1);
		}
		return;
	}
	snprintf(r->lines[line], sizeof(r->lines[line]), "SwitchName=%s Level=0 Nodes=n[%zu-%zu]\n", name, r->n_nodes,
		 r->n_nodes + n - 1);
	for (i = 0; i < n; i++) {
		size_t k = r->n_nodes++;

		assert_true(k < 512);
		snprintf(r->names[k], sizeof(r->names[k]), "n%zu", k);
		snprintf(r->addresses[k], sizeof(r->addresses[k]), "%s.n%zu", path, k);
		r->nodes[k] = (struct ddl__node_address){ r->names[k], r->addresses[k], NULL };
		r->tasks[k] = draw(r, 3);
	}
}

/* Chooses some of the nodes, in another order, and shuffles the lines. */
static void choose(struct random *r, char *text)
{
	size_t i, k, n = 0;
	char line[256];

	for (i = 0; i < r->n_nodes; i++)
		if (draw(r, 4) || i + 1 == r->n_nodes)
			r->nodes[n++] = r->nodes[i];
	r->n_nodes = n;
	for (i = n - 1; i > 0; i--) {
		struct ddl__node_address node = r->nodes[i];

		k = draw(r, (uint32_t)i + 1);
		r->nodes[i] = r->nodes[k];
		r->nodes[k] = node;
	}
	for (i = 0; i < n; i++)
		r->pointers[i] = r->nodes[i].node;
	for (i = r->n_lines - 1; i > 0; i--) {
		k = draw(r, (uint32_t)i + 1);
		memcpy(line, r->lines[i], sizeof(line));
		memcpy(r->lines[i], r->lines[k], sizeof(line));
		memcpy(r->lines[k], line, sizeof(line));
	}
	text[0] = '\0';
	for (i = 0; i < r->n_lines; i++)
		strcat(text, r->lines[i]);
}

static void random_trees_round_trip_and_every_source_gives_the_same_tree(void **state)
{
	struct random *r = calloc(1, sizeof(*r));
	char *text = malloc(sizeof(r->lines)), *encoded, *again;
	struct ddl__topology *controller, *addresses;
	struct ddl__options options;
	struct ddl_error err = { 0, "" };
	struct ddl__plan *plan, *decoded, *other;
	uint32_t seed;

	assert_true(r && text);
	ddl__options_init(&options);
	for (seed = 1; seed <= 500; seed++) {
		struct ddl__plan_request request = { .source = "x", .tasks = r->tasks, .nodes = r->pointers, .options = &options };

		memset(r, 0, sizeof(*r));
		r->seed = seed;
		grow(r, "top", seed % 4);
		choose(r, text);
		request.n_nodes = r->n_nodes;
		if (ddl__topology_read_controller(text, strlen(text), &controller, &err) < 0 ||
		    ddl__topology_read_addresses(r->nodes, r->n_nodes, &addresses, &err) < 0)
			fail_msg("seed %u: %s", seed, err.text);
		request.topology = controller;
		assert_int_equal(ddl__plan_create(&request, &plan, &err), 0);
		request.topology = addresses;
		assert_int_equal(ddl__plan_create(&request, &other, &err), 0);
		encoded = encode(plan);
		decoded = decode(encoded);
		again = encode(decoded);
		assert_string_equal(again, encoded);
		free(again);
		again = encode(other);
		assert_string_equal(again, encoded);
		free(again);
		ddl__plan_destroy(other);
		assert_int_equal(ddl__plan_restrict(decoded, r->pointers, r->tasks, r->n_nodes, &other, &err), 0);
		again = encode(other);
		assert_string_equal(again, encoded);
		free(again);
		free(encoded);
		ddl__plan_destroy(other);
		ddl__plan_destroy(decoded);
		ddl__plan_destroy(plan);
		ddl__topology_destroy(addresses);
		ddl__topology_destroy(controller);
	}
	free(text);
	free(r);
}

static void digests_are_those_of_fnv_1a(void **state)
{
	assert_true(ddl__plan_digest("", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(ddl__plan_digest("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(ddl__plan_digest("foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void long_host_lists_are_printed_on_several_lines(void **state)
{
	char text[2048] = HEAD "tree=a(", *printed;
	struct ddl__plan *plan;
	size_t i, size;
	FILE *out;

	for (i = 0; i < 60; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%shost%zu%c", i ? "," : "", i * i, 'a' + (char)(i % 7));
	strcat(text, ")");
	plan = decode(text);
	out = open_memstream(&printed, &size);
	assert_non_null(out);
	ddl__plan_print(plan, out);
	fclose(out);
	for (i = 0; printed[i]; i += strcspn(printed + i, "\n") + 1)
		assert_in_range(strcspn(printed + i, "\n"), 1, 110);
	assert_non_null(strstr(printed, "host0a"));
	assert_non_null(strstr(printed, "host3481d"));
	free(printed);
	ddl__plan_destroy(plan);
	ddl__plan_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_texts_decode_print_and_encode_to_the_same_bytes),
		cmocka_unit_test(every_field_of_a_text_is_read),
		cmocka_unit_test(fields_in_any_order_and_unknown_keys_are_read),
		cmocka_unit_test(broken_texts_are_refused_with_the_place),
		cmocka_unit_test(every_beginning_of_a_text_is_refused_or_read_without_harm),
		cmocka_unit_test(a_text_that_is_too_long_is_refused_both_ways),
		cmocka_unit_test(plans_are_cut_out_of_topologies),
		cmocka_unit_test(tasks_speeds_and_options_go_into_the_plan),
		cmocka_unit_test(ratios_of_uplinks_follow_the_levels_of_the_topology),
		cmocka_unit_test(bad_node_lists_are_refused),
		cmocka_unit_test(a_plan_is_restricted_to_other_nodes),
		cmocka_unit_test(a_restriction_to_no_node_or_one_twice_is_refused),
		cmocka_unit_test(ten_thousand_regular_nodes_stay_below_4_KiB),
		cmocka_unit_test(random_trees_round_trip_and_every_source_gives_the_same_tree),
		cmocka_unit_test(digests_are_those_of_fnv_1a),
		cmocka_unit_test(long_host_lists_are_printed_on_several_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
