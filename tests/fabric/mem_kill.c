/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_kill.c MICROSECONDS ALGORITHM - all-reduces over memory from ddl_mem_alloc(), in place on odd ranks, until rank 1 kills
 * itself, that long after its first one. The others print the error that they get, and that they could still use their memory.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <ddl/ddl.h>

enum { COUNT = 1 << 20, STARTS_MAX = 1000000 };

static void kill_myself(int number)
{
	raise(SIGKILL);
}

static void arm(long microseconds)
{
	const struct itimerval when = { .it_value = { microseconds / 1000000, microseconds % 1000000 + 1 } };

	signal(SIGALRM, kill_myself);
	setitimer(ITIMER_REAL, &when, NULL);
}

static int run(struct ddl_comm *comm, struct ddl_request *sum, long microseconds)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < STARTS_MAX; i++) {
		rc = ddl_start(sum);
		rc = rc ? rc : ddl_wait(sum);
		if (i == 0 && ddl_comm_rank(comm) == 1)
			arm(microseconds);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_error err = { 0 };
	struct ddl_comm *comm;
	struct ddl_request *sum;
	void *send, *recv;
	int rank, rc;

	options.algorithm = argc > 2 ? argv[2] : NULL;
	if (argc < 2 || ddl_comm_create(NULL, &comm, &err) < 0 || ddl_mem_alloc(comm, COUNT * sizeof(float), &recv, &err) < 0 ||
	    ddl_mem_alloc(comm, COUNT * sizeof(float), &send, &err) < 0) {
		fprintf(stderr, "not ready: %s\n", err.text);
		return 2;
	}
	rank = ddl_comm_rank(comm);
	if (ddl_allreduce_init(rank % 2 ? recv : send, recv, COUNT, DDL_FLOAT32, DDL_SUM, comm, &options, &sum, &err) < 0) {
		fprintf(stderr, "no request: %s\n", err.text);
		return 2;
	}
	rc = run(comm, sum, atol(argv[1]));
	ddl_comm_get_error(comm, &err);
	memset(send, 1, COUNT * sizeof(float)); /* still ours */
	memset(recv, 1, COUNT * sizeof(float));
	printf("ended with %s: %s\n", rc == -ECONNRESET ? "ECONNRESET" : strerror(-rc), err.text);
	fflush(stdout);
	ddl_request_free(sum);
	ddl_comm_destroy(comm);
	return rc == -ECONNRESET ? 0 : 1;
}
