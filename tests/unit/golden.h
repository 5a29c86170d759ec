/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golden.h - reads the files of tests/golden. Include it behind cmocka.h.
 */
#ifndef DDL_TESTS_GOLDEN_H
#define DDL_TESTS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The whole of tests/golden/NAME, NUL-ended; caller frees. A file that is not there fails the test. */
static inline char *golden_read(const char *name)
{
	char path[512], *text;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/golden/%s", SOURCE_DIR, name);
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

/* The same without the newline at the end. */
static inline char *golden_line(const char *name)
{
	char *text = golden_read(name);

	text[strcspn(text, "\n")] = '\0';
	return text;
}

#endif
