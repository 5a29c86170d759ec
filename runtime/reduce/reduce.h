/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.h - the kernels that touch elements: conversion between memory and wire, and reduction fused with it.
 *
 * A kernel set belongs to (operation, type, wire). float16 and bfloat16 are reduced in float32, float32 data on any wire too.
 * Rounding is to nearest, ties to even, subnormals included; a NaN stays a (quiet) NaN. On some wires elements travel in blocks
 * that have a scale (blocks.h): what is handed to a kernel begins with a block, and only the last one is short. Buffers may be
 * unaligned to nothing less than their element, a scale included; dst may equal src, other overlap is not allowed. All sets give
 * the same bits, but for which NaN a partial result is.
 *
 * Where several ranks compute the same result, its bits must not depend on which operand came from the wire: every operation gives
 * the same bits for either order (-0 is less than +0), but for which of two NaNs is left; so a complete result that is not a number
 * is always the same NaN, the positive quiet one without a payload.
 */
#ifndef DDL_REDUCE_REDUCE_H
#define DDL_REDUCE_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/ddl.h>

struct ddl__kernels {
	uint32_t type_bytes; /* of an element in memory */
	uint32_t wire_bytes; /* of an element on the wire, without its share of a scale */
	/* wire = round(src) */
	void (*encode)(void *wire, const void *src, size_t n);
	/* dst = widen(wire) */
	void (*decode)(void *dst, const void *wire, size_t n);
	/* out = round(op(wire, src)): a partial result that travels on */
	void (*reduce_wire)(void *out, const void *wire, const void *src, size_t n);
	/* dst = op(wire, src): a partial result that stays; ranks > 0: complete, as in finish */
	void (*reduce_store)(void *dst, const void *wire, const void *src, size_t n, int ranks);
	/* The last contribution: out = round(op(wire, src) / ranks), dst = widen(out): the owner keeps what it sends. ranks counts
	 * only for DDL_AVG. */
	void (*finish)(void *dst, void *out, const void *wire, const void *src, size_t n, int ranks);
	/* dst[j] = round(op(src[0], ..., src[n_src-1]) / ranks) for j < n_dst, complete as in finish; of elements in memory,
	 * whatever the wire. All sources in one pass, accumulated in the accumulator type in the order given, rounded once.
	 * Any number of each; a dst may equal one of the sources exactly, no other overlap. ranks > 0.
	 * stream: the outputs will not be read again soon: stores that go past the caches, ordered before what the caller stores
	 * next. Only where lines of all dst begin at the same element; else the stores are plain ones. */
	void (*reduce_many)(void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n, int ranks, int stream);
	/* wire = src rounded down or up by chance, so that on average it is src; what the wire has stays. Chance is a function of
	 * key and of index + i for element i. NULL: the wire rounds nothing. */
	void (*encode_random)(void *wire, const void *src, size_t n, uint32_t key, uint32_t index);
	uint32_t wire_block; /* elements on the wire that share a scale; 0: there are none */
};

/* Bytes of n elements on the wire. */
static inline size_t ddl__wire_size(const struct ddl__kernels *k, size_t n)
{
	return n * k->wire_bytes + (k->wire_block ? (n + k->wire_block - 1) / k->wire_block * sizeof(float) : 0);
}

/* One instruction set's kernels. */
struct ddl__kernel_set {
	const char *name;        /* "generic" */
	const char *description; /* one line for people */
	int (*usable)(void);     /* 1: this CPU has what it needs */
	/* NULL where this set has none. */
	const struct ddl__kernels *(*get)(enum ddl_op op, enum ddl_type type, enum ddl_wire wire);
};

/* Those that a build has, one file each. */
extern const struct ddl__kernel_set ddl__kernel_set_avx512bf16;
extern const struct ddl__kernel_set ddl__kernel_set_avx512;
extern const struct ddl__kernel_set ddl__kernel_set_avx2;
extern const struct ddl__kernel_set ddl__kernel_set_sve;
extern const struct ddl__kernel_set ddl__kernel_set_neon;
extern const struct ddl__kernel_set ddl__kernel_set_generic;

/* All sets, the best first, generic last; ended by NULL. A set may lack combinations: the next usable one's count then. */
extern const struct ddl__kernel_set *const ddl__kernel_sets[];

/*
 * Takes no set that stands before `name` (DDL_KERNELS) from now on, in this process; NULL or "": any, as at the beginning.
 * Returns 0; -EINVAL with a sentence that lists the sets that this CPU has.
 */
int ddl__kernels_choose(const char *name, struct ddl_error *err);

/*
 * The kernels for (op, type, wire) of the best usable set. wire is resolved: native, or any other but auto for float32. op 0: only
 * encode and decode. NULL: no such combination.
 */
const struct ddl__kernels *ddl__kernels_get(enum ddl_op op, enum ddl_type type, enum ddl_wire wire);

/* Bytes of n elements of a type on a resolved wire; 0: no such combination. */
size_t ddl__wire_bytes(enum ddl_wire wire, enum ddl_type type, size_t n);

/* memcpy(); stream as in reduce_many. */
void ddl__copy(void *dst, const void *src, size_t bytes, int stream);

/* The wire that a type travels in when `wanted` is asked for: native unless it is float32. */
enum ddl_wire ddl__wire_resolve(enum ddl_wire wanted, enum ddl_type type);

/* Whether the type is one of floating point, so that reductions round. */
int ddl__type_rounds(enum ddl_type type);

/* Whether it is one of 16 bits: memory rounds what is reduced to less than the accumulator has. */
int ddl__type_narrow(enum ddl_type type);

/* Names of types and operations as the tools spell them: "f32", "sum"; NULL: unknown. */
const char *ddl__type_name(enum ddl_type type);
const char *ddl__op_name(enum ddl_op op);
const char *ddl__wire_name(enum ddl_wire wire);

#endif
