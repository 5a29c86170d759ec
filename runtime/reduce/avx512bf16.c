/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avx512bf16.c - the kernels that touch bfloat16, for AVX-512 with BF16.
 *
 * The instruction that rounds float32 to bfloat16 takes subnormal numbers for zeros, whatever the mode of the processor; all sets
 * agree to the bit, so that vectors that hold one are rounded as avx512.c does it. They are rare, and a test of the numbers' class
 * finds them.
 */
#include <immintrin.h>

#define VECTOR_BYTES     64
#define VECTOR_BF16_ONLY 1
#include "vector_x86.inc"

enum { CLASS_SUBNORMAL = 0x20, CLASS_NAN = 0x81 }; /* of vfpclassps */

static inline bf16_v bf16_round(f32_v x)
{
	if (__builtin_expect(_mm512_fpclass_ps_mask((__m512)x, CLASS_SUBNORMAL) != 0, 0))
		return bf16_round_bits(x);
	return (bf16_v)_mm512_cvtneps_pbh((__m512)x);
}

static inline bf16_v bf16_complete(f32_v x)
{
	if (__builtin_expect(_mm512_fpclass_ps_mask((__m512)x, CLASS_SUBNORMAL | CLASS_NAN) != 0, 0))
		return bf16_complete_bits(x);
	return (bf16_v)_mm512_cvtneps_pbh((__m512)x);
}

#include "random.inc"
#include "vector.inc"

static int usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16");
}

static const struct ddl__kernels *get(enum ddl_op op, enum ddl_type type, enum ddl_wire wire)
{
	if (op < DDL_SUM || op > DDL_PROD)
		return NULL;
	if (type == DDL_FLOAT32 && wire == DDL_WIRE_BFLOAT16)
		return &f32_bf16_kernels[op];
	return type == DDL_BFLOAT16 && wire == DDL_WIRE_NATIVE ? &bf16_kernels[op] : NULL;
}

const struct ddl__kernel_set ddl__kernel_set_avx512bf16 = {
	.name = "avx512bf16",
	.description = "AVX-512 with BF16: bfloat16 data and wires",
	.usable = usable,
	.get = get,
};
