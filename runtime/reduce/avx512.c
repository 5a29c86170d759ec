/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avx512.c - the kernels for AVX-512 (F, BW, VL, DQ).
 */
#include <immintrin.h>

#define VECTOR_BYTES 64
#include "vector_x86.inc"

static inline f32_v f16_widen(f16_v h)
{
	return (f32_v)_mm512_cvtph_ps((__m256i)h);
}

static inline f16_v f16_round(f32_v x)
{
	return (f16_v)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
}

#define bf16_round    bf16_round_bits
#define bf16_complete bf16_complete_bits

#include "plain.inc"
#include "vector.inc"
#include "set.inc"

static int usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq");
}

extern const struct ddl__kernel_set ddl__kernel_set_avx512;
const struct ddl__kernel_set ddl__kernel_set_avx512 = {
	.name = "avx512",
	.description = "AVX-512 F, BW, VL, DQ: vectors of 64 bytes",
	.usable = usable,
	.get = get,
};
