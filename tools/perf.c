/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.c - `ddl perf`: measures and checks collectives over the ranks of the step (or of a file store).
 */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "filestore.h"
#include "perf.h"
#include "tools.h"

#define TOOL "perf"

struct run {                              /* of the command on this rank */
	struct ddl__perf_options options; /* as typed */
	struct ddl__perf_row *rows;       /* to measure */
	struct ddl__perf_tensor *made;    /* tensors made up for --sizes */
	size_t n_rows;
	struct ddl__filestore *filestore; /* NULL: PMIx */
	struct ddl_comm *comm;            /* over all ranks */
	struct ddl__perf_output output;   /* rank 0's */
};

/* This process's rank before there is a communicator. */
static const char *rank_word(const struct ddl__perf_options *o, char *word, size_t size)
{
	const char *rank = getenv("PMIX_RANK");

	if (o->store)
		snprintf(word, size, "%d", o->rank);
	else
		snprintf(word, size, "%.15s", rank ? rank : "0");
	return word;
}

static int open_comm(struct run *run)
{
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	const struct ddl__perf_options *o = &run->options;
	struct ddl_error err;
	char rank[16];

	options.transports = o->transports;
	if (o->algorithm || o->collective != DDL__PERF_ALLREDUCE)
		options.measure = 0; /* there is nothing to choose */
	if (o->store) {
		if (ddl__filestore_open(o->store, o->rank, o->ranks, &run->filestore, &err) < 0)
			return ddl__failed(TOOL, "rank %d: %s", o->rank, err.text);
		options.store = ddl__filestore_store(run->filestore);
	}
	if (ddl_comm_create(&options, &run->comm, &err) < 0)
		return ddl__failed(TOOL, "rank %s: %s", rank_word(o, rank, sizeof(rank)), err.text);
	if (o->collective == DDL__PERF_SENDRECV && ddl_comm_size(run->comm) < 2)
		return ddl__failed(TOOL, "sendrecv needs at least two ranks; start it with srun -n2 or ddl run -n 2");
	if (ddl__perf_rooted(o->collective) && o->root >= ddl_comm_size(run->comm)) {
		if (ddl_comm_rank(run->comm) == 0)
			ddl__failed(TOOL, "root %d does not exist: there are %d ranks", o->root, ddl_comm_size(run->comm));
		return DDL__EXIT_USAGE;
	}
	return DDL__EXIT_GOOD;
}

/* Says what went wrong on this rank, and to the others, who would wait for it. */
static int failed(const struct run *run, const struct ddl_error *err)
{
	const int rank = ddl_comm_rank(run->comm);
	const char *node = ddl_comm_node_name(run->comm, rank);

	ddl_comm_abort(run->comm, err->text);
	return ddl__failed(TOOL, "rank %d (%s): %s", rank, node ? node : "unknown node", err->text);
}

static int measure_rows(struct run *run, struct ddl__perf *perf)
{
	const bool prints = ddl_comm_rank(run->comm) == 0;
	int status = DDL__EXIT_GOOD;

	if (prints)
		ddl__perf_output_begin(&run->output);
	for (size_t i = 0; i < run->n_rows; i++) {
		struct ddl__perf_result result = { 0 };
		struct ddl_error err;

		if (ddl__perf_measure(perf, &run->rows[i], &result, &err) < 0) {
			if (prints)
				ddl__perf_output_break(&run->output);
			return failed(run, &err);
		}
		if (result.correct == 0)
			status = DDL__EXIT_FAILED;
		if (prints)
			ddl__perf_output_row(&run->output, &run->rows[i], &result);
	}
	if (prints)
		ddl__perf_output_end(&run->output);
	return status;
}

static int measure(struct run *run)
{
	const bool prints = ddl_comm_rank(run->comm) == 0;
	const struct ddl__perf_setting setting = {
		.options = &run->options,
		.comm = run->comm,
		.rows = run->rows,
		.n_rows = run->n_rows,
		.output = prints ? &run->output : NULL,
	};
	struct ddl__perf *perf = NULL;
	struct ddl_error err;
	int status;

	run->output = (struct ddl__perf_output){
		.options = &run->options,
		.n_ranks = ddl_comm_size(run->comm),
		.n_nodes = run->comm->plan->n_nodes,
		.work = ddl__perf_work(&run->options, run->rows, run->n_rows),
	};
	if (ddl__perf_create(&setting, &perf, &err) < 0)
		return failed(run, &err);
	if (!run->options.explore)
		status = measure_rows(run, perf);
	else
		status = ddl__perf_explore(perf, &run->options, &err) < 0 ? failed(run, &err) : DDL__EXIT_GOOD;
	ddl__perf_destroy(perf);
	return status;
}

int ddl_tool_perf(int argc, char **argv)
{
	struct run run = { .comm = NULL };
	struct ddl_error err;
	int status;

	if (argc > 1 && strcmp(argv[1], "kernels") == 0)
		return ddl__perf_kernels(argc - 1, argv + 1);
	if (!ddl__perf_options_parse(argc, argv, &run.options, &status))
		goto free_options;
	if (ddl__perf_rows(&run.options, &run.rows, &run.n_rows, &run.made, &err) < 0) {
		status = ddl__usage(TOOL, "%s", err.text);
		goto free_options;
	}
	status = open_comm(&run);
	if (status == DDL__EXIT_GOOD)
		status = measure(&run);
	ddl_comm_destroy(run.comm);
	ddl__filestore_close(run.filestore);
	free(run.rows);
	free(run.made);
free_options:
	ddl__perf_options_free(&run.options);
	return status;
}
