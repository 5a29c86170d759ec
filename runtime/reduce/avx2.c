/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avx2.c - the kernels for AVX2 and F16C.
 */
#include <cpuid.h>
#include <immintrin.h>

#define VECTOR_BYTES 32
#include "vector_x86.inc"

#define bf16_round    bf16_round_bits
#define bf16_complete bf16_complete_bits

#include "plain.inc"
#include "vector.inc"
#include "blocks.inc"
#include "set.inc"

static int usable(void) /* clang 14 does not know "f16c" */
{
	unsigned a, b, c = 0, d;
	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

const struct ddl__kernel_set ddl__kernel_set_avx2 = {
	.name = "avx2",
	.description = "AVX2 and F16C: vectors of 32 bytes",
	.usable = usable,
	.get = get,
};
