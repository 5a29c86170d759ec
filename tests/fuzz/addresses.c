/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.c - fuzzes the reader of nodes' addresses. The input is lines of "NODE ADDRESS PATTERN"; "-" or nothing: not known.
 */
#include <string.h>

#include "fuzz.h"

#define NODES_MAX 64

static const char *word(char **save)
{
	const char *next = strsep(save, " ");

	return next && strcmp(next, "-") != 0 ? next : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ddl__node_address nodes[NODES_MAX];
	struct ddl__topology *topology;
	struct ddl_error err = { 0, "" };
	char *text = malloc(size + 1), *at = text, *line;
	size_t n = 0;
	int rc;

	MUST(text);
	memcpy(text, data, size);
	text[size] = '\0';
	while (n < NODES_MAX && (line = strsep(&at, "\n"))) {
		nodes[n].node = word(&line);
		nodes[n].address = word(&line);
		nodes[n].pattern = word(&line);
		if (nodes[n].node)
			n++;
	}
	rc = ddl__topology_read_addresses(nodes, n, &topology, &err);
	MUST(rc == err.code);
	if (!rc)
		fuzz_check_topology(topology);
	free(text);
	return 0;
}
