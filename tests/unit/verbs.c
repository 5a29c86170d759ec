/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c - lanes over RDMA, on a fabric in this process: what every transport must do, and what is RDMA's own. */
#include <sys/resource.h>

#include "verbs_pair.h"

#include "transport_faults.h"

/* All ranks share a device: the common cases open none of their own. */
static int device_up(void **state)
{
	static const char *const names[] = { "rdma0" };
	int rc = fabric_up(state);

	fake_verbs_add_simple(names, 1);
	return rc;
}

#undef CASE
#define CASE(test) cmocka_unit_test_setup_teardown(test, device_up, fabric_down)

/* Else requests would fail later, one by one, where TCP could have carried them. Who may lock more than the limit says may open. */
static void test_little_memory_that_may_be_locked_is_noticed_at_once(void **state)
{
	static const char *const addresses[] = { "127.0.0.1" };
	struct ddl__transport_config config = { .n_ranks = 1,
						.timeout_ms = WATCHDOG_MS,
						.machine = "m",
						.addresses = addresses,
						.n_addresses = 1,
						.events = &test_events,
						.verbs = &fake_verbs_api };
	struct ddl__transport *transport = NULL;
	struct rlimit before, little;
	struct ddl_error err = { 0 };

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	little = (struct rlimit){ (rlim_t)1 << 20, before.rlim_max };
	config.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &little), 0);
	fake_verbs_limit_memory((size_t)8 << 20);
	assert_int_equal(OPS->open(&config, &transport, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "registered with the RDMA device rdma0"));
	assert_non_null(strstr(err.text, "1024 KiB may be locked here (ulimit -l)"));
	fake_verbs_limit_memory(SIZE_MAX);
	assert_int_equal(OPS->open(&config, &transport, &err), 0);
	OPS->close(transport);
	setrlimit(RLIMIT_MEMLOCK, &before);
	close(config.epoll_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TRANSPORT_CASES,
		TRANSPORT_FAULTS,
		cmocka_unit_test_setup_teardown(test_little_memory_that_may_be_locked_is_noticed_at_once, device_up, fabric_down),
	};

	return cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
