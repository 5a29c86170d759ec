/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - what must hold for whatever a reader accepted.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

void fuzz_check_plan(const struct ddl__plan *plan)
{
	struct ddl_error err = { 0, "" };
	struct ddl__plan *decoded;
	char *text, *again;
	int rc = ddl__plan_encode(plan, &text, &err);

	MUST(rc == 0 || rc == -E2BIG);
	if (rc < 0)
		return;
	MUST(ddl__plan_decode(text, strlen(text), &decoded, &err) == 0);
	MUST(decoded->n_nodes == plan->n_nodes);
	MUST(ddl__plan_encode(decoded, &again, &err) == 0);
	MUST(!strcmp(text, again));
	free(again);
	free(text);
	ddl__plan_destroy(decoded);
}

void fuzz_check_topology(struct ddl__topology *topology)
{
	struct ddl__options options;
	struct ddl__plan_request request = { .topology = topology, .source = "file", .options = &options };
	struct ddl_error err = { 0, "" };
	struct ddl__plan *plan;
	char **names;
	int rc;

	ddl__options_init(&options);
	MUST(ddl__topology_nodes(topology, &names, &request.n_nodes) == 0);
	request.nodes = (const char *const *)names;
	rc = ddl__plan_create(&request, &plan, &err);
	MUST(rc == 0 || rc == -EINVAL);
	if (!rc) {
		MUST(plan->n_nodes == request.n_nodes);
		fuzz_check_plan(plan);
		ddl__plan_destroy(plan);
	}
	free(names);
	ddl__topology_destroy(topology);
}
