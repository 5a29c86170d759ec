/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_print.c - the plan as a tree for people. Neighbouring nodes share a line, as a host list, where they fit one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostlist.h"
#include "tree.h"

#define LIST_MAX   96u /* bytes of host list on one line */
#define INDENT_MAX 512 /* bytes of an indent: DDL__PLAN_DEPTH_MAX levels of at most 9 bytes */

static void print_children(const struct ddl__vertex *vertex, const char *indent, FILE *out);

/* Where the next line of a host list ends: before a comma outside of brackets, at most LIST_MAX bytes on if there is one. */
static size_t line_end(const char *list)
{
	size_t i, fits = 0;
	int inside = 0;

	for (i = 0; list[i]; i++) {
		if (list[i] == '[')
			inside = 1;
		else if (list[i] == ']')
			inside = 0;
		if (list[i] != ',' || inside)
			continue;
		if (i > LIST_MAX && fits)
			return fits;
		fits = i;
		if (i > LIST_MAX)
			return i;
	}
	return i > LIST_MAX && fits ? fits : i;
}

static uint64_t count_tasks(const struct ddl__vertex *vertex)
{
	uint64_t tasks = vertex->tasks;
	size_t i;

	for (i = 0; i < vertex->n_children; i++)
		tasks += count_tasks(vertex->children[i]);
	return tasks;
}

static void print_size(size_t nodes, uint64_t tasks, const struct ddl__vertex *vertex, FILE *out)
{
	char ratio[DDL__RATIO_SIZE];

	fprintf(out, "  %zu node%s", nodes, nodes == 1 ? "" : "s");
	if (tasks)
		fprintf(out, ", %llu task%s", (unsigned long long)tasks, tasks == 1 ? "" : "s");
	if (vertex->link_speed)
		fprintf(out, ", link speed %llu", (unsigned long long)vertex->link_speed);
	if (vertex->oversubscribed)
		fprintf(out, ", uplink %s", ddl__ratio_format(vertex->oversubscribed, ratio, sizeof(ratio)));
	fputc('\n', out);
}

/* Nodes children[0...n-1] of a switch. last: nothing follows below the same switch. */
static void print_nodes(struct ddl__vertex *const *nodes, size_t n, const char *indent, int last, FILE *out)
{
	const char **names = malloc(n * sizeof(*names));
	const char *at;
	char *list = NULL;
	uint64_t tasks = 0;
	size_t i, length;
	int uniform = 1;

	for (i = 0; names && i < n; i++)
		names[i] = nodes[i]->name;
	if (!names || ddl__hostlist_compress(names, n, &list) < 0) {
		fprintf(out, "%s%s (%zu nodes, out of memory)\n", indent, last ? "└─" : "├─", n);
		free(names);
		return;
	}
	free(names);
	for (i = 0; i < n; i++) {
		tasks += nodes[i]->tasks;
		uniform &= nodes[i]->tasks == nodes[0]->tasks;
	}
	for (at = list;; at += length + 1) {
		length = line_end(at);
		fprintf(out, "%s%s %.*s", indent, at[length] ? "├─" : last ? "└─" : "├─", (int)length, at);
		if (!at[length])
			break;
		fputs(",\n", out);
	}
	if (uniform && tasks)
		fprintf(out, "  %u task%s%s", nodes[0]->tasks, nodes[0]->tasks == 1 ? "" : "s", n > 1 ? " each" : "");
	else if (tasks)
		fprintf(out, "  %llu tasks", (unsigned long long)tasks);
	fputc('\n', out);
	free(list);
}

static void print_switch(const struct ddl__vertex *vertex, const char *indent, int last, FILE *out)
{
	char below[INDENT_MAX];

	fprintf(out, "%s%s %s", indent, last ? "└─" : "├─", vertex->name);
	print_size(ddl__vertex_count(vertex), count_tasks(vertex), vertex, out);
	snprintf(below, sizeof(below), "%s%s", indent, last ? "   " : "│  ");
	print_children(vertex, below, out);
}

static void print_children(const struct ddl__vertex *vertex, const char *indent, FILE *out)
{
	size_t i, end;

	for (i = 0; i < vertex->n_children; i = end) {
		end = i + 1;
		if (vertex->children[i]->n_children) {
			print_switch(vertex->children[i], indent, end == vertex->n_children, out);
			continue;
		}
		while (end < vertex->n_children && !vertex->children[end]->n_children)
			end++;
		print_nodes(vertex->children + i, end - i, indent, end == vertex->n_children, out);
	}
}

void ddl__plan_print(const struct ddl__plan *plan, FILE *out)
{
	fprintf(out, "%s", plan->root->name);
	print_size(plan->n_nodes, count_tasks(plan->root), plan->root, out);
	print_children(plan->root, "", out);
}
