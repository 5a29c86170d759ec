/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - kernels in portable C, as loops that a compiler can turn into vectors: the reference for every other set, and of those
 * the integers too. Included once by a set's file, which is compiled with the flags of its instruction set. PLAIN_FLOATS:
 * the floating-point types too.
 *
 * Each (type, wire) is described by five words: the struct's name, the element in memory M, on the wire W, the accumulator A, and
 * how to load and round both. The macros below write one function per kernel from them; there is no control flow in them that is
 * not visible here.
 */
#ifndef DDL_REDUCE_PLAIN_H
#define DDL_REDUCE_PLAIN_H

#include <math.h>

#include "convert.h"
#include "many.h"
#include "reduce.h"

/* A loop whose iterations do not depend on each other, also where dst equals src: what a compiler cannot know. */
#ifdef __clang__
#define foreach(i, n) _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < (n); i++)
#else
#define foreach(i, n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)
#endif

/* Operations on accumulators: floating point, and integers by way of the unsigned type U so that overflow wraps. */
#define F_SUM(a, b)     ((a) + (b))
#define F_PROD(a, b)    ((a) * (b))
#define F_MIN(a, b)     ((a) < (b) || (a) != (a) || ((a) == (b) && signbit(a)) ? (a) : (b))  /* -0 is less than +0 */
#define F_MAX(a, b)     ((a) > (b) || (a) != (a) || ((a) == (b) && !signbit(a)) ? (a) : (b)) /* in either order */
#define F_WHOLE(x)      ((x) == (x) ? (x) : NAN)                                             /* a complete result: one NaN only */
#define I_SUM(U, a, b)  ((U)(a) + (U)(b))
#define I_PROD(U, a, b) ((U)(a) * (U)(b))
#define I_MIN(U, a, b)  ((a) < (b) ? (a) : (b))
#define I_MAX(U, a, b)  ((a) > (b) ? (a) : (b))

#define SAME(x) (x)

#define CONVERSIONS(NAME, M, W, A, LOAD_M, ROUND_M, LOAD_W, ROUND_W)                                                               \
	static void NAME##_encode(void *wire, const void *src, size_t n)                                                           \
	{                                                                                                                          \
		W *w = wire;                                                                                                       \
		const M *s = src;                                                                                                  \
		foreach (i, n)                                                                                                     \
			w[i] = (W)ROUND_W((A)LOAD_M(s[i]));                                                                        \
	}                                                                                                                          \
	static void NAME##_decode(void *dst, const void *wire, size_t n)                                                           \
	{                                                                                                                          \
		M *d = dst;                                                                                                        \
		const W *w = wire;                                                                                                 \
		foreach (i, n)                                                                                                     \
			d[i] = (M)ROUND_M((A)LOAD_W(w[i]));                                                                        \
	}

/* KERNELS: one operation OP (an expression of two accumulators x, y) named O; DIVIDE: what becomes of a complete result x. */
#define KERNELS(NAME, O, M, W, A, LOAD_M, ROUND_M, LOAD_W, ROUND_W, OP, DIVIDE)                                                    \
	static void NAME##_##O##_wire(void *out, const void *wire, const void *src, size_t n)                                      \
	{                                                                                                                          \
		W *o = out;                                                                                                        \
		const W *w = wire;                                                                                                 \
		const M *s = src;                                                                                                  \
		foreach (i, n) {                                                                                                   \
			A x = (A)LOAD_W(w[i]), y = (A)LOAD_M(s[i]);                                                                \
			o[i] = (W)ROUND_W((A)(OP));                                                                                \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_store(void *dst, const void *wire, const void *src, size_t n, int ranks)                          \
	{                                                                                                                          \
		M *d = dst;                                                                                                        \
		const W *w = wire;                                                                                                 \
		const M *s = src;                                                                                                  \
		foreach (i, n) {                                                                                                   \
			A x = (A)LOAD_W(w[i]), y = (A)LOAD_M(s[i]);                                                                \
			x = (A)(OP);                                                                                               \
			d[i] = (M)ROUND_M(ranks ? (A)(DIVIDE) : x);                                                                \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_finish(void *dst, void *out, const void *wire, const void *src, size_t n, int ranks)              \
	{                                                                                                                          \
		M *d = dst;                                                                                                        \
		W *o = out;                                                                                                        \
		const W *w = wire;                                                                                                 \
		const M *s = src;                                                                                                  \
		(void)ranks;                                                                                                       \
		foreach (i, n) {                                                                                                   \
			A x = (A)LOAD_W(w[i]), y = (A)LOAD_M(s[i]);                                                                \
			x = (A)(OP);                                                                                               \
			W v = (W)ROUND_W((A)(DIVIDE));                                                                             \
			o[i] = v;                                                                                                  \
			d[i] = (M)ROUND_M((A)LOAD_W(v));                                                                           \
		}                                                                                                                  \
	}

/* BLOCK: reduce-many's loop over elements in memory, see many.h, with KERNELS' words. */
#define BLOCK(NAME, O, M, W, A, LOAD_M, ROUND_M, LOAD_W, ROUND_W, OP, DIVIDE)                                                      \
	static void NAME##_##O##_block(const struct ddl__many *m)                                                                  \
	{                                                                                                                          \
		A *r = m->acc;                                                                                                     \
		const size_t n = m->n;                                                                                             \
		const int ranks = m->ranks;                                                                                        \
		if (m->begin) {                                                                                                    \
			const M *s = (const M *)(const void *)((const char *)m->src[0] + m->offset);                               \
			foreach (i, n)                                                                                             \
				r[i] = (A)LOAD_M(s[i]);                                                                            \
		}                                                                                                                  \
		for (size_t k = m->begin ? 1 : 0; k < m->n_src; k++) {                                                             \
			const M *s = (const M *)(const void *)((const char *)m->src[k] + m->offset);                               \
			foreach (i, n) {                                                                                           \
				A x = r[i], y = (A)LOAD_M(s[i]);                                                                   \
				r[i] = (A)(OP);                                                                                    \
			}                                                                                                          \
		}                                                                                                                  \
		M d[DDL__MANY_BLOCK];                                                                                              \
		if (ranks) {                                                                                                       \
			foreach (i, n) {                                                                                           \
				A x = r[i];                                                                                        \
				d[i] = (M)ROUND_M((A)(DIVIDE));                                                                    \
			}                                                                                                          \
			ddl__many_put(m, d, n * sizeof(M));                                                                        \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_many(void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n, int ranks,   \
				      int stream)                                                                                  \
	{                                                                                                                          \
		static const struct ddl__many_call call = { .block = NAME##_##O##_block, .type_bytes = sizeof(M) };                \
		if (n_src == 2 && n_dst == 1 && !stream) /* no accumulators needed */                                              \
			NAME##_##O##_store(dst[0], src[0], src[1], n, ranks);                                                      \
		else                                                                                                               \
			ddl__many(&call, dst, n_dst, src, n_src, n, ranks, stream);                                                \
	}

/* MEM: the kernels of the same type that travels as it is, whose reduce-many it is. */
#define TABLE(NAME, O, M, W, MEM)                                                                                                  \
	{                                                                                                                          \
		sizeof(M), sizeof(W), NAME##_encode, NAME##_decode, NAME##_##O##_wire, NAME##_##O##_store, NAME##_##O##_finish,    \
			MEM##_##O##_many                                                                                           \
	}

#define TABLES(NAME, M, W, MEM)                                                                                                    \
	static const struct ddl__kernels NAME##_kernels[] = {                                                                      \
		[DDL_SUM] = TABLE(NAME, sum, M, W, MEM),   [DDL_AVG] = TABLE(NAME, avg, M, W, MEM),                                \
		[DDL_MIN] = TABLE(NAME, min, M, W, MEM),   [DDL_MAX] = TABLE(NAME, max, M, W, MEM),                                \
		[DDL_PROD] = TABLE(NAME, prod, M, W, MEM),                                                                         \
	};

#define FLOAT_OPS(TEMPLATE, NAME, M, W, A, LM, RM, LW, RW)                                                                         \
	TEMPLATE(NAME, sum, M, W, A, LM, RM, LW, RW, F_SUM(x, y), F_WHOLE(x))                                                      \
	TEMPLATE(NAME, avg, M, W, A, LM, RM, LW, RW, F_SUM(x, y), F_WHOLE(x / (A)ranks))                                           \
	TEMPLATE(NAME, min, M, W, A, LM, RM, LW, RW, F_MIN(x, y), F_WHOLE(x))                                                      \
	TEMPLATE(NAME, max, M, W, A, LM, RM, LW, RW, F_MAX(x, y), F_WHOLE(x))                                                      \
	TEMPLATE(NAME, prod, M, W, A, LM, RM, LW, RW, F_PROD(x, y), F_WHOLE(x))

#define INTEGER_OPS(TEMPLATE, NAME, I, U)                                                                                          \
	TEMPLATE(NAME, sum, I, I, I, SAME, SAME, SAME, SAME, I_SUM(U, x, y), x)                                                    \
	TEMPLATE(NAME, avg, I, I, I, SAME, SAME, SAME, SAME, I_SUM(U, x, y), x / ranks)                                            \
	TEMPLATE(NAME, min, I, I, I, SAME, SAME, SAME, SAME, I_MIN(U, x, y), x)                                                    \
	TEMPLATE(NAME, max, I, I, I, SAME, SAME, SAME, SAME, I_MAX(U, x, y), x)                                                    \
	TEMPLATE(NAME, prod, I, I, I, SAME, SAME, SAME, SAME, I_PROD(U, x, y), x)

#define FLOATS(NAME, M, A, LM, RM) /* as they are in memory */                                                                     \
	CONVERSIONS(NAME, M, M, A, LM, RM, LM, RM)                                                                                 \
	FLOAT_OPS(KERNELS, NAME, M, M, A, LM, RM, LM, RM)                                                                          \
	FLOAT_OPS(BLOCK, NAME, M, M, A, LM, RM, LM, RM)                                                                            \
	TABLES(NAME, M, M, NAME)

#define FLOATS_ON(NAME, W, LW, RW) /* float32 on a wire of another type */                                                         \
	CONVERSIONS(NAME, float, W, float, SAME, SAME, LW, RW)                                                                     \
	FLOAT_OPS(KERNELS, NAME, float, W, float, SAME, SAME, LW, RW)                                                              \
	TABLES(NAME, float, W, f32)

#define INTEGERS(NAME, I, U)                                                                                                       \
	CONVERSIONS(NAME, I, I, I, SAME, SAME, SAME, SAME)                                                                         \
	INTEGER_OPS(KERNELS, NAME, I, U)                                                                                           \
	INTEGER_OPS(BLOCK, NAME, I, U)                                                                                             \
	TABLES(NAME, I, I, NAME)

INTEGERS(i64, int64_t, uint64_t)
INTEGERS(i32, int32_t, uint32_t)
INTEGERS(i8, int8_t, uint32_t)
INTEGERS(u8, uint8_t, uint32_t)

#ifdef PLAIN_FLOATS
FLOATS(f64, double, double, SAME, SAME)
FLOATS(f32, float, float, SAME, SAME)
FLOATS(f16, uint16_t, float, ddl__from_f16, ddl__to_f16)
FLOATS(bf16, uint16_t, float, ddl__from_bf16, ddl__to_bf16)
FLOATS_ON(f32_bf16, uint16_t, ddl__from_bf16, ddl__to_bf16)
FLOATS_ON(f32_f16, uint16_t, ddl__from_f16, ddl__to_f16)
#endif

#endif
