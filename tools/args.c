/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.c - what users type, to numbers and back; usage errors as sentences.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "tools.h"

enum { ECHO_MS = 500 }; /* by which rank 0 is ahead: launchers end the others, it among them, when one process fails */

const struct ddl__choice ddl__types[] = {
	{ DDL_FLOAT64, "f64", "IEEE binary64" },
	{ DDL_FLOAT32, "f32", "IEEE binary32" },
	{ DDL_FLOAT16, "f16", "IEEE binary16, reduced in float32" },
	{ DDL_BFLOAT16, "bf16", "bfloat16, reduced in float32" },
	{ DDL_INT64, "i64", "64-bit integer" },
	{ DDL_INT32, "i32", "32-bit integer" },
	{ DDL_INT8, "i8", "8-bit integer" },
	{ DDL_UINT8, "u8", "8-bit unsigned integer" },
	{ 0, NULL, NULL },
};

const struct ddl__choice ddl__ops[] = {
	{ DDL_SUM, "sum", "sum over the ranks" },
	{ DDL_AVG, "avg", "sum divided by the number of ranks" },
	{ DDL_MIN, "min", "minimum" },
	{ DDL_MAX, "max", "maximum" },
	{ DDL_PROD, "prod", "product over the ranks" },
	{ 0, NULL, NULL },
};

void ddl__help_print(FILE *out, const char *synopsis, const char *summary, const struct ddl__help *help)
{
	fprintf(out, "Usage: %s\n%s\n\n", synopsis, summary);
	for (; help->option; help++)
		fprintf(out, "  %-26s %s\n", help->option, help->description);
}

static void say(const char *tool, const char *format, va_list list)
{
	char text[DDL_ERROR_TEXT_SIZE * 2];

	vsnprintf(text, sizeof(text), format, list);
	if (tool)
		fprintf(stderr, "ddl %s: %s\n", tool, text);
	else
		fprintf(stderr, "ddl: %s\n", text);
}

int ddl__usage(const char *tool, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (!ddl__is_echo())
		say(tool, format, list);
	else
		poll(NULL, 0, ECHO_MS);
	va_end(list);
	return DDL__EXIT_USAGE;
}

int ddl__failed(const char *tool, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say(tool, format, list);
	va_end(list);
	return DDL__EXIT_FAILED;
}

int ddl__usage_getopt(const char *tool, int answer, int next, char **argv)
{
	const char *word = argv[next - 1];

	if (answer == ':')
		return ddl__usage(tool, "option '%s' needs a value; `ddl %s --help` tells which", word, tool);
	return ddl__usage(tool, "option '%s' does not exist or is not complete; `ddl %s --help` lists the options", word, tool);
}

int ddl__is_echo(void)
{
	static const char *const names[] = { "PMIX_RANK", "SLURM_PROCID" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcmp(value, "0") != 0;
	}
	return 0;
}

/* The power of two that a unit stands for; -1 for what is no unit. */
static int unit_shift(const char *unit)
{
	static const char letters[] = "kmgt";
	const char *letter;

	if (*unit == '\0' || strcasecmp(unit, "b") == 0)
		return 0;
	letter = strchr(letters, tolower((unsigned char)*unit));
	if (!letter || (unit[1] != '\0' && strcasecmp(unit + 1, "b") != 0 && strcasecmp(unit + 1, "ib") != 0))
		return -1;
	return 10 * (int)(letter - letters + 1);
}

/* Digits of a fraction as a number over a power of ten: ".25" -> 25 / 100. At most nine digits. */
static const char *parse_fraction(const char *p, uint64_t *over, uint64_t *under)
{
	*over = 0;
	*under = 1;
	for (int digits = 0; isdigit((unsigned char)*p); p++) {
		if (++digits > 9)
			return NULL;
		*over = *over * 10 + (uint64_t)(*p - '0');
		*under *= 10;
	}
	return p;
}

int ddl__size_parse(const char *text, uint64_t *size, struct ddl_error *err)
{
	uint64_t whole = 0, over = 0, under = 1, result;
	const char *p = text;
	int shift;

	if (!isdigit((unsigned char)*p))
		return ddl__error_set(err, -EINVAL, "'%.60s' is not a size; sizes are numbers such as 8, 4K, 1.5G", text);
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(whole, 10u, &whole) || __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return ddl__error_set(err, -EINVAL, "size '%.60s' is too large", text);
	}
	if (*p == '.' && isdigit((unsigned char)p[1]))
		p = parse_fraction(p + 1, &over, &under);
	shift = p ? unit_shift(p) : -1;
	if (shift < 0)
		return ddl__error_set(err, -EINVAL, "'%.60s' is not a size; sizes are numbers such as 8, 4K, 1.5G", text);
	if (whole > (UINT64_MAX >> 1) >> shift)
		return ddl__error_set(err, -EINVAL, "size '%.60s' is too large", text);
	if (over != 0) {
		unsigned __int128 part = (unsigned __int128)over << shift;

		if (part % under != 0)
			return ddl__error_set(err, -EINVAL, "size '%.60s' is not a whole number of bytes", text);
		result = (whole << shift) + (uint64_t)(part / under);
	} else {
		result = whole << shift;
	}
	*size = result;
	return 0;
}

/* Room for one more size in a list that grows by doubling. */
static int append(uint64_t **sizes, size_t *n, size_t *room, uint64_t size, struct ddl_error *err)
{
	if (*n == DDL__SIZES_MAX)
		return ddl__error_set(err, -EINVAL, "more than %u sizes; name fewer", DDL__SIZES_MAX);
	if (*n == *room) {
		size_t more = *room ? 2 * *room : 16;
		uint64_t *bigger = realloc(*sizes, more * sizeof(*bigger));

		if (!bigger)
			return ddl__error_set(err, -ENOMEM, "no memory for %zu sizes", more);
		*sizes = bigger;
		*room = more;
	}
	(*sizes)[(*n)++] = size;
	return 0;
}

/* One word of the list: a size, or a doubling range of them. */
static int parse_word(char *word, uint64_t **sizes, size_t *n, size_t *room, struct ddl_error *err)
{
	char *dash = *word ? strchr(word + 1, '-') : NULL; /* a number below zero is no range */
	uint64_t first = 0, last;
	int rc;

	if (dash)
		*dash = '\0';
	rc = ddl__size_parse(word, &first, err);
	last = first;
	if (rc == 0 && dash)
		rc = ddl__size_parse(dash + 1, &last, err);
	if (rc < 0)
		return rc;
	if (first > last || (dash && first == 0))
		return ddl__error_set(err, -EINVAL, "range '%.60s-%.60s' does not double from a first size to a larger one", word,
				      dash + 1);
	for (uint64_t size = first;; size *= 2) {
		rc = append(sizes, n, room, size, err);
		if (rc < 0)
			return rc;
		if (size > last / 2 || size == 0)
			return 0;
	}
}

int ddl__sizes_parse(const char *text, uint64_t **sizes, size_t *n, struct ddl_error *err)
{
	char *copy = strdup(text), *word, *rest;
	uint64_t *list = NULL;
	size_t count = 0, room = 0;
	int rc = 0;

	if (!copy)
		return ddl__error_set(err, -ENOMEM, "no memory for a list of sizes");
	for (rest = copy; rc == 0 && (word = strsep(&rest, ",")) != NULL;)
		rc = parse_word(word, &list, &count, &room, err);
	free(copy);
	if (rc < 0) {
		free(list);
		return rc;
	}
	*sizes = list;
	*n = count;
	return 0;
}

int ddl__number_parse(const char *what, const char *text, int64_t low, int64_t high, int64_t *number, struct ddl_error *err)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || isspace((unsigned char)*text) || value < low || value > high)
		return ddl__error_set(err, -EINVAL, "%s '%.60s' is not a whole number within %lld ... %lld", what, text,
				      (long long)low, (long long)high);
	*number = value;
	return 0;
}

const struct ddl__choice *ddl__choice_parse(const char *what, const struct ddl__choice *table, const char *name,
					    struct ddl_error *err)
{
	const struct ddl__choice *row = ddl__choice_by_name(table, name, strlen(name));
	char list[256];

	if (!row)
		ddl__error_set(err, -EINVAL, "%s '%.60s' does not exist; there are %s", what, name,
			       ddl__choice_names(table, list, sizeof(list)));
	return row;
}

char *ddl__bytes_format(uint64_t bytes, char *text, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;

	while (unit < 4 && bytes >> (10 * (unit + 1)) != 0)
		unit++;
	if ((bytes & ((1ull << (10 * unit)) - 1)) == 0)
		snprintf(text, size, "%llu %s", (unsigned long long)(bytes >> (10 * unit)), units[unit]);
	else
		snprintf(text, size, "%.1f %s", (double)bytes / (double)(1ull << (10 * unit)), units[unit]);
	return text;
}
