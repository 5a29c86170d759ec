/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostlist.c - tests of plan/hostlist.c and plan/counts.c.
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

struct row {
	const char *list;
	const char *names;      /* with blanks between */
	const char *compressed; /* the names written again; NULL: as list */
};

static const struct row rows[] = {
	{ "n1", "n1", NULL },
	{ "login", "login", NULL },
	{ "n[1-4]", "n1 n2 n3 n4", NULL },
	{ "n[1-4],login", "n1 n2 n3 n4 login", NULL },
	{ "n1,n2,n3,x", "n1 n2 n3 x", "n[1-3],x" },
	{ "n[1-4,07-09]x", "n1x n2x n3x n4x n07x n08x n09x", NULL },
	{ "n[08-11]", "n08 n09 n10 n11", NULL },
	{ "n[8-11]", "n8 n9 n10 n11", NULL },
	{ "n[098-101]", "n098 n099 n100 n101", NULL },
	{ "n[9,010,11]", "n9 n010 n11", NULL },
	{ "n[9,010-011]", "n9 n010 n011", NULL },
	{ "n[09,10]", "n09 n10", "n[09-10]" },
	{ "n[1,1]", "n1 n1", "n1,n1" },
	{ "n[3,1-2]", "n3 n1 n2", NULL },
	{ "n3,n2,n1", "n3 n2 n1", "n[3,2,1]" },
	{ "r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2", "r1n[1-2],r2n[1-2]" },
	{ "r[1-2]n1", "r1n1 r2n1", NULL },
	{ "a[1-2]-ib0,b[1-2]", "a1-ib0 a2-ib0 b1 b2", NULL },
	{ "[1-3]", "1 2 3", NULL },
	{ "n,n1", "n n1", NULL },
	{ "n1,n1a", "n1 n1a", NULL },
	{ "n11,n21", "n11 n21", "n[11,21]" },
	{ "a1b1,a2b2", "a1b1 a2b2", NULL },
	{ "n[1-1]", "n1", "n1" },
	{ "n00,n0", "n00 n0", "n[00,0]" },
	{ "n123456789012345678901234567890,n123456789012345678901234567891",
	  "n123456789012345678901234567890 n123456789012345678901234567891", NULL },
	{ "n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999", NULL },
	{ "x.domain,y_z:1+2@a", "x.domain y_z:1+2@a", NULL },
};

static const char *const bad_lists[] = {
	"",
	",",
	"a,",
	",a",
	"a,,b",
	"n[",
	"n[1",
	"n]",
	"n[]",
	"n[1-]",
	"n[-1]",
	"n[1,]",
	"n[,1]",
	"n[1--2]",
	"n[1-2-3]",
	"n[2-1]",
	"n[a-b]",
	"n[1a]",
	"n[[1]]",
	"n[1-[2-3]]",
	"n 1",
	"n\t",
	"n\x80",
	"n[1 ]",
	"n[1234567890123456789]",
	"n[1-1234567890123456789]",
	"n[0-999999999]",
	"n[1-1048577]",
	"n[1-2000]x[1-2000]",
	"a[1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2]",
};

static char *join(char **names, size_t n)
{
	size_t i, room = 1;
	char *text;

	for (i = 0; i < n; i++)
		room += strlen(names[i]) + 1;
	text = calloc(1, room);
	assert_non_null(text);
	for (i = 0; i < n; i++) {
		strcat(text, i ? " " : "");
		strcat(text, names[i]);
	}
	return text;
}

/* A copy without a NUL behind it: a read past the end is seen by the sanitizers. */
static int expand(const char *list, char ***names, size_t *n, struct ddl_error *err)
{
	size_t length = strlen(list);
	char *copy = malloc(length + !length);
	int rc;

	assert_non_null(copy);
	memcpy(copy, list, length);
	rc = ddl__hostlist_expand(copy, length, names, n, err);
	free(copy);
	return rc;
}

static void lists_expand_from_left_to_right_and_compress_again(void **state)
{
	size_t i, n;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ddl_error err = { 0, "" };
		char **names, *joined, *text;

		if (expand(rows[i].list, &names, &n, &err) < 0)
			fail_msg("%s: %s", rows[i].list, err.text);
		joined = join(names, n);
		assert_string_equal(joined, rows[i].names);
		assert_int_equal(ddl__hostlist_compress((const char *const *)names, n, &text), 0);
		assert_string_equal(text, rows[i].compressed ? rows[i].compressed : rows[i].list);
		free(text);
		free(joined);
		free(names);
	}
}

static void malformed_lists_are_refused_with_the_position(void **state)
{
	size_t i, n = 77;

	for (i = 0; i < sizeof(bad_lists) / sizeof(*bad_lists); i++) {
		struct ddl_error err = { 0, "" };
		char **names = NULL;

		if (expand(bad_lists[i], &names, &n, &err) != -EBADMSG)
			fail_msg("\"%s\" was not refused", bad_lists[i]);
		assert_true(strstr(err.text, "byte ") || strstr(err.text, "too many names"));
		assert_null(names);
		assert_int_equal(n, 77);
	}
}

static void a_list_may_name_as_many_hosts_as_the_limit_allows(void **state)
{
	struct ddl_error err = { 0, "" };
	char **names, *text;
	size_t n;

	assert_int_equal(expand("n[1-1048576]", &names, &n, &err), 0);
	assert_int_equal(n, DDL__HOSTS_MAX);
	assert_string_equal(names[n - 1], "n1048576");
	assert_int_equal(ddl__hostlist_compress((const char *const *)names, n, &text), 0);
	assert_string_equal(text, "n[1-1048576]");
	free(text);
	free(names);
	assert_int_equal(expand("n[1-1048576],m", &names, &n, &err), -EBADMSG);
}

static void names_that_are_too_long_are_refused(void **state)
{
	char list[DDL__NAME_MAX + 16];
	struct ddl_error err = { 0, "" };
	char **names;
	size_t n;

	memset(list, 'a', sizeof(list));
	list[DDL__NAME_MAX] = '\0';
	assert_int_equal(expand(list, &names, &n, &err), 0);
	free(names);
	strcpy(list + DDL__NAME_MAX, "b");
	assert_int_equal(expand(list, &names, &n, &err), -EBADMSG);
	strcpy(list + DDL__NAME_MAX - 1, "[9-10]");
	assert_int_equal(expand(list, &names, &n, &err), -EBADMSG);
}

static void names_of_many_bytes_are_limited_in_sum(void **state)
{
	char list[DDL__NAME_MAX + 32];
	struct ddl_error err = { 0, "" };
	char **names;
	size_t n;

	memset(list, 'a', 240);
	strcpy(list + 240, "[1-1000000]");
	assert_int_equal(expand(list, &names, &n, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "too many names"));
}

static void first_tells_how_many_names_join_into_one_item(void **state)
{
	const char *const names[] = { "n1", "n2", "n7", "x1", "y" };

	assert_int_equal(ddl__hostlist_first(names, 5), 3);
	assert_int_equal(ddl__hostlist_first(names + 3, 2), 1);
	assert_int_equal(ddl__hostlist_first(names + 4, 1), 1);
	assert_int_equal(ddl__hostlist_first(names, 0), 0);
}

static void no_names_compress_to_an_empty_text(void **state)
{
	char *text;

	assert_int_equal(ddl__hostlist_compress(NULL, 0, &text), 0);
	assert_string_equal(text, "");
	free(text);
}

static void random_names_come_back_in_their_order(void **state)
{
	static const char *const prefixes[] = { "n", "n0", "rack1-n", "x", "" };
	static const char *const suffixes[] = { "", "", "-ib", "x2" };
	uint32_t seed = 12345;
	char store[64][32], **names, *text;
	const char *pointers[64];
	size_t round, i, n, count;
	struct ddl_error err;

	for (round = 0; round < 2000; round++) {
		count = 1 + round % 64;
		for (i = 0; i < count; i++) {
			seed = seed * 1103515245u + 12345u;
			snprintf(store[i], sizeof(store[i]), "%s%0*u%s", prefixes[(seed >> 8) % 5], (int)(seed >> 12) % 4,
				 (seed >> 16) % 13, suffixes[(seed >> 20) % 4]);
			pointers[i] = store[i];
		}
		assert_int_equal(ddl__hostlist_compress(pointers, count, &text), 0);
		if (ddl__hostlist_expand(text, strlen(text), &names, &n, &err) < 0)
			fail_msg("%s: %s", text, err.text);
		assert_int_equal(n, count);
		for (i = 0; i < n; i++)
			assert_string_equal(names[i], store[i]);
		free(names);
		free(text);
	}
}

static void names_sort_in_natural_order(void **state)
{
	/* Each is smaller than the next. */
	static const char *const order[] = {
		"",
		"01",
		"1",
		"2",
		"10",
		"a",
		"a1",
		"a01b",
		"a1b",
		"a1c",
		"a2",
		"a10",
		"a10b2",
		"a10b10",
		"b",
		"n1",
		"n1-ib",
		"n1.x",
		"n2",
		"n123456789012345678901234567889",
		"n123456789012345678901234567890",
		"nn",
		"x",
	};
	size_t i, k, n = sizeof(order) / sizeof(*order);

	for (i = 0; i < n; i++) {
		for (k = 0; k < n; k++) {
			int sign = ddl__name_compare(order[i], order[k]);

			if ((sign > 0) - (sign < 0) != (i > k) - (i < k))
				fail_msg("\"%s\" against \"%s\" gives %d", order[i], order[k], sign);
		}
	}
}

struct tasks_row {
	const char *text;
	size_t n;
	uint32_t tasks[6];
};

static const struct tasks_row tasks_rows[] = {
	{ "1", 1, { 1 } },
	{ "2(x3),1", 4, { 2, 2, 2, 1 } },
	{ "0,4294967295", 2, { 0, 4294967295u } },
	{ "3,2(x2),3(x3)", 6, { 3, 2, 2, 3, 3, 3 } },
};

static const char *const bad_tasks[] = {
	"",      "x",     "2(x)", "2(x0)",  "2(3)",           "2(x3",   "2(x3)1",          "2,",     ",2",
	"2(x2)", "2(x4)", "1,1",  "-1(x3)", "4294967296(x3)", "2 (x3)", "2(x99999999999)", "1,2,3,4"
};

static void tasks_per_node_expand_and_compress(void **state)
{
	uint32_t tasks[6];
	uint64_t values[6];
	size_t i, k;
	char *text;

	for (i = 0; i < sizeof(tasks_rows) / sizeof(*tasks_rows); i++) {
		const struct tasks_row *row = &tasks_rows[i];
		struct ddl_error err = { 0, "" };

		if (ddl__tasks_expand(row->text, tasks, row->n, &err) < 0)
			fail_msg("%s: %s", row->text, err.text);
		for (k = 0; k < row->n; k++) {
			assert_int_equal(tasks[k], row->tasks[k]);
			values[k] = row->tasks[k];
		}
		assert_int_equal(ddl__counts_compress(values, row->n, &text), 0);
		assert_string_equal(text, row->text);
		free(text);
	}
}

static void malformed_tasks_and_other_counts_are_refused(void **state)
{
	uint32_t tasks[3];
	size_t i;

	for (i = 0; i < sizeof(bad_tasks) / sizeof(*bad_tasks); i++) {
		struct ddl_error err = { 0, "" };

		if (ddl__tasks_expand(bad_tasks[i], tasks, 3, &err) != -EBADMSG)
			fail_msg("\"%s\" was not refused", bad_tasks[i]);
		assert_true(strlen(err.text) > 0);
	}
}

struct number_row {
	const char *text;
	uint64_t max;
	int rc;
	uint64_t number;
};

static const struct number_row number_rows[] = {
	{ "0", 0, 0, 0 },
	{ "007", 7, 0, 7 },
	{ "18446744073709551615", UINT64_MAX, 0, UINT64_MAX },
	{ "18446744073709551616", UINT64_MAX, -EBADMSG, 0 },
	{ "1", 0, -EBADMSG, 0 },
	{ "9", 8, -EBADMSG, 0 },
	{ "65", 64, -EBADMSG, 0 },
	{ "", 9, -EBADMSG, 0 },
	{ " 1", 9, -EBADMSG, 0 },
	{ "1 ", 9, -EBADMSG, 0 },
	{ "-1", 9, -EBADMSG, 0 },
	{ "1(x1)", 9, -EBADMSG, 0 },
};

static void a_number_fills_its_text_and_keeps_its_bound(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(number_rows) / sizeof(*number_rows); i++) {
		const struct number_row *row = &number_rows[i];
		uint64_t number = 0;

		if (ddl__number_read(row->text, strlen(row->text), row->max, &number) != row->rc || number != row->number)
			fail_msg("\"%s\" up to %llu", row->text, (unsigned long long)row->max);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_expand_from_left_to_right_and_compress_again),
		cmocka_unit_test(malformed_lists_are_refused_with_the_position),
		cmocka_unit_test(a_list_may_name_as_many_hosts_as_the_limit_allows),
		cmocka_unit_test(names_that_are_too_long_are_refused),
		cmocka_unit_test(names_of_many_bytes_are_limited_in_sum),
		cmocka_unit_test(first_tells_how_many_names_join_into_one_item),
		cmocka_unit_test(no_names_compress_to_an_empty_text),
		cmocka_unit_test(random_names_come_back_in_their_order),
		cmocka_unit_test(names_sort_in_natural_order),
		cmocka_unit_test(tasks_per_node_expand_and_compress),
		cmocka_unit_test(a_number_fills_its_text_and_keeps_its_bound),
		cmocka_unit_test(malformed_tasks_and_other_counts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
