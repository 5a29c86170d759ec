/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - what the ranks sum: whole numbers from a hash, small enough that no order of the additions rounds, in no type. */
#ifndef DDL_BENCH_DATA_H
#define DDL_BENCH_DATA_H

#include <stddef.h>

#include "harness.h"

size_t data_type_size(enum bench_type type);

void data_fill(enum bench_type type, void *data, size_t count, int rank); /* the input of a rank */
void data_poison(void *data, size_t bytes);                               /* what no sum of inputs is */

/* The first element that is not the sum over size ranks; count if all are. *got and *expected are written where one is not. */
size_t data_check(enum bench_type type, const void *data, size_t count, int size, double *got, double *expected);

#endif
