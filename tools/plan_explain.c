/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_explain.c - `ddl plan --explain`: the cost model and the choice, by the functions that the runtime chooses with, and in its
 * order: what is forced (DDL_ALGO, --ddl), what was measured (DDL_TUNE), what the model predicts; of float32, with what is said of
 * its wire, of accuracy and of reproducible results.
 */
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "cost.h"
#include "error.h"
#include "log.h"
#include "plan_view.h"
#include "reduce.h"
#include "select.h"
#include "settings.h"
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
	const char *forced;              /* algorithm; NULL: none */
	const char *by;                  /* who forces it */
	struct ddl__candidate candidate; /* what is forced */
	struct ddl__tuning *tuning;      /* DDL_TUNE's, if it fits; NULL: none */
	struct ddl__said said;           /* of precision */
};

/* DDL_ALGO, else the plan's options. */
static int take_forced(const struct ddl__view *view, struct word *word, struct ddl_error *err)
{
	const char *name = getenv("DDL_ALGO");
	int rc;

	if (name && *name) {
		rc = ddl__select(DDL__ALLREDUCE, name, &word->candidate, err);
		word->forced = name;
		word->by = "DDL_ALGO";
		return rc ? rc : ddl__dims_check(word->candidate.dims, word->candidate.n_dims, view->layout->n_ranks, err);
	}
	word->forced = ddl__select_wanted(&view->plan->options);
	word->by = "--ddl";
	return word->forced ? ddl__select(DDL__ALLREDUCE, word->forced, &word->candidate, err) : 0;
}

/* DDL_ACCURACY, DDL_REPRODUCIBLE and the plan's options. */
static int take_precision(const struct ddl__view *view, struct word *word, struct ddl_error *err)
{
	word->said = (struct ddl__said){ .reproducible = -1, .plan = &view->plan->options };
	return ddl__settings_precision(&word->said.env_accuracy, &word->said.env_reproducible, err);
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

/* Of a choice of wires, what was weighed: "bf16 takes 0.52 of the native time". */
static void print_wires(const struct ddl__pick *pick, const struct ddl__picked *picked, FILE *out)
{
	char other[DDL__CANDIDATE_TEXT_SIZE];
	const size_t way = picked->way, not = 1 - way;

	if (pick->n_ways < 2) {
		if (pick->ways[0].rounds)
			fprintf(out, "; by %s", ddl__wire_name((enum ddl_wire)pick->ways[0].wire));
		return;
	}
	fprintf(out, "; by %s", ddl__wire_name((enum ddl_wire)pick->ways[way].wire));
	if (picked->us[not ] < 0) {
		fprintf(out, ", which nothing else keeps");
		return;
	}
	fprintf(out,
		way ? ", clearly faster than %s by %s: %.1f us, not %.1f"
		    : ", since %s by %s is not clearly faster: %.1f us, not %.1f",
		ddl__candidate_text(&picked->candidate[not ], other), ddl__wire_name((enum ddl_wire)pick->ways[not ].wire),
		picked->us[1], picked->us[0]);
}

static void print_said(const struct word *word, const struct ddl__need *need, FILE *out)
{
	const enum ddl_accuracy accuracy = ddl__said_accuracy(&word->said);

	if (accuracy)
		fprintf(out, "; %s", ddl__choice_by_id(ddl__accuracies, (int)accuracy)->name);
	if (need->in_order)
		fprintf(out, "; in the order of ranks");
}

static void print_choice(const struct word *word, const struct ddl__model *model, uint64_t bytes, FILE *out)
{
	const struct ddl__call call = { .collective = DDL__ALLREDUCE, .type = DDL_FLOAT32, .op = DDL_SUM };
	struct ddl__pick pick = { .model = model, .tuning = word->tuning, .forced = word->forced ? &word->candidate : NULL };
	struct ddl__picked picked = { 0 };
	struct ddl__candidate first;
	struct ddl_error why = { 0 };
	char name[DDL__CANDIDATE_TEXT_SIZE];
	int rc = ddl__choose_ways(&word->said, &call, bytes / sizeof(float), &pick, &why);

	pick.ways[0].bytes = pick.ways[0].rounds ? pick.ways[0].bytes : bytes;
	rc = rc ? rc : ddl__pick(&pick, &picked);
	if (rc < 0 && word->forced && strcmp(word->by, "--ddl") == 0) { /* gives way, as in the library */
		pick.forced = NULL;
		rc = ddl__pick(&pick, &picked);
	}
	if (rc < 0) {
		ddl__choose_refuse(&pick, &why);
		fprintf(out, "  %s\n", why.text);
		return;
	}
	ddl__select(DDL__ALLREDUCE, NULL, &first, NULL);
	const struct ddl__candidate *chosen = &picked.candidate[picked.way];
	const double us = picked.us[picked.way];
	ddl__candidate_text(chosen, name);
	if (pick.forced)
		fprintf(out, "  %s: asked for by %s", word->forced, word->by);
	else if (picked.measured[picked.way])
		fprintf(out, us > 0 ? "  %s: measured (DDL_TUNE), %.1f us" : "  %s: measured (DDL_TUNE)", name, us);
	else
		fprintf(out, "  %s: %s", name,
			ddl__candidate_same(chosen, &first) ? "nothing is clearly faster" : "the least time");
	print_said(word, &pick.need, out);
	print_wires(&pick, &picked, out);
	fprintf(out, "\n");
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

	rc = rc ? rc : take_precision(view, &word, err);
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
