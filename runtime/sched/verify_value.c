/* SPDX-License-Identifier: Apache-2.0 */
/* verify_value.c - see verify_value.h. */
#include "verify_value.h"

/* How many ranks a set holds if these are the first ones; else 0. */
static uint64_t first_ranks(const uint64_t *set, size_t words)
{
	uint64_t n = 0;
	for (size_t k = 0; k < words; k++) {
		if (set[k] & (set[k] + 1) || (set[k] && n < k * 64))
			return 0;
		n += (uint64_t)__builtin_popcountll(set[k]);
	}
	return n;
}

/* Whether a set holds that rank alone. */
static bool only(const uint64_t *set, size_t words, uint64_t rank)
{
	for (size_t k = 0; k < words; k++)
		if (set[k] != (k == rank / 64 ? 1ull << rank % 64 : 0))
			return false;
	return true;
}

/* In the order of ranks the sum of the first ones is joined by the next alone. */
static bool in_order(const uint64_t *a, const uint64_t *b, size_t words)
{
	const uint64_t before_b = first_ranks(a, words), before_a = first_ranks(b, words);
	return (before_b && only(b, words, before_b)) || (before_a && only(a, words, before_a));
}

const char *ddl__value_reduce(const struct ddl__verify *verify, size_t words, struct ddl__value *value, uint64_t *set,
			      const struct ddl__value *other, const uint64_t *other_set)
{
	if (value->final || other->final)
		return "reduces a value whose mean was taken";
	if (value->origin != other->origin)
		return "reduces two elements of different places";
	for (size_t k = 0; k < words; k++)
		if (set[k] & other_set[k])
			return "adds a contribution a second time";
	if (verify->in_order && !in_order(set, other_set, words))
		return "does not add contributions in the order of ranks";
	for (size_t k = 0; k < words; k++)
		set[k] |= other_set[k];
	value->rounded = value->rounded > other->rounded ? value->rounded : other->rounded;
	value->coarse = false;
	return NULL;
}

void ddl__value_reduced(const struct ddl__verify *verify, struct ddl__value *value)
{
	value->rounded += verify->rounding == DDL__ROUNDED_IN_MEMORY;
}

void ddl__value_travels(const struct ddl__verify *verify, const struct ddl__steps *lane, struct ddl__value *value)
{
	if (verify->rounding != DDL__ROUNDED_BY_WIRE || lane->native || value->coarse)
		return;
	value->rounded++;
	value->coarse = true;
}
