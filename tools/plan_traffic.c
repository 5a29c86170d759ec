/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_traffic.c - `ddl plan --traffic`: the bytes that an all-reduce moves over each link, each way, counted step by step in the
 * schedules of all ranks. Only what a rank on one node sends to a rank on another crosses links: those of both nodes, and the
 * uplinks of the switches between them. Headers of packets are not counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "error.h"
#include "hostlist.h"
#include "plan_view.h"
#include "reduce.h"
#include "schedule.h"
#include "select.h"
#include "tools.h"

enum { ELEMENT_BYTES = 4 }; /* float32 */

/* Bytes on the wire, scales included. */
static uint64_t sent_by(const struct ddl__steps *lane, const struct ddl__schedule *schedule, const struct ddl__kernels *k)
{
	const uint64_t slice = schedule->slice_elements;
	uint64_t bytes = 0;

	if (lane->native)
		k = ddl__kernels_get(DDL_SUM, DDL_FLOAT32, DDL_WIRE_NATIVE);
	for (uint32_t i = 0; i < lane->n; i++)
		if (ddl__step_sends(lane->steps[i].kind))
			bytes += lane->steps[i].count / slice * ddl__wire_size(k, slice) +
				 ddl__wire_size(k, lane->steps[i].count % slice);
	return bytes;
}

/* Follows bytes from vertex to vertex along the tree. */
static void add_hop(const struct ddl__view *view, size_t from, size_t to, uint64_t bytes, struct ddl__traffic *traffic)
{
	while (from != to) {
		const struct ddl__view_vertex *a = &view->vertices[from], *b = &view->vertices[to];

		if (a->depth >= b->depth) {
			traffic[from].up += bytes;
			from = a->parent;
		} else {
			traffic[to].down += bytes;
			to = b->parent;
		}
	}
}

static int add_rank(const struct ddl__view *view, const struct ddl__candidate *candidate, struct ddl__build *build,
		    const struct ddl__kernels *k, const size_t *places, struct ddl__traffic *traffic)
{
	const size_t *node = view->layout->node_of_rank;
	struct ddl__schedule *schedule;
	int rc = ddl__candidate_build(candidate, build, &schedule);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < schedule->n_lanes; i++) {
		const struct ddl__steps *lane = &schedule->lanes[i];

		if (lane->send_peer >= 0)
			add_hop(view, places[node[build->rank]], places[node[lane->send_peer]], sent_by(lane, schedule, k),
				traffic);
	}
	ddl__schedule_destroy(schedule);
	return 0;
}

int ddl__view_traffic(const struct ddl__view *view, const struct ddl__candidate *candidate, uint64_t bytes,
		      struct ddl__traffic *traffic)
{
	const struct ddl__options *options = &view->plan->options;
	const enum ddl_wire wire = ddl__wire_resolve((enum ddl_wire)options->wire, DDL_FLOAT32);
	const struct ddl__kernels *k = ddl__kernels_get(DDL_SUM, DDL_FLOAT32, wire);
	struct ddl__build build = {
		.layout = view->layout,
		.count = bytes / ELEMENT_BYTES,
		.wire_bytes = k->wire_bytes,
		.wire_block = k->wire_block,
		.rounds = wire != DDL_WIRE_NATIVE,
		.root = -1,
		.rings = options->rings ? options->rings : 1,
	};
	size_t *places = calloc(view->plan->n_nodes, sizeof(*places));
	int rc = places ? 0 : -ENOMEM;

	memset(traffic, 0, view->n_vertices * sizeof(*traffic));
	for (size_t i = 0; rc == 0 && i < view->n_vertices; i++)
		if (view->vertices[i].vertex->n_children == 0)
			places[view->vertices[i].vertex->node] = i;
	for (build.rank = 0; rc == 0 && build.rank < view->layout->n_ranks; build.rank++)
		rc = add_rank(view, candidate, &build, k, places, traffic);
	free(places);
	return rc;
}

/* Switches first, since their uplinks are what is scarce. */
static void print_links(const struct ddl__view *view, const struct ddl__traffic *traffic, bool switches, FILE *out)
{
	for (size_t i = 1; i < view->n_vertices; i++) {
		const struct ddl__view_vertex *v = &view->vertices[i];
		char link[2 * DDL__NAME_MAX + 8];

		if ((v->vertex->n_children > 0) != switches)
			continue;
		snprintf(link, sizeof(link), "%s - %s", v->vertex->name, view->vertices[v->parent].vertex->name);
		fprintf(out, "%-32s  %16llu  %16llu\n", link, (unsigned long long)traffic[i].up,
			(unsigned long long)traffic[i].down);
	}
}

/* What is asked for by name, or by the plan's options; else what the cost model chooses. */
static int choose(const struct ddl__view *view, const char *algorithm, uint64_t bytes, struct ddl__candidate *candidate,
		  struct ddl_error *err)
{
	const struct ddl__options *options = &view->plan->options;
	const char *wanted = algorithm ? algorithm : ddl__select_wanted(options);
	struct ddl__model model;
	int rc;

	if (wanted) {
		rc = ddl__select(DDL__ALLREDUCE, wanted, candidate, err);
		return rc ? rc : ddl__dims_check(candidate->dims, candidate->n_dims, view->layout->n_ranks, err);
	}
	ddl__model_init(&model, view->layout);
	*candidate = ddl__select_cheapest(DDL__ALLREDUCE, &model, (double)bytes);
	return 0;
}

int ddl__view_print_traffic(const struct ddl__view *view, const char *algorithm, const uint64_t *sizes, size_t n, FILE *out,
			    struct ddl_error *err)
{
	struct ddl__traffic *traffic = calloc(view->n_vertices, sizeof(*traffic));
	char size[32], name[DDL__CANDIDATE_TEXT_SIZE];
	int rc = traffic ? 0 : ddl__error_memory(err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct ddl__candidate candidate;

		rc = choose(view, algorithm, sizes[i], &candidate, err);
		if (rc < 0)
			break;
		ddl__candidate_text(&candidate, name);
		rc = ddl__view_traffic(view, &candidate, sizes[i], traffic);
		if (rc == -ENOMEM)
			ddl__error_memory(err);
		else if (rc < 0)
			ddl__error_set(err, rc, "%s cannot be built for %d ranks here: choose another --algorithm", name,
				       view->layout->n_ranks);
		if (rc < 0)
			break;
		fprintf(out, "%sall-reduce of %s as float32 by %s: bytes over each link\n\n%-32s  %16s  %16s\n", i ? "\n" : "",
			ddl__bytes_format(sizes[i], size, sizeof(size)), name, "link", "up", "down");
		print_links(view, traffic, true, out);
		print_links(view, traffic, false, out);
	}
	free(traffic);
	return rc;
}
