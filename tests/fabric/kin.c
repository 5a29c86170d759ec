/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kin.c - a process with two communicators, and with children. Started by ddl run.
 *
 *     kin orders         the ranks wait for requests of two communicators in different orders
 *     kin child          children use what their parents have in every way
 *     kin orphan FILE    rank 1 dies, and a child of it lives on until FILE is there
 *
 * A rank prints "ok RANK", or "failed RANK: ..." with the sentence; in the last case "told RANK: CODE SENTENCE".
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ddl/ddl.h>

enum { COUNT = 1000, ROUNDS = 50 };

struct side { /* a communicator and a request of it */
	struct ddl_comm *comm;
	struct ddl_request *request;
	float data[COUNT];
};

static int failed(int rank, const char *what, const struct ddl_error *err)
{
	printf("failed %d: %s: %d %s\n", rank, what, err->code, err->text);
	return 1;
}

static int make(struct side *side, struct ddl_error *err)
{
	int rc = ddl_comm_create(NULL, &side->comm, err);

	if (rc == 0)
		rc = ddl_allreduce_init(side->data, side->data, COUNT, DDL_FLOAT32, DDL_SUM, side->comm, NULL, &side->request, err);
	return rc;
}

static int give_back(struct side *side)
{
	int rc = ddl_request_free(side->request);

	ddl_comm_destroy(side->comm);
	return rc;
}

static int is_sum(const struct side *side)
{
	const int size = ddl_comm_size(side->comm);

	for (size_t i = 0; i < COUNT; i++)
		if (side->data[i] != (float)(size * (size - 1)) / 2)
			return 0;
	return 1;
}

static void fill(struct side *side)
{
	for (size_t i = 0; i < COUNT; i++)
		side->data[i] = (float)ddl_comm_rank(side->comm);
}

static int run_orders(struct side *sides, int rank)
{
	struct side *first = &sides[rank % 2], *second = &sides[!(rank % 2)];
	struct ddl_error err = { 0, "" };

	for (int round = 0; round < ROUNDS; round++) {
		fill(first);
		fill(second);
		if (ddl_start(first->request) < 0 || ddl_start(second->request) < 0 || ddl_wait(first->request) < 0 ||
		    ddl_wait(second->request) < 0 || !is_sum(first) || !is_sum(second)) {
			if (!ddl_comm_get_error(first->comm, &err))
				ddl_comm_get_error(second->comm, &err);
			return failed(rank, "orders", &err);
		}
	}
	return 0;
}

/* What destructors and careless programs do. Returns 0 if every call was turned away. */
static int use_in_child(struct side *side, int way)
{
	struct ddl_error err;

	switch (way) {
	case 0:
		return ddl_request_free(side->request);
	case 1:
		return ddl_start(side->request) != -EOPNOTSUPP;
	case 2:
		return ddl_comm_abort(side->comm, "a child") != -EOPNOTSUPP;
	case 3:
		return ddl_barrier(side->comm) != -EOPNOTSUPP;
	case 4:
		return ddl_comm_get_error(side->comm, &err) != -EOPNOTSUPP;
	default:
		return give_back(side);
	}
}

static int run_child(struct side *side, int rank)
{
	struct ddl_error err = { 0, "" };

	for (int way = 0; way < 6; way++) {
		pid_t child = fork();
		int status = 1;

		if (child == 0) {
			alarm(30);
			_exit(use_in_child(side, way) != 0);
		}
		fill(side);
		if (waitpid(child, &status, 0) != child || status != 0) {
			err.code = status;
			return failed(rank, "a call in the child", &err);
		}
		if (ddl_start(side->request) < 0 || ddl_wait(side->request) < 0 || !is_sum(side)) {
			ddl_comm_get_error(side->comm, &err);
			return failed(rank, "the parent", &err);
		}
	}
	return 0;
}

static int run_orphan(struct side *side, int rank, const char *file)
{
	struct ddl_error err = { 0, "" };

	for (int i = 0; i < 2 && (rank != 1 || i == 0); i++) /* where rank 1 is through, the others may not be yet when it dies */
		if (ddl_start(side->request) == 0)
			ddl_wait(side->request);
	if (rank == 1 && fork() == 0) {
		setsid(); /* else ddl run ends it with its parent */
		for (int i = 0; i < 600 && access(file, F_OK) != 0; i++)
			usleep(100000);
		_exit(0);
	}
	if (rank == 1)
		raise(SIGKILL);
	ddl_comm_get_error(side->comm, &err);
	printf("told %d: %d %s\n", rank, err.code, err.text);
	return 0;
}

int main(int argc, char **argv)
{
	struct side sides[2] = { 0 };
	struct ddl_error err = { 0, "" };
	const char *what = argc > 1 ? argv[1] : "";
	int rank, rc = 1;

	if (make(&sides[0], &err) < 0 || make(&sides[1], &err) < 0)
		return failed(-1, "making", &err);
	rank = ddl_comm_rank(sides[0].comm);
	if (!strcmp(what, "orders"))
		rc = run_orders(sides, rank);
	else if (!strcmp(what, "child"))
		rc = run_child(&sides[0], rank);
	else if (!strcmp(what, "orphan") && argc > 2)
		rc = run_orphan(&sides[0], rank, argv[2]);
	for (int i = 0; i < 2; i++)
		give_back(&sides[i]);
	if (rc == 0)
		printf("ok %d\n", rank);
	return rc;
}
