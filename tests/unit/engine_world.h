/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_world.h - what the tests of the engine share: communicators of all ranks in this process over transport/loop, requests
 * driven in turn, inputs and what must become of them.
 */
#ifndef DDL_TESTS_ENGINE_WORLD_H
#define DDL_TESTS_ENGINE_WORLD_H

#include <math.h>
#include <pthread.h>

#include "comm.h"
#include "convert.h"
#include "engine.h"
#include "trees.h"

enum { RANKS_MAX = 16, PASSES_MAX = 2000000, TIMEOUT_MS = 60000 };

struct world {
	int n;
	struct ddl__loop_world *loop;
	struct ddl_comm *comms[RANKS_MAX];
	struct world_plan plan;
};

/* Of w->plan. */
static inline void world_open(struct world *w, int n, int timeout_ms)
{
	struct ddl_error err = { 0 };
	w->n = n;
	w->loop = ddl__loop_world_create(n);
	assert_non_null(w->loop);
	for (int r = 0; r < n; r++)
		if (ddl__comm_create_loop(w->loop, w->plan.text, w->plan.node_of_rank, r, n, timeout_ms, &w->comms[r], &err) < 0)
			fail_msg("%s", err.text);
}

static inline void *destroy(void *comm)
{
	ddl_comm_destroy(comm);
	return NULL;
}

static inline void world_init(struct world *w, int n, uint64_t seed, int timeout_ms)
{
	assert_int_equal(random_plan(seed, n, 2, (int)(seed & 1), &w->plan), 0);
	world_open(w, n, timeout_ms);
}

/* The ranks say goodbye to each other: that takes a thread each. */
static inline void world_fini(struct world *w)
{
	pthread_t threads[RANKS_MAX];
	ddl__loop_world_jitter(w->loop, 0, 0);
	for (int r = 0; r < w->n; r++)
		assert_int_equal(pthread_create(&threads[r], NULL, destroy, w->comms[r]), 0);
	for (int r = 0; r < w->n; r++)
		pthread_join(threads[r], NULL);
	ddl__loop_world_destroy(w->loop);
	world_plan_fini(&w->plan);
}

/* Drives the requests of all ranks in turn until each is complete or failed; results[r] is what test said last. */
static inline void drive(struct ddl_request *const *requests, int n, int *results)
{
	int left = n;
	for (int r = 0; r < n; r++)
		results[r] = 0;
	for (int pass = 0; left && pass < PASSES_MAX; pass++)
		for (int r = 0; r < n; r++)
			if (results[r] == 0) {
				results[r] = ddl_test(requests[r]);
				left -= results[r] != 0;
			}
	assert_int_equal(left, 0);
}

static inline void drive_well(struct ddl_request *const *requests, int n)
{
	int results[RANKS_MAX];
	drive(requests, n, results);
	for (int r = 0; r < n; r++)
		assert_int_equal(results[r], 1);
}

/* ---- results ---- */

/* What rank contributes; products stay small enough for every type. */
static inline double value(enum ddl_op op, int rank, size_t i)
{
	if (op == DDL_PROD)
		return (rank + (int)i) % 4 == 0 ? 2 : (rank + (int)i) % 3 == 0 ? -1 : 1;
	return (double)((rank * 7 + (int)(i % 1000) * 13) % 23) - 11;
}

static inline void store(void *buffer, enum ddl_type type, size_t i, double x)
{
	switch (type) {
	case DDL_FLOAT64:
		((double *)buffer)[i] = x;
		break;
	case DDL_FLOAT32:
		((float *)buffer)[i] = (float)x;
		break;
	case DDL_FLOAT16:
		((uint16_t *)buffer)[i] = ddl__to_f16((float)x);
		break;
	case DDL_BFLOAT16:
		((uint16_t *)buffer)[i] = ddl__to_bf16((float)x);
		break;
	case DDL_INT64:
		((int64_t *)buffer)[i] = (int64_t)x;
		break;
	case DDL_INT32:
		((int32_t *)buffer)[i] = (int32_t)x;
		break;
	case DDL_INT8:
		((int8_t *)buffer)[i] = (int8_t)x;
		break;
	case DDL_UINT8:
		((uint8_t *)buffer)[i] = (uint8_t)(int)x;
		break;
	}
}

static inline double fetch(const void *buffer, enum ddl_type type, size_t i)
{
	switch (type) {
	case DDL_FLOAT64:
		return ((const double *)buffer)[i];
	case DDL_FLOAT32:
		return ((const float *)buffer)[i];
	case DDL_FLOAT16:
		return ddl__from_f16(((const uint16_t *)buffer)[i]);
	case DDL_BFLOAT16:
		return ddl__from_bf16(((const uint16_t *)buffer)[i]);
	case DDL_INT64:
		return (double)((const int64_t *)buffer)[i];
	case DDL_INT32:
		return ((const int32_t *)buffer)[i];
	case DDL_INT8:
		return ((const int8_t *)buffer)[i];
	case DDL_UINT8:
		return ((const uint8_t *)buffer)[i];
	}
	return NAN;
}

/* What the result must be, and by how much it may differ: a rounding to the wire's type at each of n hops. */
static inline double expected(enum ddl_op op, enum ddl_type type, enum ddl_wire wire, int n, size_t i, double *tolerance)
{
	double x = op == DDL_PROD ? 1 : op == DDL_MIN ? INFINITY : op == DDL_MAX ? -INFINITY : 0, sum = 0;
	for (int r = 0; r < n; r++) {
		double v = value(op, r, i);
		if (type == DDL_UINT8)
			v = (double)(uint8_t)(int)v;
		sum += fabs(v);
		x = op == DDL_PROD ? x * v : op == DDL_MIN ? fmin(x, v) : op == DDL_MAX ? fmax(x, v) : x + v;
	}
	double unit = type == DDL_FLOAT64                                   ? 0x1p-53
		      : type == DDL_BFLOAT16 || (wire == DDL_WIRE_BFLOAT16) ? 0x1p-8
		      : type == DDL_FLOAT16 || (wire == DDL_WIRE_FLOAT16)   ? 0x1p-11
									    : 0x1p-24;
	if (op == DDL_PROD)
		sum = fabs(x);
	*tolerance = unit * n * sum * 1.1;
	if (type == DDL_FLOAT32 && wire == DDL_WIRE_INT8) { /* half a scale, which any element of the block may have made */
		double most = op == DDL_PROD ? ldexp(1, n) : op == DDL_MIN || op == DDL_MAX ? 11 : 11 * n;
		*tolerance = most / 254 * (n + 2) * 1.1 / (op == DDL_AVG ? n : 1);
	}
	return op == DDL_AVG ? x / n : x;
}

static inline int is_whole(enum ddl_type type)
{
	return type >= DDL_INT64;
}

static inline double wrap(double x, enum ddl_type type)
{
	int64_t v = (int64_t)x;
	return type == DDL_INT8    ? (double)(int8_t)v
	       : type == DDL_UINT8 ? (double)(uint8_t)v
	       : type == DDL_INT32 ? (double)(int32_t)v
				   : x;
}

#endif
