/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_decode.c - reads a plan's text (doc/plan_format.md). The text comes from outside: nothing in it is trusted.
 *
 * First the fields are found, so that their order does not matter; then the tree is read, which tells how many numbers the
 * other fields must have. Depth, names and vertices are bounded while they are read. Every refusal tells the byte.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "error.h"
#include "hostlist.h"
#include "plan_build.h"
#include "text.h"
#include "tree.h"

enum field {
	FIELD_JOB,
	FIELD_MODE,
	FIELD_SRC,
	FIELD_TREE,
	FIELD_TASKS,
	FIELD_SPEED,
	FIELD_NODESPEED,
	FIELD_OVERSUB,
	FIELD_RAILS,
	FIELD_OPTIONS, /* rings ... reproducible: this and the following, by id of the options' table */
	N_FIELDS = FIELD_OPTIONS + DDL__OPTION_KEYS,
};

static const char *const field_names[] = {
	[FIELD_JOB] = "job",
	[FIELD_MODE] = "mode",
	[FIELD_SRC] = "src",
	[FIELD_TREE] = "tree",
	[FIELD_TASKS] = "tasks",
	[FIELD_SPEED] = "speed",
	[FIELD_NODESPEED] = "nodespeed",
	[FIELD_OVERSUB] = "oversub",
	[FIELD_RAILS] = "rails",
};

struct value {
	const char *text; /* borrowed; NULL: the field is not there */
	size_t length;
};

struct decoder {
	const char *text;
	const char *at;  /* in the tree */
	const char *end; /* of the tree */
	size_t vertices; /* so far */
	struct value values[N_FIELDS];
	struct ddl_error *err;
};

static int refuse(struct decoder *d, const char *at, const char *what)
{
	return ddl__error_set(d->err, -EBADMSG, "plan text, byte %zu: %s", (size_t)(at - d->text) + 1, what);
}

/* ------------------------------------------------------------------ tree */

static int add_vertex(struct decoder *d, struct ddl__vertex *parent, const char *name, size_t length, struct ddl__vertex **added)
{
	struct ddl__vertex *vertex;

	if (++d->vertices > DDL__VERTICES_MAX)
		return refuse(d, d->at, "too many switches and nodes; at most 262144 are possible");
	vertex = ddl__vertex_create(name, length);
	if (!vertex || ddl__vertex_add(parent, vertex) < 0) {
		ddl__vertex_destroy(vertex);
		return ddl__error_memory(d->err);
	}
	if (added)
		*added = vertex;
	return 0;
}

/* Expands a piece of the tree's text; what is wrong in it is told with the byte of the whole text. */
static int expand(struct decoder *d, const char *at, size_t length, char ***names, size_t *n)
{
	struct ddl_error inner = { 0, "" };
	int rc = ddl__hostlist_expand(at, length, names, n, &inner);

	if (rc == -EBADMSG)
		return ddl__error_set(d->err, rc, "plan text, host list from byte %zu on: %.400s", (size_t)(at - d->text) + 1,
				      inner.text);
	return rc < 0 ? ddl__error_memory(d->err) : 0;
}

static int add_nodes(struct decoder *d, struct ddl__vertex *parent, const char *at, size_t length)
{
	char **names;
	size_t i, n;
	int rc = expand(d, at, length, &names, &n);

	if (rc < 0)
		return rc;
	for (i = 0; !rc && i < n; i++)
		rc = add_vertex(d, parent, names[i], strlen(names[i]), NULL);
	free(names);
	return rc;
}

/* NAMES(COUNT*NODES), d->at behind the "(". */
static int add_group(struct decoder *d, struct ddl__vertex *parent, const char *list, size_t length)
{
	const char *close = memchr(d->at, ')', (size_t)(d->end - d->at));
	const char *star = close ? memchr(d->at, '*', (size_t)(close - d->at)) : NULL;
	char **names = NULL, **nodes = NULL;
	struct ddl__vertex *vertex = NULL;
	uint64_t count = 0;
	size_t i, n_names = 0, n_nodes = 0;
	int rc;

	if (!star || ddl__number_read(d->at, (size_t)(star - d->at), DDL__VERTICES_MAX, &count) < 0 || !count)
		return refuse(d, d->at, "several switches need the number of nodes of each, as in leaf[1-2](4*n[1-8])");
	rc = expand(d, list, length, &names, &n_names);
	if (!rc)
		rc = expand(d, star + 1, (size_t)(close - star - 1), &nodes, &n_nodes);
	if (!rc && (n_nodes % count || n_nodes / count != n_names))
		rc = refuse(d, d->at, "the number of nodes is not that of the switches times the count before *");
	for (i = 0; !rc && i < n_nodes; i++) {
		if (!(i % count)) {
			if (!ddl__node_name_valid(names[i / count]))
				rc = refuse(d, list, "a name of a switch that is not possible here");
			else
				rc = add_vertex(d, parent, names[i / count], strlen(names[i / count]), &vertex);
		}
		if (!rc)
			rc = add_vertex(d, vertex, nodes[i], strlen(nodes[i]), NULL);
	}
	d->at = close;
	free(names);
	free(nodes);
	return rc;
}

static int read_items(struct decoder *d, struct ddl__vertex *parent, size_t depth);

/* NAME(ITEMS), d->at behind the "(". */
static int add_switch(struct decoder *d, struct ddl__vertex *parent, const char *text, size_t length, size_t depth)
{
	struct ddl__vertex *vertex;
	size_t at = 0;
	char *name;
	int rc = ddl__text_unescape(text, length, &name, &at);

	if (rc == -EBADMSG)
		return refuse(d, text + at,
			      "a name of a switch needs an escape here, as in %5B for [, and has no control characters");
	if (rc < 0)
		return ddl__error_memory(d->err);
	rc = add_vertex(d, parent, name, strlen(name), &vertex);
	free(name);
	return rc < 0 ? rc : read_items(d, vertex, depth);
}

/* The end of a name or host list: the next , ( or ) outside of brackets. */
static const char *token_end(const char *at, const char *end)
{
	int inside = 0;

	for (; at < end; at++) {
		if (*at == '[')
			inside = 1;
		else if (*at == ']')
			inside = 0;
		else if (!inside && (*at == ',' || *at == '(' || *at == ')'))
			break;
	}
	return at;
}

static int read_item(struct decoder *d, struct ddl__vertex *parent, size_t depth)
{
	const char *start = d->at;
	size_t length;
	int rc;

	d->at = token_end(start, d->end);
	length = (size_t)(d->at - start);
	if (!length)
		return refuse(d, start, "the name of a switch or node is missing");
	if (d->at == d->end || *d->at != '(')
		return add_nodes(d, parent, start, length);
	if (depth == DDL__PLAN_DEPTH_MAX)
		return refuse(d, start, "the tree is too deep; at most 16 levels of switches are possible");
	d->at++;
	if (memchr(start, '[', length))
		rc = add_group(d, parent, start, length);
	else
		rc = add_switch(d, parent, start, length, depth + 1);
	if (rc < 0)
		return rc;
	if (d->at == d->end || *d->at != ')')
		return refuse(d, d->at, "a closing parenthesis is missing");
	d->at++;
	return 0;
}

static int read_items(struct decoder *d, struct ddl__vertex *parent, size_t depth)
{
	int rc;

	for (;;) {
		rc = read_item(d, parent, depth);
		if (rc < 0)
			return rc;
		if (d->at == d->end || *d->at != ',')
			return 0;
		d->at++;
	}
}

static int read_tree(struct decoder *d, struct ddl__vertex **root)
{
	struct ddl__vertex *holder = ddl__vertex_create("", 0);
	int rc;

	if (!holder)
		return ddl__error_memory(d->err);
	d->at = d->values[FIELD_TREE].text;
	d->end = d->at + d->values[FIELD_TREE].length;
	rc = read_item(d, holder, 0);
	if (!rc && d->at != d->end)
		rc = refuse(d, d->at, "the tree has one root; something follows it");
	if (!rc && (holder->n_children != 1 || !holder->children[0]->n_children))
		rc = refuse(d, d->values[FIELD_TREE].text, "the root of the tree is a switch, as in fabric(n[1-4])");
	if (!rc) {
		*root = holder->children[0];
		(*root)->parent = NULL;
		holder->n_children = 0;
	}
	ddl__vertex_destroy(holder);
	return rc;
}

/* ------------------------------------------------------------------ fields */

static int is_key_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* The slot of a key; N_FIELDS: not known. */
static size_t find_field(const char *key, size_t length)
{
	const struct ddl__choice *row = ddl__choice_by_name(ddl__option_keys, key, length);
	size_t i;

	if (row)
		return FIELD_OPTIONS + (size_t)row->id;
	for (i = 0; i < FIELD_OPTIONS; i++)
		if (strlen(field_names[i]) == length && !memcmp(field_names[i], key, length))
			return i;
	return N_FIELDS;
}

static int split_field(struct decoder *d, const char *at, const char *end)
{
	const char *equals = at;
	size_t field;

	while (equals < end && is_key_byte(*equals))
		equals++;
	if (equals == at || equals == end || *equals != '=')
		return refuse(d, at, "a field looks like key=value");
	field = find_field(at, (size_t)(equals - at));
	if (field == N_FIELDS)
		return 0;
	if (d->values[field].text)
		return refuse(d, at, "this field is there twice");
	d->values[field].text = equals + 1;
	d->values[field].length = (size_t)(end - equals - 1);
	return 0;
}

static int split_version(struct decoder *d, const char *end)
{
	uint64_t version = 0;

	if (ddl__number_read(d->text, (size_t)(end - d->text), UINT32_MAX, &version) < 0 || d->text[0] == '0')
		return ddl__error_set(d->err, -EBADMSG, "plan text: it does not begin with a version, as in 1;mode=ring");
	if (version != DDL__PLAN_VERSION)
		return ddl__error_set(
			d->err, -EPROTO,
			"plan text of version %llu; this library reads version %d: install the same release on all nodes",
			(unsigned long long)version, DDL__PLAN_VERSION);
	return 0;
}

static int split(struct decoder *d, size_t length)
{
	const char *at = d->text, *end = d->text + length, *stop;
	size_t i;
	int rc;

	if (length >= DDL__PLAN_TEXT_MAX)
		return ddl__error_set(d->err, -EBADMSG, "the plan text has %zu bytes; at most %u are possible", length,
				      DDL__PLAN_TEXT_MAX - 1);
	for (i = 0; i < length; i++)
		if (at[i] <= ' ' || at[i] > '~')
			return refuse(d, at + i, "only printable ASCII without blanks is possible");
	stop = memchr(at, ';', length);
	rc = split_version(d, stop ? stop : end);
	while (!rc && stop) {
		at = stop + 1;
		stop = memchr(at, ';', (size_t)(end - at));
		rc = split_field(d, at, stop ? stop : end);
	}
	if (rc < 0)
		return rc;
	for (i = FIELD_MODE; i <= FIELD_TREE; i++)
		if (!d->values[i].text)
			return ddl__error_set(d->err, -EBADMSG, "plan text: the field %s is missing", field_names[i]);
	return 0;
}

/* The value of a field without escapes; "" where it is not there. Caller frees. */
static int take_string(struct decoder *d, size_t field, char **string)
{
	const struct value *value = &d->values[field];
	size_t at = 0;
	int rc = ddl__text_unescape(value->text ? value->text : "", value->length, string, &at);

	if (rc == -EBADMSG)
		return refuse(d, value->text + at,
			      "this byte needs an escape, as in %20 for a blank, or is one for a control character");
	return rc < 0 ? ddl__error_memory(d->err) : 0;
}

static int take_options(struct decoder *d, struct ddl__options *options)
{
	const struct value *mode = &d->values[FIELD_MODE];
	const struct ddl__choice *row = ddl__choice_by_name(ddl__modes, mode->text, mode->length);
	struct ddl_error inner = { 0, "" };
	char *string;
	int rc = 0;

	ddl__options_init(options);
	if (!row)
		return refuse(d, mode->text, "this mode is not known");
	options->mode = (enum ddl__mode)row->id;
	for (row = ddl__option_keys; !rc && row->name; row++) {
		if (!d->values[FIELD_OPTIONS + row->id].text)
			continue;
		rc = take_string(d, (size_t)(FIELD_OPTIONS + row->id), &string);
		if (rc < 0)
			return rc;
		rc = ddl__options_set(options, row->name, string, &inner);
		free(string);
		if (rc < 0)
			rc = ddl__error_set(d->err, -EBADMSG, "plan text: %.400s", inner.text);
	}
	return rc;
}

static int take_rails(struct decoder *d, uint32_t *rails)
{
	const struct value *value = &d->values[FIELD_RAILS];
	uint64_t number = 0;

	if (value->text && ddl__number_read(value->text, value->length, UINT32_MAX, &number) < 0)
		return refuse(d, value->text, "rails is a number up to 4294967295");
	*rails = (uint32_t)number;
	return 0;
}

/*
 * Sets the link speeds or the ratios of the switches below a vertex in pre-order (none where values is NULL). Returns n plus their
 * number.
 */
static size_t set_uplinks(struct ddl__vertex *vertex, size_t field, const uint64_t *values, size_t n)
{
	size_t i;

	for (i = 0; i < vertex->n_children; i++) {
		if (!vertex->children[i]->n_children)
			continue;
		if (values && field == FIELD_SPEED)
			vertex->children[i]->link_speed = values[n];
		else if (values)
			vertex->children[i]->oversubscribed = (uint32_t)values[n];
		n = set_uplinks(vertex->children[i], field, values, n + 1);
	}
	return n;
}

static int take_counts(struct decoder *d, size_t field, uint64_t max, uint64_t *values, size_t n)
{
	return ddl__counts_expand(d->values[field].text, d->values[field].length, field_names[field], max, values, n, d->err);
}

/* speed or oversub. values: room for that many switches. */
static int take_uplinks(struct decoder *d, struct ddl__plan *plan, size_t field, uint64_t max, uint64_t *values, size_t switches)
{
	int rc = d->values[field].text ? take_counts(d, field, max, values, switches) : 0;

	if (!rc && d->values[field].text)
		set_uplinks(plan->root, field, values, 0);
	return rc;
}

/* tasks, speed, nodespeed and oversub; plan->nodes is filled. */
static int take_numbers(struct decoder *d, struct ddl__plan *plan)
{
	size_t i, switches = set_uplinks(plan->root, FIELD_SPEED, NULL, 0);
	size_t room = switches > plan->n_nodes ? switches : plan->n_nodes;
	uint64_t *values = malloc(room * sizeof(*values));
	int rc = 0;

	if (!values)
		return ddl__error_memory(d->err);
	if (d->values[FIELD_TASKS].text) {
		rc = take_counts(d, FIELD_TASKS, UINT32_MAX, values, plan->n_nodes);
		for (i = 0; !rc && i < plan->n_nodes; i++)
			plan->nodes[i]->tasks = (uint32_t)values[i];
	}
	if (!rc)
		rc = take_uplinks(d, plan, FIELD_SPEED, UINT64_MAX, values, switches);
	if (!rc)
		rc = take_uplinks(d, plan, FIELD_OVERSUB, DDL__RATIO_MAX, values, switches);
	if (!rc && d->values[FIELD_NODESPEED].text) {
		rc = take_counts(d, FIELD_NODESPEED, UINT64_MAX, values, plan->n_nodes);
		for (i = 0; !rc && i < plan->n_nodes; i++)
			plan->nodes[i]->link_speed = values[i];
	}
	free(values);
	return rc;
}

static int fill(struct decoder *d, struct ddl__plan *plan)
{
	int rc = take_options(d, &plan->options);

	if (!rc)
		rc = take_string(d, FIELD_JOB, &plan->job);
	if (!rc)
		rc = take_string(d, FIELD_SRC, &plan->source);
	if (!rc)
		rc = take_rails(d, &plan->rails);
	if (!rc)
		rc = read_tree(d, &plan->root);
	if (!rc)
		rc = ddl__plan_index(plan, -EBADMSG, d->err);
	if (!rc)
		rc = take_numbers(d, plan);
	return rc;
}

int ddl__plan_decode(const char *text, size_t length, struct ddl__plan **plan, struct ddl_error *err)
{
	struct decoder d = { .text = text, .err = err };
	struct ddl__plan *result;
	int rc = split(&d, length);

	if (rc < 0)
		return rc;
	result = calloc(1, sizeof(*result));
	if (!result)
		return ddl__error_memory(err);
	rc = fill(&d, result);
	if (rc < 0) {
		ddl__plan_destroy(result);
		return rc;
	}
	*plan = result;
	return 0;
}
