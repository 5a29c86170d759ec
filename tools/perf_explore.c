/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_explore.c - `ddl perf allreduce --explore FILE`: measures every algorithm at every size, in turns, and writes the times as
 * a tuning file (DDL_TUNE); multiring with the most promising dimensions, too. What the cost model puts far behind is left out, for
 * it would take most of the time. What the communicator chooses by itself is marked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "error.h"
#include "perf_inside.h"
#include "tools.h"
#include "tuning.h"

enum { ROUNDS = 3, HOPELESS = 20 };

struct contest { /* the candidates of one row */
	size_t n;
	char names[DDL__CANDIDATES_MAX + 1][DDL__CANDIDATE_TEXT_SIZE];
	struct ddl__perf_result results[DDL__CANDIDATES_MAX + 1]; /* of the round with the shortest median */
};

/* Whom to measure: what is not hopeless by the model, and what the communicator itself would choose. */
static int invite(struct ddl__perf *perf, const struct ddl__perf_row *row, struct contest *contest, struct ddl_error *err)
{
	struct ddl__candidate candidates[DDL__CANDIDATES_MAX];
	const double bytes = (double)row->bytes;
	char chosen[DDL__CANDIDATE_TEXT_SIZE];
	struct ddl__model model;
	size_t n, i = 0;
	int rc = ddl__perf_algorithm(perf, row, chosen, err);

	if (rc < 0)
		return rc;
	ddl__model_init(&model, perf->setting.comm->layout);
	n = ddl__candidates(DDL__ALLREDUCE, &model, bytes, &(const struct ddl__need){ 0 }, candidates);
	*contest = (struct contest){ .n = 0 };
	for (; i < n &&
	       ddl__candidate_cost(&candidates[i], &model, bytes) <= HOPELESS * ddl__candidate_cost(&candidates[0], &model, bytes);
	     i++)
		ddl__candidate_text(&candidates[i], contest->names[contest->n++]);
	for (i = 0; i < contest->n && strcmp(contest->names[i], chosen) != 0; i++)
		;
	if (i == contest->n)
		strcpy(contest->names[contest->n++], chosen);
	contest->results[i].chosen = true;
	return 0;
}

/* One candidate once. The time is the slowest rank's, so all ranks keep the same. */
static int explore_one(struct ddl__perf *perf, struct ddl__perf_options *options, const struct ddl__perf_row *row,
		       struct contest *contest, size_t i, struct ddl_error *err)
{
	struct ddl__perf_result result = { .chosen = contest->results[i].chosen };
	int rc;

	options->algorithm = contest->names[i];
	rc = ddl__perf_measure(perf, row, &result, err);
	options->algorithm = NULL;
	if (rc < 0)
		return rc;
	if (result.correct == 0)
		return ddl__error_set(err, -EBADMSG, "the result of %s is wrong", contest->names[i]);
	if (contest->results[i].starts == 0 || result.median_us < contest->results[i].median_us)
		contest->results[i] = result;
	return 0;
}

static int report(struct ddl__perf *perf, const struct ddl__perf_row *row, struct contest *contest, struct ddl__tuning *tuning,
		  struct ddl_error *err)
{
	double best = contest->results[0].median_us;

	for (size_t i = 1; i < contest->n; i++)
		best = contest->results[i].median_us < best ? contest->results[i].median_us : best;
	for (size_t i = 0; i < contest->n; i++) {
		struct ddl__perf_result *result = &contest->results[i];
		struct ddl__candidate candidate;

		result->of_best = best > 0 ? result->median_us / best : 1;
		if (perf->setting.output)
			ddl__perf_output_row(perf->setting.output, row, result);
		if (ddl__select(DDL__ALLREDUCE, contest->names[i], &candidate, err) < 0)
			return -EINVAL;
		if (ddl__tuning_add(tuning, result->wire_bytes ? result->wire_bytes : 1, &candidate,
				    (uint64_t)(result->median_us * 1000) + 1) < 0)
			return ddl__error_set(err, -ENOSPC, "a tuning file holds at most %d times: ask for fewer sizes",
					      DDL__TUNING_MAX);
	}
	return 0;
}

static int explore_row(struct ddl__perf *perf, struct ddl__perf_options *options, const struct ddl__perf_row *row,
		       struct ddl__tuning *tuning, struct ddl_error *err)
{
	struct contest *contest = calloc(1, sizeof(*contest));
	int rc = contest ? invite(perf, row, contest, err) : ddl__error_memory(err);

	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; rc == 0 && i < contest->n; i++)
			rc = explore_one(perf, options, row, contest, i, err);
	if (rc == 0)
		rc = report(perf, row, contest, tuning, err);
	free(contest);
	return rc;
}

/* Before all the work: whether the file can be written. What is there stays until then. */
static int try_file(const char *path, struct ddl_error *err)
{
	FILE *out = fopen(path, "ae");

	if (!out)
		return ddl__error_set(err, -errno, "the tuning file '%.200s' cannot be written (%s)", path, strerror(errno));
	fclose(out);
	return 0;
}

static int write_file(const char *path, const struct ddl__tuning *tuning, struct ddl_error *err)
{
	FILE *out = fopen(path, "we");
	int failed;

	if (!out)
		return ddl__error_set(err, -errno, "the tuning file '%.200s' cannot be written (%s)", path, strerror(errno));
	ddl__tuning_print(tuning, out);
	failed = ferror(out);
	if (fclose(out) != 0 || failed)
		return ddl__error_set(err, -EIO, "the tuning file '%.200s' is not whole: is the disk full?", path);
	return 0;
}

int ddl__perf_explore(struct ddl__perf *perf, struct ddl__perf_options *options, struct ddl_error *err)
{
	const struct ddl__perf_setting *s = &perf->setting;
	struct ddl__tuning *tuning = calloc(1, sizeof(*tuning));
	struct ddl__model model;
	int rc = tuning ? 0 : ddl__error_memory(err);

	ddl__model_init(&model, s->comm->layout);
	if (rc == 0)
		ddl__tuning_init(tuning, &model);
	if (rc == 0 && s->output)
		rc = try_file(options->explore, err);
	if (rc == 0 && s->output)
		ddl__perf_output_begin(s->output);
	for (size_t i = 0; rc == 0 && i < s->n_rows; i++)
		rc = explore_row(perf, options, &s->rows[i], tuning, err);
	if (rc == 0 && s->output) {
		ddl__perf_output_end(s->output);
		rc = write_file(options->explore, tuning, err);
		if (rc == 0 && options->format == DDL__PERF_TABLE)
			printf("\nThe times are in %s; jobs of this shape choose by them with DDL_TUNE=%s.\n", options->explore,
			       options->explore);
	}
	free(tuning);
	return rc;
}
