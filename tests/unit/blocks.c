/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wires on which 256 elements share a scale, of every kernel set that this CPU has: how long they are, how far they round, that
 * what was rounded once is not rounded again, what becomes of special values, and that chance is fair. tests/unit/kernels.c
 * compares the sets' bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "reduce.h"
#include "trees.h"

enum { N = 5 * DDL__BLOCK + 77, BLOCKS = 6, WIRE_MAX = N * 2 + BLOCKS * DDL__SCALE_BYTES };

static const enum ddl_wire wires[] = { DDL_WIRE_FLOAT16, DDL_WIRE_INT8 };

typedef void check_function(const struct ddl__kernels *k, bool int8);

static void for_each(check_function *check)
{
	for (const struct ddl__kernel_set *const *set = ddl__kernel_sets; *set; set++)
		for (size_t w = 0; w < 2 && (*set)->usable(); w++) {
			const struct ddl__kernels *k = (*set)->get(DDL_SUM, DDL_FLOAT32, wires[w]);
			if (k)
				check(k, wires[w] == DDL_WIRE_INT8);
		}
}

static float from_bits(uint32_t u)
{
	return ddl__float(u);
}

/* Numbers of magnitudes that spread over 2^spread below 2^top. */
static void fill(float *x, size_t n, int top, int spread, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t r = next_random(seed);
		double size = ldexp((double)(r >> 11 | 1u << 20) * 0x1p-53, top - (int)(r % (uint64_t)(spread + 1)));
		x[i] = (float)(r >> 8 & 1 ? -size : size);
	}
}

static float largest_of(const float *x, size_t block, size_t n)
{
	float largest = 0;
	for (size_t i = block * DDL__BLOCK; i < n && i < (block + 1) * DDL__BLOCK; i++)
		if (isfinite(x[i]) && fabsf(x[i]) > largest)
			largest = fabsf(x[i]);
	return largest;
}

static void a_block_has_one_scale_and_a_short_one_is_cut(void **state)
{
	const struct ddl__kernels *i8 = ddl__kernels_get(DDL_SUM, DDL_FLOAT32, DDL_WIRE_INT8);
	const struct ddl__kernels *f16 = ddl__kernels_get(DDL_SUM, DDL_FLOAT32, DDL_WIRE_FLOAT16);
	assert_int_equal(ddl__wire_size(i8, 0), 0);
	assert_int_equal(ddl__wire_size(i8, 1), 5);
	assert_int_equal(ddl__wire_size(i8, 256), 260);
	assert_int_equal(ddl__wire_size(i8, 257), 265);
	assert_int_equal(ddl__wire_size(f16, 256), 516);
	assert_int_equal(ddl__wire_size(f16, 257), 522);
	assert_int_equal(ddl__wire_bytes(DDL_WIRE_INT8, DDL_FLOAT32, 1 << 20), (1 << 20) / 256 * 260);
	assert_int_equal(ddl__wire_bytes(DDL_WIRE_BFLOAT16, DDL_FLOAT32, 1000), 2000);
	assert_int_equal(ddl__wire_bytes(DDL_WIRE_NATIVE, DDL_FLOAT64, 1000), 8000);
	assert_int_equal(ddl__wire_bytes(DDL_WIRE_INT8, DDL_FLOAT64, 1000), 0);
}

/* How far element i of a block may be from what it was; random: rounded to either neighbour. */
static double bound(bool int8, float x, float largest, bool random)
{
	double half = int8 ? fmax((double)largest / 127 * (1 + 0x1p-15), 0x1p-110) / 2
			   : fmax(fabs((double)x) * 0x1p-11, fmax((double)largest, 0x1p-100) * 0x1p-38);
	return half * (random ? 2 : 1) * (1 + 0x1p-10);
}

static void check_bounds(const struct ddl__kernels *k, bool int8)
{
	static const int tops[] = { -140, -112, -100, -60, -1, 0, 17, 126 };
	static const int spreads[] = { 0, 3, 20, 60 };
	float x[N], y[N], z[N];
	char wire[WIRE_MAX];
	uint64_t seed = 1;
	for (size_t t = 0; t < sizeof(tops) / sizeof(tops[0]); t++)
		for (size_t s = 0; s < 4; s++)
			for (int random = 0; random < 3; random++) {
				fill(x, N, tops[t], spreads[s], &seed);
				if (random)
					k->encode_random(wire, x, N, (uint32_t)random * 77, 5);
				else
					k->encode(wire, x, N);
				k->decode(y, wire, N);
				for (size_t i = 0; i < N; i++) {
					double most = bound(int8, x[i], largest_of(x, i / DDL__BLOCK, N), random != 0);
					if (!(fabs((double)x[i] - (double)y[i]) <= most) ||
					    (y[i] == 0 && signbit(x[i]) != signbit(y[i])))
						fail_msg(
							"int8 %d top %d spread %d random %d: %.9g became %.9g, off by more than %g",
							int8, tops[t], spreads[s], random, (double)x[i], (double)y[i], most);
				}
				k->encode(wire, y, N); /* what was rounded is not rounded again: neither to nearest */
				k->decode(z, wire, N);
				assert_memory_equal(y, z, sizeof(y));
				k->encode_random(wire, y, N, 4711, 3); /* nor by chance */
				k->decode(z, wire, N);
				assert_memory_equal(y, z, sizeof(y));
			}
}

/* A block of three whose largest element lies just below where its scale would change, and smaller ones down to the last bit. */
static void check_edges(const struct ddl__kernels *k, bool int8)
{
	uint64_t seed = 77;
	for (int round = 0; round < 20000; round++) {
		uint64_t r = next_random(&seed);
		uint32_t edge = round % 2 ? 0x3fffffff - (uint32_t)(r % 0x3000) : 0x3f800000 + (uint32_t)(r % 0x800000);
		float x[3] = { from_bits(edge), 0, 0 }, y[3], z[3];
		char wire[16];
		x[1] = (float)(r >> 40) * 0x1p-24f;
		x[2] = -ldexpf(x[1], int8 ? -3 : -(int)(r >> 20 & 15) - 22);
		if (round % 3)
			k->encode_random(wire, x, 3, (uint32_t)r, (uint32_t)round);
		else
			k->encode(wire, x, 3);
		k->decode(y, wire, 3);
		k->encode(wire, y, 3);
		k->decode(z, wire, 3);
		assert_memory_equal(y, z, sizeof(y));
	}
}

static void rounding_the_largest_element_moves_no_other(void **state)
{
	for_each(check_edges);
}

static void elements_are_near_what_they_were_and_are_rounded_once(void **state)
{
	for_each(check_bounds);
}

static bool same(float a, float b)
{
	return ddl__bits(a) == ddl__bits(b);
}

static void check_specials(const struct ddl__kernels *k, bool int8)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f };
	float x[N], y[N];
	char wire[WIRE_MAX];
	uint64_t seed = 2;
	for (int random = 0; random < 2; random++)
		for (size_t some = 1; some < 64; some++) {
			fill(x, N, 3, 4, &seed);
			for (size_t i = 0; i < N; i++)
				if (next_random(&seed) % 64 < some && i >= DDL__BLOCK) /* the first block has none */
					x[i] = odd[next_random(&seed) % 5];
			if (random)
				k->encode_random(wire, x, N, 1, 1);
			else
				k->encode(wire, x, N);
			k->decode(y, wire, N);
			for (size_t i = 0; i < N; i++) {
				if (isnan(x[i]))
					assert_true(isnan(y[i]));
				else if (isinf(x[i]) || x[i] == 0)
					assert_true(same(x[i], y[i]));
				else
					assert_true(isfinite(y[i]) && fabsf(x[i] - y[i]) <= 8.0f / 125);
			}
			float z[N];
			k->encode(wire, y, N);
			k->decode(z, wire, N);
			for (size_t i = 0; i < N; i++)
				assert_true(isnan(y[i]) ? isnan(z[i]) : same(y[i], z[i]));
		}
}

static void not_a_number_infinities_and_zeros_of_either_sign_stay(void **state)
{
	for_each(check_specials);
}

static void check_ends(const struct ddl__kernels *k, bool int8)
{
	float x[4] = { FLT_MAX, -FLT_MAX, FLT_MAX / 3, 1 }, y[4];
	char wire[64];
	k->encode(wire, x, 4);
	k->decode(y, wire, 4);
	if (int8) /* never overflows */
		assert_true(isfinite(y[0]) && y[0] > FLT_MAX * 0.999f && y[1] == -y[0] && y[3] == 0);
	else /* as any rounding to nearest: float32's largest number has no neighbour above but infinity */
		assert_true(isinf(y[0]) && isinf(y[1]) && y[1] < 0);
	assert_true(fabsf(y[2] - FLT_MAX / 3) < FLT_MAX / 200);
	const float tiny[4] = { from_bits(1), -from_bits(1), from_bits(0x7fffff), 0 };
	k->encode(wire, tiny, 4); /* subnormal numbers become zeros of their sign */
	k->decode(y, wire, 4);
	assert_true(same(y[0], 0.0f) && same(y[1], -0.0f) && same(y[3], 0.0f));
	/* a scale lifts what float16 alone would lose, and keeps what it would make infinite */
	const float small[2] = { 0x1.234p-90f, 0x1p-92f }, large[2] = { 0x1.8p40f, 0x1p38f };
	k->encode(wire, small, 2);
	k->decode(y, wire, 2);
	assert_true(fabsf(y[0] - small[0]) <= small[0] / 250 && fabsf(y[1] - small[1]) <= small[0] / 250);
	k->encode(wire, large, 2);
	k->decode(y, wire, 2);
	assert_true(fabsf(y[0] - large[0]) <= large[0] / 250 && fabsf(y[1] - large[1]) <= large[0] / 250);
}

static void the_largest_and_the_smallest_numbers_are_as_documented(void **state)
{
	for_each(check_ends);
}

/* A block of two: the first makes the scale, the second is rounded. */
static double mean_of(const struct ddl__kernels *k, const float *pair, int times, float *low, float *high)
{
	char wire[16];
	double sum = 0;
	*low = INFINITY;
	*high = -INFINITY;
	for (int t = 0; t < times; t++) {
		float y[2];
		k->encode_random(wire, pair, 2, (uint32_t)t * 0x9e3779b9u, 12345);
		k->decode(y, wire, 2);
		sum += (double)y[1];
		*low = y[1] < *low ? y[1] : *low;
		*high = y[1] > *high ? y[1] : *high;
	}
	return sum / times;
}

/* 5 standard deviations of the mean of a coin with any probability: the keys are fixed, so it is met always or never. */
static void check_fair(const struct ddl__kernels *k)
{
	enum { TIMES = 20000 };
	uint64_t seed = 9;
	for (int round = 0; round < 40; round++) {
		float pair[2] = { 1, 0 }, low, high;
		pair[1] = ((float)(next_random(&seed) >> 40) * 0x1p-24f - 0.5f) * (round % 2 ? 1.9f : 0x1p-5f);
		double mean = mean_of(k, pair, TIMES, &low, &high), step = (double)high - (double)low;
		assert_true(low <= pair[1] && pair[1] <= high);
		if (!(fabs(mean - (double)pair[1]) <= 5 * 0.5 * step / sqrt(TIMES) + step / 2048))
			fail_msg("%.9g is %.9g on average, between %.9g and %.9g", (double)pair[1], mean, (double)low,
				 (double)high);
	}
}

static void chance_is_fair_and_goes_to_a_neighbour(void **state)
{
	for (const struct ddl__kernel_set *const *set = ddl__kernel_sets; *set; set++)
		for (int wire = DDL_WIRE_BFLOAT16; wire <= DDL_WIRE_INT8 && (*set)->usable(); wire++) {
			const struct ddl__kernels *k = (*set)->get(DDL_SUM, DDL_FLOAT32, (enum ddl_wire)wire);
			if (k)
				check_fair(k);
		}
}

/* Whoever sends them: damaged memory, another version. */
static void check_any_bytes(const struct ddl__kernels *k, bool int8)
{
	uint64_t seed = 3;
	float y[N];
	for (int round = 0; round < 200; round++) {
		char *wire = malloc(ddl__wire_size(k, N)); /* as long as it must be: AddressSanitizer watches */
		for (size_t i = 0; i < ddl__wire_size(k, N); i++)
			wire[i] = (char)next_random(&seed);
		k->decode(y, wire, N);
		k->reduce_wire(wire, wire, y, N);
		free(wire);
	}
}

static void any_bytes_are_decoded_to_something(void **state)
{
	for_each(check_any_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_has_one_scale_and_a_short_one_is_cut),
		cmocka_unit_test(rounding_the_largest_element_moves_no_other),
		cmocka_unit_test(elements_are_near_what_they_were_and_are_rounded_once),
		cmocka_unit_test(not_a_number_infinities_and_zeros_of_either_sign_stay),
		cmocka_unit_test(the_largest_and_the_smallest_numbers_are_as_documented),
		cmocka_unit_test(chance_is_fair_and_goes_to_a_neighbour),
		cmocka_unit_test(any_bytes_are_decoded_to_something),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
