/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set.h - the way from (operation, type, wire) to the kernels of a full set. Included once by a set's file, after its kernels.
 */
#ifndef DDL_REDUCE_SET_H
#define DDL_REDUCE_SET_H

#include "reduce.h"

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

#endif
