/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.c - communicators out of communicators. A child is made by the same code as any other (ddl__comm_make()), over the
 * bootstrap that its parent is: with transports, connections and a plan of its own, and a secret that its parent's ranks derive.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "comm.h"
#include "engine.h"
#include "error.h"
#include "parent.h"
#include "tuning.h"

/* The settings of a child: those of its parent, its plan, and the transports that the parent could open. */
static void inherit(const struct ddl_comm *parent, char *names, size_t size, struct ddl__settings *settings)
{
	size_t used = 0;

	*settings = parent->origin->settings;
	settings->plan = parent->plan_text;
	settings->options = parent->plan->options;
	memcpy(settings->options.trace, parent->origin->settings.options.trace, sizeof(settings->options.trace));
	settings->transports = names;
	names[0] = '\0';
	for (size_t t = 0; t < parent->n_transports && used < size; t++)
		used += (size_t)snprintf(names + used, size - used, "%s%s", t ? "," : "", parent->transports[t]->ops->name);
}

/* Of what the child of this color is made. Its node goes by the name that the parent's plan has for it. */
static int make_origin(const struct ddl_comm *parent, int color, int size, struct ddl__origin **origin, struct ddl_error *err)
{
	const struct ddl__origin *from = parent->origin;
	struct ddl__settings settings;
	struct ddl__origin *o = NULL;
	char names[128];
	int rc;

	inherit(parent, names, sizeof(names), &settings);
	rc = ddl__origin_create(&settings, &o, err);
	if (rc < 0)
		return rc;
	o->facts = from->facts;
	o->part = true;
	o->cores = from->cores;
	o->turn = from->turn + from->splits;
	o->clock_known = from->clock_known;
	o->clock_ahead_ns = from->clock_ahead_ns;
	o->clock_error_ns = from->clock_error_ns;
	snprintf(o->facts.node, sizeof(o->facts.node), "%s", ddl_comm_node_name(parent, parent->rank));
	snprintf(o->job, sizeof(o->job), "%.40s-%llu.%d", from->job, (unsigned long long)from->splits, color);
	o->verbs = from->verbs;
	if (from->loop)
		o->loop = ddl__loop_world_part(from->loop, from->splits, color, size);
	if ((from->loop && !o->loop) || ddl__auth_derive(from->secret, from->splits, color, o->secret) < 0) {
		ddl__origin_destroy(o);
		return ddl__error_memory(err);
	}
	*origin = o;
	return 0;
}

/* What was measured holds for a part of the same shape too. */
static int inherit_tuning(const struct ddl_comm *parent, struct ddl_comm *child, struct ddl_error *err)
{
	struct ddl__model model;

	ddl__model_init(&model, child->layout);
	if (!parent->tuning || !ddl__tuning_fits(parent->tuning, &model))
		return 0;
	child->tuning = malloc(sizeof(*child->tuning));
	if (!child->tuning)
		return ddl__error_memory(err);
	*child->tuning = *parent->tuning;
	return 0;
}

static int make_child(const struct ddl_comm *parent, int color, struct ddl__boot *boot, struct ddl_comm **child,
		      struct ddl_error *err)
{
	struct ddl__origin *origin = NULL;
	int rc = make_origin(parent, color, boot->size, &origin, err);

	if (rc < 0)
		return rc;
	memcpy(boot->job, origin->job, sizeof(boot->job));
	boot->secret = origin->secret;
	rc = ddl__comm_make(boot, origin, child, err);
	boot->secret = NULL;
	return rc ? rc : inherit_tuning(parent, *child, err);
}

int ddl_comm_split(struct ddl_comm *parent, int color, int key, struct ddl_comm **comm, struct ddl_error *err)
{
	struct ddl_comm *child = NULL;
	struct ddl__boot *boot = NULL;
	struct ddl_error why = { 0 };
	int rc = 0;

	if (!parent)
		return ddl__error_set(err, -EINVAL, "ddl_comm_split: the communicator to split is NULL");
	parent->origin->splits++;
	if (!comm || (color < 0 && color != DDL_UNDEFINED))
		rc = ddl__error_set(&why, -EINVAL,
				    "ddl_comm_split: color %d must not be negative (DDL_UNDEFINED: no communicator), nor the place "
				    "for the result be NULL",
				    color);
	rc = ddl__parent_open(parent, rc, color, key, &boot, &why);
	if (rc == 0) {
		rc = boot->size ? make_child(parent, color, boot, &child, &why) : boot->ops->fence(boot, &why);
		rc = ddl__parent_finish(boot, rc, &why);
		boot->ops->close(boot);
	}
	if (rc == 0 && child)
		rc = ddl__comm_connect(child, &why);
	if (rc < 0 || !comm) {
		ddl_comm_destroy(child);
		return ddl__error_set(err, rc, "%s", why.text);
	}
	*comm = child;
	return 0;
}

int ddl_comm_dup(struct ddl_comm *parent, struct ddl_comm **comm, struct ddl_error *err)
{
	return ddl_comm_split(parent, 0, 0, comm, err);
}
