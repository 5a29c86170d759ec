/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.c - the table of kernel sets, the choice among them, and the names of types and operations.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "reduce.h"

const struct ddl__kernel_set *const ddl__kernel_sets[] = {
#ifdef DDL_KERNELS_avx512bf16
	&ddl__kernel_set_avx512bf16,
#endif
#ifdef DDL_KERNELS_avx512
	&ddl__kernel_set_avx512,
#endif
#ifdef DDL_KERNELS_avx2
	&ddl__kernel_set_avx2,
#endif
#ifdef DDL_KERNELS_sve
	&ddl__kernel_set_sve,
#endif
#ifdef DDL_KERNELS_neon
	&ddl__kernel_set_neon,
#endif
	&ddl__kernel_set_generic,    NULL,
};

/* The best set that may be taken, as the environment wants it. */
static const struct ddl__kernel_set *const *_Atomic best = ddl__kernel_sets;

int ddl__kernels_choose(const char *name, struct ddl_error *err)
{
	const struct ddl__kernel_set *const *set = ddl__kernel_sets;
	char word[64], list[256] = "";
	if (!name || !*name) {
		best = ddl__kernel_sets;
		return 0;
	}
	while (*set && strcmp((*set)->name, name) != 0)
		set++;
	if (*set && (*set)->usable()) {
		best = set;
		return 0;
	}
	for (set = ddl__kernel_sets; *set; set++) {
		size_t length = strlen(list);
		if ((*set)->usable())
			snprintf(list + length, sizeof(list) - length, "%s%s", length ? ", " : "", (*set)->name);
	}
	return ddl__error_set(err, -EINVAL, "this CPU has no kernel set %s (DDL_KERNELS); it has %s",
			      ddl__error_word(word, sizeof(word), name, strlen(name)), list);
}

const struct ddl__kernels *ddl__kernels_get(enum ddl_op op, enum ddl_type type, enum ddl_wire wire)
{
	enum ddl_op any = op ? op : DDL_SUM;
	for (const struct ddl__kernel_set *const *set = best; *set; set++) {
		const struct ddl__kernels *kernels = (*set)->usable() ? (*set)->get(any, type, wire) : NULL;
		if (kernels)
			return kernels;
	}
	return NULL;
}

enum ddl_wire ddl__wire_resolve(enum ddl_wire wanted, enum ddl_type type)
{
	return type == DDL_FLOAT32 && wanted != DDL_WIRE_AUTO ? wanted : DDL_WIRE_NATIVE;
}

size_t ddl__wire_bytes(enum ddl_wire wire, enum ddl_type type, size_t n)
{
	const struct ddl__kernels *kernels = ddl__kernels_get(0, type, wire);
	return kernels ? ddl__wire_size(kernels, n) : 0;
}

static const struct {
	const char *name;
	size_t size;
} types[] = {
	[DDL_FLOAT64] = { "f64", 8 }, [DDL_FLOAT32] = { "f32", 4 }, [DDL_FLOAT16] = { "f16", 2 }, [DDL_BFLOAT16] = { "bf16", 2 },
	[DDL_INT64] = { "i64", 8 },   [DDL_INT32] = { "i32", 4 },   [DDL_INT8] = { "i8", 1 },     [DDL_UINT8] = { "u8", 1 },
};

static const char *const ops[] = {
	[DDL_SUM] = "sum", [DDL_AVG] = "avg", [DDL_MIN] = "min", [DDL_MAX] = "max", [DDL_PROD] = "prod",
};

static const char *const wires[] = {
	[DDL_WIRE_AUTO] = "auto",   [DDL_WIRE_NATIVE] = "native", [DDL_WIRE_BFLOAT16] = "bf16",
	[DDL_WIRE_FLOAT16] = "f16", [DDL_WIRE_INT8] = "i8",
};

size_t ddl_type_size(enum ddl_type type)
{
	return (size_t)type < sizeof(types) / sizeof(types[0]) ? types[type].size : 0;
}

int ddl__type_rounds(enum ddl_type type)
{
	return type == DDL_FLOAT64 || type == DDL_FLOAT32 || type == DDL_FLOAT16 || type == DDL_BFLOAT16;
}

int ddl__type_narrow(enum ddl_type type)
{
	return type == DDL_FLOAT16 || type == DDL_BFLOAT16;
}

const char *ddl__type_name(enum ddl_type type)
{
	return (size_t)type < sizeof(types) / sizeof(types[0]) ? types[type].name : NULL;
}

const char *ddl__op_name(enum ddl_op op)
{
	return (size_t)op < sizeof(ops) / sizeof(ops[0]) ? ops[op] : NULL;
}

const char *ddl__wire_name(enum ddl_wire wire)
{
	return (size_t)wire < sizeof(wires) / sizeof(wires[0]) ? wires[wire] : NULL;
}
