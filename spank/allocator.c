/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator.c - in sbatch and salloc: refuses a wrong --ddl. There is no job yet, hence no plan; Slurm passes the option on to the
 * batch script's step and to every srun in it.
 */
#include <stddef.h>

#include "contexts.h"
#include "option.h"

static struct ddl__spank_settings settings;

static int said(int val, const char *text, int remote)
{
	return ddl__spank_option_take(&settings, text);
}

static void init(spank_t spank, int argc, char **argv)
{
	ddl__spank_option_open(spank, argc, argv, 0, said, &settings);
}

const struct ddl__spank_context ddl__spank_allocator = {
	.name = "allocator",
	.init = init,
};
