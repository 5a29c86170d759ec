/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golden.h - reads the files of tests/golden.
 */
#ifndef DDL_TESTS_GOLDEN_H
#define DDL_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define golden_read(name) golden_read_in(SOURCE_DIR, name)
#define golden_line(name) golden_line_in(SOURCE_DIR, name)

/*
 * golden_read: the whole of tests/golden/NAME below the root of the project, NUL-ended; caller frees. A file that is not there
 * fails the test. golden_line: the same without the newline at the end.
 */
static inline char *golden_read_in(const char *root, const char *name)
{
	char path[512], *text;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/golden/%s", root, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("cannot open %s", path);
	text = calloc(1, 1 << 20);
	assert_non_null(text);
	n = fread(text, 1, (1 << 20) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static inline char *golden_line_in(const char *root, const char *name)
{
	char *text = golden_read_in(root, name);

	text[strcspn(text, "\n")] = '\0';
	return text;
}

#endif
