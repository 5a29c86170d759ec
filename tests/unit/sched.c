/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules: every builder is proved for 1 to 64 ranks on trees of up to three levels, and the prover rejects what is broken.
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

struct set { /* the schedules of all ranks */
	struct ddl__schedule *s[1024];
	int n;
};

static void build_all(const struct ddl__layout *layout, const struct ddl__algorithm *a, uint64_t count, uint32_t rings,
		      uint32_t slice_bytes, int root, struct set *set)
{
	set->n = layout->n_ranks;
	for (int r = 0; r < set->n; r++) {
		const struct ddl__build build = { .layout = layout,
						  .rank = r,
						  .count = count,
						  .wire_bytes = 4,
						  .root = root,
						  .rings = rings,
						  .slice_bytes = slice_bytes };
		assert_int_equal(a->build(&build, &set->s[r]), 0);
	}
}

static const struct ddl__algorithm *barrier(void)
{
	const struct ddl__algorithm *a = ddl__algorithms;
	while (a->collective != DDL__BARRIER)
		a++;
	return a;
}

static void free_all(struct set *set)
{
	for (int r = 0; r < set->n; r++)
		ddl__schedule_destroy(set->s[r]);
}

#define SHARED_RANKS 7 /* that share memory: the proof's memory grows with the square of all their lanes */

/* Alone, and where all ranks share memory. */
static int prove(const struct set *set, enum ddl__collective collective, uint64_t count, int root, bool in_place,
		 struct ddl_error *err)
{
	struct ddl__verify verify = { .collective = collective,
				      .schedules = (const struct ddl__schedule *const *)set->s,
				      .n_ranks = set->n,
				      .count = count,
				      .root = root,
				      .in_place = in_place };
	int rc = ddl__verify(&verify, err);
	verify.shared = true;
	return rc < 0 || set->n > SHARED_RANKS ? rc : ddl__verify(&verify, err);
}

static void prove_all_algorithms(const struct ddl__layout *layout, uint64_t count, uint32_t rings, uint32_t slice_bytes, int root)
{
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		struct ddl_error err = { 0 };
		struct set set;
		bool rooted = a->collective == DDL__BROADCAST;
		if (a->collective >= DDL__REDUCE_SCATTER)
			continue; /* proved in sched_blocks.c */
		if (a->build == ddl__build_direct && layout->n_ranks > 128)
			continue; /* the proof's memory grows with ranks times the square of lanes */
		if (a->build == ddl__build_exchange && layout->n_ranks > 20 && (layout->n_ranks % 8 || count > 64))
			continue; /* and its time with the fourth power of ranks */
		build_all(layout, a, count, rings, slice_bytes, rooted ? root : -1, &set);
		for (int in_place = rooted; in_place < 2; in_place++)
			if (prove(&set, a->collective, a->collective == DDL__BARRIER ? 0 : count, rooted ? root : -1, in_place,
				  &err) < 0)
				fail_msg("%s, %d ranks, %llu elements, %u rings, plan %d: %s", a->name, layout->n_ranks,
					 (unsigned long long)count, rings, in_place, err.text);
		free_all(&set);
	}
}

static void every_schedule_is_proved_for_1_to_64_ranks_on_trees_of_up_to_three_levels(void **state)
{
	uint64_t seed = 1;
	for (int n = 1; n <= PROVED_RANKS; n++)
		for (int levels = 0; levels <= 2; levels++)
			for (int cyclic = 0; cyclic < 2; cyclic++) {
				struct world_plan w;
				struct ddl__layout *layout;
				if (n > 24 && (levels * 2 + cyclic + n) % 3)
					continue; /* a proof's cost grows with the cube of n: two trees of the six for each */
				assert_int_equal(random_plan(seed++, n, levels, cyclic, &w), 0);
				assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, n, &layout), 0);
				uint64_t counts[] = {
					0, 1, (uint64_t)n - 1, (uint64_t)n, (uint64_t)n * 3 + 1, (uint64_t)n * 9 + 5
				};
				uint64_t pick = next_random(&seed);
				prove_all_algorithms(layout, counts[pick % 6], 1 + pick / 6 % 4, pick & 64 ? 8 : 0,
						     (int)(pick % (uint64_t)n));
				if (levels == 2)
					prove_all_algorithms(layout, counts[5], 1, 8, 0);
				ddl__layout_destroy(layout);
				world_plan_fini(&w);
			}
}

/* ---- every small tree ---- */

struct shape { /* a tree being spelt: digits are nodes with so many ranks, brackets are switches */
	char text[64];
	size_t length;
};

/* Proves the tree that shape spells. */
static void prove_shape(const struct shape *shape, int n)
{
	char text[512] = "1;job=;mode=ring;src=none/tree;tree=root(";
	size_t nodes = 0, node_of_rank[8];
	int switches = 0, ranks = 0;
	for (size_t i = 0; i < shape->length; i++) {
		char *end = text + strlen(text);
		char c = shape->text[i];
		if (c == '(')
			snprintf(end, 16, "s%d(", switches++);
		else if (c >= '1' && c <= '9')
			snprintf(end, 16, "n%zu", nodes);
		else
			snprintf(end, 2, "%c", c);
		for (int r = 0; c >= '1' && c <= '0' + 9 && r < c - '0'; r++)
			node_of_rank[ranks++] = nodes;
		nodes += c >= '1' && c <= '9';
	}
	strcat(text, ")");
	struct ddl_error err = { 0 };
	struct ddl__plan *plan;
	struct ddl__layout *layout;
	if (ddl__plan_decode(text, strlen(text), &plan, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	assert_int_equal(ranks, n);
	assert_int_equal(ddl__layout_create(plan, node_of_rank, n, &layout), 0);
	prove_all_algorithms(layout, (uint64_t)n * 3 + 1, 1, 8, n - 1);
	ddl__layout_destroy(layout);
	ddl__plan_destroy(plan);
}

/*
 * Spells every way to go on: `left` ranks are to be placed in the current switch, whose parents have left[1], left[2], ... still to
 * place. levels: switches that may still be nested.
 */
static size_t spell(struct shape *shape, int n, const int *left, int depth, int levels)
{
	size_t made = 0, length = shape->length;
	if (left[depth] == 0) {
		if (depth == 0) {
			prove_shape(shape, n);
			return 1;
		}
		shape->text[shape->length++] = ')';
		made = spell(shape, n, left, depth - 1, levels + 1);
		shape->length = length;
		return made;
	}
	if (length && shape->text[length - 1] != '(')
		shape->text[shape->length++] = ',';
	size_t begin = shape->length;
	for (int part = 1; part <= left[depth]; part++) {
		int next[4] = { left[0], left[1], left[2], left[3] };
		next[depth] -= part;
		shape->text[shape->length++] = (char)('0' + part);
		made += spell(shape, n, next, depth, levels);
		shape->length = begin;
		if (levels > 0) {
			next[depth + 1] = part;
			shape->text[shape->length++] = '(';
			made += spell(shape, n, next, depth + 1, levels - 1);
			shape->length = begin;
		}
	}
	shape->length = length;
	return made;
}

static void every_tree_of_up_to_three_levels_and_five_ranks_is_proved(void **state)
{
	static const size_t trees[] = { 0, 3, 17, 101, 608, 3673 };
	const int largest = PROVED_RANKS == 64 ? 5 : 4;
	for (int n = 1; n <= largest; n++) {
		const int left[4] = { n, 0, 0, 0 };
		struct shape shape = { .length = 0 };
		assert_int_equal(spell(&shape, n, left, 0, 2), trees[n]);
	}
}

static void all_counts_and_ring_numbers_are_proved_for_some_sizes(void **state)
{
	static const int sizes[] = { 2, 3, 5, 8, 13 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct world_plan w;
		struct ddl__layout *layout;
		assert_int_equal(random_plan(100 + i, sizes[i], 2, 0, &w), 0);
		assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, sizes[i], &layout), 0);
		for (uint64_t count = 0; count <= 40; count++)
			for (uint32_t rings = 1; rings <= 5; rings++)
				prove_all_algorithms(layout, count, rings, 4, (int)(count % (uint64_t)sizes[i]));
		ddl__layout_destroy(layout);
		world_plan_fini(&w);
	}
}

static void large_sizes_are_proved(void **state)
{
	static const int sizes[] = { 128, 200, 333 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= PROVED_RANKS_MAX; i++) {
		struct world_plan w;
		struct ddl__layout *layout;
		assert_int_equal(random_plan(200 + i, sizes[i], 2, 1, &w), 0);
		assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, sizes[i], &layout), 0);
		prove_all_algorithms(layout, (uint64_t)sizes[i] + 7, 1, 4, 3);
		ddl__layout_destroy(layout);
		world_plan_fini(&w);
	}
}

/* ---- the order ---- */

static void a_ring_crosses_every_uplink_once_in_each_direction(void **state)
{
	uint64_t seed = 7;
	for (int n = 2; n <= 64; n++) {
		struct world_plan w;
		struct ddl__layout *layout;
		int order[64];
		assert_int_equal(random_plan(next_random(&seed), n, 2, 1, &w), 0);
		assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, n, &layout), 0);
		for (unsigned ring = 0; ring < 6; ring++) {
			ddl__layout_order(layout, ring, order);
			int seen[64] = { 0 };
			for (int i = 0; i < n; i++)
				assert_int_equal(seen[order[i]]++, 0);
			/* for every vertex but the root: how many hops leave its subtree */
			for (size_t node = 0; node < w.plan->n_nodes; node++)
				for (struct ddl__vertex *v = w.plan->nodes[node]; v->parent; v = v->parent) {
					int out = 0;
					for (int i = 0; i < n; i++) {
						int inside[2];
						for (int e = 0; e < 2; e++) {
							struct ddl__vertex *u = w.plan->nodes[w.node_of_rank[order[(i + e) % n]]];
							while (u && u != v)
								u = u->parent;
							inside[e] = u == v;
						}
						out += inside[0] && !inside[1];
					}
					assert_true(out <= 1);
				}
		}
		ddl__layout_destroy(layout);
		world_plan_fini(&w);
	}
}

static void steps_and_bytes_of_the_ring_are_those_of_the_formula(void **state)
{
	for (int n = 2; n <= 16; n++) {
		struct world_plan w;
		struct ddl__layout *layout;
		struct set set;
		uint64_t count = (uint64_t)n * 64, sent = 0;
		assert_int_equal(random_plan((uint64_t)n, n, 1, 0, &w), 0);
		assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, n, &layout), 0);
		build_all(layout, &ddl__algorithms[0], count, 1, 0, -1, &set);
		const struct ddl__steps *lane = &set.s[n / 2]->lanes[0];
		for (uint32_t i = 0; i < lane->n; i++)
			sent += ddl__step_sends(lane->steps[i].kind) ? lane->steps[i].count : 0;
		assert_int_equal(lane->n, 2 * (n - 1) + 1);
		assert_int_equal(sent, 2 * ((uint64_t)n - 1) * count / (uint64_t)n);
		free_all(&set);
		ddl__layout_destroy(layout);
		world_plan_fini(&w);
	}
}

/* ---- what is broken is rejected ---- */

static void drop_last_step(struct set *s)
{
	s->s[1]->lanes[0].n--;
}

static void skip_own_contribution(struct set *s)
{
	s->s[2]->lanes[0].steps[1].kind = DDL__RECV_STORE_SEND;
}

static void add_twice(struct set *s)
{
	struct ddl__steps *lane = &s->s[0]->lanes[0];
	lane->steps[lane->n - 2].kind = DDL__RECV_REDUCE_STORE_SEND; /* the all-gather half adds again */
}

static void read_before_write(struct set *s)
{
	s->s[3]->lanes[0].steps[0].src_buffer = DDL__OUTPUT;
}

static void write_input(struct set *s)
{
	struct ddl__steps *lane = &s->s[1]->lanes[0];
	lane->steps[lane->n - 1].dst_buffer = DDL__INPUT;
}

static void out_of_bounds(struct set *s)
{
	struct ddl__steps *lane = &s->s[1]->lanes[0];
	lane->steps[lane->n - 1].dst += 1000;
}

static void scratch_out_of_bounds(struct set *s)
{
	struct ddl__steps *lane = &s->s[1]->lanes[0];
	lane->steps[lane->n - 1].dst_buffer = DDL__SCRATCH;
}

static void wrong_length(struct set *s)
{
	s->s[1]->lanes[0].steps[0].count--;
}

static void wrong_peer(struct set *s)
{
	s->s[0]->lanes[0].send_peer = s->s[0]->lanes[0].recv_peer;
}

static void peer_out_of_range(struct set *s)
{
	s->s[0]->lanes[0].send_peer = 99;
}

static void receive_first_everywhere(struct set *s)
{
	for (int r = 0; r < s->n; r++) {
		struct ddl__step first = s->s[r]->lanes[0].steps[0];
		s->s[r]->lanes[0].steps[0] = s->s[r]->lanes[0].steps[1];
		s->s[r]->lanes[0].steps[1] = first;
	}
}

static void too_few_slots(struct set *s)
{
	for (int r = 0; r < s->n; r++) {
		s->s[r]->slots = 1; /* the first chunk is two slices: everybody waits for room */
		s->s[r]->slice_elements = 2;
	}
}

static void wait_for_itself(struct set *s)
{
	s->s[2]->lanes[0].steps[1].wait_lane = 0;
	s->s[2]->lanes[0].steps[1].wait_step = 2;
}

static void wait_for_nothing(struct set *s)
{
	s->s[2]->lanes[0].steps[1].wait_lane = 7;
}

static void no_mean(struct set *s)
{
	struct ddl__steps *lane = &s->s[1]->lanes[0];
	for (uint32_t i = 0; i < lane->n; i++)
		lane->steps[i].final = 0;
}

static void unknown_kind(struct set *s)
{
	s->s[1]->lanes[0].steps[1].kind = 99;
}

static void swap_chunks(struct set *s)
{
	struct ddl__steps *lane = &s->s[1]->lanes[0];
	uint64_t keep = lane->steps[lane->n - 1].dst;
	lane->steps[lane->n - 1].dst = lane->steps[lane->n - 2].dst;
	lane->steps[lane->n - 2].dst = keep;
}

struct broken { /* a schedule, what is done to it, and what the proof then says */
	void (*damage)(struct set *set);
	const char *says;
};

/* Each case's damage to an algorithm's schedules, which are good before. */
static void assert_rejected(const struct ddl__algorithm *algorithm, uint32_t slice_bytes, const struct broken *cases, size_t n)
{
	struct world_plan w;
	struct ddl__layout *layout;
	assert_int_equal(random_plan(5, 4, 1, 0, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, 4, &layout), 0);
	for (size_t i = 0; i < n; i++) {
		struct ddl_error err = { 0 };
		struct set set;
		build_all(layout, algorithm, 16, 1, slice_bytes, -1, &set);
		assert_int_equal(prove(&set, DDL__ALLREDUCE, 16, -1, false, &err), 0);
		cases[i].damage(&set);
		int rc = prove(&set, DDL__ALLREDUCE, 16, -1, false, &err);
		if (rc != -EPROTO || !strstr(err.text, cases[i].says))
			fail_msg("case %zu: rc %d, \"%s\" where \"%s\" was expected", i, rc, err.text, cases[i].says);
		free_all(&set);
	}
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

static void broken_schedules_are_rejected(void **state)
{
	static const struct broken cases[] = {
		{ drop_last_step, "never received" },
		{ skip_own_contribution, "not the reduction" },
		{ add_twice, "mean was taken" },
		{ read_before_write, "never written" },
		{ write_input, "writes the input" },
		{ out_of_bounds, "out of bounds" },
		{ scratch_out_of_bounds, "out of bounds" },
		{ wrong_length, "another length" },
		{ wrong_peer, "does not receive from it" },
		{ peer_out_of_range, "out of range" },
		{ receive_first_everywhere, "waits for ever" },
		{ too_few_slots, "waits for ever" },
		{ wait_for_itself, "waits for ever" },
		{ wait_for_nothing, "does not exist" },
		{ no_mean, "not divided" },
		{ unknown_kind, "unknown kind" },
		{ swap_chunks, "made of another element" },
	};
	assert_rejected(&ddl__algorithms[0], 16, cases, sizeof(cases) / sizeof(cases[0]));
}

/* ---- memory that ranks share ---- */

static const struct ddl__algorithm *allreduce_by(int (*build)(const struct ddl__build *build, struct ddl__schedule **schedule))
{
	const struct ddl__algorithm *a = ddl__algorithms;
	while (a->collective != DDL__ALLREDUCE || a->build != build)
		a++;
	return a;
}

/* Does it to every step that sends what this rank has, of all ranks. */
static void to_sends(struct set *set, void (*what)(struct ddl__step *step))
{
	for (int r = 0; r < set->n; r++)
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++)
			for (uint32_t i = 0; i < set->s[r]->lanes[l].n; i++) {
				struct ddl__step *step = &set->s[r]->lanes[l].steps[i];
				if (step->kind == DDL__SEND || step->kind == DDL__SEND_STORE)
					what(step);
			}
}

static void lend_it(struct ddl__step *step)
{
	step->lend = 1;
}

static void place_it(struct ddl__step *step)
{
	step->dst = step->src;
	step->place = 1;
}

static void place_it_elsewhere(struct ddl__step *step)
{
	if (step->place && step->kind == DDL__SEND)
		step->dst = (step->dst + step->count) % 32;
}

static void place_it_beyond(struct ddl__step *step)
{
	step->dst += step->place ? 1000 : 0;
}

static void lend_a_sum(struct ddl__step *step)
{
	step->lend = 1;
	step->kind = DDL__RECV_REDUCE_SEND;
}

static void what_must_not_be_shared_is_found(void **state)
{
	static const struct {
		int (*build)(const struct ddl__build *build, struct ddl__schedule **schedule);
		void (*damage)(struct ddl__step *step);
		const char *says;
	} cases[] = {
		{ ddl__build_doubling, lend_it, "reads what another lane writes" },
		{ ddl__build_ring, place_it, "stores elsewhere what was placed" },
		{ ddl__build_halving, place_it, "stores elsewhere what was placed" },
		{ ddl__build_direct, place_it_elsewhere, "another lane" },
		{ ddl__build_direct, place_it_beyond, "out of bounds" },
		{ ddl__build_ring, lend_a_sum, "cannot lend or place" },
	};
	struct world_plan w;
	struct ddl__layout *layout;
	assert_int_equal(random_plan(5, 4, 1, 0, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, 4, &layout), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddl_error err = { 0 };
		struct set set;
		build_all(layout, allreduce_by(cases[i].build), 32, 1, 16, -1, &set);
		assert_int_equal(prove(&set, DDL__ALLREDUCE, 32, -1, true, &err), 0);
		to_sends(&set, cases[i].damage);
		int rc = prove(&set, DDL__ALLREDUCE, 32, -1, true, &err);
		if (rc != -EPROTO || !strstr(err.text, cases[i].says))
			fail_msg("case %zu: rc %d, \"%s\" where \"%s\" was expected", i, rc, err.text, cases[i].says);
		free_all(&set);
	}
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

static void answers_that_are_written_over_too_early_are_found(void **state)
{
	static const struct {
		uint32_t slots;   /* of the lanes; 0: as built */
		uint8_t answers;  /* kind of steps that are made to answer; 0: none but those that do */
		const char *says; /* NULL: it is proved */
	} cases[] = {
		{ 0, 0, NULL },
		{ 5, 0, "sends into before it has taken the answer" },
		{ 7, 0, "sends into before it has taken the answer" },
		{ 0, DDL__SEND, "does not receive from whom it sends to" },
		{ 0, DDL__RECV, "does not receive from whom it sends to" },
	};
	struct world_plan w;
	struct ddl__layout *layout;
	assert_int_equal(random_plan(5, 2, 0, 0, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, 2, &layout), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddl_error err = { 0 };
		struct set set;
		int answering = 0;
		build_all(layout, allreduce_by(ddl__build_ring), 512, 1, 64, -1, &set);
		for (int r = 0; r < set.n; r++) {
			struct ddl__steps *lane = &set.s[r]->lanes[0];
			set.s[r]->slots = cases[i].slots ? cases[i].slots : set.s[r]->slots;
			for (uint32_t k = 0; k < lane->n; k++) {
				answering += lane->steps[k].answer;
				lane->steps[k].answer |= lane->steps[k].kind == cases[i].answers;
			}
		}
		assert_true(answering > 2);
		int rc = prove(&set, DDL__ALLREDUCE, 512, -1, false, &err);
		if (cases[i].says ? rc != -EPROTO || !strstr(err.text, cases[i].says) : rc != 0)
			fail_msg("case %zu: rc %d, \"%s\"", i, rc, err.text);
		free_all(&set);
	}
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

/* ---- reductions of many sources, in exchange: the last step of the last lane ---- */

static struct ddl__step *reduction(struct set *s)
{
	struct ddl__steps *lane = &s->s[1]->lanes[s->s[1]->n_lanes - 1];
	return &lane->steps[lane->n - 1];
}

static void one_source_twice(struct set *s)
{
	reduction(s)->stride = 0;
}

static void one_source_less(struct set *s)
{
	reduction(s)->sources--;
}

static void one_source_more(struct set *s)
{
	reduction(s)->src += 2 * reduction(s)->stride;
	reduction(s)->sources = 9;
}

static void no_sources(struct set *s)
{
	reduction(s)->sources = 0;
}

static void shifted_sources(struct set *s)
{
	reduction(s)->stride--;
}

static void not_waiting_for_all(struct set *s)
{
	s->s[1]->lanes[1].steps[1].wait_lane = DDL__NO_WAIT;
}

static void broken_reductions_of_many_sources_are_rejected(void **state)
{
	static const struct broken cases[] = {
		{ one_source_twice, "a second time" },   { one_source_less, "not the reduction" },
		{ one_source_more, "out of bounds" },    { no_sources, "has no sources" },
		{ shifted_sources, "different places" }, { not_waiting_for_all, "without waiting for it" },
	};
	struct ddl__candidate exchange;
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "exchange", &exchange, NULL), 0);
	assert_rejected(exchange.algorithm, 0, cases, sizeof(cases) / sizeof(cases[0]));
}

static void lanes_that_touch_the_same_element_without_a_wait_are_rejected(void **state)
{
	struct world_plan w;
	struct ddl__layout *layout;
	struct set set;
	struct ddl_error err = { 0 };
	assert_int_equal(random_plan(6, 3, 1, 0, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, 3, &layout), 0);
	build_all(layout, &ddl__algorithms[0], 64, 2, 0, -1, &set);
	assert_int_equal(prove(&set, DDL__ALLREDUCE, 64, -1, false, &err), 0);
	for (int r = 0; r < 3; r++) /* the second ring carries the first ring's elements */
		for (uint32_t i = 0; i < set.s[r]->lanes[1].n; i++) {
			set.s[r]->lanes[1].steps[i].src -= 32;
			set.s[r]->lanes[1].steps[i].dst -= 32;
		}
	assert_int_equal(prove(&set, DDL__ALLREDUCE, 64, -1, true, &err), -EPROTO);
	assert_non_null(strstr(err.text, "without waiting"));
	free_all(&set);
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

static void a_barrier_without_its_waits_is_rejected(void **state)
{
	struct world_plan w;
	struct ddl__layout *layout;
	struct set set;
	struct ddl_error err = { 0 };
	assert_int_equal(random_plan(8, 8, 1, 0, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, 8, &layout), 0);
	build_all(layout, barrier(), 0, 1, 0, -1, &set);
	for (int r = 0; r < 8; r++)
		for (uint32_t l = 0; l < set.s[r]->n_lanes; l++)
			set.s[r]->lanes[l].steps[0].wait_lane = DDL__NO_WAIT;
	assert_int_equal(prove(&set, DDL__BARRIER, 0, -1, false, &err), -EPROTO);
	assert_non_null(strstr(err.text, "before all ranks have started"));
	free_all(&set);
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

static void an_algorithm_that_does_not_exist_is_refused_with_those_that_do(void **state)
{
	struct ddl__candidate a;
	struct ddl_error err = { 0 };
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "magic", &a, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "ring"));
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "ring", &a, &err), 0);
	assert_string_equal(a.algorithm->name, "ring");
	assert_int_equal(a.n_dims, 0);
}

static void dimensions_are_read_and_written_and_nonsense_is_refused(void **state)
{
	static const char *const bad[] = { "multiring:",
					   "multiring:0",
					   "multiring:4x",
					   "multiring:4y2",
					   "multiring:-4",
					   "multiring:4x8 ",
					   "multiring:+4x8",
					   "multiring:99999999999999999999x2",
					   "ring:4x8",
					   "multiring:4x8:2",
					   "multiring:1x1x1x1x1x1x1x1x1" };
	struct ddl__candidate a;
	char text[DDL__CANDIDATE_TEXT_SIZE];
	assert_int_equal(ddl__select(DDL__ALLREDUCE, "multiring:4x8x8", &a, NULL), 0);
	assert_int_equal(a.n_dims, 3);
	assert_int_equal(a.dims[0], 4);
	assert_string_equal(ddl__candidate_text(&a, text), "multiring:4x8x8");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ddl_error err = { 0 };
		if (ddl__select(DDL__ALLREDUCE, bad[i], &a, &err) != -EINVAL || strlen(err.text) < 20)
			fail_msg("%s: %s", bad[i], err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_schedule_is_proved_for_1_to_64_ranks_on_trees_of_up_to_three_levels),
		cmocka_unit_test(every_tree_of_up_to_three_levels_and_five_ranks_is_proved),
		cmocka_unit_test(all_counts_and_ring_numbers_are_proved_for_some_sizes),
		cmocka_unit_test(large_sizes_are_proved),
		cmocka_unit_test(a_ring_crosses_every_uplink_once_in_each_direction),
		cmocka_unit_test(steps_and_bytes_of_the_ring_are_those_of_the_formula),
		cmocka_unit_test(broken_schedules_are_rejected),
		cmocka_unit_test(what_must_not_be_shared_is_found),
		cmocka_unit_test(answers_that_are_written_over_too_early_are_found),
		cmocka_unit_test(broken_reductions_of_many_sources_are_rejected),
		cmocka_unit_test(lanes_that_touch_the_same_element_without_a_wait_are_rejected),
		cmocka_unit_test(a_barrier_without_its_waits_is_rejected),
		cmocka_unit_test(an_algorithm_that_does_not_exist_is_refused_with_those_that_do),
		cmocka_unit_test(dimensions_are_read_and_written_and_nonsense_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
