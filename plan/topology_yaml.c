/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology_yaml.c - reads topology.yaml of Slurm 25.05 and later: the part of YAML that its documentation uses, and nothing else.
 *
 *     - topology: main
 *       cluster_default: true
 *       tree:
 *         switches:
 *           - switch: root
 *             children: s[1-2]
 *           - switch: s1
 *             nodes: n[1-4]
 *     - topology: other
 *       block:
 *         block_sizes: [4, 16]
 *         blocks:
 *           - block: b1
 *             nodes: n[1-4]
 *     - topology: none
 *       flat: true
 *
 * A line is a key with or without a value, perhaps behind a dash. A stack of frames says which mappings and lists are open and
 * in which column their keys or dashes stand. The text is read twice: first to learn which topologies there are, then to build
 * the chosen one; so a kind that is not known here does no harm in a topology that nobody chose.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "error.h"
#include "topology_build.h"

#define FRAMES_MAX 6u       /* list of topologies, topology, tree, switches, switch, and what a switch cannot have */
#define NOWHERE    SIZE_MAX /* a column that the next line will tell */

enum context {
	TOPOLOGIES, /* list */
	TOPOLOGY,   /* mapping: topology, cluster_default, tree | block | flat */
	TREE,       /* mapping: switches */
	SWITCHES,   /* list */
	SWITCH,     /* mapping: switch, children | nodes */
	BLOCK,      /* mapping: block_sizes, blocks */
	SIZES,      /* list of numbers, which are not needed */
	BLOCKS,     /* list */
	ONE_BLOCK,  /* mapping: block, nodes */
	IGNORED,    /* anything, in a topology that is not chosen */
};

struct frame {
	enum context context;
	size_t column; /* of its keys or dashes; NOWHERE: not known yet */
	size_t parent; /* column of the key that opened it */
};

struct word { /* borrowed from the text; NULL: not there */
	const char *text;
	size_t length;
};

struct item { /* the switch or block being read */
	struct word name;
	struct word children;
	struct word nodes;
	size_t line;
};

struct line {
	size_t column; /* of the key, or of the dash */
	int dash;      /* begins with a dash */
	size_t inner;  /* behind a dash: column of the key */
	struct word text;
};

struct reader {
	const char *at;
	const char *end;
	size_t number; /* of the line */
	struct frame frames[FRAMES_MAX];
	size_t n_frames;
	size_t n_topologies; /* so far */
	size_t chosen;       /* which one is built; NOWHERE: none, in the first reading */
	size_t wanted;       /* first reading: the one found by name or default; NOWHERE: none yet */
	struct word name;    /* wanted; NULL: the default */
	enum context kind;   /* of the chosen one: TREE, BLOCK, IGNORED (flat); TOPOLOGY: not said yet */
	struct item item;
	struct ddl__builder *builder;
	struct ddl_error *err;
};

static int refuse(struct reader *r, int code, const struct word *word, const char *what)
{
	char quoted[80];

	return ddl__error_set(r->err, code, "line %zu: \"%s\" %s", r->number,
			      ddl__error_word(quoted, sizeof(quoted), word->text, word->length), what);
}

static int is(const struct word *word, const char *name)
{
	return word->length == strlen(name) && !memcmp(word->text, name, word->length);
}

static int is_list(enum context context)
{
	return context == TOPOLOGIES || context == SWITCHES || context == SIZES || context == BLOCKS;
}

/* Whether the topology being read is the one to build. */
static int building(const struct reader *r)
{
	return r->chosen != NOWHERE && r->n_topologies == r->chosen + 1;
}

/* ------------------------------------------------------------------ lines */

static void trim(struct word *word)
{
	while (word->length && (*word->text == ' ' || *word->text == '\t')) {
		word->text++;
		word->length--;
	}
	while (word->length && strchr(" \t\r", word->text[word->length - 1]))
		word->length--;
}

/* Cuts a comment off: a # at the beginning or behind a blank, outside of quotation marks. */
static void cut_comment(struct word *word)
{
	char quote = 0;
	size_t i;

	for (i = 0; i < word->length; i++) {
		char c = word->text[i];

		if (quote) {
			quote = c == quote ? 0 : quote;
		} else if (c == '#' && (!i || strchr(" \t", word->text[i - 1]))) {
			word->length = i;
			return;
		} else if ((c == '"' || c == '\'') && (!i || strchr(" \t", word->text[i - 1]))) {
			quote = c;
		}
	}
}

/* Takes the next line with contents. Returns 1; 0 at the end; -EBADMSG. */
static int next_line(struct reader *r, struct line *line)
{
	const char *newline;
	struct word word;

	while (r->at < r->end) {
		newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
		word = (struct word){ r->at, (size_t)((newline ? newline : r->end) - r->at) };
		r->at = newline ? newline + 1 : r->end;
		r->number++;
		if (memchr(word.text, '\0', word.length))
			return refuse(r, -EBADMSG, &word, "holds a NUL byte");
		cut_comment(&word);
		for (line->column = 0; line->column < word.length && word.text[line->column] == ' ';)
			line->column++;
		if (line->column < word.length && word.text[line->column] == '\t')
			return refuse(r, -EBADMSG, &word, "is indented with tabs; YAML wants blanks");
		line->text = (struct word){ word.text + line->column, word.length - line->column };
		line->inner = line->column;
		trim(&line->text);
		if (!line->text.length || (is(&line->text, "---") && !r->n_topologies))
			continue;
		if (is(&line->text, "..."))
			return 0;
		line->dash = *line->text.text == '-' && line->text.length > 1 && line->text.text[1] == ' ';
		if (line->dash) {
			const char *dash = line->text.text;

			line->text.text++;
			line->text.length--;
			trim(&line->text);
			line->inner += (size_t)(line->text.text - dash);
		}
		return 1;
	}
	return 0;
}

/* A value without its quotation marks. */
static int unquote(struct reader *r, struct word *value)
{
	char quote = value->length ? *value->text : 0;

	if (quote && strchr("&*!|>{%@`", quote))
		return refuse(r, -EOPNOTSUPP, value, "uses a part of YAML that is not read here");
	if (quote != '"' && quote != '\'')
		return 0;
	if (value->length < 2 || value->text[value->length - 1] != quote || memchr(value->text + 1, quote, value->length - 2) ||
	    memchr(value->text, '\\', value->length))
		return refuse(r, -EBADMSG, value, "is not quoted well");
	value->text++;
	value->length -= 2;
	return 0;
}

/* Cuts "key: value" in two; a value that is not there has length 0. */
static int split_key(struct reader *r, const struct word *text, struct word *key, struct word *value)
{
	size_t i;

	for (i = 0; i < text->length; i++)
		if (text->text[i] == ':' && (i + 1 == text->length || text->text[i + 1] == ' '))
			break;
	if (i == text->length)
		return refuse(r, -EBADMSG, text, "is not of the form key: value");
	*key = (struct word){ text->text, i };
	*value = (struct word){ text->text + i + 1, text->length - i - 1 };
	trim(value);
	return unquote(r, value);
}

/* ------------------------------------------------------------------ what the lines say */

static int open_frame(struct reader *r, enum context context, size_t column, size_t parent)
{
	struct word nothing = { "", 0 };

	if (r->n_frames == FRAMES_MAX)
		return refuse(r, -EBADMSG, &nothing, "is nested too deeply");
	r->frames[r->n_frames++] = (struct frame){ context, column, parent };
	return 0;
}

/* Hands the switch or block that was read to the builder. */
static int finish_item(struct reader *r)
{
	struct item item = r->item;
	size_t id;
	int rc;

	memset(&r->item, 0, sizeof(r->item));
	if (!building(r))
		return 0;
	if (!item.name.text)
		return ddl__error_set(r->err, -EBADMSG, "line %zu: the name of this switch or block is missing", item.line);
	if (!item.children.text == !item.nodes.text)
		return ddl__error_set(r->err, -EBADMSG, "line %zu: a switch has either children or nodes, a block has nodes",
				      item.line);
	rc = ddl__builder_switch(r->builder, item.name.text, item.name.length, item.line, 0, &id, r->err);
	if (rc < 0)
		return rc;
	if (item.children.text)
		return ddl__builder_children(r->builder, id, item.children.text, item.children.length, item.line, r->err);
	return ddl__builder_nodes(r->builder, id, item.nodes.text, item.nodes.length, item.line, r->err);
}

static int close_frame(struct reader *r)
{
	enum context context = r->frames[--r->n_frames].context;

	return context == SWITCH || context == ONE_BLOCK ? finish_item(r) : 0;
}

static int set_once(struct reader *r, struct word *slot, const struct word *key, const struct word *value)
{
	if (slot->text)
		return refuse(r, -EBADMSG, key, "is there twice");
	if (!value->length)
		return refuse(r, -EBADMSG, key, "has no value");
	*slot = *value;
	return 0;
}

/* Says that the chosen topology is of a kind; one that is opened by its key gets a frame. */
static int set_kind(struct reader *r, enum context kind, const struct word *key)
{
	if (!building(r))
		return 0;
	if (r->kind != TOPOLOGY)
		return refuse(r, -EBADMSG, key, "is a second kind for one topology");
	r->kind = kind;
	return 0;
}

static int is_true(const struct word *value)
{
	return is(value, "true") || is(value, "True") || is(value, "TRUE");
}

static int topology_key(struct reader *r, const struct word *key, const struct word *value, size_t column)
{
	int rc;

	if (is(key, "topology")) {
		if (r->name.text && r->wanted == NOWHERE && value->length == r->name.length &&
		    !memcmp(value->text, r->name.text, value->length))
			r->wanted = r->n_topologies - 1;
		return 0;
	}
	if (is(key, "cluster_default")) {
		if (!r->name.text && r->wanted == NOWHERE && is_true(value))
			r->wanted = r->n_topologies - 1;
		return 0;
	}
	if (is(key, "flat"))
		return is_true(value) ? set_kind(r, IGNORED, key) : 0;
	if (!is(key, "tree") && !is(key, "block")) {
		if (building(r))
			return refuse(r, -EOPNOTSUPP, key, "is no kind of topology known here; tree, block and flat are");
		return value->length ? 0 : open_frame(r, IGNORED, NOWHERE, column);
	}
	if (value->length)
		return refuse(r, -EBADMSG, key, "has a value where an indented mapping belongs");
	rc = set_kind(r, is(key, "tree") ? TREE : BLOCK, key);
	return rc < 0 ? rc : open_frame(r, is(key, "tree") ? TREE : BLOCK, NOWHERE, column);
}

/* A list of block sizes on one line; the sizes are not needed. */
static int check_sizes(struct reader *r, const struct word *value)
{
	size_t i;

	for (i = 0; i < value->length; i++)
		if (!strchr("[] ,0123456789", value->text[i]))
			return refuse(r, -EBADMSG, value, "is no list of block sizes");
	return 0;
}

static int item_key(struct reader *r, enum context context, const struct word *key, const struct word *value)
{
	if (is(key, context == SWITCH ? "switch" : "block"))
		return set_once(r, &r->item.name, key, value);
	if (is(key, "nodes"))
		return set_once(r, &r->item.nodes, key, value);
	if (context == SWITCH && is(key, "children"))
		return set_once(r, &r->item.children, key, value);
	return refuse(r, -EOPNOTSUPP, key,
		      context == SWITCH ? "is not known here; switch, children and nodes are"
					: "is not known here; block and nodes are");
}

/* Opens the list behind a key that must have no value. */
static int open_list(struct reader *r, enum context context, const struct word *key, const struct word *value, size_t column)
{
	if (value->length)
		return refuse(r, -EBADMSG, key, "has a value where an indented list belongs");
	return open_frame(r, context, NOWHERE, column);
}

static int take_key(struct reader *r, const struct word *text, size_t column)
{
	enum context context = r->frames[r->n_frames - 1].context;
	struct word key = { "", 0 }, value = { "", 0 };
	int rc = split_key(r, text, &key, &value);

	if (rc < 0)
		return rc;
	switch (context) {
	case TOPOLOGY:
		return topology_key(r, &key, &value, column);
	case TREE:
		if (is(&key, "switches"))
			return open_list(r, SWITCHES, &key, &value, column);
		return refuse(r, -EOPNOTSUPP, &key, "is not known here; a tree has switches");
	case BLOCK:
		if (is(&key, "blocks"))
			return open_list(r, BLOCKS, &key, &value, column);
		if (is(&key, "block_sizes"))
			return value.length ? check_sizes(r, &value) : open_frame(r, SIZES, NOWHERE, column);
		return refuse(r, -EOPNOTSUPP, &key, "is not known here; a block topology has block_sizes and blocks");
	case SWITCH:
	case ONE_BLOCK:
		return item_key(r, context, &key, &value);
	default:
		return refuse(r, -EBADMSG, text, "is a key where a list belongs");
	}
}

/* A line that begins with a dash, in the list that is on top. */
static int take_item(struct reader *r, const struct line *line)
{
	enum context list = r->frames[r->n_frames - 1].context, inner;
	int rc;

	if (list == SIZES)
		return check_sizes(r, &line->text);
	inner = list == TOPOLOGIES ? TOPOLOGY : list == SWITCHES ? SWITCH : ONE_BLOCK;
	if (inner == TOPOLOGY)
		r->n_topologies++;
	else
		r->item.line = r->number;
	rc = open_frame(r, inner, line->inner, line->column);
	return rc < 0 ? rc : take_key(r, &line->text, line->inner);
}

/* Whether a line belongs to the frame on top; a frame without a column takes it from the line. */
static int belongs(struct frame *top, const struct line *line)
{
	int deeper = line->column > top->parent || (line->dash && line->column == top->parent);

	if (top->context == IGNORED)
		return deeper;
	if (top->column == NOWHERE && line->dash == is_list(top->context) && deeper)
		top->column = line->column;
	return top->column == line->column && line->dash == is_list(top->context);
}

static int take_line(struct reader *r, const struct line *line)
{
	int rc;

	while (r->n_frames > 1 && !belongs(&r->frames[r->n_frames - 1], line)) {
		rc = close_frame(r);
		if (rc < 0)
			return rc;
	}
	if (r->n_frames == 1) {
		if (r->frames[0].column == NOWHERE)
			r->frames[0].column = line->column;
		if (!line->dash || line->column != r->frames[0].column)
			return refuse(r, -EBADMSG, &line->text, "is not indented as what is around it");
	}
	if (r->frames[r->n_frames - 1].context == IGNORED)
		return 0;
	return line->dash ? take_item(r, line) : take_key(r, &line->text, line->column);
}

static int read_all(struct reader *r, const char *text, size_t length, size_t chosen)
{
	struct line line;
	int rc;

	r->at = text;
	r->end = text + length;
	r->number = 0;
	r->n_topologies = 0;
	r->chosen = chosen;
	r->kind = TOPOLOGY;
	r->frames[0] = (struct frame){ TOPOLOGIES, NOWHERE, 0 };
	r->n_frames = 1;
	memset(&r->item, 0, sizeof(r->item));
	while ((rc = next_line(r, &line)) > 0) {
		rc = take_line(r, &line);
		if (rc < 0)
			break;
	}
	while (!rc && r->n_frames > 1)
		rc = close_frame(r);
	return rc;
}

/* The number of the topology to build. */
static int choose(struct reader *r, size_t *chosen)
{
	char quoted[80];

	if (!r->n_topologies)
		return ddl__error_set(r->err, -EBADMSG, "the file describes no topology; it looks like - topology: NAME");
	if (r->wanted == NOWHERE && r->name.text)
		return ddl__error_set(r->err, -ENOENT, "there is no topology named \"%s\" among the %zu of the file",
				      ddl__error_word(quoted, sizeof(quoted), r->name.text, r->name.length), r->n_topologies);
	*chosen = r->wanted == NOWHERE ? 0 : r->wanted;
	return 0;
}

int ddl__topology_read_yaml(const char *text, size_t length, const char *name, struct ddl__topology **topology,
			    struct ddl_error *err)
{
	struct reader r = { .wanted = NOWHERE, .name = { name, name ? strlen(name) : 0 }, .err = err };
	size_t chosen = 0;
	int rc;

	r.builder = ddl__builder_create();
	if (!r.builder)
		return ddl__error_memory(err);
	rc = read_all(&r, text, length, NOWHERE);
	if (!rc)
		rc = choose(&r, &chosen);
	if (!rc)
		rc = read_all(&r, text, length, chosen);
	if (!rc && (r.kind == TREE || r.kind == BLOCK))
		rc = ddl__builder_finish(r.builder, r.kind == TREE ? "tree" : "block", topology, err);
	else if (!rc)
		rc = ddl__topology_create_flat(topology, err);
	ddl__builder_destroy(r.builder);
	return rc;
}
