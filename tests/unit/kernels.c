/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel set that this CPU has, against the generic one, bit for bit: all operations, types and wires, lengths 0 to 200 at
 * odd element offsets, special values met by special values, in place; reduce-many of up to 64 sources and destinations; nothing
 * is written beyond the end. Partial results that are NaNs may be any NaN, complete ones are the same one everywhere.
 *
 * What is generic's own is checked in reduce.c; here only its reduce-many, against a fold of its other kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce.h"

enum { MOST = 5000, LENGTHS = 201, RANKS = 3, SOURCES = 64 };

static uint64_t random_bits(uint64_t *seed) /* xorshift64* */
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * 0x2545f4914f6cdd1du;
}

/* ---- values ---- */

/* Zeros, infinities, NaNs quiet and signalling, subnormals, the least and the largest, ties of the wires. */
enum { SPECIALS = 28 };

static const uint64_t specials_f64[SPECIALS] = {
	0x0000000000000000, 0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000001, 0xfff0000000000001,
	0x7ff8000000000000, 0xfff8000000000000, 0x7fffffffffffffff, 0xffffffffffffffff, 0x0000000000000001, 0x8000000000000001,
	0x000fffffffffffff, 0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 0x3ff0000000000000,
	0xbff0000000000000, 0x3ff0000000000001, 0x7fe0000000000000, 0x4008000000000000, 0x3fd5555555555555, 0x0018000000000000,
	0xc000000000000000, 0x0000000000000002, 0x0008000000000000, 0x8008000000000000,
};
static const uint64_t specials_f32[SPECIALS] = {
	0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fa55555, 0x7fc00000, 0xffc00000, 0x7fffffff,
	0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x00008000, 0x00018000, 0x00008001,
	0x3f808000, 0x3f818000, 0x3f808001, 0x477fefff, 0x477ff000, 0x33000000, 0x33000001, 0x387fe000,
};
static const uint64_t specials_f16[SPECIALS] = {
	0x0000, 0x8000, 0x7c00, 0xfc00, 0x7c01, 0xfc01, 0x7d55, 0x7e00, 0xfe00, 0x7fff, 0xffff, 0x0001, 0x8001, 0x03ff,
	0x83ff, 0x0400, 0x8400, 0x7bff, 0xfbff, 0x3c00, 0xbc00, 0x3c01, 0x3555, 0x0002, 0x0200, 0x7800, 0x1400, 0x9400,
};
static const uint64_t specials_bf16[SPECIALS] = {
	0x0000, 0x8000, 0x7f80, 0xff80, 0x7f81, 0xff81, 0x7fa5, 0x7fc0, 0xffc0, 0x7fff, 0xffff, 0x0001, 0x8001, 0x007f,
	0x807f, 0x0080, 0x8080, 0x7f7f, 0xff7f, 0x3f80, 0xbf80, 0x3f81, 0x3eaa, 0x0002, 0x0040, 0x7f00, 0x0100, 0x8100,
};

static const uint64_t *specials_of(enum ddl_type type)
{
	switch (type) {
	case DDL_FLOAT64:
		return specials_f64;
	case DDL_FLOAT32:
		return specials_f32;
	case DDL_FLOAT16:
		return specials_f16;
	case DDL_BFLOAT16:
		return specials_bf16;
	default:
		return NULL;
	}
}

/* Bits of a number of moderate size of a floating-point type; any bits of an integer. */
static uint64_t moderate(enum ddl_type type, uint64_t r)
{
	switch (type) {
	case DDL_FLOAT64:
		return (r & 0x800fffffffffffff) | (0x3f0 + (r >> 52) % 32) << 52;
	case DDL_FLOAT32:
		return (r & 0x807fffff) | (0x70 + (r >> 40) % 32) << 23;
	case DDL_FLOAT16:
		return (r & 0x83ff) | (8 + (r >> 40) % 16) << 10;
	case DDL_BFLOAT16:
		return (r & 0x807f) | (0x70 + (r >> 40) % 32) << 7;
	default:
		return r;
	}
}

/* Three kinds in turn: numbers, any bits, special values. */
static void fill(void *buffer, enum ddl_type type, size_t n, uint64_t *seed)
{
	size_t size = ddl_type_size(type);
	const uint64_t *special = specials_of(type);
	for (size_t i = 0; i < n; i++) {
		uint64_t r = random_bits(seed), kind = random_bits(seed) % 4, bits = r;
		if (kind < 2)
			bits = moderate(type, r);
		else if (kind == 2 && special)
			bits = special[r % SPECIALS];
		memcpy((char *)buffer + i * size, &bits, size);
	}
}

static int is_nan(enum ddl_type type, const void *element)
{
	uint64_t bits = 0;
	memcpy(&bits, element, ddl_type_size(type));
	switch (type) {
	case DDL_FLOAT64:
		return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
	case DDL_FLOAT32:
		return (bits & 0x7fffffff) > 0x7f800000;
	case DDL_FLOAT16:
		return (bits & 0x7fff) > 0x7c00;
	case DDL_BFLOAT16:
		return (bits & 0x7fff) > 0x7f80;
	default:
		return 0;
	}
}

/* ---- comparison ---- */

struct at { /* what is compared, for the sentence of a failure */
	const char *set, *kernel;
	enum ddl_op op;
	enum ddl_type type;
	enum ddl_wire wire;
	size_t n;
};

/* n elements of type; and the canary of one element behind them. any_nan: a NaN is as good as another. */
static void check_same(const struct at *at, enum ddl_type type, const void *got, const void *want, int any_nan)
{
	size_t size = ddl_type_size(type);
	for (size_t i = 0; i <= at->n; i++) {
		const char *g = (const char *)got + i * size, *w = (const char *)want + i * size;
		if (memcmp(g, w, size) == 0 || (any_nan && i < at->n && is_nan(type, g) && is_nan(type, w)))
			continue;
		uint64_t a = 0, b = 0;
		memcpy(&a, g, size);
		memcpy(&b, w, size);
		fail_msg("set %s, %s of %s %s on %s, element %zu of %zu: %llx where generic has %llx", at->set, at->kernel,
			 ddl__op_name(at->op), ddl__type_name(at->type), ddl__wire_name(at->wire), i, at->n, (unsigned long long)a,
			 (unsigned long long)b);
	}
}

/* Memory for n elements and one behind, with what was there before. */
static void *room(enum ddl_type type, size_t n, size_t odd)
{
	size_t size = ddl_type_size(type);
	char *p = aligned_alloc(64, ((n + 1 + odd) * size + 127) / 64 * 64);
	assert_non_null(p);
	memset(p, 0x5a, (n + 1 + odd) * size);
	return p + odd * size;
}

static void give_back(void *p, enum ddl_type type, size_t odd)
{
	free((char *)p - odd * ddl_type_size(type));
}

/* ---- the kernels of two operands ---- */

static enum ddl_type wire_type(enum ddl_type type, enum ddl_wire wire)
{
	return wire == DDL_WIRE_BFLOAT16 ? DDL_BFLOAT16 : wire == DDL_WIRE_FLOAT16 ? DDL_FLOAT16 : type;
}

struct buffers {
	void *src, *wire;          /* inputs */
	void *dst[2], *out[2];     /* outputs: generic's, the set's */
	enum ddl_type type, wired; /* in memory, on the wire */
	size_t odd[4];             /* elements that they are off a line */
};

/* k: the reference's; a wire with scales is made by it, since not every byte is one. */
static void make(struct buffers *b, const struct ddl__kernels *k, const struct at *at, size_t odd, uint64_t *seed)
{
	const size_t n = at->n;
	b->type = at->type;
	b->wired = k->wire_block ? DDL_FLOAT32 : wire_type(at->type, at->wire); /* more than it takes, and aligned for scales */
	for (size_t i = 0; i < 4; i++)
		b->odd[i] = odd == 0 ? 0 : random_bits(seed) % 17;
	b->src = room(b->type, n, b->odd[0]);
	b->wire = room(b->wired, n + 1, b->odd[1]);
	for (int i = 0; i < 2; i++) {
		b->dst[i] = room(b->type, n, b->odd[2]);
		b->out[i] = room(b->wired, n + 1, b->odd[3]);
	}
	if (k->wire_block) {
		fill(b->src, b->type, n, seed);
		k->encode(b->wire, b->src, n);
	} else {
		fill(b->wire, b->wired, n, seed);
	}
	fill(b->src, b->type, n, seed);
}

/* What is on the wire, and that nothing is behind it. */
static void check_wires(const struct at *at, const struct ddl__kernels *k, struct buffers *b, int any_nan)
{
	if (!k->wire_block) {
		check_same(at, b->wired, b->out[1], b->out[0], any_nan);
		return;
	}
	float *numbers[2];
	for (int i = 0; i < 2; i++) {
		numbers[i] = calloc(at->n + 1, sizeof(float));
		assert_non_null(numbers[i]);
		k->decode(numbers[i], b->out[i], at->n);
		for (size_t c = 0; c < 4; c++)
			assert_int_equal(((const char *)b->out[i])[ddl__wire_size(k, at->n) + c], 0x5a);
	}
	check_same(at, DDL_FLOAT32, numbers[1], numbers[0], any_nan);
	if (!any_nan)
		assert_memory_equal(b->out[1], b->out[0], ddl__wire_size(k, at->n));
	free(numbers[0]);
	free(numbers[1]);
}

static void unmake(struct buffers *b)
{
	give_back(b->src, b->type, b->odd[0]);
	give_back(b->wire, b->wired, b->odd[1]);
	for (int i = 0; i < 2; i++) {
		give_back(b->dst[i], b->type, b->odd[2]);
		give_back(b->out[i], b->wired, b->odd[3]);
	}
}

static void check_pair(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k, struct buffers *b)
{
	const struct ddl__kernels *both[2] = { generic, k };
	size_t n = at->n;
	at->kernel = "encode";
	for (int i = 0; i < 2; i++)
		both[i]->encode(b->out[i], b->src, n);
	check_wires(at, generic, b, 0);
	for (uint32_t key = 1; key < 3 && k->encode_random; key++) {
		at->kernel = "encode_random";
		for (int i = 0; i < 2; i++)
			both[i]->encode_random(b->out[i], b->src, n, key * 0x12345678u, 0u - 100u);
		check_wires(at, generic, b, 0);
	}
	at->kernel = "decode";
	for (int i = 0; i < 2; i++)
		both[i]->decode(b->dst[i], b->wire, n);
	check_same(at, b->type, b->dst[1], b->dst[0], 0);
	at->kernel = "reduce_wire";
	for (int i = 0; i < 2; i++)
		both[i]->reduce_wire(b->out[i], b->wire, b->src, n);
	check_wires(at, generic, b, 1);
	at->kernel = "reduce_store";
	for (int i = 0; i < 2; i++)
		both[i]->reduce_store(b->dst[i], b->wire, b->src, n, 0);
	check_same(at, b->type, b->dst[1], b->dst[0], 1);
	for (int ranks = 1; ranks <= RANKS; ranks++) {
		at->kernel = "reduce_store, complete";
		for (int i = 0; i < 2; i++)
			both[i]->reduce_store(b->dst[i], b->wire, b->src, n, ranks);
		check_same(at, b->type, b->dst[1], b->dst[0], 0);
		at->kernel = "finish";
		for (int i = 0; i < 2; i++)
			both[i]->finish(b->dst[i], b->out[i], b->wire, b->src, n, ranks);
		check_same(at, b->type, b->dst[1], b->dst[0], 0);
		check_wires(at, generic, b, 0);
	}
	at->kernel = "finish in place"; /* in what finish has just left */
	memcpy(b->dst[1], b->src, n * k->type_bytes);
	memcpy(b->out[1], b->wire, ddl__wire_size(k, n));
	k->finish(b->dst[1], b->out[1], b->out[1], b->dst[1], n, RANKS);
	check_same(at, b->type, b->dst[1], b->dst[0], 0);
	check_wires(at, generic, b, 0);
	at->kernel = "reduce_store in place";
	generic->reduce_store(b->dst[0], b->wire, b->src, n, 0);
	memcpy(b->dst[1], b->src, n * k->type_bytes);
	k->reduce_store(b->dst[1], b->wire, b->dst[1], n, 0);
	check_same(at, b->type, b->dst[1], b->dst[0], 1);
	at->kernel = "reduce_wire in place";
	generic->reduce_wire(b->out[0], b->wire, b->src, n);
	memcpy(b->out[1], b->wire, ddl__wire_size(k, n));
	k->reduce_wire(b->out[1], b->out[1], b->src, n);
	check_wires(at, generic, b, 1);
}

/* ---- walks over what there is ---- */

typedef void check_function(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k);

/* Every (set, op, type, wire) but generic's own; with_generic: those too. */
static void for_each(check_function *check, int with_generic)
{
	size_t n_sets = 0;
	while (ddl__kernel_sets[n_sets])
		n_sets++;
	const struct ddl__kernel_set *generic = ddl__kernel_sets[n_sets - 1];
	int checked = 0;
	for (size_t s = 0; s < n_sets - (with_generic ? 0 : 1); s++) {
		const struct ddl__kernel_set *set = ddl__kernel_sets[s];
		if (!set->usable()) {
			print_message("kernel set %s: not on this CPU\n", set->name);
			continue;
		}
		for (int type = DDL_FLOAT64; type <= DDL_UINT8; type++)
			for (int op = DDL_SUM; op <= DDL_PROD; op++)
				for (int wire = DDL_WIRE_NATIVE; wire <= DDL_WIRE_INT8; wire++) {
					struct at at = {
						set->name, "", (enum ddl_op)op, (enum ddl_type)type, (enum ddl_wire)wire, 0
					};
					const struct ddl__kernels *k = set->get(at.op, at.type, at.wire);
					const struct ddl__kernels *g = generic->get(at.op, at.type, at.wire);
					if (!k || !g) {
						assert_true(!k);
						continue;
					}
					assert_int_equal(k->type_bytes, g->type_bytes);
					assert_int_equal(k->wire_bytes, g->wire_bytes);
					check(&at, g, k);
					checked++;
				}
	}
	print_message("%d combinations of set, operation, type and wire\n", checked);
}

static void check_lengths(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k)
{
	uint64_t seed = 7 + (uint64_t)at->op * 100 + (uint64_t)at->type;
	for (size_t n = 0; n <= LENGTHS; n++) {
		struct buffers b;
		at->n = n == LENGTHS ? MOST : n; /* and one long one */
		make(&b, generic, at, n % 3, &seed);
		check_pair(at, generic, k, &b);
		unmake(&b);
	}
}

static void all_lengths_and_offsets_give_generics_bits(void **state)
{
	for_each(check_lengths, 0);
}

/* Every special value with every other. */
static void check_specials(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k)
{
	struct buffers b;
	uint64_t seed = 1;
	const uint64_t *in_memory = specials_of(at->type), *on_wire = specials_of(wire_type(at->type, at->wire));
	if (!in_memory)
		return;
	at->n = SPECIALS * SPECIALS;
	make(&b, generic, at, 0, &seed);
	for (size_t i = 0; i < at->n && generic->wire_block; i++)
		memcpy((char *)b.src + i * k->type_bytes, &in_memory[i / SPECIALS], k->type_bytes);
	if (generic->wire_block)
		generic->encode(b.wire, b.src, at->n);
	for (size_t i = 0; i < at->n; i++) {
		memcpy((char *)b.src + i * k->type_bytes, &in_memory[i % SPECIALS], k->type_bytes);
		if (!generic->wire_block)
			memcpy((char *)b.wire + i * k->wire_bytes, &on_wire[i / SPECIALS], k->wire_bytes);
	}
	check_pair(at, generic, k, &b);
	unmake(&b);
}

static void special_values_give_generics_bits(void **state)
{
	for_each(check_specials, 0);
}

/* All upper halves of a float32, with lower ones around the ties of both wires. */
static void every_kind_of_float32_is_rounded_alike(void **state)
{
	enum { ALL = 65536 };
	float *src = malloc(ALL * sizeof(*src));
	struct buffers b = { .out = { calloc(ALL + 2, sizeof(float)), calloc(ALL + 2, sizeof(float)) } };
	static const uint32_t lows[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1000, 0x0fff, 0x1001, 0x2000, 0x3000, 0xf000 };
	assert_true(src && b.out[0] && b.out[1]);
	const struct ddl__kernel_set *const *generic = ddl__kernel_sets;
	while (generic[1])
		generic++;
	for (const struct ddl__kernel_set *const *set = ddl__kernel_sets; set != generic; set++)
		for (int wire = DDL_WIRE_BFLOAT16; wire <= DDL_WIRE_INT8 && (*set)->usable(); wire++) {
			struct at at = { (*set)->name, "encode", DDL_SUM, DDL_FLOAT32, (enum ddl_wire)wire, ALL };
			const struct ddl__kernels *k = (*set)->get(DDL_SUM, DDL_FLOAT32, at.wire);
			for (size_t l = 0; k && l < sizeof(lows) / sizeof(lows[0]); l++) {
				for (uint32_t h = 0; h < ALL; h++) {
					uint32_t bits = h << 16 | lows[l];
					memcpy(&src[h], &bits, sizeof(bits));
				}
				const struct ddl__kernels *reference = (*generic)->get(DDL_SUM, DDL_FLOAT32, at.wire);
				b.wired = wire_type(DDL_FLOAT32, at.wire);
				for (int i = 0; i < 2; i++)
					memset(b.out[i], 0x5a, (ALL + 2) * sizeof(float));
				k->encode(b.out[1], src, ALL);
				reference->encode(b.out[0], src, ALL);
				check_wires(&at, reference, &b, 0);
			}
		}
	free(src);
	free(b.out[0]);
	free(b.out[1]);
}

/* ---- reduce-many ---- */

struct many {
	void *src[SOURCES], *dst[SOURCES], *want;
	size_t odd[SOURCES]; /* of the destinations and the sources of the same number */
	size_t n_src, n_dst;
};

static void check_many_once(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k, struct many *m,
			    int stream)
{
	generic->reduce_many(&m->want, 1, (const void *const *)m->src, m->n_src, at->n, RANKS, 0);
	at->kernel = stream ? "reduce_many past the caches" : "reduce_many";
	k->reduce_many(m->dst, m->n_dst, (const void *const *)m->src, m->n_src, at->n, RANKS, stream);
	for (size_t j = 0; j < m->n_dst; j++)
		check_same(at, at->type, m->dst[j], m->want, 0);
	at->kernel = stream ? "reduce_many in place, past the caches" : "reduce_many in place";
	size_t both = m->n_src < m->n_dst ? m->n_src : m->n_dst;
	void *dst[SOURCES], *kept[SOURCES]; /* the last source is also the first destination, and so on */
	for (size_t j = 0; j < both; j++) {
		dst[j] = m->src[m->n_src - 1 - j];
		kept[j] = malloc((at->n + 1) * k->type_bytes);
		assert_non_null(kept[j]);
		memcpy(kept[j], dst[j], (at->n + 1) * k->type_bytes);
	}
	k->reduce_many(dst, both, (const void *const *)m->src, m->n_src, at->n, RANKS, stream);
	for (size_t j = 0; j < both; j++) {
		check_same(at, at->type, dst[j], m->want, 0);
		memcpy(dst[j], kept[j], (at->n + 1) * k->type_bytes);
		free(kept[j]);
	}
}

static void check_many_of(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k, size_t n_src,
			  size_t n_dst, size_t alike, uint64_t *seed)
{
	struct many m = { .n_src = n_src, .n_dst = n_dst };
	size_t one = random_bits(seed) % 33;
	for (size_t i = 0; i < SOURCES; i++) {
		m.odd[i] = alike ? one : random_bits(seed) % 33;
		m.src[i] = room(at->type, at->n, m.odd[i]);
		m.dst[i] = room(at->type, at->n, m.odd[i]);
		fill(m.src[i], at->type, at->n, seed);
	}
	m.want = room(at->type, at->n, 0);
	check_many_once(at, generic, k, &m, 0);
	check_many_once(at, generic, k, &m, 1);
	for (size_t i = 0; i < SOURCES; i++) {
		give_back(m.src[i], at->type, m.odd[i]);
		give_back(m.dst[i], at->type, m.odd[i]);
	}
	give_back(m.want, at->type, 0);
}

static void check_many(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k)
{
	static const size_t sources[] = { 1, 2, 3, 8, 9, 17, 64 }, destinations[] = { 1, 2, 3, 64, 5, 2, 64 };
	static const size_t lengths[] = { 0, 1, 15, 64, 131, 200, 1025, 2600 };
	uint64_t seed = 99 + (uint64_t)at->op;
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			at->n = lengths[l];
			if (sources[i] > 9 && at->n != 200 && at->n != 1025)
				continue;
			check_many_of(at, generic, k, sources[i], destinations[i], (i + l) % 2, &seed);
		}
}

static void reduce_many_gives_generics_bits(void **state)
{
	for_each(check_many, 1);
}

/* Where an accumulator is an element, reduce-many is a fold of reduce_store, divided at the end. */
static void check_fold(struct at *at, const struct ddl__kernels *generic, const struct ddl__kernels *k)
{
	enum { N = 777 };
	const int exact = at->type != DDL_FLOAT16 && at->type != DDL_BFLOAT16; /* the accumulator is the element */
	uint64_t seed = 5;
	void *src[9], *dst, *want;
	if (at->wire != DDL_WIRE_NATIVE || !exact)
		return;
	at->n = N;
	at->kernel = "reduce_many against a fold";
	for (int i = 0; i < 9; i++) {
		src[i] = room(at->type, N, 0);
		fill(src[i], at->type, N, &seed);
	}
	for (size_t n_src = 2; n_src <= 9; n_src++) {
		dst = room(at->type, N, 0);
		want = room(at->type, N, 0);
		memcpy(want, src[0], N * k->type_bytes);
		for (size_t i = 1; i < n_src; i++)
			generic->reduce_store(want, want, src[i], N, i + 1 == n_src ? RANKS : 0);
		k->reduce_many(&dst, 1, (const void *const *)src, n_src, N, RANKS, 0);
		check_same(at, at->type, dst, want, 0);
		give_back(dst, at->type, 0);
		give_back(want, at->type, 0);
	}
	for (int i = 0; i < 9; i++)
		give_back(src[i], at->type, 0);
}

static void reduce_many_is_a_fold_in_the_order_given(void **state)
{
	for_each(check_fold, 1);
}

/* What 16 bits would lose in each sum, the accumulator keeps. */
static void reduce_many_of_halves_rounds_once(void **state)
{
	static const struct {
		enum ddl_type type;
		uint16_t big, small, want; /* small is half a unit of big's last place: lost when rounded each time */
	} cases[] = {
		{ DDL_BFLOAT16, 0x4380, 0x3f80, 0x4382 }, /* 256 + 4 * 1 = 260; 256 + 1 rounds to 256 */
		{ DDL_FLOAT16, 0x6800, 0x3c00, 0x6802 },  /* 2048 + 4 * 1 = 2052; 2048 + 1 rounds to 2048 */
	};
	for (const struct ddl__kernel_set *const *set = ddl__kernel_sets; *set; set++)
		for (size_t c = 0; c < 2 && (*set)->usable(); c++) {
			const struct ddl__kernels *k = (*set)->get(DDL_SUM, cases[c].type, DDL_WIRE_NATIVE);
			uint16_t big[70], small[70], got[70];
			const void *src[5] = { big, small, small, small, small };
			void *dst = got;
			for (int i = 0; i < 70; i++) {
				big[i] = cases[c].big;
				small[i] = cases[c].small;
			}
			if (!k)
				continue;
			k->reduce_many(&dst, 1, src, 5, 70, 5, 0);
			for (int i = 0; i < 70; i++)
				assert_int_equal(got[i], cases[c].want);
		}
}

/* ---- copies and the choice of a set ---- */

static void copies_past_the_caches_are_copies(void **state)
{
	enum { SIZE = 1000 };
	char from[SIZE], to[SIZE + 64];
	uint64_t seed = 3;
	for (int i = 0; i < SIZE; i++)
		from[i] = (char)random_bits(&seed);
	for (size_t begin = 0; begin < 64; begin += 3)
		for (size_t bytes = 0; bytes <= 300; bytes += bytes < 130 ? 1 : 17)
			for (int stream = 0; stream < 2; stream++) {
				memset(to, 0x5a, sizeof(to));
				ddl__copy(to + begin, from + begin / 2, bytes, stream);
				assert_memory_equal(to + begin, from + begin / 2, bytes);
				for (size_t i = 0; i < sizeof(to); i++)
					assert_true((i >= begin && i < begin + bytes) || to[i] == 0x5a);
			}
}

static void a_set_can_be_asked_for_by_name(void **state)
{
	struct ddl_error err = { 0 };
	const struct ddl__kernel_set *last = NULL;
	for (const struct ddl__kernel_set *const *set = ddl__kernel_sets; *set; set++) {
		if (!(*set)->usable())
			continue;
		assert_int_equal(ddl__kernels_choose((*set)->name, &err), 0);
		const struct ddl__kernels *k = (*set)->get(DDL_SUM, DDL_BFLOAT16, DDL_WIRE_NATIVE);
		assert_ptr_equal(ddl__kernels_get(DDL_SUM, DDL_BFLOAT16, DDL_WIRE_NATIVE), k);
		last = *set;
	}
	assert_non_null(last);
	assert_string_equal(last->name, "generic");
	assert_true(ddl__kernels_choose("mmx", &err) < 0);
	assert_non_null(strstr(err.text, "mmx"));
	assert_non_null(strstr(err.text, "generic"));
	assert_ptr_equal(ddl__kernels_get(DDL_SUM, DDL_INT32, DDL_WIRE_NATIVE), /* a refused name changes nothing */
			 last->get(DDL_SUM, DDL_INT32, DDL_WIRE_NATIVE));
	assert_int_equal(ddl__kernels_choose(NULL, &err), 0);
	assert_non_null(ddl__kernels_get(DDL_SUM, DDL_FLOAT32, DDL_WIRE_NATIVE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_lengths_and_offsets_give_generics_bits), cmocka_unit_test(special_values_give_generics_bits),
		cmocka_unit_test(every_kind_of_float32_is_rounded_alike),     cmocka_unit_test(reduce_many_gives_generics_bits),
		cmocka_unit_test(reduce_many_is_a_fold_in_the_order_given),   cmocka_unit_test(reduce_many_of_halves_rounds_once),
		cmocka_unit_test(copies_past_the_caches_are_copies),          cmocka_unit_test(a_set_can_be_asked_for_by_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
