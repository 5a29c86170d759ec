/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info_ranks.c - which core serves which rank: found out by making the communicator that a program of this step would make.
 *
 * Only where service threads are wanted, and where there is a PMIx server: a program that was started alone has no ranks to ask.
 * All of them must take part, so the deadline is short; rank 0 is told of all, the others of themselves.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "boot.h"
#include "cores.h"
#include "engine.h"
#include "error.h"
#include "info.h"
#include "origin.h"
#include "plan.h"
#include "settings.h"

enum { JOIN_MS = 10000 };

struct told {                          /* by each rank */
	char node[64];                 /* name, perhaps cut */
	char usable[128];              /* hardware threads, as a list; "" where it does not fit */
	char service[DDL__CORES_TEXT]; /* what serves it, or why nothing does */
	int32_t n;                     /* hardware threads that do */
	int32_t cpus[DDL__PROGRESS_MAX];
};

static void fill(const struct ddl_comm *comm, struct told *told)
{
	const struct ddl__cores *cores = &comm->origin->cores;

	memset(told, 0, sizeof(*told));
	snprintf(told->node, sizeof(told->node), "%s", ddl_comm_node_name(comm, comm->rank));
	ddl__cpus_text(&comm->origin->facts.may, told->usable, sizeof(told->usable));
	ddl__cores_text(cores, told->service);
	told->n = (int32_t)cores->n;
	for (uint32_t i = 0; i < cores->n; i++)
		told->cpus[i] = (int32_t)cores->cpus[i];
}

static json_t *make_row(int rank, const struct told *told)
{
	json_t *cpus = json_array();

	for (int32_t i = 0; i < told->n && i < DDL__PROGRESS_MAX; i++)
		json_array_append_new(cpus, json_integer(told->cpus[i]));
	return json_pack("{si ss ss ss so}", "rank", rank, "node", told->node, "usable", told->usable, "service", told->service,
			 "cpus", cpus);
}

/* Rows of what the ranks told: of all on rank 0, of itself on the others. */
static int gather(struct ddl_comm *comm, json_t *rows, struct ddl_error *err)
{
	const int size = ddl_comm_size(comm), rank = ddl_comm_rank(comm);
	struct told mine, *all = calloc((size_t)size, sizeof(*all));
	int rc;

	if (!all)
		return ddl__error_memory(err);
	fill(comm, &mine);
	rc = ddl_gather(&mine, all, sizeof(mine), DDL_UINT8, 0, comm);
	if (rc < 0)
		ddl_comm_get_error(comm, err);
	for (int r = 0; rc == 0 && r < size; r++)
		if (rank == 0 || r == rank)
			json_array_append_new(rows, make_row(r, rank == 0 ? &all[r] : &mine));
	free(all);
	return rc;
}

/* Whether the environment asks for service threads, by itself or in the plan. */
static bool is_wanted(void)
{
	struct ddl__settings settings;
	struct ddl__plan *plan;
	int threads;

	if (ddl__settings_read(NULL, &settings, NULL) < 0)
		return true; /* what is wrong is said when the communicator is made */
	threads = settings.progress_threads >= 0 ? settings.progress_threads : settings.options.progress;
	if (settings.progress_threads < 0 && settings.plan &&
	    ddl__plan_decode(settings.plan, strlen(settings.plan), &plan, NULL) == 0) {
		threads = plan->options.progress;
		ddl__plan_destroy(plan);
	}
	return threads > 0;
}

json_t *ddl__info_ranks(bool alone)
{
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct ddl_error err = { 0 };
	struct ddl_comm *comm = NULL;
	json_t *ranks = json_object(), *rows = json_array();
	char why[256] = "";
	int rc;

	json_object_set_new(ranks, "rows", rows);
	if (!is_wanted()) {
		json_object_set_new(ranks, "why", json_string("none: ddl_test and ddl_wait make progress"));
		return ranks;
	}
	if (alone || ddl__boot_pmix.probe(&options, why, sizeof(why)) != 1) {
		json_object_set_new(ranks, "why",
				    json_string(alone ? "not asked, as --alone says"
						      : "this process is no rank: srun --mpi=pmix ddl info asks those of a step"));
		return ranks;
	}
	options.timeout_ms = JOIN_MS;
	options.measure = 0;
	rc = ddl_comm_create(&options, &comm, &err);
	if (rc == 0)
		rc = gather(comm, rows, &err);
	ddl_comm_destroy(comm);
	if (rc < 0)
		json_object_set_new(ranks, "why", json_string(err.text));
	return ranks;
}

void ddl__info_print_ranks(const json_t *ranks)
{
	const json_t *why = json_object_get(ranks, "why"), *row;
	size_t i;

	printf("\nService threads (DDL_PROGRESS, progress=)\n");
	if (why)
		printf("  %s\n", json_string_value(why));
	json_array_foreach(json_object_get(ranks, "rows"), i, row)
	{
		const char *usable = json_string_value(json_object_get(row, "usable"));

		printf("  rank %-9lld %s, hardware threads %s: %s\n", (long long)json_integer_value(json_object_get(row, "rank")),
		       json_string_value(json_object_get(row, "node")), *usable ? usable : "not told",
		       json_string_value(json_object_get(row, "service")));
	}
}
