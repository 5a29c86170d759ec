/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minimal.c - the shortest program: all ranks sum a vector, and rank 0 says what came out.
 *
 *     cc minimal.c $(pkg-config --cflags --libs ddl) -o minimal
 *     srun --ddl=multiring --mpi=pmix ./minimal          or: ddl run -n 4 ./minimal
 */
#include <stdio.h>

#include <ddl/ddl.h>

int main(void)
{
	float gradient[] = { 1, 2, 3, 4 };
	struct ddl_comm *comm;
	struct ddl_error err;
	int rc;

	if (ddl_comm_create(NULL, &comm, &err) < 0) {
		fprintf(stderr, "minimal: %s\n", err.text);
		return 1;
	}
	rc = ddl_allreduce(gradient, gradient, 4, DDL_FLOAT32, DDL_SUM, comm);
	if (rc < 0 && ddl_comm_get_error(comm, &err) < 0)
		fprintf(stderr, "minimal: %s\n", err.text);
	if (rc == 0 && ddl_comm_rank(comm) == 0)
		printf("%d ranks: %g %g %g %g\n", ddl_comm_size(comm), (double)gradient[0], (double)gradient[1],
		       (double)gradient[2], (double)gradient[3]);
	ddl_comm_destroy(comm);
	return rc < 0;
}
