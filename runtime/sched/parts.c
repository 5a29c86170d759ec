/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.c - an all-reduce as several, each of a part of the data: what gives each rail its own. Lane l of part p of n has the
 * number l n + p, so that its number modulo the rails, which divide n or are divided by it, tells the rail.
 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 16 }; /* elements */

/* Moves a step of part p of n into the whole. */
static void move(struct ddl__step *step, uint32_t p, uint32_t n, uint64_t begin, uint64_t scratch)
{
	step->src += step->src_buffer == DDL__SCRATCH ? scratch : begin;
	step->dst += step->dst_buffer == DDL__SCRATCH ? scratch : begin;
	if (step->wait_lane != DDL__NO_WAIT)
		step->wait_lane = step->wait_lane * n + p;
}

/* Takes the lanes of part p of n over; all parts have the same lanes. */
static void take(struct ddl__schedule *whole, struct ddl__schedule *part, uint32_t p, uint32_t n, uint64_t begin)
{
	for (uint32_t l = 0; l < part->n_lanes; l++) {
		struct ddl__steps *lane = &whole->lanes[l * n + p];
		*lane = part->lanes[l];
		lane->number = lane->number * n + p;
		for (uint32_t i = 0; i < lane->n; i++)
			move(&lane->steps[i], p, n, begin, whole->scratch_elements);
		part->lanes[l].steps = NULL;
	}
	whole->scratch_elements += part->scratch_elements;
	whole->slots = part->slots;
	whole->replicas = part->replicas;
	if (part->slice_elements > whole->slice_elements)
		whole->slice_elements = part->slice_elements;
}

int ddl__build_parts(const struct ddl__build *build, int (*one)(const struct ddl__build *build, struct ddl__schedule **schedule),
		     struct ddl__schedule **schedule)
{
	struct ddl__build part = *build;
	struct ddl__schedule *whole = NULL;
	const uint64_t grain = ddl__grain(build, GRAIN);
	uint32_t n = build->rings;
	int rc = 0;
	if (n < 2 || build->count < (uint64_t)build->layout->n_ranks * grain * n)
		return one(build, schedule);
	part.rings = 1;
	for (uint32_t p = 0; rc == 0 && p < n; p++) {
		struct ddl__schedule *s = NULL;
		uint64_t begin;
		ddl__split(build->count, n, p, grain, &begin, &part.count);
		rc = one(&part, &s);
		if (rc == 0 && p == 0)
			rc = ddl__schedule_create(s->n_lanes * n, &whole);
		if (rc == 0 && s->n_lanes * n != whole->n_lanes)
			rc = -EOPNOTSUPP;
		if (rc == 0)
			take(whole, s, p, n, begin);
		ddl__schedule_destroy(s);
	}
	if (rc < 0)
		ddl__schedule_destroy(whole);
	else
		*schedule = whole;
	return rc;
}
