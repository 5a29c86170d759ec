/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_memory.c - every allocation of plan/ fails once: each call then returns -ENOMEM, leaks nothing and writes no result.
 *
 * The linker puts the functions here in the place of malloc, calloc and realloc (--wrap). Leaks are seen by the sanitizers.
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

#include "counts.h"
#include "hostlist.h"
#include "plan.h"
#include "topology.h"

/* The test's state: the linker's names leave no place for a parameter. */
static long fail_at = -1; /* allocations until the one that fails; -1: none */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int fails(void)
{
	return fail_at >= 0 && fail_at-- == 0;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

#define LINES                                                                                                                      \
	"SwitchName=core1 Switches=leaf[1-9]\nSwitchName=core2 Switches=leaf[1-9]\nSwitchName=empty Switches=hollow\n"             \
	"SwitchName=hollow Nodes=\n"

static const char controller[] = LINES
	"SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=leaf3 Nodes=n[5-6]\nSwitchName=leaf4 "
	"Nodes=n[7-8]\n"
	"SwitchName=leaf5 Nodes=n[9-10]\nSwitchName=leaf6 Nodes=n[11-12]\nSwitchName=leaf7 Nodes=n[13-14]\n"
	"SwitchName=leaf8 Nodes=n[15-16]\nSwitchName=leaf9 Nodes=n[17-19]\nSwitchName=other LinkSpeed=7 Nodes=m1\n";

static const char yaml[] =
	"- topology: a\n  tree:\n    switches:\n    - switch: s\n      children: t\n    - switch: t\n      nodes: n[1-2]\n";

static const struct ddl__node_address addresses[] = {
	{ "n1", "a[1-2].b[1-2].n1", "switch.switch.node" },
	{ "n2", "a[1-2].c.n2", "switch.switch.node" },
};

static const char text[] =
	"1;job=a;mode=ring;src=b;tree=core(leaf[1-8](2*n[1-16]),x(y,z));tasks=1(x18);speed=2(x9);nodespeed=1(x18);trace=/t";

/* Reads, makes, restricts and encodes. Returns the first error. */
static int use(const struct ddl__topology *topology)
{
	struct ddl__options options;
	struct ddl__plan_request request = { .topology = topology, .source = "x", .options = &options };
	struct ddl__plan *plan = NULL, *part = NULL;
	char **names = NULL, *encoded = NULL;
	int rc = ddl__topology_nodes(topology, &names, &request.n_nodes);

	ddl__options_init(&options);
	request.nodes = (const char *const *)names;
	if (!rc)
		rc = ddl__plan_create(&request, &plan, NULL);
	if (!rc)
		rc = ddl__plan_restrict(plan, request.nodes, NULL, 2, &part, NULL);
	if (!rc)
		rc = ddl__plan_encode(plan, &encoded, NULL);
	assert_true((rc == 0) == (encoded != NULL));
	free(encoded);
	ddl__plan_destroy(part);
	ddl__plan_destroy(plan);
	free(names);
	return rc;
}

static int use_controller(void)
{
	struct ddl__topology *topology = NULL;
	int rc = ddl__topology_read_controller(controller, strlen(controller), &topology, NULL);

	assert_true((rc == 0) == (topology != NULL));
	if (!rc)
		rc = use(topology);
	ddl__topology_destroy(topology);
	return rc;
}

static int use_yaml(void)
{
	struct ddl__topology *topology = NULL;
	int rc = ddl__topology_read_yaml(yaml, strlen(yaml), NULL, &topology, NULL);

	if (!rc)
		rc = use(topology);
	ddl__topology_destroy(topology);
	return rc;
}

static int use_addresses(void)
{
	struct ddl__topology *topology = NULL;
	int rc = ddl__topology_read_addresses(addresses, 2, &topology, NULL);

	if (!rc)
		rc = use(topology);
	ddl__topology_destroy(topology);
	return rc;
}

static int use_text(void)
{
	struct ddl__plan *plan = NULL;
	char *encoded = NULL;
	int rc = ddl__plan_decode(text, strlen(text), &plan, NULL);

	assert_true((rc == 0) == (plan != NULL));
	if (!rc)
		rc = ddl__plan_encode(plan, &encoded, NULL);
	free(encoded);
	ddl__plan_destroy(plan);
	return rc;
}

static int use_lists(void)
{
	static const uint64_t values[4] = { 1, 1, 2, 3 };
	uint32_t tasks[4];
	char **names = NULL, *list = NULL, *counts = NULL;
	size_t n = 0;
	int rc = ddl__hostlist_expand("n[1-100],abc", 12, &names, &n, NULL);

	if (!rc)
		rc = ddl__hostlist_compress((const char *const *)names, n, &list);
	if (!rc)
		rc = ddl__counts_compress(values, 4, &counts);
	if (!rc)
		rc = ddl__tasks_expand(counts, tasks, 4, NULL);
	free(counts);
	free(list);
	free(names);
	return rc;
}

/* Fails the first allocation, then the second, and so on until none is left to fail. */
static void check(int (*scenario)(void))
{
	long i, left;
	int rc;

	for (i = 0;; i++) {
		assert_true(i < 10000);
		fail_at = i;
		rc = scenario();
		left = fail_at;
		fail_at = -1;
		if (left >= 0)
			break;
		assert_int_equal(rc, -ENOMEM);
	}
	assert_int_equal(rc, 0);
	assert_true(i > 4);
}

static void readers_makers_and_encoders_survive_every_failed_allocation(void **state)
{
	check(use_controller);
	check(use_yaml);
	check(use_addresses);
	check(use_text);
	check(use_lists);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_makers_and_encoders_survive_every_failed_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
