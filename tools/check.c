/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - `ddl check`: tells before a job does what would be in its way, and what to do: on a login node, on a node, as a step.
 */
#include "check.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

#define TOOL "check"

static const struct ddl__help help[] = {
	{ "--json", "one JSON object" },
	{ "--alone", "ask no other rank; else all ranks of a step must run it" },
	{ "--root DIR", "read dev, etc, proc and sys below DIR, a captured machine" },
	{ "--help", "this text" },
	{ NULL, NULL },
};

static int print_json(const json_t *lines)
{
	json_t *report = json_pack("{sO sI sI sI}", "checks", lines, "pass", (json_int_t)ddl__check_count(lines, DDL__PASS), "warn",
				   (json_int_t)ddl__check_count(lines, DDL__WARN), "fail",
				   (json_int_t)ddl__check_count(lines, DDL__FAIL));
	const bool good = report && json_dumpf(report, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;

	json_decref(report);
	return good ? DDL__EXIT_GOOD : ddl__failed(TOOL, "the output could not be written");
}

static int report(json_t *lines, bool json)
{
	int status = ddl__check_count(lines, DDL__FAIL) ? DDL__EXIT_FAILED : DDL__EXIT_GOOD;
	json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		json_object_del(line, "alike");
	}
	if (json)
		return print_json(lines) ? DDL__EXIT_FAILED : status;
	ddl__check_print(stdout, lines);
	if (!ddl__check_is_task())
		puts("What only ranks can tell: srun -N 2 --ddl=auto --mpi=pmix ddl check");
	return status;
}

static int check(const char *root, bool json, bool alone)
{
	const bool echo = ddl__is_echo(); /* what is the same for all ranks is left to the first */
	json_t *lines = json_array(), *of_node = json_array();
	int status = DDL__EXIT_GOOD;

	if (!lines || !of_node) {
		json_decref(lines);
		json_decref(of_node);
		return ddl__failed(TOOL, "no memory");
	}
	if (!echo)
		ddl__check_slurm(root, lines);
	ddl__check_node(root, of_node);
	if (!alone && !*root)
		ddl__check_ranks(&of_node);
	if (!echo && json_array_extend(lines, of_node) < 0)
		status = ddl__failed(TOOL, "no memory");
	else if (!echo)
		status = report(lines, json);
	json_decref(of_node);
	json_decref(lines);
	return status;
}

int ddl_tool_check(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "alone", no_argument, NULL, 'a' },
						 { "root", required_argument, NULL, 'r' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	const char *root = "";
	bool json = false, alone = false;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (option == 'h') {
			ddl__help_print(stdout, "ddl check [--json] [--alone]",
					"Tells whether jobs can use DDL here, and what to do where they cannot: on a login node, "
					"on a node,\n"
					"and in a job (srun --mpi=pmix ddl check).",
					help);
			return DDL__EXIT_GOOD;
		}
		if (option == 'r')
			root = strcmp(optarg, "/") == 0 ? "" : optarg;
		else if (option != 'j' && option != 'a')
			return ddl__usage_getopt(TOOL, option, optind, argv);
		json = json || option == 'j';
		alone = alone || option == 'a';
	}
	if (optind < argc)
		return ddl__usage(TOOL, "'%.60s' is too much; `ddl check` takes no arguments", argv[optind]);
	return check(root, json, alone);
}
