/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostlist.c - fuzzes host lists and task counts: what expands must compress and expand to the same again.
 */
#include <string.h>

#include "counts.h"
#include "fuzz.h"
#include "hostlist.h"

static void check_tasks(const char *text)
{
	uint32_t tasks[8], again[8];
	uint64_t values[8];
	size_t i, n;
	char *list;

	for (n = 1; n <= 8; n++) {
		if (ddl__tasks_expand(text, tasks, n, NULL) < 0)
			continue;
		for (i = 0; i < n; i++)
			values[i] = tasks[i];
		MUST(ddl__counts_compress(values, n, &list) == 0);
		MUST(ddl__tasks_expand(list, again, n, NULL) == 0);
		MUST(!memcmp(tasks, again, n * sizeof(*tasks)));
		free(list);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char **names, **again, *list, *text = malloc(size + 1);
	size_t i, n, m;

	MUST(text);
	memcpy(text, data, size);
	text[size] = '\0';
	check_tasks(text);
	free(text);
	if (ddl__hostlist_expand((const char *)data, size, &names, &n, NULL) < 0)
		return 0;
	MUST(n > 0 && ddl__hostlist_compress((const char *const *)names, n, &list) == 0);
	MUST(ddl__hostlist_expand(list, strlen(list), &again, &m, NULL) == 0);
	MUST(m == n);
	for (i = 0; i < n; i++) {
		MUST(!strcmp(names[i], again[i]));
		MUST(!i || (ddl__name_compare(names[i - 1], names[i]) < 0) == (ddl__name_compare(names[i], names[i - 1]) > 0));
	}
	free(again);
	free(list);
	free(names);
	return 0;
}
