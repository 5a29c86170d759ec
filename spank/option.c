/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option.c - registers --ddl, and takes what the user says.
 *
 * The table form of options is not valid in sbatch and salloc, so it is registered by call, in every context. When the option
 * is given twice, Slurm calls back twice: the last wins.
 */
#include <stdio.h>
#include <stdlib.h>

#include <slurm/slurm.h>

#include "option.h"

void ddl__spank_option_open(spank_t spank, int argc, char **argv, int remote, spank_opt_cb_f callback,
			    struct ddl__spank_settings *settings)
{
	struct spank_option option = {
		.name = (char *)"ddl",
		.arginfo = (char *)"MODE[,key=value...]",
		.usage = (char *)"plan of the switches for all-reduce: off, auto, ring, multiring; help lists all",
		.has_arg = 1,
		.val = 0,
		.cb = callback,
	};
	struct ddl_error err;

	if (ddl__spank_settings_read(settings, argc, argv, &err) < 0) {
		if (remote)
			slurm_debug("ddl: plugstack.conf: %s", err.text);
		else
			ddl__spank_log(settings, DDL__SPANK_ERROR, "plugstack.conf: %s; the default is used there", err.text);
	}
	if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
		slurm_debug("ddl: the option --ddl cannot be registered");
}

int ddl__spank_option_take(struct ddl__spank_settings *settings, const char *text)
{
	struct ddl_error err;

	if (ddl__spank_settings_say(settings, text, &err) < 0) {
		slurm_error("ddl: %s (--ddl=help lists all)", err.text);
		return -1;
	}
	if (settings->options.mode == DDL__MODE_HELP) {
		ddl__options_help(stdout);
		fflush(stdout);
		exit(0);
	}
	return 0;
}
