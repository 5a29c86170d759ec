/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert.h - float32 to bfloat16 and float16 and back, in portable C: round to nearest even, subnormals kept, NaN quiet.
 */
#ifndef DDL_REDUCE_CONVERT_H
#define DDL_REDUCE_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ddl__bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float ddl__float(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline float ddl__from_bf16(uint16_t h)
{
	return ddl__float((uint32_t)h << 16);
}

static inline uint16_t ddl__to_bf16(float f)
{
	uint32_t u = ddl__bits(f);
	uint32_t nan = (u & 0x7fffffffu) > 0x7f800000u;
	uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
	return (uint16_t)(nan ? (u >> 16) | 0x40u : rounded);
}

static inline float ddl__from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
	if (rest >= 0x7c00u) /* infinity, NaN */
		return ddl__float(sign | 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0));
	if (rest < 0x400u) /* zero, subnormal: rest * 2^-24 is exact */
		return ddl__float(sign | ddl__bits((float)rest * 0x1p-24f));
	return ddl__float(sign | ((rest << 13) + (112u << 23)));
}

static inline uint16_t ddl__to_f16(float f)
{
	uint32_t u = ddl__bits(f), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
	if (rest > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
	if (rest >= 0x477ff000u) /* 65520 and more round to infinity */
		return (uint16_t)(sign | 0x7c00u);
	if (rest < 0x38800000u) /* below 2^-14: adding 0.5 leaves the subnormal, correctly rounded, in the low bits */
		return (uint16_t)(sign | (ddl__bits(ddl__float(rest) + 0.5f) - 0x3f000000u));
	return (uint16_t)(sign | ((rest + 0xfffu + ((rest >> 13) & 1) - (112u << 23)) >> 13));
}

#endif
