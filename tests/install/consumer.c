/* SPDX-License-Identifier: Apache-2.0 */
/*
 * consumer.c - a program as a user writes it, built against the installed copy alone: sums a vector over all ranks and checks it.
 * Compiled as C11 and, the same file, as C++. Prints one line on rank 0; exit 0 only if the sum is right.
 */
#include <stdio.h>
#include <string.h>

#include <ddl/ddl.h>

#define COUNT 1000

static int sum(struct ddl_comm *comm)
{
	static float send[COUNT], recv[COUNT];
	struct ddl_request *request;
	struct ddl_error err;
	const int n = ddl_comm_size(comm);
	int rc;

	for (int i = 0; i < COUNT; i++)
		send[i] = (float)(ddl_comm_rank(comm) + i);
	if (ddl_allreduce_init(send, recv, COUNT, DDL_FLOAT32, DDL_SUM, comm, NULL, &request, &err) < 0) {
		fprintf(stderr, "consumer: %s\n", err.text);
		return 1;
	}
	rc = ddl_start(request);
	if (rc == 0)
		rc = ddl_wait(request);
	ddl_request_free(request);
	if (rc < 0) {
		ddl_comm_get_error(comm, &err);
		fprintf(stderr, "consumer: %s\n", err.text);
		return 1;
	}
	for (int i = 0; i < COUNT; i++) {
		const float expected = (float)(n * i + n * (n - 1) / 2);

		if (recv[i] != expected) {
			fprintf(stderr, "consumer: element %d is %g, not %g\n", i, (double)recv[i], (double)expected);
			return 1;
		}
	}
	return 0;
}

int main(void)
{
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct ddl_comm *comm;
	struct ddl_error err;
	int failed;

	if (strcmp(ddl_version(), DDL_VERSION) != 0) {
		fprintf(stderr, "consumer: the headers are of %s, the library is %s\n", DDL_VERSION, ddl_version());
		return 1;
	}
	if (ddl_comm_create(&options, &comm, &err) < 0) {
		fprintf(stderr, "consumer: %s\n", err.text);
		return 1;
	}
	failed = sum(comm);
	if (!failed && ddl_comm_rank(comm) == 0)
		printf("%d ranks summed %d elements\n", ddl_comm_size(comm), COUNT);
	ddl_comm_destroy(comm);
	return failed;
}
