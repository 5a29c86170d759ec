/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spank_ddl.c - the plugin's hooks: each is handed to the file of the context that Slurm calls it in.
 *
 * All return success, always: with `required` in plugstack.conf an error in slurmstepd drains the node, and a job must never fail
 * because of a plan. The one thing that is refused is a wrong --ddl on the command line, by the option's callback.
 */
#include <stddef.h>
#include <stdint.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "contexts.h"

/* Everything else is hidden, by the compiler's default and by the version script. */
#pragma GCC visibility push(default)
/* Declares plugin_name, plugin_type and plugin_version: loaded by this release of Slurm only. */
/* cppcheck-suppress unknownMacro */
SPANK_PLUGIN(ddl, 1)
int slurm_spank_init(spank_t spank, int argc, char **argv);
int slurm_spank_local_user_init(spank_t spank, int argc, char **argv);
int slurm_spank_user_init(spank_t spank, int argc, char **argv);
#pragma GCC visibility pop

/* The same as text and number for `ddl check`, which looks for it in the file. */
static const struct {
	char text[20];
	uint32_t number;
} built_for __attribute__((used)) = { "ddl built for Slurm", SLURM_VERSION_NUMBER };

/* NULL where there is nothing to do: prolog and epilog scripts, and contexts that later releases may add. */
static const struct ddl__spank_context *here(void)
{
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
		return &ddl__spank_allocator;
	case S_CTX_LOCAL:
		return &ddl__spank_local;
	case S_CTX_REMOTE:
		return &ddl__spank_remote;
	case S_CTX_SLURMD:
		return &ddl__spank_slurmd;
	default:
		return NULL;
	}
}

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	const struct ddl__spank_context *context = here();

	if (context)
		context->init(spank, argc, argv);
	return ESPANK_SUCCESS;
}

int slurm_spank_local_user_init(spank_t spank, int argc, char **argv)
{
	const struct ddl__spank_context *context = here();

	if (context && context->local_user_init)
		context->local_user_init(spank);
	return ESPANK_SUCCESS;
}

int slurm_spank_user_init(spank_t spank, int argc, char **argv)
{
	const struct ddl__spank_context *context = here();

	if (context && context->user_init)
		context->user_init(spank);
	return ESPANK_SUCCESS;
}
