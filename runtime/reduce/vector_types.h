/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_types.h - vectors of VECTOR_BYTES for vector.h: of accumulators, of their bits, and of as many 16-bit elements.
 */
#ifndef DDL_REDUCE_VECTOR_TYPES_H
#define DDL_REDUCE_VECTOR_TYPES_H

#include <stdint.h>

typedef double f64_t;
typedef float f32_t;
typedef uint16_t bf16_t;
typedef uint16_t f16_t;

typedef double f64_v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t u64_v __attribute__((vector_size(VECTOR_BYTES)));
typedef float f32_v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t u32_v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t u16_v __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef u16_v bf16_v;
typedef u16_v f16_v;

#endif
