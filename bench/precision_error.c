/* SPDX-License-Identifier: Apache-2.0 */
/*
 * precision-error RANKS COUNT - how wrong all-reduces of float32 are on each wire: by named algorithms, rounding to nearest and by
 * chance, and by each accuracy. All ranks are in this process, over transport/loop, on nodes of their own below switches of eight.
 * Inputs are numbers from -1 to 1 that fill float32; what is right is their sum in float64.
 *
 * A line of JSON each: {ranks, wire, how, algorithm, rounding, rms, most}; errors in units in the last place as in
 * runtime/reduce/ulp.h. how: "ring", "multiring", "direct": the algorithm that was named; "fast", "flat": the accuracy.
 */
#include <err.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "comm.h"
#include "engine.h"
#include "ulp.h"

enum { LEAF = 8, RANKS_MAX = 1024, COUNT_MAX = 1 << 20, TIMEOUT_MS = 60000, PASSES_MAX = 10000000 };

struct world {
	int n;
	size_t count;
	struct ddl__loop_world *loop;
	struct ddl_comm **comms;
	struct ddl_request **requests;
	float **data;  /* of each rank: inputs, then results */
	float *inputs; /* of all ranks */
	double *right; /* their sums */
};

struct kind { /* what is measured */
	enum ddl_wire wire;
	const char *how;
	const char *algorithm; /* NULL: by accuracy */
	enum ddl_accuracy accuracy;
	enum ddl_rounding rounding;
};

static void *allocate(size_t n, size_t size)
{
	void *memory = calloc(n, size);
	if (!memory)
		errx(1, "precision-error: out of memory");
	return memory;
}

static float input(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return (float)((int64_t)(x >> 39) - (1 << 24)) * 0x1p-24f;
}

static char *plan_text(int n)
{
	char *text = allocate((size_t)n + 8, 32), *at = text;
	at += sprintf(at, "1;job=;mode=multiring;src=none/tree;tree=root(");
	for (int first = 0; first < n; first += LEAF) {
		const int last = first + LEAF <= n ? first + LEAF - 1 : n - 1;
		at += sprintf(at, "%ss%d(", first ? "," : "", first / LEAF);
		for (int i = first; i <= last; i++)
			at += sprintf(at, "%sn%d", i > first ? "," : "", i);
		at += sprintf(at, ")");
	}
	strcpy(at, ")");
	return text;
}

static void world_init(struct world *w)
{
	char *text = plan_text(w->n);
	size_t *nodes = allocate((size_t)w->n, sizeof(*nodes));
	struct ddl_error err;
	for (int r = 0; r < w->n; r++)
		nodes[r] = (size_t)r;
	w->loop = ddl__loop_world_create(w->n);
	w->comms = allocate((size_t)w->n, sizeof(struct ddl_comm *));
	w->requests = allocate((size_t)w->n, sizeof(struct ddl_request *));
	w->data = allocate((size_t)w->n, sizeof(float *));
	w->inputs = allocate((size_t)w->n * w->count, sizeof(float));
	w->right = allocate(w->count, sizeof(double));
	for (int r = 0; r < w->n; r++) {
		if (ddl__comm_create_loop(w->loop, text, nodes, r, w->n, TIMEOUT_MS, &w->comms[r], &err) < 0)
			errx(1, "precision-error: rank %d: %s", r, err.text);
		w->data[r] = allocate(w->count, sizeof(float));
		for (size_t i = 0; i < w->count; i++) {
			w->inputs[(size_t)r * w->count + i] = input((uint64_t)r << 32 | i);
			w->right[i] += (double)input((uint64_t)r << 32 | i);
		}
	}
	free(nodes);
	free(text);
}

static void *destroy(void *comm)
{
	ddl_comm_destroy(comm);
	return NULL;
}

/* The ranks say goodbye to each other: that takes a thread each. */
static void world_fini(struct world *w)
{
	pthread_t *threads = allocate((size_t)w->n, sizeof(*threads));
	for (int r = 0; r < w->n; r++)
		if (pthread_create(&threads[r], NULL, destroy, w->comms[r]) != 0)
			errx(1, "precision-error: no thread for rank %d", r);
	for (int r = 0; r < w->n; r++) {
		pthread_join(threads[r], NULL);
		free(w->data[r]);
	}
	ddl__loop_world_destroy(w->loop);
	free(threads);
	free(w->comms);
	free(w->requests);
	free(w->data);
	free(w->inputs);
	free(w->right);
}

/* Drives all ranks in turn until each is complete. */
static void drive(struct world *w)
{
	int left = w->n;
	for (int r = 0; r < w->n; r++)
		ddl_start(w->requests[r]);
	for (int pass = 0; left && pass < PASSES_MAX; pass++) {
		left = 0;
		for (int r = 0; r < w->n; r++) {
			const int rc = ddl_test(w->requests[r]);
			if (rc < 0)
				errx(1, "precision-error: rank %d failed", r);
			left += rc == 0;
		}
	}
	if (left)
		errx(1, "precision-error: %d ranks do not end", left);
}

static void show(const struct world *w, const struct kind *kind, const struct ddl__ulp *ulp)
{
	char how[DDL__CANDIDATE_TEXT_SIZE];
	const char *wire = ddl__wire_name(kind->wire);
	printf("{\"ranks\": %d, \"wire\": \"%s\", \"how\": \"%s\", \"algorithm\": \"%s\", \"rounding\": \"%s\", \"rms\": %.6g, "
	       "\"most\": %.6g}\n",
	       w->n, wire, kind->how, ddl__call_how(&w->requests[0]->call, how),
	       kind->rounding == DDL_ROUND_NEAREST ? "nearest" : "stochastic", ddl__ulp_rms(ulp), ulp->most);
	fflush(stdout);
}

static void measure(struct world *w, const struct kind *kind)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl__ulp ulp = { 0 };
	struct ddl_error err;
	options.wire = kind->wire;
	options.algorithm = kind->algorithm;
	options.accuracy = kind->accuracy;
	options.rounding = kind->rounding;
	options.rings = 1;
	for (int r = 0; r < w->n; r++) {
		memcpy(w->data[r], w->inputs + (size_t)r * w->count, w->count * sizeof(float));
		if (ddl_allreduce_init(w->data[r], w->data[r], w->count, DDL_FLOAT32, DDL_SUM, w->comms[r], &options,
				       &w->requests[r], &err) < 0)
			errx(1, "precision-error: %d ranks, %s: %s", w->n, kind->how, err.text);
	}
	drive(w);
	for (int r = 1; r < w->n; r++)
		if (memcmp(w->data[0], w->data[r], w->count * sizeof(float)) != 0)
			errx(1, "precision-error: %d ranks, %s: rank %d has other bits than rank 0", w->n, kind->how, r);
	for (size_t i = 0; i < w->count; i += DDL__ULP_BLOCK) {
		const size_t n = w->count - i < DDL__ULP_BLOCK ? w->count - i : DDL__ULP_BLOCK;
		double got[DDL__ULP_BLOCK];
		for (size_t j = 0; j < n; j++)
			got[j] = w->data[0][i + j];
		ddl__ulp_add(&ulp, DDL_FLOAT32, kind->wire, got, w->right + i, n);
	}
	show(w, kind, &ulp);
	for (int r = 0; r < w->n; r++)
		ddl_request_free(w->requests[r]);
}

/* Two dimensions as equal as powers of two can be. */
static void write_multiring(int n, char *name, size_t size)
{
	int first = 1;
	while (first * first < n)
		first *= 2;
	if (n >= 4 && n % first == 0)
		snprintf(name, size, "multiring:%dx%d", n / first, first);
	else
		snprintf(name, size, "multiring");
}

static void measure_all(struct world *w)
{
	char multiring[32];
	write_multiring(w->n, multiring, sizeof(multiring));
	for (int wire = DDL_WIRE_BFLOAT16; wire <= DDL_WIRE_INT8; wire++)
		for (int rounding = DDL_ROUND_NEAREST; rounding <= DDL_ROUND_STOCHASTIC; rounding++) {
			const struct kind kinds[] = {
				{ (enum ddl_wire)wire, "ring", "ring", DDL_ACCURACY_AUTO, (enum ddl_rounding)rounding },
				{ (enum ddl_wire)wire, "multiring", multiring, DDL_ACCURACY_AUTO, (enum ddl_rounding)rounding },
				{ (enum ddl_wire)wire, "direct", "direct", DDL_ACCURACY_AUTO, (enum ddl_rounding)rounding },
				{ (enum ddl_wire)wire, "fast", NULL, DDL_ACCURACY_FAST, (enum ddl_rounding)rounding },
				{ (enum ddl_wire)wire, "flat", NULL, DDL_ACCURACY_FLAT, (enum ddl_rounding)rounding },
			};
			for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
				measure(w, &kinds[k]);
		}
}

int main(int argc, char **argv)
{
	struct rlimit files = { 0 };
	struct world w = { .n = argc == 3 ? atoi(argv[1]) : 0, .count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0 };
	if (w.n < 2 || w.n > RANKS_MAX || w.count < 1 || w.count > COUNT_MAX)
		errx(2, "usage: precision-error RANKS COUNT (2 to %d, 1 to %d)", RANKS_MAX, COUNT_MAX);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max; /* each rank has descriptors of its own */
	setrlimit(RLIMIT_NOFILE, &files);
	unsetenv("DDL_ALGO");
	world_init(&w);
	measure_all(&w);
	world_fini(&w);
	return 0;
}
