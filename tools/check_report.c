/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_report.c - lines of `ddl check`: made, merged over nodes, printed.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "hostlist.h"

static const char *const verdicts[] = { "pass", "warn", "fail" };

static const char *text_of(const json_t *line, const char *key)
{
	const char *text = json_string_value(json_object_get(line, key));

	return text ? text : "";
}

void ddl__check_add(json_t *lines, const char *check, enum ddl__verdict verdict, const char *remedy, const char *format, ...)
{
	char text[2048];
	json_t *line;
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	for (char *c = text; *c; c++) /* what commands print may be anything */
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = *c == '\n' || *c == '\t' ? ' ' : '?';
	line = json_pack("{ss ss ss}", "check", check, "verdict", verdicts[verdict], "text", text);
	if (line && remedy)
		json_object_set_new(line, "remedy", json_string(remedy));
	json_array_append_new(lines, line);
}

void ddl__check_alike(json_t *lines, const char *text)
{
	json_object_set_new(json_array_get(lines, json_array_size(lines) - 1), "alike", json_string(text));
}

void ddl__check_append(char *text, const char *format, ...)
{
	size_t used = strlen(text);
	va_list list;

	if (used > 0 && used < DDL__CHECK_TEXT)
		used += (size_t)snprintf(text + used, DDL__CHECK_TEXT - used, ", ");
	va_start(list, format);
	if (used < DDL__CHECK_TEXT)
		vsnprintf(text + used, DDL__CHECK_TEXT - used, format, list);
	va_end(list);
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
	return strcmp(text_of(a, key), text_of(b, key)) == 0;
}

static bool say_the_same(const json_t *a, const json_t *b)
{
	return same(a, b, "check") && same(a, b, "verdict") && same(a, b, "text") && same(a, b, "remedy") && same(a, b, "alike");
}

/* The line of merged that says the same, else a new one there. */
static json_t *find_or_add(json_t *merged, const json_t *line)
{
	json_t *other;
	size_t i;

	json_array_foreach(merged, i, other)
	{
		if (say_the_same(other, line))
			return other;
	}
	other = json_copy((json_t *)line);
	if (!other || json_object_set_new(other, "names", json_object()) < 0) {
		json_decref(other);
		return NULL;
	}
	return json_array_append_new(merged, other) < 0 ? NULL : other;
}

static int compare_names(const void *a, const void *b)
{
	return ddl__name_compare(*(const char *const *)a, *(const char *const *)b);
}

/* Replaces the set of names by a hostlist, unless it is true of all n_nodes. */
static void name_nodes(json_t *line, size_t n_nodes)
{
	json_t *names = json_object_get(line, "names"), *value;
	const size_t n = json_object_size(names);
	const char **list = n < n_nodes ? calloc(n, sizeof(*list)) : NULL, *name;
	char *text = NULL;
	size_t used = 0;

	if (list) {
		json_object_foreach(names, name, value)
		{
			list[used++] = name;
		}
		qsort(list, used, sizeof(*list), compare_names);
		if (ddl__hostlist_compress(list, used, &text) == 0)
			json_object_set_new(line, "nodes", json_string(text));
	}
	free(text);
	free(list);
	json_object_del(line, "names");
}

/* Lines of one check that differ in what should be alike become warnings. */
static void compare_nodes(json_t *merged)
{
	json_t *a, *b;
	size_t i, k;

	json_array_foreach(merged, i, a)
	{
		if (!json_object_get(a, "alike"))
			continue;
		json_array_foreach(merged, k, b)
		{
			if (!same(a, b, "check") || !json_object_get(b, "alike") || same(a, b, "alike"))
				continue;
			if (strcmp(text_of(a, "verdict"), "pass") == 0) {
				json_object_set_new(a, "verdict", json_string("warn"));
				json_object_set_new(
					a, "remedy",
					json_string("the nodes differ here: make them alike, or take alike nodes for a job "
						    "(sbatch --constraint, --nodelist)"));
			}
		}
	}
}

json_t *ddl__check_merge(const json_t *const *lines, const char *const *nodes, size_t n)
{
	json_t *merged = json_array(), *all = json_object(), *line;
	size_t i;

	for (size_t rank = 0; merged && all && rank < n; rank++) {
		json_object_set_new(all, nodes[rank], json_true());
		json_array_foreach(lines[rank], i, line)
		{
			json_t *into = find_or_add(merged, line);

			if (into)
				json_object_set_new(json_object_get(into, "names"), nodes[rank], json_true());
		}
	}
	json_array_foreach(merged, i, line)
	{
		name_nodes(line, json_object_size(all));
	}
	compare_nodes(merged);
	json_decref(all);
	return merged;
}

size_t ddl__check_count(const json_t *lines, enum ddl__verdict verdict)
{
	const json_t *line;
	size_t i, n = 0;

	json_array_foreach(lines, i, line)
	{
		n += strcmp(text_of(line, "verdict"), verdicts[verdict]) == 0;
	}
	return n;
}

void ddl__check_print(FILE *out, const json_t *lines)
{
	const json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		const char *nodes = text_of(line, "nodes"), *remedy = text_of(line, "remedy");

		fprintf(out, "%s  %-10s  %s%s%s\n", text_of(line, "verdict"), text_of(line, "check"), nodes, *nodes ? ": " : "",
			text_of(line, "text"));
		if (*remedy)
			fprintf(out, "      %-10s  -> %s\n", "", remedy);
	}
	fprintf(out, "%zu pass, %zu warn, %zu fail\n", ddl__check_count(lines, DDL__PASS), ddl__check_count(lines, DDL__WARN),
		ddl__check_count(lines, DDL__FAIL));
}
