/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostlist.c - expands n[1-4,07-09]x[1,2],login to names, and joins neighbouring names again.
 *
 * A list comes from outside: "n[1-999999]x[1-999999]" is 22 bytes, so names and their bytes are counted while they are made, and
 * the first one too many ends it. The width of a range is that of its first number: [07-10] is 07, 08, 09, 10.
 * Names are collected in one growing buffer and then copied behind their pointers, so that the caller frees one allocation.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hostlist.h"
#include "text.h"

#define BRACKETS_MAX 16u                /* brackets in one item: n[1-2]x[1-2] has two */
#define BYTES_MAX    ((size_t)64 << 20) /* of all names together */
#define DIGITS_MAX   18u                /* of a number that is counted with */

struct part {                  /* a piece of an item: literal text, then perhaps a bracket */
	const char *literal;   /* borrowed from the list */
	size_t literal_length; /* may be 0 */
	const char *ranges;    /* inside of the bracket; NULL: the item ends here */
	size_t ranges_length;  /* at least 1 if there is a bracket */
};

struct expansion {
	const char *text; /* the whole list, to tell positions */
	char *bytes;      /* names with their NULs, one after the other */
	size_t used;      /* of bytes */
	size_t capacity;  /* of bytes */
	size_t n;         /* names so far */
	struct part parts[BRACKETS_MAX + 1];
	size_t n_parts;
	char name[DDL__NAME_MAX + 1]; /* the one being put together */
	struct ddl_error *err;
};

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int refuse(struct expansion *x, const char *at, const char *what)
{
	return ddl__error_set(x->err, -EBADMSG, "host list, byte %zu: %s", (size_t)(at - x->text) + 1, what);
}

static int add_name(struct expansion *x, size_t length)
{
	char *bytes;
	size_t capacity;

	if (!length)
		return refuse(x, x->parts[0].literal, "an empty name");
	if (x->n == DDL__HOSTS_MAX || x->used + length + 1 > BYTES_MAX)
		return ddl__error_set(x->err, -EBADMSG, "the host list has too many names; at most %u are possible",
				      DDL__HOSTS_MAX);
	if (x->used + length + 1 > x->capacity) {
		capacity = x->capacity ? 2 * x->capacity : 1024;
		bytes = realloc(x->bytes, capacity);
		if (!bytes)
			return ddl__error_memory(x->err);
		x->bytes = bytes;
		x->capacity = capacity;
	}
	memcpy(x->bytes + x->used, x->name, length);
	x->bytes[x->used + length] = '\0';
	x->used += length + 1;
	x->n++;
	return 0;
}

static int append(struct expansion *x, size_t *length, const char *text, size_t n)
{
	if (n > DDL__NAME_MAX - *length)
		return refuse(x, x->parts[0].literal, "a name with more than 255 bytes");
	memcpy(x->name + *length, text, n);
	*length += n;
	return 0;
}

/* Reads digits; at most DIGITS_MAX. Returns how many there are, 0 if none or too many. */
static size_t read_digits(const char *text, size_t length, uint64_t *value)
{
	size_t i;

	*value = 0;
	for (i = 0; i < length && is_digit(text[i]); i++) {
		if (i == DIGITS_MAX)
			return 0;
		*value = *value * 10 + (uint64_t)(text[i] - '0');
	}
	return i;
}

static int emit(struct expansion *x, size_t part, size_t length);

/* Every number of "lo-hi" or "lo" behind the name so far. */
static int emit_range(struct expansion *x, size_t part, size_t length, const char *range, size_t n)
{
	char number[DIGITS_MAX + 3];
	uint64_t first, last, value;
	size_t width = read_digits(range, n, &first), width_last, with_number;
	int rc, printed;

	if (!width)
		return refuse(x, range, "a number of up to 18 digits is missing in the bracket");
	last = first;
	if (width < n) {
		width_last = range[width] == '-' ? read_digits(range + width + 1, n - width - 1, &last) : 0;
		if (!width_last || width + 1 + width_last != n)
			return refuse(x, range + width, "a range looks like 1-4, with up to 18 digits");
	}
	if (last < first)
		return refuse(x, range, "the range runs backwards");
	if (last - first >= DDL__HOSTS_MAX)
		return refuse(x, range, "the range is too long");
	for (value = first; value <= last; value++) {
		printed = snprintf(number, sizeof(number), "%0*llu", (int)width, (unsigned long long)value);
		with_number = length;
		rc = append(x, &with_number, number, (size_t)printed);
		if (!rc)
			rc = emit(x, part + 1, with_number);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Puts the parts from this one on behind the name so far, in every combination; the depth is that of the brackets. */
static int emit(struct expansion *x, size_t part, size_t length)
{
	const struct part *p = &x->parts[part];
	const char *at, *end, *comma;
	int rc = append(x, &length, p->literal, p->literal_length);

	if (rc < 0)
		return rc;
	if (!p->ranges)
		return add_name(x, length);
	end = p->ranges + p->ranges_length;
	for (at = p->ranges; at <= end; at = comma + 1) {
		comma = memchr(at, ',', (size_t)(end - at));
		if (!comma)
			comma = end;
		rc = emit_range(x, part, length, at, (size_t)(comma - at));
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Cuts one item into parts. *next: behind the item. */
static int split_item(struct expansion *x, const char *at, const char *end, const char **next)
{
	struct part *p = &x->parts[0];
	const char *close;

	x->n_parts = 1;
	*p = (struct part){ at, 0, NULL, 0 };
	for (; at < end && *at != ','; at++) {
		if (*at == ']')
			return refuse(x, at, "a bracket is closed that was not opened");
		if (*at <= ' ' || *at > '~')
			return refuse(x, at, "only printable ASCII without blanks is possible in a name");
		if (*at != '[') {
			p->literal_length++;
			continue;
		}
		close = memchr(at, ']', (size_t)(end - at));
		if (!close)
			return refuse(x, at, "the bracket is not closed");
		if (close == at + 1)
			return refuse(x, at, "the bracket is empty");
		if (x->n_parts == BRACKETS_MAX + 1)
			return refuse(x, at, "more than 16 brackets in one name");
		p->ranges = at + 1;
		p->ranges_length = (size_t)(close - at - 1);
		at = close;
		p = &x->parts[x->n_parts++];
		*p = (struct part){ close + 1, 0, NULL, 0 };
	}
	*next = at;
	return 0;
}

/* Copies the names behind an array of pointers to them. */
static int pack(struct expansion *x, char ***names, size_t *n)
{
	char **result = malloc(x->n * sizeof(*result) + x->used);
	char *at;
	size_t i;

	if (!result)
		return ddl__error_memory(x->err);
	at = (char *)(result + x->n);
	if (x->bytes)
		memcpy(at, x->bytes, x->used);
	for (i = 0; i < x->n; i++) {
		result[i] = at;
		at += strlen(at) + 1;
	}
	*names = result;
	*n = x->n;
	return 0;
}

int ddl__hostlist_expand(const char *text, size_t length, char ***names, size_t *n, struct ddl_error *err)
{
	struct expansion x = { .text = text, .err = err };
	const char *at = text, *end = text + length;
	int rc;

	for (;;) {
		rc = split_item(&x, at, end, &at);
		if (!rc)
			rc = emit(&x, 0, 0);
		if (rc < 0 || at == end)
			break;
		at++;
	}
	if (!rc)
		rc = pack(&x, names, n);
	free(x.bytes);
	return rc;
}

/* ------------------------------------------------------------------ names -> list */

struct shape {         /* where in the first name of a group the number sits that varies */
	size_t prefix; /* bytes in front of it */
	size_t suffix; /* bytes behind it */
};

static int digits_only(const char *text, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!is_digit(text[i]))
			return 0;
	return n > 0 && n <= DIGITS_MAX;
}

/* Whether a and b differ in one number only, and where. */
static int find_shape(const char *a, const char *b, struct shape *shape)
{
	size_t la = strlen(a), lb = strlen(b), shorter = la < lb ? la : lb;
	size_t prefix = 0, suffix = 0;

	while (prefix < shorter && a[prefix] == b[prefix])
		prefix++;
	if (prefix == la && prefix == lb)
		return 0;
	while (prefix > 0 && is_digit(a[prefix - 1]))
		prefix--;
	while (suffix < shorter - prefix && a[la - 1 - suffix] == b[lb - 1 - suffix])
		suffix++;
	while (suffix > 0 && is_digit(a[la - suffix]))
		suffix--;
	shape->prefix = prefix;
	shape->suffix = suffix;
	return digits_only(a + prefix, la - prefix - suffix) && digits_only(b + prefix, lb - prefix - suffix);
}

/* Whether name has the shape of first: same prefix and suffix, digits between. */
static int fits(const char *first, const char *name, const struct shape *shape)
{
	size_t lf = strlen(first), ln = strlen(name);

	return ln > shape->prefix + shape->suffix && !memcmp(first, name, shape->prefix) &&
	       !memcmp(first + lf - shape->suffix, name + ln - shape->suffix, shape->suffix) &&
	       digits_only(name + shape->prefix, ln - shape->prefix - shape->suffix);
}

static size_t number_of(const char *name, const struct shape *shape, uint64_t *value)
{
	return read_digits(name + shape->prefix, strlen(name) - shape->prefix - shape->suffix, value);
}

/* Writes the inside of a bracket for names[0...n-1], all of one shape: "1-4,07,09". */
static int put_ranges(struct ddl__text *t, const char *const *names, size_t n, const struct shape *shape)
{
	char number[DIGITS_MAX + 3];
	uint64_t value, next;
	size_t i, last, width, next_width;
	int rc, printed;

	for (i = 0; i < n; i = last + 1) {
		width = number_of(names[i], shape, &value);
		rc = i ? ddl__text_put(t, ",", 1) : 0;
		if (!rc)
			rc = ddl__text_put(t, names[i] + shape->prefix, width);
		for (last = i; !rc && last + 1 < n; last++) {
			next_width = number_of(names[last + 1], shape, &next);
			printed = snprintf(number, sizeof(number), "%0*llu", (int)width, (unsigned long long)++value);
			if (next != value || next_width != (size_t)printed)
				break;
		}
		if (!rc && last > i) {
			next_width = number_of(names[last], shape, &next);
			rc = ddl__text_put(t, "-", 1);
			if (!rc)
				rc = ddl__text_put(t, names[last] + shape->prefix, next_width);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

size_t ddl__hostlist_first(const char *const *names, size_t n)
{
	struct shape shape;
	size_t k = 1;

	if (n < 2 || !find_shape(names[0], names[1], &shape))
		return n ? 1 : 0;
	while (k < n && fits(names[0], names[k], &shape))
		k++;
	return k;
}

/* Writes the longest group of one shape that begins at names[0]; *taken: how many names it holds. */
static int put_group(struct ddl__text *t, const char *const *names, size_t n, size_t *taken)
{
	struct shape shape;
	size_t k = ddl__hostlist_first(names, n);
	int rc;

	*taken = k;
	if (k == 1)
		return ddl__text_put(t, names[0], strlen(names[0]));
	find_shape(names[0], names[1], &shape);
	rc = ddl__text_put(t, names[0], shape.prefix);
	if (!rc)
		rc = ddl__text_put(t, "[", 1);
	if (!rc)
		rc = put_ranges(t, names, k, &shape);
	if (!rc)
		rc = ddl__text_put(t, "]", 1);
	if (!rc)
		rc = ddl__text_put(t, names[0] + strlen(names[0]) - shape.suffix, shape.suffix);
	return rc;
}

int ddl__hostlist_compress(const char *const *names, size_t n, char **text)
{
	struct ddl__text t = { NULL, 0, 0 };
	size_t i, taken = 0;
	int rc = ddl__text_put(&t, "", 0);

	for (i = 0; !rc && i < n; i += taken) {
		if (i)
			rc = ddl__text_put(&t, ",", 1);
		if (!rc)
			rc = put_group(&t, names + i, n - i, &taken);
	}
	if (rc < 0) {
		free(t.bytes);
		return rc;
	}
	*text = t.bytes;
	return 0;
}

/* ------------------------------------------------------------------ order */

int ddl__name_compare(const char *a, const char *b)
{
	const char *whole_a = a, *whole_b = b;
	size_t na, nb;
	int differ;

	while (*a && *b) {
		if (!is_digit(*a) || !is_digit(*b)) {
			if (*a != *b)
				return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
			a++;
			b++;
			continue;
		}
		while (*a == '0')
			a++;
		while (*b == '0')
			b++;
		na = strspn(a, "0123456789");
		nb = strspn(b, "0123456789");
		if (na != nb)
			return na < nb ? -1 : 1;
		differ = memcmp(a, b, na);
		if (differ)
			return differ < 0 ? -1 : 1;
		a += na;
		b += nb;
	}
	if (*a || *b)
		return *b ? -1 : 1;
	differ = strcmp(whole_a, whole_b);
	return differ < 0 ? -1 : differ > 0;
}
