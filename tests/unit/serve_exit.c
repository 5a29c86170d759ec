/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_exit.c - a program may end without ddl_comm_destroy(), as most do after an error: its service threads must have ended
 * before the libraries below them are taken down, or they crash in there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <openssl/crypto.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rank_threads.h"

enum { RANKS = 2, STILL_SERVED = 9, NOT_SERVED = 8 };

static int service_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		if ((file = fopen(path, "r"))) {
			n += fgets(name, sizeof(name), file) && strcmp(name, "ddl-progress\n") == 0;
			fclose(file);
		}
	}
	if (dir)
		closedir(dir);
	return n;
}

/* libcrypto calls it before it takes down what connections are authenticated with. */
static void on_cleanup(void)
{
	_exit(service_threads() ? STILL_SERVED : 0);
}

static void *end_process(struct rank *rank)
{
	int32_t one = 1;
	int rc = ddl_allreduce(&one, &one, 1, DDL_INT32, DDL_SUM, rank->comm);

	if (rc)
		complain(rank, "the all-reduce failed", rc);
	pthread_barrier_wait(&rank->world->barrier);
	if (rank->rank != 0)
		for (;;)
			pause();
	if (service_threads() != RANKS)
		_exit(NOT_SERVED);
	exit(0);
}

static void ends_well(const char *transports)
{
	int status;
	const pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		if (!OPENSSL_atexit(on_cleanup))
			_exit(1);
		run_world(RANKS, transports, 1, 3, end_process, NULL, NULL);
		_exit(2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void service_threads_end_before_libcrypto_does(void **state)
{
	ends_well("shm");
	ends_well("tcp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(service_threads_end_before_libcrypto_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
