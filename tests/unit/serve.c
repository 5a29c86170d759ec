/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - the service thread: its signals, and the hardware threads that it runs on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_world.h"

/* Signals that all service threads of this process block, as a mask, and how many of them there are. Sanitizers have others. */
static uint64_t blocked_by_service(int *n)
{
	uint64_t all = ~(uint64_t)0;
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	assert_non_null(tasks);
	for (*n = 0; (entry = readdir(tasks));) {
		char path[300], line[256];
		unsigned long long mask;
		bool serves = false;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		FILE *status = fopen(path, "r");
		while (status && fgets(line, sizeof(line), status)) {
			serves = serves || strcmp(line, "Name:\tddl-progress\n") == 0;
			if (serves && sscanf(line, "SigBlk: %llx", &mask) == 1) {
				all &= mask;
				++*n;
			}
		}
		if (status)
			fclose(status);
	}
	closedir(tasks);
	return all;
}

static const struct ddl__cpus any = { { ~UINT64_C(0) } }; /* the first 64 hardware threads */

static void the_service_thread_takes_no_signals(void **state)
{
	struct world w;
	int n;
	world_init(&w, 1, 5, TIMEOUT_MS);
	assert_int_equal(ddl__engine_thread_start(w.comms[0], &any, &(bool){ false }, NULL), 0);
	uint64_t blocked = blocked_by_service(&n);
	assert_int_equal(n, 1);
	assert_true(blocked >> (SIGTERM - 1) & blocked >> (SIGALRM - 1) & blocked >> (SIGUSR1 - 1) & 1);
	world_fini(&w);
}

static void the_service_thread_runs_where_it_is_told_and_only_there(void **state)
{
	struct world w;
	cpu_set_t mine, set;
	struct ddl__cpus one = { { 0 } }, none = { { 0 } };
	bool bound = false;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	size_t cpu = 0;
	for (size_t i = 0; i < CPU_SETSIZE; i++)
		cpu = CPU_ISSET(i, &mine) ? i : cpu;
	ddl__cpus_add(&one, cpu);
	ddl__cpus_add(&none, DDL__CPUS_MAX - 1); /* no such hardware thread */
	world_init(&w, 2, 5, TIMEOUT_MS);
	assert_int_equal(ddl__engine_thread_start(w.comms[0], &one, &bound, NULL), 0);
	assert_true(bound);
	assert_int_equal(pthread_getaffinity_np(w.comms[0]->thread, sizeof(set), &set), 0);
	assert_int_equal(CPU_COUNT(&set), 1);
	assert_true(CPU_ISSET(cpu, &set));
	assert_int_equal(ddl__engine_thread_start(w.comms[1], &none, &bound, NULL), 0);
	assert_false(bound);
	assert_int_equal(pthread_getaffinity_np(w.comms[1]->thread, sizeof(set), &set), 0);
	assert_true(CPU_EQUAL(&set, &mine));
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	assert_true(CPU_EQUAL(&set, &mine)); /* the program's threads stay where they were */
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_service_thread_takes_no_signals),
		cmocka_unit_test(the_service_thread_runs_where_it_is_told_and_only_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
