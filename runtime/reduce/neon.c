/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neon.c - the kernels for arm64's NEON. Its minima and maxima and its conversions do what vector.inc wants: -0 is less than +0,
 * NaNs stay, rounding is to nearest even, and subnormals are kept.
 */
#include <arm_neon.h>

#define VECTOR_BYTES 16
#include "vector_types.inc"

static inline f32_v f32_min(f32_v x, f32_v y)
{
	return (f32_v)vminq_f32((float32x4_t)x, (float32x4_t)y);
}

static inline f64_v f64_min(f64_v x, f64_v y)
{
	return (f64_v)vminq_f64((float64x2_t)x, (float64x2_t)y);
}

static inline f32_v f32_max(f32_v x, f32_v y)
{
	return (f32_v)vmaxq_f32((float32x4_t)x, (float32x4_t)y);
}

static inline f64_v f64_max(f64_v x, f64_v y)
{
	return (f64_v)vmaxq_f64((float64x2_t)x, (float64x2_t)y);
}

static inline f32_v f32_whole(f32_v x)
{
	return (f32_v)vbslq_f32((uint32x4_t)(x == x), (float32x4_t)x, vdupq_n_f32(__builtin_nanf("")));
}

static inline f64_v f64_whole(f64_v x)
{
	return (f64_v)vbslq_f64((uint64x2_t)(x == x), (float64x2_t)x, vdupq_n_f64(__builtin_nan("")));
}

static inline f32_v bf16_widen(bf16_v h)
{
	return (f32_v)vshll_n_u16((uint16x4_t)h, 16);
}

static inline bf16_v bf16_round(f32_v x)
{
	u32_v u = (u32_v)x, nearest = u + (0x7fffu + ((u >> 16) & 1u));
	return (bf16_v)vshrn_n_u32(vbslq_u32((uint32x4_t)(x == x), (uint32x4_t)nearest, (uint32x4_t)(u | 0x400000u)), 16);
}

static inline f32_v f16_widen(f16_v h)
{
	return (f32_v)vcvt_f32_f16((float16x4_t)h);
}

static inline f16_v f16_round(f32_v x)
{
	__asm__("" : "+w"(x)); /* gcc takes there and back for nothing, but that makes signalling NaNs quiet */
	return (f16_v)vcvt_f16_f32((float32x4_t)x);
}

#include "plain.inc"
#include "vector.inc"
#include "blocks.inc"
#include "set.inc"

static int usable(void) /* every arm64 CPU has it */
{
	return 1;
}

const struct ddl__kernel_set ddl__kernel_set_neon = {
	.name = "neon",
	.description = "NEON: vectors of 16 bytes",
	.usable = usable,
	.get = get,
};
