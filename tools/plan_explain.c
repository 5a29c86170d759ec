/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_explain.c - `ddl plan --explain`: the cost model and the choice, by the functions that the runtime chooses with, and in its
 * order: what is forced (DDL_ALGO, --ddl), what was measured (DDL_TUNE), what the model predicts.
 */
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "error.h"
#include "log.h"
#include "plan_view.h"
#include "select.h"
#include "tools.h"
#include "tuning.h"

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
		fprintf(out, "%-22s %6u %11.1f %10.3f %-8s %12s", name, level->ranks, level->latency_us, level->bandwidth_GBps,
			from[level->bandwidth_from], uplink);
		if (level->uplink_GBps > 0)
			fprintf(out, " %s", from[level->uplink_from]);
		fprintf(out, "%s\n", level->uneven ? "  groups of different size" : "");
	}
	fputs("\nfrom links: what the ranks or --link-speed tell; plan: uplink=, or LinkSpeed in topology.conf; default: nobody "
	      "knows,\n"
	      "as of latencies; uplinks then count as narrow as a node's link. What was measured wins over predictions.\n",
	      out);
}

/* What decides before the model does, in the order in which it counts. */
struct word {
	const char *forced;         /* algorithm; NULL: none */
	const char *by;             /* who forces it */
	struct ddl__tuning *tuning; /* DDL_TUNE's, if it fits; NULL: none */
};

/* DDL_ALGO, else the plan's options. */
static int take_forced(const struct ddl__view *view, struct word *word, struct ddl_error *err)
{
	const char *name = getenv("DDL_ALGO");
	struct ddl__candidate candidate;
	int rc;

	if (name && *name) {
		rc = ddl__select(DDL__ALLREDUCE, name, &candidate, err);
		word->forced = name;
		word->by = "DDL_ALGO";
		return rc ? rc : ddl__dims_check(candidate.dims, candidate.n_dims, view->layout->n_ranks, err);
	}
	word->forced = ddl__select_wanted(&view->plan->options);
	word->by = "--ddl";
	return 0;
}

/* What is wrong with the file costs the tuning only, as in the library. */
static int take_tuning(const struct ddl__model *model, struct word *word, struct ddl_error *err)
{
	const char *path = getenv("DDL_TUNE");
	struct ddl__tuning *tuning = calloc(1, sizeof(*tuning));
	char *text = malloc(DDL__TUNING_TEXT_MAX);
	char shape[128];
	struct ddl_error why;

	if (tuning && text && path && *path) {
		if (ddl__tuning_read(path, text, tuning, &why) < 0)
			ddl__log(DDL__LOG_WARNING, "the tuning file %s (DDL_TUNE) is left out: %s", path, why.text);
		else if (!ddl__tuning_fits(tuning, model))
			ddl__log(DDL__LOG_WARNING, "the tuning file %s (DDL_TUNE) is left out: it was %s", path,
				 ddl__tuning_misfit(tuning, model, shape, sizeof(shape)));
		else
			word->tuning = tuning;
	}
	if (word->tuning != tuning)
		free(tuning);
	free(text);
	return tuning && text ? 0 : ddl__error_memory(err);
}

static void print_choice(const struct word *word, const struct ddl__model *model, uint64_t bytes, FILE *out)
{
	struct ddl__candidate chosen, first;
	char name[DDL__CANDIDATE_TEXT_SIZE];

	ddl__select(DDL__ALLREDUCE, NULL, &first, NULL);
	if (word->forced) {
		fprintf(out, "  %s: asked for by %s\n", word->forced, word->by);
		return;
	}
	if (word->tuning && ddl__tuning_find(word->tuning, bytes, &chosen) == 0) {
		const double ns = ddl__tuning_time(word->tuning, &chosen, bytes);

		fprintf(out, "  %s: measured (DDL_TUNE)", ddl__candidate_text(&chosen, name));
		if (ns > 0)
			fprintf(out, ", %.1f us", ns / 1000);
		fprintf(out, "\n");
		return;
	}
	chosen = ddl__select_cheapest(DDL__ALLREDUCE, model, (double)bytes);
	fprintf(out, "  %s: %s\n", ddl__candidate_text(&chosen, name),
		ddl__candidate_same(&chosen, &first) ? "nothing is clearly faster" : "the least time");
}

static void print_row(const struct word *word, const struct ddl__model *model, uint64_t bytes, FILE *out)
{
	struct ddl__candidate candidates[DDL__CANDIDATES_MAX];
	const size_t n = ddl__candidates(DDL__ALLREDUCE, model, (double)bytes, &(const struct ddl__need){ 0 }, candidates);
	char size[32], name[DDL__CANDIDATE_TEXT_SIZE], split[DDL__CANDIDATE_TEXT_SIZE] = "-";

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
	print_choice(word, model, bytes, out);
}

int ddl__view_explain(const struct ddl__view *view, const uint64_t *sizes, size_t n, FILE *out, struct ddl_error *err)
{
	struct word word = { .forced = NULL };
	struct ddl__model model;
	int rc = take_forced(view, &word, err);

	ddl__model_init(&model, view->layout);
	rc = rc ? rc : take_tuning(&model, &word, err);
	if (rc < 0)
		return rc;
	print_model(&model, out);
	fprintf(out, "\nPredicted time of an all-reduce in us:\n\n%10s", "size");
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		if (a->collective == DDL__ALLREDUCE && a->cost)
			fprintf(out, " %11s", a->name);
	if (model.n_dims == 0)
		fprintf(out, " %20s", "multiring:DIMS");
	fprintf(out, "  chosen\n");
	for (size_t i = 0; i < n; i++)
		print_row(&word, &model, sizes[i], out);
	free(word.tuning);
	return 0;
}
