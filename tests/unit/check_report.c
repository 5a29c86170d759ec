/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_report.c - what the ranks found, merged to lines for people.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char *print(const json_t *lines)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	ddl__check_print(out, lines);
	fclose(out);
	return text;
}

/* Merges what n ranks found and compares; frees it. */
static void expect(json_t **found, const char *const *nodes, size_t n, const char *expected)
{
	json_t *merged = ddl__check_merge((const json_t *const *)found, nodes, n);
	char *text = print(merged);

	assert_string_equal(text, expected);
	free(text);
	json_decref(merged);
	for (size_t i = 0; i < n; i++)
		json_decref(found[i]);
}

static void nodes_that_say_the_same_become_one_line(void **state)
{
	static const char *const nodes[] = { "n1", "n1", "n2" };
	json_t *found[COUNT(nodes)];

	for (size_t i = 0; i < COUNT(nodes); i++) {
		found[i] = json_array();
		ddl__check_add(found[i], "shm", DDL__PASS, NULL, "%d MiB", 64);
	}
	expect(found, nodes, COUNT(nodes), "pass  shm         64 MiB\n1 pass, 0 warn, 0 fail\n");
}

static void what_some_nodes_say_names_them_in_order(void **state)
{
	static const char *const nodes[] = { "n10", "n3", "n2", "n1", "n2" };
	json_t *found[COUNT(nodes)];

	for (size_t i = 0; i < COUNT(nodes); i++) {
		found[i] = json_array();
		if (i == 3)
			ddl__check_add(found[i], "shm", DDL__WARN, "make it larger", "small");
		else
			ddl__check_add(found[i], "shm", DDL__PASS, NULL, "large");
	}
	expect(found, nodes, COUNT(nodes),
	       "pass  shm         n[2-3,10]: large\nwarn  shm         n1: small\n                  -> make it larger\n1 pass, 1 "
	       "warn, 0 fail\n");
}

static void nodes_that_should_be_alike_and_are_not_are_a_warning(void **state)
{
	static const char *const nodes[] = { "n1", "n2", "n3" };
	static const char *const speeds[] = { "1000", "1000", "100" };
	json_t *found[COUNT(nodes)];

	for (size_t i = 0; i < COUNT(nodes); i++) {
		found[i] = json_array();
		ddl__check_add(found[i], "network", DDL__PASS, NULL, "eth%zu %s", i, speeds[i]);
		ddl__check_alike(found[i], speeds[i]);
	}
	expect(found, nodes, COUNT(nodes),
	       "warn  network     n1: eth0 1000\n"
	       "                  -> the nodes differ here: make them alike, or take alike nodes for a job (sbatch --constraint, "
	       "--nodelist)\n"
	       "warn  network     n2: eth1 1000\n"
	       "                  -> the nodes differ here: make them alike, or take alike nodes for a job (sbatch --constraint, "
	       "--nodelist)\n"
	       "warn  network     n3: eth2 100\n"
	       "                  -> the nodes differ here: make them alike, or take alike nodes for a job (sbatch --constraint, "
	       "--nodelist)\n"
	       "0 pass, 3 warn, 0 fail\n");
}

static void other_names_of_alike_things_are_no_warning(void **state)
{
	static const char *const nodes[] = { "n1", "n2" };
	json_t *found[COUNT(nodes)];

	for (size_t i = 0; i < COUNT(nodes); i++) {
		found[i] = json_array();
		ddl__check_add(found[i], "network", DDL__PASS, NULL, "eth%zu", i);
		ddl__check_alike(found[i], "1000");
	}
	expect(found, nodes, COUNT(nodes), "pass  network     n1: eth0\npass  network     n2: eth1\n2 pass, 0 warn, 0 fail\n");
}

static void what_a_rank_could_not_tell_is_left_out(void **state)
{
	static const char *const nodes[] = { "n1", "n2" };
	json_t *found[COUNT(nodes)] = { json_array(), NULL };

	ddl__check_add(found[0], "shm", DDL__FAIL, "mount it", "none\n\033[31m");
	expect(found, nodes, COUNT(nodes),
	       "fail  shm         n1: none ?[31m\n                  -> mount it\n0 pass, 0 warn, 1 fail\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_that_say_the_same_become_one_line),
		cmocka_unit_test(what_some_nodes_say_names_them_in_order),
		cmocka_unit_test(nodes_that_should_be_alike_and_are_not_are_a_warning),
		cmocka_unit_test(other_names_of_alike_things_are_no_warning),
		cmocka_unit_test(what_a_rank_could_not_tell_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
