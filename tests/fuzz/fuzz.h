/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the fuzz targets share. A target is one function; libFuzzer calls it, or smoke.c with the seeds and mutations
 * of them.
 */
#ifndef DDL_TESTS_FUZZ_H
#define DDL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan.h"
#include "topology.h"

/* Runs one input. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where something that must hold does not. */
#define MUST(condition)                                                                                                            \
	do {                                                                                                                       \
		if (!(condition)) {                                                                                                \
			fprintf(stderr, "%s:%d: it does not hold that %s\n", __FILE__, __LINE__, #condition);                      \
			abort();                                                                                                   \
		}                                                                                                                  \
	} while (0)

/* What was read well must encode, and decode to the same bytes again; too long is the only excuse. */
void fuzz_check_plan(const struct ddl__plan *plan);

/* A topology that was read well must give a plan of all its nodes, where their names are possible. Frees it. */
void fuzz_check_topology(struct ddl__topology *topology);

#endif
