/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_options.c - the command line of `ddl perf`, lists of tensors, and the rows that both ask for.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "perf.h"
#include "tools.h"

#define TOOL "perf"

const struct ddl__choice ddl__perf_collectives[] = {
	{ DDL__PERF_ALLREDUCE, "allreduce", "all ranks get the reduction of all ranks' data" },
	{ DDL__PERF_BROADCAST, "broadcast", "all ranks get one rank's data" },
	{ DDL__PERF_BARRIER, "barrier", "no rank goes on before all have come" },
	{ DDL__PERF_REDUCE_SCATTER, "reducescatter", "each rank gets its block of the reduction" },
	{ DDL__PERF_ALLGATHER, "allgather", "all ranks get all ranks' blocks" },
	{ DDL__PERF_REDUCE, "reduce", "one rank gets the reduction" },
	{ DDL__PERF_ALLTOALL, "alltoall", "every rank sends each rank a block of its own" },
	{ DDL__PERF_GATHER, "gather", "one rank gets all ranks' blocks" },
	{ DDL__PERF_SCATTER, "scatter", "each rank gets its block of one rank's data" },
	{ DDL__PERF_SENDRECV, "sendrecv", "each rank sends to the next one and receives from the one before" },
	{ 0, NULL, NULL },
};

bool ddl__perf_reduces(enum ddl__perf_collective collective)
{
	return collective == DDL__PERF_ALLREDUCE || collective == DDL__PERF_REDUCE_SCATTER || collective == DDL__PERF_REDUCE;
}

bool ddl__perf_rooted(enum ddl__perf_collective collective)
{
	return collective == DDL__PERF_BROADCAST || collective == DDL__PERF_REDUCE || collective == DDL__PERF_GATHER ||
	       collective == DDL__PERF_SCATTER;
}

bool ddl__perf_may_share(enum ddl__perf_collective collective)
{
	return collective != DDL__PERF_BROADCAST && collective != DDL__PERF_BARRIER && collective != DDL__PERF_ALLTOALL &&
	       collective != DDL__PERF_SENDRECV;
}

bool ddl__perf_alike(enum ddl__perf_collective collective)
{
	return collective == DDL__PERF_ALLREDUCE || collective == DDL__PERF_BROADCAST || collective == DDL__PERF_ALLGATHER;
}

static const struct ddl__help help[] = {
	{ "--sizes LIST", "bytes: 8,4K,64M or doubling 8-64M (default 8-16M)" },
	{ "--sizes-file FILE", "tensors, \"NAME COUNT\" a line: all at once, last first, and each size alone" },
	{ "--total-only", "with --sizes-file: not each size alone" },
	{ "--type TYPE", "f64, f32 (default), f16, bf16, i64, i32, i8, u8" },
	{ "--op OP", "sum (default), avg, min, max, prod" },
	{ "--wire WIRE", "type in which f32 travels: auto (default: as planned), native, bf16, f16, i8" },
	{ "--rounding HOW", "to a wire that rounds: nearest (default), or stochastic by the seed" },
	{ "--accuracy HOW", "what rounding may take: auto (default: as planned), fast, flat, exact" },
	{ "--reproducible", "all-reduces in the order of ranks, so that bits depend on nothing else" },
	{ "--root RANK", "of broadcast, reduce, gather and scatter (default 0)" },
	{ "--in-place", "input and result within one buffer" },
	{ "--buffers KIND", "malloc (default), or ddl_mem: from ddl_mem_alloc(), which a node's ranks share" },
	{ "--algorithm NAME", "as `ddl info` lists them (default: chosen)" },
	{ "--explore FILE", "measure every all-reduce algorithm at each size and write the times, for DDL_TUNE" },
	{ "--rings N", "rings that share the data, 1 ... 64 (default: as planned)" },
	{ "--transports LIST", "as `ddl info` lists them (default: all usable)" },
	{ "--check", "compare every result with a float64 reference, and bit by bit between ranks" },
	{ "--seed N", "of the inputs (default 1)" },
	{ "--iters N", "timed iterations (default 20)" },
	{ "--warmup N", "iterations before them (default 5)" },
	{ "--json", "one JSON object a line" },
	{ "--csv", "a head line, then one line a row" },
	{ "--progress-line", "a progress line also where the standard error stream is no terminal" },
	{ "--store DIR", "find the other ranks through an empty folder instead of PMIx, with" },
	{ "--rank R, --ranks N", "this process's rank and their number" },
	{ "--help", "this text" },
	{ NULL, NULL },
};

enum {
	SIZES = 256,
	SIZES_FILE,
	TOTAL_ONLY,
	TYPE,
	OP,
	WIRE,
	ROUNDING,
	ACCURACY,
	REPRODUCIBLE,
	ROOT,
	IN_PLACE,
	BUFFERS,
	ALGORITHM,
	EXPLORE,
	RINGS,
	TRANSPORTS,
	CHECK,
	SEED,
	ITERS,
	WARMUP,
	JSON,
	CSV,
	PROGRESS_LINE,
	STORE,
	RANK,
	RANKS,
};

static const struct option long_options[] = {
	{ "sizes", required_argument, NULL, SIZES },
	{ "sizes-file", required_argument, NULL, SIZES_FILE },
	{ "total-only", no_argument, NULL, TOTAL_ONLY },
	{ "type", required_argument, NULL, TYPE },
	{ "op", required_argument, NULL, OP },
	{ "wire", required_argument, NULL, WIRE },
	{ "rounding", required_argument, NULL, ROUNDING },
	{ "accuracy", required_argument, NULL, ACCURACY },
	{ "reproducible", no_argument, NULL, REPRODUCIBLE },
	{ "root", required_argument, NULL, ROOT },
	{ "in-place", no_argument, NULL, IN_PLACE },
	{ "buffers", required_argument, NULL, BUFFERS },
	{ "algorithm", required_argument, NULL, ALGORITHM },
	{ "explore", required_argument, NULL, EXPLORE },
	{ "rings", required_argument, NULL, RINGS },
	{ "transports", required_argument, NULL, TRANSPORTS },
	{ "transport", required_argument, NULL, TRANSPORTS },
	{ "check", no_argument, NULL, CHECK },
	{ "seed", required_argument, NULL, SEED },
	{ "iters", required_argument, NULL, ITERS },
	{ "warmup", required_argument, NULL, WARMUP },
	{ "json", no_argument, NULL, JSON },
	{ "csv", no_argument, NULL, CSV },
	{ "progress-line", no_argument, NULL, PROGRESS_LINE },
	{ "store", required_argument, NULL, STORE },
	{ "rank", required_argument, NULL, RANK },
	{ "ranks", required_argument, NULL, RANKS },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const struct ddl__choice roundings[] = {
	{ DDL_ROUND_NEAREST, "nearest", "to the nearest, ties to even" },
	{ DDL_ROUND_STOCHASTIC, "stochastic", "up or down by chance" },
	{ 0, NULL, NULL },
};

enum { MALLOC = 1, MEM = 2 }; /* kinds of buffers */

static const struct ddl__choice buffers[] = {
	{ MALLOC, "malloc", "memory of the process alone" },
	{ MEM, "ddl_mem", "memory from ddl_mem_alloc()" },
	{ 0, NULL, NULL },
};

struct parse {                             /* what the options name before it can be looked up */
	const char *sizes;                 /* --sizes */
	const char *sizes_file;            /* --sizes-file */
	const char *word;                  /* of the option at hand */
	struct ddl_error err;              /* what is wrong with it */
	struct ddl__perf_options *options; /* result */
};

static int take_number(struct parse *parse, const char *what, int64_t low, int64_t high, int *value)
{
	int64_t number = 0;
	int rc = ddl__number_parse(what, parse->word, low, high, &number, &parse->err);

	if (rc == 0)
		*value = (int)number;
	return rc;
}

static int take_choice(struct parse *parse, const char *what, const struct ddl__choice *table, int *id)
{
	const struct ddl__choice *row = ddl__choice_parse(what, table, parse->word, &parse->err);

	if (!row)
		return -EINVAL;
	*id = row->id;
	return 0;
}

/* Options with a value that is looked up or counted. */
static int take_value(struct parse *parse, int option)
{
	struct ddl__perf_options *o = parse->options;
	int id = 0, rc = 0;
	int64_t seed = 0;

	switch (option) {
	case TYPE:
		rc = take_choice(parse, "type", ddl__types, &id);
		o->type = (enum ddl_type)id;
		break;
	case OP:
		rc = take_choice(parse, "operation", ddl__ops, &id);
		o->op = (enum ddl_op)id;
		break;
	case WIRE:
		rc = take_choice(parse, "wire type", ddl__wires, &id);
		o->wire = (enum ddl_wire)id;
		break;
	case ROUNDING:
		rc = take_choice(parse, "rounding", roundings, &id);
		o->rounding = (enum ddl_rounding)id;
		break;
	case ACCURACY:
		rc = take_choice(parse, "accuracy", ddl__accuracies, &id);
		o->accuracy = (enum ddl_accuracy)id;
		break;
	case BUFFERS:
		rc = take_choice(parse, "kind of buffers", buffers, &id);
		o->mem = id == MEM;
		break;
	case ROOT:
		rc = take_number(parse, "root", 0, INT32_MAX, &o->root);
		break;
	case RINGS:
		rc = take_number(parse, "number of rings", 1, DDL__RINGS_MAX, &o->rings);
		break;
	case SEED:
		rc = ddl__number_parse("seed", parse->word, 0, INT64_MAX, &seed, &parse->err);
		o->seed = (uint64_t)seed;
		break;
	case ITERS:
		rc = take_number(parse, "number of iterations", 1, 1000000, &o->iterations);
		break;
	case WARMUP:
		rc = take_number(parse, "number of warm-up iterations", 0, 1000000, &o->warmup);
		break;
	case RANK:
		rc = take_number(parse, "rank", 0, INT32_MAX, &o->rank);
		break;
	case RANKS:
		rc = take_number(parse, "number of ranks", 1, INT32_MAX, &o->ranks);
		break;
	}
	return rc;
}

static int take_option(struct parse *parse, int option)
{
	struct ddl__perf_options *o = parse->options;

	switch (option) {
	case SIZES:
		parse->sizes = parse->word;
		break;
	case SIZES_FILE:
		parse->sizes_file = parse->word;
		break;
	case TOTAL_ONLY:
		o->total_only = true;
		break;
	case REPRODUCIBLE:
		o->reproducible = true;
		break;
	case IN_PLACE:
		o->in_place = true;
		break;
	case ALGORITHM:
		o->algorithm = parse->word;
		break;
	case EXPLORE:
		o->explore = parse->word;
		break;
	case TRANSPORTS:
		o->transports = parse->word;
		break;
	case CHECK:
		o->check = true;
		break;
	case JSON:
		o->format = DDL__PERF_JSON;
		break;
	case CSV:
		o->format = DDL__PERF_CSV;
		break;
	case PROGRESS_LINE:
		o->progress = true;
		break;
	case STORE:
		o->store = parse->word;
		break;
	default:
		return take_value(parse, option);
	}
	return 0;
}

/* What the options say together. Returns an exit status. */
static int finish(struct parse *parse)
{
	struct ddl__perf_options *o = parse->options;
	const char *sizes = parse->sizes ? parse->sizes : "8-16M";
	int rc;

	if (o->store ? o->rank < 0 || o->ranks < 1 : o->rank >= 0 || o->ranks > 0)
		return ddl__usage(TOOL, "--store, --rank and --ranks go together: give all three or none");
	if (o->store && o->rank >= o->ranks)
		return ddl__usage(TOOL, "rank %d of %d ranks does not exist; ranks are 0 ... %d", o->rank, o->ranks, o->ranks - 1);
	if (o->explore &&
	    (o->collective != DDL__PERF_ALLREDUCE || o->algorithm || parse->sizes_file || o->accuracy || o->reproducible))
		return ddl__usage(TOOL,
				  "--explore goes with allreduce and --sizes, without --algorithm, --accuracy and --reproducible");
	if (o->collective == DDL__PERF_BARRIER)
		return DDL__EXIT_GOOD;
	if (parse->sizes && parse->sizes_file)
		return ddl__usage(TOOL, "give --sizes or --sizes-file, not both");
	if (o->in_place && !ddl__perf_may_share(o->collective))
		return ddl__usage(TOOL, "%s is not measured in place; leave --in-place out",
				  ddl__choice_by_id(ddl__perf_collectives, (int)o->collective)->name);
	if (parse->sizes_file)
		rc = ddl__perf_tensors_read(parse->sizes_file, ddl_type_size(o->type), &o->tensors, &o->n_tensors, &parse->err);
	else
		rc = ddl__sizes_parse(sizes, &o->sizes, &o->n_sizes, &parse->err);
	return rc < 0 ? ddl__usage(TOOL, "%s", parse->err.text) : DDL__EXIT_GOOD;
}

static int parse_options(struct parse *parse, int argc, char **argv, int *status)
{
	int option;

	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		if (option == 'h') {
			ddl__help_print(
				stdout, "ddl perf COLLECTIVE [OPTIONS]",
				"Measures a collective over the ranks of the step; rank 0 prints. Collectives: allreduce, "
				"broadcast,\nbarrier, reducescatter, allgather, reduce, alltoall, gather, scatter, sendrecv.\n"
				"`ddl perf kernels` measures one core instead, see `ddl perf kernels --help`.",
				help);
			*status = DDL__EXIT_GOOD;
			return 0;
		}
		parse->word = optarg;
		if (option == '?' || option == ':')
			*status = ddl__usage_getopt(TOOL, option, optind, argv);
		else if (take_option(parse, option) < 0)
			*status = ddl__usage(TOOL, "%s", parse->err.text);
		else
			continue;
		return 0;
	}
	return 1;
}

int ddl__perf_options_parse(int argc, char **argv, struct ddl__perf_options *options, int *status)
{
	struct parse parse = { .options = options };
	const struct ddl__choice *collective;

	*options = (struct ddl__perf_options){
		.type = DDL_FLOAT32,
		.op = DDL_SUM,
		.iterations = 20,
		.warmup = 5,
		.seed = 1,
		.rank = -1,
		.progress = isatty(2),
	};
	if (!parse_options(&parse, argc, argv, status))
		return 0;
	*status = DDL__EXIT_USAGE;
	if (argc - optind != 1) {
		ddl__usage(TOOL, "name one collective: allreduce, broadcast, barrier, ...; `ddl perf --help` lists them");
		return 0;
	}
	collective = ddl__choice_parse("collective", ddl__perf_collectives, argv[optind], &parse.err);
	if (!collective) {
		ddl__usage(TOOL, "%s", parse.err.text);
		return 0;
	}
	options->collective = (enum ddl__perf_collective)collective->id;
	*status = finish(&parse);
	return *status == DDL__EXIT_GOOD;
}

void ddl__perf_options_free(struct ddl__perf_options *options)
{
	for (size_t i = 0; i < options->n_tensors; i++)
		free(options->tensors[i].name);
	free(options->tensors);
	free(options->sizes);
}

/* "9408" elements, or "37632B" bytes. */
static int parse_count(const char *word, size_t type_size, uint64_t *count, struct ddl_error *err)
{
	const size_t length = strlen(word);
	int rc = ddl__size_parse(word, count, err);

	if (rc < 0 || tolower((unsigned char)word[length - 1]) != 'b')
		return rc;
	if (*count % type_size != 0)
		return ddl__error_set(err, -EINVAL, "%s is no multiple of an element's %zu bytes", word, type_size);
	*count /= type_size;
	return 0;
}

/* One line without its end; *tensor is filled if it names one. Returns 1 if it does, 0 if it is empty. */
static int parse_line(char *line, size_t type_size, struct ddl__perf_tensor *tensor, struct ddl_error *err)
{
	char *rest = NULL, *name, *word;
	int rc;

	line[strcspn(line, "#\r\n")] = '\0';
	name = strtok_r(line, " \t", &rest);
	if (!name)
		return 0;
	word = strtok_r(NULL, " \t", &rest);
	if (!word || strtok_r(NULL, " \t", &rest))
		return ddl__error_set(err, -EINVAL, "a line is \"NAME COUNT\"");
	rc = parse_count(word, type_size, &tensor->count, err);
	if (rc < 0)
		return rc;
	if (tensor->count > (UINT64_C(1) << 48))
		return ddl__error_set(err, -EINVAL, "%s is too large", word);
	tensor->name = strdup(name);
	return tensor->name ? 1 : ddl__error_memory(err);
}

static int read_tensors(FILE *file, size_t type_size, struct ddl__perf_options *list, struct ddl_error *err)
{
	char line[1024];
	int rc = 0;

	for (size_t number = 1; rc >= 0 && fgets(line, sizeof(line), file); number++) {
		struct ddl__perf_tensor tensor, *bigger;
		struct ddl_error cause;

		rc = parse_line(line, type_size, &tensor, &cause);
		if (rc < 0)
			return ddl__error_set(err, rc, "line %zu: %.300s", number, cause.text);
		if (rc == 0)
			continue;
		bigger = reallocarray(list->tensors, list->n_tensors + 1, sizeof(*bigger));
		if (!bigger) {
			free(tensor.name);
			return ddl__error_memory(err);
		}
		list->tensors = bigger;
		list->tensors[list->n_tensors++] = tensor;
		if (list->n_tensors > DDL__SIZES_MAX)
			return ddl__error_set(err, -EINVAL, "there are more than %u tensors", DDL__SIZES_MAX);
	}
	if (ferror(file))
		return ddl__error_set(err, -EIO, "it cannot be read");
	return list->n_tensors ? 0 : ddl__error_set(err, -EINVAL, "there is no tensor in it");
}

int ddl__perf_tensors_read(const char *path, size_t type_size, struct ddl__perf_tensor **tensors, size_t *n, struct ddl_error *err)
{
	struct ddl__perf_options list = { .tensors = NULL };
	struct ddl_error cause;
	FILE *file = fopen(path, "re");
	int rc;

	if (!file)
		return ddl__error_set(err, -errno, "list of tensors '%.200s' cannot be opened (%s)", path, strerror(errno));
	rc = read_tensors(file, type_size, &list, &cause);
	fclose(file);
	if (rc < 0) {
		ddl__perf_options_free(&list);
		return ddl__error_set(err, rc == -EINVAL ? -EBADMSG : rc, "list of tensors '%.200s': %.280s", path, cause.text);
	}
	*tensors = list.tensors;
	*n = list.n_tensors;
	return 0;
}
