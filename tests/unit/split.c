/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators split from communicators, over transport/loop, with a thread a rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "comm.h"
#include "engine.h"
#include "trees.h"
#include "tuning.h"

enum { RANKS_MAX = 16, TIMEOUT_MS = 60000, COUNT = 1000 };

#define CHECK(condition) /* in a thread of a rank, where cmocka's assertions must not be used */                                   \
	do {                                                                                                                       \
		if (!(condition))                                                                                                  \
			return print_error("rank %d, line %d: %s\n", m->rank, __LINE__, #condition), 1;                            \
	} while (0)

struct member;
typedef int body_fn(struct member *m);

struct world {
	int n;
	struct ddl__loop_world *loop;
	struct world_plan plan;
	struct member {
		struct world *w;
		int rank;
		struct ddl_comm *comm;
		body_fn *body;
		int bad; /* what body returned */
		uint64_t seed;
		struct ddl_error err;
	} members[RANKS_MAX];
};

/* Descriptors that are open in this process. */
static int open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;
	assert_non_null(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

static void *run_member(void *argument)
{
	struct member *m = argument;
	m->bad = m->body(m);
	ddl_comm_destroy(m->comm);
	return NULL;
}

/* A communicator of a rank a thread, in which every rank runs body and then destroys it; body may have put another in its place. */
static void run_ranks(struct world *w, int n, int jitter, uint64_t seed, int timeout_ms, body_fn *body)
{
	pthread_t threads[RANKS_MAX];
	struct ddl_error err = { 0 };
	int before = open_files();
	w->n = n;
	w->loop = ddl__loop_world_create(n);
	assert_non_null(w->loop);
	ddl__loop_world_jitter(w->loop, jitter ? 3 : 0, seed);
	for (int r = 0; r < n; r++) {
		struct member *m = &w->members[r];
		*m = (struct member){ .w = w, .rank = r, .body = body, .seed = seed };
		if (ddl__comm_create_loop(w->loop, w->plan.text, w->plan.node_of_rank, r, n, timeout_ms, &m->comm, &err) < 0)
			fail_msg("%s", err.text);
	}
	for (int r = 0; r < n; r++)
		assert_int_equal(pthread_create(&threads[r], NULL, run_member, &w->members[r]), 0);
	for (int r = 0; r < n; r++)
		pthread_join(threads[r], NULL);
	for (int r = 0; r < n; r++)
		assert_int_equal(w->members[r].bad, 0);
	ddl__loop_world_destroy(w->loop);
	assert_int_equal(open_files(), before);
}

/* On a random tree. */
static void run_world(int n, uint64_t seed, int jitter, int timeout_ms, body_fn *body)
{
	static struct world w;
	memset(&w, 0, sizeof(w));
	assert_int_equal(random_plan(seed, n, 2, (int)(seed & 1), &w.plan), 0);
	run_ranks(&w, n, jitter, seed, timeout_ms, body);
	world_plan_fini(&w.plan);
}

/* On a plan of n nodes with a rank each. */
static void run_plan(int n, const char *text, body_fn *body)
{
	static struct world w;
	size_t node_of_rank[RANKS_MAX];
	char copy[256];
	memset(&w, 0, sizeof(w));
	snprintf(copy, sizeof(copy), "%s", text);
	w.plan.text = copy;
	w.plan.node_of_rank = node_of_rank;
	for (int r = 0; r < n; r++)
		node_of_rank[r] = (size_t)r;
	run_ranks(&w, n, 0, 0, TIMEOUT_MS, body);
}

/* ---- what a split must give ---- */

struct wanted { /* computed by the rules, without what is tested */
	int n, me;
	int members[RANKS_MAX]; /* ranks of the parent, in order */
};

/* Inserts the ranks of my color in ascending order of key; ranks come in ascending order, so equal keys keep it. */
static void want(const int *colors, const int *keys, int n, int me, struct wanted *wanted)
{
	wanted->n = 0;
	for (int r = 0; r < n; r++) {
		if (colors[r] != colors[me])
			continue;
		int at = wanted->n++;
		while (at > 0 && keys[wanted->members[at - 1]] > keys[r]) {
			wanted->members[at] = wanted->members[at - 1];
			at--;
		}
		wanted->members[at] = r;
	}
	for (int r = 0; r < wanted->n; r++)
		if (wanted->members[r] == me)
			wanted->me = r;
}

/* The plan is the parent's, cut to the nodes of the members, and every rank is on the node on which it was. */
static int check_plan(const struct member *m, const struct ddl_comm *parent, const struct ddl_comm *child,
		      const struct wanted *wanted)
{
	const char *names[RANKS_MAX];
	uint32_t tasks[RANKS_MAX] = { 0 };
	size_t n = 0;
	struct ddl__plan *given, *cut;
	struct ddl_error err = { 0 };
	char *text;
	int before[RANKS_MAX], after[RANKS_MAX], position[RANKS_MAX], last = -1;
	for (int r = 0; r < wanted->n; r++) {
		const char *name = ddl_comm_node_name(parent, wanted->members[r]);
		size_t at = 0;
		CHECK(strcmp(ddl_comm_node_name(child, r), name) == 0);
		while (at < n && strcmp(names[at], name) != 0)
			at++;
		n += at == n;
		names[at] = name;
		tasks[at]++;
	}
	CHECK(ddl__plan_decode(ddl_comm_plan(parent), strlen(ddl_comm_plan(parent)), &given, &err) == 0);
	CHECK(ddl__plan_restrict(given, names, tasks, n, &cut, &err) == 0);
	cut->rails = 0; /* a loop world has no interfaces */
	CHECK(ddl__plan_encode(cut, &text, &err) == 0);
	CHECK(strcmp(ddl_comm_plan(child), text) == 0);
	free(text);
	ddl__plan_destroy(cut);
	ddl__plan_destroy(given);

	/* The nodes come in the parent's order. */
	CHECK(ddl_comm_order(parent, 0, before) == 0 && ddl_comm_order(child, 0, after) == 0);
	for (int i = 0; i < ddl_comm_size(parent); i++)
		position[before[i]] = i;
	for (int i = 0; i < wanted->n; i++) {
		int now = position[wanted->members[after[i]]];
		bool same_node = i && strcmp(ddl_comm_node_name(child, after[i]), ddl_comm_node_name(child, after[i - 1])) == 0;
		CHECK(same_node || now > last);
		last = now > last ? now : last;
	}
	return 0;
}

/* Sums over the members, of which each contributes by its rank in the parent; all collectives meet only their own ranks. */
static int check_sum(struct member *m, struct ddl_comm *child, const struct wanted *wanted, int salt)
{
	int64_t data[COUNT], sum = 0;
	int32_t root = wanted->members[wanted->me];
	for (int r = 0; r < wanted->n; r++)
		sum += (wanted->members[r] + 1) * (salt + 3);
	for (int i = 0; i < COUNT; i++)
		data[i] = (wanted->members[wanted->me] + 1) * (salt + 3) + i;
	int rc = ddl_allreduce(data, data, COUNT, DDL_INT64, DDL_SUM, child);
	rc = rc ? rc : ddl_broadcast(&root, 1, DDL_INT32, wanted->n - 1, child);
	if (rc < 0) {
		ddl_comm_get_error(child, &m->err);
		print_error("rank %d: %s\n", m->rank, m->err.text);
	}
	CHECK(rc == 0);
	for (int i = 0; i < COUNT; i++)
		CHECK(data[i] == sum + (int64_t)i * wanted->n);
	CHECK(root == wanted->members[wanted->n - 1]);
	return 0;
}

static int check_child(struct member *m, const struct ddl_comm *parent, struct ddl_comm *child, const struct wanted *wanted,
		       int salt)
{
	CHECK(ddl_comm_size(child) == wanted->n);
	CHECK(ddl_comm_rank(child) == wanted->me);
	return check_plan(m, parent, child, wanted) || check_sum(m, child, wanted, salt);
}

/* Colors and keys of all ranks, the same on every rank. */
static void draw(uint64_t *seed, int n, int *colors, int *keys)
{
	int n_colors = 1 + (int)(next_random(seed) % (uint64_t)n);
	for (int r = 0; r < n; r++) {
		uint64_t x = next_random(seed);
		colors[r] = x % 5 == 0 ? DDL_UNDEFINED : (int)(x / 5 % (uint64_t)n_colors) * 1000003; /* with holes */
		keys[r] = (int)(x >> 32) % 7 - 3;
	}
}

static int split_well(struct member *m, struct ddl_comm *parent, const int *colors, const int *keys, struct ddl_comm **child)
{
	int me = ddl_comm_rank(parent);
	if (ddl_comm_split(parent, colors[me], keys[me], child, &m->err) < 0) {
		print_error("rank %d: %s\n", m->rank, m->err.text);
		return 1;
	}
	CHECK(!*child == (colors[me] == DDL_UNDEFINED));
	return 0;
}

/* ---- bodies ---- */

static int split_and_sum(struct member *m)
{
	uint64_t seed = m->seed;
	int colors[RANKS_MAX], keys[RANKS_MAX], n = m->w->n;
	struct wanted wanted, all;
	struct ddl_comm *child;
	for (int r = 0; r < n; r++)
		colors[r] = keys[r] = 0;
	want(colors, keys, n, m->rank, &all);
	for (int round = 0; round < 3; round++) {
		draw(&seed, n, colors, keys);
		want(colors, keys, n, m->rank, &wanted);
		if (split_well(m, m->comm, colors, keys, &child) || (child && check_child(m, m->comm, child, &wanted, round)) ||
		    check_sum(m, m->comm, &all, round + 10))
			return 1;
		ddl_comm_destroy(child);
	}
	return 0;
}

static void every_part_is_in_order_has_its_plan_and_sums_its_own_ranks(void **state)
{
	uint64_t seed = 7;
	for (int round = 0; round < 12; round++)
		run_world(1 + (int)(next_random(&seed) % RANKS_MAX), next_random(&seed), 0, TIMEOUT_MS, split_and_sum);
}

static void parts_are_right_whatever_the_interleaving(void **state)
{
	for (int n = 2; n <= 4; n++) /* few: ranks whose looks at slots fail at random do not sleep */
		run_world(n, (uint64_t)n * 13, 1, TIMEOUT_MS, split_and_sum);
}

/* Halves of halves, all alive at once, used from the inside outwards. */
static int split_within_split(struct member *m)
{
	struct ddl_comm *levels[8] = { m->comm };
	struct wanted wanted[8];
	int depth = 0, failed = 0;
	while (!failed && ddl_comm_size(levels[depth]) > 1) {
		int colors[RANKS_MAX], keys[RANKS_MAX], n = ddl_comm_size(levels[depth]), me = ddl_comm_rank(levels[depth]);
		for (int r = 0; r < n; r++) {
			colors[r] = r < n / 3 + 1; /* uneven */
			keys[r] = -r;              /* the other way round */
		}
		want(colors, keys, n, me, &wanted[depth + 1]);
		failed = split_well(m, levels[depth], colors, keys, &levels[depth + 1]);
		depth++;
		failed = failed || check_plan(m, levels[depth - 1], levels[depth], &wanted[depth]);
	}
	for (int d = depth; d > 0; d--) {
		failed = failed || check_sum(m, levels[d], &wanted[d], d);
		ddl_comm_destroy(levels[d]);
	}
	return failed;
}

static void a_part_is_split_like_any_other_communicator(void **state)
{
	for (int n = 2; n <= RANKS_MAX; n += 2)
		run_world(n, (uint64_t)n, 0, TIMEOUT_MS, split_within_split);
}

static int outlive(struct member *m)
{
	int colors[RANKS_MAX], keys[RANKS_MAX], n = m->w->n;
	struct wanted wanted;
	struct ddl_comm *child, *grandchild, *parent = m->comm;
	for (int r = 0; r < n; r++) {
		colors[r] = r % 2;
		keys[r] = 0;
	}
	want(colors, keys, n, m->rank, &wanted);
	if (split_well(m, parent, colors, keys, &child) || check_child(m, parent, child, &wanted, 1))
		return 1;
	ddl_comm_destroy(parent);
	m->comm = child; /* destroyed last */
	if (check_sum(m, child, &wanted, 2))
		return 1;
	CHECK(ddl_comm_dup(child, &grandchild, &m->err) == 0);
	CHECK(ddl_comm_size(grandchild) == wanted.n && ddl_comm_rank(grandchild) == wanted.me);
	if (check_sum(m, grandchild, &wanted, 3))
		return 1;
	ddl_comm_destroy(child);
	m->comm = grandchild;
	return check_sum(m, grandchild, &wanted, 4);
}

static void a_part_outlives_its_parent(void **state)
{
	run_world(7, 3, 0, TIMEOUT_MS, outlive);
}

static int duplicate(struct member *m)
{
	int colors[RANKS_MAX] = { 0 }, keys[RANKS_MAX] = { 0 }, n = m->w->n, order[RANKS_MAX], same[RANKS_MAX];
	struct ddl_comm *a, *b;
	struct ddl_request *requests[3];
	int32_t data[3] = { m->rank, m->rank * 10, m->rank * 100 }, ranks = n * (n - 1) / 2;
	struct wanted wanted;
	want(colors, keys, n, m->rank, &wanted);
	CHECK(ddl_comm_dup(m->comm, &a, NULL) == 0);
	CHECK(ddl_comm_dup(a, &b, NULL) == 0);
	if (check_child(m, m->comm, a, &wanted, 1) || check_child(m, a, b, &wanted, 2))
		return 1;
	CHECK(strcmp(ddl_comm_plan(a), ddl_comm_plan(b)) == 0);
	CHECK(memcmp(a->origin->secret, m->comm->origin->secret, DDL__SECRET_SIZE) != 0);
	CHECK(memcmp(a->origin->secret, b->origin->secret, DDL__SECRET_SIZE) != 0);
	for (int ring = 0; ring < 4; ring++) {
		CHECK(ddl_comm_order(m->comm, ring, order) == 0 && ddl_comm_order(b, ring, same) == 0);
		CHECK(memcmp(order, same, (size_t)n * sizeof(int)) == 0);
	}
	/* Requests of the three, alive at once, made on every rank in another order. */
	struct ddl_comm *comms[3] = { m->comm, a, b };
	for (int i = 0; i < 3; i++) {
		int c = (i + m->rank) % 3;
		CHECK(ddl_allreduce_init(&data[c], &data[c], 1, DDL_INT32, DDL_SUM, comms[c], NULL, &requests[c], NULL) == 0);
		CHECK(ddl_start(requests[c]) == 0);
	}
	for (int c = 0; c < 3; c++)
		CHECK(ddl_wait(requests[c]) == 0 && ddl_request_free(requests[c]) == 0);
	CHECK(data[0] == ranks && data[1] == ranks * 10 && data[2] == ranks * 100);
	ddl_comm_destroy(b);
	ddl_comm_destroy(a);
	return 0;
}

static void a_duplicate_has_the_same_plan_and_its_own_requests(void **state)
{
	for (int n = 1; n <= 6; n++)
		run_world(n, (uint64_t)n * 5, 0, TIMEOUT_MS, duplicate);
}

static int abort_one(struct member *m)
{
	struct ddl_comm *child;
	struct ddl_error err = { 0 };
	int32_t x = 1;
	CHECK(ddl_comm_split(m->comm, m->rank % 2, 0, &child, NULL) == 0);
	int rc = ddl_barrier(child);
	if (m->rank == 1)
		ddl_comm_abort(child, "enough");
	rc = rc ? rc : ddl_allreduce(&x, &x, 1, DDL_INT32, DDL_SUM, child);
	if (m->rank % 2) {
		CHECK(rc == -ECANCELED);
		CHECK(ddl_comm_get_error(child, &err) == -ECANCELED && strstr(err.text, "enough"));
	} else {
		CHECK(rc == 0 && x == 3);
	}
	ddl_comm_destroy(child);
	x = 1;
	CHECK(ddl_allreduce(&x, &x, 1, DDL_INT32, DDL_SUM, m->comm) == 0 && x == m->w->n);
	return 0;
}

static void an_aborted_part_leaves_its_parent_and_the_other_parts_alone(void **state)
{
	run_world(6, 11, 0, TIMEOUT_MS, abort_one);
}

static int split_often(struct member *m)
{
	int mine = 0;
	for (int i = 0; i < 32; i++) {
		struct ddl_comm *child;
		int32_t x = 1;
		CHECK(ddl_comm_split(m->comm, (m->rank + i) % 3, i, &child, NULL) == 0);
		CHECK(ddl_allreduce(&x, &x, 1, DDL_INT32, DDL_SUM, child) == 0 && x == ddl_comm_size(child));
		ddl_comm_destroy(child);
		mine++;
	}
	CHECK(mine == 32);
	return 0;
}

static void thirty_two_splits_leave_no_descriptor_open(void **state)
{
	run_world(5, 21, 0, TIMEOUT_MS, split_often); /* which compares */
}

static int keep_dims(struct member *m)
{
	struct ddl_comm *half, *twin;
	struct ddl__model model;
	struct ddl__candidate doubling;
	int32_t x = 1;
	ddl__model_init(&model, m->comm->layout);
	m->comm->tuning = calloc(1, sizeof(*m->comm->tuning));
	CHECK(m->comm->tuning);
	ddl__tuning_init(m->comm->tuning, &model);
	CHECK(ddl__select(DDL__ALLREDUCE, "doubling", &doubling, NULL) == 0);
	CHECK(ddl__tuning_add(m->comm->tuning, 4, &doubling, 1000) == 0);
	CHECK(ddl_comm_split(m->comm, m->rank / 2, 0, &half, &m->err) == 0);
	CHECK(ddl_comm_dup(m->comm, &twin, &m->err) == 0);
	CHECK(strstr(ddl_comm_plan(twin), ";dims=2x2") && !strstr(ddl_comm_plan(half), "dims"));
	CHECK(strstr(ddl_comm_plan(half), ";mode=multiring;") && half->plan->options.rings == 2);
	CHECK(ddl_allreduce(&x, &x, 1, DDL_INT32, DDL_SUM, half) == 0 && x == 2);
	CHECK(ddl_allreduce(&x, &x, 1, DDL_INT32, DDL_SUM, twin) == 0 && x == 8);
	CHECK(twin->tuning && twin->tuning->n == 1 && !half->tuning);
	ddl_comm_destroy(half);
	ddl_comm_destroy(twin);
	return 0;
}

/* Dimensions, and what was measured for them, hold for parts of that size. */
static void options_of_the_whole_stay_where_they_fit(void **state)
{
	static const char text[] = "1;job=;mode=multiring;src=none/tree;tree=root(s1(a,b),s2(c,d));rings=2;dims=2x2";
	run_plan(4, text, keep_dims);
}

/* ---- failures ---- */

static int refuse_color(struct member *m)
{
	struct ddl_comm *child = m->comm;
	CHECK(ddl_comm_split(m->comm, m->rank == 2 ? -7 : 0, 0, &child, &m->err) == -EINVAL);
	CHECK(child == m->comm); /* untouched */
	CHECK(m->err.code == -EINVAL && strstr(m->err.text, "rank 2 on node ") && strstr(m->err.text, "color -7"));
	CHECK(ddl_comm_split(m->comm, 0, 0, m->rank == 1 ? NULL : &child, &m->err) == -EINVAL);
	CHECK(strstr(m->err.text, "rank 1 on node "));
	CHECK(ddl_comm_split(m->comm, 0, 0, &child, &m->err) == 0 && ddl_comm_size(child) == m->w->n); /* no harm was done */
	ddl_comm_destroy(child);
	return 0;
}

static void what_one_rank_asks_wrongly_is_told_to_all(void **state)
{
	assert_int_equal(ddl_comm_split(NULL, 0, 0, NULL, NULL), -EINVAL);
	run_world(4, 31, 0, TIMEOUT_MS, refuse_color);
}

/*
 * One rank cannot make its part: it says so to the others, of all parts. The limit is that of the process, so rank 1 alone is in
 * the call that opens files while the others belong to no part.
 */
static int run_out_of_files(struct member *m)
{
	struct rlimit limit, low;
	struct ddl_comm *child = NULL;
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	low = limit;
	low.rlim_cur = 3;
	if (m->rank == 1)
		CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
	int rc = ddl_comm_split(m->comm, m->rank == 1 ? 5 : DDL_UNDEFINED, 0, &child, &m->err);
	if (m->rank == 1)
		CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(rc == -EMFILE && !child);
	CHECK(strstr(m->err.text, "rank 1 on node ") && strstr(m->err.text, "open files"));
	CHECK(ddl_barrier(m->comm) == 0);
	CHECK(ddl_comm_dup(m->comm, &child, &m->err) == 0);
	ddl_comm_destroy(child);
	return 0;
}

static void what_fails_on_one_rank_is_told_to_all(void **state)
{
	run_world(4, 41, 0, TIMEOUT_MS, run_out_of_files);
}

static int die(struct member *m)
{
	struct ddl_comm *child = NULL;
	if (m->rank == 3) {
		ddl__loop_world_kill(m->w->loop, 3);
		return 0;
	}
	CHECK(ddl_comm_split(m->comm, m->rank % 2, 0, &child, &m->err) == -ECONNRESET);
	CHECK(!child && strstr(m->err.text, "rank 3 on node "));
	return 0;
}

static void the_death_of_a_rank_ends_a_split_on_all_others(void **state)
{
	run_world(6, 51, 0, TIMEOUT_MS, die);
}

static int stay_away(struct member *m)
{
	struct ddl_comm *child = NULL;
	if (m->rank == 2) { /* waits for the others to notice */
		int32_t x = 0;
		CHECK(ddl_allreduce(&x, &x, 1, DDL_INT32, DDL_SUM, m->comm) == -EPROTO);
		return 0;
	}
	CHECK(ddl_comm_dup(m->comm, &child, &m->err) == -EPROTO);
	CHECK(!child && strstr(m->err.text, "ranks disagree"));
	return 0;
}

static void a_rank_that_calls_something_else_is_told_so(void **state)
{
	run_world(3, 61, 0, TIMEOUT_MS, stay_away);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_is_in_order_has_its_plan_and_sums_its_own_ranks),
		cmocka_unit_test(parts_are_right_whatever_the_interleaving),
		cmocka_unit_test(a_part_is_split_like_any_other_communicator),
		cmocka_unit_test(a_part_outlives_its_parent),
		cmocka_unit_test(a_duplicate_has_the_same_plan_and_its_own_requests),
		cmocka_unit_test(an_aborted_part_leaves_its_parent_and_the_other_parts_alone),
		cmocka_unit_test(thirty_two_splits_leave_no_descriptor_open),
		cmocka_unit_test(options_of_the_whole_stay_where_they_fit),
		cmocka_unit_test(what_one_rank_asks_wrongly_is_told_to_all),
		cmocka_unit_test(what_fails_on_one_rank_is_told_to_all),
		cmocka_unit_test(the_death_of_a_rank_ends_a_split_on_all_others),
		cmocka_unit_test(a_rank_that_calls_something_else_is_told_so),
	};
	return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
