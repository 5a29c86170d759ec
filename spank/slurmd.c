/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurmd.c - at slurmd's start: says in its log what is broken in plugstack.conf, once a node and not once a step.
 */
#include <stddef.h>

#include "contexts.h"
#include "settings.h"

static struct ddl__spank_settings settings;

static void init(spank_t spank, int argc, char **argv)
{
	struct ddl_error err;

	if (ddl__spank_settings_read(&settings, argc, argv, &err) < 0)
		ddl__spank_log(&settings, DDL__SPANK_ERROR, "plugstack.conf: %s; the default is used there", err.text);
}

const struct ddl__spank_context ddl__spank_slurmd = {
	.name = "slurmd",
	.init = init,
};
