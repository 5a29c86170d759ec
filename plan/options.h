/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - what a user may ask for with --ddl=MODE[,key=value...], and the tables that name it.
 *
 * The same spelling serves the command line, the plan's text and the environment; `--ddl=help` and `ddl info` print the tables.
 */
#ifndef DDL_PLAN_OPTIONS_H
#define DDL_PLAN_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <ddl/error.h>

#include "uplink.h"

#define DDL__RINGS_MAX    64  /* rings a plan may ask for */
#define DDL__DIMS_MAX     16  /* dimensions of a multi-ring */
#define DDL__TRACE_SIZE   256 /* bytes of a trace folder's path, with NUL */
#define DDL__PROGRESS_MAX 8   /* cores of a rank that its service threads are spread over */
#define DDL__OPTION_KEYS  9   /* rows of ddl__option_keys, whose ids are 0, 1, 2... */

enum ddl__mode {
	DDL__MODE_OFF = 0,       /* no plan */
	DDL__MODE_AUTO = 1,      /* the runtime chooses */
	DDL__MODE_RING = 2,      /* flat rings over all ranks */
	DDL__MODE_MULTIRING = 3, /* rings over the levels of the tree */
	DDL__MODE_HELP = 4,      /* print what exists */
};

enum ddl__order {
	DDL__ORDER_TOPOLOGY = 0, /* by switch */
	DDL__ORDER_SLURM = 1,    /* the order of Slurm's node list: switches ignored */
};

enum ddl__wire_name { /* values of enum ddl_wire in ddl.h, which plan/ does not include */
		      DDL__WIRE_AUTO = 0,
		      DDL__WIRE_NATIVE = 1,
		      DDL__WIRE_BFLOAT16 = 2,
		      DDL__WIRE_FLOAT16 = 3,
		      DDL__WIRE_INT8 = 4,
};

enum ddl__accuracy_name { /* values of enum ddl_accuracy in ddl.h */
			  DDL__ACCURACY_AUTO = 0,
			  DDL__ACCURACY_FAST = 1,
			  DDL__ACCURACY_FLAT = 2,
			  DDL__ACCURACY_EXACT = 3,
};

struct ddl__options {
	enum ddl__mode mode;      /* default DDL__MODE_OFF */
	uint32_t rings;           /* 1 ... DDL__RINGS_MAX; 0: the runtime chooses */
	enum ddl__wire_name wire; /* type in which float32 data travel */
	enum ddl__order order;    /* order of the plan's nodes */
	int progress; /* cores of a rank for service threads, DDL__PROGRESS_MAX at most; 0: no such threads; -1: not said */
	char trace[DDL__TRACE_SIZE];  /* folder for traces; "": none */
	uint32_t dims[DDL__DIMS_MAX]; /* dimensions of a multi-ring, the innermost first; their product is the number of ranks */
	uint32_t n_dims;              /* how many; 0: those of the switch tree */
	struct ddl__uplink uplink;    /* how narrow the uplinks of switches are */
	enum ddl__accuracy_name accuracy; /* what rounding on the way may take from results */
	int reproducible;                 /* 1: a fixed order of reduction; 0: not; -1: not said */
};

struct ddl__choice {             /* one row of a table of what can be chosen */
	int id;                  /* the enum's value */
	const char *name;        /* spelling */
	const char *description; /* one line for people */
};

/* Tables, ended by a row whose name is NULL. */
extern const struct ddl__choice ddl__modes[];
extern const struct ddl__choice ddl__orders[];
extern const struct ddl__choice ddl__wires[];       /* auto, native, bf16, f16, i8 */
extern const struct ddl__choice ddl__accuracies[];  /* auto, fast, flat, exact */
extern const struct ddl__choice ddl__option_keys[]; /* rings, wire, order, progress, trace, dims, uplink, accuracy, reproducible */

/* The row of a table with that id or that name (length bytes); NULL if there is none. */
const struct ddl__choice *ddl__choice_by_id(const struct ddl__choice *table, int id);
const struct ddl__choice *ddl__choice_by_name(const struct ddl__choice *table, const char *name, size_t length);

/* The names of a table for a sentence: "off, auto, ring". Writes size bytes at most, returns list. */
const char *ddl__choice_names(const struct ddl__choice *table, char *list, size_t size);

/* Sets the defaults: mode off, everything else unsaid. */
void ddl__options_init(struct ddl__options *options);

/*
 * Parses "MODE[,key=value...]" over the defaults. "ring", "multiring,rings=2,wire=bf16".
 * Returns 0; -EINVAL with a sentence that names the bad word and lists what exists.
 */
int ddl__options_parse(const char *text, struct ddl__options *options, struct ddl_error *err);

/* Sets one key from its value (NUL-ended); the same errors as ddl__options_parse(). */
int ddl__options_set(struct ddl__options *options, const char *key, const char *value, struct ddl_error *err);

/* Prints the modes and keys, one a line, for --ddl=help. */
void ddl__options_help(FILE *out);

#endif
