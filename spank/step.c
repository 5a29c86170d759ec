/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - from Slurm's environment to a plan's text. Used by srun and by slurmstepd; asks nobody.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "error.h"
#include "hostlist.h"
#include "plan.h"
#include "step.h"

int ddl__step_init(struct ddl__step *step, const char *name, const char *nodes, const char *tasks, struct ddl_error *err)
{
	int rc;

	memset(step, 0, sizeof(*step));
	if (!nodes || !nodes[0])
		return ddl__error_set(err, -ENOENT, "Slurm does not say on which nodes the step runs");
	snprintf(step->name, sizeof(step->name), "%s", name);
	rc = ddl__hostlist_expand(nodes, strlen(nodes), &step->nodes, &step->n_nodes, err);
	if (rc < 0)
		return rc;
	if (!tasks)
		return 0;
	step->tasks = calloc(step->n_nodes, sizeof(*step->tasks));
	if (!step->tasks) {
		ddl__step_fini(step);
		return ddl__error_memory(err);
	}
	if (ddl__tasks_expand(tasks, step->tasks, step->n_nodes, NULL) < 0)
		ddl__step_forget_tasks(step);
	return 0;
}

void ddl__step_forget_tasks(struct ddl__step *step)
{
	free(step->tasks);
	step->tasks = NULL;
}

void ddl__step_fini(struct ddl__step *step)
{
	ddl__step_forget_tasks(step);
	free(step->nodes);
	step->nodes = NULL;
	step->n_nodes = 0;
}

int ddl__step_plan(const struct ddl__step *step, const struct ddl__topology *topology, const char *source,
		   const struct ddl__options *options, char **text, struct ddl_error *err)
{
	struct ddl__plan_request request = {
		.topology = topology,
		.source = source,
		.job = step->name,
		.nodes = (const char *const *)step->nodes,
		.tasks = step->tasks,
		.n_nodes = step->n_nodes,
		.options = options,
	};
	struct ddl__plan *plan;
	int rc = ddl__plan_create(&request, &plan, err);

	if (rc < 0)
		return rc;
	rc = ddl__plan_encode(plan, text, err);
	ddl__plan_destroy(plan);
	return rc;
}

int ddl__step_plan_from_file(const struct ddl__step *step, const struct ddl__spank_settings *settings, char **text,
			     struct ddl_error *err)
{
	struct ddl__topology *topology;
	struct ddl_error inner;
	int rc;

	if (settings->options.order == DDL__ORDER_SLURM)
		return ddl__step_plan(step, NULL, "none", &settings->options, text, err);
	rc = ddl__topology_load(settings->file, &topology, &inner);
	if (rc < 0)
		return ddl__error_set(err, rc, "%.400s; it is the file of topology=file: in plugstack.conf", inner.text);
	rc = ddl__step_plan(step, topology, "file", &settings->options, text, err);
	ddl__topology_destroy(topology);
	return rc;
}

/*
 * Cutting down keeps the order of the wide plan. Where a switch with a single child went, its child now stands by its own name,
 * as in a plan that was made for these nodes alone (by the tasks, say): hence the sorting.
 */
int ddl__step_plan_narrow(const struct ddl__step *step, const char *plan, char **text, struct ddl_error *err)
{
	struct ddl__plan *wide, *narrow;
	int rc = ddl__plan_decode(plan, strlen(plan), &wide, err);

	if (rc < 0)
		return rc;
	if (wide->options.order == DDL__ORDER_SLURM) { /* the step's list may be in another order than the job's */
		rc = ddl__step_plan(step, NULL, "none", &wide->options, text, err);
		goto destroy_wide;
	}
	rc = ddl__plan_restrict(wide, (const char *const *)step->nodes, step->tasks, step->n_nodes, &narrow, err);
	if (rc < 0)
		goto destroy_wide;
	ddl__plan_sort(narrow);
	rc = ddl__plan_encode(narrow, text, err);
	ddl__plan_destroy(narrow);
destroy_wide:
	ddl__plan_destroy(wide);
	return rc;
}

void ddl__step_of_plan(const char *text, char *name)
{
	const char *job = text ? strstr(text, ";job=") : NULL;
	size_t length;

	name[0] = '\0';
	if (!job)
		return;
	job += strlen(";job=");
	length = strcspn(job, ";");
	if (length >= DDL__STEP_NAME_SIZE)
		length = DDL__STEP_NAME_SIZE - 1;
	memcpy(name, job, length);
	name[length] = '\0';
}

int ddl__step_plan_has_tasks(const char *text)
{
	return strstr(text, ";tasks=") != NULL;
}
