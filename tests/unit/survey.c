/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.c - what `ddl info` and `ddl check` tell of RDMA devices: those of a fabric in this process, with a sysfs that was made up
 * for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "fake_verbs.h"
#include "info.h"

#define IPV4 "::ffff:10.1.0.1"

static char root[64];

static void put(const char *path, const char *text)
{
	char full[256];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", text);
	assert_int_equal(fclose(file), 0);
}

static void put_device(const char *name, int port, const char *key, const char *text)
{
	char path[192];

	snprintf(path, sizeof(path), "sys/class/infiniband/%s/ports/%d/%s", name, port, key);
	put(path, text);
}

/* sysfs of a RoCE card behind eth0. */
static void put_card(const char *name)
{
	put_device(name, 1, "state", "4: ACTIVE");
	put_device(name, 1, "rate", "100 Gb/sec (4X EDR)");
	put_device(name, 1, "link_layer", "Ethernet");
	put_device(name, 1, "gids/0", "0000:0000:0000:0000:0000:ffff:0a01:0001");
	put_device(name, 1, "gid_attrs/types/0", "RoCE v2");
	put_device(name, 1, "gid_attrs/ndevs/0", "eth0");
}

static int setup(void **state)
{
	strcpy(root, "/tmp/ddl-survey-XXXXXX");
	assert_non_null(mkdtemp(root));
	fake_verbs_begin();
	return 0;
}

static int teardown(void **state)
{
	char command[96];
	const char *left = fake_verbs_end();

	unsetenv("DDL_RDMA");
	unsetenv("DDL_RDMA_GID_INDEX");
	unsetenv("DDL_NET");
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	if (system(command) != 0 || *left)
		print_error("left: %s\n", left);
	return *left ? -1 : 0;
}

static void add_card(const char *name, int open_error)
{
	const struct fake_device device = { .name = name,
					    .open_error = open_error,
					    .ports = { { .ethernet = true, .gids = { { IPV4, IBV_GID_TYPE_ROCE_V2, 0 } } } } };

	fake_verbs_add(&device);
}

/* What `ddl info` prints of it; the caller frees. */
static char *info(json_t **rdma)
{
	struct ddl__facts *facts = calloc(1, sizeof(*facts));
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(facts);
	assert_non_null(out);
	assert_int_equal(ddl__facts_gather(root, "", facts, NULL), 0);
	*rdma = ddl__info_rdma(root, facts, &fake_verbs_api);
	assert_non_null(*rdma);
	ddl__info_print_rdma(out, *rdma);
	assert_int_equal(fclose(out), 0);
	free(facts);
	return text;
}

static void info_says(const char *want)
{
	json_t *rdma;
	char *text = info(&rdma);

	assert_string_equal(text, want);
	json_decref(rdma);
	free(text);
}

/* The line of `ddl check` by that name begins with the verdict and has the text; verdict NULL: there is none. */
static void check_says(const char *name, const char *verdict, const char *text)
{
	struct ddl__facts *facts = calloc(1, sizeof(*facts));
	json_t *lines = json_array(), *line;
	bool found = false;
	size_t i;

	assert_non_null(facts);
	assert_int_equal(ddl__facts_gather(root, "", facts, NULL), 0);
	assert_int_equal(ddl__check_rdma(root, facts, &fake_verbs_api, lines), 0);
	json_array_foreach(lines, i, line)
	{
		const char *said = json_string_value(json_object_get(line, "text"));

		if (strcmp(json_string_value(json_object_get(line, "check")), name) != 0)
			continue;
		found = true;
		if (!verdict || strcmp(json_string_value(json_object_get(line, "verdict")), verdict) != 0 || !strstr(said, text))
			fail_msg("%s: %s: %s", name, json_string_value(json_object_get(line, "verdict")), said);
		assert_true(strcmp(verdict, "pass") == 0 || json_object_get(line, "remedy"));
	}
	assert_int_equal(found, verdict != NULL);
	json_decref(lines);
	free(facts);
}

static void a_node_without_devices_has_none(void **state)
{
	info_says("  RDMA           none\n");
	check_says("rdma", "pass", "no RDMA device");
	check_says("rails", NULL, NULL);
}

static void a_port_is_told_with_all_that_it_is_known_by(void **state)
{
	json_t *rdma, *port;
	const char *device, *when, *layer, *gid, *kind, *interface;
	int number, speed, mtu, index, numa, rail;
	char *text;

	add_card("rxe0", 0);
	put_card("rxe0");
	text = info(&rdma);
	assert_string_equal(text, "  RDMA rxe0:1    ACTIVE, Ethernet, 100000 Mbit/s, MTU 4096, GID 0: 10.1.0.1 (RoCE v2, IPv4), "
				  "interface eth0, rail 0\n");
	port = json_array_get(json_object_get(rdma, "ports"), 0);
	assert_int_equal(json_unpack(port, "{ss si ss ss si si si ss ss si ss si !}", "device", &device, "port", &number, "state",
				     &when, "link_layer", &layer, "speed_Mbps", &speed, "mtu", &mtu, "numa", &numa, "gid", &gid,
				     "gid_kind", &kind, "gid_index", &index, "interface", &interface, "rail", &rail),
			 0);
	assert_int_equal(json_object_size(rdma), 1);
	json_decref(rdma);
	free(text);
	check_says("rails", "pass", "RDMA goes over rxe0 port 1 (RoCE v2, IPv4, GID index 0)");
	check_says("provider", NULL, NULL);
}

static void ports_that_are_no_rails_tell_why(void **state)
{
	const struct fake_device two = { .name = "mlx5_1",
					 .n_ports = 2,
					 .ports = { { .state = IBV_PORT_DOWN }, { .state = IBV_PORT_INIT } } };
	json_t *rdma;
	char *text;

	add_card("mlx5_0", EACCES);
	fake_verbs_add(&two);
	put_card("mlx5_0");
	put_device("mlx5_1", 1, "state", "1: DOWN");
	put_device("mlx5_1", 2, "state", "2: INIT");
	text = info(&rdma);
	assert_non_null(strstr(text, "  RDMA mlx5_0    not used: it cannot be opened: "));
	assert_non_null(strstr(text, "  RDMA mlx5_1:1  DOWN, InfiniBand, "));
	assert_non_null(strstr(text, "not used: it is down\n"));
	assert_non_null(strstr(text, "not used: it waits to be set up by a subnet manager\n"));
	assert_non_null(strstr(text, "  RDMA           not used: verbs: no RDMA port of this node can be used: "));
	json_decref(rdma);
	free(text);
	check_says("rails", "warn", "no RDMA port of this node can be used: mlx5_0: it cannot be opened");
}

static void a_device_without_a_provider_is_named(void **state)
{
	add_card("rxe0", 0);
	put_card("rxe0");
	put_card("rxe1");
	check_says("provider", "warn", "libibverbs does not know rxe1, which the kernel has");
	check_says("rails", "pass", "rxe0 port 1");
}

static void what_variables_ask_for_and_is_not_there_fails(void **state)
{
	add_card("rxe0", 0);
	put_card("rxe0");
	setenv("DDL_RDMA", "rxe0:1", 1);
	check_says("rails", "pass", "rxe0 port 1");
	setenv("DDL_RDMA_GID_INDEX", "7", 1);
	check_says("gid", "fail", "no such GID on rxe0 port 1");
	check_says("rails", "fail", "DDL_RDMA_GID_INDEX");
	setenv("DDL_RDMA", "rxe0:", 1);
	check_says("rails", "fail", "\"rxe0:\" is no DEVICE");
	info_says("  RDMA           none: DDL_RDMA: \"rxe0:\" is no DEVICE or DEVICE:PORT, such as mlx5_0 or mlx5_0:1 (ports count "
		  "from 1; ddl info lists what is there)\n");
}

static void the_interfaces_of_traffic_say_which_cards_are_rails(void **state)
{
	add_card("rxe0", 0);
	put_card("rxe0");
	for (int i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "sys/class/net/eth%d/flags", i);
		put(path, "0x1003");
		snprintf(path, sizeof(path), "sys/class/net/eth%d/operstate", i);
		put(path, "up");
	}
	put("addresses", "eth0 10.1.0.1/16\neth1 10.2.0.1/16");
	setenv("DDL_NET", "eth1", 1);
	check_says("rails", "warn", "its network interface eth0 is none of those that traffic goes over");
	setenv("DDL_NET", "eth0", 1);
	check_says("rails", "pass", "rxe0 port 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_node_without_devices_has_none, setup, teardown),
		cmocka_unit_test_setup_teardown(a_port_is_told_with_all_that_it_is_known_by, setup, teardown),
		cmocka_unit_test_setup_teardown(ports_that_are_no_rails_tell_why, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_without_a_provider_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(what_variables_ask_for_and_is_not_there_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(the_interfaces_of_traffic_say_which_cards_are_rails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
