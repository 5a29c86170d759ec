/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.c - a text that grows, and the escapes of the plan's text: % and two hexadecimal digits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "tree.h"

int ddl__text_put(struct ddl__text *text, const char *bytes, size_t n)
{
	char *grown;
	size_t capacity = text->capacity ? text->capacity : 256;

	while (capacity - text->used < n + 1)
		capacity *= 2;
	if (capacity != text->capacity) {
		grown = realloc(text->bytes, capacity);
		if (!grown)
			return -ENOMEM;
		text->bytes = grown;
		text->capacity = capacity;
	}
	memcpy(text->bytes + text->used, bytes, n);
	text->used += n;
	text->bytes[text->used] = '\0';
	return 0;
}

int ddl__text_puts(struct ddl__text *text, const char *string)
{
	return ddl__text_put(text, string, strlen(string));
}

int ddl__text_put_escaped(struct ddl__text *text, const char *string)
{
	static const char digits[] = "0123456789ABCDEF";
	char escape[3] = { '%', 0, 0 };
	int rc = 0;

	for (; !rc && *string; string++) {
		if (ddl__name_plain(*string)) {
			rc = ddl__text_put(text, string, 1);
			continue;
		}
		escape[1] = digits[(unsigned char)*string >> 4];
		escape[2] = digits[(unsigned char)*string & 15];
		rc = ddl__text_put(text, escape, 3);
	}
	return rc;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int ddl__text_unescape(const char *bytes, size_t length, char **string, size_t *at)
{
	char *result = malloc(length + 1);
	size_t i, n = 0;
	int high, low;

	if (!result)
		return -ENOMEM;
	for (i = 0; i < length; i++) {
		if (ddl__name_plain(bytes[i])) {
			result[n++] = bytes[i];
			continue;
		}
		high = bytes[i] == '%' && length - i > 2 ? hex_value(bytes[i + 1]) : -1;
		low = high >= 0 ? hex_value(bytes[i + 2]) : -1;
		if (low < 0 || high < 2 || (high << 4 | low) == 127) {
			*at = i;
			free(result);
			return -EBADMSG;
		}
		result[n++] = (char)(high << 4 | low);
		i += 2;
	}
	result[n] = '\0';
	*string = result;
	return 0;
}
