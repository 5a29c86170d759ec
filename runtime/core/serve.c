/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - see serve.h.
 *
 * The program's threads stay where the user has put them: their masks are his. Who wants them off the service thread's core gives
 * them a core less (see ddl(7), DDL_PROGRESS).
 */
#include "serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cores.h"
#include "error.h"
#include "log.h"
#include "origin.h"

/* Hardware threads are the kernel's, whatever namespace a rank is in: a machine is told apart by its boot alone. */
static bool is_one_machine(const struct ddl__place *a, const struct ddl__place *b)
{
	const size_t length = strcspn(a->machine, "/");

	return strcspn(b->machine, "/") == length && memcmp(a->machine, b->machine, length) == 0;
}

static void fill(struct ddl__serving *serving, const struct ddl__place *place)
{
	ddl__cpus_parse(&serving->may, place->may);
	ddl__cpus_parse(&serving->named, place->serve);
	serving->numa = place->rail_numa;
}

/* Chooses the cores of this rank, as all ranks of the machine do of theirs. */
static int choose(struct ddl_comm *comm, const struct ddl__members *members, uint32_t threads, struct ddl_error *err)
{
	struct ddl__origin *origin = comm->origin;
	struct ddl__serving *ranks = calloc((size_t)comm->size, sizeof(*ranks));
	struct ddl__lie *lie = malloc(sizeof(*lie));
	int rc = ranks && lie ? 0 : -ENOMEM;
	size_t n = 0, me = 0;

	for (int r = 0; rc == 0 && r < comm->size; r++) {
		if (!is_one_machine(&members->places[r], &members->places[comm->rank]))
			continue;
		if (r == comm->rank)
			me = n;
		fill(&ranks[n++], &members->places[r]);
	}
	if (rc == 0) {
		struct ddl__cpus all = { { 0 } };

		for (size_t r = 0; r < n; r++)
			for (size_t i = 0; i < DDL__CPUS_MAX / 64; i++)
				all.bits[i] |= ranks[r].may.bits[i];
		ddl__lie_read("", &all, lie);
		rc = ddl__cores_choose(lie, ranks, n, me, threads, &origin->cores);
	}
	free(lie);
	free(ranks);
	return rc < 0 ? ddl__error_memory(err) : 0;
}

static int start(struct ddl_comm *comm, struct ddl_error *err)
{
	struct ddl__origin *origin = comm->origin;
	struct ddl__cores *cores = &origin->cores;
	struct ddl__cpus cpus = origin->facts.may;
	char text[DDL__CORES_TEXT];
	bool bound;

	if (cores->n) {
		memset(&cpus, 0, sizeof(cpus));
		ddl__cpus_add(&cpus, cores->cpus[origin->turn % cores->n]);
	}
	int rc = ddl__engine_thread_start(comm, &cpus, &bound, err);
	if (rc < 0)
		return rc;
	if (!bound && cores->n) {
		cores->how = DDL__CORES_REFUSED;
		cores->n = 0;
	}
	ddl__log(DDL__LOG_INFO, "rank %d on node %s: service thread: %s", comm->rank, ddl_comm_node_name(comm, comm->rank),
		 ddl__cores_text(cores, text));
	return 0;
}

int ddl__serve_start(struct ddl_comm *comm, const struct ddl__members *members, struct ddl_error *err)
{
	struct ddl__origin *origin = comm->origin;
	const struct ddl__settings *settings = &origin->settings;
	int threads = settings->progress_threads >= 0 ? settings->progress_threads : comm->plan->options.progress, rc = 0;

	if (threads <= 0)
		return 0;
	if (comm->size == 1) {
		origin->cores.how = DDL__CORES_ALONE;
		return 0;
	}
	if (!origin->part && settings->progress_cores && strcmp(settings->progress_cores, "none") == 0)
		origin->cores.how = DDL__CORES_FREE;
	else if (!origin->part)
		rc = choose(comm, members, (uint32_t)threads, err);
	return rc ? rc : start(comm, err);
}
