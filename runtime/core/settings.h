/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what a communicator is made with: the caller's options, completed from the environment.
 */
#ifndef DDL_CORE_SETTINGS_H
#define DDL_CORE_SETTINGS_H

#include <ddl/ddl.h>

#include "options.h"
#include "transport.h"

struct ddl__settings {
	const char *plan;               /* text; NULL: none. Borrowed from the options or the environment */
	struct ddl__options options;    /* DDL_MODE: what --ddl said, for a plan that is built by exchange */
	const char *transports;         /* NULL: all usable. Borrowed */
	const char *interfaces;         /* NULL: by rule. Borrowed */
	struct ddl__rdma_settings rdma; /* of transport/verbs */
	const char *tuning;             /* path of a tuning file, which rank 0 reads; NULL: none. Borrowed */
	int timeout_ms;                 /* at least 1 */
	enum ddl_accuracy accuracy;     /* of reductions that do not say; AUTO: what the plan says */
	int reproducible;               /* of all-reduces that do not say; -1: what the plan says */
	int progress_threads;           /* 0 ... DDL__PROGRESS_MAX; -1: what the plan says */
	const char *progress_cores;     /* see cores.h; NULL: by rule. Borrowed while the communicator is made */
	int measure;                    /* 1: all-reduces are measured before the first is chosen */
	unsigned observe;               /* bits of enum ddl__observe: statistics, which ones, and a trace */
	char stats_file[256];           /* where rank 0 writes them; "": on the standard error stream */
	uint64_t check;                 /* share of the starts that are compared, in units of 2^-64; UINT64_MAX: all */
	int trace_megabytes;            /* of spans that are kept */
	int dump_signal;                /* that asks for a hang dump; 0 none */
};

/*
 * Reads them. Environment: DDL_PLAN, DDL_MODE, DDL_TRANSPORTS, DDL_NET, DDL_TIMEOUT (seconds), DDL_PROGRESS, DDL_PROGRESS_CORES,
 * DDL_TRACE (folder), DDL_TUNE (file), DDL_MEASURE, DDL_ACCURACY, DDL_REPRODUCIBLE, DDL_STATS, DDL_TRACE_SIZE (MiB),
 * DDL_DUMP_SIGNAL, DDL_CHECK, and those of ddl__settings_rdma().
 * Returns 0; -EINVAL with a sentence that names the variable and what it may be.
 */
int ddl__settings_read(const struct ddl_comm_options *options, struct ddl__settings *settings, struct ddl_error *err);

/* Of these DDL_ACCURACY and DDL_REPRODUCIBLE alone. */
int ddl__settings_precision(enum ddl_accuracy *accuracy, int *reproducible, struct ddl_error *err);

/* A variable's value; NULL: unset, or empty, which is the same to us. */
const char *ddl__environment(const char *name);

/* Of these what transport/verbs goes by: DDL_RDMA and DDL_RDMA_*. */
int ddl__settings_rdma(struct ddl__rdma_settings *rdma, struct ddl_error *err);

#endif
