/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_explore.c - `ddl perf allreduce --explore FILE`: measures every algorithm at every size, in turns, and writes which is the
 * fastest as a tuning file (DDL_TUNE). Algorithms that the cost model puts far behind are left out, for they would take most of the
 * time.
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

static bool hopeless(const struct ddl__model *model, const struct ddl__algorithm *algorithm, uint64_t bytes)
{
	const struct ddl__algorithm *best = ddl__select_cheapest(DDL__ALLREDUCE, model, (double)bytes);

	return !algorithm->cost || algorithm->cost(model, (double)bytes) > HOPELESS * best->cost(model, (double)bytes);
}

/* One row with every algorithm. The times are the slowest rank's, so all ranks add the same. */
static int explore_row(struct ddl__perf *perf, struct ddl__perf_options *options, const struct ddl__perf_row *row,
		       struct ddl__tuning *tuning, struct ddl_error *err)
{
	struct ddl__model model;

	ddl__model_init(&model, perf->setting.comm->layout);
	for (int round = 0; round < ROUNDS; round++)
		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
			struct ddl__perf_result result;
			int rc;

			if (a->collective != DDL__ALLREDUCE || hopeless(&model, a, row->bytes))
				continue;
			options->algorithm = a->name;
			rc = ddl__perf_measure(perf, row, &result, err);
			options->algorithm = NULL;
			if (rc < 0)
				return rc;
			if (result.correct == 0)
				return ddl__error_set(err, -EBADMSG, "the result of %s is wrong", a->name);
			if (round == ROUNDS - 1 && perf->setting.output)
				ddl__perf_output_row(perf->setting.output, row, &result);
			if (ddl__tuning_add(tuning, result.wire_bytes ? result.wire_bytes : 1, a,
					    (uint64_t)(result.median_us * 1000)) < 0)
				return ddl__error_set(err, -ENOSPC, "a tuning file holds at most %d sizes", DDL__TUNING_MAX);
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
