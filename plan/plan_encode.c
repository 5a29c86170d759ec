/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_encode.c - a plan as one line of text (doc/plan_format.md): the same bytes for the same plan, always.
 *
 * Fields are written in the order of the format's table and left out where they hold the default. In the tree, neighbouring nodes
 * become a host list, and eight or more neighbouring switches of equal size one short form: leaf[1-8](4*n[1-32]).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "error.h"
#include "hostlist.h"
#include "text.h"
#include "tree.h"

#define GROUP_MIN 8u /* switches for which the short form is used */

static int put_children(struct ddl__text *t, const struct ddl__vertex *vertex);

/* Appends names[0...n-1] as a host list. */
static int put_names(struct ddl__text *t, const char *const *names, size_t n)
{
	char *list;
	int rc = ddl__hostlist_compress(names, n, &list);

	if (rc < 0)
		return rc;
	rc = ddl__text_puts(t, list);
	free(list);
	return rc;
}

/* Number of nodes of a switch that has nothing else below it and a name without escapes; 0: not such a switch. */
static size_t plain_size(const struct ddl__vertex *vertex)
{
	size_t i;

	if (!ddl__node_name_valid(vertex->name))
		return 0;
	for (i = 0; i < vertex->n_children; i++)
		if (vertex->children[i]->n_children)
			return 0;
	return vertex->n_children;
}

/* NAMES(COUNT*NODES) for n switches of equal size. */
static int put_group(struct ddl__text *t, struct ddl__vertex *const *switches, const char *const *names, size_t n)
{
	size_t i, k, count = switches[0]->n_children;
	const char **nodes = malloc(n * count * sizeof(*nodes));
	char number[32];
	int rc;

	if (!nodes)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		for (k = 0; k < count; k++)
			nodes[i * count + k] = switches[i]->children[k]->name;
	snprintf(number, sizeof(number), "(%zu*", count);
	rc = put_names(t, names, n);
	if (!rc)
		rc = ddl__text_puts(t, number);
	if (!rc)
		rc = put_names(t, nodes, n * count);
	if (!rc)
		rc = ddl__text_put(t, ")", 1);
	free(nodes);
	return rc;
}

static int put_switch(struct ddl__text *t, const struct ddl__vertex *vertex)
{
	int rc = ddl__text_put_escaped(t, vertex->name);

	if (!rc)
		rc = ddl__text_put(t, "(", 1);
	if (!rc)
		rc = put_children(t, vertex);
	if (!rc)
		rc = ddl__text_put(t, ")", 1);
	return rc;
}

/* The switches from children[i] on that join into one item: as a group if they are many, else one by one. *taken: how many. */
static int put_switches(struct ddl__text *t, struct ddl__vertex *const *switches, const char *const *names, size_t n, size_t *taken)
{
	size_t i, k = ddl__hostlist_first(names, n);
	int rc = 0;

	*taken = k;
	if (k >= GROUP_MIN)
		return put_group(t, switches, names, k);
	for (i = 0; !rc && i < k; i++) {
		rc = i ? ddl__text_put(t, ",", 1) : 0;
		if (!rc)
			rc = put_switch(t, switches[i]);
	}
	return rc;
}

/* Neighbours of one kind from i on: nodes, or plain switches of one size, or a single other switch. */
static size_t run_end(const struct ddl__vertex *vertex, size_t i)
{
	size_t end = i + 1, size = plain_size(vertex->children[i]);

	if (!vertex->children[i]->n_children) {
		while (end < vertex->n_children && !vertex->children[end]->n_children)
			end++;
		return end;
	}
	while (size && end < vertex->n_children && plain_size(vertex->children[end]) == size)
		end++;
	return end;
}

static int put_children(struct ddl__text *t, const struct ddl__vertex *vertex)
{
	const char **names = malloc(vertex->n_children * sizeof(*names));
	size_t i, end = 0, taken;
	int rc = 0;

	if (!names)
		return -ENOMEM;
	for (i = 0; i < vertex->n_children; i++)
		names[i] = vertex->children[i]->name;
	for (i = 0; !rc && i < vertex->n_children; i += taken) {
		if (i)
			rc = ddl__text_put(t, ",", 1);
		if (i >= end)
			end = run_end(vertex, i);
		taken = end - i;
		if (rc < 0)
			break;
		if (vertex->children[i]->n_children)
			rc = put_switches(t, vertex->children + i, names + i, end - i, &taken);
		else
			rc = put_names(t, names + i, taken);
	}
	free(names);
	return rc;
}

enum of_uplink { SPEED, RATIO };

/* Writes the link speeds or ratios of the switches below a vertex in pre-order. Returns n plus their number. */
static size_t collect_uplinks(const struct ddl__vertex *vertex, enum of_uplink which, uint64_t *values, size_t n)
{
	size_t i;

	for (i = 0; i < vertex->n_children; i++) {
		if (!vertex->children[i]->n_children)
			continue;
		if (values)
			values[n] = which == SPEED ? vertex->children[i]->link_speed : vertex->children[i]->oversubscribed;
		n = collect_uplinks(vertex->children[i], which, values, n + 1);
	}
	return n;
}

/* ";key=" and the numbers, nothing if all are 0. */
static int put_counts(struct ddl__text *t, const char *key, const uint64_t *values, size_t n)
{
	char *text;
	size_t i = 0;
	int rc;

	while (i < n && !values[i])
		i++;
	if (i == n)
		return 0;
	rc = ddl__counts_compress(values, n, &text);
	if (rc < 0)
		return rc;
	rc = ddl__text_puts(t, key);
	if (!rc)
		rc = ddl__text_puts(t, text);
	free(text);
	return rc;
}

/* tasks, speed, nodespeed and oversub. */
static int put_numbers(struct ddl__text *t, const struct ddl__plan *plan)
{
	size_t i, switches = collect_uplinks(plan->root, SPEED, NULL, 0);
	size_t room = switches > plan->n_nodes ? switches : plan->n_nodes;
	uint64_t *values = malloc(room * sizeof(*values));
	int rc;

	if (!values)
		return -ENOMEM;
	for (i = 0; i < plan->n_nodes; i++)
		values[i] = plan->nodes[i]->tasks;
	rc = put_counts(t, ";tasks=", values, plan->n_nodes);
	if (!rc) {
		collect_uplinks(plan->root, SPEED, values, 0);
		rc = put_counts(t, ";speed=", values, switches);
	}
	if (!rc) {
		for (i = 0; i < plan->n_nodes; i++)
			values[i] = plan->nodes[i]->link_speed;
		rc = put_counts(t, ";nodespeed=", values, plan->n_nodes);
	}
	if (!rc) {
		collect_uplinks(plan->root, RATIO, values, 0);
		rc = put_counts(t, ";oversub=", values, switches);
	}
	free(values);
	return rc;
}

static int put_field(struct ddl__text *t, const char *key, const char *value)
{
	int rc = ddl__text_puts(t, key);

	return rc < 0 ? rc : ddl__text_put_escaped(t, value);
}

static int put_number(struct ddl__text *t, const char *key, unsigned long number)
{
	char value[32];

	snprintf(value, sizeof(value), "%lu", number);
	return put_field(t, key, value);
}

static int put_choice(struct ddl__text *t, const char *key, const struct ddl__choice *table, int id)
{
	const struct ddl__choice *row = ddl__choice_by_id(table, id);

	return row ? put_field(t, key, row->name) : -EINVAL;
}

static int put_options(struct ddl__text *t, const struct ddl__options *options)
{
	char uplink[DDL__UPLINK_SIZE];
	int rc = 0;

	if (options->rings)
		rc = put_number(t, ";rings=", options->rings);
	if (!rc && options->wire != DDL__WIRE_AUTO)
		rc = put_choice(t, ";wire=", ddl__wires, options->wire);
	if (!rc && options->order != DDL__ORDER_TOPOLOGY)
		rc = put_choice(t, ";order=", ddl__orders, options->order);
	if (!rc && options->progress >= 0)
		rc = put_number(t, ";progress=", (unsigned long)options->progress);
	if (!rc && options->trace[0])
		rc = put_field(t, ";trace=", options->trace);
	for (uint32_t i = 0; !rc && i < options->n_dims; i++)
		rc = put_number(t, i ? "x" : ";dims=", options->dims[i]);
	if (!rc && ddl__uplink_said(&options->uplink))
		rc = put_field(t, ";uplink=", ddl__uplink_format(&options->uplink, uplink, sizeof(uplink)));
	if (!rc && options->accuracy != DDL__ACCURACY_AUTO)
		rc = put_choice(t, ";accuracy=", ddl__accuracies, options->accuracy);
	if (!rc && options->reproducible >= 0)
		rc = put_number(t, ";reproducible=", (unsigned long)options->reproducible);
	return rc;
}

static int put_plan(struct ddl__text *t, const struct ddl__plan *plan)
{
	int rc = ddl__text_puts(t, "1");

	if (!rc && plan->job[0])
		rc = put_field(t, ";job=", plan->job);
	if (!rc)
		rc = put_choice(t, ";mode=", ddl__modes, plan->options.mode);
	if (!rc)
		rc = put_field(t, ";src=", plan->source);
	if (!rc)
		rc = ddl__text_puts(t, ";tree=");
	if (!rc)
		rc = put_switch(t, plan->root);
	if (!rc)
		rc = put_numbers(t, plan);
	if (!rc && plan->rails)
		rc = put_number(t, ";rails=", plan->rails);
	if (!rc)
		rc = put_options(t, &plan->options);
	return rc;
}

int ddl__plan_encode(const struct ddl__plan *plan, char **text, struct ddl_error *err)
{
	struct ddl__text t = { NULL, 0, 0 };
	int rc = put_plan(&t, plan);

	if (rc == -ENOMEM)
		ddl__error_memory(err);
	else if (rc < 0)
		ddl__error_set(err, rc, "the plan holds a mode, wire type, order or accuracy that has no name");
	else if (t.used >= DDL__PLAN_TEXT_MAX)
		rc = ddl__error_set(err, -E2BIG, "the plan of %zu nodes has %zu bytes of text; at most %u fit", plan->n_nodes,
				    t.used, DDL__PLAN_TEXT_MAX - 1);
	if (rc < 0) {
		free(t.bytes);
		return rc;
	}
	*text = t.bytes;
	return 0;
}
