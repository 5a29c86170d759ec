/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multi-ring: steps and bytes of every level, counted from the schedules, are those of the formulas; dimensions that a user gives;
 * and uneven groups, where every uplink carries what its formula says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "cost.h"
#include "trees.h"
#include "verify.h"

enum { RANKS_MAX = 256, LEVELS = 3 };

struct job {
	struct ddl__plan *plan;
	struct ddl__layout *layout;
	int n;
	uint32_t rings; /* 0: one */
	struct ddl__schedule *s[RANKS_MAX];
};

/* leaves switches of `nodes` nodes with `tasks` ranks each, below a spine. */
static void job_init(struct job *job, int tasks, int nodes, int leaves)
{
	char text[8192] = "1;job=;mode=multiring;src=none/tree;tree=spine(";
	size_t node_of_rank[RANKS_MAX];
	job->n = tasks * nodes * leaves;
	for (int l = 0; l < leaves; l++)
		snprintf(text + strlen(text), 64, "%sl%d(n[%d-%d])", l ? "," : "", l, l * nodes, l * nodes + nodes - 1);
	strcat(text, ")");
	for (int r = 0; r < job->n; r++)
		node_of_rank[r] = (size_t)(r / tasks);
	assert_int_equal(ddl__plan_decode(text, strlen(text), &job->plan, NULL), 0);
	assert_int_equal(ddl__layout_create(job->plan, node_of_rank, job->n, &job->layout), 0);
}

static void job_build(struct job *job, uint64_t count, const uint32_t *dims, size_t n_dims)
{
	for (int r = 0; r < job->n; r++) {
		const struct ddl__build build = { .layout = job->layout,
						  .rank = r,
						  .count = count,
						  .wire_bytes = 4,
						  .root = -1,
						  .rings = job->rings ? job->rings : 1,
						  .dims = dims,
						  .n_dims = n_dims };
		assert_int_equal(ddl__build_multiring(&build, &job->s[r]), 0);
	}
	struct ddl__verify verify = { .collective = DDL__ALLREDUCE,
				      .schedules = (const struct ddl__schedule *const *)job->s,
				      .n_ranks = job->n,
				      .count = count,
				      .root = -1 };
	struct ddl_error err;
	if (ddl__verify(&verify, &err) < 0)
		fail_msg("%s", err.text);
	verify.shared = true;
	if (job->n <= 32 && ddl__verify(&verify, &err) < 0)
		fail_msg("where ranks share memory: %s", err.text);
}

static void job_fini(struct job *job)
{
	for (int r = 0; r < job->n; r++)
		ddl__schedule_destroy(job->s[r]);
	ddl__layout_destroy(job->layout);
	ddl__plan_destroy(job->plan);
}

/* Sends and elements sent by one rank, by the highest digit in which the peer differs from it (numbers in the radices dims). */
static void count_sent(const struct job *job, int rank, const uint32_t *dims, size_t n_dims, uint64_t *sends, uint64_t *elements)
{
	memset(sends, 0, n_dims * sizeof(*sends));
	memset(elements, 0, n_dims * sizeof(*elements));
	for (uint32_t l = 0; l < job->s[rank]->n_lanes; l++) {
		const struct ddl__steps *lane = &job->s[rank]->lanes[l];
		size_t level = 0;
		uint64_t block = dims[0];
		while (level + 1 < n_dims && (uint64_t)rank / block != (uint64_t)lane->send_peer / block)
			block *= dims[++level];
		for (uint32_t i = 0; i < lane->n; i++)
			if (ddl__step_sends(lane->steps[i].kind)) {
				sends[level]++;
				elements[level] += lane->steps[i].count;
			}
	}
}

static void check_formulas(struct job *job, const uint32_t *dims, size_t n_dims, uint64_t count)
{
	uint64_t sends[DDL__DIMS_MAX], elements[DDL__DIMS_MAX];
	for (int r = 0; r < job->n; r++) {
		uint64_t left = count;
		count_sent(job, r, dims, n_dims, sends, elements);
		for (size_t d = 0; d < n_dims; d++) {
			assert_int_equal(sends[d], 2 * (dims[d] - 1));
			assert_int_equal(elements[d], 2 * (dims[d] - 1) * left / dims[d]);
			left /= dims[d];
		}
	}
}

static void steps_and_bytes_of_every_level_are_those_of_the_formula(void **state)
{
	static const uint32_t shapes[][LEVELS] = { { 2, 2, 2 }, { 4, 3, 2 }, { 2, 3, 5 }, { 8, 4, 4 }, { 3, 2, 7 } };
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct job job;
		const uint32_t *dims = shapes[i];
		uint64_t count = (uint64_t)dims[0] * dims[1] * dims[2] *
				 2; /* so few that there is one piece, and all parts are equal */
		job_init(&job, (int)dims[0], (int)dims[1], (int)dims[2]);
		job_build(&job, count, NULL, 0);
		check_formulas(&job, dims, LEVELS, count);
		job_fini(&job);
	}
}

static void dimensions_that_are_given_split_or_join_levels(void **state)
{
	static const struct {
		uint32_t dims[DDL__DIMS_MAX];
		size_t n;
	} cases[] = { { { 16 }, 1 }, { { 4, 4 }, 2 }, { { 2, 2, 2, 2 }, 4 }, { { 8, 2 }, 2 }, { { 2, 8 }, 2 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct job job;
		job_init(&job, 4, 2, 2);
		job_build(&job, 32, cases[i].dims, cases[i].n);
		check_formulas(&job, cases[i].dims, cases[i].n, 32);
		job_fini(&job);
	}
}

static void dimensions_of_another_product_are_refused(void **state)
{
	static const uint32_t dims[] = { 4, 3 };
	struct job job;
	struct ddl__schedule *s;
	job_init(&job, 4, 2, 2);
	const struct ddl__build build = {
		.layout = job.layout, .count = 32, .wire_bytes = 4, .root = -1, .rings = 1, .dims = dims, .n_dims = 2
	};
	assert_int_equal(ddl__build_multiring(&build, &s), -EINVAL);
	job.n = 0;
	job_fini(&job);
}

/* Nodes of 1 to 4 ranks, leaves of 1 and 2 nodes: whatever the groups, 2(p-1)/p of the data leaves each of p groups. */
static void uneven_groups_carry_what_even_ones_do(void **state)
{
	static const char text[] = "1;job=;mode=multiring;src=none/tree;tree=spine(l0(n[0-1]),l1(n2),l2(n[3-4]))";
	static const size_t node_of_rank[] = { 0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 4 };
	struct job job = { .n = 11 };
	const uint64_t count = 2 * 3 * 4 * 5 * 7 * 11;
	assert_int_equal(ddl__plan_decode(text, sizeof(text) - 1, &job.plan, NULL), 0);
	assert_int_equal(ddl__layout_create(job.plan, node_of_rank, job.n, &job.layout), 0);
	job_build(&job, count, NULL, 0);
	for (size_t leaf = 0; leaf < job.plan->root->n_children; leaf++) {
		uint64_t out = 0;
		for (int r = 0; r < job.n; r++) {
			struct ddl__vertex *mine = job.plan->nodes[node_of_rank[r]];
			struct ddl__vertex *top = mine->parent == job.plan->root ? mine : mine->parent;
			for (uint32_t l = 0; top == job.plan->root->children[leaf] && l < job.s[r]->n_lanes; l++) {
				const struct ddl__steps *lane = &job.s[r]->lanes[l];
				struct ddl__vertex *theirs = lane->send_peer < 0 ? mine
										 : job.plan->nodes[node_of_rank[lane->send_peer]];
				struct ddl__vertex *their_top = theirs->parent == job.plan->root ? theirs : theirs->parent;
				for (uint32_t i = 0; their_top != top && i < lane->n; i++)
					out += ddl__step_sends(lane->steps[i].kind) ? lane->steps[i].count : 0;
			}
		}
		uint64_t want = 2 * 2 * count / 3;               /* three leaves */
		assert_true(out + 64 > want && out < want + 64); /* a cut between elements rounds */
	}
	job_fini(&job);
}

static void parts_for_the_rails_carry_equally_much(void **state)
{
	static const uint32_t shapes[][LEVELS] = { { 1, 2, 2 }, { 2, 2, 2 }, { 3, 2, 3 }, { 1, 8, 1 }, { 2, 3, 1 } };
	static const uint64_t counts[] = { 24000, 23456, 4097, 300, 7 };
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
			for (uint32_t rings = 2; rings <= 4; rings++) {
				struct job job = { .rings = rings };
				uint64_t sent[4] = { 0 };
				job_init(&job, (int)shapes[i][0], (int)shapes[i][1], (int)shapes[i][2]);
				job_build(&job, counts[c], NULL, 0);
				for (uint32_t l = 0; l < job.s[0]->n_lanes; l++)
					for (uint32_t k = 0; k < job.s[0]->lanes[l].n; k++)
						if (ddl__step_sends(job.s[0]->lanes[l].steps[k].kind))
							sent[job.s[0]->lanes[l].number % rings] +=
								job.s[0]->lanes[l].steps[k].count;
				for (uint32_t p = 1; counts[c] > 20000 && p < rings; p++) {
					assert_true(sent[p] * 100 > sent[0] * 98);
					assert_true(sent[p] * 100 < sent[0] * 102);
				}
				job_fini(&job);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_and_bytes_of_every_level_are_those_of_the_formula),
		cmocka_unit_test(dimensions_that_are_given_split_or_join_levels),
		cmocka_unit_test(dimensions_of_another_product_are_refused),
		cmocka_unit_test(uneven_groups_carry_what_even_ones_do),
		cmocka_unit_test(parts_for_the_rails_carry_equally_much),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
