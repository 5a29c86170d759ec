/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - fills a struct ddl_error with a code and one sentence, for every part that links plan/.
 */
#ifndef DDL_PLAN_ERROR_H
#define DDL_PLAN_ERROR_H

#include <errno.h>
#include <stddef.h>

#include <ddl/error.h>

/* Fills err (may be NULL) as printf does; a sentence that is too long is cut and ends with "...". Returns code. */
int ddl__error_set(struct ddl_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* What ddl__error_set() says when memory ran out. Returns -ENOMEM. */
int ddl__error_memory(struct ddl_error *err);

#ifdef __clang_analyzer__ /* sees one file at a time, and would take what these return for any number, 0 too */
#define ddl__error_set(err, code, ...) (ddl__error_set(err, code, __VA_ARGS__), (code))
#define ddl__error_memory(err)         (ddl__error_memory(err), -ENOMEM)
#endif

/*
 * A word from outside made fit for a sentence: at most size - 1 bytes, control and other bytes outside printable ASCII as '?',
 * "..." where it was cut. Returns buffer, so that it can stand in an argument list.
 */
const char *ddl__error_word(char *buffer, size_t size, const char *word, size_t length);

#define DDL__REASON_SIZE 192 /* bytes that a reason needs at most */

/*
 * What a negative errno says, like strerror(); too many open files and too large a file with the limit and the remedy. Returns
 * buffer, as above.
 */
const char *ddl__error_reason(char *buffer, size_t size, int code);

#endif
