/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units in the last place: what is rounded once is off by half a unit at most, for every type and wire; what a unit is of; and what
 * is left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "reduce.h"
#include "trees.h"
#include "ulp.h"

enum { N = DDL__ULP_BLOCK };

static void one_rounding_is_half_a_unit_at_most(void **state)
{
	uint64_t seed = 3;
	for (int wire = DDL_WIRE_BFLOAT16; wire <= DDL_WIRE_INT8; wire++)
		for (int scale = -20; scale <= 20; scale += 4) {
			const struct ddl__kernels *k = ddl__kernels_get(DDL_SUM, DDL_FLOAT32, (enum ddl_wire)wire);
			struct ddl__ulp ulp = { 0 };
			for (int round = 0; round < 50; round++) {
				float x[N], y[N];
				double want[N], got[N];
				char bytes[N * 4];
				for (int i = 0; i < N; i++)
					x[i] = ldexpf((float)(next_random(&seed) >> 40) * 0x1p-24f, scale) *
					       (next_random(&seed) & 1 ? -1 : 1);
				k->encode(bytes, x, N);
				k->decode(y, bytes, N);
				for (int i = 0; i < N; i++) {
					want[i] = x[i];
					got[i] = y[i];
				}
				ddl__ulp_add(&ulp, DDL_FLOAT32, (enum ddl_wire)wire, got, want, N);
			}
			assert_int_equal(ulp.n, 50 * N);
			if (!(ulp.most <= 0.501 && ulp.most > 0.4 && ddl__ulp_rms(&ulp) > 0.12 && ddl__ulp_rms(&ulp) < 0.3))
				fail_msg("wire %d, scale %d: most %g, root of mean square %g", wire, scale, ulp.most,
					 ddl__ulp_rms(&ulp));
		}
}

static double unit_error(enum ddl_type type, enum ddl_wire wire, const double *want, size_t i, double error, size_t n)
{
	struct ddl__ulp ulp = { 0 };
	double got[N];
	for (size_t j = 0; j < n; j++)
		got[j] = want[j] + (j == i ? error : 0);
	ddl__ulp_add(&ulp, type, wire, got, want, n);
	assert_float_equal(ddl__ulp_rms(&ulp), ulp.most / sqrt((double)n), 1e-9);
	return ulp.most;
}

static void a_unit_is_of_the_element_but_not_less_than_of_its_block(void **state)
{
	const double alike[] = { 2, -2, 2, 2 }, cancelled[] = { 2, 0, -2, 2 }, large[] = { 127, 1, 0, 0 };
	assert_float_equal(unit_error(DDL_FLOAT32, DDL_WIRE_BFLOAT16, alike, 1, 0x1p-6, 4), 1, 1e-9);
	assert_float_equal(unit_error(DDL_FLOAT32, DDL_WIRE_FLOAT16, alike, 1, 0x1p-9, 4), 1, 1e-9);
	assert_float_equal(unit_error(DDL_FLOAT32, DDL_WIRE_NATIVE, alike, 1, 0x1p-22, 4), 1, 1e-9);
	assert_float_equal(unit_error(DDL_BFLOAT16, DDL_WIRE_NATIVE, alike, 1, 0x1p-6, 4), 1, 1e-9);
	assert_float_equal(unit_error(DDL_FLOAT16, DDL_WIRE_NATIVE, alike, 1, 0x1p-9, 4), 1, 1e-9);
	assert_float_equal(unit_error(DDL_FLOAT64, DDL_WIRE_NATIVE, alike, 1, 0x1p-51, 4), 1, 1e-9);
	assert_float_equal(unit_error(DDL_FLOAT32, DDL_WIRE_BFLOAT16, cancelled, 1, 0x1p-6, 4), sqrt(4. / 3), 1e-9);
	assert_float_equal(unit_error(DDL_FLOAT32, DDL_WIRE_BFLOAT16, large, 0, 127 * 0x1p-7, 4), 1, 1e-9);
	assert_float_equal(unit_error(DDL_FLOAT32, DDL_WIRE_INT8, large, 3, 0.5, 4), 0.5, 1e-9);
}

static void what_is_no_number_is_left_out(void **state)
{
	const double want[] = { 1, NAN, INFINITY, 1, 0 }, got[] = { 1 + 0x1p-8, 1, INFINITY, NAN, 0 };
	struct ddl__ulp ulp = { 0 }, none = { 0 };
	ddl__ulp_add(&ulp, DDL_FLOAT32, DDL_WIRE_BFLOAT16, got, want, 5);
	assert_int_equal(ulp.n, 2);
	assert_float_equal(ulp.most, 0.5, 1e-9);
	ddl__ulp_add(&none, DDL_FLOAT32, DDL_WIRE_BFLOAT16, got, want, 0);
	assert_float_equal(ddl__ulp_rms(&none), 0, 0);
	const double zeros[] = { 0, -0.0 };
	ddl__ulp_add(&none, DDL_FLOAT32, DDL_WIRE_INT8, zeros, zeros, 2);
	assert_float_equal(none.most, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_rounding_is_half_a_unit_at_most),
		cmocka_unit_test(a_unit_is_of_the_element_but_not_less_than_of_its_block),
		cmocka_unit_test(what_is_no_number_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
