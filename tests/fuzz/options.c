/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - fuzzes --ddl=...: what is accepted holds what the tables know.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct ddl__options options;
	struct ddl_error err = { 0, "" };
	int rc;

	MUST(text);
	memcpy(text, data, size);
	text[size] = '\0';
	rc = ddl__options_parse(text, &options, &err);
	free(text);
	MUST(rc == err.code && (rc == 0 || rc == -EINVAL));
	if (rc < 0)
		return 0;
	MUST(ddl__choice_by_id(ddl__modes, options.mode) && ddl__choice_by_id(ddl__wires, options.wire));
	MUST(ddl__choice_by_id(ddl__orders, options.order));
	MUST(options.rings <= DDL__RINGS_MAX && options.progress >= -1 && options.progress <= DDL__PROGRESS_MAX);
	MUST(memchr(options.trace, '\0', sizeof(options.trace)));
	return 0;
}
