/* SPDX-License-Identifier: Apache-2.0 */
/*
 * persistent.c - many requests at once, of every collective, started in another order on every rank: nothing deadlocks, all
 * results are right, a start allocates nothing, and a million of them leave nothing behind. Over loop, shm and tcp, with service
 * threads and without; and over verbs, where the fabric in one process is there.
 *
 * DDL_TEST_SEED=N runs the random test with that seed. A request that does not move for a minute fails its communicator, with a
 * sentence that tells which step waits for whom: that is the watchdog.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef WITH_FAKE_VERBS
#include "fake_verbs.h"
#define RANK_VERBS (&fake_verbs_api)
#endif
#include "rank_threads.h"

/* ---- what is allocated ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0 /* a sanitizer's own allocator is there instead */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTS 0
#endif
#endif
#ifndef COUNTS
#define COUNTS 1
#endif

static atomic_bool counting;
static atomic_ullong allocations;
static _Atomic(void *) allocator; /* who made the first */

#if COUNTS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void count(void *caller)
{
	void *none = NULL;

	if (!atomic_load_explicit(&counting, memory_order_relaxed))
		return;
	atomic_fetch_add(&allocations, 1);
	atomic_compare_exchange_strong(&allocator, &none, caller);
}

#define PUBLIC __attribute__((visibility("default")))

PUBLIC void *malloc(size_t size)
{
	count(__builtin_return_address(0));
	return __libc_malloc(size);
}

PUBLIC void *calloc(size_t n, size_t size)
{
	count(__builtin_return_address(0));
	return __libc_calloc(n, size);
}

PUBLIC void *realloc(void *memory, size_t size)
{
	count(__builtin_return_address(0));
	return __libc_realloc(memory, size);
}

PUBLIC int posix_memalign(void **memory, size_t alignment, size_t size)
{
	count(__builtin_return_address(0));
	*memory = __libc_memalign(alignment, size);
	return *memory ? 0 : ENOMEM;
}

PUBLIC void *aligned_alloc(size_t alignment, size_t size)
{
	count(__builtin_return_address(0));
	return __libc_memalign(alignment, size);
}

PUBLIC void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	count(__builtin_return_address(0));
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
#endif

/* ---- one request, of any collective ---- */

enum {
	REQUESTS_MAX = COUNTS ? 1000 : 300, /* sanitizers are slow */
	STARTS = COUNTS ? 100000 : 5000,
	COUNT_MAX = 40000,
	KINDS = 10,
};

enum kind {
	ALLREDUCE = 0,
	REDUCE_SCATTER = 1,
	ALLGATHER = 2,
	REDUCE = 3,
	BROADCAST = 4,
	ALLTOALL = 5,
	GATHER = 6,
	SCATTER = 7,
	BARRIER = 8,
	MESSAGE = 9, /* from root to the next rank */
};

struct member { /* a request on one rank */
	enum kind kind;
	size_t count;
	int root;
	unsigned number;             /* of the request */
	unsigned round;              /* starts so far */
	int32_t *in, *out;           /* NULL: none on this rank */
	struct ddl_request *request; /* NULL: this rank takes no part */
};

static bool takes_part(const struct member *m, int me, int n)
{
	return m->kind != MESSAGE || me == m->root || me == (m->root + 1) % n;
}

static int32_t value(const struct member *m, int rank, size_t i)
{
	return (int32_t)((m->number * 31u + m->round * 17u + (unsigned)rank * 7u + i) % 1000);
}

static int32_t sum(const struct member *m, int n, size_t i)
{
	int32_t all = 0;

	for (int r = 0; r < n; r++)
		all += value(m, r, i);
	return all;
}

static size_t in_elements(const struct member *m, int me, int n)
{
	switch (m->kind) {
	case ALLREDUCE:
	case ALLGATHER:
	case REDUCE:
	case GATHER:
		return m->count;
	case REDUCE_SCATTER:
	case ALLTOALL:
		return m->count * (size_t)n;
	case SCATTER:
		return me == m->root ? m->count * (size_t)n : 0;
	case BROADCAST: /* in its only buffer */
	case BARRIER:
		return 0;
	case MESSAGE:
		return me == m->root ? m->count : 0;
	}
	return 0;
}

static size_t out_elements(const struct member *m, int me, int n)
{
	switch (m->kind) {
	case ALLREDUCE:
	case REDUCE_SCATTER:
	case SCATTER:
	case BROADCAST:
		return m->count;
	case ALLGATHER:
	case ALLTOALL:
		return m->count * (size_t)n;
	case REDUCE:
		return me == m->root ? m->count : 0;
	case GATHER:
		return me == m->root ? m->count * (size_t)n : 0;
	case BARRIER:
		return 0;
	case MESSAGE:
		return me == (m->root + 1) % n ? m->count : 0;
	}
	return 0;
}

static int32_t expected(const struct member *m, int me, int n, size_t i)
{
	switch (m->kind) {
	case ALLREDUCE:
	case REDUCE:
		return sum(m, n, i);
	case REDUCE_SCATTER:
		return sum(m, n, (size_t)me * m->count + i);
	case ALLGATHER:
	case GATHER:
		return value(m, (int)(i / m->count), i % m->count);
	case BROADCAST:
	case MESSAGE:
		return value(m, m->root, i);
	case ALLTOALL:
		return value(m, (int)(i / m->count), (size_t)me * m->count + i % m->count);
	case SCATTER:
		return value(m, m->root, (size_t)me * m->count + i);
	case BARRIER:
		break;
	}
	return 0;
}

static int make(struct rank *rank, struct member *m, int priority, struct ddl_error *err)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_comm *comm = rank->comm;
	const int me = rank->rank, n = rank->world->n;
	const enum ddl_type type = DDL_INT32;

	options.priority = priority;
	if (!takes_part(m, me, n))
		return 0;
	m->in = calloc(in_elements(m, me, n) + 1, sizeof(int32_t));
	m->out = calloc(out_elements(m, me, n) + 1, sizeof(int32_t));
	if (!m->in || !m->out)
		return -ENOMEM;
	switch (m->kind) {
	case ALLREDUCE:
		return ddl_allreduce_init(m->in, m->out, m->count, type, DDL_SUM, comm, &options, &m->request, err);
	case REDUCE_SCATTER:
		return ddl_reduce_scatter_init(m->in, m->out, m->count, type, DDL_SUM, comm, &options, &m->request, err);
	case ALLGATHER:
		return ddl_allgather_init(m->in, m->out, m->count, type, comm, &options, &m->request, err);
	case REDUCE:
		return ddl_reduce_init(m->in, m->out, m->count, type, DDL_SUM, m->root, comm, &options, &m->request, err);
	case BROADCAST:
		return ddl_broadcast_init(m->out, m->count, type, m->root, comm, &options, &m->request, err);
	case ALLTOALL:
		return ddl_alltoall_init(m->in, m->out, m->count, type, comm, &options, &m->request, err);
	case GATHER:
		return ddl_gather_init(m->in, m->out, m->count, type, m->root, comm, &options, &m->request, err);
	case SCATTER:
		return ddl_scatter_init(m->in, m->out, m->count, type, m->root, comm, &options, &m->request, err);
	case BARRIER:
		return ddl_barrier_init(comm, &options, &m->request, err);
	case MESSAGE:
		return me == m->root
			       ? ddl_send_init(m->in, m->count, type, (me + 1) % n, m->number, comm, &options, &m->request, err)
			       : ddl_recv_init(m->out, m->count, type, m->root, m->number, comm, &options, &m->request, err);
	}
	return -EINVAL;
}

static int start(struct rank *rank, struct member *m)
{
	const size_t n_in = in_elements(m, rank->rank, rank->world->n), n_out = out_elements(m, rank->rank, rank->world->n);

	for (size_t i = 0; i < n_in; i++)
		m->in[i] = value(m, rank->rank, i);
	for (size_t i = 0; i < n_out; i++)
		m->out[i] = m->kind == BROADCAST && rank->rank == m->root ? value(m, m->root, i) : -1;
	return ddl_start(m->request);
}

/* A start is complete. */
static void check(struct rank *rank, struct member *m)
{
	static const char *const names[KINDS] = { "all-reduce", "reduce-scatter", "all-gather", "reduce",  "broadcast",
						  "all-to-all", "gather",         "scatter",    "barrier", "message" };
	const int me = rank->rank, n = rank->world->n;
	const size_t n_out = out_elements(m, me, n);
	char what[200];

	for (size_t i = 0; i < n_out; i++) {
		if (m->out[i] == expected(m, me, n, i))
			continue;
		snprintf(what, sizeof(what), "request %u, a %s of %zu, start %u: element %zu is %d, not %d", m->number,
			 names[m->kind], m->count, m->round, i, m->out[i], expected(m, me, n, i));
		complain(rank, what, 0);
		break;
	}
	m->round++;
}

/* ---- the requests of a rank ---- */

struct set {
	size_t n;
	struct member members[REQUESTS_MAX];
	struct member *idle[REQUESTS_MAX], *active[REQUESTS_MAX];
	size_t n_idle, n_active;
};

/* The same kinds, counts, roots and priorities on every rank. */
static struct set *set_create(struct rank *rank, size_t n)
{
	struct set *set = calloc(1, sizeof(*set));
	uint64_t seed = rank->world->seed;
	struct ddl_error err = { 0 };
	int rc = set ? 0 : -ENOMEM;

	for (size_t q = 0; rc == 0 && q < n; q++) {
		struct member *m = &set->members[set->n++];
		uint64_t x = next_random(&seed);

		m->kind = (enum kind)(x % KINDS);
		m->root = (int)((x >> 8) % (uint64_t)rank->world->n);
		m->count = (x >> 16) % 500;
		if ((x >> 32) % 40 == 0)
			m->count = (x >> 16) % COUNT_MAX; /* of several slices */
		m->number = (unsigned)q;
		rc = make(rank, m, (int)((x >> 48) % 5) - 2, &err);
		if (rc == 0 && m->request)
			set->idle[set->n_idle++] = m;
	}
	if (rc < 0)
		complain(rank, err.text, rc);
	return set;
}

static void set_destroy(struct rank *rank, struct set *set)
{
	for (size_t q = 0; set && q < set->n; q++) {
		int rc = ddl_request_free(set->members[q].request);

		if (rc < 0 && !rank->wrong[0])
			complain(rank, "a request could not be freed", rc);
		free(set->members[q].in);
		free(set->members[q].out);
	}
	free(set);
}

static struct member *take(struct member **list, size_t *n, size_t at)
{
	struct member *m = list[at];

	list[at] = list[--*n];
	return m;
}

/* The active ones that were started the least: a rank that waits for one of these waits for a start that no peer holds back. */
static size_t draw_oldest(const struct set *set, uint64_t *seed)
{
	size_t at = next_random(seed) % set->n_active, oldest = at;

	for (size_t i = 0; i < set->n_active; i++, at = (at + 1) % set->n_active)
		if (set->active[at]->round < set->active[oldest]->round)
			oldest = at;
	return oldest;
}

/* Starts a random one that has rounds left; false: there is none. */
static bool start_any(struct rank *rank, struct set *set, unsigned rounds, uint64_t *seed)
{
	struct member *m;
	int rc;

	while (set->n_idle && set->idle[set->n_idle - 1]->round == rounds)
		set->n_idle--;
	if (!set->n_idle)
		return false;
	m = take(set->idle, &set->n_idle, next_random(seed) % set->n_idle);
	if (m->round == rounds)
		return true; /* done; dropped */
	rc = start(rank, m);
	if (rc < 0)
		complain(rank, "a start failed", rc);
	set->active[set->n_active++] = m;
	return true;
}

/* Until each was started that many times. Which one is started, tested or waited for next is chance. */
static void run_set(struct rank *rank, struct set *set, unsigned rounds, uint64_t *seed)
{
	while (!rank->wrong[0]) {
		bool started = next_random(seed) % 4 && start_any(rank, set, rounds, seed);
		size_t at;
		int rc;

		if (started)
			continue;
		if (!set->n_active && !set->n_idle)
			return;
		if (!set->n_active)
			continue;
		if (set->n_idle) {
			at = next_random(seed) % set->n_active;
			rc = ddl_test(set->active[at]->request);
		} else {
			at = draw_oldest(set, seed);
			rc = ddl_wait(set->active[at]->request);
			rc = rc ? rc : 1;
		}
		if (rc < 0)
			complain(rank, "a request failed", rc);
		if (rc > 0) {
			struct member *m = take(set->active, &set->n_active, at);

			check(rank, m);
			if (m->round < rounds)
				set->idle[set->n_idle++] = m;
		}
	}
}

/* Makes them startable again for more rounds. */
static void renew(struct set *set)
{
	set->n_idle = set->n_active = 0;
	for (size_t q = 0; q < set->n; q++)
		if (set->members[q].request)
			set->idle[set->n_idle++] = &set->members[q];
}

/* ---- any order ---- */

static uint64_t count_active(struct ddl_comm *comm)
{
	uint64_t n = 0;

	ddl__engine_poke(comm); /* with what is queued */
	pthread_mutex_lock(&comm->lock);
	for (const struct ddl_request *r = comm->active; r; r = r->next)
		n++;
	pthread_mutex_unlock(&comm->lock);
	return n;
}

/* The last rank begins when the others have started all: till then most of these cannot complete. */
static void *any_order(struct rank *rank)
{
	const struct world *w = rank->world;
	uint64_t mine = w->seed * RANKS_MAX + (uint64_t)rank->rank + 1;
	struct set *set = set_create(rank, *(const size_t *)w->argument);

	if (rank->rank < w->n - 1)
		while (!rank->wrong[0] && start_any(rank, set, 3, &mine))
			;
	if (rank->rank == 0)
		rank->found = count_active(rank->comm);
	pthread_barrier_wait(&rank->world->barrier);
	run_set(rank, set, 3, &mine);
	pthread_barrier_wait(&rank->world->barrier);
	set_destroy(rank, set);
	return NULL;
}

static uint64_t seed_of(uint64_t otherwise)
{
	const char *text = getenv("DDL_TEST_SEED");

	return text ? strtoull(text, NULL, 0) : otherwise;
}

struct case_ {
	const char *transport;
	int ranks, progress;
};

static const struct case_ cases[] = {
	{ "loop", 4, 0 },  { "loop", 2, 1 },  { "shm", 3, 0 }, { "shm", 2, 1 }, { "tcp", 3, 0 }, { "tcp", 2, 1 },
#ifdef WITH_FAKE_VERBS
	{ "verbs", 3, 0 }, { "verbs", 2, 1 },
#endif
};

/* Over verbs: on two InfiniBand devices that all ranks share, whose work is carried out by a thread of its own. */
static void run(int n, const char *transport, int progress, uint64_t seed, void *(*body)(struct rank *rank), const void *argument,
		uint64_t *found)
{
#ifdef WITH_FAKE_VERBS
	if (strcmp(transport, "verbs") == 0) {
		fake_verbs_begin();
		fake_verbs_add(&(struct fake_device){ .name = "r0", .max_cqe = 1 << 16 });
		fake_verbs_add(&(struct fake_device){ .name = "r1", .max_cqe = 1 << 16 });
		fake_verbs_delivery(FAKE_BY_THREAD, seed);
	}
#endif
	run_world(n, transport, progress, seed, body, argument, found);
#ifdef WITH_FAKE_VERBS
	if (strcmp(transport, "verbs") == 0)
		assert_string_equal(fake_verbs_end(), "");
#endif
}

static void hundreds_of_requests_in_any_order_complete(void **state)
{
	const struct case_ *c = *state;
	const size_t requests = REQUESTS_MAX;
	uint64_t seed = seed_of(20 + (uint64_t)(c - cases)), active = 0;

	print_message("DDL_TEST_SEED=%llu\n", (unsigned long long)seed);
	run(c->ranks, c->transport, c->progress, seed, any_order, &requests, &active);
	print_message("%llu active at once\n", (unsigned long long)active);
	assert_true(active >= REQUESTS_MAX / 3);
}

/* ---- no allocation ---- */

static void *start_again(struct rank *rank)
{
	uint64_t mine = rank->world->seed * RANKS_MAX + (uint64_t)rank->rank + 1;
	struct set *set = set_create(rank, *(const size_t *)rank->world->argument);

	run_set(rank, set, 5, &mine); /* connections, and as much in flight as there will be */
	renew(set);
	pthread_barrier_wait(&rank->world->barrier);
	atomic_store(&counting, true);
	run_set(rank, set, 25, &mine);
	pthread_barrier_wait(&rank->world->barrier);
	atomic_store(&counting, false);
	pthread_barrier_wait(&rank->world->barrier);
	set_destroy(rank, set);
	return NULL;
}

static void a_start_allocates_nothing(void **state)
{
	const struct case_ *c = *state;
	const size_t requests = 100;

	if (!COUNTS)
		skip();
	atomic_store(&allocations, 0);
	atomic_store(&allocator, NULL);
	run(c->ranks, c->transport, c->progress, 7, start_again, &requests, NULL);
	if (atomic_load(&allocations))
		fail_msg("%llu allocations, the first from %p", (unsigned long long)atomic_load(&allocations),
			 atomic_load(&allocator));
}

static void allocations_are_counted(void **state)
{
	if (!COUNTS)
		skip();
	atomic_store(&allocations, 0);
	atomic_store(&counting, true);
	void *volatile memory = malloc(10);
	memory = realloc(memory, 100000);
	free(memory);
	memory = calloc(3, 5);
	free(memory);
	memory = strdup("from within libc");
	free(memory);
	memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(memory, 4096);
	atomic_store(&counting, false);
	assert_int_equal(atomic_load(&allocations), 5);
}

/* ---- a million starts ---- */

enum { RESIDENT_SLACK = 1 << 20 }; /* a byte a start would be seen */

static size_t resident_bytes(void)
{
	unsigned long all = 0, resident = 0;
	FILE *in = fopen("/proc/self/statm", "re");

	if (in && fscanf(in, "%lu %lu", &all, &resident) != 2)
		resident = 0;
	if (in)
		fclose(in);
	return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n;
}

static void start_times(struct rank *rank, struct ddl_request *request, float *data, size_t times)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < times; i++) {
		*data = (float)(i % 1000);
		rc = ddl_start(request);
		rc = rc ? rc : ddl_wait(request);
		if (rc == 0 && *data != (float)(rank->world->n * (int)(i % 1000)))
			rc = -EILSEQ;
	}
	if (rc)
		complain(rank, "a start went wrong", rc);
}

static void *many_starts(struct rank *rank)
{
	struct ddl_request *request = NULL;
	struct ddl_error err = { 0 };
	size_t resident = 0, descriptors = 0, more;
	float data = 0;
	int rc = ddl_allreduce_init(&data, &data, 1, DDL_FLOAT32, DDL_SUM, rank->comm, NULL, &request, &err);

	if (rc < 0)
		complain(rank, err.text, rc);
	else
		start_times(rank, request, &data, 5000);
	pthread_barrier_wait(&rank->world->barrier);
	if (rank->rank == 0) {
		resident = resident_bytes();
		descriptors = open_descriptors();
		atomic_store(&counting, true);
	}
	pthread_barrier_wait(&rank->world->barrier);
	if (rc == 0)
		start_times(rank, request, &data, *(const size_t *)rank->world->argument);
	pthread_barrier_wait(&rank->world->barrier);
	if (rank->rank == 0)
		atomic_store(&counting, false);
	pthread_barrier_wait(&rank->world->barrier); /* the other rank's goodbye does not count */
	if (rank->rank == 0) {
		more = resident_bytes();
		if (COUNTS && more > resident + RESIDENT_SLACK) /* sanitizers keep what they saw */
			complain(rank, "resident memory has grown", (int)((more - resident) >> 10));
		if (open_descriptors() != descriptors)
			complain(rank, "descriptors have stayed open", (int)(open_descriptors() - descriptors));
	}
	ddl_request_free(request);
	return NULL;
}

static void start_many(const char *transport, int progress, size_t starts)
{
	atomic_store(&allocations, 0);
	run(2, transport, progress, 3, many_starts, &starts, NULL);
	assert_int_equal(atomic_load(&allocations), 0);
}

static bool is_slow(const struct case_ *c)
{
	return strcmp(c->transport, "tcp") == 0 || strcmp(c->transport, "verbs") == 0 || c->progress;
}

static void a_hundred_thousand_starts_leave_nothing_behind(void **state)
{
	const struct case_ *c = *state;

	start_many(c->transport, c->progress, is_slow(c) ? STARTS / 5 : STARTS);
}

static void a_million_starts_leave_nothing_behind(void **state)
{
	const struct case_ *c = *state;

	start_many(c->transport, c->progress, 1000000);
}

/* ---- whose the memory is ---- */

/* Rank 0 gathers what the other has not started yet; the barrier comes after its block on the same connection. */
static void *send_ahead(struct rank *rank)
{
	enum { COUNT = 65536 };
	const size_t first = rank->rank ? 0 : COUNT; /* of the other's block */
	struct ddl_request *gather = NULL, *barrier = NULL;
	struct ddl_error err = { 0 };
	float *mine = calloc(COUNT, sizeof(float)), *all = calloc(2 * COUNT, sizeof(float));
	size_t i;
	int rc = mine && all ? ddl_allgather_init(mine, all, COUNT, DDL_FLOAT32, rank->comm, NULL, &gather, &err) : -ENOMEM;

	rc = rc ? rc : ddl_barrier_init(rank->comm, NULL, &barrier, &err);
	for (i = 0; rc == 0 && i < COUNT; i++) {
		mine[i] = (float)i + 1;
		all[first + i] = -1;
	}
	if (rc == 0 && rank->rank == 0)
		rc = ddl_start(gather);
	rc = rc ? rc : ddl_start(barrier);
	rc = rc ? rc : ddl_wait(barrier);
	for (i = 0; rc == 0 && rank->rank && i < COUNT && all[i] == -1; i++)
		;
	if (rc == 0 && rank->rank && i < COUNT)
		complain(rank, "memory was written before the start, from element", (int)i);
	if (rc == 0 && rank->rank)
		rc = ddl_start(gather);
	rc = rc ? rc : ddl_wait(gather);
	for (i = 0; rc == 0 && i < COUNT && all[first + i] == (float)i + 1; i++)
		;
	if (rc || i < COUNT)
		complain(rank, rc ? "it failed" : "an element is wrong", rc ? rc : (int)i);
	ddl_request_free(gather);
	ddl_request_free(barrier);
	free(mine);
	free(all);
	return NULL;
}

static void nothing_lands_before_the_first_start(void **state)
{
	const struct case_ *c = *state;

	run(2, c->transport, c->progress, 1, send_ahead, NULL, NULL);
}

/* ---- those that come and go ---- */

/* Requests that come and go leave nothing behind either, while one of before them stays. */
static void *come_and_go(struct rank *rank)
{
	struct ddl_request *first = NULL, *request = NULL;
	struct ddl_error err = { 0 };
	float data = 1, other = 1;
	int rc = ddl_allreduce_init(&other, &other, 1, DDL_FLOAT32, DDL_SUM, rank->comm, NULL, &first, &err);

	for (int i = 0; rc == 0 && i < 5000; i++) {
		rc = ddl_allreduce_init(&data, &data, 1, DDL_FLOAT32, DDL_SUM, rank->comm, NULL, &request, &err);
		rc = rc ? rc : ddl_start(request);
		rc = rc ? rc : ddl_wait(request);
		ddl_request_free(request);
		request = NULL;
		data = 1;
	}
	if (rc < 0)
		complain(rank, err.text, rc);
	rank->found = rank->comm->ids.room;
	ddl_request_free(first);
	return NULL;
}

static void the_table_of_requests_holds_those_that_live(void **state)
{
	uint64_t rows;

	run(2, "loop", 0, 3, come_and_go, NULL, &rows);
	assert_true(rows <= 2 * 64);
}

#define CASE(test, i) cmocka_unit_test_prestate(test, (void *)(uintptr_t)&cases[i])
#ifdef WITH_FAKE_VERBS
#define OVER_VERBS(test) , CASE(test, 6), CASE(test, 7)
#else
#define OVER_VERBS(test)
#endif
#define EACH(test) CASE(test, 0), CASE(test, 1), CASE(test, 2), CASE(test, 3), CASE(test, 4), CASE(test, 5) OVER_VERBS(test)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations_are_counted),
		EACH(hundreds_of_requests_in_any_order_complete),
		EACH(nothing_lands_before_the_first_start),
		EACH(a_start_allocates_nothing),
		EACH(a_hundred_thousand_starts_leave_nothing_behind),
		cmocka_unit_test(the_table_of_requests_holds_those_that_live),
	};
	const struct CMUnitTest long_tests[] = { EACH(a_million_starts_leave_nothing_behind) };

	return argc > 1 && strcmp(argv[1], "long") == 0 ? cmocka_run_group_tests(long_tests, NULL, NULL)
							: cmocka_run_group_tests(tests, NULL, NULL);
}
