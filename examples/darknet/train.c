/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train.c - darknet, a framework in plain C in the manner of Caffe, trains data-parallel.
 *
 *     train NETWORK.cfg FOLDER [EPOCHS]      FOLDER holds train.list, test.list and labels.list, as digits.py writes them
 *
 * darknet calls each layer's functions through pointers in the layer, and that is all the hold that is needed:
 *   backward  darknet's own, then the all-reduces of this layer's gradients start, while darknet goes on with the layer below
 *   update    waits for this layer's gradients alone, then darknet's own
 * The layers that darknet updates first have the highest priority. Gradients are averaged, not summed: darknet keeps its momentum
 * in the same arrays, and what is equal on all ranks stays so in the average.
 *
 * After each epoch rank 0 prints the accuracy on images that nobody has learnt from, and whether all replicas are the same to
 * the bit.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <darknet.h>
#include <ddl/ddl.h>

#define TENSORS 3 /* of a layer: weights, biases, scales */

struct tensor {
	float *values;
	float *updates;
	size_t count;
	struct ddl_request *average; /* of the updates */
};

struct hooked {
	void (*backward)(layer, network);
	void (*update)(layer, update_args);
	struct tensor tensors[TENSORS];
	int n;
};

static struct ddl_comm *comm;
static struct hooked *hooks; /* one a layer; darknet's callbacks have no argument of ours */
static int n_hooks;

/* Ends the program where a call failed, and the other ranks hear why. */
static void good(int rc, const struct ddl_error *error)
{
	struct ddl_error first;

	if (rc >= 0)
		return;
	if (comm && ddl_comm_get_error(comm, &first) < 0)
		error = &first;
	if (comm)
		ddl_comm_abort(comm, "another rank of train failed");
	errx(1, "%s", error ? error->text : strerror(-rc));
}

/* darknet hands layers over by value, so they are told apart by what they point to. */
static struct hooked *hook_of(const layer *l)
{
	for (int i = 0; i < n_hooks; i++)
		if (hooks[i].n && hooks[i].tensors[0].updates == l->bias_updates)
			return &hooks[i];
	errx(1, "darknet calls a layer that the network did not have when it was made");
}

static void backward(layer l, network net)
{
	struct hooked *hook = hook_of(&l);
	const int last = *net.seen / (size_t)net.batch % (size_t)net.subdivisions == 0;

	hook->backward(l, net);
	for (int i = 0; last && i < hook->n; i++)
		good(ddl_start(hook->tensors[i].average), NULL);
}

static void update(layer l, update_args arguments)
{
	struct hooked *hook = hook_of(&l);

	for (int i = 0; i < hook->n; i++)
		good(ddl_wait(hook->tensors[i].average), NULL);
	hook->update(l, arguments);
}

/* The layer's numbers of weights, biases and scales. */
static void shape(const layer *l, size_t *weights, size_t *biases)
{
	switch (l->type) {
	case CONVOLUTIONAL:
		*weights = (size_t)l->nweights;
		*biases = (size_t)l->n;
		return;
	case CONNECTED:
		*weights = (size_t)l->inputs * (size_t)l->outputs;
		*biases = (size_t)l->outputs;
		return;
	default:
		errx(1, "a layer of type %d has weights, and train knows those of [convolutional] and [connected] only", l->type);
	}
}

static void add(struct hooked *hook, float *values, float *updates, size_t count, int priority)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct tensor *t = &hook->tensors[hook->n];
	struct ddl_error error;

	if (!updates)
		return;
	options.priority = priority;
	*t = (struct tensor){ values, updates, count, NULL };
	good(ddl_broadcast(values, count, DDL_FLOAT32, 0, comm), NULL);
	good(ddl_allreduce_init(updates, updates, count, DDL_FLOAT32, DDL_AVG, comm, &options, &t->average, &error), &error);
	hook->n++;
}

/* Puts our functions before those of all layers that learn; all ranks begin with rank 0's weights. */
static void hook_layers(network *net)
{
	hooks = calloc((size_t)net->n, sizeof(*hooks));
	if (!hooks)
		err(1, "no memory for %d layers", net->n);
	n_hooks = net->n;
	for (int i = 0; i < net->n; i++) {
		layer *l = &net->layers[i];
		size_t weights, biases;

		if (!l->update)
			continue;
		shape(l, &weights, &biases);
		add(&hooks[i], l->biases, l->bias_updates, biases, net->n - i);
		add(&hooks[i], l->weights, l->weight_updates, weights, net->n - i);
		add(&hooks[i], l->scales, l->batch_normalize ? l->scale_updates : NULL, biases, net->n - i);
		hooks[i].backward = l->backward;
		hooks[i].update = l->update;
		l->backward = backward;
		l->update = update;
	}
}

/* What batch normalization has seen of the data differs from rank to rank; for judging all take the average. */
static void share_statistics(network *net)
{
	for (int i = 0; i < net->n; i++) {
		layer *l = &net->layers[i];
		size_t weights, biases;

		if (!l->update || !l->batch_normalize)
			continue;
		shape(l, &weights, &biases);
		good(ddl_allreduce(l->rolling_mean, l->rolling_mean, biases, DDL_FLOAT32, DDL_AVG, comm), NULL);
		good(ddl_allreduce(l->rolling_variance, l->rolling_variance, biases, DDL_FLOAT32, DDL_AVG, comm), NULL);
	}
}

/* Whether all ranks have the same weights: the least and the greatest of their FNV-1a hashes agree. */
static int replicas_equal(void)
{
	uint64_t hash = 0xcbf29ce484222325u;
	int64_t low, high;

	for (int i = 0; i < n_hooks; i++)
		for (int t = 0; t < hooks[i].n; t++) {
			const unsigned char *bytes = (const unsigned char *)hooks[i].tensors[t].values;

			for (size_t b = 0; b < hooks[i].tensors[t].count * sizeof(float); b++)
				hash = (hash ^ bytes[b]) * 0x100000001b3u;
		}
	low = high = (int64_t)hash;
	good(ddl_allreduce(&low, &low, 1, DDL_INT64, DDL_MIN, comm), NULL);
	good(ddl_allreduce(&high, &high, 1, DDL_INT64, DDL_MAX, comm), NULL);
	return low == high;
}

/* The images that FOLDER/LIST names, a path below FOLDER a line; a label is what its path contains. */
static data load(const char *folder, const char *list, const network *net, char **labels)
{
	char path[4096], line[1024];
	char **paths = NULL;
	int n = 0;
	FILE *f;
	data d;

	snprintf(path, sizeof(path), "%s/%s", folder, list);
	f = fopen(path, "r");
	if (!f)
		err(1, "cannot read %s; digits.py writes it", path);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		paths = realloc(paths, (size_t)(n + 1) * sizeof(*paths));
		if (!paths || asprintf(&paths[n], "%s/%s", folder, line) < 0)
			errx(1, "no memory for the names of the images");
		n++;
	}
	fclose(f);
	if (n == 0)
		errx(1, "%s names no images", path);
	d = load_data_old(paths, n, 0, labels, net->outputs, net->w, net->h);
	while (n > 0)
		free(paths[--n]);
	free(paths);
	return d;
}

/* This rank's share: every ranks-th row, as many on each rank. */
static data share(data all, int rank, int ranks)
{
	data mine = all;

	mine.shallow = 1;
	mine.X.rows = mine.y.rows = all.X.rows / ranks;
	mine.X.vals = calloc((size_t)mine.X.rows + 1, sizeof(*mine.X.vals));
	mine.y.vals = calloc((size_t)mine.y.rows + 1, sizeof(*mine.y.vals));
	if (!mine.X.vals || !mine.y.vals)
		errx(1, "no memory for this rank's images");
	for (int i = 0; i < mine.X.rows; i++) {
		mine.X.vals[i] = all.X.vals[i * ranks + rank];
		mine.y.vals[i] = all.y.vals[i * ranks + rank];
	}
	return mine;
}

static float train_epoch(network *net, data mine)
{
	const int images = net->batch * net->subdivisions;
	const int steps = mine.X.rows / images;
	float loss = 0;

	for (int step = 0; step < steps; step++)
		for (int s = 0; s < net->subdivisions; s++) {
			get_next_batch(mine, net->batch, step * images + s * net->batch, net->input, net->truth);
			loss += train_network_datum(net) / (float)images;
		}
	loss /= (float)(steps ? steps : 1);
	good(ddl_allreduce(&loss, &loss, 1, DDL_FLOAT32, DDL_AVG, comm), NULL);
	return loss;
}

int main(int argc, char **argv)
{
	static char *labels[] = {
		"digit0", "digit1", "digit2", "digit3", "digit4", "digit5", "digit6", "digit7", "digit8", "digit9"
	};
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	const int epochs = argc > 3 ? atoi(argv[3]) : 5;
	struct ddl_error error;
	data all, mine, test;
	int equal = 1;
	network *net;

	if (argc < 3 || argc > 4 || epochs < 1)
		errx(2, "usage: train NETWORK.cfg FOLDER [EPOCHS]");
	options.progress_threads = getenv("DDL_PROGRESS") ? -1 : 1;
	good(ddl_comm_create(&options, &comm, &error), &error);
	srand(1);
	net = parse_network_cfg(argv[1]);
	hook_layers(net);
	all = load(argv[2], "train.list", net, labels);
	test = load(argv[2], "test.list", net, labels);
	mine = share(all, ddl_comm_rank(comm), ddl_comm_size(comm));
	if (mine.X.rows < net->batch * net->subdivisions)
		errx(1, "%d images a rank are fewer than a batch has: start fewer ranks", mine.X.rows);
	for (int epoch = 1; equal && epoch <= epochs; epoch++) {
		const float loss = train_epoch(net, mine);

		share_statistics(net);
		equal = replicas_equal();
		if (ddl_comm_rank(comm) == 0) {
			printf("epoch %d: loss %.4f, accuracy %.4f, ", epoch, (double)loss, (double)network_accuracy(net, test));
			printf(equal ? "%d replicas equal to the bit\n" : "REPLICAS DIFFER\n", ddl_comm_size(comm));
			fflush(stdout);
		}
	}
	for (int i = 0; i < n_hooks; i++)
		for (int t = 0; t < hooks[i].n; t++)
			ddl_request_free(hooks[i].tensors[t].average);
	ddl_comm_destroy(comm);
	return !equal;
}
