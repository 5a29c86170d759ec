/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info.c - `ddl info`: what this installation has (transports, kernels, algorithms, ...) and what it sees of this machine.
 *
 * Everything is gathered into one JSON object; the text for people is a walk through it.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "boot.h"
#include "facts.h"
#include "info.h"
#include "plan.h"
#include "plugin.h"
#include "reduce.h"
#include "select.h"
#include "tools.h"
#include "transport.h"

#define TOOL "info"

static const struct ddl__help help[] = {
	{ "--json", "one JSON object" },
	{ "--alone", "asks no other rank; else all ranks of a step must run it" },
	{ "--help", "this text" },
	{ NULL, NULL },
};

static json_t *make_row(const char *name, const char *description)
{
	return json_pack("{ss ss}", "name", name, "description", description);
}

static json_t *make_choices(const struct ddl__choice *table)
{
	json_t *rows = json_array();

	for (; table->name; table++)
		json_array_append_new(rows, make_row(table->name, table->description));
	return rows;
}

/* A row with what a probe said. */
static json_t *make_probed(const char *name, const char *description, int usable, const char *why)
{
	json_t *row = make_row(name, description);

	json_object_set_new(row, "usable", json_boolean(usable));
	if (*why)
		json_object_set_new(row, "seen", json_string(why));
	return row;
}

static json_t *make_transports(void)
{
	json_t *rows = json_array();

	for (const struct ddl__transport_ops *const *t = ddl__transports; *t; t++) {
		char why[256] = "";
		const int usable = (*t)->probe(why, sizeof(why));

		json_array_append_new(rows, make_probed((*t)->name, (*t)->description, usable == 1, why));
	}
	return rows;
}

static json_t *make_boots(void)
{
	const struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	json_t *rows = json_array();

	for (const struct ddl__boot_ops *const *b = ddl__boots; *b; b++) {
		char why[256] = "";
		const int usable = (*b)->probe(&options, why, sizeof(why));

		json_array_append_new(rows, make_probed((*b)->name, (*b)->description, usable == 1, why));
	}
	return rows;
}

static json_t *make_kernels(void)
{
	json_t *rows = json_array();

	for (const struct ddl__kernel_set *const *k = ddl__kernel_sets; *k; k++)
		json_array_append_new(rows, make_probed((*k)->name, (*k)->description, (*k)->usable() == 1, ""));
	return rows;
}

static json_t *make_algorithms(void)
{
	json_t *rows = json_array(), *row;

	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		row = make_row(a->name, a->description);
		json_object_set_new(row, "collective", json_string(ddl__collective_name(a->collective)));
		json_array_append_new(rows, row);
	}
	return rows;
}

static json_t *make_build(void)
{
#ifdef __clang__
	static const char compiler[] = "clang " __clang_version__;
#else
	static const char compiler[] = "gcc " __VERSION__;
#endif
#ifdef DDL_HAVE_PMIX
	const int pmix = 1;
#else
	const int pmix = 0;
#endif

	return json_pack("{ss ss ss sb}", "type", DDL_BUILD_TYPE, "compiler", compiler, "sanitizers", DDL_SANITIZERS, "pmix", pmix);
}

/* The first line that a command prints; "" if there is no such command. */
static void first_line(const char *command, char *line, size_t size)
{
	FILE *pipe = popen(command, "re");

	line[0] = '\0';
	if (!pipe)
		return;
	if (fgets(line, (int)size, pipe))
		line[strcspn(line, "\n")] = '\0';
	else
		line[0] = '\0';
	pclose(pipe);
}

/* Sets object[key] from the environment, if it is there. */
static void add_variable(json_t *object, const char *key, const char *variable)
{
	const char *value = getenv(variable);

	if (value && *value)
		json_object_set_new(object, key, json_string(value));
}

static json_t *make_slurm(void)
{
	json_t *slurm = json_object();
	char version[128], plugin[PATH_MAX];

	first_line("PATH=$PATH:/usr/sbin:/sbin slurmd -V 2>/dev/null", version, sizeof(version));
	if (*version)
		json_object_set_new(slurm, "version", json_string(version));
	if (ddl__plugin_find("", plugin, sizeof(plugin)) == 0)
		json_object_set_new(slurm, "plugin", json_string(plugin));
	add_variable(slurm, "job", "SLURM_JOB_ID");
	add_variable(slurm, "step", "SLURM_STEP_ID");
	add_variable(slurm, "nodes", "SLURM_JOB_NODELIST");
	add_variable(slurm, "topology_address", "SLURM_TOPOLOGY_ADDR");
	add_variable(slurm, "mode", DDL__MODE_ENV);
	add_variable(slurm, "plan", DDL__PLAN_ENV);
	return slurm;
}

static json_t *make_interfaces(const struct ddl__facts *facts)
{
	size_t chosen[DDL__INTERFACES_MAX], n = 0;
	json_t *rows = json_array();
	struct ddl_error err;

	if (ddl__facts_choose_interfaces(facts, getenv("DDL_NET"), chosen, &n, &err) < 0)
		n = 0;
	for (size_t i = 0; i < facts->n_interfaces; i++) {
		const struct ddl__interface *f = &facts->interfaces[i];
		json_t *row = json_pack("{ss ss si si si sb sb sb}", "name", f->name, "address", f->address, "speed_Mbps",
					(int)f->speed_Mbps, "mtu", (int)f->mtu, "numa", f->numa, "up", f->up, "loopback",
					f->loopback, "virtual", f->virtual);
		bool used = false;

		for (size_t k = 0; k < n; k++)
			used = used || chosen[k] == i;
		json_object_set_new(row, "chosen", json_boolean(used));
		json_array_append_new(rows, row);
	}
	return rows;
}

static json_t *make_node(void)
{
	struct ddl__facts *facts = calloc(1, sizeof(*facts));
	json_t *node = NULL, *gpus;
	struct ddl_error err;

	if (facts && ddl__facts_gather("", "", facts, &err) == 0) {
		node = json_pack("{ss si si si}", "name", facts->node, "numa_nodes", (int)facts->numa_nodes, "cores",
				 (int)facts->cores, "cpus", (int)facts->cpus);
		json_object_set_new(node, "interfaces", make_interfaces(facts));
		gpus = json_array();
		for (size_t i = 0; i < facts->n_gpus; i++)
			json_array_append_new(gpus, json_pack("{ss ss si}", "pci", facts->gpus[i].pci, "model",
							      facts->gpus[i].model, "numa", facts->gpus[i].numa));
		json_object_set_new(node, "gpus", gpus);
		json_object_set_new(node, "rdma", ddl__info_rdma("", facts, NULL));
	}
	free(facts);
	return node ? node : json_object();
}

static json_t *make_info(bool alone)
{
	json_t *info = json_pack("{ss}", "version", ddl_version());

	json_object_set_new(info, "build", make_build());
	json_object_set_new(info, "transports", make_transports());
	json_object_set_new(info, "boots", make_boots());
	json_object_set_new(info, "kernels", make_kernels());
	json_object_set_new(info, "algorithms", make_algorithms());
	json_object_set_new(info, "modes", make_choices(ddl__modes));
	json_object_set_new(info, "keys", make_choices(ddl__option_keys));
	json_object_set_new(info, "orders", make_choices(ddl__orders));
	json_object_set_new(info, "wires", make_choices(ddl__wires));
	json_object_set_new(info, "types", make_choices(ddl__types));
	json_object_set_new(info, "operations", make_choices(ddl__ops));
	json_object_set_new(info, "slurm", make_slurm());
	json_object_set_new(info, "node", make_node());
	json_object_set_new(info, "ranks", ddl__info_ranks(alone));
	return info;
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && *text ? text : otherwise;
}

static int number_of(const json_t *object, const char *key)
{
	return (int)json_integer_value(json_object_get(object, key));
}

/* One table of what can be chosen: name, description, and what a probe said. */
static void print_rows(const json_t *info, const char *key, const char *title)
{
	const json_t *rows = json_object_get(info, key), *row;
	size_t i;

	printf("\n%s\n", title);
	json_array_foreach(rows, i, row)
	{
		const char *collective = text_of(row, "collective", NULL), *seen = text_of(row, "seen", NULL);
		const json_t *usable = json_object_get(row, "usable");

		printf("  %-14s %s", text_of(row, "name", "?"), text_of(row, "description", ""));
		if (collective)
			printf(" (%s)", collective);
		if (usable)
			printf(" - %s%s%s", json_is_true(usable) ? "usable" : "not usable", seen ? ": " : "", seen ? seen : "");
		putchar('\n');
	}
}

static void print_slurm(const json_t *slurm)
{
	printf("\nSlurm\n");
	printf("  version        %s\n", text_of(slurm, "version", "not found"));
	printf("  plugin         %s\n", text_of(slurm, "plugin", "not found"));
	if (!text_of(slurm, "job", NULL)) {
		printf("  job            this is no job\n");
		return;
	}
	printf("  job            %s, step %s, nodes %s\n", text_of(slurm, "job", "?"), text_of(slurm, "step", "none"),
	       text_of(slurm, "nodes", "?"));
	printf("  topology       %s\n", text_of(slurm, "topology_address", "not told"));
	printf("  --ddl          %s\n", text_of(slurm, "mode", "not given"));
	printf("  plan           %s\n", text_of(slurm, "plan", "none"));
}

static void print_node(const json_t *node)
{
	const json_t *interfaces = json_object_get(node, "interfaces"), *gpus = json_object_get(node, "gpus"), *row;
	size_t i;

	printf("\nNode %s: %d NUMA node%s, %d cores, %d hardware threads for this process\n", text_of(node, "name", "?"),
	       number_of(node, "numa_nodes"), number_of(node, "numa_nodes") == 1 ? "" : "s", number_of(node, "cores"),
	       number_of(node, "cpus"));
	json_array_foreach(interfaces, i, row)
	{
		printf("  %-14s %s, ", text_of(row, "name", "?"), text_of(row, "address", "no address"));
		if (number_of(row, "speed_Mbps") > 0)
			printf("%d Mbit/s, ", number_of(row, "speed_Mbps"));
		printf("MTU %d, %s%s%s%s\n", number_of(row, "mtu"), json_is_true(json_object_get(row, "up")) ? "up" : "down",
		       json_is_true(json_object_get(row, "loopback")) ? ", loopback" : "",
		       json_is_true(json_object_get(row, "virtual")) ? ", virtual" : "",
		       json_is_true(json_object_get(row, "chosen")) ? ", chosen for tcp" : "");
	}
	ddl__info_print_rdma(stdout, json_object_get(node, "rdma"));
	json_array_foreach(gpus, i, row)
	{
		printf("  GPU %-10s %s, NUMA node %d\n", text_of(row, "pci", "?"), text_of(row, "model", "?"),
		       number_of(row, "numa"));
	}
	if (json_array_size(gpus) == 0)
		printf("  GPU            none\n");
}

static void print_info(const json_t *info)
{
	const json_t *build = json_object_get(info, "build");
	const char *sanitizers = text_of(build, "sanitizers", NULL);

	printf("DDL for Slurm %s\n  build          %s, %s%s%s, %s PMIx\n", text_of(info, "version", "?"),
	       text_of(build, "type", "?"), text_of(build, "compiler", "?"), sanitizers ? ", sanitizers " : "",
	       sanitizers ? sanitizers : "", json_is_true(json_object_get(build, "pmix")) ? "with" : "without");
	print_rows(info, "transports", "Transports (DDL_TRANSPORTS)");
	print_rows(info, "boots", "Ways to find the other ranks");
	print_rows(info, "kernels", "Kernels");
	print_rows(info, "algorithms", "Algorithms (DDL_ALGO)");
	print_rows(info, "modes", "Modes (--ddl=MODE)");
	print_rows(info, "keys", "Keys (--ddl=MODE,KEY=VALUE)");
	print_rows(info, "orders", "Orders (order=)");
	print_rows(info, "wires", "Wire types (wire=)");
	print_rows(info, "types", "Types");
	print_rows(info, "operations", "Operations");
	print_slurm(json_object_get(info, "slurm"));
	print_node(json_object_get(info, "node"));
	ddl__info_print_ranks(json_object_get(info, "ranks"));
}

int ddl_tool_info(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "alone", no_argument, NULL, 'a' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int json = 0, option, status = DDL__EXIT_GOOD;
	bool alone = false;
	json_t *info;

	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		if (option == 'h') {
			ddl__help_print(stdout, "ddl info [--json] [--alone]",
					"Shows what this installation has and what it sees of this machine.", help);
			return DDL__EXIT_GOOD;
		}
		if (option != 'j' && option != 'a')
			return ddl__usage_getopt(TOOL, option, optind, argv);
		json = json || option == 'j';
		alone = alone || option == 'a';
	}
	if (optind < argc)
		return ddl__usage(TOOL, "'%.60s' is too much; `ddl info` takes no arguments", argv[optind]);
	info = make_info(alone);
	if (!info)
		return ddl__failed(TOOL, "no memory");
	if (!json)
		print_info(info);
	else if (json_dumpf(info, stdout, JSON_INDENT(2)) < 0 || putchar('\n') < 0)
		status = ddl__failed(TOOL, "the output could not be written");
	json_decref(info);
	return status;
}
