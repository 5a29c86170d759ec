/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - the world that the ranks of transport/loop share, and the faults that can be put into it.
 */
#ifndef DDL_TRANSPORT_LOOP_H
#define DDL_TRANSPORT_LOOP_H

#include <stdint.h>

struct ddl__loop_world;

/* A world of n_ranks. NULL: out of memory. Freed after its last transport was closed. */
struct ddl__loop_world *ddl__loop_world_create(int n_ranks);
void ddl__loop_world_destroy(struct ddl__loop_world *world);

/* The world of the n_ranks of that color that the number-th split cuts out: made by who asks first, jittered as this one, and freed
 * with it. NULL: out of memory. */
struct ddl__loop_world *ddl__loop_world_part(struct ddl__loop_world *world, uint64_t number, int color, int n_ranks);

/* From now on each look at a slot says "not yet" with a probability of 1 in `one_in`, from a seed: other interleavings. 0: off. */
void ddl__loop_world_jitter(struct ddl__loop_world *world, uint32_t one_in, uint64_t seed);

/* The rank is dead: every other rank that has a lane with it is told so (-ECONNRESET), nothing of it arrives any more. */
void ddl__loop_world_kill(struct ddl__loop_world *world, int rank);

/* One bit of what that request sends from a rank to another is turned: in the last byte of slice number `slice`, from 0. */
void ddl__loop_world_damage(struct ddl__loop_world *world, int from, int to, uint32_t request, uint32_t slice);

#endif
