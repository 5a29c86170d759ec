/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c - makes, walks and frees the vertices of topologies and plans.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hostlist.h"
#include "tree.h"

struct ddl__vertex *ddl__vertex_create(const char *name, size_t length)
{
	struct ddl__vertex *vertex = calloc(1, sizeof(*vertex));

	if (!vertex)
		return NULL;
	vertex->name = malloc(length + 1);
	if (!vertex->name) {
		free(vertex);
		return NULL;
	}
	memcpy(vertex->name, name, length);
	vertex->name[length] = '\0';
	return vertex;
}

int ddl__vertex_add(struct ddl__vertex *parent, struct ddl__vertex *child)
{
	size_t n = parent->n_children;
	struct ddl__vertex **grown;

	/* There is room up to the next power of two, so it is full exactly when n is one. */
	if (!(n & (n - 1))) {
		grown = realloc(parent->children, (n ? 2 * n : 1) * sizeof(struct ddl__vertex *));
		if (!grown)
			return -ENOMEM;
		parent->children = grown;
	}
	parent->children[parent->n_children++] = child;
	child->parent = parent;
	return 0;
}

void ddl__vertex_destroy(struct ddl__vertex *vertex)
{
	size_t i;

	if (!vertex)
		return;
	for (i = 0; i < vertex->n_children; i++)
		ddl__vertex_destroy(vertex->children[i]);
	free(vertex->children);
	free(vertex->name);
	free(vertex);
}

/* A name without opening brackets: so the joined agg[1-3] stands where agg1 would. */
static const char *sort_key(const char *name, char *buffer, size_t size)
{
	size_t n = 0;

	if (!strchr(name, '[') || strlen(name) >= size)
		return name;
	for (; *name; name++)
		if (*name != '[')
			buffer[n++] = *name;
	buffer[n] = '\0';
	return buffer;
}

static int compare_vertices(const void *a, const void *b)
{
	const struct ddl__vertex *va = *(struct ddl__vertex *const *)a, *vb = *(struct ddl__vertex *const *)b;
	char key_a[DDL__NAME_MAX + 1], key_b[DDL__NAME_MAX + 1];
	int differ = ddl__name_compare(sort_key(va->name, key_a, sizeof(key_a)), sort_key(vb->name, key_b, sizeof(key_b)));

	if (!differ)
		differ = strcmp(va->name, vb->name);

	/* A switch may bear the name of a node: then it goes first, whatever the order in which they came. */
	return differ ? differ : !va->n_children - !vb->n_children;
}

void ddl__vertex_sort(struct ddl__vertex *vertex)
{
	size_t i;

	if (vertex->n_children > 1)
		qsort(vertex->children, vertex->n_children, sizeof(struct ddl__vertex *), compare_vertices);
	for (i = 0; i < vertex->n_children; i++)
		ddl__vertex_sort(vertex->children[i]);
}

size_t ddl__vertex_depth(const struct ddl__vertex *vertex)
{
	size_t i, depth, deepest = 0;

	for (i = 0; i < vertex->n_children; i++) {
		depth = ddl__vertex_depth(vertex->children[i]);
		deepest = depth > deepest ? depth : deepest;
	}
	return vertex->n_children ? deepest + 1 : 0;
}

size_t ddl__vertex_count(const struct ddl__vertex *vertex)
{
	size_t i, n = vertex->n_children ? 0 : 1;

	for (i = 0; i < vertex->n_children; i++)
		n += ddl__vertex_count(vertex->children[i]);
	return n;
}

size_t ddl__vertex_collect(struct ddl__vertex *vertex, struct ddl__vertex **nodes, size_t n)
{
	size_t i;

	if (!vertex->n_children)
		nodes[n++] = vertex;
	for (i = 0; i < vertex->n_children; i++)
		n = ddl__vertex_collect(vertex->children[i], nodes, n);
	return n;
}

int ddl__name_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._:+@/-", c));
}

int ddl__node_name_valid(const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++)
		if (!ddl__name_plain(name[i]) || name[i] == '/')
			return 0;
	return i > 0 && i <= DDL__NAME_MAX;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int ddl__names_check(const char *const *names, size_t n, int code, struct ddl_error *err)
{
	const char **sorted;
	char quoted[80];
	size_t i;
	int rc = 0;

	for (i = 0; i < n; i++)
		if (!ddl__node_name_valid(names[i]))
			return ddl__error_set(err, code, "the node name \"%s\" is not possible; letters, digits and ._:+@- are",
					      ddl__error_word(quoted, sizeof(quoted), names[i], strlen(names[i])));
	sorted = malloc((n ? n : 1) * sizeof(*sorted));
	if (!sorted)
		return ddl__error_memory(err);
	if (n)
		memcpy(sorted, names, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_strings);
	for (i = 1; !rc && i < n; i++)
		if (!strcmp(sorted[i - 1], sorted[i]))
			rc = ddl__error_set(err, code, "the node %s is named twice; name each node once",
					    ddl__error_word(quoted, sizeof(quoted), sorted[i], strlen(sorted[i])));
	free(sorted);
	return rc;
}
