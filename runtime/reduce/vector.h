/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector.h - the floating-point kernels in vectors of VECTOR_BYTES, written once for all instruction sets. Included once by a set's
 * file, which says before that
 *     VECTOR_BYTES                          16, 32 or 64
 *     f32_min(x, y), f64_min, f32_max, f64_max  -0 is less than +0; NaN where either is one
 *     f32_whole(x), f64_whole(x)                a complete result: one NaN only
 *     bf16_widen(h), bf16_round(x), f16_widen(h), f16_round(x)  between float32 and 16 bits, as convert.h does it
 *     STREAM(p, v)                          stores a vector at an address of its alignment, past the caches; optional
 * on the vector types of vector_types.h, and with VECTOR_BF16_ONLY that it wants nothing but the kernels that round to bfloat16.
 *
 * A format FMT (f64, f32, bf16, f16) is: FMT_t, an element; FMT_v, a vector of as many elements as an accumulator has; FMT_widen()
 * to the accumulator, FMT_round() back. A kernel is written for one vector; whole vectors go straight from and to the buffers, the
 * rest of less than one by way of copies.
 */
#ifndef DDL_REDUCE_VECTOR_H
#define DDL_REDUCE_VECTOR_H

#include <string.h>

#include "many.h"
#include "reduce.h"
#include "vector_types.h"

#define INLINE static inline __attribute__((always_inline))

enum { WIDTH = 4 }; /* vectors that reduce-many sums at once, for the adders' latency */

#define f32_widen(x)      (x)
#define f32_round(x)      (x)
#define f64_widen(x)      (x)
#define f64_round(x)      (x)
#define f32_from_f32(x)   (x)
#define f64_from_f64(x)   (x)
#define f16_from_f16(x)   (x)
#define bf16_from_bf16(x) (x)
#define f32_from_bf16(h)  bf16_widen(h)
#define f32_from_f16(h)   f16_widen(h)

#define LOAD(FMT, p)                                                                                                               \
	({                                                                                                                         \
		FMT##_v loaded_;                                                                                                   \
		memcpy(&loaded_, (p), sizeof(loaded_));                                                                            \
		loaded_;                                                                                                           \
	})
#define STORE(p, v) memcpy((p), &(v), sizeof(v))
#ifndef STREAM
#define STREAM(p, v) STORE(p, v)
#endif

/* One vector of a kernel: what is not used of the four is NULL. */
typedef void vector_kernel(void *dst, void *out, const void *wire, const void *src, int ranks);

/* A kernel over n elements of so many bytes each in dst, out, wire and src; 0: not used. */
INLINE void sweep(vector_kernel *one, size_t lanes, const size_t bytes[4], void *dst, void *out, const void *wire, const void *src,
		  size_t n, int ranks)
{
	char *d = dst, *o = out, d_rest[VECTOR_BYTES], o_rest[VECTOR_BYTES];
	char w_rest[VECTOR_BYTES] = { 0 }, s_rest[VECTOR_BYTES] = { 0 };
	const char *w = wire, *s = src;
	size_t i = 0;
	for (; i + lanes <= n; i += lanes)
		one(d + i * bytes[0], o + i * bytes[1], w + i * bytes[2], s + i * bytes[3], ranks);
	if (i == n)
		return;
	memcpy(w_rest, w + i * bytes[2], (n - i) * bytes[2]);
	memcpy(s_rest, s + i * bytes[3], (n - i) * bytes[3]);
	one(d_rest, o_rest, w_rest, s_rest, ranks);
	memcpy(d + i * bytes[0], d_rest, (n - i) * bytes[0]);
	memcpy(o + i * bytes[1], o_rest, (n - i) * bytes[1]);
}

/* What a set has for one (type, wire): its name, the formats in memory MF and on the wire WF, that of accumulators AF. */
#define VECTOR_CONVERSIONS(NAME, MF, WF, AF)                                                                                       \
	enum { NAME##_lanes = sizeof(AF##_v) / sizeof(AF##_t) };                                                                   \
	INLINE void NAME##_encode1(void *dst, void *out, const void *wire, const void *src, int ranks)                             \
	{                                                                                                                          \
		WF##_v v = WF##_round(MF##_widen(LOAD(MF, src)));                                                                  \
		STORE(out, v);                                                                                                     \
	}                                                                                                                          \
	INLINE void NAME##_decode1(void *dst, void *out, const void *wire, const void *src, int ranks)                             \
	{                                                                                                                          \
		MF##_v v = MF##_round(WF##_widen(LOAD(WF, wire)));                                                                 \
		STORE(dst, v);                                                                                                     \
	}                                                                                                                          \
	static void NAME##_encode(void *wire, const void *src, size_t n)                                                           \
	{                                                                                                                          \
		static const size_t bytes[] = { 0, sizeof(WF##_t), 0, sizeof(MF##_t) };                                            \
		sweep(NAME##_encode1, NAME##_lanes, bytes, wire, wire, src, src, n, 0);                                            \
	}                                                                                                                          \
	static void NAME##_decode(void *dst, const void *wire, size_t n)                                                           \
	{                                                                                                                          \
		static const size_t bytes[] = { sizeof(MF##_t), 0, sizeof(WF##_t), 0 };                                            \
		sweep(NAME##_decode1, NAME##_lanes, bytes, dst, dst, wire, wire, n, 0);                                            \
	}

/* One operation OP of x and y, named O; DIVIDE: what becomes of a complete result x. */
#define VECTOR_KERNELS(NAME, O, MF, WF, AF, OP, DIVIDE)                                                                            \
	INLINE void NAME##_##O##_wire1(void *dst, void *out, const void *wire, const void *src, int ranks)                         \
	{                                                                                                                          \
		AF##_v x = WF##_widen(LOAD(WF, wire)), y = MF##_widen(LOAD(MF, src));                                              \
		WF##_v v = WF##_round(OP);                                                                                         \
		STORE(out, v);                                                                                                     \
	}                                                                                                                          \
	INLINE void NAME##_##O##_store1(void *dst, void *out, const void *wire, const void *src, int ranks)                        \
	{                                                                                                                          \
		AF##_v x = WF##_widen(LOAD(WF, wire)), y = MF##_widen(LOAD(MF, src));                                              \
		MF##_v v = MF##_round(OP);                                                                                         \
		STORE(dst, v);                                                                                                     \
	}                                                                                                                          \
	INLINE void NAME##_##O##_whole1(void *dst, void *out, const void *wire, const void *src, int ranks)                        \
	{                                                                                                                          \
		AF##_v x = WF##_widen(LOAD(WF, wire)), y = MF##_widen(LOAD(MF, src));                                              \
		x = OP;                                                                                                            \
		MF##_v v = MF##_round(DIVIDE);                                                                                     \
		STORE(dst, v);                                                                                                     \
	}                                                                                                                          \
	INLINE void NAME##_##O##_finish1(void *dst, void *out, const void *wire, const void *src, int ranks)                       \
	{                                                                                                                          \
		AF##_v x = WF##_widen(LOAD(WF, wire)), y = MF##_widen(LOAD(MF, src));                                              \
		x = OP;                                                                                                            \
		WF##_v v = WF##_round(DIVIDE);                                                                                     \
		MF##_v kept = MF##_from_##WF(v);                                                                                   \
		STORE(out, v);                                                                                                     \
		STORE(dst, kept);                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_wire(void *out, const void *wire, const void *src, size_t n)                                      \
	{                                                                                                                          \
		static const size_t bytes[] = { 0, sizeof(WF##_t), sizeof(WF##_t), sizeof(MF##_t) };                               \
		sweep(NAME##_##O##_wire1, NAME##_lanes, bytes, out, out, wire, src, n, 0);                                         \
	}                                                                                                                          \
	static void NAME##_##O##_store(void *dst, const void *wire, const void *src, size_t n, int ranks)                          \
	{                                                                                                                          \
		static const size_t bytes[] = { sizeof(MF##_t), 0, sizeof(WF##_t), sizeof(MF##_t) };                               \
		if (ranks)                                                                                                         \
			sweep(NAME##_##O##_whole1, NAME##_lanes, bytes, dst, dst, wire, src, n, ranks);                            \
		else                                                                                                               \
			sweep(NAME##_##O##_store1, NAME##_lanes, bytes, dst, dst, wire, src, n, 0);                                \
	}                                                                                                                          \
	static void NAME##_##O##_finish(void *dst, void *out, const void *wire, const void *src, size_t n, int ranks)              \
	{                                                                                                                          \
		static const size_t bytes[] = { sizeof(MF##_t), sizeof(WF##_t), sizeof(WF##_t), sizeof(MF##_t) };                  \
		sweep(NAME##_##O##_finish1, NAME##_lanes, bytes, dst, out, wire, src, n, ranks);                                   \
	}

/* The same for reduce-many: a group is `width` vectors from `offset` bytes on, and r are its accumulators. */
#define VECTOR_MANY(NAME, O, MF, WF, AF, OP, DIVIDE)                                                                               \
	INLINE void NAME##_##O##_group(const struct ddl__many *m, void *const *dst, AF##_t *r, const void *const *src,             \
				       size_t offset, size_t width)                                                                \
	{                                                                                                                          \
		const size_t step = sizeof(MF##_v);                                                                                \
		const int ranks = m->ranks;                                                                                        \
		AF##_v acc[WIDTH];                                                                                                 \
		MF##_v v[WIDTH];                                                                                                   \
		for (size_t j = 0; j < width; j++)                                                                                 \
			acc[j] = m->begin ? MF##_widen(LOAD(MF, (const char *)src[0] + offset + j * step))                         \
					  : LOAD(AF, r + j * NAME##_lanes);                                                        \
		for (size_t k = m->begin ? 1 : 0; k < m->n_src; k++) {                                                             \
			for (size_t j = 0; j < width; j++) {                                                                       \
				AF##_v x = acc[j], y = MF##_widen(LOAD(MF, (const char *)src[k] + offset + j * step));             \
				acc[j] = OP;                                                                                       \
			}                                                                                                          \
		}                                                                                                                  \
		if (!ranks) {                                                                                                      \
			for (size_t j = 0; j < width; j++)                                                                         \
				STORE(r + j * NAME##_lanes, acc[j]);                                                               \
			return;                                                                                                    \
		}                                                                                                                  \
		for (size_t j = 0; j < width; j++) {                                                                               \
			AF##_v x = acc[j];                                                                                         \
			v[j] = MF##_round(DIVIDE);                                                                                 \
		}                                                                                                                  \
		for (size_t k = 0; k < m->n_dst; k++) {                                                                            \
			char *d = (char *)dst[k] + offset;                                                                         \
			for (size_t j = 0; j < width; j++) {                                                                       \
				if (m->stream)                                                                                     \
					STREAM(d + j * step, v[j]);                                                                \
				else                                                                                               \
					STORE(d + j * step, v[j]);                                                                 \
			}                                                                                                          \
		}                                                                                                                  \
	}                                                                                                                          \
	static void NAME##_##O##_block(const struct ddl__many *m)                                                                  \
	{                                                                                                                          \
		MF##_t s_rest[DDL__MANY_GROUP][NAME##_lanes] = { { 0 } }, d_rest[NAME##_lanes];                                    \
		AF##_t *r = m->acc, r_rest[NAME##_lanes] = { 0 };                                                                  \
		const void *rest[DDL__MANY_GROUP] = { NULL };                                                                      \
		const size_t bytes = sizeof(MF##_t);                                                                               \
		size_t i = 0;                                                                                                      \
		for (; i + WIDTH * NAME##_lanes <= m->n; i += WIDTH * NAME##_lanes)                                                \
			NAME##_##O##_group(m, m->dst, r + i, m->src, m->offset + i * bytes, WIDTH);                                \
		for (; i + NAME##_lanes <= m->n; i += NAME##_lanes)                                                                \
			NAME##_##O##_group(m, m->dst, r + i, m->src, m->offset + i * bytes, 1);                                    \
		if (i == m->n)                                                                                                     \
			return;                                                                                                    \
		void *put = d_rest;                                                                                                \
		struct ddl__many one = *m;                                                                                         \
		one.n_dst = 1;                                                                                                     \
		one.stream = 0;                                                                                                    \
		for (size_t k = 0; k < m->n_src; k++)                                                                              \
			rest[k] = memcpy(s_rest[k], (const char *)m->src[k] + m->offset + i * bytes, (m->n - i) * bytes);          \
		if (!m->begin)                                                                                                     \
			memcpy(r_rest, r + i, (m->n - i) * sizeof(*r));                                                            \
		NAME##_##O##_group(&one, &put, r_rest, rest, 0, 1);                                                                \
		for (size_t k = 0; m->ranks && k < m->n_dst; k++)                                                                  \
			memcpy((char *)m->dst[k] + m->offset + i * bytes, d_rest, (m->n - i) * bytes);                             \
		if (!m->ranks)                                                                                                     \
			memcpy(r + i, r_rest, (m->n - i) * sizeof(*r));                                                            \
	}                                                                                                                          \
	static void NAME##_##O##_many(void *const *dst, size_t n_dst, const void *const *src, size_t n_src, size_t n, int ranks,   \
				      int stream)                                                                                  \
	{                                                                                                                          \
		static const struct ddl__many_call call = { NAME##_##O##_block, sizeof(MF##_t), 1 };                               \
		if (n_src == 2 && n_dst == 1 && !stream) /* loops over two sources and one destination do not pay */               \
			NAME##_##O##_store(dst[0], src[0], src[1], n, ranks);                                                      \
		else                                                                                                               \
			ddl__many(&call, dst, n_dst, src, n_src, n, ranks, stream);                                                \
	}

#define VECTOR_ROW(NAME, O, MF, WF)                                                                                                \
	{                                                                                                                          \
		sizeof(MF##_t), sizeof(WF##_t), NAME##_encode, NAME##_decode, NAME##_##O##_wire, NAME##_##O##_store,               \
			NAME##_##O##_finish, MF##_##O##_many                                                                       \
	}

/* TEMPLATE for each operation. */
#define VECTOR_OPS(TEMPLATE, NAME, MF, WF, AF)                                                                                     \
	TEMPLATE(NAME, sum, MF, WF, AF, x + y, AF##_whole(x))                                                                      \
	TEMPLATE(NAME, avg, MF, WF, AF, x + y, AF##_whole(x / (AF##_t)ranks))                                                      \
	TEMPLATE(NAME, min, MF, WF, AF, AF##_min(x, y), AF##_whole(x))                                                             \
	TEMPLATE(NAME, max, MF, WF, AF, AF##_max(x, y), AF##_whole(x))                                                             \
	TEMPLATE(NAME, prod, MF, WF, AF, (x) * (y), AF##_whole(x))

#define VECTOR_WIRE(NAME, MF, WF, AF)                                                                                              \
	VECTOR_CONVERSIONS(NAME, MF, WF, AF)                                                                                       \
	VECTOR_OPS(VECTOR_KERNELS, NAME, MF, WF, AF)

#define VECTOR_TABLE(NAME, MF, WF)                                                                                                 \
	static const struct ddl__kernels NAME##_kernels[] = {                                                                      \
		[DDL_SUM] = VECTOR_ROW(NAME, sum, MF, WF),   [DDL_AVG] = VECTOR_ROW(NAME, avg, MF, WF),                            \
		[DDL_MIN] = VECTOR_ROW(NAME, min, MF, WF),   [DDL_MAX] = VECTOR_ROW(NAME, max, MF, WF),                            \
		[DDL_PROD] = VECTOR_ROW(NAME, prod, MF, WF),                                                                       \
	};

/* A format that travels as it is, and with it reduce-many, which does not travel. */
#define VECTOR_NATIVE(MF, AF)                                                                                                      \
	VECTOR_WIRE(MF, MF, MF, AF)                                                                                                \
	VECTOR_OPS(VECTOR_MANY, MF, MF, MF, AF)                                                                                    \
	VECTOR_TABLE(MF, MF, MF)

/* float32 on another wire. */
#define VECTOR_OTHER(NAME, WF)                                                                                                     \
	VECTOR_WIRE(NAME, f32, WF, f32)                                                                                            \
	VECTOR_TABLE(NAME, f32, WF)

VECTOR_NATIVE(f32, f32)
VECTOR_NATIVE(bf16, f32)
VECTOR_OTHER(f32_bf16, bf16)
#ifndef VECTOR_BF16_ONLY
VECTOR_NATIVE(f64, f64)
VECTOR_NATIVE(f16, f32)
VECTOR_OTHER(f32_f16, f16)
#endif

#endif
