/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.c - captured machines in, expected text out (tests/topo/NAME and NAME.txt); the choice of interfaces; the text form.
 *
 * With DDL_WRITE_EXPECTED=FOLDER in the environment the dumps are written there instead of compared, for a new machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "facts.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char *dump(const struct ddl__facts *facts)
{
	size_t indices[DDL__INTERFACES_MAX], n, size;
	char *text, *line;
	FILE *out = open_memstream(&text, &size);
	struct ddl_error err;

	assert_non_null(out);
	fprintf(out, "node %s\nmachine %s\nnuma_nodes %u cores %u cpus %u\n", facts->node, facts->machine, facts->numa_nodes,
		facts->cores, facts->cpus);
	for (size_t i = 0; i < facts->n_interfaces; i++) {
		const struct ddl__interface *interface = &facts->interfaces[i];

		fprintf(out, "interface %s address %s speed %u mtu %u numa %d%s%s%s\n", interface->name,
			*interface->address ? interface->address : "none", interface->speed_Mbps, interface->mtu, interface->numa,
			interface->up ? " up" : "", interface->loopback ? " loopback" : "", interface->virtual ? " virtual" : "");
	}
	for (size_t i = 0; i < facts->n_gpus; i++)
		fprintf(out, "gpu %s numa %d %s\n", facts->gpus[i].pci, facts->gpus[i].numa, facts->gpus[i].model);
	assert_int_equal(ddl__facts_choose_interfaces(facts, NULL, indices, &n, NULL), 0);
	fprintf(out, "chosen");
	for (size_t i = 0; i < n; i++)
		fprintf(out, " %s", facts->interfaces[indices[i]].name);
	assert_int_equal(ddl__facts_encode(facts, &line, &err), 0);
	fprintf(out, "\ntold %s\n", line);
	free(line);
	assert_int_equal(fclose(out), 0);
	return text;
}

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 65536);

	assert_non_null(file);
	assert_non_null(text);
	assert_true(fread(text, 1, 65535, file) > 0);
	fclose(file);
	return text;
}

static void gather_captured(const char *name, struct ddl__facts *facts)
{
	char path[512];
	struct ddl_error err;

	snprintf(path, sizeof(path), SOURCE_DIR "/tests/topo/%s", name);
	assert_int_equal(ddl__facts_gather(path, "", facts, &err), 0);
}

static void captured_machine_is_described(void **state)
{
	const char *name = *state, *folder = getenv("DDL_WRITE_EXPECTED");
	struct ddl__facts facts;
	char path[512], *expected, *found;
	FILE *file;

	gather_captured(name, &facts);
	found = dump(&facts);
	if (folder) {
		snprintf(path, sizeof(path), "%s/%s.txt", folder, name);
		file = fopen(path, "w");
		assert_non_null(file);
		fputs(found, file);
		assert_int_equal(fclose(file), 0);
	} else {
		snprintf(path, sizeof(path), SOURCE_DIR "/tests/topo/%s.txt", name);
		expected = read_file(path);
		assert_string_equal(found, expected);
		free(expected);
	}
	free(found);
}

static void this_machine_is_described(void **state)
{
	struct ddl__facts facts;
	struct ddl_error err;

	(void)state;
	setenv("SLURMD_NODENAME", "n7", 1);
	setenv("SLURM_TOPOLOGY_ADDR", "spine.leaf2.n7", 1);
	setenv("SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node", 1);
	assert_int_equal(ddl__facts_gather("", "launchers-name", &facts, &err), 0);
	unsetenv("SLURMD_NODENAME");
	unsetenv("SLURM_TOPOLOGY_ADDR");
	unsetenv("SLURM_TOPOLOGY_ADDR_PATTERN");
	assert_string_equal(facts.node, "n7");
	assert_string_equal(facts.address, "spine.leaf2.n7");
	assert_string_equal(facts.pattern, "switch.switch.node");
	assert_true(facts.cpus >= 1 && facts.cores >= 1 && facts.cores <= facts.cpus && facts.numa_nodes >= 1);
	assert_non_null(strchr(facts.machine, '/'));
	assert_int_equal(ddl__facts_gather("", "launchers-name", &facts, &err), 0);
	assert_string_equal(facts.node, "launchers-name");
}

static void *be_bound(void *cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(atomic_load((atomic_int *)cpu), &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	atomic_store((atomic_int *)cpu, -1);
	pause();
	return NULL;
}

/* As with OpenMP, which binds every thread to a core of its own, the one that calls too. */
static void what_any_thread_may_use_the_process_may_use(void **state)
{
	struct ddl__facts *facts = calloc(1, sizeof(*facts));
	struct ddl_error err;
	cpu_set_t before, set;
	int cpus[2] = { -1, -1 }, n = 0;
	pthread_t thread;

	(void)state;
	assert_non_null(facts);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &before))
			cpus[n++] = cpu;
	if (n < 2) {
		free(facts);
		skip();
	}
	atomic_int other = cpus[1];
	assert_int_equal(pthread_create(&thread, NULL, be_bound, &other), 0);
	CPU_ZERO(&set);
	CPU_SET(cpus[0], &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
	while (atomic_load(&other) >= 0)
		sched_yield();
	assert_int_equal(ddl__facts_gather("", "", facts, &err), 0);
	assert_int_equal(facts->cpus, 2);
	assert_true(ddl__cpus_has(&facts->may, (size_t)cpus[0]) && ddl__cpus_has(&facts->may, (size_t)cpus[1]));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	free(facts);
}

static void a_missing_folder_is_a_machine_of_which_nothing_is_known(void **state)
{
	struct ddl__facts facts;
	struct ddl_error err;

	(void)state;
	assert_int_equal(ddl__facts_gather("/nonexistent", "x", &facts, &err), 0);
	assert_string_equal(facts.node, "x");
	assert_int_equal(facts.cpus, 1);
	assert_int_equal(facts.n_interfaces, 0);
	assert_int_equal(facts.n_gpus, 0);
}

static void the_choice_by_name(void **state)
{
	static const struct {
		const char *wanted;
		const char *chosen; /* NULL: -ENOENT */
	} cases[] = {
		{ "eno1", "eno1" },
		{ "eno1,ens6f0np0", "eno1 ens6f0np0" },
		{ "ens6f0np0,eno1,ens6f0np0,", "ens6f0np0 eno1" },
		{ "lo", "lo" },
		{ "", "ens6f0np0 ens22f0np0" },
		{ "ens6", NULL },
		{ "ens6f0np0x", NULL },
		{ "eno1,nosuch", NULL },
		{ "ibs9", NULL },
		{ ",", NULL },
	};
	struct ddl__facts facts;

	(void)state;
	gather_captured("gpu4", &facts);
	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t indices[DDL__INTERFACES_MAX], n = 99;
		char found[256] = "";
		struct ddl_error err = { 0 };
		int rc = ddl__facts_choose_interfaces(&facts, cases[i].wanted, indices, &n, &err);

		if (!cases[i].chosen) {
			assert_int_equal(rc, -ENOENT);
			assert_int_equal(err.code, -ENOENT);
			assert_int_equal(n, 99);
			assert_non_null(strstr(err.text, "gpu17"));
			continue;
		}
		assert_int_equal(rc, 0);
		for (size_t k = 0; k < n; k++) {
			strcat(found, k ? " " : "");
			strcat(found, facts.interfaces[indices[k]].name);
		}
		if (*cases[i].wanted)
			assert_string_equal(found, cases[i].chosen);
	}
}

static void a_wrong_name_is_answered_with_those_that_exist(void **state)
{
	size_t indices[DDL__INTERFACES_MAX], n;
	struct ddl__facts facts;
	struct ddl_error err;

	(void)state;
	gather_captured("gpu4", &facts);
	assert_int_equal(ddl__facts_choose_interfaces(&facts, "eth9", indices, &n, &err), -ENOENT);
	assert_string_equal(err.text, "node gpu17 has no network interface eth9; it has eno1, ens6f0np0, ens22f0np0, ibs9, lo: "
				      "name some of these in DDL_NET, or unset it");
	assert_int_equal(ddl__facts_choose_interfaces(&facts, "ibs9", indices, &n, &err), -ENOENT);
	assert_string_equal(err.text, "network interface ibs9 of node gpu17 has no address: name one that has");
}

static void the_choice_by_speed(void **state)
{
	static const struct {
		uint32_t speeds[5];
		size_t n;      /* interfaces */
		size_t chosen; /* of them */
	} cases[] = {
		{ { 100000, 100000, 1000 }, 3, 2 }, /* the slow one would slow the others down */
		{ { 100000, 25000 }, 2, 1 },
		{ { 100000, 50000 }, 2, 1 }, /* twice 50 is once 100: the fewer */
		{ { 0, 0, 0 }, 3, 3 },       /* not known: alike */
		{ { 100000, 0 }, 2, 1 },
		{ { 400000, 400000, 400000, 400000, 200000 }, 5, 4 },
		{ { 25000, 25000, 10000, 10000, 10000 }, 5, 2 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ddl__facts facts = { .n_interfaces = cases[i].n };
		size_t indices[DDL__INTERFACES_MAX], n;

		for (size_t k = 0; k < cases[i].n; k++) {
			struct ddl__interface *interface = &facts.interfaces[cases[i].n - 1 - k];

			snprintf(interface->name, sizeof(interface->name), "eth%zu", k);
			strcpy(interface->address, "10.0.0.1");
			interface->speed_Mbps = cases[i].speeds[k];
			interface->up = 1;
		}
		assert_int_equal(ddl__facts_choose_interfaces(&facts, NULL, indices, &n, NULL), 0);
		assert_int_equal(n, cases[i].chosen);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(indices[k], cases[i].n - 1 - k);
	}
}

static void told_facts_come_back(void **state)
{
	struct ddl__facts facts, back;
	struct ddl_error err;
	char *text, *again;

	(void)state;
	gather_captured("gpu4", &facts);
	strcpy(facts.node, "we;ird,na=me%\n\xc3\xa9");
	strcpy(facts.address, "spine.leaf.n1");
	strcpy(facts.pattern, "switch.switch.node");
	ddl__cpus_parse(&facts.may, "0-3,7,16383");
	ddl__cpus_parse(&facts.serve, "3,7");
	facts.ports = 4;
	assert_int_equal(ddl__facts_encode(&facts, &text, &err), 0);
	assert_null(strchr(text, '\n'));
	assert_int_equal(ddl__facts_decode(text, strlen(text), &back, &err), 0);
	assert_string_equal(back.node, facts.node);
	assert_string_equal(back.address, facts.address);
	assert_string_equal(back.pattern, facts.pattern);
	assert_string_equal(back.machine, facts.machine);
	assert_memory_equal(&back.may, &facts.may, sizeof(facts.may));
	assert_memory_equal(&back.serve, &facts.serve, sizeof(facts.serve));
	assert_int_equal(back.ports, 4);
	assert_int_equal(back.n_gpus, facts.n_gpus);
	assert_memory_equal(back.gpus, facts.gpus, sizeof(facts.gpus));
	assert_int_equal(back.n_interfaces, 2);
	assert_string_equal(back.interfaces[0].name, "ens6f0np0");
	assert_string_equal(back.interfaces[0].address, "10.10.0.17");
	assert_int_equal(back.interfaces[0].speed_Mbps, 100000);
	assert_int_equal(ddl__facts_encode(&back, &again, &err), 0);
	assert_string_equal(text, again);
	free(text);
	free(again);
}

static void ports_are_rails_where_there_are_any(void **state)
{
	struct ddl__facts facts;

	gather_captured("gpu4", &facts);
	for (uint32_t ports = 0; ports < 4; ports++) {
		struct ddl__place place;

		facts.ports = ports;
		assert_int_equal(ddl__place_init(&place, &facts), 0);
		assert_int_equal(place.rails, ports ? ports : 2); /* else interfaces */
		ddl__place_fini(&place);
	}
}

static void broken_text_is_refused(void **state)
{
	static const struct {
		const char *text;
		int rc;
	} cases[] = {
		{ "v=1;node=a", 0 },
		{ "v=1;node=a;later=x,y=z,%41", 0 },
		{ "v=1;node=a;if=e,1.2.3.4,1,2,-1,u,more", 0 },
		{ "", -EBADMSG },
		{ "v", -EBADMSG },
		{ "node=a", -EBADMSG },
		{ "v=2;node=a", -EPROTO },
		{ "v=%0", -EBADMSG },
		{ "v=1", -EBADMSG }, /* no node */
		{ "v=1;", -EBADMSG },
		{ "v=1;node", -EBADMSG },
		{ "v=1;node=", -EBADMSG },
		{ "v=1;node=a%", -EBADMSG },
		{ "v=1;node=a%4", -EBADMSG },
		{ "v=1;node=a%zz", -EBADMSG },
		{ "v=1;node=a%00", -EBADMSG },
		{ "v=1;node=a;numa=", -EBADMSG },
		{ "v=1;node=a;numa=-1", -EBADMSG },
		{ "v=1;node=a;numa=4294967296", -EBADMSG },
		{ "v=1;node=a;numa=99999999999999999999999", -EBADMSG },
		{ "v=1;node=a;if=e", -EBADMSG },
		{ "v=1;node=a;if=e,1.2.3.4,1,2,-2,u", -EBADMSG },
		{ "v=1;node=a;if=e,1.2.3.4,x,2,-1,u", -EBADMSG },
		{ "v=1;node=a;if=a-name-that-is-longer-than-31-bytes,1.2.3.4,1,2,-1,u", -EBADMSG },
		{ "v=1;node=a;gpu=x", -EBADMSG },
		{ "v=1;node=a;a-key-that-is-much-longer-than-any-of-ours=1", -EBADMSG },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ddl__facts facts = { .cpus = 4711 };
		struct ddl_error err = { 0 };

		assert_int_equal(ddl__facts_decode(cases[i].text, strlen(cases[i].text), &facts, &err), cases[i].rc);
		assert_int_equal(err.code, cases[i].rc);
		if (cases[i].rc < 0) {
			assert_int_equal(facts.cpus, 4711);
			assert_true(strlen(err.text) > 10);
		}
	}
}

/* Each list has one entry more than there is room for. */
static void too_many_devices_are_refused(void **state)
{
	static const char *const entries[] = { ";if=e,1.2.3.4,1,2,-1,u", ";gpu=0,0,m" };

	(void)state;
	for (size_t i = 0; i < COUNT(entries); i++) {
		char text[4096] = "v=1;node=a";
		struct ddl__facts facts;
		struct ddl_error err;

		for (size_t k = 0; k < 32; k++)
			strcat(text, entries[i]);
		assert_int_equal(ddl__facts_decode(text, strlen(text), &facts, &err), 0);
		strcat(text, entries[i]);
		assert_int_equal(ddl__facts_decode(text, strlen(text), &facts, &err), -EBADMSG);
	}
}

/* Any byte changed, any length: accepted or refused, never a crash (the sanitizers watch); what is accepted can be told again. */
static void mutated_text_never_crashes(void **state)
{
	struct ddl__facts facts;
	struct ddl_error err;
	uint64_t random = 88172645463325252u;
	char *text, *copy, *again;
	size_t length;

	(void)state;
	gather_captured("gpu4", &facts);
	assert_int_equal(ddl__facts_encode(&facts, &text, &err), 0);
	length = strlen(text);
	for (size_t i = 0; i < 20000; i++) {
		size_t cut;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		cut = random % (length + 1);
		copy = malloc(cut ? cut : 1);
		assert_non_null(copy);
		memcpy(copy, text, cut);
		if (cut)
			copy[(random >> 20) % cut] = (char)(random >> 40);
		if (ddl__facts_decode(copy, cut, &facts, &err) == 0) {
			assert_int_equal(ddl__facts_encode(&facts, &again, &err), 0);
			free(again);
		}
		free(copy);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(captured_machine_is_described, (void *)"virtio"),
		cmocka_unit_test_prestate(captured_machine_is_described, (void *)"gpu4"),
		cmocka_unit_test_prestate(captured_machine_is_described, (void *)"clutter"),
		cmocka_unit_test_prestate(captured_machine_is_described, (void *)"bare"),
		cmocka_unit_test(this_machine_is_described),
		cmocka_unit_test(what_any_thread_may_use_the_process_may_use),
		cmocka_unit_test(a_missing_folder_is_a_machine_of_which_nothing_is_known),
		cmocka_unit_test(the_choice_by_name),
		cmocka_unit_test(a_wrong_name_is_answered_with_those_that_exist),
		cmocka_unit_test(the_choice_by_speed),
		cmocka_unit_test(told_facts_come_back),
		cmocka_unit_test(ports_are_rails_where_there_are_any),
		cmocka_unit_test(broken_text_is_refused),
		cmocka_unit_test(too_many_devices_are_refused),
		cmocka_unit_test(mutated_text_never_crashes),
	};

	return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
