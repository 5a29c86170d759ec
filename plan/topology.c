/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.c - what all topologies have in common, and the reader of files, which tells the forms apart.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "text.h"
#include "topology_build.h"

#define FILE_MAX ((size_t)64 << 20) /* bytes of a topology file */

int ddl__topology_create_flat(struct ddl__topology **topology, struct ddl_error *err)
{
	struct ddl__topology *result = calloc(1, sizeof(*result));

	if (!result)
		return ddl__error_memory(err);
	result->kind = "flat";
	*topology = result;
	return 0;
}

const char *ddl__topology_kind(const struct ddl__topology *topology)
{
	return topology->kind;
}

int ddl__topology_nodes(const struct ddl__topology *topology, char ***names, size_t *n)
{
	struct ddl__vertex **nodes = NULL;
	size_t i, length, bytes = 0, count = topology->root ? ddl__vertex_count(topology->root) : 0;
	char **result, *at;

	nodes = malloc((count + 1) * sizeof(struct ddl__vertex *));
	if (!nodes)
		return -ENOMEM;
	if (count)
		ddl__vertex_collect(topology->root, nodes, 0);
	for (i = 0; i < count; i++)
		bytes += strlen(nodes[i]->name) + 1;
	result = malloc((count + 1) * sizeof(*result) + bytes);
	if (!result) {
		free(nodes);
		return -ENOMEM;
	}
	at = (char *)(result + count + 1);
	for (i = 0; i < count; i++) {
		length = strlen(nodes[i]->name) + 1;
		memcpy(at, nodes[i]->name, length);
		result[i] = at;
		at += length;
	}
	result[count] = NULL;
	free(nodes);
	*names = result;
	*n = count;
	return 0;
}

void ddl__topology_destroy(struct ddl__topology *topology)
{
	if (!topology)
		return;
	ddl__vertex_destroy(topology->root);
	free(topology);
}

/* Whether a word occurs in the text, which is NUL-ended. */
static int has(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

/* The first byte that is neither blank nor in a comment; "" if there is none. */
static const char *first_word(const char *text)
{
	for (;;) {
		text += strspn(text, " \t\r\n");
		if (*text != '#')
			return text;
		text += strcspn(text, "\n");
	}
}

static int read_any(const struct ddl__text *text, struct ddl__topology **topology, struct ddl_error *err)
{
	const char *first = first_word(text->bytes ? text->bytes : "");

	if (*first == '-')
		return ddl__topology_read_yaml(text->bytes, text->used, NULL, topology, err);
	if (has(first, " Level=") || has(first, " BlockIndex=") || !strncmp(first, "No topology", 11))
		return ddl__topology_read_controller(text->bytes, text->used, topology, err);
	return ddl__topology_read_conf(text->bytes, text->used, topology, err);
}

static int read_file(const char *path, struct ddl__text *text, struct ddl_error *err)
{
	FILE *file = fopen(path, "re");
	char buffer[4096];
	size_t n;
	int rc = 0, failed;

	if (!file) {
		failed = errno;
		return ddl__error_set(err, -failed, "cannot open the topology file %.300s: %s; check the path and who may read it",
				      path, strerror(failed));
	}
	do {
		n = fread(buffer, 1, sizeof(buffer), file);
		rc = ddl__text_put(text, buffer, n);
	} while (!rc && n == sizeof(buffer) && text->used <= FILE_MAX);
	failed = ferror(file) ? errno : 0;
	fclose(file);
	if (rc < 0)
		return ddl__error_memory(err);
	if (failed)
		return ddl__error_set(err, -failed, "cannot read the topology file %.300s: %s", path, strerror(failed));
	if (text->used > FILE_MAX)
		return ddl__error_set(err, -EBADMSG, "the topology file %.300s has more than %zu bytes", path, FILE_MAX);
	if (memchr(text->bytes, '\0', text->used))
		return ddl__error_set(err, -EBADMSG, "the topology file %.300s is no text", path);
	return 0;
}

int ddl__topology_load(const char *path, struct ddl__topology **topology, struct ddl_error *err)
{
	struct ddl__text text = { NULL, 0, 0 };
	struct ddl_error inner = { 0, "" };
	int rc = read_file(path, &text, err);

	if (!rc) {
		rc = read_any(&text, topology, &inner);
		if (rc < 0)
			ddl__error_set(err, rc, "%.200s: %.300s", path, inner.text);
	}
	free(text.bytes);
	return rc;
}
