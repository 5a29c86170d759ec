/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.h - a step's nodes and tasks as Slurm's environment tells them, and the plan's text that is made of them.
 */
#ifndef DDL_SPANK_STEP_H
#define DDL_SPANK_STEP_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#include "settings.h"
#include "topology.h"

#define DDL__STEP_NAME_SIZE 64 /* bytes of a step's name with NUL */

struct ddl__step {
	char name[DDL__STEP_NAME_SIZE]; /* "4242.0", "4242.batch" */
	char **nodes;                   /* in Slurm's order; freed by ddl__step_fini() */
	size_t n_nodes;                 /* at least 1 */
	uint32_t *tasks;                /* per node; NULL: not known */
};

/*
 * Reads a step. nodes: a hostlist; tasks: "2(x3),1", NULL or not fitting the nodes: not known. name is copied.
 * Returns 0; -ENOENT (nodes is NULL or empty); -EBADMSG; -ENOMEM. After success ddl__step_fini() frees.
 */
int ddl__step_init(struct ddl__step *step, const char *name, const char *nodes, const char *tasks, struct ddl_error *err);
void ddl__step_fini(struct ddl__step *step);

/* Forgets the tasks: where they are not those of this step. */
void ddl__step_forget_tasks(struct ddl__step *step);

/*
 * The text of the plan for this step. topology: NULL, then source is "none". *text is NUL-ended; caller frees.
 * Returns 0; the errors of ddl__plan_create() and ddl__plan_encode().
 */
int ddl__step_plan(const struct ddl__step *step, const struct ddl__topology *topology, const char *source,
		   const struct ddl__options *options, char **text, struct ddl_error *err);

/* The same with the switches from the file that the administrator named; order=slurm needs no file. */
int ddl__step_plan_from_file(const struct ddl__step *step, const struct ddl__spank_settings *settings, char **text,
			     struct ddl_error *err);

/* The same by cutting down a plan for more nodes than the step has. Returns 0; the errors of ddl__plan_decode() too. */
int ddl__step_plan_narrow(const struct ddl__step *step, const char *plan, char **text, struct ddl_error *err);

/*
 * Whose plan a text is: what its job= says, copied to name (DDL__STEP_NAME_SIZE bytes). "" where there is none: the user's own,
 * which the plugin leaves alone.
 */
void ddl__step_of_plan(const char *text, char *name);

/* Whether a plan's text tells the tasks of its nodes. */
int ddl__step_plan_has_tasks(const char *text);

#endif
