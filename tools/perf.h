/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.h - what the files of `ddl perf` share.
 *
 * A row of the output is a set of tensors of one collective: one tensor of a size asked for, or all tensors of a list at once. Per
 * row each tensor gets one persistent request; an iteration starts all of them, last tensor first as back-propagation does, and
 * waits for all. The time of an iteration is that of the slowest rank.
 */
#ifndef DDL_TOOLS_PERF_H
#define DDL_TOOLS_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <ddl/ddl.h>

#include "options.h"
#include "select.h"

enum ddl__perf_collective {
	DDL__PERF_ALLREDUCE = 1,      /* all-reduce */
	DDL__PERF_BROADCAST = 2,      /* broadcast */
	DDL__PERF_BARRIER = 3,        /* barrier */
	DDL__PERF_REDUCE_SCATTER = 4, /* reduce-scatter; sizes are those of all blocks together, here and below */
	DDL__PERF_ALLGATHER = 5,      /* all-gather */
	DDL__PERF_REDUCE = 6,         /* reduce */
	DDL__PERF_ALLTOALL = 7,       /* all-to-all; sizes are those of what a rank sends */
	DDL__PERF_GATHER = 8,         /* gather */
	DDL__PERF_SCATTER = 9,        /* scatter */
	DDL__PERF_SENDRECV = 10,      /* each rank sends to the next and receives from the one before */
};

enum ddl__perf_format {
	DDL__PERF_TABLE = 0, /* for people */
	DDL__PERF_JSON = 1,  /* one object a line */
	DDL__PERF_CSV = 2,   /* a head line, then one line a row */
};

struct ddl__perf_tensor {
	char *name;     /* as the list calls it; NULL: none */
	uint64_t count; /* elements */
};

struct ddl__perf_options {
	enum ddl__perf_collective collective; /* what is measured */
	enum ddl_type type;                   /* of the elements */
	enum ddl_op op;                       /* of collectives that reduce */
	enum ddl_wire wire;                   /* type in which elements travel */
	enum ddl_rounding rounding;           /* to the wire; chance by seed */
	enum ddl_accuracy accuracy;           /* of reductions */
	bool reproducible;                    /* in a fixed order; else as planned */
	enum ddl__perf_format format;         /* of the output */
	bool check;                           /* results are compared with a reference */
	bool in_place;                        /* input and result share memory */
	bool mem;                             /* buffers from ddl_mem_alloc(); else from malloc() */
	bool progress;                        /* progress line */
	bool total_only;                      /* with tensors: only the row of all of them */
	int root;                             /* of collectives that have one */
	int rings;                            /* 0: as planned */
	int iterations;                       /* timed ones, at least 1 */
	int warmup;                           /* untimed ones before */
	uint64_t seed;                        /* of the inputs */
	const char *algorithm;                /* NULL: chosen; borrowed from argv */
	const char *explore;                  /* tuning file to write; NULL: none; borrowed from argv */
	const char *transports;               /* NULL: by rule; borrowed from argv */
	const char *store;                    /* folder of a file store; NULL: none; borrowed from argv */
	int rank;                             /* with a store */
	int ranks;                            /* with a store */
	uint64_t *sizes;                      /* bytes, as asked for */
	size_t n_sizes;
	struct ddl__perf_tensor *tensors; /* of the list, in order of the forward pass */
	size_t n_tensors;
};

struct ddl__perf_row {
	size_t first;                           /* the first of its tensors in tensors */
	size_t n;                               /* tensors at once */
	size_t alike;                           /* with a list: tensors of this size in it; all of them in the total row; else 1 */
	const struct ddl__perf_tensor *tensors; /* borrowed */
	uint64_t bytes;                         /* of all of them */
	bool whole;                             /* the row of all tensors of a list */
};

struct ddl__perf_result {
	double median_us;                         /* of the iterations' times */
	double min_us;                            /* shortest */
	double p99_us;                            /* nearest rank */
	int correct;                              /* 1 yes, 0 no, -1 not checked */
	double most_ulp;                          /* largest error, see ulp.h; NaN: not checked, or no numbers that round */
	double rms_ulp;                           /* root of the mean square of the errors; NaN: as above */
	int starts;                               /* how often the row was carried out, warm-up and checks included */
	char algorithm[DDL__CANDIDATE_TEXT_SIZE]; /* what ran */
	int rings;                                /* rings that shared the data */
	double of_best;                           /* exploring: how many times the fastest candidate's time; else 0 */
	bool chosen;                              /* exploring: what is taken where nothing is asked for by name */
	uint64_t wire_bytes;                      /* of the row, as they travelled */
	const char *wire;                         /* spelling of the type that travelled. Static */
};

/* perf_options.c: parses the command line. Returns 1: go on; 0: end with *status (said why, or help was asked for). */
int ddl__perf_options_parse(int argc, char **argv, struct ddl__perf_options *options, int *status);
void ddl__perf_options_free(struct ddl__perf_options *options);

/*
 * perf_options.c: reads a list of tensors: lines "NAME COUNT" (elements) or "NAME SIZEB" (bytes, a multiple of the element's size);
 * '#' begins a comment. Returns 0; -ENOENT and the like (unreadable); -EBADMSG with file and line; -ENOMEM.
 */
int ddl__perf_tensors_read(const char *path, size_t type_size, struct ddl__perf_tensor **tensors, size_t *n, struct ddl_error *err);

/*
 * perf_rows.c: the rows that were asked for: one a size; with a list one for each size in it (unless total_only),
 * then the row of all tensors. They and *made (tensors that are made up for --sizes) are freed by the caller.
 * Returns 0; -EINVAL (a size is no multiple of the element's); -ENOMEM.
 */
int ddl__perf_rows(const struct ddl__perf_options *options, struct ddl__perf_row **rows, size_t *n_rows,
		   struct ddl__perf_tensor **made, struct ddl_error *err);

/* "allreduce", "broadcast" and so on: spelling of the command line. */
extern const struct ddl__choice ddl__perf_collectives[];

/* What a collective is like. */
bool ddl__perf_reduces(enum ddl__perf_collective collective);   /* has an operation */
bool ddl__perf_rooted(enum ddl__perf_collective collective);    /* has a root */
bool ddl__perf_may_share(enum ddl__perf_collective collective); /* may work in place */
bool ddl__perf_alike(enum ddl__perf_collective collective);     /* all ranks get the same */

/* perf_stats.c: median, shortest and 99th percentile (nearest rank) of n times, which get sorted. n is at least 1. */
void ddl__perf_stats(double *times_us, size_t n, struct ddl__perf_result *result);

/* perf_stats.c: 10^9 bytes a second. algbw: bytes over time; busbw: what each link carries at least, as nccl-tests defines it. */
double ddl__perf_algbw(uint64_t bytes, double time_us);
double ddl__perf_busbw(enum ddl__perf_collective collective, int n_ranks, uint64_t bytes, double time_us);

/* perf_output.c: rows as they come; the progress line on the standard error stream. Only rank 0 calls these. */
struct ddl__perf_output {
	const struct ddl__perf_options *options;
	int n_ranks;      /* of the communicator */
	size_t n_nodes;   /* of its plan */
	bool all_correct; /* no row was wrong */
	double work;      /* of all rows: see ddl__perf_work() */
	double done;      /* of them, done */
	double started;   /* seconds on the monotonic clock */
	double shown;     /* when the progress line was written last */
	size_t width;     /* bytes of the progress line on the screen */
};
void ddl__perf_output_begin(struct ddl__perf_output *output);
void ddl__perf_output_row(struct ddl__perf_output *output, const struct ddl__perf_row *row, const struct ddl__perf_result *result);
/* A start of the row is done. */
void ddl__perf_output_progress(struct ddl__perf_output *output, const struct ddl__perf_row *row);
/* Takes the progress line off the screen before something else is said. */
void ddl__perf_output_break(struct ddl__perf_output *output);
void ddl__perf_output_end(struct ddl__perf_output *output);
/* What the progress line counts, of all rows. */
double ddl__perf_work(const struct ddl__perf_options *options, const struct ddl__perf_row *rows, size_t n_rows);

/* perf_measure.c: measures rows one after the other over buffers that are made once. */
struct ddl__perf;
struct ddl__perf_setting {                       /* what rows are measured with */
	const struct ddl__perf_options *options; /* all pointers borrowed */
	struct ddl_comm *comm;
	const struct ddl__perf_row *rows; /* that will be measured: sizes the buffers */
	size_t n_rows;
	struct ddl__perf_output *output; /* whose progress line moves; NULL: none */
};
int ddl__perf_create(const struct ddl__perf_setting *setting, struct ddl__perf **perf, struct ddl_error *err);
/* Collective. Returns 0, or the error of the communicator or of a request with its sentence. */
int ddl__perf_measure(struct ddl__perf *perf, const struct ddl__perf_row *row, struct ddl__perf_result *result,
		      struct ddl_error *err);
/* perf_explore.c: every algorithm at every size; writes options->explore. Collective. Errors as ddl__perf_measure(). */
int ddl__perf_explore(struct ddl__perf *perf, struct ddl__perf_options *options, struct ddl_error *err);
void ddl__perf_destroy(struct ddl__perf *perf);

/* `ddl perf kernels`: argv[0] is "kernels". Returns the exit status. */
int ddl__perf_kernels(int argc, char **argv);

#endif
