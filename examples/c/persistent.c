/* SPDX-License-Identifier: Apache-2.0 */
/*
 * persistent.c - ranks fit a line to points of which each has its own: gradient descent whose all-reduce is made once and started
 * in every step. The gradient lies in memory that the ranks of a node reduce in place, and is averaged on the way.
 *
 *     cc persistent.c $(pkg-config --cflags --libs ddl) -o persistent
 */
#include <stdio.h>

#include <ddl/ddl.h>

#define STEPS  200
#define POINTS 64

/* The gradient of the mean square error of y = w[0] x + w[1] over this rank's points, which lie on y = 3 x + 1. */
static void differentiate(int rank, const float *w, float *gradient)
{
	gradient[0] = gradient[1] = 0;
	for (int i = 0; i < POINTS; i++) {
		const float x = (float)((i * 7 + rank * 13) % POINTS) / POINTS;
		const float wrong = w[0] * x + w[1] - (3 * x + 1);

		gradient[0] += 2 * wrong * x / POINTS;
		gradient[1] += 2 * wrong / POINTS;
	}
}

static int descend(struct ddl_comm *comm, struct ddl_request *average, float *gradient, float *w)
{
	for (int step = 0; step < STEPS; step++) {
		int rc;

		differentiate(ddl_comm_rank(comm), w, gradient);
		rc = ddl_start(average);
		if (rc == 0)
			rc = ddl_wait(average);
		if (rc < 0)
			return rc;
		for (int i = 0; i < 2; i++)
			w[i] -= 0.5f * gradient[i];
	}
	return 0;
}

int main(void)
{
	float w[2] = { 0, 0 };
	struct ddl_request *average = NULL;
	struct ddl_comm *comm;
	struct ddl_error err;
	void *gradient;
	int failed = 1;

	if (ddl_comm_create(NULL, &comm, &err) < 0) {
		fprintf(stderr, "persistent: %s\n", err.text);
		return 1;
	}
	if (ddl_mem_alloc(comm, 2 * sizeof(float), &gradient, &err) < 0 ||
	    ddl_allreduce_init(gradient, gradient, 2, DDL_FLOAT32, DDL_AVG, comm, NULL, &average, &err) < 0)
		fprintf(stderr, "persistent: %s\n", err.text);
	else if (descend(comm, average, gradient, w) < 0 && ddl_comm_get_error(comm, &err) < 0)
		fprintf(stderr, "persistent: %s\n", err.text);
	else
		failed = 0;
	if (!failed && ddl_comm_rank(comm) == 0)
		printf("%d ranks found y = %.3f x + %.3f\n", ddl_comm_size(comm), (double)w[0], (double)w[1]);
	ddl_request_free(average);
	ddl_comm_destroy(comm);
	return failed;
}
