/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology_build.c - from descriptions of switches, in any order, to one tree.
 *
 * Real fabrics are no trees: every leaf switch hangs below several spines, a node may hang below one leaf switch per rail.
 * Switches that share a child are joined (union-find) until every child has one parent; a joined vertex bears the host list of
 * its members. Joining goes up one level a pass, so the passes are bounded by the depth that is allowed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hostlist.h"
#include "intern.h"
#include "topology_build.h"

#define NONE      SIZE_MAX
#define EDGES_MAX 4194304u /* links of one topology */

struct edge {
	size_t parent; /* a switch */
	size_t child;  /* a switch or node */
	int is_node;   /* the child is a node */
};

struct info {           /* of a switch */
	size_t line;    /* where it is described, or first named if it is not */
	int described;  /* a line describes it */
	uint64_t speed; /* of its uplink; 0 not known */
	size_t joined;  /* union-find: the switch it was joined to; itself: it stands for the others */
	size_t above;   /* of one that stands for others: the parent; NONE: a top */
	struct ddl__vertex *vertex;
};

struct ddl__builder {
	struct ddl__intern switches;
	struct ddl__intern nodes;
	struct info *info; /* of the switches */
	size_t info_capacity;
	struct edge *edges;
	size_t n_edges;
	size_t edge_capacity;
};

struct ddl__builder *ddl__builder_create(void)
{
	return calloc(1, sizeof(struct ddl__builder));
}

void ddl__builder_destroy(struct ddl__builder *builder)
{
	if (!builder)
		return;
	ddl__intern_fini(&builder->switches);
	ddl__intern_fini(&builder->nodes);
	free(builder->info);
	free(builder->edges);
	free(builder);
}

/* The number of a switch, described or not. Returns 0 or -ENOMEM. */
static int find_switch(struct ddl__builder *builder, const char *name, size_t length, size_t line, size_t *id)
{
	struct info *info;
	size_t capacity;

	if (ddl__intern_add(&builder->switches, name, length, id) < 0)
		return -ENOMEM;
	/* One more than there are names has no info yet, also after an allocation failed. */
	if (builder->switches.n > builder->info_capacity) {
		capacity = builder->info_capacity ? 2 * builder->info_capacity : 64;
		info = realloc(builder->info, capacity * sizeof(*info));
		if (!info)
			return -ENOMEM;
		memset(info + builder->info_capacity, 0, (capacity - builder->info_capacity) * sizeof(*info));
		builder->info = info;
		builder->info_capacity = capacity;
	}
	if (!builder->info[*id].line)
		builder->info[*id].line = line;
	return 0;
}

int ddl__builder_switch(struct ddl__builder *builder, const char *name, size_t length, size_t line, int again, size_t *id,
			struct ddl_error *err)
{
	char quoted[80];
	size_t i;

	ddl__error_word(quoted, sizeof(quoted), name, length);
	if (!length || length > DDL__NAME_MAX)
		return ddl__error_set(err, -EBADMSG, "line %zu: the name of a switch or block has 1 to %u bytes", line,
				      DDL__NAME_MAX);
	for (i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~' || name[i] == '[' || name[i] == ']' || name[i] == ',')
			return ddl__error_set(err, -EBADMSG, "line %zu: \"%s\" is no name of one switch or block", line, quoted);
	if (find_switch(builder, name, length, line, id) < 0)
		return ddl__error_memory(err);
	if (builder->info[*id].described && !again)
		return ddl__error_set(err, -EBADMSG, "line %zu: %s is already described in line %zu", line, quoted,
				      builder->info[*id].line);
	builder->info[*id].described = 1;
	builder->info[*id].line = line;
	return 0;
}

void ddl__builder_speed(struct ddl__builder *builder, size_t id, uint64_t speed)
{
	builder->info[id].speed = speed == 1 ? 0 : speed;
}

static int add_edge(struct ddl__builder *builder, size_t parent, size_t child, int is_node)
{
	struct edge *edges;
	size_t capacity;

	if (builder->n_edges == builder->edge_capacity) {
		capacity = builder->edge_capacity ? 2 * builder->edge_capacity : 256;
		edges = realloc(builder->edges, capacity * sizeof(*edges));
		if (!edges)
			return -ENOMEM;
		builder->edges = edges;
		builder->edge_capacity = capacity;
	}
	builder->edges[builder->n_edges++] = (struct edge){ parent, child, is_node };
	return 0;
}

static int add_list(struct ddl__builder *builder, size_t id, const char *list, size_t length, size_t line, int is_node,
		    struct ddl_error *err)
{
	struct ddl_error inner = { 0, "" };
	size_t i, n, child = 0;
	char **names;
	int rc = ddl__hostlist_expand(list, length, &names, &n, &inner);

	if (rc == -EBADMSG)
		return ddl__error_set(err, rc, "line %zu, below %s: %.380s", line, builder->switches.names[id], inner.text);
	if (rc < 0)
		return ddl__error_memory(err);
	if (n > EDGES_MAX - builder->n_edges)
		rc = ddl__error_set(err, -EBADMSG, "line %zu: too many links; at most %u are possible", line, EDGES_MAX);
	for (i = 0; !rc && i < n; i++) {
		if (is_node)
			rc = ddl__intern_add(&builder->nodes, names[i], strlen(names[i]), &child);
		else
			rc = find_switch(builder, names[i], strlen(names[i]), line, &child);
		if (!rc)
			rc = add_edge(builder, id, child, is_node);
		if (rc < 0)
			ddl__error_memory(err);
	}
	free(names);
	return rc;
}

int ddl__builder_children(struct ddl__builder *builder, size_t id, const char *list, size_t length, size_t line,
			  struct ddl_error *err)
{
	return add_list(builder, id, list, length, line, 0, err);
}

int ddl__builder_nodes(struct ddl__builder *builder, size_t id, const char *list, size_t length, size_t line, struct ddl_error *err)
{
	return add_list(builder, id, list, length, line, 1, err);
}

/* ------------------------------------------------------------------ joining */

/* The switch that stands for one. Halves the way while it goes. */
static size_t find(struct ddl__builder *builder, size_t id)
{
	struct info *info = builder->info;

	while (info[id].joined != id) {
		info[id].joined = info[info[id].joined].joined;
		id = info[id].joined;
	}
	return id;
}

/*
 * One pass: joins the parents of every child that has several. above_node: per node, its parent. Returns how many were joined.
 * The lower number stands for the others; which one does not matter, since names are sorted later.
 */
static size_t join_pass(struct ddl__builder *builder, size_t *above_node)
{
	size_t i, parent, *above, joined = 0;

	for (i = 0; i < builder->nodes.n; i++)
		above_node[i] = NONE;
	for (i = 0; i < builder->switches.n; i++)
		builder->info[i].above = NONE;
	for (i = 0; i < builder->n_edges; i++) {
		const struct edge *edge = &builder->edges[i];

		parent = find(builder, edge->parent);
		above = edge->is_node ? &above_node[edge->child] : &builder->info[find(builder, edge->child)].above;
		if (*above == NONE) {
			*above = parent;
			continue;
		}
		*above = find(builder, *above);
		if (*above == parent)
			continue;
		joined++;
		if (*above < parent)
			builder->info[parent].joined = *above;
		else
			builder->info[*above].joined = parent;
		*above = find(builder, parent);
	}
	return joined;
}

static int refuse_depth(struct ddl__builder *builder, size_t id, struct ddl_error *err)
{
	char quoted[80];
	const char *name = builder->switches.names[id];

	return ddl__error_set(err, -EBADMSG, "line %zu: %s lies below itself or below more than %u levels of switches",
			      builder->info[id].line, ddl__error_word(quoted, sizeof(quoted), name, strlen(name)),
			      DDL__PLAN_DEPTH_MAX);
}

static int join(struct ddl__builder *builder, size_t *above_node, struct ddl_error *err)
{
	size_t i, id, level, passes = 0;

	for (i = 0; i < builder->switches.n; i++) {
		builder->info[i].joined = i;
		if (!builder->info[i].described) {
			char quoted[80];
			const char *name = builder->switches.names[i];

			return ddl__error_set(err, -EBADMSG, "line %zu: the switch %s is named here and described nowhere",
					      builder->info[i].line, ddl__error_word(quoted, sizeof(quoted), name, strlen(name)));
		}
	}
	while (join_pass(builder, above_node))
		if (++passes > DDL__PLAN_DEPTH_MAX + 1)
			return refuse_depth(builder, 0, err);
	for (i = 0; i < builder->switches.n; i++) {
		level = 0;
		for (id = find(builder, i); id != NONE; id = builder->info[id].above) {
			if (level++ == DDL__PLAN_DEPTH_MAX)
				return refuse_depth(builder, i, err);
			builder->info[id].above = builder->info[id].above == NONE ? NONE : find(builder, builder->info[id].above);
		}
	}
	return 0;
}

/* ------------------------------------------------------------------ the tree */

struct member {
	size_t group;     /* the switch that stands for it */
	const char *name; /* borrowed */
};

static int compare_members(const void *a, const void *b)
{
	const struct member *ma = a, *mb = b;

	if (ma->group != mb->group)
		return ma->group < mb->group ? -1 : 1;
	return ddl__name_compare(ma->name, mb->name);
}

/* The vertex of the switches names[0...n-1] that were joined. NULL: no memory. */
static struct ddl__vertex *make_vertex(const char *const *names, size_t n)
{
	struct ddl__vertex *vertex;
	char *list, shorter[DDL__NAME_MAX + 32];

	if (n == 1)
		return ddl__vertex_create(names[0], strlen(names[0]));
	if (ddl__hostlist_compress(names, n, &list) < 0)
		return NULL;
	if (strlen(list) <= DDL__NAME_MAX) {
		vertex = ddl__vertex_create(list, strlen(list));
	} else {
		snprintf(shorter, sizeof(shorter), "%.*s+%zu", (int)(DDL__NAME_MAX - 21), names[0], n - 1);
		vertex = ddl__vertex_create(shorter, strlen(shorter));
	}
	free(list);
	return vertex;
}

/* Makes the vertices of all switches. They are freed with the builder's info by the caller on failure. */
static int make_switches(struct ddl__builder *builder)
{
	size_t i, k, n = builder->switches.n;
	struct member *members = malloc((n ? n : 1) * sizeof(*members));
	const char **names = malloc((n ? n : 1) * sizeof(*names));
	struct info *info;
	int rc = members && names ? 0 : -ENOMEM;

	for (i = 0; !rc && i < n; i++)
		members[i] = (struct member){ find(builder, i), builder->switches.names[i] };
	if (!rc)
		qsort(members, n, sizeof(*members), compare_members);
	for (i = 0; !rc && i < n; i += k) {
		for (k = 0; i + k < n && members[i + k].group == members[i].group; k++)
			names[k] = members[i + k].name;
		info = &builder->info[members[i].group];
		info->vertex = make_vertex(names, k);
		if (!info->vertex)
			rc = -ENOMEM;
	}
	for (i = 0; !rc && i < n; i++) {
		info = &builder->info[find(builder, i)];
		if (builder->info[i].speed > info->vertex->link_speed)
			info->vertex->link_speed = builder->info[i].speed;
	}
	free(names);
	free(members);
	return rc;
}

static int hang(struct ddl__vertex *parent, struct ddl__vertex *child)
{
	if (!child || ddl__vertex_add(parent, child) < 0) {
		ddl__vertex_destroy(child);
		return -ENOMEM;
	}
	return 0;
}

/* Hangs nodes below switches and switches below each other; tops below root. Takes the vertices out of the builder's info. */
static int hang_all(struct ddl__builder *builder, const size_t *above_node, struct ddl__vertex *root)
{
	struct info *info = builder->info;
	struct ddl__vertex *vertex;
	const char *name;
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < builder->nodes.n; i++) {
		name = builder->nodes.names[i];
		rc = hang(info[find(builder, above_node[i])].vertex, ddl__vertex_create(name, strlen(name)));
	}
	for (i = 0; !rc && i < builder->switches.n; i++) {
		if (!info[i].vertex)
			continue;
		vertex = info[i].above == NONE ? root : info[info[i].above].vertex;
		rc = ddl__vertex_add(vertex, info[i].vertex);
	}
	/* From here on the tree owns what hangs; after a failure the rest, each with what is below it, is freed here. */
	for (i = 0; i < builder->switches.n; i++)
		if (info[i].vertex && info[i].vertex->parent)
			info[i].vertex = NULL;
	for (i = 0; i < builder->switches.n; i++) {
		ddl__vertex_destroy(info[i].vertex);
		info[i].vertex = NULL;
	}
	return rc;
}

/* Drops switches without nodes. Returns whether anything is left of a vertex. */
static int prune(struct ddl__vertex *vertex, int is_switch)
{
	size_t i, kept = 0;

	for (i = 0; i < vertex->n_children; i++) {
		if (prune(vertex->children[i], vertex->children[i]->node == NONE))
			vertex->children[kept++] = vertex->children[i];
		else
			ddl__vertex_destroy(vertex->children[i]);
	}
	if (vertex->n_children && !kept) {
		free(vertex->children);
		vertex->children = NULL;
	}
	vertex->n_children = kept;
	return kept || !is_switch;
}

/* Marks switches before pruning: one without children would look like a node. */
static void mark_switches(struct ddl__builder *builder)
{
	size_t i;

	for (i = 0; i < builder->switches.n; i++)
		if (builder->info[i].vertex)
			builder->info[i].vertex->node = NONE;
}

/* Makes topology->root, or leaves it NULL if there is no node. */
static int make_tree(struct ddl__builder *builder, const size_t *above_node, struct ddl__topology *topology)
{
	struct ddl__vertex *root = ddl__vertex_create(DDL__FABRIC, strlen(DDL__FABRIC));
	size_t i;
	int rc = root ? make_switches(builder) : -ENOMEM;

	if (rc < 0) {
		for (i = 0; root && i < builder->switches.n; i++)
			ddl__vertex_destroy(builder->info[i].vertex);
		ddl__vertex_destroy(root);
		return rc;
	}
	mark_switches(builder);
	rc = hang_all(builder, above_node, root);
	if (rc < 0 || !prune(root, 1)) {
		ddl__vertex_destroy(root);
		return rc;
	}
	ddl__vertex_sort(root);
	if (root->n_children == 1) {
		topology->root = root->children[0];
		topology->root->parent = NULL;
		root->n_children = 0;
		ddl__vertex_destroy(root);
	} else {
		topology->root = root;
	}
	return 0;
}

int ddl__builder_finish(struct ddl__builder *builder, const char *kind, struct ddl__topology **topology, struct ddl_error *err)
{
	struct ddl__topology *result;
	size_t *above_node;
	int rc;

	if (builder->nodes.n + builder->switches.n > DDL__VERTICES_MAX)
		return ddl__error_set(err, -EBADMSG, "the topology has %zu switches and nodes; at most %u are possible",
				      builder->nodes.n + builder->switches.n, DDL__VERTICES_MAX);
	above_node = calloc(builder->nodes.n ? builder->nodes.n : 1, sizeof(*above_node));
	if (!above_node)
		return ddl__error_memory(err);
	rc = join(builder, above_node, err);
	if (rc < 0)
		goto free_above;
	rc = ddl__topology_create_flat(&result, err);
	if (rc < 0)
		goto free_above;
	result->kind = kind;
	rc = make_tree(builder, above_node, result);
	if (!rc && result->root && ddl__vertex_depth(result->root) > DDL__PLAN_DEPTH_MAX)
		rc = ddl__error_set(err, -EBADMSG, "the topology has more than %u levels of switches", DDL__PLAN_DEPTH_MAX);
	else if (rc < 0)
		ddl__error_memory(err);
	if (rc < 0)
		ddl__topology_destroy(result);
	else
		*topology = result;

free_above:
	free(above_node);
	return rc;
}
