/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_x86.h - what vector.h wants of x86. Its minima give the second operand where both are zeros or one is a NaN:
 * taken in both orders and joined bit by bit, -0 wins over +0, and a NaN stays one.
 */
#ifndef DDL_REDUCE_VECTOR_X86_H
#define DDL_REDUCE_VECTOR_X86_H

#include <immintrin.h>

#include "vector_types.h"

#if VECTOR_BYTES == 64
#define X86(NAME)              _mm512_##NAME
#define X86_PS                 __m512
#define X86_PD                 __m512d
#define X86_CHOOSE_PS(k, a, b) _mm512_mask_mov_ps(b, k, a)
#define X86_CHOOSE_PD(k, a, b) _mm512_mask_mov_pd(b, k, a)
#define X86_NAN_PS(x)          _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)
#define X86_NAN_PD(x)          _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q)
#else
#define X86(NAME)              _mm256_##NAME
#define X86_PS                 __m256
#define X86_PD                 __m256d
#define X86_CHOOSE_PS(k, a, b) _mm256_blendv_ps(b, a, k)
#define X86_CHOOSE_PD(k, a, b) _mm256_blendv_pd(b, a, k)
#define X86_NAN_PS(x)          _mm256_cmp_ps(x, x, _CMP_UNORD_Q)
#define X86_NAN_PD(x)          _mm256_cmp_pd(x, x, _CMP_UNORD_Q)
#endif

/* Stores size bytes past the caches; p has their alignment. */
static inline __attribute__((always_inline)) void x86_stream(void *p, const void *v, size_t size)
{
#if VECTOR_BYTES == 64
	if (size == 64)
		_mm512_stream_si512(p, _mm512_loadu_si512(v));
#endif
	if (size == 32)
		_mm256_stream_si256(p, _mm256_loadu_si256(v));
	if (size == 16)
		_mm_stream_si128(p, _mm_loadu_si128(v));
}

#define STREAM(p, v) x86_stream(p, &(v), sizeof(v))

static inline f32_v f32_min(f32_v x, f32_v y)
{
	return (f32_v)X86(or_ps)(X86(min_ps)((X86_PS)x, (X86_PS)y), X86(min_ps)((X86_PS)y, (X86_PS)x));
}

static inline f64_v f64_min(f64_v x, f64_v y)
{
	return (f64_v)X86(or_pd)(X86(min_pd)((X86_PD)x, (X86_PD)y), X86(min_pd)((X86_PD)y, (X86_PD)x));
}

static inline f32_v f32_max(f32_v x, f32_v y)
{
	return -f32_min(-x, -y);
}

static inline f64_v f64_max(f64_v x, f64_v y)
{
	return -f64_min(-x, -y);
}

/* A complete result: one NaN only. */
static inline f32_v f32_whole(f32_v x)
{
	return (f32_v)X86_CHOOSE_PS(X86_NAN_PS((X86_PS)x), X86(set1_ps)(__builtin_nanf("")), (X86_PS)x);
}

static inline f64_v f64_whole(f64_v x)
{
	return (f64_v)X86_CHOOSE_PD(X86_NAN_PD((X86_PD)x), X86(set1_pd)(__builtin_nan("")), (X86_PD)x);
}

/* The bits of x rounded to the upper 16 of each 32, the lower ones whatever they are; a NaN stays one, quiet. */
static inline f32_v bf16_round_wide(f32_v x)
{
	u32_v u = (u32_v)x, nearest = u + (0x7fffu + ((u >> 16) & 1u));
	return (f32_v)X86_CHOOSE_PS(X86_NAN_PS((X86_PS)x), (X86_PS)(u | 0x400000u), (X86_PS)nearest);
}

#endif
