/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.h - the ports of this node's RDMA devices as a communicator of this process would choose among them.
 */
#ifndef DDL_TOOLS_SURVEY_H
#define DDL_TOOLS_SURVEY_H

#include "facts.h"
#include "verbs_device.h"

/* ddl__verbs_ports_survey() with the interfaces that communicators go by: DDL_NET's, or those of the rule. Returns what it does. */
int ddl__survey(const char *root, const struct ddl__facts *facts, const struct ddl__rdma_settings *settings,
		const struct ddl__verbs_api *api, struct ddl__verbs_ports *ports, struct ddl_error *refused, struct ddl_error *err);

#endif
