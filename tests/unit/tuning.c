/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuning file: what is written is read again, what is broken is refused, and a size finds its nearest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tuning.h"

static const char good[] =
	"# ddl tuning 1\nranks 2 6 16\nallreduce 8 doubling 92500\nallreduce 65536 halving 400000\nallreduce 1048576 ring 900100\n";

static struct ddl__model shape(uint32_t a, uint32_t b, uint32_t c)
{
	struct ddl__model model = { .n_levels = 3, .n_ranks = c };
	model.level[0].ranks = a;
	model.level[1].ranks = b;
	model.level[2].ranks = c;
	return model;
}

static void what_is_written_is_read_again(void **state)
{
	static struct ddl__tuning tuning;
	struct ddl_error err;
	char *text = NULL;
	size_t size = 0;
	if (ddl__tuning_parse(good, strlen(good), &tuning, &err) < 0)
		fail_msg("%s", err.text);
	FILE *out = open_memstream(&text, &size);
	ddl__tuning_print(&tuning, out);
	fclose(out);
	assert_string_equal(text, good);
	free(text);
}

static void it_holds_for_its_shape_only(void **state)
{
	static struct ddl__tuning tuning;
	struct ddl__model same = shape(2, 6, 16), other = shape(2, 8, 16);
	assert_int_equal(ddl__tuning_parse(good, strlen(good), &tuning, NULL), 0);
	assert_true(ddl__tuning_fits(&tuning, &same));
	assert_false(ddl__tuning_fits(&tuning, &other));
}

static void dimensions_that_do_not_make_up_the_ranks_do_not_fit(void **state)
{
	static const struct {
		const char *name;
		bool fits;
	} cases[] = { { "multiring", true },
		      { "multiring:2x8", true },
		      { "multiring:3x5", false },
		      { "multiring:65536x65536x65536x65536", false },
		      { "multiring:2147483647x2147483647x2147483647x16", false } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct ddl__tuning tuning;
		struct ddl__model model = shape(2, 6, 16);
		struct ddl__candidate candidate;
		ddl__tuning_init(&tuning, &model);
		assert_int_equal(ddl__select(DDL__ALLREDUCE, cases[i].name, &candidate, NULL), 0);
		assert_int_equal(ddl__tuning_add(&tuning, 64, &candidate, 10), 0);
		assert_int_equal(ddl__tuning_fits(&tuning, &model), cases[i].fits);
	}
}

static void a_size_finds_its_nearest_by_ratio(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *name;
	} cases[] = { { 0, "doubling" },  { 1, "doubling" },     { 8, "doubling" },  { 700, "doubling" },
		      { 800, "halving" }, { 262143, "halving" }, { 262145, "ring" }, { 1ull << 40, "ring" } };
	static struct ddl__tuning tuning;
	assert_int_equal(ddl__tuning_parse(good, strlen(good), &tuning, NULL), 0);
	struct ddl__candidate found;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(ddl__tuning_find(&tuning, cases[i].bytes, &found), 0);
		assert_string_equal(found.algorithm->name, cases[i].name);
	}
	tuning.n = 0;
	assert_int_equal(ddl__tuning_find(&tuning, 8, &found), -ENOENT);
}

static void times_between_sizes_are_on_the_line_through_both(void **state)
{
	static const char text[] = "# ddl tuning 1\nranks 2 6 16\n"
				   "allreduce 1000 doubling 1000\nallreduce 1000 ring 5000\nallreduce 1000 multiring:2x8 1500\n"
				   "allreduce 9000 doubling 17000\nallreduce 9000 ring 6000\nallreduce 17000 ring 8000\n";
	static const struct {
		uint64_t bytes;
		double doubling, ring, multiring;
		const char *fastest;
	} cases[] = {
		{ 0, 1000, 5000, 1500, "doubling" }, { 1000, 1000, 5000, 1500, "doubling" }, { 2500, 4000, 5187.5, 0, "doubling" },
		{ 4000, 7000, 5375, 0, "ring" },     { 9000, 17000, 6000, 0, "ring" },       { 13000, 0, 7000, 0, "ring" },
		{ 33000, 0, 12000, 0, "ring" },
	};
	static struct ddl__tuning tuning;
	struct ddl__candidate doubling, ring, multiring, found;
	assert_int_equal(ddl__tuning_parse(text, strlen(text), &tuning, NULL), 0);
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "doubling", &doubling, NULL), 0);
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "ring", &ring, NULL), 0);
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "multiring:2x8", &multiring, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(ddl__tuning_time(&tuning, &doubling, cases[i].bytes) == cases[i].doubling);
		assert_true(ddl__tuning_time(&tuning, &ring, cases[i].bytes) == cases[i].ring);
		assert_true(ddl__tuning_time(&tuning, &multiring, cases[i].bytes) == cases[i].multiring);
		assert_int_equal(ddl__tuning_find(&tuning, cases[i].bytes, &found), 0);
		assert_string_equal(found.algorithm->name, cases[i].fastest);
	}
}

static void the_shorter_of_two_times_stays(void **state)
{
	static struct ddl__tuning tuning;
	struct ddl__candidate ring, split;
	struct ddl__model model = shape(2, 6, 16);
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "ring", &ring, NULL), 0);
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "multiring:2x8", &split, NULL), 0);
	ddl__tuning_init(&tuning, &model);
	assert_int_equal(ddl__tuning_add(&tuning, 64, &ring, 10), 0);
	assert_int_equal(ddl__tuning_add(&tuning, 64, &ring, 11), 0);
	assert_int_equal(tuning.n, 1);
	assert_int_equal(tuning.at[0].ns, 10);
	assert_int_equal(ddl__tuning_add(&tuning, 64, &ring, 9), 0);
	assert_int_equal(tuning.at[0].ns, 9);
	assert_int_equal(ddl__tuning_add(&tuning, 64, &split, 20), 0);
	assert_int_equal(tuning.n, 2);
	for (uint64_t b = 1000; tuning.n < DDL__TUNING_MAX; b--)
		assert_int_equal(ddl__tuning_add(&tuning, b, &ring, 1), 0);
	assert_int_equal(ddl__tuning_add(&tuning, 1, &ring, 1), -ENOSPC);
	for (size_t i = 1; i < tuning.n; i++)
		assert_true(tuning.at[i - 1].bytes <= tuning.at[i].bytes);
}

static void broken_texts_are_refused_with_the_line(void **state)
{
	static const char *const cases[] = {
		"",
		"# ddl tuning 2\nranks 2\n",
		"ranks 2\n# ddl tuning 1\n",
		"# ddl tuning 1\n",
		"# ddl tuning 1\nallreduce 8 ring 1\n",
		"# ddl tuning 1\nranks\n",
		"# ddl tuning 1\nranks 2 x\n",
		"# ddl tuning 1\nranks 0\n",
		"# ddl tuning 1\nranks 2\nranks 2\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 magic 1\n",
		"# ddl tuning 1\nranks 2\nallreduce 0 ring 1\n",
		"# ddl tuning 1\nranks 2\nallreduce -8 ring 1\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 ring -1\n",
		"# ddl tuning 1\nranks 2\nallreduce 99999999999999999999 ring 1\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 ring 99999999999999999999999999999999\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 ring x\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 ring 0\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 multiring:x 1\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 ring\n",
		"# ddl tuning 1\nranks 2\nallreduce 8 ring 1 more\n",
		"# ddl tuning 1\nranks 2\nbroadcast 8 chain 1\n",
		"# ddl tuning 1\nranks 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
	};
	static struct ddl__tuning tuning;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddl_error err = { 0 };
		if (ddl__tuning_parse(cases[i], strlen(cases[i]), &tuning, &err) != -EBADMSG)
			fail_msg("case %zu was taken", i);
		assert_true(strlen(err.text) > 20);
	}
	for (size_t cut = 0; cut < strlen(good); cut++) /* whatever is cut off: no crash */
		ddl__tuning_parse(good, cut, &tuning, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test(it_holds_for_its_shape_only),
		cmocka_unit_test(dimensions_that_do_not_make_up_the_ranks_do_not_fit),
		cmocka_unit_test(a_size_finds_its_nearest_by_ratio),
		cmocka_unit_test(the_shorter_of_two_times_stays),
		cmocka_unit_test(times_between_sizes_are_on_the_line_through_both),
		cmocka_unit_test(broken_texts_are_refused_with_the_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
