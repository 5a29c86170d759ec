/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each algorithm for all-reduce costs, counted from its schedules against the formula: rounds (the longest chain of messages
 * where each waits for the one before) and elements sent; and proofs for many ranks, which the common proofs leave out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "error.h"
#include "select.h"
#include "trees.h"
#include "verify.h"

enum { RANKS_MAX = 1024 };

struct set { /* the schedules of all ranks */
	struct ddl__schedule *s[RANKS_MAX];
	int n;
};

static void build_all(const struct ddl__algorithm *a, int n, uint64_t count, uint32_t slice_bytes, struct set *set)
{
	struct world_plan w;
	struct ddl__layout *layout;
	assert_int_equal(random_plan((uint64_t)n, n, 2, n % 2, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, n, &layout), 0);
	set->n = n;
	for (int r = 0; r < n; r++) {
		const struct ddl__build build = { .layout = layout,
						  .rank = r,
						  .count = count,
						  .wire_bytes = 4,
						  .root = -1,
						  .rings = 1,
						  .slice_bytes = slice_bytes };
		assert_int_equal(a->build(&build, &set->s[r]), 0);
	}
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

static void free_all(struct set *set)
{
	for (int r = 0; r < set->n; r++)
		ddl__schedule_destroy(set->s[r]);
}

/* ---- formulas, for N ranks and S elements ---- */

struct cost {
	uint64_t rounds;
	uint64_t sent;      /* elements, all ranks together */
	uint64_t sent_most; /* by one rank */
};

struct size {
	uint64_t n, s;
	uint64_t log2;  /* floor(log2 N) */
	uint64_t power; /* 2^log2 */
	uint64_t rest;  /* N - power */
};

static struct size size_of(uint64_t n, uint64_t s)
{
	struct size z = { .n = n, .s = s, .power = 1 };
	for (; z.power <= n / 2; z.power *= 2)
		z.log2++;
	z.rest = n - z.power;
	return z;
}

static struct cost cost_of_ring(struct size z)
{
	return (struct cost){ 2 * (z.n - 1), 2 * (z.n - 1) * z.s, 2 * (z.n - 1) * z.s / z.n };
}

/* A rank sends S in every round; one beyond the power of two sends once, and hears two values in the last round. */
static struct cost cost_of_doubling(struct size z)
{
	uint64_t more = z.rest == 0 ? 0 : 1 + (z.rest > z.power / 2); /* extras behind a rank and its last partner */
	return (struct cost){ z.log2 + (z.rest > 0), (z.power * z.log2 + 3 * z.rest) * z.s, (z.log2 + more) * z.s };
}

static struct cost cost_of_halving(struct size z)
{
	uint64_t each = 2 * (z.power - 1) * z.s / z.power;
	return (struct cost){ 2 * z.log2 + 2 * (z.rest > 0), z.power * each + 2 * z.rest * z.s, each + (z.rest > 0) * z.s };
}

static struct cost cost_of_direct(struct size z)
{
	return (struct cost){ 2, 2 * (z.n - 1) * z.s, 2 * (z.n - 1) * z.s / z.n };
}

/* Inner vertex with two children in one tree, leaf in the other: half of S to the parents and to both children. */
static struct cost cost_of_tree(struct size z)
{
	uint64_t halves = z.n < 4 ? z.n : 4;
	return (struct cost){ 2 * z.log2, 2 * (z.n - 1) * z.s, halves * z.s / 2 };
}

static struct cost cost_of_knomial(struct size z)
{
	uint64_t depth = 0, children = 0;
	for (uint64_t position = 0; position < z.n; position++) {
		uint64_t digits = 0;
		for (uint64_t rest = position; rest > 0; rest /= 4)
			digits += rest % 4 != 0;
		depth = digits > depth ? digits : depth;
	}
	for (uint64_t unit = 1; unit < z.n; unit *= 4)
		for (uint64_t digit = 1; digit < 4; digit++)
			children += digit * unit < z.n;
	return (struct cost){ 2 * depth, 2 * (z.n - 1) * z.s, children * z.s };
}

/* One round; more ranks than a reduction takes at once: doubling. */
static struct cost cost_of_exchange(struct size z)
{
	return z.n > DDL__EXCHANGE_RANKS_MAX ? cost_of_doubling(z) : (struct cost){ 1, z.n * (z.n - 1) * z.s, (z.n - 1) * z.s };
}

static const struct {
	const char *name;
	struct cost (*cost)(struct size size);
} formulas[] = {
	{ "ring", cost_of_ring }, { "doubling", cost_of_doubling }, { "halving", cost_of_halving },   { "direct", cost_of_direct },
	{ "tree", cost_of_tree }, { "knomial", cost_of_knomial },   { "exchange", cost_of_exchange },
};

/* ---- counting ---- */

struct clock { /* of one lane */
	uint32_t step, received, sent;
	uint64_t now;
	uint64_t *done;     /* after each step */
	uint64_t *arrivals; /* of what was sent here, in order */
	uint32_t arrived;
};

/* A message takes one unit, everything else none; every step is one slice. Returns whether the lane moved. */
static bool tick(const struct set *set, struct clock **clocks, int rank, uint32_t l)
{
	const struct ddl__steps *lane = &set->s[rank]->lanes[l];
	struct clock *c = &clocks[rank][l];
	if (c->step == lane->n)
		return false;
	const struct ddl__step *step = &lane->steps[c->step];
	const struct clock *before = step->wait_lane == DDL__NO_WAIT ? NULL : &clocks[rank][step->wait_lane];
	assert_true(step->count <= set->s[rank]->slice_elements);
	if (before && before->step <= step->wait_step)
		return false;
	if (ddl__step_receives(step->kind) && c->received == c->arrived)
		return false;
	if (before && before->done[step->wait_step] > c->now)
		c->now = before->done[step->wait_step];
	if (ddl__step_receives(step->kind)) {
		uint64_t arrival = c->arrivals[c->received++];
		c->now = arrival > c->now ? arrival : c->now;
	}
	if (ddl__step_sends(step->kind)) {
		const struct ddl__schedule *at = set->s[lane->send_peer];
		struct clock *to = &clocks[lane->send_peer][ddl__schedule_lane(at, lane->number) - at->lanes];
		to->arrivals[to->arrived++] = c->now + 1;
	}
	c->done[c->step++] = c->now;
	return true;
}

static uint64_t rounds_of(const struct set *set)
{
	struct clock **clocks = calloc((size_t)set->n, sizeof(struct clock *));
	uint64_t last = 0;
	for (int r = 0; r < set->n; r++) {
		clocks[r] = calloc(set->s[r]->n_lanes + 1, sizeof(struct clock));
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++) {
			clocks[r][l].done = calloc(set->s[r]->lanes[l].n + 1, sizeof(uint64_t));
			clocks[r][l].arrivals = calloc(set->s[r]->lanes[l].n + 1, sizeof(uint64_t));
		}
	}
	for (bool moved = true; moved;) {
		moved = false;
		for (int r = 0; r < set->n; r++)
			for (uint32_t l = 0; l < set->s[r]->n_lanes; l++)
				while (tick(set, clocks, r, l))
					moved = true;
	}
	for (int r = 0; r < set->n; r++) {
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++) {
			assert_int_equal(clocks[r][l].step, set->s[r]->lanes[l].n);
			last = clocks[r][l].now > last ? clocks[r][l].now : last;
			free(clocks[r][l].done);
			free(clocks[r][l].arrivals);
		}
		free(clocks[r]);
	}
	free(clocks);
	return last;
}

static struct cost count_cost(const struct set *set)
{
	struct cost cost = { 0 };
	for (int r = 0; r < set->n; r++) {
		uint64_t sent = 0;
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++)
			for (uint32_t i = 0; i < set->s[r]->lanes[l].n; i++)
				if (ddl__step_sends(set->s[r]->lanes[l].steps[i].kind))
					sent += set->s[r]->lanes[l].steps[i].count;
		cost.sent += sent;
		cost.sent_most = sent > cost.sent_most ? sent : cost.sent_most;
	}
	return cost;
}

static const struct ddl__algorithm *find(const char *name)
{
	struct ddl__candidate a;
	assert_int_equal(ddl__select(DDL__ALLREDUCE, name, &a, NULL), 0);
	return a.algorithm;
}

static void rounds_and_bytes_of_every_algorithm_are_those_of_its_formula(void **state)
{
	for (size_t f = 0; f < sizeof(formulas) / sizeof(formulas[0]); f++)
		for (int n = 2; n <= PROVED_RANKS; n++) {
			struct set set;
			struct size z = size_of((uint64_t)n, 0);
			/* so few that nothing is cut: one slice a step, one piece; and so many that all parts are equal */
			build_all(find(formulas[f].name), n, z.n * z.power, 0, &set);
			uint64_t rounds = rounds_of(&set);
			free_all(&set);
			z.s = 128 * z.n * z.power;
			build_all(find(formulas[f].name), n, z.s, 0, &set);
			struct cost want = formulas[f].cost(z), got = count_cost(&set);
			if (rounds != want.rounds || got.sent != want.sent || got.sent_most != want.sent_most)
				fail_msg("%s, %d ranks: %llu rounds where %llu were expected, %llu elements sent of %llu, %llu by "
					 "one rank of %llu",
					 formulas[f].name, n, (unsigned long long)rounds, (unsigned long long)want.rounds,
					 (unsigned long long)got.sent, (unsigned long long)want.sent,
					 (unsigned long long)got.sent_most, (unsigned long long)want.sent_most);
			free_all(&set);
		}
}

/* In two trees that share the work nobody adds and passes on in both. */
static void no_rank_is_an_inner_vertex_of_both_trees(void **state)
{
	for (int n = 2; n <= 130; n++) {
		struct set set;
		build_all(find("tree"), n, 64, 0, &set);
		for (int r = 0; r < n; r++) {
			int inner = 0, lanes = 0;
			for (uint32_t l = 0; l < set.s[r]->n_lanes; l++) {
				const struct ddl__steps *lane = &set.s[r]->lanes[l];
				inner += lane->n > 0 && lane->steps[0].kind == DDL__RECV_REDUCE_SEND;
				lanes += lane->n > 0;
			}
			assert_true(inner <= 1);
			assert_true(lanes <= 6);
		}
		free_all(&set);
	}
}

static void many_ranks_are_proved(void **state)
{
	static const struct {
		const char *name;
		int n;
		uint64_t count;
	} cases[] = {
		{ "doubling", 512, 100 }, { "doubling", 1000, 33 }, { "halving", 512, 300 },  { "halving", 1000, 250 },
		{ "tree", 512, 100 },     { "tree", 1023, 99 },     { "knomial", 512, 100 },  { "knomial", 1024, 65 },
		{ "halving", 1024, 40 },  { "tree", 1024, 65 },     { "knomial", 1000, 101 }, { "doubling", 1024, 40 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && PROVED_RANKS_MAX == 1024; i++) {
		struct set set;
		struct ddl_error err = { 0 };
		build_all(find(cases[i].name), cases[i].n, cases[i].count, 16, &set);
		const struct ddl__verify verify = { .collective = DDL__ALLREDUCE,
						    .schedules = (const struct ddl__schedule *const *)set.s,
						    .n_ranks = set.n,
						    .count = cases[i].count,
						    .root = -1,
						    .in_place = i % 2 == 0 };
		if (ddl__verify(&verify, &err) < 0)
			fail_msg("%s, %d ranks: %s", cases[i].name, cases[i].n, err.text);
		free_all(&set);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_and_bytes_of_every_algorithm_are_those_of_its_formula),
		cmocka_unit_test(no_rank_is_an_inner_vertex_of_both_trees),
		cmocka_unit_test(many_ranks_are_proved),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
