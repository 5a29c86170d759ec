/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostlist.h - Slurm's hostlist notation: n[1-4,07-09]x[1,2],login -> names, and back.
 *
 * Written here because the plugin must not depend on libslurm's symbols and the library is libc-only. Order is kept both ways:
 * expand gives the names from left to right (several brackets: the rightmost varies fastest), compress joins only neighbours.
 */
#ifndef DDL_PLAN_HOSTLIST_H
#define DDL_PLAN_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#define DDL__HOSTS_MAX 1048576u /* names one list may expand to */
#define DDL__NAME_MAX  255u     /* bytes of one name */

/*
 * Expands text (length bytes). *names: n pointers, each NUL-ended, in one allocation; caller frees with free(*names).
 * Returns 0; -EBADMSG (unbalanced bracket, empty name, range backwards, too many, with the position); -ENOMEM.
 */
int ddl__hostlist_expand(const char *text, size_t length, char ***names, size_t *n, struct ddl_error *err);

/*
 * Compresses names, keeping their order: "n1,n2,n3,x" -> "n[1-3],x". *text is NUL-ended; caller frees.
 * Returns 0 or -ENOMEM.
 */
int ddl__hostlist_compress(const char *const *names, size_t n, char **text);

/* How many of the first names compress joins into one item: 3 for n1, n2, n3, x. 0 only if n is. */
size_t ddl__hostlist_first(const char *const *names, size_t n);

/* Natural order: digits compare as numbers, n2 < n10. Negative, 0 or positive; 0 only for equal strings. */
int ddl__name_compare(const char *a, const char *b);

#endif
