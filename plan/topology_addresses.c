/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology_addresses.c - the tree from what each node knows of its own place: SLURM_TOPOLOGY_ADDR and _PATTERN.
 *
 *     core[1-2].agg1.leaf2.n3    switch.switch.switch.node         b2.n3    block.node         n1    node
 *
 * Nodes of one leaf switch have the same words in front of their names, so each such prefix is read once. Where a level has
 * several switches, all of them get the first switch of the next level as a child, and the first gets all of them: that is
 * enough for the builder to join them, and grows with the sum of the switches, not with their product.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hostlist.h"
#include "intern.h"
#include "topology_build.h"

#define WIDTH_MAX 1024u /* switches side by side in one address */

enum kind {
	KIND_FLAT = 0,
	KIND_TREE = 1,
	KIND_BLOCK = 2,
};

static const char *const kind_names[] = { "flat", "tree", "block" };

struct reader {
	struct ddl__builder *builder;
	struct ddl__intern prefixes; /* words in front of the node's name */
	size_t *leaves;              /* per prefix: the switch that its nodes hang below */
	enum kind kind;
	const struct ddl__node_address *node; /* the one being read */
	size_t index;                         /* of it */
	struct ddl_error *err;
};

static int refuse(struct reader *r, int code, const char *what)
{
	char node[64], address[128], pattern[64];
	const char *p = r->node->pattern ? r->node->pattern : "";

	return ddl__error_set(r->err, code, "node %s: the address \"%s\" of pattern \"%s\" %s",
			      ddl__error_word(node, sizeof(node), r->node->node, strlen(r->node->node)),
			      ddl__error_word(address, sizeof(address), r->node->address, strlen(r->node->address)),
			      ddl__error_word(pattern, sizeof(pattern), p, strlen(p)), what);
}

/* The first dot outside of brackets, or the end. */
static const char *word_end(const char *at)
{
	int inside = 0;

	for (; *at && (inside || *at != '.'); at++) {
		if (*at == '[')
			inside = 1;
		else if (*at == ']')
			inside = 0;
	}
	return at;
}

static size_t count_words(const char *at)
{
	size_t n = 1;

	for (at = word_end(at); *at; at = word_end(at + 1))
		n++;
	return n;
}

/* Reads a pattern: *levels words in front of "node", *kind. */
static int read_pattern(struct reader *r, size_t *levels, enum kind *kind)
{
	const char *at = r->node->pattern, *end;

	*levels = 0;
	*kind = KIND_FLAT;
	if (!at || !*at) {
		*levels = count_words(r->node->address) - 1;
		*kind = *levels ? KIND_TREE : KIND_FLAT;
		return 0;
	}
	for (; *(end = at + strcspn(at, ".")); at = end + 1) {
		if (end - at == 6 && !memcmp(at, "switch", 6) && *kind != KIND_BLOCK)
			*kind = KIND_TREE;
		else if (end - at == 5 && !memcmp(at, "block", 5) && !*levels)
			*kind = KIND_BLOCK;
		else
			return refuse(r, -EOPNOTSUPP, "is of no kind known here; switch.switch.node and block.node are");
		++*levels;
	}
	if (strcmp(at, "node") != 0)
		return refuse(r, -EOPNOTSUPP, "does not end with a node");
	return 0;
}

/* Expands one word to the switches of a level. */
static int read_level(struct reader *r, const char *at, size_t length, char ***names, size_t *n)
{
	int rc = ddl__hostlist_expand(at, length, names, n, NULL);

	if (rc == -EBADMSG)
		return refuse(r, rc, "has a word that is no host list");
	if (rc < 0)
		return ddl__error_memory(r->err);
	if (*n > WIDTH_MAX) {
		free(*names);
		return refuse(r, -EBADMSG, "has too many switches side by side");
	}
	return 0;
}

/* Describes the switches of one level; they hang below the first switch of the level above (NULL: none). */
static int add_level(struct reader *r, char **names, size_t n, char **above, size_t n_above, size_t *first)
{
	size_t i, id = 0;
	int rc = 0;

	for (i = 0; !rc && i < n; i++) {
		rc = ddl__builder_switch(r->builder, names[i], strlen(names[i]), r->index + 1, 1, &id, NULL);
		if (!rc && !i)
			*first = id;
	}
	for (i = 0; !rc && i < n_above; i++) {
		rc = ddl__builder_switch(r->builder, above[i], strlen(above[i]), r->index + 1, 1, &id, NULL);
		if (!rc)
			rc = ddl__builder_children(r->builder, id, names[0], strlen(names[0]), r->index + 1, NULL);
	}
	if (!rc && n_above)
		rc = ddl__builder_switch(r->builder, above[0], strlen(above[0]), r->index + 1, 1, &id, NULL);
	for (i = 1; !rc && n_above && i < n; i++)
		rc = ddl__builder_children(r->builder, id, names[i], strlen(names[i]), r->index + 1, NULL);
	return rc;
}

/* Describes all switches of a prefix of `levels` words. *leaf: the first switch of the last level. */
static int add_prefix(struct reader *r, const char *at, size_t levels, size_t *leaf)
{
	char **names = NULL, **above = NULL;
	size_t i, n = 0, n_above = 0, first_of_level = 0;
	int rc = 0;

	for (i = 0; !rc && i < levels; i++) {
		const char *end = word_end(at);

		rc = read_level(r, at, (size_t)(end - at), &names, &n);
		if (rc < 0)
			break;
		rc = add_level(r, names, n, above, n_above, &first_of_level);
		if (rc == -EBADMSG)
			refuse(r, rc, "has a word that is no name of a switch or block");
		else if (rc < 0)
			ddl__error_memory(r->err);
		free(above);
		above = names;
		n_above = n;
		at = end + 1;
	}
	free(above);
	*leaf = first_of_level;
	return rc;
}

static int add_node(struct reader *r, size_t leaf)
{
	struct ddl_error inner = { 0, "" };
	int rc;

	if (strpbrk(r->node->node, "[],"))
		return refuse(r, -EBADMSG, "belongs to a node whose name has brackets or commas");
	rc = ddl__builder_nodes(r->builder, leaf, r->node->node, strlen(r->node->node), r->index + 1, &inner);
	if (rc == -EBADMSG)
		return refuse(r, rc, "belongs to a node whose name is not possible");
	return rc < 0 ? ddl__error_memory(r->err) : 0;
}

static int read_node(struct reader *r)
{
	const char *address = r->node->address, *at = address;
	size_t i, levels, n_before = r->prefixes.n, prefix;
	enum kind kind;
	int rc = read_pattern(r, &levels, &kind);

	if (rc < 0 || !levels)
		return rc;
	if (r->kind && r->kind != kind)
		return refuse(r, -EBADMSG, "is of another kind than that of the nodes before; all nodes must use one topology");
	r->kind = kind;
	for (i = 0; i < levels; i++) {
		at = word_end(at);
		if (!*at)
			return refuse(r, -EBADMSG, "has fewer words than the pattern");
		at++;
	}
	if (*word_end(at) && strcmp(at, r->node->node) != 0)
		return refuse(r, -EBADMSG, "has more words than the pattern");
	if (ddl__intern_add(&r->prefixes, address, (size_t)(at - address), &prefix) < 0)
		return ddl__error_memory(r->err);
	if (prefix == n_before) {
		rc = add_prefix(r, address, levels, &r->leaves[prefix]);
		if (rc < 0)
			return rc;
	}
	return add_node(r, r->leaves[prefix]);
}

int ddl__topology_read_addresses(const struct ddl__node_address *nodes, size_t n, struct ddl__topology **topology,
				 struct ddl_error *err)
{
	struct reader r = { .err = err };
	int rc = 0;

	r.builder = ddl__builder_create();
	r.leaves = malloc((n ? n : 1) * sizeof(*r.leaves));
	if (!r.builder || !r.leaves)
		rc = ddl__error_memory(err);
	for (r.index = 0; !rc && r.index < n; r.index++) {
		r.node = &nodes[r.index];
		if (r.node->address && *r.node->address)
			rc = read_node(&r);
	}
	if (!rc && r.kind == KIND_FLAT)
		rc = ddl__topology_create_flat(topology, err);
	else if (!rc)
		rc = ddl__builder_finish(r.builder, kind_names[r.kind], topology, err);
	ddl__intern_fini(&r.prefixes);
	ddl__builder_destroy(r.builder);
	free(r.leaves);
	return rc;
}
