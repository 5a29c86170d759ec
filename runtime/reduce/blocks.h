/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.h - the wires on which 256 elements share a scale, a float32 in front of them: how the scale is chosen, random rounding,
 * and blocks that hold what is no number.
 *
 * A decoded block, encoded again with the same elements in it, decodes to the same numbers: ranks pass results on that way.
 *
 * int8: a code is a multiple of the scale, -127 ... 127, and -128 is -0. The scale is the largest magnitude divided by 127, rounded
 * up to 16 significant bits: so a code times the scale is exact, and the largest magnitude always gets the code 127. Where a block
 * holds infinities or NaNs the scale's sign bit is set: then codes of numbers end at 125, 127 is an infinity, -128 a NaN, and -126
 * is -0. What is smaller than half of the scale becomes a zero of its sign. No scale is below 2^-110.
 *
 * float16: an element is multiplied by a power of two that lifts the largest finite magnitude to 2^14 ... 2^15, at most by 2^114;
 * the scale is that power's reciprocal. Infinities and NaNs are float16's own.
 */
#ifndef DDL_REDUCE_BLOCKS_H
#define DDL_REDUCE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "convert.h"

enum {
	DDL__BLOCK = 256,      /* elements with one scale */
	DDL__SCALE_BYTES = 4,  /* of a scale */
	DDL__I8_MOST = 127,    /* largest code of a number */
	DDL__I8_ODD_MOST = 125 /* the same in a block with infinities or NaNs */
};

enum { DDL__INFINITE = 0x7f800000, DDL__MAGNITUDE = 0x7fffffff }; /* of float32's bits */

#define DDL__ROUNDER      0x1.8p23f         /* added to a number below 2^22 it leaves the nearest whole one in the low bits */
#define DDL__ROUNDER_BITS 0x4b400000        /* its bits */
#define DDL__FINE         4096              /* parts of a unit that random rounding tells apart */
#define DDL__FINE_BITS    12                /* their number's logarithm */
#define DDL__I8_EDGE      (DDL__FINE / 128) /* so near below the largest code a number is the largest, whatever chance says */

/* The bits of the whole number nearest to t, ties to even; |t| < 2^22. */
static inline int32_t ddl__nearest(float t)
{
	return (int32_t)(ddl__bits(t + DDL__ROUNDER) - DDL__ROUNDER_BITS);
}

/* The scale of an int8 block whose largest finite magnitude has these bits, for codes up to `most`. */
static inline float ddl__i8_scale(uint32_t top, int most)
{
	const float least = 0x1p-110f, largest = most == DDL__I8_MOST ? 0x1.0204p121f : 0x1.0624p121f; /* no decoded overflow */
	float scale = ddl__float(top) / (float)most;
	scale = ddl__float((ddl__bits(scale) + 0xffu) & ~0xffu);
	return scale < least ? least : scale > largest ? largest : scale;
}

/* The scale of a float16 block whose largest finite magnitude has these bits: a power of two. */
static inline float ddl__f16_scale(uint32_t top)
{
	uint32_t exponent = (top >> 23) + ((top & 0x7fffffu) > 0x7fe000u); /* what may be rounded up to it */
	exponent = exponent < 27 ? 27 : exponent;
	return ddl__float((exponent - 14) << 23);
}

/* Its reciprocal. */
static inline float ddl__f16_lift(float scale)
{
	return ddl__float((254u << 23) - ddl__bits(scale));
}

/* 32 random bits that depend on key and index alone. */
static inline uint32_t ddl__dither(uint32_t key, uint32_t index)
{
	uint32_t x = index * 0x9e3779b1u ^ key;
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

/* t rounded down or up, by chance, in proportion to how near it is to either; whole numbers stay. |t| <= most <= 127. */
static inline int32_t ddl__i8_random(float t, int32_t most, uint32_t random)
{
	int32_t fine = ddl__nearest(t * DDL__FINE), edge = most * DDL__FINE - DDL__I8_EDGE;
	fine = fine > edge ? most * DDL__FINE : fine < -edge ? -most * DDL__FINE : fine;
	return (fine + (int32_t)(random >> (32 - DDL__FINE_BITS))) >> DDL__FINE_BITS;
}

static inline uint16_t ddl__bf16_random(float f, uint32_t random)
{
	uint32_t u = ddl__bits(f), nan = (u & DDL__MAGNITUDE) > DDL__INFINITE;
	return (uint16_t)(nan ? (u >> 16) | 0x40u : (u + (random >> 16)) >> 16);
}

/* |t| < 2^16, or not finite. */
static inline uint16_t ddl__f16_random(float t, uint32_t random)
{
	uint32_t u = ddl__bits(t), sign = (u >> 16) & 0x8000u, rest = u & DDL__MAGNITUDE;
	if (rest >= DDL__INFINITE)
		return ddl__to_f16(t);
	if (rest >= 0x38800000u) /* 2^-14: a normal number */
		return ddl__to_f16(ddl__float((u + (random >> 19)) & ~0x1fffu));
	uint32_t fine = (uint32_t)ddl__nearest(ddl__float(rest) * 0x1p36f);
	return (uint16_t)(sign | (fine + (random >> (32 - DDL__FINE_BITS))) >> DDL__FINE_BITS);
}

/* blocks.c: an int8 block that holds infinities or NaNs; n <= DDL__BLOCK. random: round by chance, with key and index. */
void ddl__i8_odd_encode(void *wire, const float *src, size_t n, int random, uint32_t key, uint32_t index);
void ddl__i8_odd_decode(float *dst, const void *wire, size_t n);

#endif
