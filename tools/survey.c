/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.c - see survey.h.
 */
#include "survey.h"

#include <stdlib.h>

int ddl__survey(const char *root, const struct ddl__facts *facts, const struct ddl__rdma_settings *settings,
		const struct ddl__verbs_api *api, struct ddl__verbs_ports *ports, struct ddl_error *refused, struct ddl_error *err)
{
	const char *names[DDL__INTERFACES_MAX], *wanted = getenv("DDL_NET");
	size_t chosen[DDL__INTERFACES_MAX], n = 0;

	if (ddl__facts_choose_interfaces(facts, wanted, chosen, &n, err) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		names[i] = facts->interfaces[chosen[i]].name;
	/* one that nobody named is not bound to, as in a communicator */
	const bool tied = n > 1 || (n == 1 && wanted && *wanted);
	const struct ddl__verbs_choice choice = { .root = root,
						  .settings = settings,
						  .interfaces = tied ? names : NULL,
						  .n_interfaces = tied ? n : 0,
						  .cpus = &facts->may };
	return ddl__verbs_ports_survey(api, &choice, ports, refused, err);
}
