/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - one benchmark program per library: the common main (harness.c) and what a library has to offer (one back end a
 * file).
 *
 * The harness holds everything that must be the same for all: pinning, buffers, the data, the loop, the clock, the check. A back
 * end only opens its library, runs one all-reduce, and closes. Exactly one back end is linked into a program, as `bench_peer`.
 */
#ifndef DDL_BENCH_HARNESS_H
#define DDL_BENCH_HARNESS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_RANKS_MAX 64 /* the data's sums are exact in bfloat16 for so many */

enum bench_type {
	BENCH_FLOAT32 = 1,  /* 4 bytes */
	BENCH_BFLOAT16 = 2, /* 2 bytes */
};

struct bench_settings {
	int rank;             /* of this process */
	int size;             /* number of ranks */
	int ranks_on_cores;   /* cores that the ranks share; fewer than size: they must hand them over */
	enum bench_type type; /* of the elements */
	const char *wire; /* type that travels, as ddl names it: native, bfloat16; a back end that has no choice refuses others */
	const char *buffers;   /* malloc, or ddl_mem: from ddl_mem_alloc() */
	const char *folder;    /* for the files of a rendezvous, fresh in every run */
	const char *interface; /* network interface to take, "" where it does not matter */
	int unbound;           /* ranks are not bound to cores */
	const char *way;       /* bench_async: which of the library's ways to do it; "" the plain one */
};

/* One all-reduce: recv[i] = sum over the ranks of send[i], i < count. In place where send == recv. */
struct bench_call {
	void *send;           /* page-aligned */
	void *recv;           /* page-aligned */
	size_t count;         /* elements */
	enum bench_type type; /* of the elements */
};

/* All functions return 0 or -1, and say on standard error what failed. */
struct bench_peer {
	const char *name; /* of the library */
	int has_threads;  /* it works in threads of its own: waiting ranks must leave them the core */
	int (*open)(const struct bench_settings *settings); /* settings: borrowed until close() */
	int (*alloc)(size_t bytes, void **memory);          /* buffers of its own; NULL: page-aligned ones of the C library */
	void (*release)(void *memory);                      /* what alloc() gave; NULL where alloc is */
	int (*prepare)(const struct bench_call *call);      /* what may be done once; call: borrowed until finish() */
	int (*run)(const struct bench_call *call);          /* one all-reduce; returns when recv is complete */
	void (*finish)(const struct bench_call *call);      /* undoes prepare() */
	void (*close)(void);                                /* undoes open() */
};

extern const struct bench_peer bench_peer;

/* Any number of all-reduces at once, for overlap.c; a back end that can has such functions beside bench_peer. */
struct bench_async {
	int (*add)(const struct bench_call *call, int priority, void **handle); /* call: copied; higher priorities first */
	int (*start)(void *handle);
	int (*test)(void *handle); /* makes progress; 1: complete, 0: not yet */
	int (*wait)(void *handle); /* returns when complete */
	void (*drop)(void *handle);
};

extern const struct bench_async bench_async;

/* For back ends: a barrier of the harness's own, and some bytes from rank 0 to all. Collective. */
void bench_barrier(void);
int bench_share(void *data, size_t size);

/* For back ends: a[i] += b[i] in bfloat16, sums in float32, rounded to nearest even: for libraries that let the caller bring it. */
void bench_add_bfloat16(unsigned short *a, const unsigned short *b, size_t count);

#ifdef __cplusplus
}
#endif

#endif
