/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlap.c - a step of training without the training: gradients are summed while others are still computed.
 *
 * The list holds the messages in the order of the forward pass, each with the work behind it. Backward: from the last to the first
 * the work of a message is done, then its all-reduce is started. Forward: from the first to the last a message is waited for, then
 * its work is done. Of the compute time BACKWARD parts go to the backward pass, in it and in the forward pass by the work.
 *
 * Compute is a sleep, as a GPU's work is to the host: then it goes on whatever the host does, and only a wait holds it up. With
 * --busy it is arithmetic. Ranks and threads are bound to no core. Every --test-us of it the oldest request that is not complete is
 * tested, as programs must that have no thread for progress; 0: never.
 *
 *   PROGRAM --board FILE --out FILE --folder FOLDER --list FILE --compute-ms X [--test-us 1000] [--busy] [--way WAY]
 *           [--iterations 3] [--limit-s 60] [--interface NAME] [--rank R --size N]
 *
 * One start of all messages at once is checked, another is timed (alone_us); then the iterations, of which the last is checked.
 * Each figure is that of the slowest rank, the median over the iterations; rank 0 writes them as a line of JSON to --out.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "board.h"
#include "common.h"
#include "data.h"
#include "ranks.h"

#define MESSAGES_MAX   1024
#define ITERATIONS_MAX 64
#define BACKWARD       2 /* parts of the compute time; the forward pass has one */
#define PAGE           4096

enum figure { ALONE, COMPUTE, TOTAL, FIRST, STALL, FIGURES }; /* microseconds; see print() */

struct message {
	struct bench_call call;
	void *handle;
	double work;  /* share of the whole */
	int complete; /* in this iteration */
};

struct options {
	struct ranks_options common;
	const char *list;
	double compute_us, test_us; /* test_us 0: never */
	int busy;                   /* compute is arithmetic, else a sleep */
	int iterations;
};

struct run {
	const struct options *o;
	struct message messages[MESSAGES_MAX]; /* in the order of the forward pass */
	int n;
	int oldest;         /* of those started the first that was not complete when it was tested last */
	double cursor;      /* when the work so far is done, where it is a sleep */
	double rounds_a_us; /* of the arithmetic */
	float state[64];    /* its numbers */
};

static struct run run;

/* Compute */

static void arithmetic(struct run *r, double rounds)
{
	for (double i = 0; i < rounds; i++)
		for (int k = 0; k < 64; k++)
			r->state[k] = r->state[k] * 0.999f + 0.5f;
	__asm__ volatile("" ::"r"(r->state) : "memory");
}

static void calibrate(struct run *r)
{
	double begin;

	arithmetic(r, 1e5);
	bench_barrier();
	begin = now_us();
	arithmetic(r, 2e6);
	r->rounds_a_us = 2e6 / (now_us() - begin);
}

static void sleep_until(double us)
{
	struct timespec t = { .tv_sec = (time_t)(us / 1e6), .tv_nsec = (long)((us - 1e6 * (double)(time_t)(us / 1e6)) * 1e3) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* Tests the oldest request of those that are started, which are the last ones of the list from `first` on. */
static int test_one(struct run *r, int first)
{
	int rc;

	while (r->oldest >= first && r->messages[r->oldest].complete)
		r->oldest--;
	if (r->oldest < first)
		return 0;
	rc = bench_async.test(r->messages[r->oldest].handle);
	if (rc > 0)
		r->messages[r->oldest].complete = 1;
	return rc < 0 ? -1 : 0;
}

/* So much work, of which the first message that is started is `first`. */
static int compute(struct run *r, double us, int first)
{
	const double piece = r->o->test_us > 0 ? r->o->test_us : us;

	for (double left = us; left > 0; left -= piece) {
		double now = left < piece ? left : piece;

		r->cursor += now;
		if (r->o->busy)
			arithmetic(r, now * r->rounds_a_us);
		else
			sleep_until(r->cursor);
		if (r->o->test_us > 0 && test_one(r, first) < 0)
			return -1;
	}
	return 0;
}

/* One iteration */

static int start(struct run *r, int i)
{
	r->messages[i].complete = 0;
	return bench_async.start(r->messages[i].handle);
}

/* Waits for a message; returns by how much the work was held up, or -1. */
static double held_up(struct run *r, int i)
{
	double now, begin = r->o->busy ? now_us() : r->cursor;

	if (!r->messages[i].complete && bench_async.wait(r->messages[i].handle) < 0)
		return -1;
	r->messages[i].complete = 1;
	now = now_us();
	if (now <= begin)
		return 0;
	r->cursor = now;
	return now - begin;
}

static int iterate(struct run *r, double compute_us, double figures[FIGURES])
{
	double begin, stall;

	bench_barrier();
	begin = r->cursor = now_us();
	r->oldest = r->n - 1;
	figures[STALL] = 0;
	for (int i = r->n - 1; i >= 0; i--) {
		if (compute(r, compute_us * BACKWARD / (BACKWARD + 1) * r->messages[i].work, i + 1) < 0 || start(r, i) < 0)
			return -1;
	}
	for (int i = 0; i < r->n; i++) {
		stall = held_up(r, i);
		if (stall < 0)
			return -1;
		figures[STALL] += stall;
		if (i == 0)
			figures[FIRST] = stall;
		if (compute(r, compute_us / (BACKWARD + 1) * r->messages[i].work, i + 1) < 0)
			return -1;
	}
	figures[TOTAL] = now_us() - begin;
	return 0;
}

/* The time of so much work without any message. */
static double compute_alone(struct run *r, double us)
{
	double begin;

	if (!r->o->busy)
		return us;
	bench_barrier();
	begin = now_us();
	arithmetic(r, us * r->rounds_a_us);
	return now_us() - begin;
}

/* Data */

static void fill(const struct run *r)
{
	for (int i = 0; i < r->n; i++)
		data_fill(BENCH_FLOAT32, r->messages[i].call.send, r->messages[i].call.count, r->o->common.settings.rank);
}

static int check(const struct run *r)
{
	double got, expected;

	for (int i = 0; i < r->n; i++) {
		const struct bench_call *call = &r->messages[i].call;
		size_t wrong = data_check(BENCH_FLOAT32, call->recv, call->count, r->o->common.settings.size, &got, &expected);

		if (wrong == call->count)
			continue;
		fprintf(stderr, "overlap: %s: rank %d, message %d, element %zu of %zu is %g and should be %g\n", bench_peer.name,
			r->o->common.settings.rank, i, wrong, call->count, got, expected);
		return -1;
	}
	return 0;
}

static void zero(const struct run *r)
{
	for (int i = 0; i < r->n; i++)
		memset(r->messages[i].call.send, 0, r->messages[i].call.count * data_type_size(BENCH_FLOAT32));
}

/* The list: a line a message, its name, elements and work; # begins a comment. */
static int read_list(struct run *r)
{
	FILE *file = fopen(r->o->list, "r");
	char line[256];
	double sum = 0;

	if (!file) {
		fprintf(stderr, "overlap: cannot read \"%s\": %m\n", r->o->list);
		return -1;
	}
	while (r->n < MESSAGES_MAX && fgets(line, sizeof(line), file)) {
		struct message *m = &r->messages[r->n];

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%*s %zu %lf", &m->call.count, &m->work) != 2 || m->call.count == 0 || m->work < 0) {
			fprintf(stderr, "overlap: \"%s\" has a line that is not: name elements work\n", r->o->list);
			fclose(file);
			return -1;
		}
		sum += m->work;
		r->n++;
	}
	fclose(file);
	for (int i = 0; i < r->n; i++)
		r->messages[i].work /= sum;
	return sum > 0 ? 0 : -1;
}

/* The requests, in place; of one memory, as frameworks keep gradients. */
static int make_messages(struct run *r)
{
	size_t bytes = 0;
	char *memory;

	for (int i = 0; i < r->n; i++)
		bytes += (r->messages[i].call.count * sizeof(float) + PAGE - 1) / PAGE * PAGE;
	memory = aligned_alloc(PAGE, bytes); /* lives as long as the program */
	if (!memory) {
		fprintf(stderr, "overlap: no memory for %zu bytes\n", bytes);
		return -1;
	}
	for (int i = 0; i < r->n; i++) {
		struct bench_call *call = &r->messages[i].call;

		call->type = BENCH_FLOAT32;
		call->send = call->recv = memory;
		memory += (call->count * sizeof(float) + PAGE - 1) / PAGE * PAGE;
		if (bench_async.add(call, r->n - i, &r->messages[i].handle) < 0)
			return -1;
	}
	return 0;
}

/* Measuring */

static double median_of_slowest(const struct options *o, struct board *board, int figure)
{
	double values[ITERATIONS_MAX];

	for (int i = 0; i < o->iterations; i++) {
		values[i] = 0;
		for (int rank = 0; rank < o->common.settings.size; rank++) {
			double value = board_samples(board, rank)[i * FIGURES + figure];

			values[i] = value > values[i] ? value : values[i];
		}
	}
	sort_doubles(values, (size_t)o->iterations);
	return median(values, (size_t)o->iterations);
}

static int print(const struct options *o, struct board *board, int n, int correct)
{
	FILE *out = fopen(o->common.out, "w");

	if (!out) {
		fprintf(stderr, "overlap: cannot write \"%s\": %m\n", o->common.out);
		return -1;
	}
	fprintf(out, "{\"messages\": %d, \"alone_us\": %.1f, \"compute_us\": %.1f, \"total_us\": %.1f, ", n,
		median_of_slowest(o, board, ALONE), median_of_slowest(o, board, COMPUTE), median_of_slowest(o, board, TOTAL));
	fprintf(out, "\"first_us\": %.1f, \"stall_us\": %.1f, \"iterations\": %d, \"correct\": %s}\n",
		median_of_slowest(o, board, FIRST), median_of_slowest(o, board, STALL), o->iterations, correct ? "true" : "false");
	return fclose(out) == 0 ? 0 : -1;
}

static int measure(struct run *r, struct board *board)
{
	const struct options *o = r->o;
	double *samples = board_samples(board, o->common.settings.rank), alone[FIGURES] = { 0 };
	int correct = 1;

	fill(r);
	if (iterate(r, 0, alone) < 0)
		return -1;
	correct = check(r) == 0;
	zero(r);
	if (iterate(r, 0, alone) < 0)
		return -1;
	for (int i = 0; i < o->iterations; i++) {
		double *figures = samples + i * FIGURES;

		figures[COMPUTE] = compute_alone(r, o->compute_us);
		if (i + 1 == o->iterations)
			fill(r);
		if (iterate(r, o->compute_us, figures) < 0)
			return -1;
		figures[ALONE] = alone[TOTAL];
	}
	board_verdict(board, correct && check(r) == 0);
	board_barrier(board);
	return o->common.settings.rank == 0 ? print(o, board, r->n, board_all_correct(board)) : 0;
}

/* The command line */

static int parse_option(int c, const char *value, struct options *o)
{
	switch (c) {
	case 'L':
		o->list = value;
		return 0;
	case 'c':
		o->compute_us = atof(value) * 1e3;
		return o->compute_us > 0 ? 0 : -1;
	case 't':
		o->test_us = atof(value);
		return o->test_us >= 0 ? 0 : -1;
	case 'y':
		o->busy = 1;
		return 0;
	case 'w':
		o->common.settings.way = value;
		return 0;
	case 'k':
		o->iterations = atoi(value);
		return o->iterations > 0 && o->iterations <= ITERATIONS_MAX ? 0 : -1;
	default:
		return ranks_option(c, value, &o->common);
	}
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
		RANKS_OPTIONS,
		{ "list", 1, NULL, 'L' },
		{ "compute-ms", 1, NULL, 'c' },
		{ "test-us", 1, NULL, 't' },
		{ "busy", 0, NULL, 'y' },
		{ "way", 1, NULL, 'w' },
		{ "iterations", 1, NULL, 'k' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	ranks_from_environment(&o->common.settings);
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (parse_option(c, optarg, o) < 0) {
			fprintf(stderr, "overlap: \"%s\" is no option, or not with that value; see the top of overlap.c\n",
				argv[optind - 1]);
			return -1;
		}
	}
	if (!o->common.board || !o->common.out || !o->common.settings.folder || !o->list || o->compute_us <= 0) {
		fprintf(stderr, "overlap: --board, --out, --folder, --list and --compute-ms are needed\n");
		return -1;
	}
	return ranks_check(&o->common.settings);
}

int main(int argc, char **argv)
{
	static struct options o = {
		.common = RANKS_DEFAULTS,
		.test_us = 1000,
		.iterations = 3,
	};
	struct board *board;
	int rc = -1;

	if (parse(argc, argv, &o) < 0)
		return 2;
	o.common.settings.unbound = 1;
	alarm(o.common.limit_s);
	run.o = &o;
	if (read_list(&run) < 0)
		return 2;
	board = ranks_meet(&o.common.settings, o.common.board);
	if (board && bench_peer.open(&o.common.settings) == 0 && make_messages(&run) == 0) {
		if (o.busy)
			calibrate(&run);
		rc = measure(&run, board);
		for (int i = 0; i < run.n; i++)
			bench_async.drop(run.messages[i].handle);
		if (rc == 0)
			bench_peer.close();
	}
	board_close(board);
	return rc < 0 ? 1 : 0;
}
