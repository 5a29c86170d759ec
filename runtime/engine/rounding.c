/* SPDX-License-Identifier: Apache-2.0 */
/* rounding.c - see rounding.h. Block by block, so that all of it happens in the first cache. */
#include "rounding.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 }; /* elements; a wire's blocks are no longer */

/* Any bit of x changes half of the result's (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint32_t key_of(const struct ddl_request *r, const struct ddl__step *step, uint64_t index)
{
	/* in the order of ranks, a result must not depend on who completes it */
	bool alike = step->kind == DDL__SEND_STORE && step->src_buffer == DDL__OUTPUT &&
		     (r->schedule->replicas || r->call.in_order);
	uint64_t key = mix(r->call.seed + 0x9e3779b97f4a7c15u);
	key = mix(key ^ r->id);
	key = mix(key ^ r->starts);
	key = mix(key ^ (alike ? 0 : (uint64_t)r->comm->rank + 1));
	return (uint32_t)mix(key ^ index >> 32);
}

int ddl__rounding_open(struct ddl_request *r)
{
	if (r->call.wire == DDL_WIRE_NATIVE || (r->call.rounding == DDL_ROUND_NEAREST && !r->call.feedback))
		return 0;
	struct ddl__rounding *rounding = calloc(1, sizeof(*rounding));
	if (!rounding)
		return -ENOMEM;
	r->rounding = rounding;
	rounding->random = r->call.rounding == DDL_ROUND_STOCHASTIC;
	rounding->result = r->call.collective == DDL__ALLREDUCE && !r->schedule->replicas;
	rounding->elements = r->send_bytes / sizeof(float);
	if (!r->call.feedback)
		return 0;
	rounding->input = calloc(rounding->elements + 1, sizeof(float));
	rounding->residual = calloc(rounding->elements + 1, sizeof(float));
	return rounding->input && rounding->residual ? 0 : -ENOMEM;
}

void ddl__rounding_close(struct ddl_request *r)
{
	if (!r->rounding)
		return;
	free(r->rounding->input);
	free(r->rounding->residual);
	free(r->rounding);
	r->rounding = NULL;
}

void ddl__rounding_start(struct ddl_request *r)
{
	const struct ddl__rounding *rounding = r->rounding;
	const float *send = r->send;
	if (!rounding || !rounding->input)
		return;
	for (uint64_t i = 0; i < rounding->elements; i++) {
		rounding->input[i] = send[i] + rounding->residual[i];
		rounding->residual[i] = 0;
	}
}

bool ddl__rounding_concerns(const struct ddl_request *request, const struct ddl__step *step)
{
	return request->rounding && (step->kind == DDL__SEND || step->kind == DDL__SEND_STORE ||
				     step->kind == DDL__RECV_REDUCE_SEND || step->kind == DDL__RECV_REDUCE_STORE_SEND);
}

struct keep {            /* where what rounding takes away goes */
	float *residual; /* of the slice's elements; NULL: nowhere */
	float unit;      /* of what is rounded, in units of the input */
	bool add;        /* to what earlier roundings of this start took away */
};

static struct keep keep_of(const struct ddl_request *r, const struct ddl__step *step, uint64_t offset)
{
	const struct ddl__rounding *rounding = r->rounding;
	struct keep keep = { .unit = 1, .add = step->src_buffer == DDL__OUTPUT };
	bool partial = step->src_buffer == DDL__OUTPUT && rounding->result;
	if (!rounding->residual || (step->src_buffer != DDL__INPUT && !partial))
		return keep;
	keep.residual = rounding->residual + step->src + offset;
	/* what is kept as it was sent is complete: an average has been divided */
	if (r->call.op == DDL_AVG && (step->final || (partial && step->kind == DDL__SEND_STORE)))
		keep.unit = (float)r->comm->size;
	return keep;
}

/* An element that is no number takes its residual with it. */
static void keep_block(const struct keep *keep, uint64_t i, const float *before, const float *after, size_t n)
{
	for (size_t j = 0; j < n; j++) {
		float *residual = keep->residual + i + j;
		float lost = (before[j] - after[j]) * keep->unit + (keep->add ? *residual : 0);
		*residual = isfinite(lost) ? lost : 0;
	}
}

void ddl__rounding_run(const struct ddl_request *r, const struct ddl__step *step, uint64_t offset, size_t n, const void *in,
		       void *out, const void *src, void *dst)
{
	const struct ddl__kernels *k = r->kernels;
	const struct keep keep = keep_of(r, step, offset);
	const bool stores = step->kind == DDL__SEND_STORE || step->kind == DDL__RECV_REDUCE_STORE_SEND;
	const bool reduces = step->kind == DDL__RECV_REDUCE_SEND || step->kind == DDL__RECV_REDUCE_STORE_SEND;
	const int ranks = step->kind != DDL__RECV_REDUCE_STORE_SEND ? 0 : step->final ? r->comm->size : 1;
	const size_t stride = ddl__wire_size(k, BLOCK);
	float sum[BLOCK], after[BLOCK];
	for (size_t i = 0, at = 0; i < n; i += BLOCK, at += stride) {
		const size_t m = n - i < BLOCK ? n - i : BLOCK;
		const uint64_t index = step->src + offset + i;
		const float *before = (const float *)src + i;
		char *wire = (char *)out + at;
		if (reduces) {
			k->reduce_store(sum, (const char *)in + at, before, m, ranks);
			before = sum;
		}
		if (r->rounding->random)
			k->encode_random(wire, before, m, key_of(r, step, index), (uint32_t)index);
		else
			k->encode(wire, before, m);
		if (keep.residual || stores)
			k->decode(after, wire, m);
		if (keep.residual)
			keep_block(&keep, i, before, after, m);
		if (stores)
			memcpy((float *)dst + i, after, m * sizeof(float));
	}
}

void ddl__rounding_round(const struct ddl_request *r, const struct ddl__step *step, uint64_t offset, size_t n, const void *src,
			 void *dst)
{
	enum { SCALE = sizeof(float) };
	_Alignas(float) char wire[BLOCK * sizeof(float) + SCALE]; /* no wire takes more than memory does */
	struct ddl__step send = *step;
	send.kind = DDL__SEND_STORE;
	for (size_t i = 0; i < n; i += BLOCK) {
		const size_t m = n - i < BLOCK ? n - i : BLOCK, at = i * r->kernels->type_bytes;
		if (r->rounding) {
			ddl__rounding_run(r, &send, offset + i, m, NULL, wire, (const char *)src + at, (char *)dst + at);
			continue;
		}
		r->kernels->encode(wire, (const char *)src + at, m);
		r->kernels->decode((char *)dst + at, wire, m);
	}
}

/* ---- the public calls on what is kept ---- */

static int check(const struct ddl_request *request, const void *residual, size_t count)
{
	if (!request->rounding || !request->rounding->residual)
		return -EOPNOTSUPP;
	if (atomic_load(&request->active))
		return -EBUSY;
	return count != request->rounding->elements || (count && !residual) ? -EINVAL : 0;
}

int ddl_request_reset_feedback(struct ddl_request *request)
{
	const struct ddl__rounding *rounding = request->rounding;
	int rc = check(request, rounding ? rounding->residual : NULL, rounding ? rounding->elements : 0);
	if (rc == 0)
		memset(rounding->residual, 0, rounding->elements * sizeof(float));
	return rc;
}

int ddl_request_get_feedback(const struct ddl_request *request, float *residual, size_t count)
{
	int rc = check(request, residual, count);
	if (rc == 0 && count)
		memcpy(residual, request->rounding->residual, count * sizeof(float));
	return rc;
}

int ddl_request_set_feedback(struct ddl_request *request, const float *residual, size_t count)
{
	int rc = check(request, residual, count);
	if (rc == 0 && count)
		memcpy(request->rounding->residual, residual, count * sizeof(float));
	return rc;
}
