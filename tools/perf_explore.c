/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_explore.c - `ddl perf allreduce --explore FILE`: measures every algorithm at every size, in turns, and writes the times as
 * a tuning file (DDL_TUNE); multiring with the most promising dimensions, too. What the cost model puts far behind is left out, for
 * it would take most of the time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "error.h"
#include "perf_inside.h"
#include "tools.h"
#include "tuning.h"

enum { ROUNDS = 2, HOPELESS = 20 };

/* One candidate at one row. The time is the slowest rank's, so all ranks add the same. */
static int explore_one(struct ddl__perf *perf, struct ddl__perf_options *options, const struct ddl__perf_row *row,
		       const struct ddl__candidate *candidate, struct ddl__perf_result *result, struct ddl__tuning *tuning,
		       struct ddl_error *err)
{
	char name[DDL__CANDIDATE_TEXT_SIZE];
	int rc;

	options->algorithm = ddl__candidate_text(candidate, name);
	rc = ddl__perf_measure(perf, row, result, err);
	options->algorithm = NULL;
	if (rc < 0)
		return rc;
	if (result->correct == 0)
		return ddl__error_set(err, -EBADMSG, "the result of %s is wrong", name);
	if (ddl__tuning_add(tuning, result->wire_bytes ? result->wire_bytes : 1, candidate,
			    (uint64_t)(result->median_us * 1000) + 1) < 0)
		return ddl__error_set(err, -ENOSPC, "a tuning file holds at most %d times", DDL__TUNING_MAX);
	return 0;
}

/* One row with every candidate that is not hopeless. */
static int explore_row(struct ddl__perf *perf, struct ddl__perf_options *options, const struct ddl__perf_row *row,
		       struct ddl__tuning *tuning, struct ddl_error *err)
{
	struct ddl__candidate candidates[DDL__CANDIDATES_MAX];
	const double bytes = (double)row->bytes;
	struct ddl__model model;
	size_t n;

	ddl__model_init(&model, perf->setting.comm->layout);
	n = ddl__candidates(DDL__ALLREDUCE, &model, bytes, candidates);
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < n; i++) {
			struct ddl__perf_result result;
			int rc;

			if (ddl__candidate_cost(&candidates[i], &model, bytes) >
			    HOPELESS * ddl__candidate_cost(&candidates[0], &model, bytes))
				break;
			rc = explore_one(perf, options, row, &candidates[i], &result, tuning, err);
			if (rc < 0)
				return rc;
			if (round == ROUNDS - 1 && perf->setting.output)
				ddl__perf_output_row(perf->setting.output, row, &result);
		}
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
		ddl__perf_output_begin(s->output);
	for (size_t i = 0; rc == 0 && i < s->n_rows; i++)
		rc = explore_row(perf, options, &s->rows[i], tuning, err);
	if (rc == 0 && s->output) {
		ddl__perf_output_end(s->output);
		rc = write_file(options->explore, tuning, err);
	}
	free(tuning);
	return rc;
}
