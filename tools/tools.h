/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools.h - what the subcommands of `ddl` share: their table's rows, arguments, names of types, printing.
 *
 * A subcommand is a function that gets its own arguments (argv[0] is its name) and returns the exit status: 0 good, 1 failed,
 * 2 wrong usage. Errors are one sentence on the standard error stream that begins with "ddl NAME: ".
 */
#ifndef DDL_TOOLS_H
#define DDL_TOOLS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <ddl/ddl.h>

#include "options.h"

#define DDL__SIZES_MAX 4096u /* sizes that one --sizes may name */

enum { DDL__EXIT_GOOD = 0, DDL__EXIT_FAILED = 1, DDL__EXIT_USAGE = 2 }; /* exit status of `ddl` */

int ddl_tool_check(int argc, char **argv);
int ddl_tool_info(int argc, char **argv);
int ddl_tool_perf(int argc, char **argv);
int ddl_tool_plan(int argc, char **argv);
int ddl_tool_run(int argc, char **argv);
int ddl_tool_stat(int argc, char **argv);
int ddl_tool_trace(int argc, char **argv);

struct ddl__help {               /* one option of a subcommand as --help prints it */
	const char *option;      /* "--sizes LIST"; NULL ends the table */
	const char *description; /* one line */
};

/* Prints the usage of a subcommand: synopsis, what it does, its options. */
void ddl__help_print(FILE *out, const char *synopsis, const char *summary, const struct ddl__help *help);

/* Prints "ddl TOOL: TEXT" on the standard error stream and returns DDL__EXIT_USAGE, for `return ddl__usage(...)`. */
int ddl__usage(const char *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with DDL__EXIT_FAILED. */
int ddl__failed(const char *tool, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * What getopt_long() answered with '?' or ':' (optstring begins with ':', opterr is 0), as a sentence. next is optind, argv the
 * arguments. Returns DDL__EXIT_USAGE.
 */
int ddl__usage_getopt(const char *tool, int answer, int next, char **argv);

/*
 * Whether this process is one of several of a step and not the first, by what its launcher put into the environment: then what
 * all would print alike is left to rank 0.
 */
int ddl__is_echo(void);

/*
 * Parses a size: 8, 4K, 1.5G, 64MiB; K, M, G, T are powers of 1024. Exact: 0.3K is refused.
 * Returns 0; -EINVAL with a sentence.
 */
int ddl__size_parse(const char *text, uint64_t *size, struct ddl_error *err);

/*
 * Parses a list of sizes: "8,4K,64M", "8-64M" (doubling from the first to at most the last), mixed.
 * Returns 0; -EINVAL; -ENOMEM. *sizes: n of them; caller frees.
 */
int ddl__sizes_parse(const char *text, uint64_t **sizes, size_t *n, struct ddl_error *err);

/* Parses a whole number in decimal within low ... high. Returns 0; -EINVAL with a sentence that names what. */
int ddl__number_parse(const char *what, const char *text, int64_t low, int64_t high, int64_t *number, struct ddl_error *err);

/* Element types and operations by the spelling of the command line, ended by a row whose name is NULL. */
extern const struct ddl__choice ddl__types[];
extern const struct ddl__choice ddl__ops[];

/* The row of that name, or NULL and a sentence that lists what exists. */
const struct ddl__choice *ddl__choice_parse(const char *what, const struct ddl__choice *table, const char *name,
					    struct ddl_error *err);

/* "4 KiB", "64 MiB", "1000 B", "9.8 MiB": bytes for people. Writes size bytes at most, returns text. */
char *ddl__bytes_format(uint64_t bytes, char *text, size_t size);

#endif
