/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contexts.h - the contexts in which Slurm loads the plugin, one file each, and the hooks that they serve.
 *
 * Hooks return nothing: no state of the plugin may fail a step, and an error in slurmstepd would drain the node.
 */
#ifndef DDL_SPANK_CONTEXTS_H
#define DDL_SPANK_CONTEXTS_H

#include <slurm/spank.h>

struct ddl__spank_context {
	const char *name;                                   /* for people */
	void (*init)(spank_t spank, int argc, char **argv); /* reads the arguments, registers the option */
	void (*local_user_init)(spank_t spank);             /* srun, after the step was created; NULL: nothing to do */
	void (*user_init)(spank_t spank);                   /* slurmstepd, as the user, before the tasks; NULL: nothing to do */
};

extern const struct ddl__spank_context ddl__spank_allocator; /* sbatch, salloc */
extern const struct ddl__spank_context ddl__spank_local;     /* srun */
extern const struct ddl__spank_context ddl__spank_remote;    /* slurmstepd */
extern const struct ddl__spank_context ddl__spank_slurmd;    /* slurmd, once at its start */

#endif
