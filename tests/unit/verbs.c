/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c - lanes over RDMA, on a fabric in this process: what every transport must do, and what is RDMA's own. */
#include "fake_verbs.h"
#include "transport.h"

#define OPS        (&ddl__transport_verbs)
#define TEST_VERBS (&fake_verbs_api)
#include "transport_faults.h"

static int fabric_up(void **state)
{
	static const char *const names[] = { "rdma0" };

	note_fds(state);
	fake_verbs_begin();
	fake_verbs_add_simple(names, 1);
	return 0;
}

static int fabric_down(void **state)
{
	const char *left = fake_verbs_end();

	if (*left)
		print_error("%s\n", left);
	return same_fds(state) || *left ? -1 : 0;
}

#undef CASE
#define CASE(test) cmocka_unit_test_setup_teardown(test, fabric_up, fabric_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TRANSPORT_CASES,
		TRANSPORT_FAULTS,
	};

	return cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
