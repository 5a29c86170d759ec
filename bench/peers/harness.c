/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.c - the common main of the benchmark programs.
 *
 * Each size: one all-reduce that is checked; a few to warm up, from which rank 0 takes how many fit into the time; the timed ones,
 * a barrier before each; one more that is checked. The time of an iteration is that of the slowest rank, from when it left the
 * barrier to when its result was complete; the figure is the median over the iterations. In place the timed iterations sum zeros,
 * so that nothing overflows. Where the first takes longer than the whole budget nothing more warms up, and --least says how many
 * timed ones there are at least (3); with 0 the figure is then the time of the one that is checked last.
 *
 *   PROGRAM --board FILE --out FILE --folder FOLDER --sizes 8,1024 [--type float32|bfloat16] [--wire native] [--buffers malloc]
 *           [--in-place] [--fresh] [--budget-ms 50] [--least 3] [--limit-s 60] [--interface NAME] [--rank R --size N]
 *
 * Rank and size come from the launcher's environment where they are not given. Rank 0 writes one line of JSON a size to --out.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board.h"
#include "common.h"
#include "data.h"
#include "ranks.h"

#define WARMUP 5 /* iterations after the first, which is all that one gets that takes long */
#define PAGE   4096

struct options {
	struct ranks_options common;
	struct sizes sizes;
	int in_place;     /* send == recv */
	int fresh;        /* every rank writes its input anew before every iteration */
	double budget_us; /* for the timed iterations of a size */
	size_t least;     /* timed iterations, however long they take */
};

static struct board *board; /* of this run */

static int parse_type(const char *text, enum bench_type *type)
{
	if (strcmp(text, "float32") && strcmp(text, "bfloat16"))
		return -1;
	*type = strcmp(text, "float32") ? BENCH_BFLOAT16 : BENCH_FLOAT32;
	return 0;
}

static int parse_option(int c, const char *value, struct options *o)
{
	switch (c) {
	case 's':
		return sizes_parse(value, &o->sizes);
	case 't':
		return parse_type(value, &o->common.settings.type);
	case 'w':
		o->common.settings.wire = value;
		return 0;
	case 'u':
		o->common.settings.buffers = value;
		return strcmp(value, "malloc") && strcmp(value, "ddl_mem") ? -1 : 0;
	case 'p':
		o->in_place = 1;
		return 0;
	case 'e':
		o->fresh = 1;
		return 0;
	case 'm':
		o->budget_us = atof(value) * 1e3;
		return o->budget_us > 0 ? 0 : -1;
	case 'a':
		o->least = (size_t)atoi(value);
		return o->least <= BOARD_SAMPLES ? 0 : -1;
	default:
		return ranks_option(c, value, &o->common);
	}
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
		RANKS_OPTIONS,
		{ "sizes", 1, NULL, 's' },
		{ "type", 1, NULL, 't' },
		{ "wire", 1, NULL, 'w' },
		{ "buffers", 1, NULL, 'u' },
		{ "in-place", 0, NULL, 'p' },
		{ "fresh", 0, NULL, 'e' },
		{ "budget-ms", 1, NULL, 'm' },
		{ "least", 1, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	ranks_from_environment(&o->common.settings);
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (parse_option(c, optarg, o) < 0) {
			fprintf(stderr, "harness: \"%s\" is no option, or not with that value; see the top of harness.c\n",
				argv[optind - 1]);
			return -1;
		}
	}
	if (ranks_check(&o->common.settings) < 0)
		return -1;
	if (!o->common.board || !o->common.out || !o->common.settings.folder || o->sizes.n == 0) {
		fprintf(stderr, "harness: --board, --out, --folder and --sizes are needed\n");
		return -1;
	}
	return 0;
}

/* The slowest rank's time of every iteration, sorted, in rank 0's samples. */
static double *slowest(int size, size_t iterations)
{
	double *samples = board_samples(board, 0);

	for (int rank = 1; rank < size; rank++) {
		const double *other = board_samples(board, rank);

		for (size_t i = 0; i < iterations; i++)
			samples[i] = other[i] > samples[i] ? other[i] : samples[i];
	}
	sort_doubles(samples, iterations);
	return samples;
}

/* Writes every cache line of the input, so that it is the writer's again, as a gradient is that has just been computed. */
static void refresh(const struct bench_call *call)
{
	volatile unsigned char *bytes = call->send;

	for (size_t i = 0; i < call->count * data_type_size(call->type); i += 64)
		bytes[i] = bytes[i];
}

static int iterate(const struct options *o, const struct bench_call *call, size_t n)
{
	double *samples = board_samples(board, o->common.settings.rank);

	for (size_t i = 0; i < n; i++) {
		double begin;

		if (o->fresh)
			refresh(call);
		board_barrier(board);
		begin = now_us();
		if (bench_peer.run(call) < 0)
			return -1;
		samples[i] = now_us() - begin;
	}
	board_barrier(board);
	return 0;
}

/* One all-reduce of known data; *correct stays 1 only if every element of every rank is the sum. Its time: the first sample. */
static int checked(const struct options *o, const struct bench_call *call, int *correct)
{
	const struct bench_settings *s = &o->common.settings;
	double got = 0, expected = 0, begin;
	size_t wrong;

	data_poison(call->recv, call->count * data_type_size(call->type));
	data_fill(call->type, call->send, call->count, s->rank);
	board_barrier(board);
	begin = now_us();
	if (bench_peer.run(call) < 0)
		return -1;
	board_samples(board, s->rank)[0] = now_us() - begin;
	wrong = data_check(call->type, call->recv, call->count, s->size, &got, &expected);
	if (wrong < call->count)
		fprintf(stderr, "harness: %s: rank %d, element %zu of %zu is %g and should be %g\n", bench_peer.name, s->rank,
			wrong, call->count, got, expected);
	board_verdict(board, wrong == call->count);
	board_barrier(board);
	*correct = *correct && board_all_correct(board);
	board_barrier(board);
	return 0;
}

/* What rank 0 has measured so far, told to all; the first `n` samples of the slowest ranks, the one in the middle. */
static int agree(const struct options *o, size_t n, double *us)
{
	*us = slowest(o->common.settings.size, n)[n / 2] + 0.1;
	return board_share(board, us, sizeof(*us));
}

/* How many iterations fit into the budget, judged by the first one and the warm-up; rank 0 decides. */
static int choose_iterations(const struct options *o, const struct bench_call *call, size_t *iterations)
{
	size_t warmup = 1;
	double us, fit;

	if (agree(o, 1, &us) < 0)
		return -1;
	for (fit = o->budget_us / us; fit > 1 && warmup <= 1 + WARMUP; warmup += WARMUP) {
		if (iterate(o, call, warmup) < 0 || agree(o, warmup, &us) < 0)
			return -1;
		fit = o->budget_us / us;
		if (fit <= 2 * WARMUP)
			break;
	}
	*iterations = fit < (double)o->least ? o->least : fit > BOARD_SAMPLES ? BOARD_SAMPLES : (size_t)fit;
	return 0;
}

static int measure_call(const struct options *o, const struct bench_call *call, FILE *out)
{
	const size_t bytes = call->count * data_type_size(call->type);
	size_t iterations;
	int correct = 1, closed = 0;

	if (checked(o, call, &correct) < 0)
		return -1;
	if (o->in_place)
		memset(call->send, 0, bytes);
	if (choose_iterations(o, call, &iterations) < 0 || iterate(o, call, iterations) < 0)
		return -1;
	if (iterations == 0) {
		iterations = 1;
		if (checked(o, call, &correct) < 0)
			return -1;
		closed = 1;
	}
	if (out) {
		const double *samples = slowest(o->common.settings.size, iterations);

		fprintf(out, "{\"bytes\": %zu, \"us\": %.4f, \"min_us\": %.4f, \"iterations\": %zu, ", bytes,
			median(samples, iterations), samples[0], iterations);
	}
	if (!closed && checked(o, call, &correct) < 0)
		return -1;
	if (out)
		fprintf(out, "\"correct\": %s}\n", correct ? "true" : "false");
	return 0;
}

static int allocate(size_t bytes, void **memory)
{
	if (bench_peer.alloc)
		return bench_peer.alloc(bytes, memory);
	*memory = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
	if (*memory)
		return 0;
	fprintf(stderr, "harness: no memory for %zu bytes\n", bytes);
	return -1;
}

static void release(void *memory)
{
	if (bench_peer.release)
		bench_peer.release(memory);
	else
		free(memory);
}

static int measure_size(const struct options *o, size_t bytes, FILE *out)
{
	struct bench_call call = { .type = o->common.settings.type, .count = bytes / data_type_size(o->common.settings.type) };
	int rc = -1;

	if (call.count == 0)
		call.count = 1;
	if (allocate(bytes, &call.recv) < 0)
		return -1;
	call.send = call.recv;
	if (!o->in_place && allocate(bytes, &call.send) < 0)
		goto release_recv;
	data_poison(call.recv, call.count * data_type_size(call.type)); /* no page fault is timed */
	data_poison(call.send, call.count * data_type_size(call.type));
	if (bench_peer.prepare && bench_peer.prepare(&call) < 0)
		goto release_send;
	rc = measure_call(o, &call, out);
	if (bench_peer.finish)
		bench_peer.finish(&call);
release_send:
	if (call.send != call.recv)
		release(call.send);
release_recv:
	release(call.recv);
	return rc;
}

static int measure(const struct options *o)
{
	FILE *out = NULL;
	int rc = 0;

	if (o->common.settings.rank == 0) {
		out = fopen(o->common.out, "w");
		if (!out) {
			fprintf(stderr, "harness: cannot write \"%s\": %m\n", o->common.out);
			return -1;
		}
	}
	for (size_t i = 0; rc == 0 && i < o->sizes.n; i++)
		rc = measure_size(o, o->sizes.bytes[i], out);
	if (out && fclose(out) != 0) {
		fprintf(stderr, "harness: cannot write \"%s\": %m\n", o->common.out);
		rc = -1;
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct options o = {
		.common = RANKS_DEFAULTS,
		.budget_us = 50e3,
		.least = 3,
	};
	int rc = -1;

	if (parse(argc, argv, &o) < 0)
		return 2;
	alarm(o.common.limit_s);
	board = ranks_meet(&o.common.settings, o.common.board);
	if (board && bench_peer.open(&o.common.settings) == 0) {
		board_barrier(board);
		rc = measure(&o);
		if (rc == 0)
			bench_peer.close();
	}
	board_close(board);
	return rc < 0 ? 1 : 0;
}
