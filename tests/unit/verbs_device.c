/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_device.c - which ports become rails, what the others lack, and how peers are addressed: on a fabric in one process and on
 * made-up sysfs trees. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_verbs.h"
#include "verbs_device.h"

static char root[] = "/tmp/ddl-verbs-XXXXXX";

/* A file of the tree, with the folders above it. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void put_netdev(const char *device, int port, int gid, const char *netdev)
{
	char path[256];

	snprintf(path, sizeof(path), "sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d", device, port, gid);
	put(path, netdev);
}

static void put_numa(const char *device, const char *node)
{
	char path[256];

	snprintf(path, sizeof(path), "sys/class/infiniband/%s/device/numa_node", device);
	put(path, node);
}

static int remove_entry(const char *path, const struct stat *state, int flag, struct FTW *walk)
{
	return remove(path);
}

static int begin(void **state)
{
	strcpy(root + sizeof(root) - 7, "XXXXXX");
	fake_verbs_begin();
	return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
	const char *left = fake_verbs_end();

	nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	if (*left)
		print_error("%s\n", left);
	return *left ? -1 : 0;
}

static void add_roce(const char *name, const char *netdev)
{
	fake_verbs_add(&(struct fake_device){ .name = name, .ports[0].ethernet = true });
	put_netdev(name, 1, 0, netdev);
	put_netdev(name, 1, 1, netdev);
}

static void add_ib(const char *name)
{
	fake_verbs_add(&(struct fake_device){ .name = name });
}

/* The rails in words, "mlx5_0:1 mlx5_1:1", or the sentence. */
static const char *rails_by(const struct ddl__verbs_choice *choice)
{
	static char text[DDL_ERROR_TEXT_SIZE + 16];
	struct ddl__verbs_ports ports = { 0 };
	struct ddl_error err = { 0 };
	size_t used = 0;
	int rc = ddl__verbs_ports_open(&fake_verbs_api, choice, &ports, &err);

	if (rc) {
		assert_int_equal(err.code, rc);
		snprintf(text, sizeof(text), "%d %s", rc, err.text);
		return text;
	}
	text[0] = '\0';
	for (size_t i = 0; i < ports.n; i++) {
		assert_int_equal(ports.ports[i].rail, i);
		assert_string_equal(ports.ports[i].why, "");
		assert_non_null(ports.ports[i].device->pd);
		assert_true(fcntl(ports.ports[i].device->context->async_fd, F_GETFL) & O_NONBLOCK);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s:%u", i ? " " : "", ports.ports[i].device->name,
					 ports.ports[i].number);
	}
	assert_int_equal(fake_verbs_counts().contexts, ports.n_devices);
	ddl__verbs_ports_close(&ports);
	assert_int_equal(fake_verbs_counts().contexts, 0);
	return text;
}

static struct ddl__verbs_choice any(void)
{
	return (struct ddl__verbs_choice){ .root = root };
}

static void all_active_ports_in_natural_order(void **state)
{
	const struct ddl__verbs_choice choice = any();

	add_ib("mlx5_10");
	fake_verbs_add(&(struct fake_device){ .name = "mlx5_2", .n_ports = 3, .ports[1].state = IBV_PORT_DOWN });
	add_ib("mlx5_9");
	assert_string_equal(rails_by(&choice), "mlx5_2:1 mlx5_2:3 mlx5_9:1 mlx5_10:1");
}

static void roce_follows_the_interfaces(void **state)
{
	static const char *const both[] = { "eth1", "eth0" }, *const one[] = { "eth0" }, *const none[] = { "lo" };
	struct ddl__verbs_choice choice = any();

	add_roce("mlx5_0", "eth0");
	add_roce("mlx5_1", "eth1");
	add_roce("mlx5_2", "eth2");
	assert_string_equal(rails_by(&choice), "mlx5_0:1 mlx5_1:1 mlx5_2:1");
	choice.interfaces = both;
	choice.n_interfaces = 2;
	assert_string_equal(rails_by(&choice), "mlx5_1:1 mlx5_0:1");
	choice.interfaces = one;
	choice.n_interfaces = 1;
	assert_string_equal(rails_by(&choice), "mlx5_0:1");
	choice.interfaces = none;
	assert_string_equal(
		rails_by(&choice),
		"-19 verbs: no RDMA port of this node can be used: mlx5_0 port 1: its network interface eth0 is none of "
		"those that traffic goes over; mlx5_1 port 1: its network interface eth1 is none of those that traffic "
		"goes over; mlx5_2 port 1: its network interface eth2 is none of those that traffic goes over");
	add_ib("ib0"); /* InfiniBand does not go by interfaces */
	assert_string_equal(rails_by(&choice), "ib0:1");
}

static void names_decide(void **state)
{
	static const char *const interfaces[] = { "lo" };
	static const struct {
		struct ddl__rdma_port ports[2];
		size_t n;
		const char *rails;
	} cases[] = {
		{ { { "mlx5_1", 1 }, { "mlx5_0", 1 } }, 2, "mlx5_1:1 mlx5_0:1" },
		{ { { "mlx5_3", 0 } }, 1, "mlx5_3:2" },
		{ { { "mlx5_3", 2 } }, 1, "mlx5_3:2" },
		{ { { "mlx5_3", 1 } },
		  1,
		  "-19 DDL_RDMA names mlx5_3 port 1, which cannot be used: it is down; name another or unset it" },
		{ { { "mlx5_3", 4 } },
		  1,
		  "-22 DDL_RDMA names port 4 of mlx5_3, which has ports 1 to 2; name one that it has, or none for all" },
		{ { { "mlx5_0", 2 } },
		  1,
		  "-22 DDL_RDMA names port 2 of mlx5_0, which has only port 1; name one that it has, or none for all" },
		{ { { "mlx5_7", 0 } },
		  1,
		  "-22 DDL_RDMA names mlx5_7, which this node does not have; it has mlx5_0, mlx5_1, mlx5_3, old0, uc0: name some "
		  "of "
		  "these, or unset it" },
		{ { { "mlx5_0", 1 }, { "mlx5_0", 0 } }, 2, "-22 DDL_RDMA names port 1 of mlx5_0 twice" },
		{ { { "old0", 0 } },
		  1,
		  "-19 DDL_RDMA names old0, which cannot be used: it speaks iWARP, which has no write with immediate; name another "
		  "or "
		  "unset it" },
		{ { { "uc0", 1 } },
		  1,
		  "-19 DDL_RDMA names uc0, which cannot be used: it makes no queue pairs for reliable connections (RC): Operation "
		  "not "
		  "supported; name another or unset it" },
	};
	struct ddl__rdma_settings settings = DDL__RDMA_SETTINGS_INIT;
	struct ddl__verbs_choice choice = any();

	choice.settings = &settings;
	choice.interfaces = interfaces; /* what is named need not be of these */
	choice.n_interfaces = 1;
	add_roce("mlx5_0", "eth0");
	add_roce("mlx5_1", "eth1");
	fake_verbs_add(&(struct fake_device){ .name = "mlx5_3", .n_ports = 2, .ports[0].state = IBV_PORT_DOWN });
	fake_verbs_add(&(struct fake_device){ .name = "old0", .transport = IBV_TRANSPORT_IWARP });
	fake_verbs_add(&(struct fake_device){ .name = "uc0", .no_rc = true });
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(settings.ports, cases[i].ports, sizeof(cases[i].ports));
		settings.n_ports = cases[i].n;
		assert_string_equal(rails_by(&choice), cases[i].rails);
	}
}

static void without_devices_it_is_said(void **state)
{
	struct ddl__rdma_settings settings = DDL__RDMA_SETTINGS_INIT;
	struct ddl__verbs_choice choice = any();

	assert_string_equal(rails_by(&choice), "-19 verbs: this node has no RDMA device");
	settings.n_ports = 1;
	settings.ports[0] = (struct ddl__rdma_port){ "a\nb", 1 };
	choice.settings = &settings;
	assert_string_equal(rails_by(&choice), "-19 DDL_RDMA names a?b, and this node has no RDMA device; unset it");
}

static void a_device_that_does_not_open_is_passed_by(void **state)
{
	const struct ddl__verbs_choice choice = any();

	fake_verbs_add(&(struct fake_device){ .name = "mlx5_0", .open_error = EACCES });
	assert_string_equal(rails_by(&choice),
			    "-19 verbs: no RDMA port of this node can be used: mlx5_0: it cannot be opened: Permission denied");
	add_ib("mlx5_1");
	assert_string_equal(rails_by(&choice), "mlx5_1:1");
}

static void slow_ports_would_slow_the_others_down(void **state)
{
	const struct ddl__verbs_choice choice = any();
	const struct fake_port slow = { .ethernet = true, .speed = 32, .width = 1 }; /* 25 Gbit/s */

	fake_verbs_add(&(struct fake_device){ .name = "a0", .ports[0] = slow });
	fake_verbs_add(&(struct fake_device){ .name = "b0" }); /* 100 */
	assert_string_equal(rails_by(&choice), "b0:1");
	for (int i = 1; i < 6; i++) /* many of them carry more than the fast one alone */
		fake_verbs_add(
			&(struct fake_device){ .name = (const char *[]){ "", "a1", "a2", "a3", "a4", "a5" }[i], .ports[0] = slow });
	assert_string_equal(rails_by(&choice), "b0:1 a0:1 a1:1 a2:1 a3:1 a4:1 a5:1");
}

static void no_more_than_rails_there_may_be(void **state)
{
	static const char *const names[] = { "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9" };
	const struct ddl__verbs_choice choice = any();

	fake_verbs_add_simple(names, 10);
	assert_string_equal(rails_by(&choice), "d0:1 d1:1 d2:1 d3:1 d4:1 d5:1 d6:1 d7:1");
}

static void near_ports_go_before_far_ones(void **state)
{
	struct ddl__verbs_choice choice = any();
	struct ddl__cpus cpus;

	put("sys/devices/system/node/node0/cpulist", "0-3\n");
	put("sys/devices/system/node/node1/cpulist", "4-7\n");
	add_ib("mlx5_0");
	add_ib("mlx5_1");
	put_numa("mlx5_0", "0\n");
	put_numa("mlx5_1", "1\n");
	choice.cpus = &cpus;
	ddl__cpus_parse(&cpus, "5");
	assert_string_equal(rails_by(&choice), "mlx5_1:1");
	ddl__cpus_parse(&cpus, "0");
	assert_string_equal(rails_by(&choice), "mlx5_0:1");
	ddl__cpus_parse(&cpus, "3-4");
	assert_string_equal(rails_by(&choice), "mlx5_0:1 mlx5_1:1");
	ddl__cpus_parse(&cpus, "9"); /* none is near */
	assert_string_equal(rails_by(&choice), "mlx5_0:1 mlx5_1:1");
	add_ib("soft0"); /* nobody knows where it is */
	ddl__cpus_parse(&cpus, "0");
	assert_string_equal(rails_by(&choice), "mlx5_0:1 soft0:1");
}

static struct ddl__verbs_ports survey(const struct ddl__verbs_choice *choice, struct ddl_error *refused)
{
	struct ddl__verbs_ports ports = { 0 };
	struct ddl_error err = { 0 };

	assert_int_equal(ddl__verbs_ports_survey(&fake_verbs_api, choice, &ports, refused, &err), 0);
	return ports;
}

static void a_survey_tells_of_all(void **state)
{
	static const char *const interfaces[] = { "eth0" };
	struct ddl__rdma_settings settings = DDL__RDMA_SETTINGS_INIT;
	struct ddl__verbs_choice choice = any();
	struct ddl__verbs_ports ports;
	struct ddl_error refused;

	choice.interfaces = interfaces;
	choice.n_interfaces = 1;
	choice.settings = &settings;
	ports = survey(&choice, &refused);
	assert_int_equal(ports.n, 0);
	assert_int_equal(refused.code, -ENODEV);
	ddl__verbs_ports_close(&ports);

	add_roce("mlx5_1", "eth0");
	add_roce("mlx5_0", "eth9");
	fake_verbs_add(&(struct fake_device){ .name = "mlx5_2", .ports[0].state = IBV_PORT_INIT });
	fake_verbs_add(&(struct fake_device){ .name = "bad0", .open_error = ENODEV });
	ports = survey(&choice, &refused);
	assert_int_equal(refused.code, 0);
	assert_int_equal(ports.n, 4);
	assert_string_equal(ports.ports[0].device->name, "bad0");
	assert_int_equal(ports.ports[0].number, 0);
	assert_string_equal(ports.ports[0].why, "it cannot be opened: No such device");
	assert_string_equal(ports.ports[1].why, "its network interface eth9 is none of those that traffic goes over");
	assert_int_equal(ports.ports[2].rail, 0);
	assert_string_equal(ports.ports[2].netdev, "eth0");
	assert_int_equal(ports.ports[2].speed_Mbps, 100000);
	assert_int_equal(ddl__verbs_mtu_bytes(ports.ports[2].mtu), 4096);
	assert_string_equal(ports.ports[3].why, "it waits to be set up by a subnet manager");
	assert_int_equal(ports.ports[3].state, IBV_PORT_INIT);
	ddl__verbs_ports_close(&ports);

	settings.n_ports = 1;
	settings.ports[0] = (struct ddl__rdma_port){ "mlx5_0", 1 };
	ports = survey(&choice, &refused);
	assert_int_equal(ports.ports[1].rail, 0);
	assert_string_equal(ports.ports[2].why, "DDL_RDMA does not name it");
	ddl__verbs_ports_close(&ports);
	settings.ports[0].port = 2;
	ports = survey(&choice, &refused);
	assert_int_equal(refused.code, -EINVAL);
	assert_string_equal(ports.ports[2].why, "what DDL_RDMA names cannot be used");
	ddl__verbs_ports_close(&ports);
}

static void gids_that_get_furthest_are_taken(void **state)
{
	static const struct {
		struct fake_gid gids[4];
		int wanted; /* DDL_RDMA_GID_INDEX */
		int index;  /* that is taken; -1: none is */
		enum ddl__verbs_kind kind;
		const char *why;
	} cases[] = {
		{ { { "fe80::1", IBV_GID_TYPE_ROCE_V1, 0 },
		    { "fe80::1", IBV_GID_TYPE_ROCE_V2, 0 },
		    { "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1, 0 },
		    { "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, 0 } },
		  -1,
		  3,
		  DDL__VERBS_ROCE_IPV4,
		  NULL },
		{ { { "fe80::1", IBV_GID_TYPE_ROCE_V1, 0 },
		    { "fe80::1", IBV_GID_TYPE_ROCE_V2, 0 },
		    { "fd00::1", IBV_GID_TYPE_ROCE_V2, 0 },
		    { "fd00::2", IBV_GID_TYPE_ROCE_V2, 0 } },
		  -1,
		  2,
		  DDL__VERBS_ROCE_IPV6,
		  NULL },
		{ { { "fe80::1", IBV_GID_TYPE_ROCE_V1, 0 }, { "fe80::1", IBV_GID_TYPE_ROCE_V2, 0 } },
		  -1,
		  1,
		  DDL__VERBS_ROCE_LINK,
		  NULL },
		{ { { NULL, 0, 0 }, { "fe80::1", IBV_GID_TYPE_ROCE_V1, 0 } }, -1, 1, DDL__VERBS_ROCE_V1, NULL },
		{ { { "fe80::1", IBV_GID_TYPE_ROCE_V1, 0 }, { "fe80::1", IBV_GID_TYPE_ROCE_V2, 0 } },
		  0,
		  0,
		  DDL__VERBS_ROCE_V1,
		  NULL },
		{ { { "fe80::1", IBV_GID_TYPE_ROCE_V1, 0 } }, 3, -1, 0, "its GID 3, which DDL_RDMA_GID_INDEX names, is empty" },
		{ { { "fe80::1", IBV_GID_TYPE_ROCE_V1, 0 } }, 99, -1, 0, "it has GIDs 0 to 7, and DDL_RDMA_GID_INDEX is 99" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake_device device = { .name = "mlx5_0", .ports[0].ethernet = true };
		struct ddl__rdma_settings settings = DDL__RDMA_SETTINGS_INIT;
		struct ddl__verbs_choice choice = any();
		struct ddl__verbs_ports ports;

		memcpy(device.ports[0].gids, cases[i].gids, sizeof(cases[i].gids));
		fake_verbs_add(&device);
		settings.gid_index = cases[i].wanted;
		choice.settings = &settings;
		ports = survey(&choice, NULL);
		if (cases[i].index >= 0) {
			assert_int_equal(ports.ports[0].gid_index, cases[i].index);
			assert_int_equal(ports.ports[0].kind, cases[i].kind);
			assert_int_equal(ports.ports[0].rail, 0);
		} else {
			assert_string_equal(ports.ports[0].why, cases[i].why);
		}
		ddl__verbs_ports_close(&ports);
		assert_string_equal(fake_verbs_end(), "");
		fake_verbs_begin();
	}
}

static void a_gid_is_of_the_interface_that_traffic_goes_over(void **state)
{
	static const char *const interfaces[] = { "eth0.100" };
	struct ddl__verbs_choice choice = any();
	struct ddl__verbs_ports ports;

	fake_verbs_add(&(struct fake_device){ .name = "mlx5_0",
					      .ports[0] = { .ethernet = true,
							    .gids = { { "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, 0 },
								      { "fd00::1", IBV_GID_TYPE_ROCE_V2, 0 } } } });
	put_netdev("mlx5_0", 1, 0, "eth0\n");
	put_netdev("mlx5_0", 1, 1, "eth0.100\n");
	choice.interfaces = interfaces;
	choice.n_interfaces = 1;
	ports = survey(&choice, NULL);
	assert_int_equal(ports.ports[0].gid_index, 1);
	assert_string_equal(ports.ports[0].netdev, "eth0.100");
	ddl__verbs_ports_close(&ports);
}

static void an_older_library_leaves_the_types_to_sysfs(void **state)
{
	struct ddl__verbs_api older = fake_verbs_api;
	struct ddl__verbs_choice choice = any();
	struct ddl__verbs_ports ports = { 0 };
	struct ddl_error err;

	older.query_gid_ex = NULL;
	older.is_fork_initialized = NULL;
	add_roce("mlx5_0", "eth0");
	put("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
	put("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1", "RoCE v2\n");
	assert_int_equal(ddl__verbs_ports_open(&older, &choice, &ports, &err), 0);
	assert_int_equal(ports.ports[0].gid_index, 1);
	assert_int_equal(ports.ports[0].kind, DDL__VERBS_ROCE_IPV4);
	ddl__verbs_ports_close(&ports);
}

static void partitions_are_looked_up(void **state)
{
	static const struct {
		uint16_t table[FAKE_PKEYS];
		int wanted;
		int index; /* -1: none */
		uint16_t pkey;
	} cases[] = {
		{ { 0xffff, 0x8001 }, -1, 0, 0xffff },     { { 0, 0x8001 }, -1, 1, 0x8001 },
		{ { 0xffff, 0x8001 }, 0x0001, 1, 0x8001 }, { { 0x7fff, 0x8001 }, 0xffff, 0, 0x7fff },
		{ { 0x0001, 0x8001 }, 0x0001, 1, 0x8001 }, { { 0xffff }, 0x8002, -1, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake_device device = { .name = "mlx5_0" };
		struct ddl__rdma_settings settings = DDL__RDMA_SETTINGS_INIT;
		struct ddl__verbs_choice choice = any();
		struct ddl__verbs_ports ports;

		memcpy(device.ports[0].pkeys, cases[i].table, sizeof(cases[i].table));
		fake_verbs_add(&device);
		settings.pkey = cases[i].wanted;
		choice.settings = &settings;
		ports = survey(&choice, NULL);
		if (cases[i].index >= 0) {
			assert_string_equal(ports.ports[0].why, "");
			assert_int_equal(ports.ports[0].pkey_index, cases[i].index);
			assert_int_equal(ports.ports[0].pkey, cases[i].pkey);
		} else {
			assert_string_equal(ports.ports[0].why, "it is not in partition 0x8002, which DDL_RDMA_PKEY names");
		}
		ddl__verbs_ports_close(&ports);
		assert_string_equal(fake_verbs_end(), "");
		fake_verbs_begin();
	}
}

static void newer_speeds_are_told_by_sysfs(void **state)
{
	const struct ddl__verbs_choice choice = any();
	struct ddl__verbs_ports ports;

	fake_verbs_add(&(struct fake_device){ .name = "mlx5_0", .ports[0] = { .speed = 0x77, .width = 2 } });
	put("sys/class/infiniband/mlx5_0/ports/1/rate", "800 Gb/sec (4X XDR)\n");
	ports = survey(&choice, NULL);
	assert_int_equal(ports.ports[0].speed_Mbps, 800000);
	ddl__verbs_ports_close(&ports);
}

static struct ddl__verbs_address address_of(const char *gid, enum ddl__verbs_kind kind, uint16_t lid, uint16_t pkey)
{
	struct ddl__verbs_address address = { .kind = (uint8_t)kind, .lid = lid, .pkey = pkey, .mtu = IBV_MTU_1024, .port = 1 };

	assert_int_equal(inet_pton(AF_INET6, gid, address.gid), 1);
	return address;
}

static void ports_join_that_can_reach_each_other(void **state)
{
	const struct ddl__verbs_address ib = address_of("fe80::1", DDL__VERBS_IB, 5, 0xffff);
	const struct ddl__verbs_address roce = address_of("::ffff:10.0.0.1", DDL__VERBS_ROCE_IPV4, 0, 0xffff);
	struct ddl__verbs_address broken = roce;
	const struct {
		struct ddl__verbs_address a, b;
		bool join;
	} cases[] = {
		{ ib, ib, true },
		{ ib, address_of("fe80::2", DDL__VERBS_IB, 6, 0xffff), true },
		{ ib, address_of("fec0::2", DDL__VERBS_IB, 6, 0xffff), false },
		{ ib, address_of("fe80::2", DDL__VERBS_IB, 0, 0xffff), false },
		{ ib, roce, false },
		{ roce, address_of("::ffff:10.9.0.1", DDL__VERBS_ROCE_IPV4, 0, 0xffff), true },
		{ roce, address_of("fd00::1", DDL__VERBS_ROCE_IPV6, 0, 0xffff), false },
		{ roce, address_of("::ffff:10.0.0.1", DDL__VERBS_ROCE_V1, 0, 0xffff), false },
		{ ib, address_of("fe80::2", DDL__VERBS_IB, 6, 0x7fff), true },
		{ address_of("fe80::1", DDL__VERBS_IB, 6, 0x7fff), address_of("fe80::2", DDL__VERBS_IB, 6, 0x7fff), false },
		{ ib, address_of("fe80::2", DDL__VERBS_IB, 6, 0x8001), false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(ddl__verbs_joins(&cases[i].a, &cases[i].b), cases[i].join);
		assert_int_equal(ddl__verbs_joins(&cases[i].b, &cases[i].a), cases[i].join);
	}
	broken.kind = 77;
	assert_false(ddl__verbs_joins(&broken, &broken));
	broken = roce;
	broken.mtu = 0;
	assert_false(ddl__verbs_joins(&broken, &roce));
}

static void ports_that_do_not_join_are_told_why(void **state)
{
	const struct ddl__verbs_address ib = address_of("fe80::1", DDL__VERBS_IB, 5, 0xffff);
	const struct ddl__verbs_address roce = address_of("::ffff:10.0.0.1", DDL__VERBS_ROCE_IPV4, 0, 0xffff);
	const struct {
		struct ddl__verbs_address ours, theirs;
		const char *why;
	} cases[] = {
		{ roce, address_of("fd00::1", DDL__VERBS_ROCE_IPV6, 0, 0xffff),
		  "kind RoCE v2, IPv6 and this one's RoCE v2, IPv4: set DDL_RDMA_GID_INDEX" },
		{ ib, address_of("fe80::2", DDL__VERBS_IB, 6, 0x8001), "0x8001 and this one's 0xffff: set DDL_RDMA_PKEY" },
		{ ib, address_of("fec0::2", DDL__VERBS_IB, 6, 0xffff), "another subnet of InfiniBand" },
		{ ib, address_of("fe80::2", DDL__VERBS_IB, 0, 0xffff), "malformed: all ranks need the same version" },
	};
	char why[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ddl__verbs_why_apart(&cases[i].ours, &cases[i].theirs, why, sizeof(why));
		assert_non_null(strstr(why, cases[i].why));
	}
}

/* A port's description leads another port's path to it, over which a queue pair is connected. */
static void paths_are_what_queue_pairs_take(void **state)
{
	static const struct ddl__rdma_settings settings = {
		.gid_index = -1, .pkey = -1, .service_level = 3, .traffic_class = 106, .mtu = 1024
	};
	struct ibv_qp_init_attr make = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ddl__verbs_choice choice = any();

	choice.settings = &settings;
	for (int kind = 0; kind < 3; kind++) {
		struct ibv_qp_attr attr = { .dest_qp_num = 0x11,
					    .max_dest_rd_atomic = 1,
					    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
		struct ddl__verbs_address address;
		struct ddl__verbs_ports ports = { 0 };
		struct ddl_error err;
		struct ibv_cq *cq;
		struct ibv_qp *qp;

		fake_verbs_add(
			&(struct fake_device){ .name = "a0", .ports[0] = { .ethernet = kind == 0, .grh_required = kind == 2 } });
		fake_verbs_add(&(struct fake_device){ .name = "b0",
						      .ports[0] = { .ethernet = kind == 0, .mtu = IBV_MTU_512, .lid = 99 } });
		assert_int_equal(ddl__verbs_ports_open(&fake_verbs_api, &choice, &ports, &err), 0);
		assert_int_equal(ports.n, 2);
		assert_int_equal(ports.ports[0].mtu, IBV_MTU_1024);
		memset(&address, 0xee, sizeof(address));
		ddl__verbs_port_describe(&ports.ports[1], &address);
		assert_int_equal(address.stream.family, 0xeeee); /* not its business */
		assert_int_equal(address.reserved, 0);
		ddl__verbs_path(&ports.ports[0], &address, &settings, &attr);
		assert_int_equal(attr.path_mtu, IBV_MTU_512);
		assert_int_equal(attr.dest_qp_num, 0x11);
		assert_int_equal(attr.ah_attr.sl, 3);
		assert_int_equal(attr.ah_attr.is_global, kind != 1);
		assert_int_equal(attr.ah_attr.dlid, kind == 0 ? 0 : 99);
		assert_int_equal(attr.ah_attr.grh.traffic_class, kind == 1 ? 0 : 106);

		cq = fake_verbs_api.create_cq(ports.ports[0].device->context, 4, NULL, NULL, 0);
		make.send_cq = make.recv_cq = cq;
		qp = fake_verbs_api.create_qp(ports.ports[0].device->pd, &make);
		assert_non_null(qp);
		attr.qp_state = IBV_QPS_INIT;
		assert_int_equal(
			fake_verbs_api.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			0);
		attr.qp_state = IBV_QPS_RTR;
		assert_int_equal(fake_verbs_api.modify_qp(qp, &attr,
							  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
								  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
				 0);
		assert_int_equal(fake_verbs_api.destroy_qp(qp), 0);
		assert_int_equal(fake_verbs_api.destroy_cq(cq), 0);
		ddl__verbs_ports_close(&ports);
		assert_string_equal(fake_verbs_end(), "");
		fake_verbs_begin();
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(all_active_ports_in_natural_order),
		TEST(roce_follows_the_interfaces),
		TEST(names_decide),
		TEST(without_devices_it_is_said),
		TEST(a_device_that_does_not_open_is_passed_by),
		TEST(slow_ports_would_slow_the_others_down),
		TEST(no_more_than_rails_there_may_be),
		TEST(near_ports_go_before_far_ones),
		TEST(a_survey_tells_of_all),
		TEST(gids_that_get_furthest_are_taken),
		TEST(a_gid_is_of_the_interface_that_traffic_goes_over),
		TEST(an_older_library_leaves_the_types_to_sysfs),
		TEST(partitions_are_looked_up),
		TEST(newer_speeds_are_told_by_sysfs),
		TEST(ports_join_that_can_reach_each_other),
		TEST(ports_that_do_not_join_are_told_why),
		TEST(paths_are_what_queue_pairs_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
