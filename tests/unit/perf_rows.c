/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_rows.c - lists of tensors and the rows made of them; ResNet-50's list is what the paper's architecture adds up to.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf.h"

static int read_text(const char *text, size_t type_size, struct ddl__perf_options *o, struct ddl_error *err)
{
	char path[] = "/tmp/ddl-perf-rows-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	rc = ddl__perf_tensors_read(path, type_size, &o->tensors, &o->n_tensors, err);
	unlink(path);
	return rc;
}

static void resnet50_has_its_161_tensors(void **state)
{
	struct ddl__perf_options o = { .type = DDL_FLOAT32 };
	struct ddl__perf_tensor *made = NULL;
	struct ddl__perf_row *rows = NULL;
	struct ddl_error err;
	uint64_t total = 0;
	size_t n = 0, alike = 0;

	assert_int_equal(ddl__perf_tensors_read(SOURCE_DIR "/tools/data/resnet50.sizes", 4, &o.tensors, &o.n_tensors, &err), 0);
	assert_int_equal(o.n_tensors, 161);
	for (size_t i = 0; i < o.n_tensors; i++)
		total += o.tensors[i].count;
	assert_int_equal(total, 25557032);
	assert_string_equal(o.tensors[0].name, "conv1.weight");
	assert_int_equal(o.tensors[0].count, 9408);
	assert_string_equal(o.tensors[160].name, "fc.bias");
	assert_int_equal(o.tensors[160].count, 1000);

	assert_int_equal(ddl__perf_rows(&o, &rows, &n, &made, &err), 0);
	for (size_t i = 0; i + 1 < n; i++) {
		assert_int_equal(rows[i].n, 1);
		assert_true(i == 0 || rows[i].bytes > rows[i - 1].bytes);
		assert_int_equal(rows[i].bytes, 4 * o.tensors[rows[i].first].count);
		alike += rows[i].alike;
	}
	assert_int_equal(alike, 161);
	assert_int_equal(rows[n - 1].n, 161);
	assert_true(rows[n - 1].whole && !rows[n - 2].whole);
	assert_int_equal(rows[n - 1].bytes, 102228128);
	free(rows);
	free(made);

	o.total_only = true;
	assert_int_equal(ddl__perf_rows(&o, &rows, &n, &made, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(rows[0].bytes, 102228128);
	assert_int_equal(rows[0].n, 161);
	free(rows);
	free(made);
	ddl__perf_options_free(&o);
}

static void a_list_has_comments_elements_and_bytes(void **state)
{
	struct ddl__perf_options o = { .type = DDL_FLOAT32 };
	struct ddl_error err;

	assert_int_equal(read_text("# head\n\n a 10 # ten\r\nb\t4KB\nc 1K", 4, &o, &err), 0);
	assert_int_equal(o.n_tensors, 3);
	assert_string_equal(o.tensors[1].name, "b");
	assert_int_equal(o.tensors[0].count, 10);
	assert_int_equal(o.tensors[1].count, 1024);
	assert_int_equal(o.tensors[2].count, 1024);
	ddl__perf_options_free(&o);
}

static void a_broken_list_is_refused_with_file_and_line(void **state)
{
	static const struct {
		const char *text;
		const char *part;
	} bad[] = {
		{ "", "no tensor" },         { "# only\n", "no tensor" },      { "a 1\nb\n", "line 2" },
		{ "a 1 2\n", "line 1" },     { "a x\n", "'x' is not a size" }, { "a 6B\n", "no multiple" },
		{ "a 999T\n", "too large" }, { "\n\na -1\n", "line 3" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ddl__perf_options o = { .type = DDL_FLOAT32 };
		struct ddl_error err;

		assert_int_equal(read_text(bad[i].text, 4, &o, &err), -EBADMSG);
		assert_non_null(strstr(err.text, bad[i].part));
		assert_non_null(strstr(err.text, "/tmp/ddl-perf-rows-"));
		assert_null(o.tensors);
	}
	struct ddl__perf_options o = { .type = DDL_FLOAT32 };
	struct ddl_error err;

	assert_int_equal(ddl__perf_tensors_read("/nonexistent", 4, &o.tensors, &o.n_tensors, &err), -ENOENT);
}

static void sizes_are_multiples_of_the_element(void **state)
{
	uint64_t good[] = { 0, 8, 4096 }, bad[] = { 8, 6 };
	struct ddl__perf_options o = { .type = DDL_FLOAT32, .sizes = good, .n_sizes = 3 };
	struct ddl__perf_tensor *made = NULL;
	struct ddl__perf_row *rows = NULL;
	struct ddl_error err;
	size_t n = 0;

	assert_int_equal(ddl__perf_rows(&o, &rows, &n, &made, &err), 0);
	assert_int_equal(n, 3);
	assert_int_equal(rows[2].tensors[rows[2].first].count, 1024);
	free(rows);
	free(made);
	o.sizes = bad;
	o.n_sizes = 2;
	assert_int_equal(ddl__perf_rows(&o, &rows, &n, &made, &err), -EINVAL);
	assert_non_null(strstr(err.text, "6"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resnet50_has_its_161_tensors),
		cmocka_unit_test(a_list_has_comments_elements_and_bytes),
		cmocka_unit_test(a_broken_list_is_refused_with_file_and_line),
		cmocka_unit_test(sizes_are_multiples_of_the_element),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
