/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - a text that grows. Inside of plan/ only.
 */
#ifndef DDL_PLAN_TEXT_H
#define DDL_PLAN_TEXT_H

#include <stddef.h>

struct ddl__text {       /* starts as { NULL, 0, 0 }; whoever fills it frees bytes */
	char *bytes;     /* NUL-ended once something was put in */
	size_t used;     /* without the NUL */
	size_t capacity; /* of bytes */
};

/* Appends n bytes. Returns 0 or -ENOMEM; what was there stays. */
int ddl__text_put(struct ddl__text *text, const char *bytes, size_t n);

/* Appends a NUL-ended string. */
int ddl__text_puts(struct ddl__text *text, const char *string);

/* Appends a name or value with the escapes of the plan's text. */
int ddl__text_put_escaped(struct ddl__text *text, const char *string);

/*
 * Undoes the escapes of length bytes. *string is NUL-ended; caller frees.
 * Returns 0; -EBADMSG (a byte that had to be escaped, a broken escape or that of a control character; *at: its index); -ENOMEM.
 */
int ddl__text_unescape(const char *bytes, size_t length, char **string, size_t *at);

#endif
