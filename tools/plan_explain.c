/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_explain.c - `ddl plan --explain`: the cost model and the choice, by the functions that the runtime chooses with.
 */
#include <string.h>

#include "cost.h"
#include "plan_view.h"
#include "select.h"
#include "tools.h"

static const char *const from[] = {
	[DDL__FROM_DEFAULT] = "default",
	[DDL__FROM_LINKS] = "links",
	[DDL__FROM_PLAN] = "plan",
};

static void print_model(const struct ddl__model *model, FILE *out)
{
	fprintf(out, "%u ranks. What the model counts with, by the level at which two ranks meet:\n\n", model->n_ranks);
	fprintf(out, "%-22s %6s %11s %10s %-8s %12s %s\n", "level", "ranks", "latency us", "link GB/s", "from", "uplink GB/s",
		"from");
	for (uint32_t l = 0; l < model->n_levels; l++) {
		const struct ddl__level *level = &model->level[l];
		char name[32], uplink[16] = "-";

		snprintf(name, sizeof(name), l == 0 ? "0 in a node" : l == 1 ? "1 at a switch" : "%u at switches above", l);
		if (level->uplink_GBps > 0)
			snprintf(uplink, sizeof(uplink), "%.3f", level->uplink_GBps);
		fprintf(out, "%-22s %6u %11.1f %10.3f %-8s %12s %-8s%s\n", name, level->ranks, level->latency_us,
			level->bandwidth_GBps, from[level->bandwidth_from], uplink,
			level->uplink_GBps > 0 ? from[level->uplink_from] : "", level->uneven ? " groups of different size" : "");
	}
	fputs("\nfrom links: what the ranks or --link-speed tell; plan: uplink=, or LinkSpeed in topology.conf; default: nobody "
	      "knows,\n"
	      "as of latencies; uplinks then count as narrow as a node's link. What was measured wins over predictions.\n",
	      out);
}

static void print_row(const struct ddl__view *view, const struct ddl__model *model, uint64_t bytes, FILE *out)
{
	const char *wanted = ddl__select_wanted(&view->plan->options), *why = "the least time";
	const struct ddl__candidate chosen = ddl__select_cheapest(DDL__ALLREDUCE, model, (double)bytes);
	struct ddl__candidate candidates[DDL__CANDIDATES_MAX], first;
	const size_t n = ddl__candidates(DDL__ALLREDUCE, model, (double)bytes, candidates);
	char size[32], name[DDL__CANDIDATE_TEXT_SIZE], split[DDL__CANDIDATE_TEXT_SIZE] = "-";

	ddl__select(DDL__ALLREDUCE, NULL, &first, NULL);
	fprintf(out, "%10s", ddl__bytes_format(bytes, size, sizeof(size)));
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		if (a->collective == DDL__ALLREDUCE && a->cost)
			fprintf(out, " %11.1f", a->cost(model, (double)bytes));
	for (size_t i = n; i-- > 0;)
		if (candidates[i].n_dims)
			snprintf(split, sizeof(split), "%.1f %s", ddl__candidate_cost(&candidates[i], model, (double)bytes),
				 strchr(ddl__candidate_text(&candidates[i], name), ':') + 1);
	if (model->n_dims == 0)
		fprintf(out, " %20s", split);
	if (wanted)
		why = "asked for by --ddl";
	else if (ddl__candidate_same(&chosen, &first))
		why = "nothing is clearly faster";
	fprintf(out, "  %s: %s\n", wanted ? wanted : ddl__candidate_text(&chosen, name), why);
}

void ddl__view_explain(const struct ddl__view *view, const uint64_t *sizes, size_t n, FILE *out)
{
	struct ddl__model model;

	ddl__model_init(&model, view->layout);
	print_model(&model, out);
	fprintf(out, "\nPredicted time of an all-reduce in us:\n\n%10s", "size");
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		if (a->collective == DDL__ALLREDUCE && a->cost)
			fprintf(out, " %11s", a->name);
	if (model.n_dims == 0)
		fprintf(out, " %20s", "multiring:DIMS");
	fprintf(out, "  chosen\n");
	for (size_t i = 0; i < n; i++)
		print_row(view, &model, sizes[i], out);
}
