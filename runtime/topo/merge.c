/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - from what all ranks told to the plan in force.
 *
 * First the ranks are grouped into hosts by the node names they told (sorted, so no step is quadratic). Then rank 0's plan is cut
 * to the hosts that have ranks, or, without one, a plan is built from the places that the hosts told. Every rank does this with
 * the same input in the same order, so every rank ends with the same plan.
 *
 * Names may come with or without domain (n1, n1.cluster): an exact match counts first, then the part before the first dot, if
 * exactly one host and one node of the plan share it. A host that matches goes by the plan's name from then on.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "merge.h"

#define NONE SIZE_MAX

struct hosts {                /* the nodes that have ranks, in the order of their lowest ranks */
	const char **names;   /* borrowed from the places or from rank 0's plan */
	uint32_t *tasks;      /* ranks on each */
	size_t *first_rank;   /* the lowest of them */
	size_t *node;         /* index in a plan; NONE: not there */
	size_t n;             /* at least 1 */
	size_t *host_of_rank; /* n_ranks indices into the above */
};

struct name {             /* something that goes by a name */
	const char *text; /* borrowed, not necessarily NUL-ended */
	size_t length;    /* bytes of text */
	size_t at;        /* its number */
};

/* By name, then by number. */
static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int differ = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);

	if (differ == 0 && x->length != y->length)
		differ = x->length < y->length ? -1 : 1;
	if (differ == 0 && x->at != y->at)
		differ = x->at < y->at ? -1 : 1;
	return differ;
}

/* Where the names end that are the same as that at begin, in a sorted list. */
static size_t run_end(const struct name *names, size_t n, size_t begin)
{
	size_t end = begin + 1;

	while (end < n && names[end].length == names[begin].length &&
	       memcmp(names[end].text, names[begin].text, names[begin].length) == 0)
		end++;
	return end;
}

static void hosts_fini(struct hosts *hosts)
{
	free(hosts->names);
	free(hosts->tasks);
	free(hosts->first_rank);
	free(hosts->node);
	free(hosts->host_of_rank);
}

/* Groups the ranks by node name. hosts_fini() also after a failure. */
static int hosts_init(struct hosts *hosts, const struct ddl__place *places, size_t n_ranks)
{
	struct name *names = calloc(n_ranks, sizeof(*names));

	*hosts = (struct hosts){ .names = calloc(n_ranks, sizeof(*hosts->names)),
				 .tasks = calloc(n_ranks, sizeof(*hosts->tasks)),
				 .first_rank = calloc(n_ranks, sizeof(*hosts->first_rank)),
				 .node = calloc(n_ranks, sizeof(*hosts->node)),
				 .host_of_rank = calloc(n_ranks, sizeof(*hosts->host_of_rank)) };
	if (!names || !hosts->names || !hosts->tasks || !hosts->first_rank || !hosts->node || !hosts->host_of_rank) {
		free(names);
		return -ENOMEM;
	}
	for (size_t rank = 0; rank < n_ranks; rank++)
		names[rank] = (struct name){ places[rank].node, strlen(places[rank].node), rank };
	qsort(names, n_ranks, sizeof(*names), compare_names);
	for (size_t begin = 0, end; begin < n_ranks; begin = end) {
		end = run_end(names, n_ranks, begin);
		for (size_t i = begin; i < end; i++)
			hosts->host_of_rank[names[i].at] = names[begin].at; /* the lowest rank of its host, for now */
	}
	for (size_t rank = 0; rank < n_ranks; rank++) {
		size_t lowest = hosts->host_of_rank[rank];

		if (lowest == rank) {
			hosts->names[hosts->n] = places[rank].node;
			hosts->first_rank[hosts->n] = rank;
		}
		hosts->host_of_rank[rank] = lowest == rank ? hosts->n++ : hosts->host_of_rank[lowest];
		hosts->tasks[hosts->host_of_rank[rank]]++;
	}
	free(names);
	return 0;
}

/* Finds the nodes of hosts that have none yet, by whole names or by the parts before the first dot. names, taken: see match(). */
static void pair(struct hosts *hosts, const struct ddl__plan *plan, bool whole, struct name *names, bool *taken)
{
	size_t n = 0;

	for (size_t i = 0; i < hosts->n + plan->n_nodes; i++) {
		bool is_host = i < hosts->n;
		const char *text = is_host ? hosts->names[i] : plan->nodes[i - hosts->n]->name;

		if (is_host ? hosts->node[i] == NONE : !taken[i - hosts->n])
			names[n++] = (struct name){ text, whole ? strlen(text) : strcspn(text, "."), i };
	}
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t begin = 0, end; begin < n; begin = end) {
		size_t host = names[begin].at;

		end = run_end(names, n, begin);
		if (end - begin != 2 || host >= hosts->n || names[end - 1].at < hosts->n)
			continue;
		hosts->node[host] = names[end - 1].at - hosts->n;
		taken[hosts->node[host]] = true;
	}
}

/* Says which node of the plan each host is. */
static int match(struct hosts *hosts, const struct ddl__plan *plan)
{
	struct name *names = malloc((hosts->n + plan->n_nodes) * sizeof(*names));
	bool *taken = calloc(plan->n_nodes, sizeof(*taken));
	int rc = names && taken ? 0 : -ENOMEM;

	for (size_t i = 0; i < hosts->n; i++)
		hosts->node[i] = NONE;
	if (rc == 0) {
		pair(hosts, plan, true, names, taken);
		pair(hosts, plan, false, names, taken);
	}
	free(names);
	free(taken);
	return rc;
}

/* Cuts rank 0's plan to what is there. The hosts' names may be those of `given` afterwards. */
static int from_plan(const struct ddl__plan *given, struct hosts *hosts, struct ddl__plan **plan, struct ddl_error *err)
{
	if (match(hosts, given) < 0)
		return ddl__error_memory(err);
	for (size_t i = 0; i < hosts->n; i++)
		if (hosts->node[i] != NONE)
			hosts->names[i] = given->nodes[hosts->node[i]]->name;
	return ddl__plan_restrict(given, hosts->names, hosts->tasks, hosts->n, plan, err);
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
		const struct ddl__place *told = &places[hosts->first_rank[i]];
		int has = *told->address && *told->pattern;

		addresses[i] = (struct ddl__node_address){ told->node, has ? told->address : NULL, has ? told->pattern : NULL };
		known += (size_t)has;
	}
	if (known > 0)
		rc = ddl__topology_read_addresses(addresses, hosts->n, topology, NULL);
	free(addresses);
	return rc == -ENOMEM ? rc : 0;
}

/* Builds a plan from the places that the hosts told. The hosts' order, by their first ranks, is how Slurm lists them. */
static int from_addresses(const struct hosts *hosts, const struct ddl__place *places, const char *job,
			  const struct ddl__options *options, struct ddl__plan **plan, struct ddl_error *err)
{
	struct ddl__topology *topology;
	int rc = topology_of(hosts, places, &topology);

	if (rc < 0)
		return ddl__error_memory(err);
	const struct ddl__plan_request request = {
		.topology = topology,
		.source = topology ? "env" : "none",
		.job = job,
		.nodes = hosts->names,
		.tasks = hosts->tasks,
		.n_nodes = hosts->n,
		.options = options,
	};
	rc = ddl__plan_create(&request, plan, err);
	ddl__topology_destroy(topology);
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
	struct ddl__plan *given = NULL, *found = NULL;
	struct hosts hosts;
	struct ddl_error inner = { 0 };
	size_t *nodes;
	int rc = 0;

	if (n_ranks == 0)
		return ddl__error_set(err, -EINVAL, "a plan cannot be made without ranks");
	nodes = malloc(n_ranks * sizeof(*nodes));
	if (hosts_init(&hosts, places, n_ranks) < 0 || !nodes)
		rc = ddl__error_memory(err);
	if (rc == 0 && text)
		rc = ddl__plan_decode(text, strlen(text), &given, &inner);
	if (inner.code)
		ddl__error_set(err, rc, "%.400s; where DDL_PLAN was set by hand, unset it, or take what ddl plan --text prints",
			       inner.text);
	if (rc == 0)
		rc = given ? from_plan(given, &hosts, &found, err) : from_addresses(&hosts, places, job, options, &found, err);
	if (rc == 0 && match(&hosts, found) < 0)
		rc = ddl__error_memory(err);
	if (rc == 0) {
		found->rails = count_rails(places, n_ranks);
		for (size_t rank = 0; rank < n_ranks; rank++)
			nodes[rank] = hosts.node[hosts.host_of_rank[rank]];
		*plan = found;
		*node_of_rank = nodes;
	} else {
		ddl__plan_destroy(found);
		free(nodes);
	}
	ddl__plan_destroy(given);
	hosts_fini(&hosts);
	return rc;
}
