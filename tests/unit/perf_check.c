/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_check.c - the reference of `ddl perf --check`: it accepts what the library's kernels make of the inputs in ring order, for
 * every type, operation and wire, and it notices every kind of damage.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf_check.h"
#include "reduce.h"

enum { COUNT = 1000, TENSOR = 3, RANKS_MAX = 300 };

static void encode(const struct ddl__check *check, const struct ddl__kernels *kernels, void *wire, const void *src)
{
	static uint32_t key;

	if (check->random)
		kernels->encode_random(wire, src, COUNT, ++key * 0x9e3779b9u, 0);
	else
		kernels->encode(wire, src, COUNT);
}

/* What the kernels make of the inputs of some ranks, in that order, on the way around a ring; caller frees. */
static void *reduce_ranks(const struct ddl__check *check, const int *ranks, int n)
{
	const struct ddl__kernels *kernels = ddl__kernels_get(check->op, check->type, check->wire);
	void *input = malloc(COUNT * 8), *wire = malloc(COUNT * 8), *result = malloc(COUNT * 8);

	assert_non_null(kernels);
	assert_true(input && wire && result);
	for (int i = 0; i < n; i++) {
		ddl__check_fill(check, ranks[i], TENSOR, input, COUNT);
		if (i == 0)
			encode(check, kernels, wire, input);
		else if (i < n - 1 && !check->random)
			kernels->reduce_wire(wire, wire, input, COUNT);
		else if (!check->random)
			kernels->finish(result, wire, wire, input, COUNT, check->n_ranks);
		if (i > 0 && check->random) {
			kernels->reduce_store(result, wire, input, COUNT, i < n - 1 ? 0 : check->n_ranks);
			encode(check, kernels, wire, result);
			kernels->decode(result, wire, COUNT);
		}
	}
	if (n == 1)
		kernels->decode(result, wire, COUNT);
	free(input);
	free(wire);
	return result;
}

/* The result of all ranks, but without one of them or with one taken twice (-1: none). */
static void *reduce_all(const struct ddl__check *check, int without, int twice)
{
	int ranks[RANKS_MAX + 1], n = 0;

	for (int rank = 0; rank < check->n_ranks; rank++) {
		if (rank != without)
			ranks[n++] = rank;
	}
	if (twice >= 0)
		ranks[n++] = twice;
	return reduce_ranks(check, ranks, n);
}

/* Calls test for every type, operation, wire, number of ranks and kind of inputs that there is. */
static void for_all(void (*test)(const struct ddl__check *check))
{
	static const int ranks[] = { 1, 2, 3, 7, 16, 64, RANKS_MAX };

	for (int type = DDL_FLOAT64; type <= DDL_UINT8; type++) {
		for (int op = DDL_SUM; op <= DDL_PROD; op++) {
			for (int wire = DDL_WIRE_NATIVE; wire <= (type == DDL_FLOAT32 ? DDL_WIRE_INT8 : DDL_WIRE_NATIVE); wire++) {
				for (size_t i = 0; i < 2 * sizeof(ranks) / sizeof(ranks[0]); i++) {
					const struct ddl__check check = {
						.type = (enum ddl_type)type,
						.op = (enum ddl_op)op,
						.wire = (enum ddl_wire)wire,
						.n_ranks = ranks[i / 2],
						.exact = i % 2,
						.seed = 42,
					};
					test(&check);
					if (check.wire > DDL_WIRE_NATIVE) {
						struct ddl__check random = check;
						random.random = true;
						test(&random);
					}
				}
			}
		}
	}
}

static int good(const struct ddl__check *check, const void *result, struct ddl__mismatch *mismatch)
{
	return ddl__check_compare(check, TENSOR, result, 0, COUNT, NULL, mismatch);
}

static void accept_ring(const struct ddl__check *check)
{
	struct ddl__mismatch mismatch = { 0, 0, 0, 0 };
	void *result = reduce_all(check, -1, -1);

	if (!good(check, result, &mismatch))
		fail_msg("type %d op %d wire %d ranks %d exact %d: element %d is %g, expected %g, bound %g", check->type, check->op,
			 check->wire, check->n_ranks, check->exact, (int)mismatch.index, mismatch.got, mismatch.expected,
			 mismatch.bound);
	free(result);
}

static void what_the_kernels_make_in_ring_order_is_accepted(void **state)
{
	for_all(accept_ring);
}

/* Whether taking the wrong ranks must show: with integers, and with exact inputs that really are exact. */
static bool must_show(const struct ddl__check *check)
{
	return check->n_ranks > 2 && check->n_ranks <= 64 && (check->exact || check->type >= DDL_INT64);
}

static void notice_missing_rank(const struct ddl__check *check)
{
	const int places[] = { 0, check->n_ranks / 2, check->n_ranks - 1 };
	struct ddl__mismatch mismatch;

	if (!must_show(check) || (check->op != DDL_SUM && check->n_ranks > 16))
		return;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		void *result = reduce_all(check, places[i], -1);

		if (good(check, result, &mismatch))
			fail_msg("type %d op %d wire %d ranks %d: nobody misses rank %d", check->type, check->op, check->wire,
				 check->n_ranks, places[i]);
		free(result);
	}
}

static void a_rank_left_out_is_noticed(void **state)
{
	for_all(notice_missing_rank);
}

static void notice_rank_twice(const struct ddl__check *check)
{
	struct ddl__mismatch mismatch;
	void *result;

	if (!must_show(check) || check->op != DDL_SUM)
		return;
	result = reduce_all(check, -1, check->n_ranks / 2);
	if (good(check, result, &mismatch))
		fail_msg("type %d wire %d ranks %d: nobody notices a rank taken twice", check->type, check->wire, check->n_ranks);
	free(result);
}

static void a_rank_taken_twice_is_noticed(void **state)
{
	for_all(notice_rank_twice);
}

static void notice_damage(const struct ddl__check *check)
{
	static const uint64_t places[] = { 0, 1, 255, 256, 511, COUNT - 1 };
	const size_t size = ddl_type_size(check->type);
	struct ddl__mismatch mismatch = { COUNT, 0, 0, 0 };
	char *result = reduce_all(check, -1, -1);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char keep[8], *element = result + places[i] * size;

		memcpy(keep, element, size);
		ddl__check_poison(element, size);
		if (memcmp(keep, element, size) != 0) {
			assert_int_equal(good(check, result, &mismatch), 0);
			assert_int_equal(mismatch.index, places[i]);
			assert_true(mismatch.got != mismatch.expected);
		}
		memcpy(element, keep, size);
		if (check->type >= DDL_INT64) { /* the lowest bit */
			element[0] ^= 1;
			assert_int_equal(good(check, result, &mismatch), 0);
			element[0] ^= 1;
		} else if (check->type != DDL_FLOAT16) { /* a NaN */
			memset(element, 0xff, size);
			assert_int_equal(good(check, result, &mismatch), 0);
			assert_true(isnan(mismatch.got));
		}
		memcpy(element, keep, size);
	}
	assert_int_equal(good(check, result, &mismatch), 1);
	free(result);
}

static void any_damaged_element_is_noticed_and_named(void **state)
{
	for_all(notice_damage);
}

static void sums_of_exact_inputs_are_met_to_the_bit(void **state)
{
	const struct ddl__check check = {
		.type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_BFLOAT16, .n_ranks = 16, .exact = true
	};
	struct ddl__mismatch mismatch;
	float *result = reduce_all(&check, -1, -1);

	for (int i = 0; i < COUNT; i++) {
		const float keep = result[i];

		result[i] = nextafterf(keep, INFINITY);
		assert_int_equal(good(&check, result, &mismatch), 0);
		assert_true(mismatch.bound == 0);
		result[i] = keep;
	}
	free(result);
}

static void rough_sums_have_a_narrow_bound_and_only_the_range_asked_for_is_compared(void **state)
{
	const struct ddl__check check = { .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_NATIVE, .n_ranks = 4, .seed = 9 };
	struct ddl__mismatch mismatch;
	float *result = reduce_all(&check, -1, -1);

	result[17] += 1e-4f;
	assert_int_equal(good(&check, result, &mismatch), 0);
	assert_int_equal(mismatch.index, 17);
	assert_true(mismatch.bound > 0 && mismatch.bound < 1e-5);
	assert_int_equal(ddl__check_compare(&check, TENSOR, result, 18, COUNT, NULL, &mismatch), 1);
	assert_int_equal(ddl__check_compare(&check, TENSOR, result, 0, 17, NULL, &mismatch), 1);
	assert_int_equal(ddl__check_compare(&check, TENSOR, result, 5, 5, NULL, &mismatch), 1);
	free(result);
}

static void copies_of_a_broadcast_are_exact(void **state)
{
	for (int type = DDL_FLOAT64; type <= DDL_UINT8; type++) {
		const struct ddl__check check = { .type = (enum ddl_type)type, .n_ranks = 4, .root = 2, .seed = 5 };
		char data[COUNT * 8];
		struct ddl__mismatch mismatch;

		ddl__check_fill(&check, 2, TENSOR, data, COUNT);
		assert_int_equal(good(&check, data, &mismatch), 1);
		data[400] ^= 1;
		assert_int_equal(good(&check, data, &mismatch), 0);
		assert_int_equal(mismatch.index, 400 / ddl_type_size(check.type));
		ddl__check_fill(&check, 1, TENSOR, data, COUNT);
		assert_int_equal(good(&check, data, &mismatch), 0);
	}
}

static void inputs_differ_by_rank_tensor_and_seed_and_have_both_signs(void **state)
{
	struct ddl__check check = { .type = DDL_FLOAT32, .op = DDL_SUM, .wire = DDL_WIRE_NATIVE, .n_ranks = 4, .seed = 5 };
	float a[COUNT], b[COUNT];
	int negative = 0, equal[3] = { 0, 0, 0 };

	ddl__check_fill(&check, 1, 0, a, COUNT);
	for (int i = 0; i < COUNT; i++)
		negative += a[i] < 0;
	assert_in_range(negative, 400, 600);
	for (int k = 0; k < 3; k++) {
		check.seed = 5 + (k == 2);
		ddl__check_fill(&check, k == 0 ? 2 : 1, k == 1, b, COUNT);
		for (int i = 0; i < COUNT; i++)
			equal[k] += a[i] == b[i];
		assert_in_range(equal[k], 0, 5);
	}
	check.seed = 5;
	ddl__check_fill(&check, 1, 0, b, COUNT);
	assert_memory_equal(a, b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_kernels_make_in_ring_order_is_accepted),
		cmocka_unit_test(a_rank_left_out_is_noticed),
		cmocka_unit_test(a_rank_taken_twice_is_noticed),
		cmocka_unit_test(any_damaged_element_is_noticed_and_named),
		cmocka_unit_test(sums_of_exact_inputs_are_met_to_the_bit),
		cmocka_unit_test(rough_sums_have_a_narrow_bound_and_only_the_range_asked_for_is_compared),
		cmocka_unit_test(copies_of_a_broadcast_are_exact),
		cmocka_unit_test(inputs_differ_by_rank_tensor_and_seed_and_have_both_signs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
