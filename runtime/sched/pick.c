/* SPDX-License-Identifier: Apache-2.0 */
/* pick.c - see pick.h. */
#include "pick.h"

#include <errno.h>

#define WINS 0.9 /* predictions are rough: what loses bits must be so much faster than what does not */

/* The fastest of the measured ones that keep what is needed; -ENOENT: none was measured. */
static int fastest(const struct ddl__pick *pick, const struct ddl__need *need, uint64_t bytes, struct ddl__candidate *candidate)
{
	const struct ddl__tuning *tuning = pick->tuning;
	double least = 0;
	for (size_t i = 0; tuning && i < tuning->n; i++) {
		const struct ddl__candidate *c = &tuning->at[i].candidate;
		double ns = ddl__algorithm_keeps(c->algorithm, need, pick->model->n_ranks) ? ddl__tuning_time(tuning, c, bytes) : 0;
		if (ns > 0 && (least == 0 || ns < least)) {
			least = ns;
			*candidate = *c;
		}
	}
	return least > 0 ? 0 : -ENOENT;
}

/*
 * What is measured, unless something that is not keeps what is needed much more cheaply, by predictions of both. Where even the
 * ring keeps it nothing is asked for, and all that competes was measured.
 */
static int pick_measured(const struct ddl__pick *pick, const struct ddl__need *need, const struct ddl__model *model, uint64_t bytes,
			 struct ddl__candidate *candidate)
{
	struct ddl__candidate predicted;
	const bool open = ddl__algorithm_keeps(ddl__algorithms, need, model->n_ranks); /* its first row is the ring */
	int rc = open ? pick->tuning ? ddl__tuning_find(pick->tuning, bytes, candidate) : -ENOENT
		      : fastest(pick, need, bytes, candidate);
	if (rc < 0 || open)
		return rc;
	if (ddl__select_keeping(pick->collective, model, (double)bytes, need, &predicted) == 0 &&
	    ddl__candidate_cost(&predicted, model, (double)bytes) < WINS * ddl__candidate_cost(candidate, model, (double)bytes) &&
	    ddl__tuning_time(pick->tuning, &predicted, bytes) == 0)
		return -ENOENT;
	return 0;
}

/* The model of a way. */
static struct ddl__model model_of(const struct ddl__pick *pick, const struct ddl__way *way)
{
	struct ddl__model model = ddl__model_on_wire(pick->model, way->widen, way->work);
	model.collects = model.n_ranks > 2 && (pick->need.in_order || pick->need.narrow);
	return model;
}

static void pick_on(const struct ddl__pick *pick, size_t i, struct ddl__picked *picked)
{
	const struct ddl__way *way = &pick->ways[i];
	const struct ddl__model model = model_of(pick, way);
	struct ddl__need need = pick->need;
	struct ddl__candidate *candidate = &picked->candidate[i];
	need.rounds = way->rounds;
	if (pick->forced) {
		*candidate = *pick->forced;
		const bool keeps = ddl__algorithm_keeps(candidate->algorithm, &need, model.n_ranks);
		picked->us[i] = keeps ? ddl__candidate_cost(candidate, &model, (double)way->bytes) : -1;
		return;
	}
	if (pick->collective == DDL__ALLREDUCE && pick_measured(pick, &need, &model, way->bytes, candidate) == 0) {
		picked->us[i] = ddl__tuning_time(pick->tuning, candidate, way->bytes) / 1000;
		picked->measured[i] = true;
		return;
	}
	picked->us[i] = -1;
	if (ddl__select_keeping(pick->collective, &model, (double)way->bytes, &need, candidate) == 0)
		picked->us[i] = ddl__candidate_cost(candidate, &model, (double)way->bytes);
}

/* Time of a way by the model, whatever was measured. */
static double predicted_us(const struct ddl__pick *pick, const struct ddl__picked *picked, size_t i)
{
	const struct ddl__model model = model_of(pick, &pick->ways[i]);
	return ddl__candidate_cost(&picked->candidate[i], &model, (double)pick->ways[i].bytes);
}

int ddl__pick(const struct ddl__pick *pick, struct ddl__picked *picked)
{
	*picked = (struct ddl__picked){ 0 };
	for (size_t i = 0; i < pick->n_ways; i++)
		pick_on(pick, i, picked);
	for (size_t i = 1; i < pick->n_ways; i++) {
		if (picked->us[i] < 0 || picked->us[0] < 0) {
			picked->way = picked->us[i] < 0 ? picked->way : i;
			continue;
		}
		const bool times = picked->us[0] > 0 && picked->us[i] > 0 && picked->measured[0] == picked->measured[i];
		const double before = times ? picked->us[0] : predicted_us(pick, picked, 0);
		const double now = times ? picked->us[i] : predicted_us(pick, picked, i);
		if (now < WINS * before)
			picked->way = i;
	}
	return picked->us[picked->way] < 0 ? -ENOENT : 0;
}
