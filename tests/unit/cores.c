/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cores.c - which hardware threads service threads take: the masks of the ranks of a machine in, the choice of every rank out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cores.h"
#include "facts.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { RANKS_MAX = 16, SINGLE = 1, PAIRS = 2, HALVES = 3 };

struct row {
	const char *name;
	int lie;                      /* SINGLE: a core a hardware thread; PAIRS: 2i and 2i+1 share one; HALVES: i and i+8 do.
				       * The upper half of the cores is NUMA node 1 */
	uint32_t threads;             /* service threads of each rank */
	int numa;                     /* of the rail */
	const char *may[RANKS_MAX];   /* what each rank may use; NULL ends them */
	const char *named[RANKS_MAX]; /* what each names; NULL: nothing */
	const char *want[RANKS_MAX];  /* what each gets: a list; "" not bound */
	enum ddl__cores_how how;      /* of the last */
};

static const struct row rows[] = {
	{ "one rank with a mask takes its last core", SINGLE, 1, -1, { "0-3" }, { 0 }, { "3" }, DDL__CORES_WHOLE },
	{ "bound ranks take the last of their own",
	  SINGLE,
	  1,
	  -1,
	  { "0-3", "4-7", "8-11" },
	  { 0 },
	  { "3", "7", "11" },
	  DDL__CORES_WHOLE },
	{ "ranks with one mask take different cores",
	  SINGLE,
	  1,
	  -1,
	  { "0-7", "0-7", "0-7", "0-7" },
	  { 0 },
	  { "7", "6", "5", "4" },
	  DDL__CORES_WHOLE },
	{ "where the program needs all, nobody is bound",
	  SINGLE,
	  1,
	  -1,
	  { "0-3", "0-3", "0-3" },
	  { 0 },
	  { "", "", "" },
	  DDL__CORES_FEW },
	{ "two ranks on two cores", SINGLE, 1, -1, { "0-1", "0-1" }, { 0 }, { "", "" }, DDL__CORES_FEW },
	{ "a rank with two cores", SINGLE, 1, -1, { "0-1" }, { 0 }, { "1" }, DDL__CORES_WHOLE },
	{ "a mask of one", SINGLE, 1, -1, { "5" }, { 0 }, { "" }, DDL__CORES_SINGLE },
	{ "one of one beside one of four", SINGLE, 1, -1, { "0", "4-7" }, { 0 }, { "", "7" }, DDL__CORES_WHOLE },
	{ "the only core of another rank is left alone", SINGLE, 1, -1, { "0-3", "3" }, { 0 }, { "2", "" }, DDL__CORES_SINGLE },
	{ "a narrow mask in a wide one", SINGLE, 1, -1, { "0-7", "6-7" }, { 0 }, { "5", "" }, DDL__CORES_FEW },
	{ "the NUMA node of the rail", SINGLE, 1, 0, { "0-15" }, { 0 }, { "7" }, DDL__CORES_WHOLE },
	{ "the NUMA node of the rail for several", SINGLE, 1, 0, { "0-15", "0-15" }, { 0 }, { "7", "6" }, DDL__CORES_WHOLE },
	{ "a rail elsewhere", SINGLE, 1, 1, { "0-7" }, { 0 }, { "7" }, DDL__CORES_WHOLE },
	{ "two threads", SINGLE, 2, -1, { "0-3", "4-7" }, { 0 }, { "2-3", "6-7" }, DDL__CORES_WHOLE },
	{ "as many as there are to spare", SINGLE, 8, -1, { "0-2" }, { 0 }, { "1-2" }, DDL__CORES_WHOLE },
	{ "two threads where one mask leaves one", SINGLE, 2, -1, { "0-3", "0-3" }, { 0 }, { "3", "2" }, DDL__CORES_WHOLE },
	{ "a core of pairs is one core", PAIRS, 1, -1, { "0-3" }, { 0 }, { "3" }, DDL__CORES_WHOLE },
	{ "the second hardware thread of the only core", PAIRS, 1, -1, { "2-3" }, { 0 }, { "3" }, DDL__CORES_SIBLING },
	{ "the same where they are far apart", HALVES, 1, -1, { "2,10", "3,11" }, { 0 }, { "10", "11" }, DDL__CORES_SIBLING },
	{ "different cores before second hardware threads",
	  HALVES,
	  1,
	  -1,
	  { "0-3,8-11", "0-3,8-11" },
	  { 0 },
	  { "11", "10" },
	  DDL__CORES_WHOLE },
	{ "second hardware threads of four ranks",
	  HALVES,
	  1,
	  -1,
	  { "0-3,8-11", "0-3,8-11", "0-3,8-11", "0-3,8-11" },
	  { 0 },
	  { "11", "10", "9", "8" },
	  DDL__CORES_SIBLING },
	{ "hardware threads do not suffice either", HALVES, 1, -1, { "0,8", "0,8" }, { 0 }, { "", "" }, DDL__CORES_FEW },
	{ "what is named is taken", SINGLE, 1, -1, { "0-3" }, { "1" }, { "1" }, DDL__CORES_NAMED },
	{ "what is named is shared out", SINGLE, 1, -1, { "0-1", "0-1" }, { "0-1", "0-1" }, { "1", "0" }, DDL__CORES_NAMED },
	{ "what is named is shared where it does not suffice",
	  SINGLE,
	  1,
	  -1,
	  { "0-3", "0-3", "0-3" },
	  { "2-3", "2-3", "2-3" },
	  { "3", "2", "3" },
	  DDL__CORES_NAMED },
	{ "what one names another does not take", SINGLE, 1, -1, { "0-7", "0-7" }, { "7" }, { "7", "6" }, DDL__CORES_WHOLE },
	{ "what is named of a single one", SINGLE, 1, -1, { "3" }, { "3" }, { "3" }, DDL__CORES_NAMED },
};

static void make_lie(int kind, struct ddl__lie *lie)
{
	for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++) {
		size_t core = kind == PAIRS ? cpu / 2 * 2 : kind == HALVES ? cpu % 8 : cpu;

		lie->core[cpu] = (uint16_t)core;
		lie->numa[cpu] = core >= (kind == HALVES ? 4 : 8);
	}
}

/* The chosen ones as a list in ascending order; each core is told too. */
static void list(const struct ddl__lie *lie, const struct ddl__cores *cores, char *text, size_t size)
{
	struct ddl__cpus set;

	memset(&set, 0, sizeof(set));
	for (uint32_t i = 0; i < cores->n; i++) {
		ddl__cpus_add(&set, cores->cpus[i]);
		assert_int_equal(cores->cores[i], lie->core[cores->cpus[i]]);
	}
	assert_non_null(ddl__cpus_text(&set, text, size));
}

static void every_rank_chooses_what_all_expect_of_it(void **state)
{
	struct ddl__lie *lie = malloc(sizeof(*lie));
	struct ddl__serving *ranks = calloc(RANKS_MAX, sizeof(*ranks));

	assert_non_null(lie);
	assert_non_null(ranks);
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct row *row = &rows[i];
		struct ddl__cores cores;
		size_t n = 0;

		make_lie(row->lie, lie);
		for (; n < RANKS_MAX && row->may[n]; n++) {
			ddl__cpus_parse(&ranks[n].may, row->may[n]);
			ddl__cpus_parse(&ranks[n].named, row->named[n] ? row->named[n] : "");
			ranks[n].numa = row->numa;
		}
		for (size_t r = 0; r < n; r++) {
			char got[64], text[DDL__CORES_TEXT];

			assert_int_equal(ddl__cores_choose(lie, ranks, n, r, row->threads, &cores), 0);
			list(lie, &cores, got, sizeof(got));
			if (strcmp(got, row->want[r]) != 0)
				fail_msg("%s: rank %zu gets \"%s\", not \"%s\"", row->name, r, got, row->want[r]);
			assert_int_equal(strncmp(ddl__cores_text(&cores, text), "not bound: ", 11) == 0, !*row->want[r]);
		}
		if (cores.how != row->how)
			fail_msg("%s: %d, not %d", row->name, cores.how, row->how);
	}
	free(ranks);
	free(lie);
}

/* Whatever the masks: within them, never all of what a rank may use but where it is named, and never more often than needed. */
static void no_choice_leaves_the_masks(void **state)
{
	struct ddl__lie *lie = malloc(sizeof(*lie));
	struct ddl__serving *ranks = calloc(RANKS_MAX, sizeof(*ranks));
	uint64_t seed = 20;

	assert_non_null(lie);
	assert_non_null(ranks);
	for (int round = 0; round < 300; round++) {
		size_t n = 1 + (size_t)round % RANKS_MAX;
		uint32_t threads = 1 + (uint32_t)round % DDL__PROGRESS_MAX;

		make_lie(SINGLE + round % 3, lie);
		for (size_t r = 0; r < n; r++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			memset(&ranks[r], 0, sizeof(ranks[r]));
			ranks[r].may.bits[0] = (seed >> 33) & 0xffff;
			ranks[r].numa = (int)(seed >> 60) % 3 - 1;
		}
		for (size_t r = 0; r < n; r++) {
			struct ddl__cores cores;
			uint64_t taken = 0;

			assert_int_equal(ddl__cores_choose(lie, ranks, n, r, threads, &cores), 0);
			assert_true(cores.n <= threads);
			for (uint32_t i = 0; i < cores.n; i++) {
				assert_true(ddl__cpus_has(&ranks[r].may, cores.cpus[i]));
				assert_false(taken >> cores.cpus[i] & 1);
				taken |= UINT64_C(1) << cores.cpus[i];
			}
			assert_true(!taken || taken != ranks[r].may.bits[0]);
		}
	}
	free(ranks);
	free(lie);
}

static void a_captured_machine_lies_as_it_is(void **state)
{
	struct ddl__lie *lie = malloc(sizeof(*lie));
	struct ddl__facts *facts = calloc(1, sizeof(*facts));
	struct ddl_error err;

	assert_non_null(lie);
	assert_non_null(facts);
	assert_int_equal(ddl__facts_gather(SOURCE_DIR "/tests/topo/gpu4", "", facts, &err), 0);
	ddl__lie_read(SOURCE_DIR "/tests/topo/gpu4", &facts->may, lie);
	size_t cores = 0, upper = 0, cpus = 0;
	for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++) {
		if (!ddl__cpus_has(&facts->may, cpu))
			continue;
		cpus++;
		cores += lie->core[cpu] == cpu;
		upper += lie->numa[cpu] == 1;
		assert_true(lie->numa[cpu] >= 0);
		assert_int_equal(lie->core[lie->core[cpu]], lie->core[cpu]);
	}
	assert_int_equal(cpus, facts->cpus);
	assert_int_equal(cores, facts->cores);
	assert_int_equal(upper, cpus / 2);
	free(facts);
	free(lie);
}

static void what_the_user_names_is_read_strictly(void **state)
{
	static const struct {
		const char *text, *named; /* NULL: refused */
		const char *told;         /* what the sentence holds */
	} cases[] = {
		{ NULL, "", NULL },
		{ "auto", "", NULL },
		{ "none", "", NULL },
		{ "3", "3", NULL },
		{ "2-3,7", "2-3,7", NULL },
		{ "7-8", "7", NULL },
		{ "0-16383", "0-7", NULL },
		{ "8,12", NULL, "may use none of these hardware threads, only 0-7" },
		{ "16384", NULL, "16384 is not possible" },
		{ "all", NULL, "it takes auto, none, or a list" },
		{ "3,", NULL, "3, is not possible" },
		{ "3-", NULL, "3- is not possible" },
		{ "3-2", NULL, "3-2 is not possible" },
		{ "-1", NULL, "-1 is not possible" },
		{ "99999999999999999999", NULL, "is not possible" },
		{ "0x3", NULL, "0x3 is not possible" },
	};
	struct ddl__cpus may, named;
	char text[64];

	ddl__cpus_parse(&may, "0-7");
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ddl_error err = { 0 };
		int rc = ddl__cores_named(cases[i].text, &may, &named, &err);

		if (cases[i].named) {
			assert_int_equal(rc, 0);
			assert_string_equal(ddl__cpus_text(&named, text, sizeof(text)), cases[i].named);
		} else {
			assert_int_equal(rc, -EINVAL);
			if (!strstr(err.text, cases[i].told) || !strstr(err.text, "DDL_PROGRESS_CORES="))
				fail_msg("%s", err.text);
		}
	}
}

static void a_list_that_does_not_fit_is_none(void **state)
{
	struct ddl__cpus cpus;
	char text[7];

	ddl__cpus_parse(&cpus, "0-3,5,7");
	assert_null(ddl__cpus_text(&cpus, text, sizeof(text)));
	assert_string_equal(text, "");
	ddl__cpus_parse(&cpus, "0-3,5");
	assert_string_equal(ddl__cpus_text(&cpus, text, sizeof(text)), "0-3,5");
	ddl__cpus_parse(&cpus, "16383");
	assert_string_equal(ddl__cpus_text(&cpus, text, sizeof(text)), "16383");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rank_chooses_what_all_expect_of_it), cmocka_unit_test(no_choice_leaves_the_masks),
		cmocka_unit_test(a_captured_machine_lies_as_it_is),         cmocka_unit_test(what_the_user_names_is_read_strictly),
		cmocka_unit_test(a_list_that_does_not_fit_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
