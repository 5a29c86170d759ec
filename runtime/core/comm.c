/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm.c - a communicator from bootstrap to goodbye.
 *
 * create: find the ranks, gather the facts, open the transports (so that they have addresses), exchange, build the layout, attach.
 * Then a barrier: connections are made by requests, and only ranks that are connected hear of each other's end. The others are made
 * by the requests that need them.
 */
#include "comm.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit.h"
#include "boot.h"
#include "cache.h"
#include "engine.h"
#include "error.h"
#include "exchange.h"
#include "log.h"
#include "measure.h"
#include "mem.h"
#include "report.h"
#include "serve.h"
#include "settings.h"
#include "state.h"
#include "stats.h"
#include "sync.h"
#include "trace.h"

enum { GOODBYE_MS_MAX = 10000, ABORT_MS_MAX = 1000 };

const char *ddl_version(void)
{
	return DDL_VERSION;
}

/* origin is taken over, also on failure. */
static int comm_new(int rank, int size, struct ddl__origin *origin, struct ddl_comm **comm, struct ddl_error *err)
{
	struct ddl_comm *c = calloc(1, sizeof(*c));
	if (!c) {
		ddl__origin_destroy(origin);
		return ddl__error_memory(err);
	}
	c->rank = rank;
	c->size = size;
	c->origin = origin;
	c->timeout_ms = origin->settings.timeout_ms;
	int rc = ddl__engine_init(c, err);
	if (rc < 0) {
		ddl__engine_fini(c);
		ddl__origin_destroy(origin);
		free(c);
		return rc;
	}
	*comm = c;
	return 0;
}

/* Whether a name is in a comma-separated list. */
static bool listed(const char *list, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}

/* Every word of the list must be the name of a transport. */
static int check_names(const char *list, struct ddl_error *err)
{
	char names[128] = "";
	for (const struct ddl__transport_ops *const *ops = ddl__transports; *ops; ops++) {
		strcat(names, *names ? ", " : "");
		strcat(names, (*ops)->name);
	}
	for (const char *at = list; at && *at;) {
		size_t length = strcspn(at, ",");
		char word[64];
		bool known = false;
		for (const struct ddl__transport_ops *const *ops = ddl__transports; *ops; ops++)
			known |= strlen((*ops)->name) == length && strncmp((*ops)->name, at, length) == 0;
		if (!known)
			return ddl__error_set(err, -ENOENT, "no transport \"%s\" (DDL_TRANSPORTS): choose from %s",
					      ddl__error_word(word, sizeof(word), at, length), names);
		at += length + (at[length] == ',');
	}
	return 0;
}

/* Whether a transport that failed so is just not there, and nobody said that it would be. */
static bool is_absence(int rc, const struct ddl__transport_config *config)
{
	return (rc == -ENOENT || rc == -ENODEV) && !(config->rdma && config->rdma->n_ports);
}

/* Opens the transports named, or all that are usable. */
static int open_transports(struct ddl_comm *comm, const char *names, const struct ddl__transport_config *config,
			   struct ddl_error *err)
{
	int rc = names ? check_names(names, err) : 0;
	if (rc < 0)
		return rc;
	for (const struct ddl__transport_ops *const *ops = ddl__transports; *ops; ops++) {
		char why[256] = "";
		struct ddl_error failure = { 0 };
		if (names ? !listed(names, (*ops)->name) : !config->loop != (*ops != &ddl__transport_loop))
			continue;
		if (!config->verbs && !(*ops)->probe(why, sizeof(why)))
			rc = ddl__error_set(&failure, -ENOENT, "transport %s does not work here: %s", (*ops)->name, why);
		else
			rc = (*ops)->open(config, &comm->transports[comm->n_transports], &failure);
		if (rc == 0)
			comm->n_transports++;
		else if (names)
			return ddl__error_set(err, rc, "%s", failure.text);
		else
			ddl__log(is_absence(rc, config) ? DDL__LOG_INFO : DDL__LOG_WARNING, "rank %d: %s", comm->rank,
				 failure.text);
	}
	return 0;
}

/* Tells which transports reach how many ranks: nothing else shows what the data went over. */
static void tell_ways(const struct ddl_comm *comm)
{
	char text[128] = "";
	size_t used = 0;

	for (size_t t = 0; t < comm->n_transports && used < sizeof(text); t++) {
		int n = 0;

		for (int r = 0; r < comm->size; r++)
			n += comm->via[r] == (signed char)t;
		if (n)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d over %s", used ? ", " : "", n,
						 comm->transports[t]->ops->name);
	}
	if (used)
		ddl__log(DDL__LOG_INFO, "rank %d on node %s reaches other ranks: %s", comm->rank,
			 ddl_comm_node_name(comm, comm->rank), text);
}

/* Takes plan and places over and makes everything that follows from them. plan is owned from the call on. */
static int adopt(struct ddl_comm *comm, struct ddl__plan *plan, const size_t *node_of_rank, const struct ddl__peer *peers,
		 const uint8_t *secret, struct ddl_error *err)
{
	comm->plan = plan;
	int rc = ddl__plan_encode(plan, &comm->plan_text, err);
	if (rc < 0)
		return rc;
	rc = ddl__layout_create(plan, node_of_rank, comm->size, &comm->layout);
	comm->via = calloc((size_t)comm->size, sizeof(*comm->via));
	if (rc < 0 || !comm->via)
		return ddl__error_set(err, rc ? rc : -ENOMEM, "the plan and the ranks do not fit together: %s",
				      strerror(rc ? -rc : ENOMEM));
	for (size_t t = 0; t < comm->n_transports; t++) {
		struct ddl__transport *transport = comm->transports[t];
		struct ddl__peer *mine = calloc((size_t)comm->size, sizeof(*mine));
		if (!mine)
			return ddl__error_set(err, -ENOMEM, "out of memory for %d peers", comm->size);
		for (int r = 0; r < comm->size && peers; r++)
			mine[r] = peers[(size_t)r * comm->n_transports + t];
		rc = transport->ops->attach(transport, mine, secret, err);
		free(mine);
		if (rc < 0)
			return rc;
	}
	for (int r = 0; r < comm->size; r++) {
		comm->via[r] = -1;
		for (size_t t = comm->n_transports; t-- > 0;)
			if (r != comm->rank && comm->transports[t]->ops->reaches(comm->transports[t], r))
				comm->via[r] = (signed char)t;
	}
	tell_ways(comm);
	return 0;
}

/*
 * Whether this machine's ranks outnumber its cores. A rank that is bound to one core knows nothing of the others' cores: there
 * the waits find out.
 */
static bool is_crowded(const struct ddl__members *members, int rank)
{
	cpu_set_t set;
	int here = 0, cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	bool bound = cpus == 1 && sysconf(_SC_NPROCESSORS_ONLN) > 1;
	for (int r = 0; r < members->size; r++)
		here += strcmp(members->places[r].machine, members->places[rank].machine) == 0;
	return !bound && here > cpus;
}

/* Whether what some peer sends can only be seen by asking descriptors: who need not be told of sleeping has nothing else. */
static bool is_by_descriptor(const struct ddl_comm *comm)
{
	for (int r = 0; r < comm->size; r++)
		if (comm->via[r] >= 0 && !comm->transports[(size_t)comm->via[r]]->ops->sleeping)
			return true;
	return false;
}

/* The slowest link that any node tells of. */
static uint32_t slowest_link(const struct ddl__members *members)
{
	uint32_t slowest = 0;
	for (int r = 0; r < members->size; r++) {
		uint32_t speed = members->places[r].link_Mbps;
		slowest = speed && (!slowest || speed < slowest) ? speed : slowest;
	}
	return slowest;
}

/* Takes the tuning over if it was measured on a job of this shape. */
static void adopt_tuning(struct ddl_comm *comm, struct ddl__members *members)
{
	struct ddl__model model;
	if (!members->tuning)
		return;
	ddl__model_init(&model, comm->layout);
	if (ddl__tuning_fits(members->tuning, &model)) {
		comm->tuning = members->tuning;
		members->tuning = NULL;
	} else if (comm->rank == 0) {
		char why[128];
		ddl__log(DDL__LOG_WARNING, "the tuning file (DDL_TUNE) is left out: it was %s",
			 ddl__tuning_misfit(members->tuning, &model, why, sizeof(why)));
	}
}

static int adopt_members(struct ddl_comm *comm, struct ddl__members *members, struct ddl_error *err)
{
	struct ddl__peer *peers = calloc((size_t)comm->size * (comm->n_transports + 1), sizeof(*peers));
	if (!peers)
		return ddl__error_set(err, -ENOMEM, "out of memory for %d peers", comm->size);
	for (int r = 0; r < comm->size; r++)
		for (size_t t = 0; t < comm->n_transports; t++)
			ddl__members_peer(members, r, comm->transports[t]->ops->name, &peers[(size_t)r * comm->n_transports + t]);
	ddl__pace_init(&comm->pace, is_crowded(members, comm->rank));
	struct ddl__plan *plan = members->plan;
	members->plan = NULL;
	int rc = adopt(comm, plan, members->node_of_rank, peers, members->secret, err);
	free(peers);
	if (rc < 0)
		return rc;
	comm->by_descriptor = is_by_descriptor(comm);
	comm->layout->link_Mbps = slowest_link(members);
	adopt_tuning(comm, members);
	return 0;
}

struct rails { /* the chosen interfaces, in facts' memory */
	const char *addresses[DDL__INTERFACES_MAX], *names[DDL__INTERFACES_MAX];
	size_t n;
	bool tied; /* connections are to be bound to them */
};

/* Chooses them. Where there is one, and nobody named it, the routes may know better. */
static int choose_rails(struct ddl__facts *facts, const char *wanted, struct rails *rails, struct ddl_error *err)
{
	size_t indices[DDL__INTERFACES_MAX];
	int rc = ddl__facts_choose_interfaces(facts, wanted, indices, &rails->n, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < rails->n; i++) {
		rails->addresses[i] = facts->interfaces[indices[i]].address;
		rails->names[i] = facts->interfaces[indices[i]].name;
	}
	facts->n_named = wanted && *wanted ? rails->n : 0;
	memcpy(facts->named, indices, facts->n_named * sizeof(indices[0]));
	rails->tied = facts->n_named || rails->n > 1;
	return 0;
}

static int start_services(struct ddl_comm *comm, const struct ddl__members *members, const char *job, struct ddl_error *err)
{
	const struct ddl__settings *settings = &comm->origin->settings;
	const char *folder = *settings->options.trace ? settings->options.trace : comm->plan->options.trace;
	int rc = *folder ? ddl__trace_open(comm, folder, job, settings->trace_megabytes, &comm->trace, err) : 0;
	return rc ? rc : ddl__serve_start(comm, members, err);
}

/* What people want to see of it, the same on all ranks. What ran before is not part of it. */
static int start_observing(struct ddl_comm *comm, struct ddl_error *err)
{
	struct ddl__origin *origin = comm->origin;
	unsigned wanted = origin->observe;
	int rc = 0;
	if (*comm->plan->options.trace)
		wanted |= DDL__OBSERVE_TRACE;
	if (wanted & DDL__OBSERVE_TRACE && !origin->clock_known)
		rc = ddl__sync(comm, &origin->clock_ahead_ns, &origin->clock_error_ns, err);
	if (rc < 0)
		return rc;
	origin->clock_known = wanted & DDL__OBSERVE_TRACE;
	if (comm->trace)
		ddl__trace_clock(comm->trace, origin->clock_ahead_ns, origin->clock_error_ns);
	if ((wanted & DDL__OBSERVE_STATS || comm->trace) && ddl__stats_open(comm, wanted) < 0)
		return ddl__error_memory(err);
	return 0;
}

/* Dimensions that were given for a whole job say nothing of a part with another number of ranks: those of the tree count there. */
static void drop_dims(struct ddl__options *options, int size)
{
	if (ddl__dims_ranks(options->dims, options->n_dims) != (uint64_t)size)
		options->n_dims = 0;
}

/* Where a transport has rails of its own, data are cut for those. */
static void count_ports(const struct ddl_comm *comm, struct ddl__facts *facts)
{
	facts->ports = 0;
	for (size_t t = 0; t < comm->n_transports; t++)
		if (comm->transports[t]->ops->ports)
			facts->ports = comm->transports[t]->ops->ports(comm->transports[t]);
}

int ddl__comm_make(struct ddl__boot *boot, struct ddl__origin *origin, struct ddl_comm **comm, struct ddl_error *err)
{
	const struct ddl__settings *settings = &origin->settings;
	struct ddl__members members = { 0 };
	struct rails rails = { .n = 0 };
	struct ddl_comm *c;
	int rc = comm_new(boot->rank, boot->size, origin, &c, err);
	if (rc < 0)
		return rc;
	if (!origin->loop)
		rc = choose_rails(&origin->facts, settings->interfaces, &rails, err);
	const struct ddl__transport_config config = { .rank = c->rank,
						      .n_ranks = c->size,
						      .epoll_fd = c->epoll_fd,
						      .timeout_ms = c->timeout_ms,
						      .machine = origin->facts.machine,
						      .addresses = rails.addresses,
						      .interfaces = rails.tied ? rails.names : NULL,
						      .n_addresses = rails.n,
						      .events = &ddl__engine_events,
						      .context = c,
						      .loop = origin->loop,
						      .rdma = &settings->rdma,
						      .cpus = &origin->facts.may,
						      .verbs = origin->verbs };
	rc = rc ? rc : open_transports(c, settings->transports, &config, err);
	count_ports(c, &origin->facts);
	rc = rc ? rc : ddl__exchange(boot, settings, &origin->facts, c->transports, c->n_transports, &members, err);
	if (rc == 0 && boot->secret)
		drop_dims(&members.plan->options, c->size);
	rc = rc ? rc : adopt_members(c, &members, err);
	rc = rc ? rc : start_services(c, &members, boot->job, err);
	memcpy(origin->job, boot->job, sizeof(origin->job));
	memcpy(origin->secret, members.secret, sizeof(origin->secret));
	origin->observe = members.observe;
	origin->settings.check = members.check; /* parts go by what this one goes by */
	origin->settings.plan = NULL;
	origin->settings.progress_cores = NULL;
	origin->settings.tuning = NULL; /* is of the whole job's shape */
	ddl__members_fini(&members);
	if (rc < 0) {
		ddl_comm_destroy(c);
		return rc;
	}
	ddl__process_enter(c);
	ddl__engine_listen(c, settings->dump_signal);
	ddl__state_show(c);
	*comm = c;
	return 0;
}

/* A barrier. */
static int meet(struct ddl_comm *comm, struct ddl_error *err)
{
	struct ddl_request *barrier;
	int rc = ddl_barrier_init(comm, NULL, &barrier, err);
	if (rc < 0)
		return rc;
	rc = ddl_start(barrier);
	rc = rc ? rc : ddl_wait(barrier);
	if (rc < 0 && ddl_comm_get_error(comm, err) == 0)
		ddl__error_set(err, rc, "rank %d: meeting the other ranks failed: %s", comm->rank, strerror(-rc));
	ddl_request_free(barrier);
	return rc;
}

int ddl__comm_connect(struct ddl_comm *comm, struct ddl_error *err)
{
	const struct ddl__origin *origin = comm->origin;
	int rc = meet(comm, err);
	if (rc == 0 && !origin->part && origin->settings.measure) /* a part takes over what its parent knows */
		rc = ddl__measure(comm, err);
	rc = rc ? rc : start_observing(comm, err);
	return rc == 0 && ddl__audit_open(comm, origin->settings.check) < 0 ? ddl__error_memory(err) : rc;
}

int ddl_comm_create(const struct ddl_comm_options *options, struct ddl_comm **comm, struct ddl_error *err)
{
	struct ddl__settings settings;
	struct ddl__origin *origin = NULL;
	struct ddl__boot *boot = NULL;
	struct ddl_comm *c = NULL;
	int rc = ddl__settings_read(options, &settings, err);
	rc = rc ? rc : ddl__origin_create(&settings, &origin, err);
	rc = rc ? rc : ddl__boot_open(options, settings.timeout_ms, &boot, err);
	if (rc == 0 && boot) {
		rc = ddl__facts_gather("", boot->host, &origin->facts, err);
		rc = rc ? rc : ddl__cores_named(settings.progress_cores, &origin->facts.may, &origin->facts.serve, err);
		if (rc == 0) {
			rc = ddl__comm_make(boot, origin, &c, err);
			origin = NULL; /* taken over */
		}
		boot->ops->close(boot);
	}
	ddl__origin_destroy(origin);
	if (rc < 0 || !c)
		return rc;
	rc = ddl__comm_connect(c, err);
	if (rc < 0) {
		ddl_comm_destroy(c);
		return rc;
	}
	*comm = c;
	return 0;
}

int ddl__comm_create_loop(struct ddl__loop_world *world, const char *plan_text, const size_t *node_of_rank, int rank, int n_ranks,
			  int timeout_ms, struct ddl_comm **comm, struct ddl_error *err)
{
	const struct ddl__settings settings = { .timeout_ms = timeout_ms, .reproducible = -1 };
	struct ddl__origin *origin;
	struct ddl__plan *plan;
	struct ddl_comm *c;
	int rc = ddl__origin_create(&settings, &origin, err);
	if (rc < 0)
		return rc;
	origin->loop = world;
	rc = comm_new(rank, n_ranks, origin, &c, err);
	if (rc < 0)
		return rc;
	const struct ddl__transport_config config = { .rank = rank,
						      .n_ranks = n_ranks,
						      .epoll_fd = c->epoll_fd,
						      .timeout_ms = timeout_ms,
						      .events = &ddl__engine_events,
						      .context = c,
						      .loop = world };
	rc = open_transports(c, NULL, &config, err);
	rc = rc ? rc : ddl__plan_decode(plan_text, strlen(plan_text), &plan, err);
	rc = rc ? rc : adopt(c, plan, node_of_rank, NULL, origin->secret, err);
	if (rc < 0) {
		ddl_comm_destroy(c);
		return rc;
	}
	ddl__process_enter(c);
	ddl__state_show(c);
	*comm = c;
	return 0;
}

static bool all_left(void *context)
{
	struct ddl_comm *comm = context;
	for (size_t t = 0; t < comm->n_transports; t++)
		if (!comm->transports[t]->ops->done(comm->transports[t]))
			return false;
	return true;
}

/* Says goodbye, or sees to it that the peers hear of the failure. */
static void say_goodbye(struct ddl_comm *comm)
{
	bool failed = atomic_load(&comm->failed);
	int ms = failed ? ABORT_MS_MAX : comm->timeout_ms < GOODBYE_MS_MAX ? comm->timeout_ms : GOODBYE_MS_MAX;
	pthread_mutex_lock(&comm->lock);
	for (size_t t = 0; t < comm->n_transports && !failed; t++)
		comm->transports[t]->ops->goodbye(comm->transports[t]);
	pthread_mutex_unlock(&comm->lock);
	ddl__engine_wait(comm, all_left, comm, ddl__now_ns() + (uint64_t)ms * 1000000, failed);
}

void ddl_comm_destroy(struct ddl_comm *comm)
{
	if (!comm || atomic_load(&comm->forked))
		return;
	ddl__audit_report(comm);
	ddl__report(comm);
	ddl__process_leave(comm);
	if (comm->layout)
		say_goodbye(comm);
	ddl__engine_thread_stop(comm);
	ddl__cache_clear(comm);
	/* The caller forgot them; their lanes must not outlive the transports. One that owns others was made before them. */
	for (uint32_t i = 0; i < comm->ids.n; i++)
		if (comm->ids.rows[i].request)
			ddl__request_destroy(comm->ids.rows[i].request);
	ddl__audit_close(comm);
	ddl__trace_close(comm->trace);
	for (size_t t = 0; t < comm->n_transports; t++)
		comm->transports[t]->ops->close(comm->transports[t]);
	ddl__layout_destroy(comm->layout);
	ddl__plan_destroy(comm->plan);
	free(comm->plan_text);
	free(comm->tuning);
	free(comm->via);
	ddl__mem_fini(comm);
	ddl__engine_fini(comm);
	ddl__origin_destroy(comm->origin);
	free(comm);
}

int ddl__comm_fail(struct ddl_comm *comm, int code, const char *format, ...)
{
	char text[DDL_ERROR_TEXT_SIZE];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (atomic_load(&comm->forked))
		return atomic_load(&comm->failed);
	pthread_mutex_lock(&comm->lock);
	int before = atomic_load(&comm->failed);
	ddl__engine_fail(comm, code, "%s", text);
	pthread_mutex_unlock(&comm->lock);
	ddl__engine_poke(comm);
	return before;
}

int ddl_comm_abort(struct ddl_comm *comm, const char *reason)
{
	return ddl__comm_fail(comm, -ECANCELED, "rank %d on node %s aborted the communicator: %s", comm->rank,
			      ddl_comm_node_name(comm, comm->rank), reason ? reason : "no reason given");
}

int ddl_comm_get_error(const struct ddl_comm *comm, struct ddl_error *err)
{
	int code = atomic_load(&comm->failed);
	if (code && err)
		*err = comm->error;
	return code;
}

int ddl_comm_rank(const struct ddl_comm *comm)
{
	return comm->rank;
}

int ddl_comm_size(const struct ddl_comm *comm)
{
	return comm->size;
}

const char *ddl_comm_plan(const struct ddl_comm *comm)
{
	return comm->plan_text;
}

int ddl_comm_order(const struct ddl_comm *comm, int ring, int *order)
{
	if (ring < 0 || ring >= (int)DDL__RINGS_MAX || !order)
		return -EINVAL;
	ddl__layout_order(comm->layout, (unsigned)ring, order);
	return 0;
}

const char *ddl_comm_node_name(const struct ddl_comm *comm, int rank)
{
	if (rank < 0 || rank >= comm->size || !comm->layout)
		return NULL;
	return comm->plan->nodes[comm->layout->node_of_rank[rank]]->name;
}
