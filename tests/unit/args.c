/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.c - sizes, lists of them, numbers and names as people type them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reduce.h"
#include "tools.h"

static void sizes_are_numbers_with_binary_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
	} good[] = {
		{ "0", 0 },
		{ "8", 8 },
		{ "8B", 8 },
		{ "4K", 4096 },
		{ "4k", 4096 },
		{ "4KiB", 4096 },
		{ "4kb", 4096 },
		{ "64M", 67108864 },
		{ "1.5G", 1610612736 },
		{ "0.5K", 512 },
		{ "1.25K", 1280 },
		{ "2T", UINT64_C(1) << 41 },
		{ "9223372036854775807", INT64_MAX },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct ddl_error err;
		uint64_t size = 1;

		assert_int_equal(ddl__size_parse(good[i].text, &size, &err), 0);
		assert_int_equal(size, good[i].size);
	}
}

static void what_is_no_size_is_refused_with_a_sentence(void **state)
{
	static const char *const bad[] = {
		"",
		"K",
		"-1",
		"+1",
		" 1",
		"1 K",
		"4X",
		"4KX",
		"4Kibi",
		"1.",
		"1.K",
		".5K",
		"1.3",
		"0.3K",
		"1e6",
		"0x10",
		"1..5K",
		"18446744073709551616",
		"9223372036854775808",
		"8388608T",
		"99999999999999999999999K",
		"1.1234567891G",
		"nan",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ddl_error err = { 0, "" };
		uint64_t size = 77;

		assert_int_equal(ddl__size_parse(bad[i], &size, &err), -EINVAL);
		assert_int_equal(size, 77);
		assert_int_equal(err.code, -EINVAL);
		assert_non_null(strstr(err.text, "size"));
	}
}

static void lists_hold_sizes_and_doubling_ranges(void **state)
{
	static const struct {
		const char *text;
		size_t n;
		uint64_t first, last;
	} good[] = {
		{ "8", 1, 8, 8 },
		{ "8,4K,64M", 3, 8, 67108864 },
		{ "8-64", 4, 8, 64 },
		{ "8-65", 4, 8, 64 },
		{ "8-8", 1, 8, 8 },
		{ "3-20", 3, 3, 12 },
		{ "0,1-4,1K", 5, 0, 1024 },
		{ "8-64M", 24, 8, 67108864 },
		{ "1-9223372036854775807", 63, 1, UINT64_C(1) << 62 },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct ddl_error err;
		uint64_t *sizes = NULL;
		size_t n = 0;

		assert_int_equal(ddl__sizes_parse(good[i].text, &sizes, &n, &err), 0);
		assert_int_equal(n, good[i].n);
		assert_int_equal(sizes[0], good[i].first);
		assert_int_equal(sizes[n - 1], good[i].last);
		free(sizes);
	}
}

static void broken_lists_are_refused(void **state)
{
	static const char *const bad[] = { "", ",", "8,", ",8", "8,,8", "64-8", "0-8", "8-", "-8", "8-16-32", "8;9", "8,x" };
	struct ddl_error err;
	uint64_t *sizes = NULL;
	char *many;
	size_t n = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ddl__sizes_parse(bad[i], &sizes, &n, &err), -EINVAL);
		assert_null(sizes);
	}
	many = malloc(2 * (DDL__SIZES_MAX + 1));
	assert_non_null(many);
	for (size_t i = 0; i <= DDL__SIZES_MAX; i++)
		memcpy(many + 2 * i, i == DDL__SIZES_MAX ? "1" : "1,", 2);
	assert_int_equal(ddl__sizes_parse(many, &sizes, &n, &err), -EINVAL);
	many[2 * DDL__SIZES_MAX - 1] = '\0';
	assert_int_equal(ddl__sizes_parse(many, &sizes, &n, &err), 0);
	assert_int_equal(n, DDL__SIZES_MAX);
	free(sizes);
	free(many);
}

static void numbers_are_whole_and_within_their_range(void **state)
{
	static const char *const bad[] = { "", "1x", " 1", "0", "11", "-1", "99999999999999999999", "1.0" };
	struct ddl_error err;
	int64_t number = 5;

	assert_int_equal(ddl__number_parse("count", "10", 1, 10, &number, &err), 0);
	assert_int_equal(number, 10);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ddl__number_parse("count", bad[i], 1, 10, &number, &err), -EINVAL);
		assert_int_equal(number, 10);
		assert_non_null(strstr(err.text, "count"));
	}
}

static void an_unknown_name_lists_what_exists(void **state)
{
	struct ddl_error err;

	assert_int_equal(ddl__choice_parse("type", ddl__types, "bf16", &err)->id, DDL_BFLOAT16);
	assert_null(ddl__choice_parse("type", ddl__types, "f8", &err));
	assert_string_equal(err.text, "type 'f8' does not exist; there are f64, f32, f16, bf16, i64, i32, i8, u8");
}

static void names_are_those_of_the_library(void **state)
{
	for (const struct ddl__choice *row = ddl__types; row->name; row++)
		assert_string_equal(row->name, ddl__type_name((enum ddl_type)row->id));
	for (const struct ddl__choice *row = ddl__ops; row->name; row++)
		assert_string_equal(row->name, ddl__op_name((enum ddl_op)row->id));
}

static void bytes_are_written_for_people(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} good[] = {
		{ 0, "0 B" },        { 8, "8 B" },           { 1023, "1023 B" },        { 1024, "1 KiB" },
		{ 1536, "1.5 KiB" }, { 67108864, "64 MiB" }, { 102228128, "97.5 MiB" }, { UINT64_C(3) << 40, "3 TiB" },
	};
	char text[32];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_string_equal(ddl__bytes_format(good[i].bytes, text, sizeof(text)), good[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_numbers_with_binary_units),
		cmocka_unit_test(what_is_no_size_is_refused_with_a_sentence),
		cmocka_unit_test(lists_hold_sizes_and_doubling_ranges),
		cmocka_unit_test(broken_lists_are_refused),
		cmocka_unit_test(numbers_are_whole_and_within_their_range),
		cmocka_unit_test(an_unknown_name_lists_what_exists),
		cmocka_unit_test(names_are_those_of_the_library),
		cmocka_unit_test(bytes_are_written_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
