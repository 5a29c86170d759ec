/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.c - tests of the readers of topologies, against tests/golden/topology and tables.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "golden.h"
#include "plan.h"
#include "topology.h"

#define NODES_MAX 256

/* The plan of all nodes in Slurm's order; caller frees. */
static char *plan_of(const struct ddl__topology *topology, const char *const *names, size_t n)
{
	struct ddl__options options;
	struct ddl__plan_request request = {
		.topology = topology, .source = "file", .nodes = names, .n_nodes = n, .options = &options
	};
	struct ddl__plan *plan;
	struct ddl_error err = { 0, "" };
	char *text;

	ddl__options_init(&options);
	options.mode = DDL__MODE_RING;
	if (ddl__plan_create(&request, &plan, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(ddl__plan_encode(plan, &text, &err), 0);
	ddl__plan_destroy(plan);
	return text;
}

static char *plan_of_all(const struct ddl__topology *topology)
{
	char **names, *text;
	size_t n;

	assert_int_equal(ddl__topology_nodes(topology, &names, &n), 0);
	assert_true(n > 0);
	text = plan_of(topology, (const char *const *)names, n);
	free(names);
	return text;
}

struct golden {
	const char *input;
	const char *expected;
};

static const struct golden files[] = {
	{ "topology/interleaved.controller", "topology/interleaved.expected" },
	{ "topology/fat_tree.controller", "topology/fat_tree.expected" },
	{ "topology/islands.controller", "topology/islands.expected" },
	{ "topology/blocks.controller", "topology/blocks.expected" },
	{ "topology/rails.conf", "topology/rails.expected" },
	{ "topology/blocks.conf", "topology/blocks_conf.expected" },
	{ "topology/three.yaml", "topology/three.expected" },
};

static const struct golden addresses[] = {
	{ "topology/interleaved.addresses", "topology/interleaved.expected" },
	{ "topology/fat_tree.addresses", "topology/fat_tree_addresses.expected" },
	{ "topology/blocks.addresses", "topology/blocks.expected" },
	{ "topology/flat.addresses", "topology/flat_addresses.expected" },
};

static void files_of_every_form_give_the_expected_plan(void **state)
{
	char path[512];
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char *expected = golden_line(files[i].expected), *text;
		struct ddl__topology *topology;
		struct ddl_error err = { 0, "" };

		snprintf(path, sizeof(path), "%s/tests/golden/%s", SOURCE_DIR, files[i].input);
		if (ddl__topology_load(path, &topology, &err) < 0)
			fail_msg("%s: %s", files[i].input, err.text);
		text = plan_of_all(topology);
		assert_string_equal(text, expected);
		ddl__topology_destroy(topology);
		free(text);
		free(expected);
	}
}

static void addresses_of_nodes_give_the_plan_that_the_controller_gives(void **state)
{
	size_t i, n;

	for (i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
		char *expected = golden_line(addresses[i].expected), *input = golden_read(addresses[i].input), *text, *save = NULL;
		char *word = strtok_r(input, " \n", &save);
		struct ddl__node_address nodes[NODES_MAX];
		const char *names[NODES_MAX];
		struct ddl__topology *topology;
		struct ddl_error err = { 0, "" };

		for (n = 0; word; n++) {
			assert_true(n < NODES_MAX);
			names[n] = nodes[n].node = word;
			word = strtok_r(NULL, " \n", &save);
			nodes[n].address = strcmp(word, "-") != 0 ? word : NULL;
			word = strtok_r(NULL, " \n", &save);
			nodes[n].pattern = strcmp(word, "-") != 0 ? word : NULL;
			word = strtok_r(NULL, " \n", &save);
		}
		if (ddl__topology_read_addresses(nodes, n, &topology, &err) < 0)
			fail_msg("%s: %s", addresses[i].input, err.text);
		text = plan_of(topology, names, n);
		assert_string_equal(text, expected);
		ddl__topology_destroy(topology);
		free(text);
		free(input);
		free(expected);
	}
}

struct text_row {
	const char *text;
	const char *kind; /* NULL: refused */
	int rc;
	const char *part; /* of the sentence */
};

static const struct text_row controller_rows[] = {
	{ "", "flat", 0, NULL },
	{ "\n\n  \n", "flat", 0, NULL },
	{ "No topology information available\n", "flat", 0, NULL },
	{ "SwitchName=a Level=0 LinkSpeed=1 Nodes=n1", "tree", 0, NULL },
	{ "SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\r\n", "tree", 0, NULL },
	{ "SwitchName=a Level=0 Nodes=\n", "tree", 0, NULL },
	{ "BlockName=a BlockIndex=0 Nodes=n1\n", "block", 0, NULL },
	{ "TorusName=a Nodes=n1\n", NULL, -EOPNOTSUPP, "line 1: \"TorusName\" is no kind of topology" },
	{ "SwitchName=a Nodes=n1\nRingName=x Nodes=n1\n", NULL, -EOPNOTSUPP, "line 2: \"RingName\"" },
	{ "SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", NULL, -EBADMSG, "line 2: \"b\" mixes" },
	{ "SwitchName=a Nodes=n1\n\nSwitchName=a Nodes=n2\n", NULL, -EBADMSG, "line 3: a is already described in line 1" },
	{ "SwitchName=a Switches=b\n", NULL, -EBADMSG, "line 1: the switch b is named here and described nowhere" },
	{ "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", NULL, -EBADMSG, "below itself" },
	{ "SwitchName=a Switches=a\n", NULL, -EBADMSG, "line 1: a lies below itself" },
	{ "SwitchName=a Nodes=n[1-\n", NULL, -EBADMSG, "line 1, below a: host list, byte 2" },
	{ "SwitchName=a[1-2] Nodes=n1\n", NULL, -EBADMSG, "\"a[1-2]\" is no name of one switch" },
	{ "SwitchName= Nodes=n1\n", NULL, -EBADMSG, "has 1 to 255 bytes" },
	{ "SwitchName\n", NULL, -EBADMSG, "\"SwitchName\" is not of the form Key=Value" },
	{ "SwitchName=a LinkSpeed=5(x1) Nodes=n1\n", NULL, -EBADMSG, "\"5(x1)\" is no LinkSpeed" },
	{ "SwitchName=a LinkSpeed=fast Nodes=n1\n", NULL, -EBADMSG, "\"fast\" is no LinkSpeed" },
	{ "SwitchName=a Nodes=\"n1\n", NULL, -EBADMSG, "quotation mark" },
	{ "SwitchName=a Nodes=n1 garbage\n", NULL, -EBADMSG, "\"garbage\" is not of the form" },
	{ "SwitchName=a Nodes=n[1-1000000] \nSwitchName=b Nodes=m[1-9]\n", NULL, -EBADMSG, "at most 262144" },
};

static const struct text_row conf_rows[] = {
	{ "", "flat", 0, NULL },
	{ "# nothing\n  # more\n", "flat", 0, NULL },
	{ "BlockSizes=4\n", "flat", 0, NULL },
	{ "switchname=a nodes=n1", "tree", 0, NULL },
	{ "SwitchName=a\\\n Nodes=n1\n", "tree", 0, NULL },
	{ "BlockName=a Nodes=n1 # x", "block", 0, NULL },
	{ "SwitchName=a Switches=b Nodes=n1\n", NULL, -EBADMSG, "\"a\" has both Switches= and Nodes=" },
	{ "SwitchName=a\n", NULL, -EBADMSG, "\"a\" has neither" },
	{ "SwitchName=a Level=0\\\n LinkSpeed=3\nSwitchName=b Nodes=n[\n", NULL, -EBADMSG, "line 1: \"a\" has neither" },
	{ "SwitchName=a Nodes=n1 \\\n LinkSpeed=3\nSwitchName=b Nodes=n[\n", NULL, -EBADMSG, "line 3, below b" },
	{ "Include other.conf\n", NULL, -EBADMSG, "line 1: \"Include\"" },
	{ "HypercubeName=a Nodes=n1\n", NULL, -EOPNOTSUPP, "\"HypercubeName\"" },
};

#define TREE "- topology: t\n  tree:\n    switches:\n"

static const struct text_row yaml_rows[] = {
	{ "- topology: a\n  flat: true\n", "flat", 0, NULL },
	{ "- topology: a\n  flat: false\n", "flat", 0, NULL },
	{ "- topology: a\n", "flat", 0, NULL },
	{ TREE "      - switch: s\n        nodes: n[1-2]\n", "tree", 0, NULL },
	{ TREE "      -   switch: s\n          nodes: \"n[1-2]\"   # two\n...\nrubbish", "tree", 0, NULL },
	{ "  - topology: a\n    block:\n      block_sizes: [4, 16]\n      blocks:\n      - block: b\n        nodes: n1\n", "block",
	  0, NULL },
	{ "- topology: a\n  ring:\n    x: y\n  cluster_default: no\n- topology: b\n  cluster_default: true\n  flat: true\n", "flat",
	  0, NULL },
	{ "", NULL, -EBADMSG, "describes no topology" },
	{ "---\n", NULL, -EBADMSG, "describes no topology" },
	{ "topology: a\n", NULL, -EBADMSG, "line 1: \"topology: a\" is not indented" },
	{ "- topology: a\n  torus3d:\n    - x: 1\n", NULL, -EOPNOTSUPP, "line 2: \"torus3d\" is no kind of topology" },
	{ "- topology: a\n  ring: x\n", NULL, -EOPNOTSUPP, "line 2: \"ring\"" },
	{ "- topology: a\n  flat: true\n  tree:\n", NULL, -EBADMSG, "line 3: \"tree\" is a second kind" },
	{ "- topology: a\n\ttree:\n", NULL, -EBADMSG, "line 2: \"?tree:\" is indented with tabs" },
	{ "- topology: a\n tree:\n", NULL, -EBADMSG, "line 2: \"tree:\" is not indented" },
	{ "- topology: a\n  tree: {switches: x}\n", NULL, -EOPNOTSUPP, "line 2: \"{switches: x}\" uses a part of YAML" },
	{ "- topology: a\n  tree: x\n", NULL, -EBADMSG, "line 2: \"tree\" has a value" },
	{ "- topology: &anchor a\n", NULL, -EOPNOTSUPP, "line 1" },
	{ "- topology: 'a\n", NULL, -EBADMSG, "line 1: \"'a\" is not quoted well" },
	{ "- topology\n", NULL, -EBADMSG, "line 1: \"topology\" is not of the form key: value" },
	{ TREE "      - switch: s\n        nodes: n1\n        speed: 3\n", NULL, -EOPNOTSUPP, "line 6: \"speed\"" },
	{ TREE "      - switch: s\n        nodes: n1\n        nodes: n2\n", NULL, -EBADMSG, "line 6: \"nodes\" is there twice" },
	{ TREE "      - switch: s\n        nodes:\n", NULL, -EBADMSG, "line 5: \"nodes\" has no value" },
	{ TREE "      - switch: s\n", NULL, -EBADMSG, "line 4: a switch has either" },
	{ TREE "      - nodes: n1\n", NULL, -EBADMSG, "line 4: the name" },
	{ TREE "      - switch: s\n        children: t\n        nodes: n1\n", NULL, -EBADMSG, "line 4: a switch has either" },
	{ TREE "      - switch: s\n        children: t\n", NULL, -EBADMSG, "line 4: the switch t is named" },
	{ TREE "      - switch: s\n       nodes: n1\n", NULL, -EBADMSG, "line 5" },
	{ TREE "      switch: s\n", NULL, -EBADMSG, "line 4" },
	{ "- topology: a\n  tree:\n    routers:\n", NULL, -EOPNOTSUPP, "line 3: \"routers\"" },
	{ "- topology: a\n  block:\n    block_sizes: [a]\n", NULL, -EBADMSG, "line 3: \"[a]\" is no list" },
};

typedef int reader(const char *text, size_t length, struct ddl__topology **topology, struct ddl_error *err);

static int read_yaml(const char *text, size_t length, struct ddl__topology **topology, struct ddl_error *err)
{
	return ddl__topology_read_yaml(text, length, NULL, topology, err);
}

static void check_rows(reader *read, const struct text_row *rows, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		size_t length = strlen(rows[i].text);
		char *copy = malloc(length + !length); /* no NUL behind it: the sanitizers see a read past the end */
		struct ddl__topology *topology = NULL;
		struct ddl_error err = { 0, "" };
		int rc;

		assert_non_null(copy);
		memcpy(copy, rows[i].text, length);
		rc = read(copy, length, &topology, &err);
		free(copy);
		if (rc != rows[i].rc || rc != err.code || (rc < 0 && (!strstr(err.text, rows[i].part) || topology)))
			fail_msg("\"%s\" gives %d, \"%s\"", rows[i].text, rc, err.text);
		if (!rc)
			assert_string_equal(ddl__topology_kind(topology), rows[i].kind);
		ddl__topology_destroy(topology);
	}
}

static void text_of_the_controller_is_read_or_refused_with_its_line(void **state)
{
	check_rows(ddl__topology_read_controller, controller_rows, sizeof(controller_rows) / sizeof(*controller_rows));
}

static void topology_conf_is_read_or_refused_with_its_line(void **state)
{
	check_rows(ddl__topology_read_conf, conf_rows, sizeof(conf_rows) / sizeof(*conf_rows));
}

static void topology_yaml_is_read_or_refused_with_its_line(void **state)
{
	check_rows(read_yaml, yaml_rows, sizeof(yaml_rows) / sizeof(*yaml_rows));
}

static void a_topology_of_the_yaml_file_is_chosen_by_name(void **state)
{
	static const struct text_row rows[] = {
		{ "first", "block", 0, NULL },
		{ "second", "tree", 0, NULL },
		{ "third", "flat", 0, NULL },
		{ "fourth", NULL, -EOPNOTSUPP, "line 27: \"torus3d\"" },
		{ "fifth", NULL, -ENOENT, "no topology named \"fifth\"" },
	};
	char *text = golden_read("topology/three.yaml");
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ddl__topology *topology = NULL;
		struct ddl_error err = { 0, "" };
		int rc = ddl__topology_read_yaml(text, strlen(text), rows[i].text, &topology, &err);

		if (rc != rows[i].rc || (rc < 0 && !strstr(err.text, rows[i].part)))
			fail_msg("%s gives %d, \"%s\"", rows[i].text, rc, err.text);
		if (!rc)
			assert_string_equal(ddl__topology_kind(topology), rows[i].kind);
		ddl__topology_destroy(topology);
	}
	free(text);
}

struct address_row {
	struct ddl__node_address nodes[2];
	int rc;
	const char *part;
};

static const struct address_row address_rows[] = {
	{ { { "n1", "s1.n1", "torus.node" }, { "n2", NULL, NULL } }, -EOPNOTSUPP, "no kind known here" },
	{ { { "n1", "s1.n1", "switch.switch" }, { "n2", NULL, NULL } }, -EOPNOTSUPP, "does not end with a node" },
	{ { { "n1", "b.c.n1", "block.block.node" }, { "n2", NULL, NULL } }, -EOPNOTSUPP, "no kind known here" },
	{ { { "n1", "b.s.n1", "block.switch.node" }, { "n2", NULL, NULL } }, -EOPNOTSUPP, "no kind known here" },
	{ { { "n1", "s1.n1", "switch.switch.node" }, { "n2", NULL, NULL } }, -EBADMSG, "fewer words" },
	{ { { "n1", "s1.x.n1", "switch.node" }, { "n2", NULL, NULL } }, -EBADMSG, "more words" },
	{ { { "n1", "s1.n1", "switch.node" }, { "n2", "b1.n2", "block.node" } }, -EBADMSG, "node n2: the address \"b1.n2\"" },
	{ { { "n1", "s[1.n1", "switch.node" }, { "n2", NULL, NULL } }, -EBADMSG, "node n1" },
	{ { { "n1", ".n1", "switch.node" }, { "n2", NULL, NULL } }, -EBADMSG, "no host list" },
	{ { { "n1", "s[1-9999].n1", "switch.node" }, { "n2", NULL, NULL } }, -EBADMSG, "too many switches" },
	{ { { "n1", "a.a.n1", "switch.switch.node" }, { "n2", NULL, NULL } }, -EBADMSG, "below itself" },
	{ { { "n1", "a.b.n1", "switch.switch.node" }, { "n2", "b.a.n2", "switch.switch.node" } }, -EBADMSG, "below itself" },
	{ { { "n[1-2]", "a.n1", "switch.node" }, { "n2", NULL, NULL } }, -EBADMSG, "brackets" },
};

static void wrong_addresses_are_refused_with_the_node(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(address_rows) / sizeof(*address_rows); i++) {
		struct ddl__topology *topology = NULL;
		struct ddl_error err = { 0, "" };
		int rc = ddl__topology_read_addresses(address_rows[i].nodes, 2, &topology, &err);

		if (rc != address_rows[i].rc || topology || !strstr(err.text, address_rows[i].part))
			fail_msg("row %zu gives %d, \"%s\"", i, rc, err.text);
	}
}

static void an_address_without_a_pattern_is_taken_as_a_tree(void **state)
{
	static const struct ddl__node_address nodes[] = { { "n1", "a.b.n1", NULL }, { "n2", "a.b.n2", "" } };
	struct ddl__topology *topology;

	assert_int_equal(ddl__topology_read_addresses(nodes, 2, &topology, NULL), 0);
	assert_string_equal(ddl__topology_kind(topology), "tree");
	ddl__topology_destroy(topology);
	assert_int_equal(ddl__topology_read_addresses(NULL, 0, &topology, NULL), 0);
	assert_string_equal(ddl__topology_kind(topology), "flat");
	ddl__topology_destroy(topology);
}

static void files_that_cannot_be_read_are_named(void **state)
{
	struct ddl__topology *topology = NULL;
	struct ddl_error err = { 0, "" };
	char path[] = "/tmp/ddl-topology-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "SwitchName=a\0Nodes=b", 20), 20);
	close(fd);
	assert_int_equal(ddl__topology_load(path, &topology, &err), -EBADMSG);
	unlink(path);
	assert_non_null(strstr(err.text, path));
	assert_int_equal(ddl__topology_load(path, &topology, &err), -ENOENT);
	assert_non_null(strstr(err.text, path));
	assert_int_equal(ddl__topology_load("/", &topology, &err), -EISDIR);
	assert_int_equal(ddl__topology_load("/", &topology, NULL), -EISDIR);
	assert_null(topology);
}

static void names_of_many_switches_side_by_side_stay_short(void **state)
{
	char text[32768] = "", line[128], *plan;
	struct ddl__topology *topology;
	struct ddl_error err = { 0, "" };
	int i;

	for (i = 0; i < 100; i++) {
		snprintf(line, sizeof(line), "SwitchName=%c%c-irregular Level=1 Switches=leaf[1-2]\n", 'a' + i % 26, 'a' + i / 26);
		strcat(text, line);
	}
	strcat(text, "SwitchName=leaf1 Level=0 Nodes=n[1-2]\nSwitchName=leaf2 Level=0 Nodes=n[3-4]\n");
	if (ddl__topology_read_controller(text, strlen(text), &topology, &err) < 0)
		fail_msg("%s", err.text);
	plan = plan_of_all(topology);
	assert_string_equal(plan, "1;mode=ring;src=file/tree;tree=aa-irregular+99(leaf1(n[1-2]),leaf2(n[3-4]))");
	free(plan);
	ddl__topology_destroy(topology);
}

static void chains_that_are_too_deep_are_refused_in_any_order(void **state)
{
	char text[65536], line[128];
	struct ddl_error err = { 0, "" };
	struct ddl__topology *topology = NULL;
	int i, k, depth;

	for (depth = 15; depth <= 18; depth++) {
		text[0] = '\0';
		for (i = 0; i < depth - 1; i++) {
			for (k = 0; k < 2; k++) {
				snprintf(line, sizeof(line), "SwitchName=%c%d Level=1 Switches=%c%d\n", 'a' + k, i, 'a' + k, i + 1);
				strcat(text, line);
			}
		}
		snprintf(line, sizeof(line), "SwitchName=a%d Level=0 Nodes=n1\nSwitchName=b%d Level=0 Nodes=n1\n", i, i);
		strcat(text, line);
		assert_int_equal(ddl__topology_read_controller(text, strlen(text), &topology, &err), depth <= 16 ? 0 : -EBADMSG);
		if (depth <= 16)
			ddl__topology_destroy(topology);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_of_every_form_give_the_expected_plan),
		cmocka_unit_test(addresses_of_nodes_give_the_plan_that_the_controller_gives),
		cmocka_unit_test(text_of_the_controller_is_read_or_refused_with_its_line),
		cmocka_unit_test(topology_conf_is_read_or_refused_with_its_line),
		cmocka_unit_test(topology_yaml_is_read_or_refused_with_its_line),
		cmocka_unit_test(a_topology_of_the_yaml_file_is_chosen_by_name),
		cmocka_unit_test(wrong_addresses_are_refused_with_the_node),
		cmocka_unit_test(an_address_without_a_pattern_is_taken_as_a_tree),
		cmocka_unit_test(files_that_cannot_be_read_are_named),
		cmocka_unit_test(names_of_many_switches_side_by_side_stay_short),
		cmocka_unit_test(chains_that_are_too_deep_are_refused_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
