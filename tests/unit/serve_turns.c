/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_turns.c - the service threads of a rank's communicators: those that are split from another take the rank's cores in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sched.h>

#include "origin.h"
#include "rank_threads.h"

/* The hardware thread that serves a communicator; -1: not a single one. */
static int served_by(const struct ddl_comm *comm)
{
	cpu_set_t set;

	if (!comm->has_thread || pthread_getaffinity_np(comm->thread, sizeof(set), &set) != 0 || CPU_COUNT(&set) != 1)
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			return cpu;
	return -1;
}

static int sum_ranks(struct ddl_comm *comm)
{
	int32_t one = 1;
	int rc = ddl_allreduce(&one, &one, 1, DDL_INT32, DDL_SUM, comm);

	return rc ? rc : one == ddl_comm_size(comm) ? 0 : -EILSEQ;
}

static void *take_turns(struct rank *rank)
{
	struct ddl_comm *parts[4] = { rank->comm, NULL, NULL, NULL };
	const struct ddl__cores *cores = &rank->comm->origin->cores;
	struct ddl_error err = { 0 };
	int rc = sum_ranks(rank->comm);

	for (int i = 1; rc == 0 && i < 4; i++) {
		rc = ddl_comm_dup(i == 3 ? parts[2] : rank->comm, &parts[i], &err); /* the last is a part of a part */
		rc = rc ? rc : sum_ranks(parts[i]);
	}
	if (rc)
		complain(rank, "a part failed", rc);
	if (cores->how != DDL__CORES_NAMED || cores->n != *(const uint32_t *)rank->world->argument)
		complain(rank, "these are not the cores that were named", (int)cores->how);
	for (int i = 0; rc == 0 && i < 4; i++)
		if (served_by(parts[i]) != (int)cores->cpus[(uint32_t)i % cores->n])
			complain(rank, "a communicator is served by another core", i);
	for (int i = 3; i > 0; i--)
		ddl_comm_destroy(parts[i]);
	return NULL;
}

static void communicators_of_a_rank_take_its_cores_in_turn(void **state)
{
	cpu_set_t mine;
	char list[32] = "";
	uint32_t n = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &mine))
			sprintf(list + strlen(list), n++ ? ",%d" : "%d", cpu);
	setenv("DDL_PROGRESS_CORES", list, 1);
	run_world(2, "shm", 2, 1, take_turns, &n, NULL);
	unsetenv("DDL_PROGRESS_CORES");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(communicators_of_a_rank_take_its_cores_in_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
