/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - `ddl plan`: the plan in force within a job, or outside one that of nodes and a topology file, in several forms.
 *
 * Within a job the plan is DDL_PLAN's; where that is not set but the process is one of a step, the ranks make a communicator and
 * rank 0 prints what came out. Ranks are then those of PMIx. Else they are numbered as Slurm would: see ddl__view_place().
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "engine.h"
#include "error.h"
#include "hostlist.h"
#include "plan_view.h"
#include "select.h"
#include "tools.h"

#define TOOL       "plan"
#define NODES_ENV  "SLURM_STEP_NODELIST" /* of the step; in a batch script of the job: */
#define JOB_ENV    "SLURM_JOB_NODELIST"
#define RING_WIDTH 100 /* columns of a ring's line */

enum host_form { HOSTS_SLURM, HOSTS_OPENMPI, HOSTS_MPICH };
enum form { FORM_TREE, FORM_TEXT, FORM_JSON, FORM_DOT, FORM_SVG, FORM_HOSTFILE, FORM_EXPLAIN, FORM_TRAFFIC };

struct request {                   /* the command line */
	enum form form;            /* of the output */
	bool by_rank;              /* draw the rings in rank order */
	bool cyclic;               /* ranks go to the nodes in turns */
	const char *topology;      /* file; NULL: none */
	const char *nodes;         /* host list; NULL: none */
	const char *tasks;         /* number or list; NULL: not known */
	struct ddl__options asked; /* --ddl */
	const char *sizes;         /* of --explain and --traffic */
	const char *algorithm;     /* of --traffic; NULL: what is chosen */
	uint32_t link_Mbps;        /* for the cost model; 0 not said */
	int host_form;             /* enum host_form: of --hostfile */
};

static const struct ddl__choice host_forms[] = {
	{ HOSTS_SLURM, "slurm", "a line for each task: srun -m arbitrary, mpirun --map-by seq" },
	{ HOSTS_OPENMPI, "openmpi", "n1 slots=2" },
	{ HOSTS_MPICH, "mpich", "n1:2" },
	{ 0, NULL, NULL },
};

struct shown {                  /* what is shown, and who owns it */
	struct ddl__plan *plan; /* owned, or the communicator's */
	struct ddl_comm *comm;  /* owned; NULL: none */
	char **names;           /* nodes in the order of the ranks; owned */
	size_t n_names;
	struct ddl__view *view; /* owned */
};

static const struct ddl__help help[] = {
	{ "--topology FILE", "topology.conf, topology.yaml or what `scontrol show topology` prints" },
	{ "--nodes LIST", "nodes of the job as Slurm writes them: n[1-4,7] (default: all of the file)" },
	{ "--tasks N|LIST", "tasks a node: 2, or per node 2(x3),1" },
	{ "--ddl MODE[,KEY=VALUE]", "what sbatch --ddl would be given (default: auto)" },
	{ "--distribution HOW", "of ranks over nodes: block (default) or cyclic" },
	{ "--text", "the plan as one line" },
	{ "--json", "one JSON object" },
	{ "--dot", "a drawing for Graphviz" },
	{ "--svg", "a drawing" },
	{ "--rank-order", "draw rings in rank order instead of the plan's" },
	{ "--hostfile[=FORM]", "nodes in plan order: slurm (default; one line a task), openmpi (n1 slots=2), mpich (n1:2)" },
	{ "--explain", "what each all-reduce algorithm would take, and which is chosen" },
	{ "--traffic", "bytes that an all-reduce moves over each link, counted in its schedules" },
	{ "--algorithm NAME", "for --traffic: ring, multiring:4x8... (default: what is chosen)" },
	{ "--size LIST", "message sizes for --explain (default: 8-256M) and --traffic (default: 64M): 8,64K or 8-64M" },
	{ "--link-speed MBITS", "of the nodes' links, for --explain and the choice, as ddl info shows it (default: 10000)" },
	{ "--help", "this text" },
	{ NULL, NULL },
};

enum { TOPOLOGY = 256, NODES, TASKS, DDL, DISTRIBUTION, RANK_ORDER, SIZE, LINK_SPEED, ALGORITHM };

static const struct option long_options[] = {
	{ "topology", required_argument, NULL, TOPOLOGY },
	{ "nodes", required_argument, NULL, NODES },
	{ "tasks", required_argument, NULL, TASKS },
	{ "ddl", required_argument, NULL, DDL },
	{ "distribution", required_argument, NULL, DISTRIBUTION },
	{ "text", no_argument, NULL, FORM_TEXT },
	{ "json", no_argument, NULL, FORM_JSON },
	{ "dot", no_argument, NULL, FORM_DOT },
	{ "svg", no_argument, NULL, FORM_SVG },
	{ "hostfile", optional_argument, NULL, FORM_HOSTFILE },
	{ "rank-order", no_argument, NULL, RANK_ORDER },
	{ "explain", no_argument, NULL, FORM_EXPLAIN },
	{ "traffic", no_argument, NULL, FORM_TRAFFIC },
	{ "algorithm", required_argument, NULL, ALGORITHM },
	{ "size", required_argument, NULL, SIZE },
	{ "link-speed", required_argument, NULL, LINK_SPEED },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int take_option(struct request *request, int option, struct ddl_error *err)
{
	const struct ddl__choice *choice;
	int64_t number = 0;
	int rc;

	switch (option) {
	case TOPOLOGY:
		request->topology = optarg;
		return 0;
	case NODES:
		request->nodes = optarg;
		return 0;
	case TASKS:
		request->tasks = optarg;
		return 0;
	case DDL:
		return ddl__options_parse(optarg, &request->asked, err);
	case DISTRIBUTION:
		request->cyclic = strcmp(optarg, "cyclic") == 0;
		if (request->cyclic || strcmp(optarg, "block") == 0)
			return 0;
		return ddl__error_set(err, -EINVAL, "distribution '%.60s' does not exist; there are block, cyclic", optarg);
	case RANK_ORDER:
		request->by_rank = true;
		return 0;
	case LINK_SPEED:
		rc = ddl__number_parse("link speed", optarg, 1, 100000000, &number, err);
		request->link_Mbps = (uint32_t)number;
		return rc;
	case ALGORITHM:
		request->algorithm = optarg;
		return 0;
	case SIZE:
		request->sizes = optarg;
		return 0;
	case FORM_HOSTFILE:
		choice = ddl__choice_parse("hostfile", host_forms, optarg ? optarg : "slurm", err);
		if (!choice)
			return -EINVAL;
		request->host_form = choice->id;
		request->form = FORM_HOSTFILE;
		return 0;
	default:
		request->form = (enum form)option;
		return 0;
	}
}

/* Returns 1: go on; 0: end with *status. */
static int parse(int argc, char **argv, struct request *request, int *status)
{
	const char *distribution = getenv("SLURM_DISTRIBUTION");
	struct ddl_error err;
	int option;

	*request = (struct request){ .cyclic = distribution && strncmp(distribution, "cyclic", 6) == 0 };
	ddl__options_init(&request->asked);
	request->asked.mode = DDL__MODE_AUTO;
	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		*status = DDL__EXIT_GOOD;
		if (option == 'h')
			ddl__help_print(
				stdout, "ddl plan [OPTIONS]",
				"Shows the plan in force, or with --nodes or --topology that of a job which does not run yet.",
				help);
		else if (option == '?' || option == ':')
			*status = ddl__usage_getopt(TOOL, option, optind, argv);
		else if (take_option(request, option, &err) < 0)
			*status = ddl__usage(TOOL, "%s", err.text);
		else
			continue;
		return 0;
	}
	if (optind == argc && request->asked.mode == DDL__MODE_HELP) {
		ddl__options_help(stdout);
		*status = DDL__EXIT_GOOD;
		return 0;
	}
	*status = DDL__EXIT_GOOD;
	if (optind < argc)
		*status = ddl__usage(TOOL, "'%.60s' is too much; nodes are given with --nodes", argv[optind]);
	else if (request->sizes && request->form != FORM_EXPLAIN && request->form != FORM_TRAFFIC)
		*status = ddl__usage(TOOL, "--size goes with --explain or --traffic");
	else if (request->algorithm && request->form != FORM_TRAFFIC)
		*status = ddl__usage(TOOL, "--algorithm goes with --traffic; --explain shows all of them");
	return *status == DDL__EXIT_GOOD;
}

/* "2" for every node, or Slurm's list of counts. *tasks is freed by the caller. */
static int parse_tasks(const char *text, size_t n, uint32_t **tasks, struct ddl_error *err)
{
	uint32_t *list = calloc(n, sizeof(*list));
	int64_t each = 0;
	int rc = 0;

	if (!list)
		return ddl__error_memory(err);
	if (text[strspn(text, "0123456789")] == '\0')
		rc = ddl__number_parse("number of tasks a node", text, 1, 65535, &each, err);
	else
		rc = ddl__tasks_expand(text, list, n, err);
	for (size_t i = 0; i < n && each > 0; i++)
		list[i] = (uint32_t)each;
	if (rc < 0)
		free(list);
	else
		*tasks = list;
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return ddl__name_compare(*(char *const *)a, *(char *const *)b);
}

/* The plan of nodes that may run nothing. */
static int plan_ahead(const struct request *request, struct shown *shown, struct ddl_error *err)
{
	struct ddl__topology *topology = NULL;
	uint32_t *tasks = NULL;
	int rc = 0;

	if (request->topology)
		rc = ddl__topology_load(request->topology, &topology, err);
	if (rc == 0 && request->nodes)
		rc = ddl__hostlist_expand(request->nodes, strlen(request->nodes), &shown->names, &shown->n_names, err);
	else if (rc == 0 && ddl__topology_nodes(topology, &shown->names, &shown->n_names) < 0)
		rc = ddl__error_memory(err);
	else if (rc == 0) /* the file has them by switch, Slurm as a rule by name */
		qsort(shown->names, shown->n_names, sizeof(*shown->names), by_name);
	if (rc == 0 && shown->n_names == 0)
		rc = ddl__error_set(err, -EINVAL, "there is no node in '%.200s'; name them with --nodes", request->topology);
	if (rc == 0 && request->tasks)
		rc = parse_tasks(request->tasks, shown->n_names, &tasks, err);
	if (rc == 0) {
		const struct ddl__plan_request ahead = {
			.topology = topology,
			.source = topology ? "file" : "none",
			.nodes = (const char *const *)shown->names,
			.tasks = tasks,
			.n_nodes = shown->n_names,
			.options = &request->asked,
		};
		rc = ddl__plan_create(&ahead, &shown->plan, err);
	}
	free(tasks);
	ddl__topology_destroy(topology);
	return rc;
}

/* The nodes in Slurm's order, from the environment if it speaks of the same nodes, else by name. */
static int order_nodes(struct shown *shown, struct ddl_error *err)
{
	const struct ddl__plan *plan = shown->plan;
	const char *text = getenv(NODES_ENV) ? getenv(NODES_ENV) : getenv(JOB_ENV);
	size_t index;

	if (text && ddl__hostlist_expand(text, strlen(text), &shown->names, &shown->n_names, NULL) == 0) {
		size_t known = 0;

		while (known < shown->n_names && ddl__plan_find_node(plan, shown->names[known], &index) == 0)
			known++;
		if (known == plan->n_nodes && known == shown->n_names)
			return 0;
		free(shown->names);
	}
	shown->n_names = plan->n_nodes;
	shown->names = calloc(plan->n_nodes, sizeof(*shown->names));
	if (!shown->names)
		return ddl__error_memory(err);
	for (size_t i = 0; i < plan->n_nodes; i++)
		shown->names[i] = plan->nodes[i]->name;
	qsort(shown->names, plan->n_nodes, sizeof(*shown->names), by_name);
	return 0;
}

static int place_ranks(const struct request *request, struct shown *shown, struct ddl_error *err)
{
	size_t *node_of_rank = NULL;
	bool has_ranks = false;
	int n_ranks = 0, rc;

	rc = ddl__view_place(shown->plan, (const char *const *)shown->names, shown->n_names, request->cyclic, &node_of_rank,
			     &n_ranks, &has_ranks, err);
	if (rc == 0)
		rc = ddl__view_create(shown->plan, node_of_rank, n_ranks, has_ranks, &shown->view, err);
	free(node_of_rank);
	return rc;
}

/* The plan that the ranks of this step agree on. */
static int agree(struct shown *shown, struct ddl_error *err)
{
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	int rc;

	options.measure = 0;
	rc = ddl_comm_create(&options, &shown->comm, err);
	if (rc < 0)
		return rc;
	shown->plan = shown->comm->plan;
	rc = ddl__view_create(shown->plan, shown->comm->layout->node_of_rank, ddl_comm_size(shown->comm), true, &shown->view, err);
	if (rc == 0)
		shown->view->layout->link_Mbps = shown->comm->layout->link_Mbps;
	return rc;
}

/* Finds the plan and its ranks. */
static int find(const struct request *request, struct shown *shown, struct ddl_error *err)
{
	const char *text = getenv(DDL__PLAN_ENV);
	int rc;

	if (request->topology || request->nodes) {
		rc = plan_ahead(request, shown, err);
		rc = rc ? rc : place_ranks(request, shown, err);
		if (rc == 0 && shown->view->has_ranks) /* what the job would be told */
			rc = ddl__dims_check(shown->plan->options.dims, shown->plan->options.n_dims, shown->view->layout->n_ranks,
					     err);
		return rc;
	}
	if (text && *text) {
		rc = ddl__plan_decode(text, strlen(text), &shown->plan, err);
		if (rc == 0)
			rc = order_nodes(shown, err);
		return rc < 0 ? rc : place_ranks(request, shown, err);
	}
	if (getenv("PMIX_NAMESPACE"))
		return agree(shown, err);
	return ddl__error_set(err, -ENOENT,
			      "there is no plan here: DDL_PLAN is not set and this is no step with PMIx; "
			      "give --nodes and --topology to see the plan of a job that does not run yet");
}

static void release(struct shown *shown)
{
	ddl__view_destroy(shown->view);
	if (shown->comm)
		ddl_comm_destroy(shown->comm);
	else
		ddl__plan_destroy(shown->plan);
	free(shown->names);
}

/* "ring 0: 0 1 6 7", in lines of RING_WIDTH columns. */
static void print_ring(const struct ddl__view *view, unsigned ring)
{
	const int *order = ddl__view_ring(view, ring);
	char name[DDL__NAME_MAX + 1];
	int column = printf("ring %u:", ring);

	for (int i = 0; i < view->layout->n_ranks; i++) {
		ddl__view_rank_name(view, order[i], name, sizeof(name));
		if (column + (int)strlen(name) >= RING_WIDTH)
			column = printf("\n       ") - 1;
		column += printf(" %s", name);
	}
	putchar('\n');
}

static void print_crossings(const struct ddl__view *view)
{
	bool head = false;

	for (size_t i = 1; i < view->n_vertices; i++) {
		const struct ddl__view_vertex *v = &view->vertices[i];
		char link[2 * DDL__NAME_MAX + 8];

		if (v->vertex->n_children == 0)
			continue;
		if (!head)
			printf("\n%-32s  %12s  %13s\n", "uplink, crossed by all rings", "plan up/down", "in rank order");
		head = true;
		snprintf(link, sizeof(link), "%s - %s", v->vertex->name, view->vertices[v->parent].vertex->name);
		printf("%-32s  %7u/%-4u  %10u/%u\n", link, v->planned.up, v->planned.down, v->by_rank.up, v->by_rank.down);
	}
}

static void print_tree(const struct ddl__view *view)
{
	const struct ddl__plan *plan = view->plan;

	ddl__plan_print(plan, stdout);
	printf("\nmode %s", ddl__choice_by_id(ddl__modes, (int)plan->options.mode)->name);
	for (uint32_t i = 0; i < plan->options.n_dims; i++)
		printf("%s%u", i ? "x" : ", dims ", plan->options.dims[i]);
	printf(", order %s, wire %s, source %s", ddl__choice_by_id(ddl__orders, (int)plan->options.order)->name,
	       ddl__choice_by_id(ddl__wires, (int)plan->options.wire)->name, plan->source);
	if (*plan->job)
		printf(", job %s", plan->job);
	printf("\n\n");
	for (unsigned ring = 0; ring < view->n_rings; ring++)
		print_ring(view, ring);
	print_crossings(view);
}

/* In the order of a ring the tasks of a node come one after the other. */
static void print_hostfile(const struct ddl__view *view, int form)
{
	const int *order = ddl__view_ring(view, 0), n_ranks = view->layout->n_ranks;

	for (int i = 0, tasks; i < n_ranks; i += tasks) {
		const size_t node = (size_t)view->layout->node_of_rank[order[i]];
		const char *name = view->plan->nodes[node]->name;

		for (tasks = 1; i + tasks < n_ranks; tasks++)
			if ((size_t)view->layout->node_of_rank[order[i + tasks]] != node)
				break;
		for (int task = 0; form == HOSTS_SLURM && task < tasks; task++)
			puts(name);
		if (form != HOSTS_SLURM)
			printf(form == HOSTS_OPENMPI ? "%s slots=%d\n" : "%s:%d\n", name, tasks);
	}
}

static int print_text(const struct ddl__plan *plan, struct ddl_error *err)
{
	char *text = NULL;
	int rc = ddl__plan_encode(plan, &text, err);

	if (rc == 0)
		puts(text);
	free(text);
	return rc;
}

/* --explain and --traffic. */
static int count(const struct request *request, const struct ddl__view *view, struct ddl_error *err)
{
	const bool explain = request->form == FORM_EXPLAIN;
	uint64_t *sizes = NULL;
	size_t n = 0;
	int rc = ddl__sizes_parse(request->sizes ? request->sizes : explain ? "8-256M" : "64M", &sizes, &n, err);

	if (rc == 0 && request->link_Mbps)
		view->layout->link_Mbps = request->link_Mbps;
	if (rc == 0 && view->has_ranks)
		rc = ddl__dims_check(view->plan->options.dims, view->plan->options.n_dims, view->layout->n_ranks, err);
	if (rc == 0 && explain)
		rc = ddl__view_explain(view, sizes, n, stdout, err);
	else if (rc == 0)
		rc = ddl__view_print_traffic(view, request->algorithm, sizes, n, stdout, err);
	free(sizes);
	return rc;
}

static int show(const struct request *request, const struct ddl__view *view, struct ddl_error *err)
{
	int rc = 0;

	switch (request->form) {
	case FORM_TREE:
		print_tree(view);
		break;
	case FORM_TEXT:
		return print_text(view->plan, err);
	case FORM_JSON:
		rc = ddl__view_json(view, stdout);
		break;
	case FORM_DOT:
		rc = ddl__view_dot(view, request->by_rank, stdout);
		break;
	case FORM_SVG:
		rc = ddl__view_svg(view, request->by_rank, stdout);
		break;
	case FORM_HOSTFILE:
		print_hostfile(view, request->host_form);
		break;
	case FORM_EXPLAIN:
	case FORM_TRAFFIC:
		return count(request, view, err);
	}
	return rc < 0 ? ddl__error_memory(err) : 0;
}

int ddl_tool_plan(int argc, char **argv)
{
	struct shown shown = { .plan = NULL };
	struct request request;
	struct ddl_error err;
	int status;

	if (!parse(argc, argv, &request, &status))
		return status;
	if (find(&request, &shown, &err) != 0)
		status = ddl__is_echo() ? DDL__EXIT_FAILED : ddl__failed(TOOL, "%s", err.text);
	else if (!ddl__is_echo() && show(&request, shown.view, &err) < 0)
		status = ddl__failed(TOOL, "%s", err.text);
	else
		status = DDL__EXIT_GOOD;
	release(&shown);
	return status;
}
