/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify_value.h - what verify.c knows of an element's value beside whose contributions it holds: where it comes from, whether it
 * is complete, and how often it was rounded.
 *
 * Roundings. On a wire that rounds, what is sent is rounded unless it is as it came from the wire. In memory of 16 bits each result
 * of a reduction is rounded. What counts is the contribution that was rounded most often: its number bounds the error however many
 * ranks there are.
 */
#ifndef DDL_SCHED_VERIFY_VALUE_H
#define DDL_SCHED_VERIFY_VALUE_H

#include "verify.h"

struct ddl__value {
	uint64_t origin;  /* index in the input that it is made of */
	uint32_t rounded; /* how often one of its contributions was rounded, at most */
	bool final;       /* the mean was taken */
	bool coarse;      /* it is as it came from the wire, or would: rounding changes nothing */
};

/* Reduces another value into *value and its set. Returns NULL, or what is wrong with that, as a clause. */
const char *ddl__value_reduce(const struct ddl__verify *verify, size_t words, struct ddl__value *value, uint64_t *set,
			      const struct ddl__value *other, const uint64_t *other_set);

/* A reduction is stored or sent: memory of 16 bits rounds it. */
void ddl__value_reduced(const struct ddl__verify *verify, struct ddl__value *value);

/* A value goes onto the wire of a lane. */
void ddl__value_travels(const struct ddl__verify *verify, const struct ddl__steps *lane, struct ddl__value *value);

#endif
