/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - the plugin's lines, through Slurm's own log: on a command's stderr, in slurmd's file.
 */
#include <stdarg.h>
#include <stdio.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "settings.h"

void ddl__spank_log(const struct ddl__spank_settings *settings, enum ddl__spank_level level, const char *fmt, ...)
{
	char line[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (level > settings->level)
		return;
	if (level == DDL__SPANK_ERROR)
		slurm_error("ddl: %s", line);
	else
		slurm_info("ddl: %s", line);
}
