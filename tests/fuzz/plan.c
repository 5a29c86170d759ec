/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - fuzzes the decoder of plans, the encoder behind it, and the print.
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ddl_error err = { 0, "" };
	struct ddl__plan *plan;
	FILE *null;
	int rc = ddl__plan_decode((const char *)data, size, &plan, &err);

	MUST(rc == err.code);
	if (rc < 0)
		return 0;
	fuzz_check_plan(plan);
	null = fopen("/dev/null", "w");
	if (null) {
		ddl__plan_print(plan, null);
		fclose(null);
	}
	ddl__plan_destroy(plan);
	return 0;
}
