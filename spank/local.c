/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local.c - in srun: asks slurmctld for the switches, once a step, and puts the plan of this step into the environment of its
 * tasks.
 *
 * It runs after the step was created and before it is launched: the one place where an RPC is safe. Which nodes of its job a
 * step got would be a second RPC, so it is not asked: SLURM_NODELIST, which srun has just set, holds the nodes that the step
 * was chosen from. Where that is as many as the step has, they are the step's; else the plan is made for all of them, without
 * tasks, and slurmstepd, which is told the step's nodes, cuts it down (remote.c).
 *
 * Whatever goes wrong costs the plan only: DDL_MODE is set first, and upon it the tasks build their plan of what the nodes know.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>

#include "contexts.h"
#include "controller.h"
#include "option.h"
#include "plan.h"
#include "step.h"

#define CONTROLLER_TIMEOUT_MS 2000

static struct ddl__spank_settings settings;

static int said(int val, const char *text, int remote)
{
	return ddl__spank_option_take(&settings, text);
}

static void init(spank_t spank, int argc, char **argv)
{
	ddl__spank_option_open(spank, argc, argv, 0, said, &settings);
}

static uint32_t item(spank_t spank, enum spank_item which)
{
	uint32_t value = 0;

	return spank_get_item(spank, which, &value) == ESPANK_SUCCESS ? value : 0;
}

/* A step over several components of a heterogeneous job: srun counts the tasks of all, and calls us for one. */
static int spans_components(spank_t spank)
{
	const char *all = getenv("SLURM_NTASKS");

	return all && strtoul(all, NULL, 10) > item(spank, S_JOB_TOTAL_TASK_COUNT);
}

/* The step's nodes, or more of them and no tasks: see above. */
static int read_step(spank_t spank, struct ddl__step *step, struct ddl_error *err)
{
	const char *nodes = getenv("SLURM_NODELIST");
	const char *job = getenv("SLURM_JOB_ID"); /* in a component of a heterogeneous job: the whole job's, as users know it */
	const char *distribution = getenv("SLURM_DISTRIBUTION");
	char name[DDL__STEP_NAME_SIZE];
	int rc;

	if (job)
		snprintf(name, sizeof(name), "%.32s.%u", job, item(spank, S_JOB_STEPID));
	else
		snprintf(name, sizeof(name), "%u.%u", item(spank, S_JOB_ID), item(spank, S_JOB_STEPID));
	if (!nodes)
		nodes = getenv("SLURM_JOB_NODELIST");
	rc = ddl__step_init(step, name, nodes, getenv("SLURM_TASKS_PER_NODE"), err);
	if (rc < 0)
		return rc;
	/* distribution=arbitrary: the tasks may come in another order of nodes */
	if (step->n_nodes != item(spank, S_JOB_NNODES) || (distribution && !strncmp(distribution, "arbitrary", 9)))
		ddl__step_forget_tasks(step);
	return 0;
}

static int plan_from_controller(const struct ddl__step *step, char **text, struct ddl_error *err)
{
	struct ddl__topology *topology;
	char *printed;
	size_t length;
	int rc;

	if (settings.options.order == DDL__ORDER_SLURM)
		return ddl__step_plan(step, NULL, "none", &settings.options, text, err);
	rc = ddl__controller_topology(CONTROLLER_TIMEOUT_MS, &printed, &length, err);
	if (rc < 0)
		return rc;
	rc = ddl__topology_read_controller(printed, length, &topology, err);
	free(printed);
	if (rc < 0)
		return rc;
	if (!strcmp(ddl__topology_kind(topology), "flat"))
		ddl__spank_log(&settings, DDL__SPANK_INFO,
			       "Slurm knows no switches here (TopologyPlugin): the plan has one switch for all nodes");
	rc = ddl__step_plan(step, topology, "slurm", &settings.options, text, err);
	ddl__topology_destroy(topology);
	return rc;
}

/* Puts the plan into the environment. Returns 0 or an error whose sentence is logged by the caller. */
static int publish(spank_t spank, struct ddl_error *err)
{
	struct ddl__step step;
	char *text = NULL;
	int rc = read_step(spank, &step, err);

	if (rc < 0)
		return rc;
	if (settings.source == DDL__SPANK_FILE)
		rc = ddl__step_plan_from_file(&step, &settings, &text, err);
	else
		rc = plan_from_controller(&step, &text, err);
	if (rc == 0) {
		setenv(DDL__PLAN_ENV, text, 1);
		ddl__spank_log(&settings, DDL__SPANK_DEBUG, "plan %s", text);
	}
	free(text);
	ddl__step_fini(&step);
	return rc;
}

static void local_user_init(spank_t spank)
{
	char whose[DDL__STEP_NAME_SIZE];
	struct ddl_error err;
	const char *present = getenv(DDL__PLAN_ENV);

	ddl__step_of_plan(present, whose);
	if (whose[0])
		unsetenv(DDL__PLAN_ENV); /* of the step or batch script around this one */
	if (settings.options.mode == DDL__MODE_OFF) {
		if (settings.said)
			unsetenv(DDL__MODE_ENV);
		return;
	}
	setenv(DDL__MODE_ENV, settings.text, 1);
	if (present && !whose[0]) {
		ddl__spank_log(&settings, DDL__SPANK_DEBUG, "the user's own plan in %s stands", DDL__PLAN_ENV);
		return;
	}
	if (settings.source == DDL__SPANK_ENV || item(spank, S_JOB_STEPID) == SLURM_INTERACTIVE_STEP)
		return;
	if (spans_components(spank)) {
		ddl__spank_log(&settings, DDL__SPANK_DEBUG, "a step over several components: the tasks build the plan");
		return;
	}
	if (publish(spank, &err) < 0)
		ddl__spank_log(&settings, DDL__SPANK_ERROR, "srun makes no plan, the tasks build theirs: %s", err.text);
}

const struct ddl__spank_context ddl__spank_local = {
	.name = "local",
	.init = init,
	.local_user_init = local_user_init,
};
