/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - makes plans: cuts the nodes of a job out of a larger tree.
 *
 * The cut copies what is wanted, hangs nodes that the tree does not have below the root, and then drops every switch with a
 * single child, so that two sources that know the same tree in different detail give the same plan. All of it is O(n log n).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hostlist.h"
#include "plan_build.h"
#include "topology_build.h"
#include "tree.h"

#define NODES_MAX (DDL__VERTICES_MAX / 2) /* nodes of a plan: with its switches it stays below DDL__VERTICES_MAX */

struct wanted {
	const char *name; /* borrowed */
	uint32_t tasks;
	int used; /* the tree has it */
};

struct cut {
	struct wanted *wanted; /* in strcmp() order */
	size_t n;
	const struct ddl__uplink *uplink; /* ratios to set; NULL: those of the tree stay */
};

static int compare_wanted(const void *a, const void *b)
{
	return strcmp(((const struct wanted *)a)->name, ((const struct wanted *)b)->name);
}

static int compare_natural(const void *a, const void *b)
{
	return ddl__name_compare(((const struct wanted *)a)->name, ((const struct wanted *)b)->name);
}

static int cut_init(struct cut *cut, const char *const *names, const uint32_t *tasks, size_t n, struct ddl_error *err)
{
	size_t i;
	int rc;

	if (!n)
		return ddl__error_set(err, -EINVAL, "a plan needs at least one node");
	if (n > NODES_MAX)
		return ddl__error_set(err, -EINVAL, "%zu nodes are too many for a plan; at most %u are possible", n, NODES_MAX);
	rc = ddl__names_check(names, n, -EINVAL, err);
	if (rc < 0)
		return rc;
	cut->n = n;
	cut->wanted = malloc(n * sizeof(*cut->wanted));
	if (!cut->wanted)
		return ddl__error_memory(err);
	for (i = 0; i < n; i++)
		cut->wanted[i] = (struct wanted){ names[i], tasks ? tasks[i] : 0, 0 };
	qsort(cut->wanted, n, sizeof(*cut->wanted), compare_wanted);
	return 0;
}

/* Copies the wanted nodes below a vertex and the switches above them. *copy: NULL if there are none. Returns 0 or -ENOMEM. */
static int cut_copy(struct cut *cut, const struct ddl__vertex *vertex, struct ddl__vertex **copy)
{
	struct wanted key = { vertex->name, 0, 0 }, *found = NULL;
	struct ddl__vertex *result, *child;
	size_t i;
	int rc = 0;

	*copy = NULL;
	if (!vertex->n_children) {
		found = bsearch(&key, cut->wanted, cut->n, sizeof(key), compare_wanted);
		if (!found || found->used)
			return 0;
		found->used = 1;
	}
	result = ddl__vertex_create(vertex->name, strlen(vertex->name));
	if (!result)
		return -ENOMEM;
	result->link_speed = vertex->link_speed;
	result->oversubscribed = vertex->oversubscribed;
	if (cut->uplink && vertex->n_children)
		result->oversubscribed = ddl__uplink_ratio(cut->uplink, ddl__vertex_depth(vertex));
	result->tasks = found ? found->tasks : 0;
	for (i = 0; !rc && i < vertex->n_children; i++) {
		rc = cut_copy(cut, vertex->children[i], &child);
		if (rc < 0 || !child)
			continue;
		rc = ddl__vertex_add(result, child);
		if (rc < 0)
			ddl__vertex_destroy(child);
	}
	if (rc < 0 || (vertex->n_children && !result->n_children)) {
		ddl__vertex_destroy(result);
		return rc;
	}
	*copy = result;
	return 0;
}

/* Hangs a node below root, last. Returns 0 or -ENOMEM. */
static int add_node(struct ddl__vertex *root, const char *name, uint32_t tasks)
{
	struct ddl__vertex *node = ddl__vertex_create(name, strlen(name));

	if (!node || ddl__vertex_add(root, node) < 0) {
		ddl__vertex_destroy(node);
		return -ENOMEM;
	}
	node->tasks = tasks;
	return 0;
}

/* Hangs the nodes that the tree does not have below root, in natural order. Spends the cut. */
static int add_rest(struct cut *cut, struct ddl__vertex *root)
{
	size_t i, n = 0;
	int rc = 0;

	for (i = 0; i < cut->n; i++)
		if (!cut->wanted[i].used)
			cut->wanted[n++] = cut->wanted[i];
	qsort(cut->wanted, n, sizeof(*cut->wanted), compare_natural);
	for (i = 0; !rc && i < n; i++)
		rc = add_node(root, cut->wanted[i].name, cut->wanted[i].tasks);
	return rc;
}

/* Takes the only child of a switch out and frees the switch. The slower of the two links counts; a node is not oversubscribed. */
static struct ddl__vertex *replace_by_child(struct ddl__vertex *vertex)
{
	struct ddl__vertex *child = vertex->children[0];

	if (!child->link_speed || (vertex->link_speed && vertex->link_speed < child->link_speed))
		child->link_speed = vertex->link_speed;
	if (child->n_children && vertex->oversubscribed > child->oversubscribed)
		child->oversubscribed = vertex->oversubscribed;
	child->parent = vertex->parent;
	vertex->n_children = 0;
	ddl__vertex_destroy(vertex);
	return child;
}

/* Drops the switches with a single child below a vertex. */
static void drop_single(struct ddl__vertex *vertex)
{
	size_t i;

	for (i = 0; i < vertex->n_children; i++) {
		while (vertex->children[i]->n_children == 1)
			vertex->children[i] = replace_by_child(vertex->children[i]);
		drop_single(vertex->children[i]);
	}
}

static struct ddl__vertex *drop_root(struct ddl__vertex *root)
{
	if (root->n_children == 1 && root->children[0]->n_children)
		root = replace_by_child(root);
	root->link_speed = root->oversubscribed = 0;
	return root;
}

/* Whether the tree had all nodes that are wanted. */
static int cut_complete(const struct cut *cut)
{
	size_t i;

	for (i = 0; i < cut->n; i++)
		if (!cut->wanted[i].used)
			return 0;
	return 1;
}

/*
 * The wanted part of a tree (NULL: nothing is known). sort: children by name, once single switches are gone, so that names
 * decide that are still there. A root that only holds several tops together goes before the rest is added, so that it does not
 * matter whether the source knew of the other tops.
 */
static int cut_tree(struct cut *cut, const struct ddl__vertex *tree, int sort, struct ddl__vertex **root)
{
	struct ddl__vertex *result = NULL;
	int rc = tree ? cut_copy(cut, tree, &result) : 0;

	if (rc < 0)
		return rc;
	if (!result)
		result = ddl__vertex_create(tree ? tree->name : DDL__FABRIC, strlen(tree ? tree->name : DDL__FABRIC));
	if (!result)
		return -ENOMEM;
	if (!strcmp(result->name, DDL__FABRIC))
		result = drop_root(result);
	while (cut_complete(cut) && result->n_children == 1 && result->children[0]->n_children)
		result = drop_root(result);
	result->link_speed = result->oversubscribed = 0;
	drop_single(result);
	if (sort)
		ddl__vertex_sort(result);
	rc = add_rest(cut, result);
	if (rc < 0) {
		ddl__vertex_destroy(result);
		return rc;
	}
	*root = result;
	return 0;
}

/* order=slurm: one switch, nodes as given. */
static int make_list(const struct ddl__plan_request *request, struct ddl__vertex **root)
{
	struct ddl__vertex *result = ddl__vertex_create(DDL__FABRIC, strlen(DDL__FABRIC));
	size_t i;
	int rc = result ? 0 : -ENOMEM;

	for (i = 0; !rc && i < request->n_nodes; i++)
		rc = add_node(result, request->nodes[i], request->tasks ? request->tasks[i] : 0);
	if (rc < 0) {
		ddl__vertex_destroy(result);
		return rc;
	}
	*root = result;
	return 0;
}

/* Writes plan->nodes, for which there is room, and their indices. */
static void number_nodes(struct ddl__plan *plan)
{
	size_t i;

	ddl__vertex_collect(plan->root, plan->nodes, 0);
	for (i = 0; i < plan->n_nodes; i++)
		plan->nodes[i]->node = i;
}

int ddl__plan_index(struct ddl__plan *plan, int code, struct ddl_error *err)
{
	const char **names;
	size_t i;
	int rc;

	plan->n_nodes = ddl__vertex_count(plan->root);
	plan->nodes = malloc(plan->n_nodes * sizeof(struct ddl__vertex *));
	names = malloc(plan->n_nodes * sizeof(*names));
	if (!plan->nodes || !names) {
		free(names);
		return ddl__error_memory(err);
	}
	number_nodes(plan);
	for (i = 0; i < plan->n_nodes; i++)
		names[i] = plan->nodes[i]->name;
	rc = ddl__names_check(names, plan->n_nodes, code, err);
	free(names);
	return rc;
}

/* Makes a plan around a tree, which it takes over, also on failure. */
static int make_plan(struct ddl__vertex *root, const char *job, const char *source, const struct ddl__options *options,
		     struct ddl__plan **plan, struct ddl_error *err)
{
	struct ddl__plan *result = calloc(1, sizeof(*result));
	int rc;

	if (!result) {
		ddl__vertex_destroy(root);
		return ddl__error_memory(err);
	}
	result->root = root;
	result->options = *options;
	result->job = strdup(job);
	result->source = strdup(source);
	rc = result->job && result->source ? ddl__plan_index(result, -EINVAL, err) : ddl__error_memory(err);
	if (rc < 0) {
		ddl__plan_destroy(result);
		return rc;
	}
	*plan = result;
	return 0;
}

int ddl__plan_create(const struct ddl__plan_request *request, struct ddl__plan **plan, struct ddl_error *err)
{
	const struct ddl__topology *topology = request->topology;
	struct cut cut = { NULL, 0, &request->options->uplink };
	struct ddl__vertex *root;
	char source[128];
	int rc = cut_init(&cut, request->nodes, request->tasks, request->n_nodes, err);

	if (rc < 0)
		return rc;
	if (request->options->order == DDL__ORDER_SLURM)
		rc = make_list(request, &root);
	else
		rc = cut_tree(&cut, topology ? topology->root : NULL, 1, &root);
	free(cut.wanted);
	if (rc < 0)
		return ddl__error_memory(err);
	snprintf(source, sizeof(source), "%s/%s", request->source ? request->source : "none", topology ? topology->kind : "flat");
	return make_plan(root, request->job ? request->job : "", source, request->options, plan, err);
}

int ddl__plan_restrict(const struct ddl__plan *plan, const char *const *names, const uint32_t *tasks, size_t n,
		       struct ddl__plan **result, struct ddl_error *err)
{
	struct cut cut = { NULL, 0, NULL };
	struct ddl__vertex *root;
	int rc = cut_init(&cut, names, tasks, n, err);

	if (rc < 0)
		return rc;
	rc = cut_tree(&cut, plan->root, 0, &root);
	free(cut.wanted);
	if (rc < 0)
		return ddl__error_memory(err);
	rc = make_plan(root, plan->job, plan->source, &plan->options, result, err);
	if (!rc)
		(*result)->rails = plan->rails;
	return rc;
}

void ddl__plan_sort(struct ddl__plan *plan)
{
	ddl__vertex_sort(plan->root);
	number_nodes(plan);
}

uint64_t ddl__plan_digest(const char *text, size_t length)
{
	uint64_t digest = UINT64_C(0xcbf29ce484222325);
	size_t i;

	for (i = 0; i < length; i++)
		digest = (digest ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return digest;
}

int ddl__plan_find_node(const struct ddl__plan *plan, const char *name, size_t *index)
{
	size_t i;

	for (i = 0; i < plan->n_nodes; i++) {
		if (!strcmp(plan->nodes[i]->name, name)) {
			*index = i;
			return 0;
		}
	}
	return -ENOENT;
}

void ddl__plan_destroy(struct ddl__plan *plan)
{
	if (!plan)
		return;
	ddl__vertex_destroy(plan->root);
	free(plan->nodes);
	free(plan->source);
	free(plan->job);
	free(plan);
}
