/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.c - int8 blocks that hold infinities or NaNs: seldom, so element by element, and for all kernel sets once.
 */
#include "blocks.h"

#include <math.h>

enum { CODE_NAN = -128, CODE_INFINITY = 127, CODE_MINUS_ZERO = -126 };

static int8_t encode(float x, float inverse, int random, uint32_t bits)
{
	uint32_t magnitude = ddl__bits(x) & DDL__MAGNITUDE;
	if (magnitude >= DDL__INFINITE)
		return magnitude > DDL__INFINITE ? CODE_NAN : x > 0 ? CODE_INFINITY : -CODE_INFINITY;
	float t = x * inverse;
	int32_t code = random ? ddl__i8_random(t, DDL__I8_ODD_MOST, bits) : ddl__nearest(t);
	return (int8_t)(code == 0 && signbit(x) ? CODE_MINUS_ZERO : code);
}

void ddl__i8_odd_encode(void *wire, const float *src, size_t n, int random, uint32_t key, uint32_t index)
{
	int8_t *codes = (int8_t *)wire + DDL__SCALE_BYTES;
	uint32_t top = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t magnitude = ddl__bits(src[i]) & DDL__MAGNITUDE;
		top = magnitude < DDL__INFINITE && magnitude > top ? magnitude : top;
	}
	const float scale = ddl__i8_scale(top, DDL__I8_ODD_MOST), marked = -scale;
	memcpy(wire, &marked, sizeof(marked));
	for (size_t i = 0; i < n; i++)
		codes[i] = encode(src[i], 1 / scale, random, random ? ddl__dither(key, index + (uint32_t)i) : 0);
}

void ddl__i8_odd_decode(float *dst, const void *wire, size_t n)
{
	const int8_t *codes = (const int8_t *)wire + DDL__SCALE_BYTES;
	float scale;
	memcpy(&scale, wire, sizeof(scale));
	for (size_t i = 0; i < n; i++) {
		const int8_t code = codes[i];
		dst[i] = code == CODE_NAN          ? NAN
			 : code == CODE_INFINITY   ? INFINITY
			 : code == -CODE_INFINITY  ? -INFINITY
			 : code == CODE_MINUS_ZERO ? -0.0f
						   : (float)code * -scale;
	}
}
