/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counts.c - Slurm's notation for one number a node: "2(x3),1" is 2, 2, 2, 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "error.h"

#define ITEM_MAX 48u /* bytes of the longest item with its comma: two numbers of 20 digits, "(x", ")" */

/* Digits at *at ... end, at most max. Moves *at behind them. 0 good, -EBADMSG. */
static int read_number(const char **at, const char *end, uint64_t max, uint64_t *value)
{
	const char *p = *at;
	uint64_t number = 0;
	unsigned digit;

	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		digit = (unsigned)(*p - '0');
		if (digit > max || number > (max - digit) / 10)
			return -EBADMSG;
		number = number * 10 + digit;
	}
	if (p == *at)
		return -EBADMSG;
	*at = p;
	*value = number;
	return 0;
}

int ddl__number_read(const char *text, size_t length, uint64_t max, uint64_t *number)
{
	const char *at = text;
	uint64_t value = 0;

	if (read_number(&at, text + length, max, &value) < 0 || at != text + length)
		return -EBADMSG;
	*number = value;
	return 0;
}

int ddl__counts_expand(const char *text, size_t length, const char *what, uint64_t max, uint64_t *values, size_t n,
		       struct ddl_error *err)
{
	const char *at = text, *end = text + length;
	uint64_t value, run;
	size_t filled = 0;

	for (;;) {
		run = 1;
		if (read_number(&at, end, max, &value) < 0)
			goto malformed;
		if (end - at >= 2 && at[0] == '(' && at[1] == 'x') {
			at += 2;
			if (read_number(&at, end, UINT32_MAX, &run) < 0 || !run || at == end || *at++ != ')')
				goto malformed;
		}
		if (run > n - filled)
			return ddl__error_set(err, -EBADMSG, "%s: there are more numbers than the %zu that belong there", what, n);
		while (run--)
			values[filled++] = value;
		if (at == end)
			break;
		if (*at++ != ',')
			goto malformed;
	}
	if (filled != n)
		return ddl__error_set(err, -EBADMSG, "%s: there are %zu numbers where %zu belong", what, filled, n);
	return 0;

malformed:
	return ddl__error_set(err, -EBADMSG, "%s, byte %zu: not of the form 2(x3),1 with numbers up to %llu", what,
			      (size_t)(at - text) + 1, (unsigned long long)max);
}

int ddl__counts_compress(const uint64_t *values, size_t n, char **text)
{
	size_t i, last, used = 0, capacity = 64;
	char *bytes = calloc(1, capacity), *grown;

	if (!bytes)
		return -ENOMEM;
	for (i = 0; i < n; i = last + 1) {
		for (last = i; last + 1 < n && values[last + 1] == values[i];)
			last++;
		if (capacity - used < ITEM_MAX + 1) {
			capacity *= 2;
			grown = realloc(bytes, capacity);
			if (!grown) {
				free(bytes);
				return -ENOMEM;
			}
			bytes = grown;
		}
		used += (size_t)snprintf(bytes + used, capacity - used, "%s%llu", i ? "," : "", (unsigned long long)values[i]);
		if (last > i)
			used += (size_t)snprintf(bytes + used, capacity - used, "(x%zu)", last - i + 1);
	}
	*text = bytes;
	return 0;
}

int ddl__tasks_expand(const char *text, uint32_t *tasks, size_t n, struct ddl_error *err)
{
	uint64_t *values = malloc((n ? n : 1) * sizeof(*values));
	size_t i;
	int rc;

	if (!values)
		return ddl__error_memory(err);
	rc = ddl__counts_expand(text, strlen(text), "tasks per node", UINT32_MAX, values, n, err);
	for (i = 0; !rc && i < n; i++)
		tasks[i] = (uint32_t)values[i];
	free(values);
	return rc;
}
