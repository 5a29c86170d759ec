/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: conversions for every 16-bit value, rounding, special values, and every (operation, type, wire) against a float64
 * or wide-integer reference, odd lengths included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "convert.h"
#include "reduce.h"
#include "trees.h"

static void every_bfloat16_value_survives_the_way_to_float32_and_back(void **state)
{
	for (uint32_t h = 0; h < 65536; h++) {
		uint16_t back = ddl__to_bf16(ddl__from_bf16((uint16_t)h));
		if ((h & 0x7fff) > 0x7f80)
			assert_true((back & 0x7fff) > 0x7f80 && (back & 0x40));
		else
			assert_int_equal(back, h);
	}
}

static void every_float16_value_survives_the_way_to_float32_and_back(void **state)
{
	for (uint32_t h = 0; h < 65536; h++) {
		uint16_t back = ddl__to_f16(ddl__from_f16((uint16_t)h));
		if ((h & 0x7fff) > 0x7c00)
			assert_true((back & 0x7fff) > 0x7c00);
		else
			assert_int_equal(back, h);
	}
}

/* Neighbours of a 16-bit magnitude on either side of x; rounding must take the nearer, the even one at a tie. */
static void check_nearest(float x, uint16_t got, float (*widen)(uint16_t))
{
	double d = fabs((double)x - (double)widen(got));
	uint16_t magnitude = got & 0x7fff;
	for (int step = -1; step <= 1; step += 2) {
		if (magnitude == 0 && step < 0)
			continue;
		uint16_t other = (uint16_t)(got + step);
		double e = fabs((double)x - (double)widen(other));
		if (isinf(widen(got)) || isinf(widen(other)))
			continue;
		assert_true(d < e || (d == e && got % 2 == 0));
	}
}

static void rounding_is_to_nearest_and_ties_go_to_even(void **state)
{
	uint64_t seed = 3;
	for (int i = 0; i < 2000000; i++) {
		float x = ddl__float((uint32_t)next_random(&seed));
		if (isnan(x) || isinf(x))
			continue;
		check_nearest(x, ddl__to_bf16(x), ddl__from_bf16);
		if (fabsf(x) < 65504.0f)
			check_nearest(x, ddl__to_f16(x), ddl__from_f16);
	}
	for (uint32_t h = 0; h < 0x7bff; h++) { /* exact ties of float16 */
		float tie = (ddl__from_f16((uint16_t)h) + ddl__from_f16((uint16_t)(h + 1))) / 2;
		assert_int_equal(ddl__to_f16(tie), h % 2 ? h + 1 : h);
		assert_int_equal(ddl__to_f16(-tie), 0x8000 | (h % 2 ? h + 1 : h));
	}
	assert_int_equal(ddl__to_f16(65519.9f), 0x7bff);
	assert_int_equal(ddl__to_f16(65520.0f), 0x7c00);
	assert_int_equal(ddl__to_f16(-1e30f), 0xfc00);
	assert_int_equal(ddl__to_bf16(FLT_MAX), 0x7f80);
	assert_int_equal(ddl__to_bf16(-0.0f), 0x8000);
	assert_int_equal(ddl__to_bf16(1e-45f), 0);
	assert_int_equal(ddl__to_bf16(1e-39f), 11);
	assert_int_equal(ddl__to_f16(0x1p-25f), 0);
	assert_int_equal(ddl__to_f16(0x1.8p-25f), 1);
}

/* ---- every combination against a reference ---- */

enum { N = 1027, RANKS = 3 };

static int is_float(enum ddl_type type)
{
	return type <= DDL_BFLOAT16;
}

/* Element i of a buffer of type as float64; integers as int64 through *whole. */
static double load(const void *buffer, enum ddl_type type, size_t i, int64_t *whole)
{
	*whole = 0;
	switch (type) {
	case DDL_FLOAT64:
		return ((const double *)buffer)[i];
	case DDL_FLOAT32:
		return ((const float *)buffer)[i];
	case DDL_FLOAT16:
		return ddl__from_f16(((const uint16_t *)buffer)[i]);
	case DDL_BFLOAT16:
		return ddl__from_bf16(((const uint16_t *)buffer)[i]);
	case DDL_INT64:
		*whole = ((const int64_t *)buffer)[i];
		break;
	case DDL_INT32:
		*whole = ((const int32_t *)buffer)[i];
		break;
	case DDL_INT8:
		*whole = ((const int8_t *)buffer)[i];
		break;
	case DDL_UINT8:
		*whole = ((const uint8_t *)buffer)[i];
		break;
	}
	return (double)*whole;
}

static int64_t wrap(uint64_t x, enum ddl_type type)
{
	return type == DDL_INT32 ? (int32_t)x : type == DDL_INT8 ? (int8_t)x : type == DDL_UINT8 ? (uint8_t)x : (int64_t)x;
}

static int64_t whole_reference(enum ddl_op op, enum ddl_type type, int64_t a, int64_t b, int ranks)
{
	switch (op) {
	case DDL_SUM:
		return wrap((uint64_t)a + (uint64_t)b, type);
	case DDL_AVG:
		return wrap((uint64_t)a + (uint64_t)b, type) / (ranks ? ranks : 1);
	case DDL_MIN:
		return a < b ? a : b;
	case DDL_MAX:
		return a > b ? a : b;
	case DDL_PROD:
		return wrap((uint64_t)a * (uint64_t)b, type);
	}
	return 0;
}

static double reference(enum ddl_op op, double a, double b, int ranks)
{
	switch (op) {
	case DDL_SUM:
		return a + b;
	case DDL_AVG:
		return (a + b) / (ranks ? ranks : 1);
	case DDL_MIN:
		return a < b ? a : b;
	case DDL_MAX:
		return a > b ? a : b;
	case DDL_PROD:
		return a * b;
	}
	return 0;
}

/* Relative error that one rounding to a type, and the float32 operation before it, may leave. */
static double unit(enum ddl_type type)
{
	return type == DDL_FLOAT64 ? 0x1p-52 : type == DDL_FLOAT32 ? 0x1p-23 : type == DDL_FLOAT16 ? 0x1.1p-11 : 0x1.1p-8;
}

static void check_equal(enum ddl_op op, enum ddl_type type, enum ddl_type made_of, const void *got, const void *a,
			enum ddl_type a_type, const void *b, size_t n, int ranks)
{
	for (size_t i = 0; i < n; i++) {
		int64_t wa, wb, wg;
		double x = load(a, a_type, i, &wa), y = load(b, type, i, &wb), g = load(got, made_of, i, &wg);
		if (!is_float(type)) {
			assert_int_equal(wg, whole_reference(op, type, wa, wb, ranks));
			continue;
		}
		double want = reference(op, x, y, ranks), tiny = made_of == DDL_FLOAT16 ? 0x1p-24 : 0x1p-126;
		if (fabs(g - want) > unit(made_of) * fabs(want) + tiny)
			fail_msg("op %d type %d element %zu: %.17g where %.17g was expected", op, type, i, g, want);
	}
}

static void fill(void *buffer, enum ddl_type type, size_t n, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t r = next_random(seed);
		float x = ((float)(r >> 40) / 0x1p24f - 0.5f) * 8;
		switch (type) {
		case DDL_FLOAT64:
			((double *)buffer)[i] = (double)x + (double)(r & 0xffff) * 0x1p-50;
			break;
		case DDL_FLOAT32:
			((float *)buffer)[i] = x;
			break;
		case DDL_FLOAT16:
			((uint16_t *)buffer)[i] = ddl__to_f16(x);
			break;
		case DDL_BFLOAT16:
			((uint16_t *)buffer)[i] = ddl__to_bf16(x);
			break;
		default:
			memcpy((char *)buffer + i * ddl_type_size(type), &r, ddl_type_size(type));
		}
	}
}

/* A buffer that ends at a page that must not be touched. */
static void *guarded(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
	char *base = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(base != MAP_FAILED);
	assert_int_equal(mprotect(base + room, page, PROT_NONE), 0);
	return base + room - size;
}

static void check_kernels(enum ddl_op op, enum ddl_type type, enum ddl_wire wire, enum ddl_type wire_type, size_t n, uint64_t *seed)
{
	const struct ddl__kernels *k = ddl__kernels_get(op, type, wire);
	assert_non_null(k);
	size_t tb = ddl_type_size(type), wb = ddl_type_size(wire_type);
	assert_int_equal(k->type_bytes, tb);
	assert_int_equal(k->wire_bytes, wb);
	void *src = guarded(n * tb), *dst = guarded(n * tb), *in = guarded(n * wb), *out = guarded(n * wb);
	fill(src, type, n, seed);
	fill(in, wire_type, n, seed);
	k->reduce_wire(out, in, src, n);
	check_equal(op == DDL_AVG ? DDL_SUM : op, type, wire_type, out, in, wire_type, src, n, 0);
	k->reduce_store(dst, in, src, n, 0);
	check_equal(op == DDL_AVG ? DDL_SUM : op, type, type, dst, in, wire_type, src, n, 0);
	k->reduce_store(dst, in, src, n, RANKS);
	check_equal(op, type, type, dst, in, wire_type, src, n, RANKS);
	k->finish(dst, out, in, src, n, RANKS);
	check_equal(op, type, wire_type, out, in, wire_type, src, n, RANKS);
	void *again = guarded(n * tb);
	k->decode(again, out, n);
	assert_memory_equal(again, dst, n * tb); /* the owner keeps what it sends */
	k->finish(src, out, in, src, n, RANKS);  /* in place */
	assert_memory_equal(src, dst, n * tb);
	k->encode(out, dst, n);
	k->decode(again, out, n);
	assert_memory_equal(again, dst, n * tb);
}

static void every_kernel_agrees_with_the_reference(void **state)
{
	static const size_t lengths[] = { 1, 2, 7, 15, 16, 17, 33, N };
	uint64_t seed = 11;
	for (int type = DDL_FLOAT64; type <= DDL_UINT8; type++)
		for (int op = DDL_SUM; op <= DDL_PROD; op++)
			for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
				check_kernels((enum ddl_op)op, (enum ddl_type)type, DDL_WIRE_NATIVE, (enum ddl_type)type,
					      lengths[l], &seed);
	for (int op = DDL_SUM; op <= DDL_PROD; op++)
		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			check_kernels((enum ddl_op)op, DDL_FLOAT32, DDL_WIRE_BFLOAT16, DDL_BFLOAT16, lengths[l], &seed);
		}
}

static void special_values_stay_what_they_are(void **state)
{
	static const float values[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f };
	enum { V = 6 };
	for (int wire = DDL_WIRE_NATIVE; wire <= DDL_WIRE_INT8; wire++)
		for (int op = DDL_SUM; op <= DDL_PROD; op++) {
			const struct ddl__kernels *k = ddl__kernels_get((enum ddl_op)op, DDL_FLOAT32, (enum ddl_wire)wire);
			for (int i = 0; i < V; i++)
				for (int j = 0; j < V; j++) {
					uint32_t in[2], out[2]; /* a scale and an element */
					float got,
						want = (float)reference((enum ddl_op)op, (double)values[i], (double)values[j], 1);
					if (isnan(values[i]) || isnan(values[j]))
						want = NAN;
					k->encode(in, &values[i], 1);
					k->finish(&got, out, in, &values[j], 1, 1);
					float most = wire == DDL_WIRE_INT8 && isfinite(want) ? fabsf(want) * 0x1p-12f : 0;
					assert_true(isnan(want)   ? isnan(got)
						    : isinf(want) ? got == want
								  : fabsf(got - want) <= most);
					if (op == DDL_SUM && want == 0)
						assert_true(signbit(got) == signbit(values[i] + values[j]));
				}
		}
}

/* Of every float type, as its bits: zeros, NaNs of both signs and several payloads, infinities, ordinary numbers. */
static uint64_t special_bits(enum ddl_type type, int i)
{
	static const uint16_t halves[2][10] = { { 0, 0x8000, 0x7e00, 0xfe00, 0x7e05, 0xfe77, 0x7c00, 0xfc00, 0x3c00, 0xc100 },
						{ 0, 0x8000, 0x7fc0, 0xffc0, 0x7fc5, 0xffd7, 0x7f80, 0xff80, 0x3f80, 0xc010 } };
	uint64_t bits = halves[type != DDL_FLOAT16][i];
	if (type == DDL_FLOAT32)
		return bits << 16;
	if (type != DDL_FLOAT64)
		return bits;
	uint32_t u = (uint32_t)bits << 16;
	float f;
	memcpy(&f, &u, sizeof(f));
	double d = (double)f;
	memcpy(&bits, &d, sizeof(bits));
	return bits;
}

static void complete_results_have_the_same_bits_in_either_order_of_the_operands(void **state)
{
	enum { V = 10 };
	for (int type = DDL_FLOAT64; type <= DDL_BFLOAT16; type++)
		for (int op = DDL_SUM; op <= DDL_PROD; op++) {
			const struct ddl__kernels *k = ddl__kernels_get((enum ddl_op)op, (enum ddl_type)type, DDL_WIRE_NATIVE);
			for (int i = 0; i < V; i++)
				for (int j = 0; j < V; j++) {
					uint64_t a = special_bits((enum ddl_type)type, i), b = special_bits((enum ddl_type)type, j);
					uint64_t one = 0, other = 0, wire = 0;
					k->encode(&wire, &a, 1);
					k->reduce_store(&one, &wire, &b, 1, 3);
					k->encode(&wire, &b, 1);
					k->reduce_store(&other, &wire, &a, 1, 3);
					if (one != other)
						fail_msg("type %d, operation %d, values %d and %d: %llx, and %llx the other way",
							 type, op, i, j, (unsigned long long)one, (unsigned long long)other);
				}
		}
}

static void only_float32_has_other_wires(void **state)
{
	assert_int_equal(ddl__wire_resolve(DDL_WIRE_BFLOAT16, DDL_FLOAT32), DDL_WIRE_BFLOAT16);
	assert_int_equal(ddl__wire_resolve(DDL_WIRE_BFLOAT16, DDL_INT32), DDL_WIRE_NATIVE);
	assert_int_equal(ddl__wire_resolve(DDL_WIRE_AUTO, DDL_FLOAT32), DDL_WIRE_NATIVE);
	assert_null(ddl__kernels_get(DDL_SUM, DDL_FLOAT64, DDL_WIRE_BFLOAT16));
	assert_null(ddl__kernels_get((enum ddl_op)9, DDL_FLOAT64, DDL_WIRE_NATIVE));
	assert_null(ddl__kernels_get(DDL_SUM, (enum ddl_type)99, DDL_WIRE_NATIVE));
	assert_int_equal(ddl_type_size((enum ddl_type)99), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bfloat16_value_survives_the_way_to_float32_and_back),
		cmocka_unit_test(every_float16_value_survives_the_way_to_float32_and_back),
		cmocka_unit_test(rounding_is_to_nearest_and_ties_go_to_even),
		cmocka_unit_test(every_kernel_agrees_with_the_reference),
		cmocka_unit_test(special_values_stay_what_they_are),
		cmocka_unit_test(complete_results_have_the_same_bits_in_either_order_of_the_operands),
		cmocka_unit_test(only_float32_has_other_wires),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
