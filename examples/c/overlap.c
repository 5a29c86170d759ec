/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlap.c - what a training framework does: backward makes gradients from the last layer to the first, and each one's all-reduce
 * starts at once; the next forward pass needs the first layer first, so that one has the highest priority and overtakes the others.
 * A service thread brings the sums on while this thread computes (DDL_PROGRESS=0: nobody does, and the waits take longer).
 *
 *     cc overlap.c $(pkg-config --cflags --libs ddl) -o overlap
 */
#include <stdio.h>
#include <stdlib.h>

#include <ddl/ddl.h>

#define LAYERS 8
#define COUNT  (1 << 16) /* weights of a layer */
#define STEPS  4

struct layer {
	float *gradient;
	float *weights;
	struct ddl_request *sum;
};

/* Stands for the backward pass of a layer: what the gradient is depends on rank, layer, step and place. */
static void backward(struct layer *layers, int l, int rank, int step)
{
	for (int i = 0; i < COUNT; i++)
		layers[l].gradient[i] = (float)((rank + 1) * (l + 1 + step) + i % 16);
}

/* Stands for the forward pass of a layer: it takes the step, with a gradient that must be the sum over all ranks. */
static int forward(struct layer *layers, int l, int ranks, int step)
{
	const int sum_of_ranks = ranks * (ranks + 1) / 2;

	for (int i = 0; i < COUNT; i++) {
		if (layers[l].gradient[i] != (float)(sum_of_ranks * (l + 1 + step) + ranks * (i % 16)))
			return -1;
		layers[l].weights[i] -= 0.001f * layers[l].gradient[i];
	}
	return 0;
}

static int make_layers(struct layer *layers, struct ddl_comm *comm, struct ddl_error *err)
{
	for (int l = 0; l < LAYERS; l++) {
		struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
		void *memory;
		int rc = ddl_mem_alloc(comm, COUNT * sizeof(float), &memory, err);

		if (rc < 0)
			return rc;
		layers[l].gradient = memory;
		layers[l].weights = calloc(COUNT, sizeof(float));
		if (!layers[l].weights) {
			snprintf(err->text, sizeof(err->text), "no memory for layer %d", l);
			return -1;
		}
		options.priority = LAYERS - l;
		rc = ddl_allreduce_init(layers[l].gradient, layers[l].gradient, COUNT, DDL_FLOAT32, DDL_SUM, comm, &options,
					&layers[l].sum, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int train(struct layer *layers, struct ddl_comm *comm)
{
	for (int step = 0; step < STEPS; step++) {
		for (int l = LAYERS - 1; l >= 0; l--) {
			backward(layers, l, ddl_comm_rank(comm), step);
			if (ddl_start(layers[l].sum) < 0)
				return -1;
		}
		for (int l = 0; l < LAYERS; l++) {
			if (ddl_wait(layers[l].sum) < 0)
				return -1;
			if (forward(layers, l, ddl_comm_size(comm), step) < 0) {
				fprintf(stderr, "overlap: layer %d has a wrong gradient in step %d\n", l, step);
				return -1;
			}
		}
	}
	return 0;
}

int main(void)
{
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct layer layers[LAYERS] = { { NULL } };
	struct ddl_comm *comm;
	struct ddl_error err;
	int failed = 1;

	options.progress_threads = getenv("DDL_PROGRESS") ? -1 : 1;
	if (ddl_comm_create(&options, &comm, &err) < 0) {
		fprintf(stderr, "overlap: %s\n", err.text);
		return 1;
	}
	if (make_layers(layers, comm, &err) < 0)
		fprintf(stderr, "overlap: %s\n", err.text);
	else
		failed = train(layers, comm) < 0;
	if (failed && ddl_comm_get_error(comm, &err) < 0)
		fprintf(stderr, "overlap: %s\n", err.text);
	if (failed)
		ddl_comm_abort(comm, "another rank of overlap failed");
	else if (ddl_comm_rank(comm) == 0)
		printf("%d ranks summed %d layers in %d steps\n", ddl_comm_size(comm), LAYERS, STEPS);
	for (int l = 0; l < LAYERS; l++) {
		ddl_request_free(layers[l].sum);
		free(layers[l].weights);
	}
	ddl_comm_destroy(comm);
	return failed;
}
