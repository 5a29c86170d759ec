/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.c - in slurmstepd: makes sure that the tasks get what srun found out, and adds what is known here. Never an RPC: some
 * releases hang in one. Never an error: that would drain the node.
 *
 *     environment                               what is done
 *     any (--export=NONE, a batch script)       DDL_MODE is set from the option, which Slurm passes on by itself
 *     a plan of this step, exact                nothing
 *     a plan for more nodes than the step has   is cut down to the step's nodes, with their tasks
 *     a plan of another step or job             is removed
 *     no plan, topology=file:PATH               is made from the file
 *     the user's own plan (without job=)        stands
 *
 * Without a plan the tasks exchange SLURM_TOPOLOGY_ADDR, which Slurm sets by itself, and build the same plan of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>

#include "contexts.h"
#include "option.h"
#include "plan.h"
#include "step.h"

static struct ddl__spank_settings settings;

/* Called once or twice with the same text. It was checked at submission; what is not understood here is left out. */
static int said(int val, const char *text, int remote)
{
	struct ddl_error err;

	if (ddl__spank_settings_say(&settings, text, &err) < 0)
		slurm_debug("ddl: %s", err.text);
	return 0;
}

static void init(spank_t spank, int argc, char **argv)
{
	ddl__spank_option_open(spank, argc, argv, 1, said, &settings);
}

/* A variable of the tasks' environment; NULL if it is not set. Valid until the next spank_setenv() or spank_unsetenv(). */
static const char *task_env(spank_t spank, const char *name)
{
	size_t length = strlen(name);
	char **env = NULL;

	if (spank_get_item(spank, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env)
		return NULL;
	for (; *env; env++)
		if (!strncmp(*env, name, length) && (*env)[length] == '=')
			return *env + length + 1;
	return NULL;
}

static uint32_t step_id(spank_t spank)
{
	uint32_t id = NO_VAL;

	spank_get_item(spank, S_JOB_STEPID, &id);
	return id;
}

/* "4242.0", as srun calls it; "4242.batch" for what is no step of tasks. */
static void name_step(spank_t spank, char *name)
{
	const char *job = task_env(spank, "SLURM_JOB_ID");
	uint32_t step = step_id(spank);

	if (step == SLURM_BATCH_SCRIPT || step == SLURM_INTERACTIVE_STEP)
		snprintf(name, DDL__STEP_NAME_SIZE, "%.32s.%s", job ? job : "",
			 step == SLURM_BATCH_SCRIPT ? "batch" : "interactive");
	else
		snprintf(name, DDL__STEP_NAME_SIZE, "%.32s.%u", job ? job : "", step);
}

/* The step's nodes and tasks; those of the job for a batch script, whose launcher uses them all. */
static int read_step(spank_t spank, const char *name, struct ddl__step *step, struct ddl_error *err)
{
	const char *nodes = task_env(spank, "SLURM_STEP_NODELIST");
	const char *tasks = task_env(spank, "SLURM_STEP_TASKS_PER_NODE");
	uint32_t id = step_id(spank);

	if (id == SLURM_BATCH_SCRIPT || id == SLURM_INTERACTIVE_STEP) {
		nodes = task_env(spank, "SLURM_JOB_NODELIST");
		tasks = task_env(spank, "SLURM_TASKS_PER_NODE");
	}
	return ddl__step_init(step, name, nodes, tasks, err);
}

/* Whether srun knew the step's nodes and tasks: it had the same lists as slurmstepd has. */
static int is_exact(spank_t spank, const char *plan)
{
	const char *nodes = task_env(spank, "SLURM_NODELIST"), *step_nodes = task_env(spank, "SLURM_STEP_NODELIST");
	const char *tasks = task_env(spank, "SLURM_TASKS_PER_NODE"), *step_tasks = task_env(spank, "SLURM_STEP_TASKS_PER_NODE");

	return ddl__step_plan_has_tasks(plan) && nodes && step_nodes && tasks && step_tasks && !strcmp(nodes, step_nodes) &&
	       !strcmp(tasks, step_tasks);
}

/* Sets the plan for this step from `plan` (NULL: from the file). */
static int set_plan(spank_t spank, const char *name, const char *plan, struct ddl_error *err)
{
	struct ddl__step step;
	char *text = NULL;
	int rc = read_step(spank, name, &step, err);

	if (rc < 0)
		return rc;
	if (plan)
		rc = ddl__step_plan_narrow(&step, plan, &text, err);
	else
		rc = ddl__step_plan_from_file(&step, &settings, &text, err);
	if (rc == 0)
		spank_setenv(spank, DDL__PLAN_ENV, text, 1);
	free(text);
	ddl__step_fini(&step);
	return rc;
}

/* Off: the tasks see nothing of ours. Nothing said: nothing of other steps. */
static void clean(spank_t spank, const char *name)
{
	char whose[DDL__STEP_NAME_SIZE];

	ddl__step_of_plan(task_env(spank, DDL__PLAN_ENV), whose);
	if (whose[0] && (settings.said || strcmp(whose, name)))
		spank_unsetenv(spank, DDL__PLAN_ENV);
	if (settings.said)
		spank_unsetenv(spank, DDL__MODE_ENV);
}

static void user_init(spank_t spank)
{
	char name[DDL__STEP_NAME_SIZE], whose[DDL__STEP_NAME_SIZE];
	struct ddl_error err;
	const char *plan;
	int rc = 0;

	name_step(spank, name);
	if (settings.options.mode == DDL__MODE_OFF || settings.options.mode == DDL__MODE_HELP) {
		clean(spank, name);
		return;
	}
	spank_setenv(spank, DDL__MODE_ENV, settings.text, 1);
	plan = task_env(spank, DDL__PLAN_ENV);
	ddl__step_of_plan(plan, whose);
	if (plan && !whose[0])
		return;
	if (plan && strcmp(whose, name)) {
		spank_unsetenv(spank, DDL__PLAN_ENV);
		plan = NULL;
	}
	if (plan ? !is_exact(spank, plan) : settings.source == DDL__SPANK_FILE)
		rc = set_plan(spank, name, plan, &err);
	if (rc < 0)
		slurm_debug("ddl: the plan is left to the tasks: %s", err.text);
}

const struct ddl__spank_context ddl__spank_remote = {
	.name = "remote",
	.init = init,
	.user_init = user_init,
};
