/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option.h - the option --ddl on command lines and in #SBATCH lines, common to sbatch, salloc and srun.
 */
#ifndef DDL_SPANK_OPTION_H
#define DDL_SPANK_OPTION_H

#include <slurm/spank.h>

#include "settings.h"

/*
 * Reads the arguments of plugstack.conf into settings and registers --ddl with the context's callback; says what is broken. In
 * slurmstepd (remote = 1) in Slurm's debug log only, since the submitting command has said it to the user and slurmd to its log.
 */
void ddl__spank_option_open(spank_t spank, int argc, char **argv, int remote, spank_opt_cb_f callback,
			    struct ddl__spank_settings *settings);

/*
 * What a submitting command's callback does: takes the text; prints the list and ends the command for --ddl=help; says why a
 * text is refused. Returns 0, or -1, upon which Slurm ends the command.
 */
int ddl__spank_option_take(struct ddl__spank_settings *settings, const char *text);

#endif
