/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat_view.c - whom `ddl stat` blames: states in, sentences out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stat.h"

#define WAIT(request, peer)                                                                                                        \
	"{'request':" #request                                                                                                     \
	",'call':'a sum','start':1,'for_s':12.5,'done':10,'all':20,'lane':0,'step':1,'steps':3,'kind':'recv',"                     \
	"'what':'data','peer':" #peer ",'peer_node':'n" #peer "'}"
#define STATE(rank, process, active, asleep, waits)                                                                                \
	"{'rank':" #rank ",'ranks':4,'node':'n" #rank "','communicator':'4242.0','pid':100" #rank ",'process':'" process           \
	"','active':" #active ",'asleep':" #asleep ",'tested_s':-1,'thread':false,'failed':0,'waits':[" waits "]}"

static char *view(const char *text, size_t rows)
{
	char *copy = strdup(text), *out = NULL;
	size_t size;
	json_error_t error;
	FILE *file = open_memstream(&out, &size);
	assert_true(copy && file);
	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	json_t *states = json_loads(copy, 0, &error);
	if (!states)
		fail_msg("%s: %s", error.text, copy);
	ddl__stat_print(file, states, rows);
	fclose(file);
	json_decref(states);
	free(copy);
	return out;
}

struct example {
	const char *states;
	const char *says; /* the only sentence after the table */
};

static void the_rank_that_keeps_the_others_waiting_is_named_with_the_reason(void **state)
{
	static const struct example examples[] = {
		{ "[" STATE(0, "S", 1, true, WAIT(3, 1)) "," STATE(1, "T", 1, true, WAIT(3, 0)) "]",
		  "rank 1 on node n1 (process 1001) is stopped (by a signal or a debugger; kill -CONT lets it go on): rank 0 waits "
		  "for it "
		  "in request 3 (a sum) of communicator 4242.0\n" },
		{ "[" STATE(0, "S", 1, true, WAIT(3, 2)) "," STATE(1, "S", 1, true, WAIT(3, 2)) "," STATE(2, "R", 0, false, "") "]",
		  "rank 2 on node n2 (process 1002) has not started request 3, and waits for nothing in DDL: ranks 0, 1 wait for "
		  "it in "
		  "request 3 (a sum) of communicator 4242.0\n" },
		{ "[" STATE(0, "S", 1, true, WAIT(3, 1)) "]", "rank 1 on node n1 is not there: its process has ended, or its node "
							      "did not answer: rank 0 waits for it in request 3 (a "
							      "sum) of communicator 4242.0\n" },
		{ "[" STATE(0, "S", 1, true, WAIT(3, 1)) "," STATE(1, "R", 1, false, "") "]",
		  "rank 1 on node n1 (process 1001) has 1 active request but is in no call of DDL: it computes (DDL_PROGRESS=1 "
		  "lets "
		  "requests go on): rank 0 waits for it in request 3 (a sum) of communicator 4242.0\n" },
		/* a chain: 0 waits for 1, which waits for 2 */
		{ "[" STATE(0, "S", 1, true, WAIT(3, 1)) "," STATE(1, "S", 1, true, WAIT(3, 2)) "," STATE(2, "Z", 1, true, "") "]",
		  "rank 2 on node n2 (process 1002) has ended: rank 1 waits for it in request 3 (a sum) of communicator 4242.0\n" },
		/* a chain over two requests */
		{ "[" STATE(0, "S", 1, true, WAIT(4, 1)) "," STATE(1, "S", 1, true, WAIT(3, 2)) "," STATE(2, "t", 1, true, "") "]",
		  "rank 2 on node n2 (process 1002) is stopped (by a signal or a debugger; kill -CONT lets it go on): rank 1 waits "
		  "for it "
		  "in request 3 (a sum) of communicator 4242.0\n" },
		/* nobody stands out */
		{ "[" STATE(0, "S", 1, true, WAIT(3, 1)) "," STATE(1, "S", 1, true, WAIT(3, 0)) "]",
		  "every rank that is waited for waits itself: data are on their way, or the network is stuck\n" },
	};
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		char *out = view(examples[i].states, 0);
		const char *after = strstr(out, "\n\n");
		assert_non_null(after);
		assert_string_equal(after + 2, examples[i].says);
		free(out);
	}
}

static void ranks_that_wait_in_different_requests_are_both_named(void **state)
{
	char *out = view("[" STATE(0, "S", 1, true, WAIT(3, 1)) "," STATE(1, "S", 1, true, WAIT(4, 0)) "]", 0);
	assert_non_null(
		strstr(out, "rank 1 on node n1 (process 1001) has not started request 3, and waits in another one: rank 0 waits"));
	assert_non_null(
		strstr(out, "rank 0 on node n0 (process 1000) has not started request 4, and waits in another one: rank 1 waits"));
	free(out);
}

static void a_table_is_cut_after_the_ranks_to_blame(void **state)
{
	char *out = view(
		"[" STATE(0, "S", 1, true, WAIT(3, 2)) "," STATE(1, "S", 1, true, WAIT(3, 2)) "," STATE(2, "T", 0, false, "") "]",
		1);
	assert_non_null(strstr(out, "     2  n2               1002  stopped "));
	assert_non_null(strstr(out, "... and 2 more (--all)\n"));
	free(out);
}

static void where_nobody_waits_nobody_is_blamed_and_rubbish_is_no_rank(void **state)
{
	char *out = view("[" STATE(0, "R", 1, false, "") "," STATE(1, "T", 0, false, "") ",{'answered':'n1'},7]", 0);
	assert_null(strstr(out, "\n\n"));
	free(out);
	out = view("[{'answered':'n1'},{'rank':'x'}]", 0);
	assert_string_equal(out, "no process with a communicator was found\n");
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rank_that_keeps_the_others_waiting_is_named_with_the_reason),
		cmocka_unit_test(ranks_that_wait_in_different_requests_are_both_named),
		cmocka_unit_test(a_table_is_cut_after_the_ranks_to_blame),
		cmocka_unit_test(where_nobody_waits_nobody_is_blamed_and_rubbish_is_no_rank),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
