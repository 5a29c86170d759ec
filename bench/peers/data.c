/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.c - inputs between -4 and 3, so that sums over 64 ranks stay within 256, exact even in bfloat16's eight bits. An element's
 * value depends on its place through a hash: blocks that arrive in the wrong place, twice or not at all are found.
 */
#include <stdint.h>
#include <string.h>

#include "data.h"

size_t data_type_size(enum bench_type type)
{
	return type == BENCH_FLOAT32 ? 4 : 2;
}

static int input(uint32_t index, uint32_t rank)
{
	return (int)(((index + 1) * 2654435761u + rank * 0x9e3779b9u) >> 29) - 4;
}

static uint16_t bfloat16_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bits += 0x7fff + (bits >> 16 & 1);
	return (uint16_t)(bits >> 16);
}

static float float_of(uint16_t value)
{
	const uint32_t bits = (uint32_t)value << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

void data_fill(enum bench_type type, void *data, size_t count, int rank)
{
	if (type == BENCH_FLOAT32) {
		for (size_t i = 0; i < count; i++)
			((float *)data)[i] = (float)input((uint32_t)i, (uint32_t)rank);
	} else {
		for (size_t i = 0; i < count; i++)
			((uint16_t *)data)[i] = bfloat16_of((float)input((uint32_t)i, (uint32_t)rank));
	}
}

void data_poison(void *data, size_t bytes)
{
	memset(data, 0xfb, bytes); /* -2.6e36 in float32 and in bfloat16 */
}

size_t data_check(enum bench_type type, const void *data, size_t count, int size, double *got, double *expected)
{
	for (size_t i = 0; i < count; i++) {
		const float value = type == BENCH_FLOAT32 ? ((const float *)data)[i] : float_of(((const uint16_t *)data)[i]);
		int sum = 0;

		for (int rank = 0; rank < size; rank++)
			sum += input((uint32_t)i, (uint32_t)rank);
		if (value == (float)sum)
			continue;
		*got = (double)value;
		*expected = sum;
		return i;
	}
	return count;
}

void bench_add_bfloat16(unsigned short *restrict a, const unsigned short *restrict b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		a[i] = bfloat16_of(float_of(a[i]) + float_of(b[i]));
}
