/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.h - the one place that knows what differs between releases of Slurm (22.05 to 26.05).
 */
#ifndef DDL_SPANK_RELEASE_H
#define DDL_SPANK_RELEASE_H

#include <stddef.h>

#include <ddl/error.h>

/*
 * Asks slurmctld for the topology, as `scontrol show topology` prints it: one RPC, and it blocks for as long as Slurm tries.
 * Call it through controller.h, which bounds the time. *text is NUL-ended; caller frees. Empty where Slurm knows no switches.
 * Returns 0; -EOPNOTSUPP (this process has no such call); -ECONNREFUSED (no answer, or a refusal; the sentence says which);
 * -ENOMEM.
 */
int ddl__release_topology(char **text, size_t *length, struct ddl_error *err);

#endif
