/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - the parts of `ddl check`.
 *
 * What was found is an array of JSON objects, one a line: {"check", "verdict": "pass"|"warn"|"fail", "text"}, with "remedy" where
 * there is something to do, "alike" where nodes are compared by it, and once those of nodes are merged "nodes": where it is true.
 * root: "" for this machine, else a folder that holds captured etc/, proc/, sys/ and so on; Slurm's commands are always those of
 * PATH.
 */
#ifndef DDL_TOOLS_CHECK_H
#define DDL_TOOLS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <jansson.h>

#include "facts.h"
#include "transport.h"

#define DDL__CHECK_TEXT 1024 /* bytes of a text that is put together */

enum ddl__verdict { DDL__PASS = 0, DDL__WARN = 1, DDL__FAIL = 2 };

/* ---- check_report.c ---- */

/* Adds a line. remedy: NULL for what is good. */
void ddl__check_add(json_t *lines, const char *check, enum ddl__verdict verdict, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* Appends to a text of DDL__CHECK_TEXT bytes, with a comma where there is something before it. */
void ddl__check_append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Marks the line that was added last: nodes whose text here differs are told of. */
void ddl__check_alike(json_t *lines, const char *text);

/*
 * Merges what the n ranks found, each on its node: lines that say the same become one, with the names of their nodes unless
 * all say it; where nodes differ in what should be alike, those lines become warnings. Returns a new array, or NULL: no memory.
 */
json_t *ddl__check_merge(const json_t *const *lines, const char *const *nodes, size_t n);

/* Prints the lines for people and how many there are of each verdict. */
void ddl__check_print(FILE *out, const json_t *lines);

/* How many lines have the verdict. */
size_t ddl__check_count(const json_t *lines, enum ddl__verdict verdict);

/* ---- check_config.c ---- */

struct ddl__plugstack {           /* the line that loads the plugin */
	bool exists;              /* the file does */
	bool found;               /* the line does */
	bool commented;           /* the only such line is a comment */
	bool required;            /* it says so */
	bool pattern;             /* reached through an include with a pattern */
	char file[1024];          /* where the line is, as seen from root */
	int line;                 /* its number there, from 1 */
	char path[1024];          /* of the plugin */
	char arguments[1024];     /* of the plugin */
	char empty_include[1024]; /* an include that matches no file; "": none */
};

/* Reads plugstack.conf and what it includes, as Slurm does. */
void ddl__plugstack_read(const char *root, const char *path, struct ddl__plugstack *stack);

/* The value of a line "KEY = VALUE" of what `scontrol show config` prints; "" where there is none. Returns value. */
char *ddl__config_value(const char *config, const char *key, char *value, size_t size);

/* The first line of a file below root that begins with what, without its end; "" where there is none. Returns line. */
const char *ddl__check_find_line(const char *root, const char *path, const char *what, char *line, size_t size);

/*
 * Runs a command of the shell, for 15 seconds at most, and collects its output, errors included. Returns the exit status (124: it
 * took too long) and *text, which the caller frees; or -1 where it could not be run.
 */
int ddl__ask(const char *command, char **text);

/* ---- the checks ---- */

/* check_slurm.c: Slurm and the plugin in it, as this user sees them. */
void ddl__check_slurm(const char *root, json_t *lines);

/* check_node.c: what a process finds on this node. */
void ddl__check_node(const char *root, json_t *lines);

/*
 * check_rdma.c: RDMA devices, and what is in the way of using them. facts: of this node. api: in place of libibverbs, for tests;
 * NULL: it is opened, unless root is a captured machine, of which sysfs alone is read. -ENOMEM.
 */
int ddl__check_rdma(const char *root, const struct ddl__facts *facts, const struct ddl__verbs_api *api, json_t *lines);

/* check_verbs.c: the same as libibverbs sees it: whether it is there, knows what sysfs has, and which ports become rails. */
void ddl__check_verbs(const char *root, const struct ddl__facts *facts, const struct ddl__rdma_settings *settings,
		      const struct ddl__verbs_api *api, json_t *lines);

/* Whether this kernel tells what is unmapped: 0, or negative errno with a clause that says why not. */
int ddl__check_watch(char *why, size_t size);

/* Whether this is a task that srun has started. */
bool ddl__check_is_task(void);

/*
 * check_ranks.c: where this process is a rank of a step with PMIx, the ranks join, tell rank 0 what each has found, and sum
 * something. lines: those of the rank; on rank 0 those of all afterwards.
 */
void ddl__check_ranks(json_t **lines);

#endif
