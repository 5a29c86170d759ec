/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.c - fuzzes the reader of topology.yaml, for the default topology and for one chosen by name.
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ddl__topology *topology;
	struct ddl_error err = { 0, "" };
	int rc = ddl__topology_read_yaml((const char *)data, size, NULL, &topology, &err);

	MUST(rc == err.code);
	if (!rc)
		fuzz_check_topology(topology);
	if (!ddl__topology_read_yaml((const char *)data, size, "b", &topology, &err))
		fuzz_check_topology(topology);
	return 0;
}
