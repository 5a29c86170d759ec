/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings_rdma.c - what the variables DDL_RDMA* mean, and which sentence a wrong one gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "settings.h"

static void without_variables_the_defaults_are_in_force(void **state)
{
	static const char *const names[] = { "DDL_RDMA",         "DDL_RDMA_GID_INDEX", "DDL_RDMA_PKEY",
					     "DDL_RDMA_SL",      "DDL_RDMA_TC",        "DDL_RDMA_MTU",
					     "DDL_RDMA_TIMEOUT", "DDL_RDMA_RETRY",     "DDL_RDMA_REGISTER" };
	struct ddl__rdma_settings rdma;
	for (int empty = 0; empty < 2; empty++) {
		for (size_t i = 0; empty && i < sizeof(names) / sizeof(names[0]); i++)
			setenv(names[i], "", 1);
		memset(&rdma, 0xee, sizeof(rdma));
		assert_int_equal(ddl__settings_rdma(&rdma, NULL), 0);
		assert_int_equal(rdma.n_ports, 0);
		assert_int_equal(rdma.gid_index, -1);
		assert_int_equal(rdma.pkey, -1);
		assert_int_equal(rdma.service_level, 0);
		assert_int_equal(rdma.traffic_class, 0);
		assert_int_equal(rdma.mtu, 0);
		assert_int_equal(rdma.timeout, 18);
		assert_int_equal(rdma.retry, 6);
		assert_int_equal(rdma.use, DDL__REGISTER_AUTO);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

static int read_one(const char *name, const char *value, struct ddl__rdma_settings *rdma, struct ddl_error *err)
{
	struct ddl__settings all;
	err->text[0] = '\0';
	setenv(name, value, 1);
	const int rc = ddl__settings_rdma(rdma, err);
	/* a communicator's settings have them, and refuse what is refused here */
	assert_int_equal(ddl__settings_read(NULL, &all, NULL), rc);
	if (rc == 0)
		assert_memory_equal(&all.rdma, rdma, sizeof(*rdma));
	unsetenv(name);
	return rc;
}

static void ports_are_kept_in_the_order_they_are_named_in(void **state)
{
	struct ddl__rdma_settings rdma;
	struct ddl_error err;
	assert_int_equal(read_one("DDL_RDMA", "mlx5_1:2,rxe0,mlx5_1:1", &rdma, &err), 0);
	assert_int_equal(rdma.n_ports, 3);
	assert_string_equal(rdma.ports[0].device, "mlx5_1");
	assert_int_equal(rdma.ports[0].port, 2);
	assert_string_equal(rdma.ports[1].device, "rxe0");
	assert_int_equal(rdma.ports[1].port, 0);
	assert_string_equal(rdma.ports[2].device, "mlx5_1");
	assert_int_equal(rdma.ports[2].port, 1);
}

static void numbers_are_read_at_both_ends_of_their_ranges(void **state)
{
	struct ddl__rdma_settings rdma;
	struct ddl_error err;
	const struct {
		const char *name, *text;
		const int *value;
		int want;
	} good[] = { { "DDL_RDMA_GID_INDEX", "0", &rdma.gid_index, 0 },
		     { "DDL_RDMA_GID_INDEX", "255", &rdma.gid_index, 255 },
		     { "DDL_RDMA_PKEY", "0x8001", &rdma.pkey, 0x8001 },
		     { "DDL_RDMA_PKEY", "0XfFfF", &rdma.pkey, 0xffff },
		     { "DDL_RDMA_PKEY", "1", &rdma.pkey, 1 },
		     { "DDL_RDMA_SL", "15", &rdma.service_level, 15 },
		     { "DDL_RDMA_SL", "08", &rdma.service_level, 8 },
		     { "DDL_RDMA_TC", "106", &rdma.traffic_class, 106 },
		     { "DDL_RDMA_TC", "255", &rdma.traffic_class, 255 },
		     { "DDL_RDMA_MTU", "256", &rdma.mtu, 256 },
		     { "DDL_RDMA_MTU", "4096", &rdma.mtu, 4096 },
		     { "DDL_RDMA_TIMEOUT", "1", &rdma.timeout, 1 },
		     { "DDL_RDMA_TIMEOUT", "31", &rdma.timeout, 31 },
		     { "DDL_RDMA_RETRY", "0", &rdma.retry, 0 } };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (read_one(good[i].name, good[i].text, &rdma, &err) != 0 || *good[i].value != good[i].want)
			fail_msg("%s=%s: \"%s\"", good[i].name, good[i].text, err.text);
	}
}

static void which_memory_is_registered_is_a_word(void **state)
{
	struct ddl__rdma_settings rdma;
	struct ddl_error err;
	assert_int_equal(read_one("DDL_RDMA_REGISTER", "auto", &rdma, &err), 0);
	assert_int_equal(rdma.use, DDL__REGISTER_AUTO);
	assert_int_equal(read_one("DDL_RDMA_REGISTER", "alloc", &rdma, &err), 0);
	assert_int_equal(rdma.use, DDL__REGISTER_ALLOC);
	assert_int_equal(read_one("DDL_RDMA_REGISTER", "all", &rdma, &err), 0);
	assert_int_equal(rdma.use, DDL__REGISTER_ALL);
}

static void what_is_wrong_is_named_with_what_it_may_be_and_changes_nothing(void **state)
{
	static const char LONG[] = "0123456789012345678901234567890123456789012345678901234567890123"; /* 64 bytes */
	static const struct {
		const char *name, *text, *remedy;
	} wrong[] = {
		{ "DDL_RDMA", ",", "no DEVICE or DEVICE:PORT" },
		{ "DDL_RDMA", "mlx5_0,", "\"\" is no DEVICE" },
		{ "DDL_RDMA", "mlx5_0:0", "ports count from 1" },
		{ "DDL_RDMA", "mlx5_0:", "\"mlx5_0:\" is no" },
		{ "DDL_RDMA", "mlx5_0:1:2", "\"mlx5_0:1:2\" is no" },
		{ "DDL_RDMA", "mlx5_0:256", "\"mlx5_0:256\" is no" },
		{ "DDL_RDMA", "mlx5_0:one", "\"mlx5_0:one\" is no" },
		{ "DDL_RDMA", "mlx5_0:0x1", "\"mlx5_0:0x1\" is no" },
		{ "DDL_RDMA", "mlx5_0, mlx5_1", "\" mlx5_1\" is no" },
		{ "DDL_RDMA", "../../etc", "\"../../etc\" is no" },
		{ "DDL_RDMA", ":1", "\":1\" is no" },
		{ "DDL_RDMA", LONG, "is no DEVICE" },
		{ "DDL_RDMA", "a\nb:", "\"a?b:\" is no DEVICE" },
		{ "DDL_RDMA", "a,b,a", "names \"a\" twice" },
		{ "DDL_RDMA", "a:1,a:1", "names \"a:1\" twice" },
		{ "DDL_RDMA", "a,a:2", "names \"a:2\" twice" },
		{ "DDL_RDMA", "a:2,a", "names \"a\" twice" },
		{ "DDL_RDMA", "a,b,c,d,e,f,g,h,i", "more than 8 ports" },
		{ "DDL_RDMA_GID_INDEX", "-1", "from 0 to 255" },
		{ "DDL_RDMA_GID_INDEX", "256", "from 0 to 255" },
		{ "DDL_RDMA_GID_INDEX", "3 ", "from 0 to 255" },
		{ "DDL_RDMA_GID_INDEX", "auto", "from 0 to 255" },
		{ "DDL_RDMA_PKEY", "0", "0x0001 to 0xffff" },
		{ "DDL_RDMA_PKEY", "0x8000", "but not 0x8000" },
		{ "DDL_RDMA_PKEY", "0x10000", "0x0001 to 0xffff" },
		{ "DDL_RDMA_PKEY", "0x", "0x0001 to 0xffff" },
		{ "DDL_RDMA_PKEY", "8001h", "0x0001 to 0xffff" },
		{ "DDL_RDMA_SL", "16", "from 0 to 15" },
		{ "DDL_RDMA_TC", "256", "from 0 to 255" },
		{ "DDL_RDMA_TC", "99999999999999999999999999", "from 0 to 255" },
		{ "DDL_RDMA_MTU", "1500", "choose from 256, 512, 1024, 2048, 4096" },
		{ "DDL_RDMA_MTU", "128", "from 256 to 4096" },
		{ "DDL_RDMA_MTU", "8192", "from 256 to 4096" },
		{ "DDL_RDMA_TIMEOUT", "0", "from 1 to 31" },
		{ "DDL_RDMA_TIMEOUT", "32", "from 1 to 31" },
		{ "DDL_RDMA_RETRY", "7", "from 0 to 6" },
		{ "DDL_RDMA_REGISTER", "none", "choose from auto, alloc, all" },
		{ "DDL_RDMA_REGISTER", "al", "choose from auto, alloc, all" },
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ddl__rdma_settings rdma = { .gid_index = 77 };
		struct ddl_error err;
		const int rc = read_one(wrong[i].name, wrong[i].text, &rdma, &err);
		if (rc != -EINVAL || strncmp(err.text, wrong[i].name, strlen(wrong[i].name)) != 0 ||
		    !strstr(err.text, wrong[i].remedy) || strchr(err.text, '\n') || rdma.gid_index != 77 || rdma.n_ports != 0)
			fail_msg("%s=%s: %d, \"%s\"", wrong[i].name, wrong[i].text, rc, err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_variables_the_defaults_are_in_force),
		cmocka_unit_test(ports_are_kept_in_the_order_they_are_named_in),
		cmocka_unit_test(numbers_are_read_at_both_ends_of_their_ranges),
		cmocka_unit_test(which_memory_is_registered_is_a_word),
		cmocka_unit_test(what_is_wrong_is_named_with_what_it_may_be_and_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
