/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_kernels.c - `ddl perf kernels`: how fast this core reduces and converts, beside what it can move at all.
 *
 * Everything happens on one core, with working sets that fit the first cache, the second, and neither. The limits are loops that
 * only move bytes, in the widest vectors of the CPU: read, copy, copy past the caches, and add (each word of one array into one of
 * another). The limit of a kernel is put together from them: what it writes at the speed of the copy (of the add, where it works
 * in place), what else it reads at the speed of reading. All are measured several times, the limits before every set and after
 * the last, and the fastest of each counts.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "error.h"
#include "perf.h"
#include "reduce.h"
#include "tools.h"

#define TOOL "perf kernels"

enum { L1, L2, MEMORY, LEVELS };
enum { READ, COPY, STREAM_COPY, ADD, LIMITS };
enum kind { STORE, WIRE, ENCODE, FINISH, MANY };
enum { ALIGN = 64, ARRAYS = 5, RANKS = 3, ROUND_US = 2000, ROUNDS = 5 };

static const char *const level_names[] = { "L1", "L2", "memory" };
static const char *const limit_names[] = { "read", "copy", "copy past the caches", "add" };

/* What is measured of each set; n_src and n_dst of reduce-many. */
static const struct row {
	const char *name;
	enum kind kind;
	enum ddl_op op;
	enum ddl_type type;
	enum ddl_wire wire;
	size_t n_src, n_dst;
} rows[] = {
	{ "a += b", STORE, DDL_SUM, DDL_FLOAT32, DDL_WIRE_NATIVE, 0, 0 },
	{ "a = max(a, b)", STORE, DDL_MAX, DDL_FLOAT32, DDL_WIRE_NATIVE, 0, 0 },
	{ "a += b", STORE, DDL_SUM, DDL_BFLOAT16, DDL_WIRE_NATIVE, 0, 0 },
	{ "a += b", STORE, DDL_SUM, DDL_FLOAT16, DDL_WIRE_NATIVE, 0, 0 },
	{ "a += b", STORE, DDL_SUM, DDL_FLOAT64, DDL_WIRE_NATIVE, 0, 0 },
	{ "a += b", STORE, DDL_SUM, DDL_INT32, DDL_WIRE_NATIVE, 0, 0 },
	{ "to the wire", ENCODE, DDL_SUM, DDL_FLOAT32, DDL_WIRE_BFLOAT16, 0, 0 },
	{ "wire + b, sent on", WIRE, DDL_SUM, DDL_FLOAT32, DDL_WIRE_NATIVE, 0, 0 },
	{ "wire + b, sent on", WIRE, DDL_SUM, DDL_FLOAT32, DDL_WIRE_BFLOAT16, 0, 0 },
	{ "wire + b, sent on", WIRE, DDL_SUM, DDL_FLOAT32, DDL_WIRE_FLOAT16, 0, 0 },
	{ "wire + b, sent on", WIRE, DDL_SUM, DDL_FLOAT32, DDL_WIRE_INT8, 0, 0 },
	{ "average, kept and sent", FINISH, DDL_AVG, DDL_FLOAT32, DDL_WIRE_NATIVE, 0, 0 },
	{ "average, kept and sent", FINISH, DDL_AVG, DDL_FLOAT32, DDL_WIRE_BFLOAT16, 0, 0 },
	{ "2 sources, 2 results", MANY, DDL_SUM, DDL_FLOAT32, DDL_WIRE_NATIVE, 2, 2 },
	{ "4 sources, 1 result", MANY, DDL_SUM, DDL_FLOAT32, DDL_WIRE_NATIVE, 4, 1 },
	{ "2 sources, 2 results", MANY, DDL_SUM, DDL_BFLOAT16, DDL_WIRE_NATIVE, 2, 2 },
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

struct bench {                           /* of the command */
	const char *only;                /* name of the set wanted; NULL: all that this CPU has */
	bool json;                       /* one object a line */
	size_t bytes[LEVELS];            /* of the working set of a level */
	char *slab;                      /* room for the largest working set, cut into arrays anew for each measurement */
	size_t slab_bytes;               /* its size */
	double limits[LEVELS][LIMITS];   /* seconds a byte */
	double (*rates)[LEVELS][N_ROWS]; /* a set: seconds an element; 0: not measured */
	uint64_t sink;                   /* keeps the reads alive */
};

/* ---- the limits ---- */

typedef uint64_t word_v __attribute__((vector_size(64), aligned(64), may_alias));

#define BARRIER() __asm__ volatile("" ::: "memory")

/* The loops that move bytes, once for each width of vectors; bytes is a multiple of 256. */
#define MOVES(NAME, TARGET)                                                                                                        \
	TARGET static uint64_t NAME(int what, void *to, const void *from, size_t bytes)                                            \
	{                                                                                                                          \
		word_v *d = to, x[4] = { { 0 }, { 0 }, { 0 }, { 0 } };                                                             \
		const word_v *s = from;                                                                                            \
		size_t n = bytes / sizeof(word_v);                                                                                 \
		for (size_t i = 0; what == READ && i < n; i += 4) {                                                                \
			x[0] |= s[i];                                                                                              \
			x[1] |= s[i + 1];                                                                                          \
			x[2] |= s[i + 2];                                                                                          \
			x[3] |= s[i + 3];                                                                                          \
		}                                                                                                                  \
		for (size_t i = 0; what == COPY && i < n; i += 2) {                                                                \
			d[i] = s[i];                                                                                               \
			d[i + 1] = s[i + 1];                                                                                       \
			BARRIER();                                                                                                 \
		}                                                                                                                  \
		for (size_t i = 0; what == ADD && i < n; i += 2) {                                                                 \
			d[i] += s[i];                                                                                              \
			d[i + 1] += s[i + 1];                                                                                      \
			BARRIER();                                                                                                 \
		}                                                                                                                  \
		x[0] |= x[1] | x[2] | x[3];                                                                                        \
		return x[0][0] | x[0][7];                                                                                          \
	}

MOVES(move_words, )
#ifdef __x86_64__
MOVES(move_words_avx2, __attribute__((target("avx2"))))
MOVES(move_words_avx512, __attribute__((target("avx512f"))))
#endif

static uint64_t move(int what, void *to, const void *from, size_t bytes)
{
	if (what == STREAM_COPY) {
		ddl__copy(to, from, bytes, 1);
		return 0;
	}
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		return move_words_avx512(what, to, from, bytes);
	if (__builtin_cpu_supports("avx2"))
		return move_words_avx2(what, to, from, bytes);
#endif
	return move_words(what, to, from, bytes);
}

/* ---- measuring ---- */

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct work {                  /* one thing to be timed */
	const struct row *row; /* NULL: a limit */
	const struct ddl__kernels *k;
	int limit;            /* READ ... ADD */
	int level;            /* L1 ... MEMORY */
	size_t n;             /* elements, or bytes of a limit */
	char *arrays[ARRAYS]; /* the work's, in the order of traffic.arrays */
};

struct traffic {               /* bytes for each element */
	size_t reads, writes;  /* of all arrays together */
	size_t arrays[ARRAYS]; /* of each array */
	size_t all;            /* arrays' sum */
};

static struct traffic traffic_of(const struct row *row, const struct ddl__kernels *k)
{
	const size_t m = k->type_bytes, w = k->wire_bytes;
	struct traffic t;

	switch (row->kind) {
	case STORE: /* in place */
		t = (struct traffic){ m + w, m, { m, w }, 0 };
		break;
	case WIRE:
		t = (struct traffic){ m + w, w, { w, w, m }, 0 };
		break;
	case ENCODE:
		t = (struct traffic){ m, w, { w, m }, 0 };
		break;
	case FINISH:
		t = (struct traffic){ m + w, m + w, { m, w, w, m }, 0 };
		break;
	case MANY:
	default: /* sources, then destinations */
		t = (struct traffic){ row->n_src * m, row->n_dst * m, { 0 }, 0 };
		for (size_t i = 0; i < row->n_src + row->n_dst; i++)
			t.arrays[i] = m;
		break;
	}
	for (size_t i = 0; i < ARRAYS; i++)
		t.all += t.arrays[i];
	return t;
}

/* Cuts the slab into arrays of so many bytes; each begins a little further behind a page than the one before, else all would fall
 * into the same sets of the caches. */
static void cut(const struct bench *b, const size_t bytes[ARRAYS], char *arrays[ARRAYS])
{
	size_t at = 0;

	for (size_t i = 0; i < ARRAYS; i++) {
		arrays[i] = b->slab + at;
		at += (bytes[i] + ALIGN - 1) / ALIGN * ALIGN + 2 * ALIGN;
	}
}

static void do_work(struct bench *b, const struct work *w)
{
	char *const *a = w->arrays;

	if (!w->row) {
		b->sink |= move(w->limit, a[0], a[1], w->n);
		return;
	}
	switch (w->row->kind) {
	case STORE:
		w->k->reduce_store(a[0], a[1], a[0], w->n, 0);
		break;
	case WIRE:
		w->k->reduce_wire(a[0], a[1], a[2], w->n);
		break;
	case ENCODE:
		w->k->encode(a[0], a[1], w->n);
		break;
	case FINISH:
		w->k->finish(a[0], a[1], a[2], a[3], w->n, RANKS);
		break;
	case MANY:
		w->k->reduce_many((void *const *)(const void *)(a + w->row->n_src), w->row->n_dst,
				  (const void *const *)(const void *)a, w->row->n_src, w->n, RANKS, w->level == MEMORY);
		break;
	}
}

/* Seconds of one pass: the fastest of some rounds, each as many passes as take a while. */
static double time_work(struct bench *b, const struct work *w)
{
	double best = 0;
	size_t passes = 1;

	do_work(b, w);
	for (int round = 0; round < ROUNDS;) {
		const double begin = now_s();

		for (size_t i = 0; i < passes; i++)
			do_work(b, w);
		const double took = now_s() - begin;
		if (took * 1e6 < ROUND_US && passes < (size_t)1 << 24) { /* too short to tell: not counted */
			passes *= 2;
			continue;
		}
		if (round == 0 || took / (double)passes < best)
			best = took / (double)passes;
		round++;
	}
	return best;
}

/* Seconds an element that moving its bytes takes at least, by the limits. */
static double limit_of(const struct bench *b, int level, const struct row *row, const struct ddl__kernels *k)
{
	const double *l = b->limits[level];
	const struct traffic t = traffic_of(row, k);
	const double reads = (double)t.reads, writes = (double)t.writes;

	if (row->kind == STORE)
		return writes * l[ADD] + (reads - 2 * writes) * l[READ];
	if (row->kind == MANY && level == MEMORY)
		return writes * l[STREAM_COPY] + (reads - writes) * l[READ];
	return writes * l[COPY] + (reads - writes) * l[READ];
}

static void measure_limits(struct bench *b)
{
	for (int level = 0; level < LEVELS; level++)
		for (int limit = 0; limit < LIMITS; limit++) {
			struct work work = { .limit = limit, .level = level };

			work.n = b->bytes[level] / (limit == READ ? 1 : 2) / 256 * 256;
			const size_t bytes[ARRAYS] = { limit == READ ? 0 : work.n, work.n };
			cut(b, bytes, work.arrays);
			const double s = time_work(b, &work) / (double)work.n;
			if (b->limits[level][limit] == 0 || s < b->limits[level][limit])
				b->limits[level][limit] = s;
		}
}

static void measure_set(struct bench *b, size_t set)
{
	for (size_t r = 0; r < N_ROWS; r++)
		for (int level = 0; level < LEVELS; level++) {
			struct work work = { .row = &rows[r], .level = level };
			size_t bytes[ARRAYS];

			work.k = ddl__kernel_sets[set]->get(rows[r].op, rows[r].type, rows[r].wire);
			if (!work.k)
				continue;
			const struct traffic t = traffic_of(&rows[r], work.k);
			work.n = b->bytes[level] / (t.all + (work.k->wire_block ? 1 : 0)); /* there is room for scales */
			for (size_t i = 0; i < ARRAYS; i++) /* what is no element in memory is elements on the wire, with scales */
				bytes[i] = work.n * t.arrays[i] + (work.k->wire_block ? work.n / work.k->wire_block * 4 + 4 : 0);
			cut(b, bytes, work.arrays);
			b->rates[set][level][r] = time_work(b, &work) / (double)work.n;
		}
}

/* ---- the output ---- */

static const char *wire_of(const struct row *row)
{
	return row->wire == DDL_WIRE_NATIVE ? ddl__type_name(row->type) : ddl__wire_name(row->wire);
}

static void print_limits(const struct bench *b)
{
	char text[32];

	for (int limit = 0; limit < LIMITS; limit++) {
		if (!b->json)
			printf("%-12s %-24s %-4s  %-4s  %-4s", "limit", limit_names[limit], "", "", "");
		for (int level = 0; level < LEVELS; level++) {
			if (b->json) {
				json_t *o = json_pack("{ss ss sI sf}", "limit", limit_names[limit], "level", level_names[level],
						      "bytes", (json_int_t)b->bytes[level], "GBps", 1e-9 / b->limits[level][limit]);

				json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(5));
				putchar('\n');
				json_decref(o);
			} else {
				snprintf(text, sizeof(text), "%.1f", 1e-9 / b->limits[level][limit]);
				printf("  %8s %6s", text, "");
			}
		}
		if (!b->json)
			putchar('\n');
	}
}

static void print_row_json(const struct bench *b, size_t set, const struct row *row, const struct ddl__kernels *k)
{
	for (int level = 0; level < LEVELS; level++) {
		const double s = b->rates[set][level][row - rows], limit = limit_of(b, level, row, k);
		json_t *o = json_pack("{ss ss ss ss ss ss sI sf sf sf}", "set", ddl__kernel_sets[set]->name, "kernel", row->name,
				      "op", ddl__op_name(row->op), "type", ddl__type_name(row->type), "wire", wire_of(row), "level",
				      level_names[level], "bytes", (json_int_t)b->bytes[level], "GBps", k->type_bytes * 1e-9 / s,
				      "limit_GBps", k->type_bytes * 1e-9 / limit, "share", limit / s);

		json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(5));
		putchar('\n');
		json_decref(o);
	}
}

static void print_set(const struct bench *b, size_t set)
{
	if (!b->json)
		putchar('\n');
	for (size_t r = 0; r < N_ROWS; r++) {
		const struct ddl__kernels *k = ddl__kernel_sets[set]->get(rows[r].op, rows[r].type, rows[r].wire);

		if (!k)
			continue;
		if (b->json) {
			print_row_json(b, set, &rows[r], k);
			continue;
		}
		printf("%-12s %-24s %-4s  %-4s  %-4s", ddl__kernel_sets[set]->name, rows[r].name, ddl__op_name(rows[r].op),
		       ddl__type_name(rows[r].type), wire_of(&rows[r]));
		for (int level = 0; level < LEVELS; level++) {
			const double s = b->rates[set][level][r];

			printf("  %8.1f %5.0f%%", k->type_bytes * 1e-9 / s, 100 * limit_of(b, level, &rows[r], k) / s);
		}
		putchar('\n');
	}
}

static void print_head(const struct bench *b)
{
	char text[LEVELS][32], column[64];

	if (b->json)
		return;
	printf("One core, GB/s of one operand in memory, and the share of the limit that moving its bytes sets.\n\n");
	printf("%-12s %-24s %-4s  %-4s  %-4s", "set", "kernel", "op", "type", "wire");
	for (int level = 0; level < LEVELS; level++) {
		snprintf(column, sizeof(column), "%s, %s", level_names[level],
			 ddl__bytes_format(b->bytes[level], text[level], sizeof(text[level])));
		printf("  %15s", column);
	}
	putchar('\n');
}

/* ---- the command ---- */

static bool wanted(const struct bench *b, size_t set)
{
	return ddl__kernel_sets[set]->usable() && (!b->only || strcmp(b->only, ddl__kernel_sets[set]->name) == 0);
}

static size_t cache_bytes(int name, size_t otherwise)
{
	const long bytes = sysconf(name);

	return bytes > 0 ? (size_t)bytes : otherwise;
}

static int make_slab(struct bench *b)
{
	const size_t l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE, (size_t)32 << 20), most = (size_t)256 << 20;

	b->bytes[L1] = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, (size_t)32 << 10) / 2;
	b->bytes[L2] = cache_bytes(_SC_LEVEL2_CACHE_SIZE, (size_t)512 << 10) / 2;
	b->bytes[MEMORY] = 4 * l3 < most ? 4 * l3 : most;
	b->slab_bytes = b->bytes[MEMORY] + 4 * ARRAYS * ALIGN;
	b->slab = aligned_alloc(ALIGN, b->slab_bytes);
	if (!b->slab)
		return ddl__failed(TOOL, "no memory for arrays of %zu bytes", b->slab_bytes);
	memset(b->slab, 0x3c, b->slab_bytes); /* an ordinary number in every floating-point type */
	return DDL__EXIT_GOOD;
}

static int measure(struct bench *b)
{
	size_t n_sets = 0;

	while (ddl__kernel_sets[n_sets])
		n_sets++;
	b->rates = calloc(n_sets, sizeof(*b->rates));
	if (!b->rates)
		return ddl__failed(TOOL, "no memory");
	for (size_t set = 0; set < n_sets; set++) {
		if (!wanted(b, set))
			continue;
		measure_limits(b);
		measure_set(b, set);
	}
	measure_limits(b);
	print_head(b);
	print_limits(b);
	for (size_t set = 0; set < n_sets; set++) {
		if (wanted(b, set))
			print_set(b, set);
	}
	free(b->rates);
	return DDL__EXIT_GOOD;
}

static const struct ddl__help help[] = {
	{ "--set NAME", "only this kernel set, as `ddl info` lists them (default: all that this CPU has)" },
	{ "--json", "one JSON object a line" },
	{ "--help", "this text" },
	{ NULL, NULL },
};

static int parse(int argc, char **argv, struct bench *b, bool *done)
{
	static const struct option options[] = {
		{ "set", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct ddl_error err;
	int option;

	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case 's':
			if (ddl__kernels_choose(optarg, &err) < 0)
				return ddl__usage(TOOL, "%s", err.text);
			b->only = optarg;
			break;
		case 'j':
			b->json = true;
			break;
		case 'h':
			ddl__help_print(
				stdout, "ddl perf kernels [OPTIONS]",
				"Measures what touches elements, on one core of this machine, beside what the core can move.",
				help);
			*done = true;
			return DDL__EXIT_GOOD;
		default:
			return ddl__usage_getopt(TOOL, option, optind, argv);
		}
	}
	if (optind < argc)
		return ddl__usage(TOOL, "argument '%.60s' is one too many; `ddl perf kernels --help` lists the options",
				  argv[optind]);
	return DDL__EXIT_GOOD;
}

int ddl__perf_kernels(int argc, char **argv)
{
	struct bench b = { .only = NULL };
	bool done = false;
	int status = parse(argc, argv, &b, &done);

	if (status != DDL__EXIT_GOOD || done)
		return status;
	status = make_slab(&b);
	if (status == DDL__EXIT_GOOD)
		status = measure(&b);
	free(b.slab);
	return status;
}
