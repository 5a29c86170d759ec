/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the `ddl` command: finds the subcommand in one table and runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

struct tool {
	const char *name;                       /* spelling */
	const char *description;                /* one line */
	int (*function)(int argc, char **argv); /* returns the exit status */
};

static const struct tool tools[] = {
	{ "check", "tells whether jobs can use DDL here, and what to do where they cannot", ddl_tool_check },
	{ "info", "what this installation has and what it sees of this machine", ddl_tool_info },
	{ "perf", "measures and checks collectives", ddl_tool_perf },
	{ "plan", "shows the plan in force, or that of a job which does not run yet", ddl_tool_plan },
	{ "run", "starts processes on this machine with PMIx, without Slurm", ddl_tool_run },
	{ "stat", "tells what a running job waits for, and which rank keeps it waiting", ddl_tool_stat },
	{ "trace", "merges the traces of a job's ranks", ddl_tool_trace },
};

static int print_tools(FILE *out)
{
	fprintf(out,
		"Usage: ddl COMMAND [ARGUMENTS]\n"
		"DDL for Slurm %s: topology-aware collectives. Commands:\n\n",
		ddl_version());
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		fprintf(out, "  %-6s %s\n", tools[i].name, tools[i].description);
	fprintf(out, "\n`ddl COMMAND --help` tells a command's arguments; ddl --version tells the version.\n");
	return DDL__EXIT_GOOD;
}

static int run_tool(const char *name, int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		if (strcmp(name, tools[i].name) == 0)
			return tools[i].function(argc, argv);
	}
	return ddl__usage(NULL, "there is no command '%.60s'; `ddl help` lists the commands", name);
}

static int run_help(const char *name)
{
	char option[] = "--help", *copy = strdup(name);
	char *argv[] = { copy, option, NULL };
	int status;

	if (!copy)
		return ddl__failed(NULL, "no memory");
	status = run_tool(name, 2, argv);
	free(copy);
	return status;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "help";
	int status;

	if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0)
		status = printf("ddl %s\n", ddl_version()) < 0;
	else if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		status = argc > 2 ? run_help(argv[2]) : print_tools(stdout);
	else
		status = run_tool(name, argc - 1, argv + 1);
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == DDL__EXIT_GOOD) /* an earlier flush may have failed alone */
		status = ddl__failed(NULL, "the output could not be written");
	return status;
}
