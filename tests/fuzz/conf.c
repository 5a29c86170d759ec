/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.c - fuzzes the reader of topology.conf.
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ddl__topology *topology;
	struct ddl_error err = { 0, "" };
	int rc = ddl__topology_read_conf((const char *)data, size, &topology, &err);

	MUST(rc == err.code);
	if (!rc)
		fuzz_check_topology(topology);
	return 0;
}
