/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spank_hook.c - a plugin for tests: runs a command when srun has created a step and has not launched it yet, so that a test
 * can take slurmctld away in between.
 *
 *     required /.../spank_hook.so COMMAND [ARGUMENT...]
 */
#include <stdlib.h>
#include <unistd.h>

#include <sys/wait.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#pragma GCC visibility push(default)
SPANK_PLUGIN(hook, 1)
int slurm_spank_local_user_init(spank_t spank, int argc, char **argv);
#pragma GCC visibility pop

int slurm_spank_local_user_init(spank_t spank, int argc, char **argv)
{
	char **command = calloc((size_t)argc + 1, sizeof(*command));
	int i, status = -1;
	pid_t pid;

	if (!command || argc < 1)
		exit(97);
	for (i = 0; i < argc; i++)
		command[i] = argv[i];
	pid = fork();
	if (pid == 0) {
		execv(command[0], command);
		_exit(98);
	}
	waitpid(pid, &status, 0);
	free(command);
	if (status != 0)
		exit(99);
	return ESPANK_SUCCESS;
}
