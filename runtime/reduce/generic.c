/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generic.c - the kernels in portable C: the reference for every other set.
 *
 * Each (type, wire) is described by five words: the struct's name, the element in memory M, on the wire W, the accumulator A, and
 * how to load and round both. The macros below write one function per kernel from them; there is no control flow in them that is
 * not visible here.
 */
#include <math.h>

#include "convert.h"
#include "many.h"
#include "reduce.h"

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
		for (size_t i = 0; i < n; i++)                                                                                     \
			w[i] = (W)ROUND_W((A)LOAD_M(s[i]));                                                                        \
	}                                                                                                                          \
	static void NAME##_decode(void *dst, const void *wire, size_t n)                                                           \
	{                                                                                                                          \
		M *d = dst;                                                                                                        \
		const W *w = wire;                                                                                                 \
		for (size_t i = 0; i < n; i++)                                                                                     \
			d[i] = (M)ROUND_M((A)LOAD_W(w[i]));                                                                        \
	}

/* KERNELS: one operation OP (an expression of two accumulators x, y) named O; DIVIDE: what becomes of a complete result x. */
#define KERNELS(NAME, O, M, W, A, LOAD_M, ROUND_M, LOAD_W, ROUND_W, OP, DIVIDE)                                                    \
	static void NAME##_##O##_wire(void *out, const void *wire, const void *src, size_t n)                                      \
	{                                                                                                                          \
		W *o = out;                                                                                                        \
		const W *w = wire;                                                                                                 \
		const M *s = src;                                                                                                  \
		for (size_t i = 0; i < n; i++) {                                                                                   \
			A x = (A)LOAD_W(w[i]), y = (A)LOAD_M(s[i]);                                                                \
			o[i] = (W)ROUND_W((A)(OP));                                                                                \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_store(void *dst, const void *wire, const void *src, size_t n, int ranks)                          \
	{                                                                                                                          \
		M *d = dst;                                                                                                        \
		const W *w = wire;                                                                                                 \
		const M *s = src;                                                                                                  \
		for (size_t i = 0; i < n; i++) {                                                                                   \
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
		for (size_t i = 0; i < n; i++) {                                                                                   \
			A x = (A)LOAD_W(w[i]), y = (A)LOAD_M(s[i]);                                                                \
			x = (A)(OP);                                                                                               \
			W v = (W)ROUND_W((A)(DIVIDE));                                                                             \
			o[i] = v;                                                                                                  \
			d[i] = (M)ROUND_M((A)LOAD_W(v));                                                                           \
		}                                                                                                                  \
	}                                                                                                                          \
	MANY(NAME, O, M, A, LOAD_M, ROUND_M, OP, DIVIDE)

/* MANY: the loops of reduce-many, see many.h; KERNELS' words, but for the wire. */
#define MANY(NAME, O, M, A, LOAD_M, ROUND_M, OP, DIVIDE)                                                                           \
	static void NAME##_##O##_load(void *acc, const void *src, size_t n)                                                        \
	{                                                                                                                          \
		A *r = acc;                                                                                                        \
		const M *s = src;                                                                                                  \
		for (size_t i = 0; i < n; i++)                                                                                     \
			r[i] = (A)LOAD_M(s[i]);                                                                                    \
	}                                                                                                                          \
	static void NAME##_##O##_first(void *acc, const void *a, const void *b, size_t n)                                          \
	{                                                                                                                          \
		A *r = acc;                                                                                                        \
		const M *s = a, *t = b;                                                                                            \
		for (size_t i = 0; i < n; i++) {                                                                                   \
			A x = (A)LOAD_M(s[i]), y = (A)LOAD_M(t[i]);                                                                \
			r[i] = (A)(OP);                                                                                            \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_more(void *acc, const void *a, size_t n)                                                          \
	{                                                                                                                          \
		A *r = acc;                                                                                                        \
		const M *s = a;                                                                                                    \
		for (size_t i = 0; i < n; i++) {                                                                                   \
			A x = r[i], y = (A)LOAD_M(s[i]);                                                                           \
			r[i] = (A)(OP);                                                                                            \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_more2(void *acc, const void *a, const void *b, size_t n)                                          \
	{                                                                                                                          \
		A *r = acc;                                                                                                        \
		const M *s = a, *t = b;                                                                                            \
		for (size_t i = 0; i < n; i++) {                                                                                   \
			A x = r[i], y = (A)LOAD_M(s[i]);                                                                           \
			x = (A)(OP);                                                                                               \
			y = (A)LOAD_M(t[i]);                                                                                       \
			r[i] = (A)(OP);                                                                                            \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_last(void *dst, const void *acc, size_t n, int ranks)                                             \
	{                                                                                                                          \
		M *d = dst;                                                                                                        \
		const A *r = acc;                                                                                                  \
		(void)ranks;                                                                                                       \
		for (size_t i = 0; i < n; i++) {                                                                                   \
			A x = r[i];                                                                                                \
			d[i] = (M)ROUND_M((A)(DIVIDE));                                                                            \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_many(void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n, int ranks,   \
				      int stream)                                                                                  \
	{                                                                                                                          \
		static const struct ddl__many loops = { sizeof(M),         NAME##_##O##_load,  NAME##_##O##_first,                 \
							NAME##_##O##_more, NAME##_##O##_more2, NAME##_##O##_last };                \
		ddl__many(&loops, dst, n_dst, src, n_src, n, ranks, stream);                                                       \
	}

#define TABLE(NAME, O, M, W)                                                                                                       \
	{                                                                                                                          \
		sizeof(M), sizeof(W), NAME##_encode, NAME##_decode, NAME##_##O##_wire, NAME##_##O##_store, NAME##_##O##_finish,    \
			NAME##_##O##_many                                                                                          \
	}

#define FLOATS(NAME, M, W, A, LM, RM, LW, RW)                                                                                      \
	CONVERSIONS(NAME, M, W, A, LM, RM, LW, RW)                                                                                 \
	KERNELS(NAME, sum, M, W, A, LM, RM, LW, RW, F_SUM(x, y), F_WHOLE(x))                                                       \
	KERNELS(NAME, avg, M, W, A, LM, RM, LW, RW, F_SUM(x, y), F_WHOLE(x / (A)ranks))                                            \
	KERNELS(NAME, min, M, W, A, LM, RM, LW, RW, F_MIN(x, y), F_WHOLE(x))                                                       \
	KERNELS(NAME, max, M, W, A, LM, RM, LW, RW, F_MAX(x, y), F_WHOLE(x))                                                       \
	KERNELS(NAME, prod, M, W, A, LM, RM, LW, RW, F_PROD(x, y), F_WHOLE(x))                                                     \
	static const struct ddl__kernels NAME##_kernels[] = {                                                                      \
		[DDL_SUM] = TABLE(NAME, sum, M, W), [DDL_AVG] = TABLE(NAME, avg, M, W),   [DDL_MIN] = TABLE(NAME, min, M, W),      \
		[DDL_MAX] = TABLE(NAME, max, M, W), [DDL_PROD] = TABLE(NAME, prod, M, W),                                          \
	};

#define INTEGERS(NAME, I, U)                                                                                                       \
	CONVERSIONS(NAME, I, I, I, SAME, SAME, SAME, SAME)                                                                         \
	KERNELS(NAME, sum, I, I, I, SAME, SAME, SAME, SAME, I_SUM(U, x, y), x)                                                     \
	KERNELS(NAME, avg, I, I, I, SAME, SAME, SAME, SAME, I_SUM(U, x, y), x / ranks)                                             \
	KERNELS(NAME, min, I, I, I, SAME, SAME, SAME, SAME, I_MIN(U, x, y), x)                                                     \
	KERNELS(NAME, max, I, I, I, SAME, SAME, SAME, SAME, I_MAX(U, x, y), x)                                                     \
	KERNELS(NAME, prod, I, I, I, SAME, SAME, SAME, SAME, I_PROD(U, x, y), x)                                                   \
	static const struct ddl__kernels NAME##_kernels[] = {                                                                      \
		[DDL_SUM] = TABLE(NAME, sum, I, I), [DDL_AVG] = TABLE(NAME, avg, I, I),   [DDL_MIN] = TABLE(NAME, min, I, I),      \
		[DDL_MAX] = TABLE(NAME, max, I, I), [DDL_PROD] = TABLE(NAME, prod, I, I),                                          \
	};

FLOATS(f64, double, double, double, SAME, SAME, SAME, SAME)
FLOATS(f32, float, float, float, SAME, SAME, SAME, SAME)
FLOATS(f32_bf16, float, uint16_t, float, SAME, SAME, ddl__from_bf16, ddl__to_bf16)
FLOATS(f32_f16, float, uint16_t, float, SAME, SAME, ddl__from_f16, ddl__to_f16)
FLOATS(f16, uint16_t, uint16_t, float, ddl__from_f16, ddl__to_f16, ddl__from_f16, ddl__to_f16)
FLOATS(bf16, uint16_t, uint16_t, float, ddl__from_bf16, ddl__to_bf16, ddl__from_bf16, ddl__to_bf16)
INTEGERS(i64, int64_t, uint64_t)
INTEGERS(i32, int32_t, uint32_t)
INTEGERS(i8, int8_t, uint32_t)
INTEGERS(u8, uint8_t, uint32_t)

static int usable(void)
{
	return 1;
}

static const struct ddl__kernels *get(enum ddl_op op, enum ddl_type type, enum ddl_wire wire)
{
	const struct ddl__kernels *const tables[] = {
		[DDL_FLOAT64] = f64_kernels,   [DDL_FLOAT32] = f32_kernels, [DDL_FLOAT16] = f16_kernels,
		[DDL_BFLOAT16] = bf16_kernels, [DDL_INT64] = i64_kernels,   [DDL_INT32] = i32_kernels,
		[DDL_INT8] = i8_kernels,       [DDL_UINT8] = u8_kernels,
	};
	if (type < DDL_FLOAT64 || type > DDL_UINT8 || op < DDL_SUM || op > DDL_PROD)
		return NULL;
	if (type == DDL_FLOAT32 && wire == DDL_WIRE_BFLOAT16)
		return &f32_bf16_kernels[op];
	if (type == DDL_FLOAT32 && wire == DDL_WIRE_FLOAT16)
		return &f32_f16_kernels[op];
	return wire == DDL_WIRE_NATIVE ? &tables[type][op] : NULL;
}

const struct ddl__kernel_set ddl__kernel_set_generic = {
	.name = "generic",
	.description = "portable C, compiled for this architecture's baseline",
	.usable = usable,
	.get = get,
};
