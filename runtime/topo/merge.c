/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - from what all ranks told to the plan in force.
 *
 * First the ranks are grouped into hosts by the node names they told (sorted, so no step is quadratic). Then rank 0's plan is cut
 * to the hosts that have ranks, or, without one, a plan is built from the places that the hosts told. Every rank does this with
 * the same input in the same order, so every rank ends with the same plan.
 *
 * Names may come with or without domain (n1, n1.cluster): an exact match counts first, then the part before the first dot, if
 * exactly one host and one node of the plan share it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hostlist.h"
#include "merge.h"
#include "plan_build.h"
#include "tree.h"

#define NONE SIZE_MAX

struct host {                       /* a node that has ranks */
	const char *name;           /* as its ranks told it; borrowed from the places */
	size_t first_rank;          /* its lowest rank */
	uint32_t tasks;             /* ranks on it */
	struct ddl__vertex *vertex; /* its node in the plan; NULL: not there (yet) */
};

struct name {             /* an entry of an index by name */
	const char *text; /* borrowed, not necessarily NUL-ended */
	size_t length;    /* bytes of text */
	size_t at;        /* what it leads to */
};

struct hosts {
	struct host *host;    /* n of them, in natural order of their names */
	size_t n;             /* at least 1 */
	size_t *host_of_rank; /* n_ranks indices into host */
};

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	size_t length = x->length < y->length ? x->length : y->length;
	int differ = memcmp(x->text, y->text, length);

	if (differ == 0 && x->length != y->length)
		differ = x->length < y->length ? -1 : 1;
	if (differ == 0 && x->at != y->at) /* qsort keeps no order of its own */
		differ = x->at < y->at ? -1 : 1;
	return differ;
}

static int same_name(const struct name *a, const struct name *b)
{
	return a->length == b->length && !memcmp(a->text, b->text, a->length);
}

static int compare_hosts(const void *a, const void *b)
{
	const struct host *x = a, *y = b;
	int differ = ddl__name_compare(x->name, y->name);

	if (differ == 0 && x->first_rank != y->first_rank)
		differ = x->first_rank < y->first_rank ? -1 : 1;
	return differ;
}

static void hosts_fini(struct hosts *hosts)
{
	free(hosts->host);
	free(hosts->host_of_rank);
}

/* Groups the ranks by node name. */
static int hosts_init(struct hosts *hosts, const struct ddl__place *places, size_t n_ranks)
{
	struct name *names = malloc(n_ranks * sizeof(*names));
	size_t n = 0;

	hosts->host = malloc(n_ranks * sizeof(*hosts->host));
	hosts->host_of_rank = malloc(n_ranks * sizeof(*hosts->host_of_rank));
	if (!names || !hosts->host || !hosts->host_of_rank) {
		free(names);
		hosts_fini(hosts);
		return -ENOMEM;
	}
	for (size_t rank = 0; rank < n_ranks; rank++)
		names[rank] = (struct name){ places[rank].node, strlen(places[rank].node), rank };
	qsort(names, n_ranks, sizeof(*names), compare_names);
	for (size_t i = 0; i < n_ranks; i++) {
		if (i == 0 || !same_name(&names[i], &names[i - 1]))
			hosts->host[n++] = (struct host){ places[names[i].at].node, names[i].at, 0, NULL };
		hosts->host[n - 1].tasks++;
		hosts->host_of_rank[names[i].at] = hosts->host[n - 1].first_rank; /* replaced below, once hosts are in order */
	}
	qsort(hosts->host, n, sizeof(*hosts->host), compare_hosts);
	for (size_t i = 0; i < n; i++)
		names[hosts->host[i].first_rank].at = i; /* from here on: the host by its first rank */
	for (size_t rank = 0; rank < n_ranks; rank++)
		hosts->host_of_rank[rank] = names[hosts->host_of_rank[rank]].at;
	hosts->n = n;
	free(names);
	return 0;
}

/* The index of a sorted list at which a name stands alone; NONE if it is not there, or there more than once. */
static size_t find_unique(const struct name *names, size_t n, const struct name *wanted)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct name probe = *wanted;

		probe.at = 0;
		if (compare_names(&names[middle], &probe) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == n || !same_name(&names[low], wanted) || (low + 1 < n && same_name(&names[low + 1], wanted)))
		return NONE;
	return low;
}

/* Fills and sorts an index of names, by all of them or by the part before the first dot; those of skip are left out. */
static size_t index_names(struct name *names, const char *const *texts, const size_t *skip, size_t n, int whole)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (skip[i] != NONE)
			continue;
		names[count++] = (struct name){ texts[i], whole ? strlen(texts[i]) : strcspn(texts[i], "."), i };
	}
	qsort(names, count, sizeof(*names), compare_names);
	return count;
}

/* Pairs what is not paired yet; both sides must have the name once. */
static void pair(const char *const *a, size_t *to_b, size_t n_a, const char *const *b, size_t *to_a, size_t n_b, int whole,
		 struct name *names_a, struct name *names_b)
{
	size_t count_a = index_names(names_a, a, to_b, n_a, whole);
	size_t count_b = index_names(names_b, b, to_a, n_b, whole);

	for (size_t i = 0; i < count_a; i++) {
		size_t found = find_unique(names_b, count_b, &names_a[i]);

		if (found == NONE || find_unique(names_a, count_a, &names_a[i]) == NONE)
			continue;
		to_b[names_a[i].at] = names_b[found].at;
		to_a[names_b[found].at] = names_a[i].at;
	}
}

/* Says for each host which node of the plan it is, and fills tasks (zeroes before), one for each node of the plan. */
static int match(struct hosts *hosts, struct ddl__plan *plan, uint32_t *tasks)
{
	size_t n = hosts->n + plan->n_nodes;
	const char **texts = malloc(n * sizeof(*texts));
	struct name *names = malloc(n * sizeof(*names));
	size_t *to = malloc(n * sizeof(*to));
	int rc = texts && names && to ? 0 : -ENOMEM;

	if (rc == 0) {
		for (size_t i = 0; i < n; i++) {
			texts[i] = i < hosts->n ? hosts->host[i].name : plan->nodes[i - hosts->n]->name;
			to[i] = NONE;
		}
		for (int whole = 1; whole >= 0; whole--)
			pair(texts, to, hosts->n, texts + hosts->n, to + hosts->n, plan->n_nodes, whole, names, names + hosts->n);
		for (size_t i = 0; i < hosts->n; i++) {
			if (to[i] == NONE)
				continue;
			hosts->host[i].vertex = plan->nodes[to[i]];
			tasks[to[i]] = hosts->host[i].tasks;
		}
	}
	free(texts);
	free(names);
	free(to);
	return rc;
}

static uint64_t slower(uint64_t a, uint64_t b)
{
	if (a == 0 || b == 0)
		return a + b;
	return a < b ? a : b;
}

/* A switch that has one child left gives way to it. */
static struct ddl__vertex *collapse(struct ddl__vertex *vertex)
{
	struct ddl__vertex *child = vertex->children[0];

	child->parent = vertex->parent;
	child->link_speed = slower(child->link_speed, vertex->link_speed);
	vertex->n_children = 0;
	ddl__vertex_destroy(vertex);
	return child;
}

/* Drops the nodes below that have no task, and switches that are left empty. */
static void cut(struct ddl__vertex *vertex, const uint32_t *tasks)
{
	size_t kept = 0;

	for (size_t i = 0; i < vertex->n_children; i++) {
		struct ddl__vertex *child = vertex->children[i];
		int is_switch = child->n_children > 0;

		if (is_switch)
			cut(child, tasks);
		else
			child->tasks = tasks[child->node];
		if (is_switch ? child->n_children == 0 : child->tasks == 0)
			ddl__vertex_destroy(child);
		else
			vertex->children[kept++] = child;
	}
	vertex->n_children = kept;
}

/* Hangs the hosts that the plan does not have below its root. */
static int add_strangers(struct ddl__plan *plan, struct hosts *hosts)
{
	for (size_t i = 0; i < hosts->n; i++) {
		struct ddl__vertex *vertex;

		if (hosts->host[i].vertex)
			continue;
		vertex = ddl__vertex_create(hosts->host[i].name, strlen(hosts->host[i].name));
		if (!vertex)
			return -ENOMEM;
		vertex->tasks = hosts->host[i].tasks;
		if (ddl__vertex_add(plan->root, vertex) < 0) {
			ddl__vertex_destroy(vertex);
			return -ENOMEM;
		}
		hosts->host[i].vertex = vertex;
	}
	return 0;
}

/* The same for the root, as long as it is not the switch of a single node. */
static void drop_root(struct ddl__plan *plan)
{
	while (plan->root->n_children == 1 && plan->root->children[0]->n_children > 0)
		plan->root = collapse(plan->root);
	plan->root->link_speed = 0;
}

/* Drops the switches below that have a single child. */
static void drop_single(struct ddl__vertex *vertex)
{
	for (size_t i = 0; i < vertex->n_children; i++) {
		while (vertex->children[i]->n_children == 1)
			vertex->children[i] = collapse(vertex->children[i]);
		drop_single(vertex->children[i]);
	}
}

/* Leaves in a plan what is there: hosts with ranks. */
static int cut_to_hosts(struct ddl__plan *plan, struct hosts *hosts)
{
	uint32_t *tasks = calloc(plan->n_nodes, sizeof(*tasks));
	int rc = tasks ? match(hosts, plan, tasks) : -ENOMEM;

	if (rc == 0) {
		cut(plan->root, tasks);
		if (!strcmp(plan->root->name, DDL__FABRIC)) /* it only holds several tops together: one top needs none */
			drop_root(plan);
		rc = add_strangers(plan, hosts);
		drop_root(plan);
		drop_single(plan->root);
	}
	free(tasks);
	return rc;
}

/* Cuts rank 0's plan to what is there. */
static int from_text(const char *text, struct hosts *hosts, struct ddl__plan **plan, struct ddl_error *err)
{
	struct ddl__plan *found;
	int rc = ddl__plan_decode(text, strlen(text), &found, err);

	if (rc < 0)
		return rc;
	rc = cut_to_hosts(found, hosts);
	if (rc < 0) {
		ddl__error_memory(err);
		goto destroy;
	}
	free(found->nodes); /* of before the cut */
	found->nodes = NULL;
	rc = ddl__plan_index(found, -EBADMSG, err);
	if (rc < 0)
		goto destroy;
	*plan = found;
	return 0;

destroy:
	ddl__plan_destroy(found);
	return rc;
}

/* The tree of the places that the hosts told; NULL where none did, or where they do not make sense: then there is one switch. */
static int topology_of(const struct hosts *hosts, const struct ddl__place *places, struct ddl__topology **topology)
{
	struct ddl__node_address *addresses = malloc(hosts->n * sizeof(*addresses));
	size_t known = 0;
	int rc = 0;

	if (!addresses)
		return -ENOMEM;
	*topology = NULL;
	for (size_t i = 0; i < hosts->n; i++) {
		const struct ddl__place *told = &places[hosts->host[i].first_rank];
		int has = *told->address && *told->pattern;

		addresses[i] = (struct ddl__node_address){ told->node, has ? told->address : NULL, has ? told->pattern : NULL };
		known += (size_t)has;
	}
	if (known > 0)
		rc = ddl__topology_read_addresses(addresses, hosts->n, topology, NULL);
	free(addresses);
	return rc == -ENOMEM ? rc : 0;
}

static int compare_first_ranks(const void *a, const void *b)
{
	const struct host *x = a, *y = b;

	return x->first_rank < y->first_rank ? -1 : x->first_rank > y->first_rank;
}

/* Builds a plan from the places that the hosts told. order=slurm: by their first ranks, which is how Slurm lists them. */
static int from_addresses(struct hosts *hosts, const struct ddl__place *places, const char *job, const struct ddl__options *options,
			  struct ddl__plan **plan, struct ddl_error *err)
{
	struct host *order = malloc(hosts->n * sizeof(*order));
	const char **names = malloc(hosts->n * sizeof(*names));
	uint32_t *tasks = malloc(hosts->n * sizeof(*tasks));
	struct ddl__topology *topology = NULL;
	struct ddl__plan_request request;
	struct ddl__plan *found;
	int rc = order && names && tasks ? topology_of(hosts, places, &topology) : -ENOMEM;

	if (rc < 0) {
		ddl__error_memory(err);
		goto free_lists;
	}
	memcpy(order, hosts->host, hosts->n * sizeof(*order));
	if (options->order == DDL__ORDER_SLURM)
		qsort(order, hosts->n, sizeof(*order), compare_first_ranks);
	for (size_t i = 0; i < hosts->n; i++) {
		names[i] = order[i].name;
		tasks[i] = order[i].tasks;
	}
	request = (struct ddl__plan_request){
		.topology = topology,
		.source = topology ? "env" : "none",
		.job = job,
		.nodes = names,
		.tasks = tasks,
		.n_nodes = hosts->n,
		.options = options,
	};
	rc = ddl__plan_create(&request, &found, err);
	ddl__topology_destroy(topology);
	if (rc < 0)
		goto free_lists;
	rc = match(hosts, found, tasks);
	if (rc < 0) {
		ddl__plan_destroy(found);
		ddl__error_memory(err);
		goto free_lists;
	}
	*plan = found;
free_lists:
	free(order);
	free(names);
	free(tasks);
	return rc;
}

/* The smallest number of interfaces that carry traffic; 0 where a rank told none. */
static uint32_t count_rails(const struct ddl__place *places, size_t n_ranks)
{
	uint32_t rails = places[0].rails;

	for (size_t rank = 1; rank < n_ranks; rank++)
		rails = places[rank].rails < rails ? places[rank].rails : rails;
	return rails;
}

int ddl__merge(const char *text, const struct ddl__place *places, size_t n_ranks, const char *job,
	       const struct ddl__options *options, struct ddl__plan **plan, size_t **node_of_rank, struct ddl_error *err)
{
	struct ddl__plan *found = NULL;
	struct hosts hosts;
	size_t *nodes;
	int rc;

	if (n_ranks == 0)
		return ddl__error_set(err, -EINVAL, "a plan cannot be made without ranks");
	rc = hosts_init(&hosts, places, n_ranks);
	if (rc < 0)
		return ddl__error_memory(err);
	nodes = malloc(n_ranks * sizeof(*nodes));
	if (!nodes)
		rc = ddl__error_memory(err);
	else if (text)
		rc = from_text(text, &hosts, &found, err);
	else
		rc = from_addresses(&hosts, places, job, options, &found, err);
	if (rc < 0)
		goto free_nodes;
	found->rails = count_rails(places, n_ranks);
	for (size_t rank = 0; rank < n_ranks; rank++)
		nodes[rank] = hosts.host[hosts.host_of_rank[rank]].vertex->node;
	*plan = found;
	*node_of_rank = nodes;
	hosts_fini(&hosts);
	return 0;

free_nodes:
	free(nodes);
	hosts_fini(&hosts);
	return rc;
}
