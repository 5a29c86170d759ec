/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology_lines.c - reads the two forms of Slurm that consist of lines of Key=Value: what the controller prints, and
 * topology.conf.
 *
 *     SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-3]            the controller
 *     SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-6] Switches=leaf[1-2]
 *     BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
 *
 *     SwitchName=leaf1 Nodes=n[1-3]  # a comment                   topology.conf
 *     BlockSizes=4,16
 *
 * They differ in this: the controller repeats the nodes of all that is below a switch, so where there are Switches=, Nodes= is
 * not read; the file has comments, continued lines and keys in any case, and each line must say what is below.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "counts.h"
#include "error.h"
#include "topology_build.h"

struct word { /* borrowed from the text */
	const char *text;
	size_t length;
};

struct pair {
	struct word key;
	struct word value;
};

enum subject {
	SUBJECT_NONE = 0,   /* a line that says nothing of the tree */
	SUBJECT_SWITCH = 1, /* SwitchName= */
	SUBJECT_BLOCK = 2,  /* BlockName= */
};

struct description { /* what a line says */
	enum subject subject;
	struct word name;
	struct word switches; /* NULL: not there */
	struct word nodes;    /* NULL: not there */
	uint64_t speed;       /* 0: not there */
};

struct reader {
	const char *at;  /* in the line */
	const char *end; /* of the line */
	const char *end_of_text;
	size_t line; /* number of the line, from 1 */
	size_t next; /* number of the next line */
	int conf;    /* the form is that of topology.conf */
	enum subject subject;
	struct ddl__builder *builder;
	struct ddl_error *err;
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* Whether a word is name, in any case, whatever the locale. */
static int is(const struct word *word, const char *name)
{
	size_t i;

	for (i = 0; i < word->length && name[i]; i++)
		if (lower(word->text[i]) != lower(name[i]))
			return 0;
	return i == word->length && !name[i];
}

static int refuse(struct reader *r, int code, const struct word *word, const char *what)
{
	char quoted[80];

	return ddl__error_set(r->err, code, "line %zu: \"%s\" %s", r->line,
			      ddl__error_word(quoted, sizeof(quoted), word->text, word->length), what);
}

/* Finds the end of the line at r->at; in topology.conf a backslash before the newline continues it. Returns 0 after the last. */
static int next_line(struct reader *r)
{
	const char *p;

	if (r->at == r->end_of_text)
		return 0;
	r->line = r->next;
	for (p = r->at; p < r->end_of_text; p++) {
		if (*p != '\n')
			continue;
		r->next++;
		if (!r->conf || p == r->at || p[-1] != '\\')
			break;
	}
	r->end = p;
	return 1;
}

static int is_blank(const struct reader *r, const char *p)
{
	return *p == ' ' || *p == '\t' || *p == '\r' || *p == '\n' || (*p == '\\' && p + 1 < r->end && p[1] == '\n');
}

/* Takes the next Key=Value off the line. Returns 1; 0 at its end; -EBADMSG. */
static int next_pair(struct reader *r, struct pair *pair)
{
	const char *start;

	while (r->at < r->end && is_blank(r, r->at))
		r->at++;
	if (r->at == r->end || (r->conf && *r->at == '#'))
		return 0;
	start = r->at;
	while (r->at < r->end && *r->at != '=' && !is_blank(r, r->at))
		r->at++;
	pair->key = (struct word){ start, (size_t)(r->at - start) };
	if (r->at == r->end || *r->at != '=')
		return refuse(r, -EBADMSG, &pair->key, "is not of the form Key=Value");
	start = ++r->at;
	if (r->at < r->end && *r->at == '"') {
		start = ++r->at;
		while (r->at < r->end && *r->at != '"')
			r->at++;
		pair->value = (struct word){ start, (size_t)(r->at - start) };
		if (r->at == r->end)
			return refuse(r, -EBADMSG, &pair->value, "has a quotation mark that is not closed");
		r->at++;
		return 1;
	}
	while (r->at < r->end && !is_blank(r, r->at) && !(r->conf && *r->at == '#'))
		r->at++;
	pair->value = (struct word){ start, (size_t)(r->at - start) };
	return 1;
}

/* A value as it is, or not there: Slurm prints (null) for none. */
static struct word present(struct word value)
{
	if (!value.length || is(&value, "(null)"))
		value = (struct word){ NULL, 0 };
	return value;
}

/* What a line is about, from its first key. */
static int find_subject(struct reader *r, const struct pair *first, struct description *d)
{
	if (is(&first->key, "SwitchName"))
		d->subject = SUBJECT_SWITCH;
	else if (is(&first->key, "BlockName"))
		d->subject = SUBJECT_BLOCK;
	else if (is(&first->key, "BlockSizes") || is(&first->key, "AggregatedBlock"))
		return 0;
	else
		return refuse(r, -EOPNOTSUPP, &first->key, "is no kind of topology known here; SwitchName and BlockName are");
	if (r->subject && r->subject != d->subject)
		return refuse(r, -EBADMSG, &first->value, "mixes switches and blocks in one topology");
	r->subject = d->subject;
	d->name = first->value;
	return 0;
}

static int take_pair(struct reader *r, const struct pair *pair, struct description *d)
{
	if (is(&pair->key, "Nodes"))
		d->nodes = present(pair->value);
	else if (is(&pair->key, "Switches") && d->subject == SUBJECT_SWITCH)
		d->switches = present(pair->value);
	else if (is(&pair->key, "LinkSpeed") && ddl__number_read(pair->value.text, pair->value.length, UINT64_MAX, &d->speed) < 0)
		return refuse(r, -EBADMSG, &pair->value, "is no LinkSpeed; that is one number");
	return 0;
}

static int describe(struct reader *r, const struct description *d)
{
	size_t id;
	int rc;

	if (r->conf && d->switches.text && d->nodes.text)
		return refuse(r, -EBADMSG, &d->name, "has both Switches= and Nodes=; give the one that is below it");
	if (r->conf && !d->switches.text && !d->nodes.text)
		return refuse(r, -EBADMSG, &d->name, "has neither Switches= nor Nodes=; say what is below it");
	rc = ddl__builder_switch(r->builder, d->name.text, d->name.length, r->line, 0, &id, r->err);
	if (rc < 0)
		return rc;
	ddl__builder_speed(r->builder, id, d->speed);
	if (d->switches.text)
		return ddl__builder_children(r->builder, id, d->switches.text, d->switches.length, r->line, r->err);
	if (d->nodes.text)
		return ddl__builder_nodes(r->builder, id, d->nodes.text, d->nodes.length, r->line, r->err);
	return 0;
}

/* The words that Slurm prints where there is no topology. */
static int says_none(const struct reader *r)
{
	static const char words[] = "No topology";

	return !r->conf && (size_t)(r->end - r->at) >= sizeof(words) - 1 && !memcmp(r->at, words, sizeof(words) - 1);
}

static int read_line(struct reader *r)
{
	struct description d = { SUBJECT_NONE, { NULL, 0 }, { NULL, 0 }, { NULL, 0 }, 0 };
	struct pair pair;
	int rc;

	if (says_none(r))
		return 0;
	rc = next_pair(r, &pair);
	if (rc <= 0)
		return rc;
	rc = find_subject(r, &pair, &d);
	if (rc < 0 || d.subject == SUBJECT_NONE)
		return rc;
	while ((rc = next_pair(r, &pair)) > 0) {
		rc = take_pair(r, &pair, &d);
		if (rc < 0)
			break;
	}
	return rc < 0 ? rc : describe(r, &d);
}

static int read_lines(const char *text, size_t length, int conf, struct ddl__topology **topology, struct ddl_error *err)
{
	struct reader r = { .at = text, .end_of_text = text + length, .next = 1, .conf = conf, .err = err };
	int rc = 0;

	r.builder = ddl__builder_create();
	if (!r.builder)
		return ddl__error_memory(err);
	while (!rc && next_line(&r)) {
		rc = read_line(&r);
		r.at = r.end < r.end_of_text ? r.end + 1 : r.end;
	}
	if (!rc && r.subject == SUBJECT_NONE)
		rc = ddl__topology_create_flat(topology, err);
	else if (!rc)
		rc = ddl__builder_finish(r.builder, r.subject == SUBJECT_BLOCK ? "block" : "tree", topology, err);
	ddl__builder_destroy(r.builder);
	return rc;
}

int ddl__topology_read_controller(const char *text, size_t length, struct ddl__topology **topology, struct ddl_error *err)
{
	return read_lines(text, length, 0, topology, err);
}

int ddl__topology_read_conf(const char *text, size_t length, struct ddl__topology **topology, struct ddl_error *err)
{
	return read_lines(text, length, 1, topology, err);
}
