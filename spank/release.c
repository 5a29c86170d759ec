/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.c - what differs between releases of Slurm.
 *
 * The headers that the plugin is built with are those of the only release that will load it (Slurm compares major.minor), so
 * the preprocessor decides. The structs behind the topology changed with every topology plugin; the printed form did not, so
 * that is read.
 *
 *     slurm_load_topo              (&message)           to 24.11, (&message, NULL) from 25.05
 *     slurm_print_topo_info_msg    (out, message, 1)    to 23.02, with one NULL before the 1 to 24.11, with two from 25.05
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "error.h"
#include "release.h"

/* Weak: a command of some build that lacks one must still load the plugin, for the option's sake. */
#pragma weak slurm_load_topo
#pragma weak slurm_print_topo_info_msg
#pragma weak slurm_free_topo_info_msg

#define SINCE(year, month) (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(year, month, 0))

static int load(topo_info_response_msg_t **message)
{
#if SINCE(25, 5)
	return slurm_load_topo(message, NULL);
#else
	return slurm_load_topo(message);
#endif
}

static void print(FILE *out, topo_info_response_msg_t *message)
{
#if SINCE(25, 5)
	slurm_print_topo_info_msg(out, message, NULL, NULL, 1);
#elif SINCE(23, 11)
	slurm_print_topo_info_msg(out, message, NULL, 1);
#else
	slurm_print_topo_info_msg(out, message, 1);
#endif
}

int ddl__release_topology(char **text, size_t *length, struct ddl_error *err)
{
	topo_info_response_msg_t *message = NULL;
	char *printed = NULL;
	size_t size = 0;
	int rc = 0;
	FILE *out;

	if (!slurm_load_topo || !slurm_print_topo_info_msg || !slurm_free_topo_info_msg)
		return ddl__error_set(err, -EOPNOTSUPP, "this build of Slurm's commands cannot ask for the topology");
	if (load(&message) != SLURM_SUCCESS)
		return ddl__error_set(err, -ECONNREFUSED, "slurmctld does not tell the topology: %s", slurm_strerror(errno));
	out = open_memstream(&printed, &size);
	if (!out) {
		rc = ddl__error_memory(err);
		goto free_message;
	}
	print(out, message);
	if (fclose(out) != 0) {
		free(printed);
		rc = ddl__error_memory(err);
		goto free_message;
	}
	*text = printed;
	*length = size;
free_message:
	slurm_free_topo_info_msg(message);
	return rc;
}
