/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit.c - what this machine's memory allows, so that a benchmark can say how far from it a library is.
 *
 *   limit --ranks 2 --sizes 8,1024 [--budget-ms 50] [--limit-s 60]
 *
 * An all-reduce of S bytes over N ranks of a node must read every rank's input and write every rank's output: N*S bytes read and
 * N*S written, by as many threads as ranks (no more than cores); and no rank can be done before word has come from another core
 * that its input is there. So
 *
 *     limit(S, N) = time in which T = min(N, cores) threads, at once, copy N*S bytes + half a round trip of a flag
 *
 * where the copy is the fastest of three ways: plain vector stores, non-temporal ones, and the C library's memcpy. A thread's
 * source and destination are its own, and stay in its caches where they fit: no library gets the other ranks' data as cheaply.
 *
 * Also told for each size: "exchange", the time in which the same threads sum N float32 inputs into N outputs, each thread its
 * share of the elements, with barriers before and after: what an all-reduce costs that has nothing else to do, traffic between the
 * cores included. And for the machine: the rates of reading, copying and non-temporal copying of DRAM (bytes read plus written),
 * and the round trip of a flag.
 *
 * Thread i runs on the i-th core that the process may use, as rank i does. Output: one line of JSON a size, the machine's last.
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "common.h"

#define LINE         128 /* bytes: two cache lines, which processors fetch in pairs */
#define THREADS_MAX  64
#define SAMPLES      15                 /* of a figure; the median counts */
#define FAR          ((size_t)64 << 20) /* bytes a thread: memory that no cache holds */
#define TRIP_SAMPLES 401                /* of the round trip: short and many, so that the median knows no other process */
#define TRIPS        20                 /* round trips a sample */

typedef float vector __attribute__((vector_size(64), aligned(64), may_alias));

enum way { PLAIN, STREAMED, LIBRARY, READ, N_WAYS };
static const char *const way_names[N_WAYS] = { "plain stores", "non-temporal stores", "memcpy", "reading" };

struct job;

struct worker {
	_Alignas(LINE) struct job *job;
	pthread_t thread;
	int index;               /* of the thread */
	int core;                /* it runs there */
	double us[TRIP_SAMPLES]; /* time of a repetition */
};

struct job {
	void (*work)(struct worker *worker, size_t repetitions); /* what is timed */
	enum way way;                                            /* of storing */
	int n_threads;                                           /* that work at once */
	int n_ranks;                                             /* inputs and outputs of an exchange */
	int n_samples;                                           /* SAMPLES or TRIP_SAMPLES */
	size_t bytes;                                            /* a thread's share of a copy; one rank's buffer of an exchange */
	size_t repetitions;                                      /* a sample; 0: found out */
	double budget_us;                                        /* for all samples */
	char *from[THREADS_MAX];                                 /* inputs */
	char *to[THREADS_MAX];                                   /* outputs */
	struct worker workers[THREADS_MAX];
	_Alignas(LINE) _Atomic unsigned arrived;
	_Alignas(LINE) _Atomic unsigned generation;
	_Alignas(LINE) _Atomic unsigned ping;
	_Alignas(LINE) _Atomic unsigned pong;
};

static void barrier(struct job *job)
{
	const unsigned generation = atomic_load_explicit(&job->generation, memory_order_relaxed);

	if (atomic_fetch_add(&job->arrived, 1) + 1 == (unsigned)job->n_threads) {
		atomic_store_explicit(&job->arrived, 0, memory_order_relaxed);
		atomic_store(&job->generation, generation + 1);
		return;
	}
	while (atomic_load(&job->generation) == generation)
		pause_a_moment();
}

static int can_stream(void)
{
#ifdef __SSE2__
	return 1;
#else
	return 0;
#endif
}

/* A store that goes past the caches, where the processor has one. */
static inline void stream(vector *to, vector value)
{
#if defined(__AVX512F__)
	_mm512_stream_ps((float *)to, (__m512)value);
#elif defined(__AVX__)
	_mm256_stream_ps((float *)to, ((__m256 *)&value)[0]);
	_mm256_stream_ps((float *)to + 8, ((__m256 *)&value)[1]);
#elif defined(__SSE2__)
	for (int i = 0; i < 4; i++)
		_mm_stream_ps((float *)to + 4 * i, ((__m128 *)&value)[i]);
#else
	*to = value;
#endif
}

static void fence(void)
{
#ifdef __SSE2__
	_mm_sfence();
#endif
}

/* Nothing before it may be left out. */
static void keep(const void *memory)
{
	__asm__ volatile("" : : "r"(memory) : "memory");
}

static void copy(enum way way, char *to, const char *from, size_t bytes)
{
	const size_t n = bytes / sizeof(vector);
	const vector *f = (const vector *)from;
	vector *t = (vector *)to, sum[4] = { { 0 } };

	switch (bytes < sizeof(vector) ? LIBRARY : way) {
	case PLAIN:
#pragma GCC unroll 4
		for (size_t i = 0; i < n; i++)
			t[i] = f[i];
		break;
	case STREAMED:
#pragma GCC unroll 4
		for (size_t i = 0; i < n; i++)
			stream(&t[i], f[i]);
		fence();
		break;
	case READ:
		for (size_t i = 0; i + 4 <= n; i += 4) {
			for (size_t k = 0; k < 4; k++)
				sum[k] += f[i + k];
		}
		t[0] = sum[0] + sum[1] + sum[2] + sum[3];
		break;
	default:
		memcpy(to, from, bytes);
	}
	keep(to);
}

/* The worker copies its own buffers, without waiting for the others in between. */
static void work_copy(struct worker *w, size_t repetitions)
{
	const struct job *job = w->job;

	for (size_t i = 0; i < repetitions; i++)
		copy(job->way, job->to[w->index], job->from[w->index], job->bytes);
}

/* Sums elements [begin, end) of every input into every output. */
static void sum_share(struct job *job, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		vector sum = ((const vector *)job->from[0])[i];

		for (int rank = 1; rank < job->n_ranks; rank++)
			sum += ((const vector *)job->from[rank])[i];
		for (int rank = 0; rank < job->n_ranks; rank++) {
			if (job->way == STREAMED)
				stream((vector *)job->to[rank] + i, sum);
			else
				((vector *)job->to[rank])[i] = sum;
		}
	}
	if (job->way == STREAMED)
		fence();
}

static void work_exchange(struct worker *w, size_t repetitions)
{
	struct job *job = w->job;
	const size_t n = (job->bytes + sizeof(vector) - 1) / sizeof(vector);
	const size_t begin = n * (size_t)w->index / (size_t)job->n_threads,
		     end = n * ((size_t)w->index + 1) / (size_t)job->n_threads;

	for (size_t i = 0; i < repetitions; i++) {
		barrier(job);
		sum_share(job, begin, end);
		barrier(job);
		keep(job->to[0]);
	}
}

/* Two threads hand a number to and fro, and look without a pause: the fastest that there is. */
static void work_trip(struct worker *w, size_t repetitions)
{
	struct job *job = w->job;
	const unsigned begin = atomic_load(w->index ? &job->pong : &job->ping);

	barrier(job);
	for (unsigned i = begin + 1; i <= begin + (unsigned)repetitions; i++) {
		if (w->index == 0) {
			atomic_store_explicit(&job->ping, i, memory_order_release);
			while (atomic_load_explicit(&job->pong, memory_order_acquire) != i)
				;
		} else {
			while (atomic_load_explicit(&job->ping, memory_order_acquire) != i)
				;
			atomic_store_explicit(&job->pong, i, memory_order_release);
		}
	}
}

static double sample(struct worker *w)
{
	double begin;

	barrier(w->job);
	begin = now_us();
	w->job->work(w, w->job->repetitions);
	return (now_us() - begin) / (double)w->job->repetitions;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct job *job = w->job;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(w->core, &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (job->repetitions == 0) { /* every thread finds out, thread 0's word counts */
		double begin;

		barrier(job);
		begin = now_us();
		job->work(w, 2);
		begin = (now_us() - begin) / 2;
		barrier(job);
		if (w->index == 0)
			job->repetitions = 1 + (size_t)(job->budget_us / SAMPLES / (begin + 0.001));
		barrier(job);
	}
	sample(w); /* warms up */
	for (int i = 0; i < job->n_samples; i++)
		w->us[i] = sample(w);
	barrier(job);
	return NULL;
}

static void allocate(struct job *job, int n, size_t bytes)
{
	for (int i = 0; i < n; i++) {
		const size_t room = (bytes / 4096 + 2) * 4096;

		job->from[i] = aligned_alloc(4096, room);
		job->to[i] = aligned_alloc(4096, room);
		if (!job->from[i] || !job->to[i]) {
			fprintf(stderr, "limit: no memory for %d times %zu bytes; measure smaller sizes\n", 2 * n, room);
			exit(1);
		}
		memset(job->from[i], 0, room);
		memset(job->to[i], 0, room);
	}
}

static void release(struct job *job, int n)
{
	for (int i = 0; i < n; i++) {
		free(job->from[i]);
		free(job->to[i]);
	}
}

/* Runs the job's threads. Returns the median over the samples of the slowest thread's time of a repetition, in microseconds. */
static double run(struct job *job, const int *cores)
{
	struct worker *first = &job->workers[0];

	for (int i = 0; i < job->n_threads; i++) {
		job->workers[i].job = job;
		job->workers[i].index = i;
		job->workers[i].core = cores[i];
		if (pthread_create(&job->workers[i].thread, NULL, worker_main, &job->workers[i])) {
			fprintf(stderr, "limit: cannot start a thread: %m\n");
			exit(1);
		}
	}
	for (int i = 0; i < job->n_threads; i++)
		pthread_join(job->workers[i].thread, NULL);
	for (int i = 1; i < job->n_threads; i++) {
		for (int k = 0; k < job->n_samples; k++)
			first->us[k] = job->workers[i].us[k] > first->us[k] ? job->workers[i].us[k] : first->us[k];
	}
	sort_doubles(first->us, (size_t)job->n_samples);
	return first->us[job->n_samples / 2];
}

struct options {
	int n_ranks;
	int n_threads;          /* no more than cores */
	int cores[THREADS_MAX]; /* where thread i runs */
	struct sizes sizes;
	double budget_us; /* for a figure */
	unsigned limit_s; /* the program's life */
};

static struct job *job_create(const struct options *o)
{
	struct job *job = aligned_alloc(LINE, (sizeof(*job) + LINE - 1) / LINE * LINE);

	if (!job) {
		fprintf(stderr, "limit: no memory\n");
		exit(1);
	}
	memset(job, 0, sizeof(*job));
	job->n_threads = o->n_threads;
	job->n_ranks = o->n_ranks;
	job->n_samples = SAMPLES;
	job->budget_us = o->budget_us;
	return job;
}

/* Times what threads do with n inputs and outputs of so many bytes. */
static double time_work(const struct options *o, void (*work)(struct worker *, size_t), enum way way, int n, size_t bytes)
{
	struct job *job = job_create(o);
	double us;

	job->work = work;
	job->way = way;
	job->bytes = bytes;
	allocate(job, n, bytes);
	us = run(job, o->cores);
	release(job, n);
	free(job);
	return us;
}

static double time_copy(const struct options *o, enum way way, size_t bytes)
{
	return time_work(o, work_copy, way, o->n_threads, bytes);
}

static double time_exchange(const struct options *o, enum way way, size_t bytes)
{
	return time_work(o, work_exchange, way, o->n_ranks, bytes);
}

/* 0 where there is only one core or rank: then nobody waits for another. */
static double time_trip(const struct options *o)
{
	struct job *job;
	double us;

	if (o->n_threads < 2)
		return 0;
	job = job_create(o);
	job->work = work_trip;
	job->n_threads = 2;
	job->repetitions = TRIPS;
	job->n_samples = TRIP_SAMPLES;
	us = run(job, o->cores);
	free(job);
	return us;
}

static void tell_size(const struct options *o, size_t bytes, double trip_us)
{
	const size_t share = (bytes * (size_t)o->n_ranks + (size_t)o->n_threads - 1) / (size_t)o->n_threads;
	double copy_us = 0, exchange_us = 0;
	enum way best = PLAIN;

	for (enum way way = PLAIN; way <= LIBRARY; way++) {
		double us;

		if (way == STREAMED && !can_stream())
			continue;
		us = time_copy(o, way, share);
		if (way == PLAIN || us < copy_us) {
			copy_us = us;
			best = way;
		}
	}
	for (enum way way = PLAIN; way <= (can_stream() ? STREAMED : PLAIN); way++) {
		const double us = time_exchange(o, way, bytes);

		exchange_us = way == PLAIN || us < exchange_us ? us : exchange_us;
	}
	printf("{\"bytes\": %zu, \"us\": %.4f, \"how\": \"%s\", \"exchange_us\": %.4f}\n", bytes, copy_us + trip_us / 2,
	       way_names[best], exchange_us);
	fflush(stdout);
}

static void tell_machine(const struct options *o, double trip_us)
{
	const double gigabytes = (double)FAR * o->n_threads / 1e3; /* divided by microseconds: GB/s */

	printf("{\"threads\": %d, \"read_GBps\": %.1f, \"copy_GBps\": %.1f, \"nontemporal_copy_GBps\": %.1f, "
	       "\"flag_round_trip_us\": %.4f}\n",
	       o->n_threads, gigabytes / time_copy(o, READ, FAR), 2 * gigabytes / time_copy(o, PLAIN, FAR),
	       can_stream() ? 2 * gigabytes / time_copy(o, STREAMED, FAR) : 0.0, trip_us);
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = { { "ranks", 1, NULL, 'n' },
					       { "sizes", 1, NULL, 's' },
					       { "budget-ms", 1, NULL, 'm' },
					       { "limit-s", 1, NULL, 'l' },
					       { NULL, 0, NULL, 0 } };
	int c, bad = 0;

	while (!bad && (c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == 'n')
			bad = (o->n_ranks = atoi(optarg)) < 1 || o->n_ranks > THREADS_MAX;
		else if (c == 's')
			bad = sizes_parse(optarg, &o->sizes) < 0;
		else if (c == 'm')
			bad = (o->budget_us = atof(optarg) * 1e3) <= 0;
		else if (c == 'l')
			bad = (o->limit_s = (unsigned)atoi(optarg)) == 0;
		else
			bad = 1;
	}
	if (bad || o->n_ranks == 0 || o->sizes.n == 0) {
		fprintf(stderr, "usage: limit --ranks N --sizes BYTES,... [--budget-ms 50] [--limit-s 60]; at most %d ranks\n",
			THREADS_MAX);
		return -1;
	}
	return 0;
}

static int find_cores(struct options *o)
{
	cpu_set_t all;

	if (sched_getaffinity(0, sizeof(all), &all) < 0) {
		fprintf(stderr, "limit: cannot ask for the cores: %m\n");
		return -1;
	}
	for (int core = 0; core < CPU_SETSIZE && o->n_threads < o->n_ranks; core++) {
		if (CPU_ISSET(core, &all))
			o->cores[o->n_threads++] = core;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .budget_us = 50e3, .limit_s = 60 };
	double trip_us;

	if (parse(argc, argv, &o) < 0)
		return 2;
	alarm(o.limit_s);
	if (find_cores(&o) < 0)
		return 1;
	trip_us = time_trip(&o);
	for (size_t i = 0; i < o.sizes.n; i++)
		tell_size(&o, o.sizes.bytes[i], trip_us);
	tell_machine(&o, trip_us);
	return 0;
}
