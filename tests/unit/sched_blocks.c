/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of the collectives beside all-reduce, broadcast and barrier: every builder is proved for 1 to 64 ranks on random trees,
 * with equal blocks and with blocks by counts, some of them empty, in place and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "error.h"
#include "select.h"
#include "shape.h"
#include "trees.h"
#include "verify.h"

enum { RANKS_MAX = 256 };

struct setting { /* of one proof */
	const struct ddl__layout *layout;
	const struct ddl__algorithm *algorithm;
	uint64_t count; /* of a block, or of the whole */
	size_t *counts; /* NULL: equal blocks; of an all-to-all a matrix */
	uint32_t rings, slice_bytes;
	int root, peer;
};

struct set { /* the schedules of all ranks */
	struct ddl__schedule *s[RANKS_MAX];
	int n;
};

static bool rooted(enum ddl__collective c)
{
	return c == DDL__REDUCE || c == DDL__GATHER || c == DDL__SCATTER || c == DDL__SENDRECV;
}

static void build_all(const struct setting *t, struct set *set)
{
	size_t n = (size_t)t->layout->n_ranks, *column = calloc(n, sizeof(*column));
	bool matrix = t->counts && t->algorithm->collective == DDL__ALLTOALL;
	set->n = t->layout->n_ranks;
	for (int r = 0; r < set->n; r++) {
		for (size_t i = 0; matrix && i < n; i++)
			column[i] = t->counts[i * n + (size_t)r];
		const struct ddl__build build = { .layout = t->layout,
						  .rank = r,
						  .count = t->count,
						  .wire_bytes = 4,
						  .counts = matrix ? t->counts + (size_t)r * n : t->counts,
						  .recv_counts = matrix ? column : NULL,
						  .root = rooted(t->algorithm->collective) ? t->root : -1,
						  .peer = t->peer,
						  .rings = t->rings,
						  .slice_bytes = t->slice_bytes };
		assert_int_equal(t->algorithm->build(&build, &set->s[r]), 0);
	}
	free(column);
}

static void free_all(struct set *set)
{
	for (int r = 0; r < set->n; r++)
		ddl__schedule_destroy(set->s[r]);
}

static int prove(const struct setting *t, const struct set *set, bool in_place, struct ddl_error *err)
{
	struct ddl__verify verify = { .collective = t->algorithm->collective,
				      .schedules = (const struct ddl__schedule *const *)set->s,
				      .n_ranks = set->n,
				      .count = t->count,
				      .counts = t->counts,
				      .root = rooted(t->algorithm->collective) ? t->root : -1,
				      .peer = t->peer,
				      .in_place = in_place };
	int rc = ddl__verify(&verify, err);
	verify.shared = true; /* the proof's memory grows with the square of all ranks' lanes */
	return rc < 0 || set->n > 8 ? rc : ddl__verify(&verify, err);
}

/* An all-to-all in place exchanges blocks of one size between each two ranks. */
static bool in_place_allowed(const struct setting *t)
{
	size_t n = (size_t)t->layout->n_ranks;
	for (size_t i = 0; t->algorithm->collective == DDL__ALLTOALL && t->counts && i < n * n; i++)
		if (t->counts[i] != t->counts[i % n * n + i / n])
			return false;
	return t->algorithm->collective != DDL__SENDRECV;
}

static void prove_setting(const struct setting *t)
{
	struct ddl_error err = { 0 };
	struct set set;
	build_all(t, &set);
	for (int in_place = 0; in_place <= in_place_allowed(t); in_place++)
		if (prove(t, &set, in_place, &err) < 0)
			fail_msg("%s %s, %d ranks, blocks of %llu%s, root %d, %u rings, %s: %s",
				 ddl__collective_name(t->algorithm->collective), t->algorithm->name, set.n,
				 (unsigned long long)t->count, t->counts ? " by counts" : "", t->root, t->rings,
				 in_place ? "in place" : "not in place", err.text);
	free_all(&set);
}

/* Counts of n blocks: some empty, some long, most of a few elements. */
static size_t *random_counts(uint64_t *seed, size_t n)
{
	size_t *counts = calloc(n + 1, sizeof(*counts));
	uint64_t how = next_random(seed) % 4;
	for (size_t i = 0; i < n; i++) {
		uint64_t x = next_random(seed);
		counts[i] = how == 0 ? (x % (n + 1) == 0 ? 40 : 0) : x % 3 == 0 ? 0 : x % 97 == 1 ? 70 : x / 97 % 7;
	}
	return counts;
}

static void prove_all(const struct ddl__layout *layout, uint64_t *seed)
{
	size_t n = (size_t)layout->n_ranks;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		if (a->collective < DDL__REDUCE_SCATTER || (a->collective == DDL__SENDRECV && n < 2))
			continue;
		uint64_t x = next_random(seed);
		struct setting t = { .layout = layout,
				     .algorithm = a,
				     .count = x % 4 ? x / 4 % 12 : 0,
				     .rings = 1 + (uint32_t)(x / 64 % 3),
				     .slice_bytes = x & 1 << 20 ? 8 : 0,
				     .root = (int)((x >> 24) % n) };
		t.peer = (int)(((uint64_t)t.root + 1 + (n > 1 ? (x >> 40) % (n - 1) : 0)) % n);
		prove_setting(&t);
		if (ddl__has_blocks(a->collective)) {
			t.counts = random_counts(seed, a->collective == DDL__ALLTOALL ? n * n : n);
			prove_setting(&t);
			free(t.counts);
		}
	}
}

static void every_schedule_is_proved_for_1_to_64_ranks_with_equal_blocks_and_by_counts(void **state)
{
	uint64_t seed = 11;
	for (int n = 1; n <= PROVED_RANKS; n++)
		for (int levels = 0; levels <= 2; levels += n < 24 ? 1 : 2) {
			struct world_plan w;
			struct ddl__layout *layout;
			assert_int_equal(random_plan(next_random(&seed), n, levels, n % 2, &w), 0);
			assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, n, &layout), 0);
			prove_all(layout, &seed);
			ddl__layout_destroy(layout);
			world_plan_fini(&w);
		}
}

static void small_sizes_are_proved_often(void **state)
{
	uint64_t seed = 12;
	for (int n = 1; n <= 9; n++)
		for (int round = 0; round < 30; round++) {
			struct world_plan w;
			struct ddl__layout *layout;
			assert_int_equal(random_plan(next_random(&seed), n, 2, round % 2, &w), 0);
			assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, n, &layout), 0);
			prove_all(layout, &seed);
			ddl__layout_destroy(layout);
			world_plan_fini(&w);
		}
}

static void large_sizes_are_proved(void **state)
{
	static const int sizes[] = { 100, 128, 200 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= PROVED_RANKS_MAX; i++) {
		struct world_plan w;
		struct ddl__layout *layout;
		size_t n = (size_t)sizes[i], counts[RANKS_MAX];
		assert_int_equal(random_plan(300 + i, sizes[i], 2, 1, &w), 0);
		assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, sizes[i], &layout), 0);
		for (size_t r = 0; r < n; r++)
			counts[r] = r % 7 == 1 ? 2 : r % 5 == 2;
		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
			const bool blocks = ddl__has_blocks(a->collective) && a->collective != DDL__ALLTOALL;
			const struct setting t = { .layout = layout,
						   .algorithm = a,
						   .count = a->collective == DDL__REDUCE ? 50 : 1,
						   .counts = blocks ? counts : NULL,
						   .rings = 1,
						   .slice_bytes = 8,
						   .root = 77,
						   .peer = 3 };
			if (a->collective >= DDL__REDUCE_SCATTER && (a->collective != DDL__ALLTOALL || n < 128))
				prove_setting(&t);
		}
		ddl__layout_destroy(layout);
		world_plan_fini(&w);
	}
}

/* ---- steps and bytes ---- */

struct cost {           /* of one rank */
	uint64_t sends; /* sending steps */
	uint64_t sent;  /* elements */
};

static struct cost cost_of(const struct ddl__schedule *s)
{
	struct cost c = { 0 };
	for (uint32_t l = 0; l < s->n_lanes; l++)
		for (uint32_t i = 0; i < s->lanes[l].n; i++)
			if (ddl__step_sends(s->lanes[l].steps[i].kind)) {
				c.sends++;
				c.sent += s->lanes[l].steps[i].count;
			}
	return c;
}

static void steps_and_bytes_are_those_of_the_formulas(void **state)
{
	for (int n = 2; n <= 33; n++) {
		struct world_plan w;
		struct ddl__layout *layout;
		uint64_t rounds = 0, ranks = (uint64_t)n;
		while (1ULL << rounds < ranks)
			rounds++;
		assert_int_equal(random_plan((uint64_t)n, n, 1, 0, &w), 0);
		assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, n, &layout), 0);
		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
			if (a->collective != DDL__REDUCE_SCATTER && a->collective != DDL__ALLGATHER &&
			    a->collective != DDL__ALLTOALL)
				continue;
			const struct setting t = { .layout = layout, .algorithm = a, .count = 48, .rings = 1 };
			struct set set;
			build_all(&t, &set);
			for (int r = 0; r < n; r++) {
				struct cost c = cost_of(set.s[r]);
				assert_int_equal(c.sends, strcmp(a->name, "bruck") == 0 ? rounds : ranks - 1);
				assert_int_equal(c.sent, (ranks - 1) * 48);
			}
			free_all(&set);
		}
		ddl__layout_destroy(layout);
		world_plan_fini(&w);
	}
}

/* A rank that speaks to all others at once holds bounded memory, and an all-to-all has at most 8 partners at work. */
static void many_lanes_hold_bounded_memory(void **state)
{
	static const int sizes[] = { 2, 64, 200 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct world_plan w;
		struct ddl__layout *layout;
		assert_int_equal(random_plan(400 + i, sizes[i], 1, 0, &w), 0);
		assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, sizes[i], &layout), 0);
		for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
			bool gather = a->collective == DDL__GATHER || a->collective == DDL__SCATTER;
			struct setting t = { .layout = layout, .algorithm = a, .count = 1 << 20, .rings = 1 };
			struct set set;
			uint32_t free_lanes = 0;
			if (a->collective != DDL__ALLTOALL && (!gather || strcmp(a->name, "direct") != 0))
				continue;
			build_all(&t, &set);
			const struct ddl__schedule *s = set.s[0];
			uint64_t slot = s->slice_elements * 4, all = slot * s->slots * s->n_lanes;
			assert_true(slot >= 4096 && slot <= 256 * 1024 && all <= 32 * 1024 * 1024);
			assert_true(slot == 256 * 1024 || 2 * all >= 32 * 1024 * 1024);
			for (uint32_t l = 0; l < s->n_lanes; l++)
				free_lanes += s->lanes[l].steps[0].wait_lane == DDL__NO_WAIT;
			assert_int_equal(free_lanes, gather || s->n_lanes < 8 ? s->n_lanes : 8);
			free_all(&set);
		}
		ddl__layout_destroy(layout);
		world_plan_fini(&w);
	}
}

/* ---- what is broken is rejected ---- */

/* The last step of any lane of any rank that writes the output. */
static struct ddl__step *writer(struct set *set)
{
	for (int r = set->n - 1; r >= 0; r--)
		for (uint32_t l = set->s[r]->n_lanes; l-- > 0;)
			for (uint32_t i = set->s[r]->lanes[l].n; i-- > 0;) {
				struct ddl__step *step = &set->s[r]->lanes[l].steps[i];
				if (ddl__step_writes(step->kind) && step->dst_buffer == DDL__OUTPUT && step->count)
					return step;
			}
	fail_msg("nobody writes the output");
	return NULL;
}

static void no_result(struct set *set)
{
	for (int r = 0; r < set->n; r++) {
		set->s[r]->scratch_elements += 1000;
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++)
			for (uint32_t i = 0; i < set->s[r]->lanes[l].n; i++)
				if (set->s[r]->lanes[l].steps[i].dst_buffer == DDL__OUTPUT) {
					set->s[r]->lanes[l].steps[i].dst_buffer = DDL__SCRATCH;
					set->s[r]->lanes[l].steps[i].dst += 500;
				}
	}
}

static void past_the_end(struct set *set)
{
	writer(set)->dst += 1000;
}

static void no_mean(struct set *set)
{
	for (int r = 0; r < set->n; r++)
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++)
			for (uint32_t i = 0; i < set->s[r]->lanes[l].n; i++)
				set->s[r]->lanes[l].steps[i].final = 0;
}

static void not_reduced(struct set *set)
{
	for (int r = 0; r < set->n; r++)
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++)
			for (uint32_t i = 0; i < set->s[r]->lanes[l].n; i++) {
				uint8_t *kind = &set->s[r]->lanes[l].steps[i].kind;
				*kind = *kind == DDL__RECV_REDUCE ? DDL__RECV : *kind;
			}
}

/* A block lands where another belongs. */
static void other_block(struct set *set)
{
	for (int r = 0; r < set->n; r++)
		for (uint32_t l = 0; l < set->s[r]->n_lanes; l++)
			for (uint32_t i = 0; i < set->s[r]->lanes[l].n; i++) {
				struct ddl__step *step = &set->s[r]->lanes[l].steps[i];
				if (step->kind == DDL__COPY || step->count != 4)
					continue;
				step->dst ^= step->dst_buffer == DDL__OUTPUT && ddl__step_writes(step->kind) ? 4 : 0;
			}
}

/* The last receiving step of a lane does nothing. */
static void never_received(struct set *set)
{
	for (int r = set->n - 1; r >= 0; r--)
		for (uint32_t l = set->s[r]->n_lanes; l-- > 0;)
			for (uint32_t i = set->s[r]->lanes[l].n; i-- > 0;) {
				struct ddl__step *step = &set->s[r]->lanes[l].steps[i];
				if (!ddl__step_receives(step->kind) || ddl__step_sends(step->kind))
					continue;
				step->kind = DDL__COPY;
				step->count = 0;
				return;
			}
	fail_msg("nobody receives");
}

static void waits_for_ever(struct set *set)
{
	for (int r = set->n - 1; r >= 0; r--)
		if (set->s[r]->n_lanes && set->s[r]->lanes[0].n) {
			set->s[r]->lanes[0].steps[0].wait_lane = 0;
			set->s[r]->lanes[0].steps[0].wait_step = set->s[r]->lanes[0].n - 1;
			return;
		}
	fail_msg("nobody has a lane");
}

struct damage {
	void (*damage)(struct set *set);
	const char *says;
};

static void broken(enum ddl__collective collective, const char *name, const struct damage *d)
{
	struct world_plan w;
	struct ddl__layout *layout;
	struct set set;
	struct ddl_error err = { 0 };
	struct setting t = { .count = 4, .rings = 1, .root = 1, .peer = 2 };
	struct ddl__candidate found;
	assert_int_equal(ddl__select(collective, name, &found, NULL), 0);
	t.algorithm = found.algorithm;
	assert_int_equal(random_plan(5, 4, 0, 0, &w), 0);
	assert_int_equal(ddl__layout_create(w.plan, w.node_of_rank, 4, &layout), 0);
	t.layout = layout;
	build_all(&t, &set);
	assert_int_equal(prove(&t, &set, false, &err), 0);
	d->damage(&set);
	if (prove(&t, &set, false, &err) != -EPROTO || !strstr(err.text, d->says))
		fail_msg("%s %s: \"%s\" where \"%s\" was expected", ddl__collective_name(collective), name, err.text, d->says);
	free_all(&set);
	ddl__layout_destroy(layout);
	world_plan_fini(&w);
}

static void broken_schedules_are_rejected(void **state)
{
	static const struct damage reductions[] = {
		{ no_result, "never written" }, { past_the_end, "out of bounds" }, { no_mean, "not divided" },
		{ not_reduced, "not the " },    { never_received, "never " },      { waits_for_ever, "waits for ever" },
	};
	static const struct damage copies[] = {
		{ no_result, "never written" },
		{ past_the_end, "out of bounds" },
		{ never_received, "never " },
		{ waits_for_ever, "waits for ever" },
	};
	static const struct damage misplaced = { other_block, "must come from" };
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		bool reduces = a->collective == DDL__REDUCE_SCATTER || a->collective == DDL__REDUCE;
		const struct damage *d = reduces ? reductions : copies;
		size_t n = reduces ? sizeof(reductions) / sizeof(*d) : sizeof(copies) / sizeof(*d);
		for (size_t i = 0; a->collective >= DDL__REDUCE_SCATTER && i < n; i++)
			broken(a->collective, a->name, &d[i]);
	}
	broken(DDL__ALLGATHER, "ring", &misplaced);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_schedule_is_proved_for_1_to_64_ranks_with_equal_blocks_and_by_counts),
		cmocka_unit_test(small_sizes_are_proved_often),
		cmocka_unit_test(large_sizes_are_proved),
		cmocka_unit_test(steps_and_bytes_are_those_of_the_formulas),
		cmocka_unit_test(many_lanes_hold_bounded_memory),
		cmocka_unit_test(broken_schedules_are_rejected),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
