/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_check.c - the reference: inputs from a hash of (seed, rank, tensor, index), sums in float64, integers modulo 2^64.
 *
 * Written apart from the library's kernels and conversions on purpose: what checks them may not share their faults.
 */
#include <math.h>
#include <string.h>

#include "perf_check.h"
#include "reduce.h"

#define I8_MOST    127       /* largest code of an int8 block */
#define I8_SUM_MAX (1 << 15) /* whole numbers up to which I8_MOST times one is carried as it is */
#define BLOCK      256       /* elements whose reference is computed at once, rank by rank */

struct format {                /* of a floating-point type */
	int precision;         /* bits of the significand, the hidden one included */
	int exponent_max;      /* of the largest number */
	int exponent_min;      /* of the smallest normal number */
	double roundoff;       /* unit roundoff of rounding to nearest */
	double smallest;       /* smallest subnormal */
	enum ddl_type summand; /* the type in which sums are kept */
};

static const struct format formats[] = {
	[DDL_FLOAT64] = { 53, 1023, -1022, 0x1p-53, 0x1p-1074, DDL_FLOAT64 },
	[DDL_FLOAT32] = { 24, 127, -126, 0x1p-24, 0x1p-149, DDL_FLOAT32 },
	[DDL_FLOAT16] = { 11, 15, -14, 0x1p-11, 0x1p-24, DDL_FLOAT32 },
	[DDL_BFLOAT16] = { 8, 127, -126, 0x1p-8, 0x1p-133, DDL_FLOAT32 },
};

/* The floating-point type that travels. */
static enum ddl_type wire_type(const struct ddl__check *check)
{
	if (check->type != DDL_FLOAT32 || check->wire == DDL_WIRE_NATIVE || check->op == 0 || check->wire == DDL_WIRE_INT8)
		return check->type;
	return check->wire == DDL_WIRE_FLOAT16 ? DDL_FLOAT16 : DDL_BFLOAT16;
}

static uint64_t scramble(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

/* What the inputs of one rank in one tensor begin with. */
static uint64_t stream(const struct ddl__check *check, int rank, uint64_t tensor)
{
	return scramble(scramble(check->seed + 0x9e3779b97f4a7c15u) + ((uint64_t)(unsigned)rank << 32) + tensor);
}

static uint64_t bits_at(uint64_t start, uint64_t index)
{
	return scramble(start + index * 0x9e3779b97f4a7c15u);
}

/* A whole number within -limit ... limit. */
static int64_t within(uint64_t bits, int64_t limit)
{
	return (int64_t)((unsigned __int128)bits * (uint64_t)(2 * limit + 1) >> 64) - limit;
}

struct shape {            /* what is the same for all elements */
	bool product;     /* of floating-point numbers */
	int64_t limit;    /* largest magnitude before scaling */
	double scale;     /* of a sum's inputs; of a product's distance from 1 */
	int exponent_max; /* exact products: powers of two up to this */
	bool unrounded;   /* no order of the operations rounds */
	bool one_size;    /* all elements of a partial result have the same magnitude, which int8 blocks carry as it is */
};

static bool is_int8(const struct ddl__check *check)
{
	return check->type == DDL_FLOAT32 && check->wire == DDL_WIRE_INT8;
}

/*
 * Exact: whole numbers whose sum over all ranks still fits into the significand; with too many ranks for that -1, 0 and 1, and then
 * the bound of rough inputs holds. Rough: every bit of the significand in use.
 */
static struct shape shape_of(const struct ddl__check *check)
{
	const struct format *wire = &formats[wire_type(check)], *own = &formats[check->type];
	struct shape shape = { .product = check->op == DDL_PROD, .scale = 1 };
	const int precision = wire->precision < 32 ? wire->precision : 32;
	const bool int8 = is_int8(check);

	if (check->exact && int8 && check->op != 0) {
		shape.one_size = !shape.product;
		shape.unrounded = !shape.product;
		shape.limit = shape.product ? 0 : I8_SUM_MAX / check->n_ranks;
		if (!shape.product && shape.limit < 1)
			shape.limit = 1;
	} else if (shape.product && check->exact) {
		shape.exponent_max = wire->exponent_max / check->n_ranks;
		if (shape.exponent_max > 2)
			shape.exponent_max = 2;
		shape.unrounded = true;
	} else if (shape.product) {
		shape.limit = (INT64_C(1) << (own->precision - 2)) / check->n_ranks;
		shape.scale = ldexp(1, 1 - own->precision);
	} else if (check->exact) {
		shape.limit = (INT64_C(1) << precision) / check->n_ranks;
		shape.unrounded = shape.limit > 1;
		if (shape.limit < 1)
			shape.limit = 1;
	} else {
		shape.limit = INT64_C(1) << own->precision;
		shape.limit--;
		shape.scale = ldexp(1, -own->precision);
	}
	return shape;
}

/*
 * Inputs that int8 blocks carry as they are, since all elements of any partial result are the same multiple of 127 but for signs.
 * Sums: a magnitude for each rank, signs for each element, the same on all ranks. Minima, maxima: a sign that one rank in so many
 * has and that decides.
 */
static double one_size_input(const struct ddl__check *check, const struct shape *shape, uint64_t start, uint64_t index)
{
	const uint64_t least = (uint64_t)shape->limit - (uint64_t)shape->limit / 2;

	if (check->op == DDL_MIN || check->op == DDL_MAX)
		return (bits_at(start, index) % (uint64_t)check->n_ranks == 0) == (check->op == DDL_MAX) ? I8_MOST : -I8_MOST;
	const double size = I8_MOST * (double)(least + scramble(start) % ((uint64_t)shape->limit - least + 1));
	return bits_at(scramble(check->seed), index) & 1 ? -size : size;
}

static double float_input(const struct ddl__check *check, const struct shape *shape, uint64_t start, uint64_t index)
{
	if (shape->one_size)
		return one_size_input(check, shape, start, index);
	const uint64_t bits = bits_at(start, index);

	double value;

	if (!shape->product)
		return (double)within(bits, shape->limit) * shape->scale;
	if (shape->limit > 0)
		value = 1 + (double)within(bits, shape->limit) * shape->scale;
	else
		value = ldexp(1, (int)within(bits, shape->exponent_max));
	return bits & 1 ? -value : value;
}

/* Odd factors: an even one would soon make every product zero. */
static uint64_t integer_input(const struct ddl__check *check, uint64_t bits)
{
	return check->op == DDL_PROD ? bits | 1 : bits;
}

/* The low bits of an integer as its type reads them. */
static int64_t integer_value(enum ddl_type type, uint64_t bits)
{
	switch (type) {
	case DDL_INT32:
		return (int32_t)bits;
	case DDL_INT8:
		return (int8_t)bits;
	case DDL_UINT8:
		return (uint8_t)bits;
	default:
		return (int64_t)bits;
	}
}

/* Inputs are chosen so that no conversion here rounds, and all of float16's are normal or zero. */
static uint16_t float16_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (value == 0)
		return (uint16_t)(bits >> 16 & 0x8000);
	return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - ((127 - 15) << 10)));
}

static void store_float(enum ddl_type type, void *data, uint64_t index, double value)
{
	const float single = (float)value;
	uint32_t bits;

	memcpy(&bits, &single, sizeof(bits));
	switch (type) {
	case DDL_FLOAT64:
		((double *)data)[index] = value;
		break;
	case DDL_FLOAT32:
		((float *)data)[index] = single;
		break;
	case DDL_FLOAT16:
		((uint16_t *)data)[index] = float16_bits(single);
		break;
	default:
		((uint16_t *)data)[index] = (uint16_t)(bits >> 16);
	}
}

static double float16_value(uint16_t bits)
{
	const int exponent = bits >> 10 & 31, fraction = bits & 1023;
	double value;

	if (exponent == 31)
		value = fraction ? NAN : INFINITY;
	else if (exponent == 0)
		value = ldexp(fraction, -24);
	else
		value = ldexp(1024 + fraction, exponent - 25);
	return bits & 0x8000 ? -value : value;
}

static double load_float(enum ddl_type type, const void *data, uint64_t index)
{
	uint32_t bits;
	float single;

	switch (type) {
	case DDL_FLOAT64:
		return ((const double *)data)[index];
	case DDL_FLOAT32:
		return ((const float *)data)[index];
	case DDL_FLOAT16:
		return float16_value(((const uint16_t *)data)[index]);
	default:
		bits = (uint32_t)((const uint16_t *)data)[index] << 16;
		memcpy(&single, &bits, sizeof(single));
		return single;
	}
}

static void store_integer(enum ddl_type type, void *data, uint64_t index, uint64_t bits)
{
	switch (type) {
	case DDL_INT64:
		((uint64_t *)data)[index] = bits;
		break;
	case DDL_INT32:
		((uint32_t *)data)[index] = (uint32_t)bits;
		break;
	default:
		((uint8_t *)data)[index] = (uint8_t)bits;
	}
}

static int64_t load_integer(enum ddl_type type, const void *data, uint64_t index)
{
	switch (type) {
	case DDL_INT64:
		return ((const int64_t *)data)[index];
	case DDL_INT32:
		return ((const int32_t *)data)[index];
	case DDL_INT8:
		return ((const int8_t *)data)[index];
	default:
		return ((const uint8_t *)data)[index];
	}
}

void ddl__check_fill(const struct ddl__check *check, int rank, uint64_t tensor, void *data, uint64_t count)
{
	const uint64_t start = stream(check, rank, tensor);

	if (!ddl__type_rounds(check->type)) {
		for (uint64_t i = 0; i < count; i++)
			store_integer(check->type, data, i, integer_input(check, bits_at(start, i)));
		return;
	}
	const struct shape shape = shape_of(check);

	for (uint64_t i = 0; i < count; i++)
		store_float(check->type, data, i, float_input(check, &shape, start, i));
}

struct reference {               /* of one block of elements */
	double value[BLOCK];     /* what is expected */
	double magnitude[BLOCK]; /* sum of |inputs|, or |product| */
};

static void take_in(enum ddl_op op, struct reference *sum, size_t i, double input)
{
	switch (op) {
	case DDL_MIN:
		sum->value[i] = input < sum->value[i] ? input : sum->value[i];
		break;
	case DDL_MAX:
		sum->value[i] = input > sum->value[i] ? input : sum->value[i];
		break;
	case DDL_PROD:
		sum->value[i] *= input;
		break;
	default:
		sum->value[i] += input;
		sum->magnitude[i] += fabs(input);
	}
}

static void float_reference(const struct ddl__check *check, const struct shape *shape, uint64_t tensor, uint64_t first, size_t n,
			    struct reference *sum)
{
	uint64_t start = stream(check, 0, tensor);

	for (size_t i = 0; i < n; i++) {
		sum->value[i] = float_input(check, shape, start, first + i);
		sum->magnitude[i] = fabs(sum->value[i]);
	}
	for (int rank = 1; rank < check->n_ranks; rank++) {
		start = stream(check, rank, tensor);
		for (size_t i = 0; i < n; i++)
			take_in(check->op, sum, i, float_input(check, shape, start, first + i));
	}
	for (size_t i = 0; i < n; i++) {
		if (check->op == DDL_AVG) {
			sum->value[i] /= check->n_ranks;
			sum->magnitude[i] /= check->n_ranks;
		}
		if ((check->op != DDL_SUM && check->op != DDL_AVG) || shape->unrounded)
			sum->magnitude[i] = fabs(sum->value[i]);
	}
}

/*
 * What the neighbours of an element on the wire may take from it: `times` roundings, each by at most a part of the largest
 * magnitude that any partial result can have.
 */
static double block_bound(const struct ddl__check *check, const struct shape *shape, int times)
{
	const bool int8 = check->wire == DDL_WIRE_INT8, sums = check->op == DDL_SUM || check->op == DDL_AVG;
	double largest = (double)shape->limit * shape->scale;

	if (check->type != DDL_FLOAT32 || (!int8 && check->wire != DDL_WIRE_FLOAT16) || shape->unrounded)
		return 0;
	if (shape->product) /* of any of the factors */
		largest = pow(shape->limit > 0 ? 1 + largest : ldexp(1, shape->exponent_max), check->n_ranks);
	else if (sums)
		largest *= check->n_ranks;
	return largest * expm1(times * (check->random ? 2 : 1) * (int8 ? 1 / 253.9 : 0x1p-39)) /
	       (check->op == DDL_AVG ? check->n_ranks : 1);
}

/* The error allowed per unit of magnitude, and *smallest: what subnormal results may add. */
static double relative_bound(const struct ddl__check *check, const struct shape *shape, double *smallest)
{
	const struct format *wire = &formats[wire_type(check)], *own = &formats[check->type];
	const double k = check->n_ranks + 2, roundoff = wire->roundoff * (check->random && wire_type(check) != check->type ? 2 : 1);

	*smallest = 0;
	if (shape->one_size && check->op == DDL_AVG)
		return 0x1p-14; /* a scale has 16 bits */
	if (check->op == DDL_MIN || check->op == DDL_MAX)
		return wire_type(check) == check->type ? 0 : roundoff;
	if (shape->unrounded)
		return check->op == DDL_AVG ? expm1(2 * roundoff + 2 * formats[own->summand].roundoff) : 0;
	*smallest = k * wire->smallest;
	/* float64: the reference rounds as often as the result. */
	if (own->summand == wire_type(check))
		return expm1(k * roundoff + k * 0x1p-53);
	return expm1(k * roundoff + k * formats[own->summand].roundoff + k * 0x1p-53);
}

static int compare_floats(const struct ddl__check *check, uint64_t tensor, const void *data, uint64_t first, uint64_t end,
			  struct ddl__ulp *ulp, struct ddl__mismatch *mismatch)
{
	const struct shape shape = shape_of(check);
	double smallest;
	const double relative = relative_bound(check, &shape, &smallest);

	smallest += block_bound(check, &shape, check->n_ranks + 2);
	for (uint64_t begin = first; begin < end; begin += BLOCK) {
		const size_t n = end - begin < BLOCK ? (size_t)(end - begin) : BLOCK;
		struct reference expected;
		double got[BLOCK];

		float_reference(check, &shape, tensor, begin, n, &expected);
		for (size_t i = 0; i < n; i++) {
			const double bound = relative * expected.magnitude[i] + smallest;

			got[i] = load_float(check->type, data, begin + i);
			if (fabs(got[i] - expected.value[i]) <= bound) /* false for NaN */
				continue;
			*mismatch = (struct ddl__mismatch){ begin + i, got[i], expected.value[i], bound };
			return 0;
		}
		if (ulp)
			ddl__ulp_add(ulp, check->type, check->wire, got, expected.value, n);
	}
	return 1;
}

/* Sums and products modulo 2^64, of which the type's bits are the low ones; minima and maxima as the type reads them. */
static void integer_reference(const struct ddl__check *check, uint64_t tensor, uint64_t first, size_t n, int64_t value[BLOCK])
{
	uint64_t start = stream(check, 0, tensor);

	for (size_t i = 0; i < n; i++)
		value[i] = integer_value(check->type, integer_input(check, bits_at(start, first + i)));
	for (int rank = 1; rank < check->n_ranks; rank++) {
		start = stream(check, rank, tensor);
		for (size_t i = 0; i < n; i++) {
			const uint64_t bits = integer_input(check, bits_at(start, first + i));
			const int64_t input = integer_value(check->type, bits);

			if (check->op == DDL_MIN)
				value[i] = input < value[i] ? input : value[i];
			else if (check->op == DDL_MAX)
				value[i] = input > value[i] ? input : value[i];
			else if (check->op == DDL_PROD)
				value[i] = (int64_t)((uint64_t)value[i] * bits);
			else
				value[i] = (int64_t)((uint64_t)value[i] + bits);
		}
	}
	for (size_t i = 0; i < n; i++) {
		value[i] = integer_value(check->type, (uint64_t)value[i]);
		if (check->op == DDL_AVG)
			value[i] /= check->n_ranks;
	}
}

static int compare_integers(const struct ddl__check *check, uint64_t tensor, const void *data, uint64_t first, uint64_t end,
			    struct ddl__mismatch *mismatch)
{
	for (uint64_t begin = first; begin < end; begin += BLOCK) {
		const size_t n = end - begin < BLOCK ? (size_t)(end - begin) : BLOCK;
		int64_t expected[BLOCK];

		integer_reference(check, tensor, begin, n, expected);
		for (size_t i = 0; i < n; i++) {
			const int64_t got = load_integer(check->type, data, begin + i);

			if (got == expected[i])
				continue;
			*mismatch = (struct ddl__mismatch){ begin + i, (double)got, (double)expected[i], 0 };
			return 0;
		}
	}
	return 1;
}

/* How far a copy may be from its original: by one rounding, where the wire rounds. */
static double copy_bound(const struct ddl__check *check, const struct shape *shape, double value)
{
	double unit = check->wire == DDL_WIRE_BFLOAT16 ? 0x1p-8 : check->wire == DDL_WIRE_FLOAT16 ? 0x1p-11 : 0;

	return check->type != DDL_FLOAT32 ? 0 : unit * fabs(value) * (check->random ? 2 : 1) + block_bound(check, shape, 1);
}

static int compare_float_copies(const struct ddl__check *check, uint64_t tensor, const void *data, uint64_t first, uint64_t end,
				struct ddl__ulp *ulp, struct ddl__mismatch *mismatch)
{
	const uint64_t start = stream(check, check->root, tensor);
	struct shape shape = shape_of(check);

	shape.unrounded = false;
	for (uint64_t begin = first; begin < end; begin += BLOCK) {
		const size_t n = end - begin < BLOCK ? (size_t)(end - begin) : BLOCK;
		double got[BLOCK], expected[BLOCK];

		for (size_t i = 0; i < n; i++) {
			double bound;

			expected[i] = float_input(check, &shape, start, begin + i);
			got[i] = load_float(check->type, data, begin + i);
			bound = copy_bound(check, &shape, expected[i]);
			if (fabs(got[i] - expected[i]) <= bound)
				continue;
			*mismatch = (struct ddl__mismatch){ begin + i, got[i], expected[i], bound };
			return 0;
		}
		if (ulp)
			ddl__ulp_add(ulp, check->type, check->wire, got, expected, n);
	}
	return 1;
}

static int compare_integer_copies(const struct ddl__check *check, uint64_t tensor, const void *data, uint64_t first, uint64_t end,
				  struct ddl__mismatch *mismatch)
{
	const uint64_t start = stream(check, check->root, tensor);

	for (uint64_t i = first; i < end; i++) {
		const int64_t expected = integer_value(check->type, bits_at(start, i)), got = load_integer(check->type, data, i);

		if (got == expected)
			continue;
		*mismatch = (struct ddl__mismatch){ i, (double)got, (double)expected, 0 };
		return 0;
	}
	return 1;
}

int ddl__check_compare(const struct ddl__check *check, uint64_t tensor, const void *data, uint64_t first, uint64_t end,
		       struct ddl__ulp *ulp, struct ddl__mismatch *mismatch)
{
	if (ddl__type_rounds(check->type))
		return check->op == 0 ? compare_float_copies(check, tensor, data, first, end, ulp, mismatch)
				      : compare_floats(check, tensor, data, first, end, ulp, mismatch);
	return check->op == 0 ? compare_integer_copies(check, tensor, data, first, end, mismatch)
			      : compare_integers(check, tensor, data, first, end, mismatch);
}

void ddl__check_poison(void *data, size_t size)
{
	memset(data, 0xfb, size); /* -2.6e36 in float32 and bfloat16, -65376 in float16, -2.6e288 in float64 */
}
