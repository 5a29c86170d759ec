/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avx512.c - the kernels for AVX-512 (F, BW, VL, DQ).
 */
#include <immintrin.h>

#define VECTOR_BYTES 64
#include "vector_x86.inc"

#define bf16_round    bf16_round_bits
#define bf16_complete bf16_complete_bits

#include "plain.inc"
#include "vector.inc"
#include "blocks.inc"
#include "set.inc"

static int usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq");
}

const struct ddl__kernel_set ddl__kernel_set_avx512 = {
	.name = "avx512",
	.description = "AVX-512 F, BW, VL, DQ: vectors of 64 bytes",
	.usable = usable,
	.get = get,
};
