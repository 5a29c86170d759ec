/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - see audit.h. */
#include "audit.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "convert.h"
#include "error.h"
#include "rounding.h"

enum { LATE_MAX = 4096 };

static bool takes(uint64_t rate, uint32_t request, uint64_t start)
{
	uint64_t x = ((uint64_t)request << 40) + start * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return rate == UINT64_MAX || (x ^ x >> 31) < rate;
}

uint64_t ddl__audit_hash(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t word;
	for (size_t left = size; left > 0; left -= left < sizeof(word) ? left : sizeof(word), p += sizeof(word)) {
		word = 0;
		memcpy(&word, p, left < sizeof(word) ? left : sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return hash ^ size;
}

/* ---- elements ---- */

static double load(enum ddl_type type, const void *data, size_t i)
{
	switch (type) {
	case DDL_FLOAT64:
		return ((const double *)data)[i];
	case DDL_FLOAT16:
		return ddl__from_f16(((const uint16_t *)data)[i]);
	case DDL_BFLOAT16:
		return ddl__from_bf16(((const uint16_t *)data)[i]);
	default:
		return ((const float *)data)[i];
	}
}

static enum ddl_type reference_type(enum ddl_type type)
{
	return type == DDL_FLOAT64 ? DDL_FLOAT64 : DDL_FLOAT32;
}

/* The input of this start, what is fed back included, and the first element of the user's that is no finite number. */
static void copy_input(const struct ddl_request *r, struct ddl__note *note)
{
	const enum ddl_type type = (enum ddl_type)r->call.type;
	const float *residual = r->rounding ? r->rounding->residual : NULL;
	void *copy = r->audited->copy;
	note->odd = DDL__ODD_NONE;
	for (uint64_t i = 0; i < r->call.count; i++) {
		const double x = load(type, r->send, i);
		if (!isfinite(x) && !note->odd) {
			note->odd = isnan(x) ? DDL__ODD_NAN : DDL__ODD_INFINITY;
			note->odd_at = i;
		}
		if (type == DDL_FLOAT64)
			((double *)copy)[i] = x;
		else
			((float *)copy)[i] = (float)x + (residual ? residual[i] : 0);
	}
}

static void compare_block(const struct ddl_request *r, uint64_t first, size_t n, struct ddl__note *note)
{
	const enum ddl_type type = (enum ddl_type)r->call.type;
	double got[DDL__ULP_BLOCK], want[DDL__ULP_BLOCK];
	for (size_t i = 0; i < n; i++) {
		got[i] = load(type, r->recv, first + i);
		want[i] = load(reference_type(type), r->audited->copy, first + i);
		if (isfinite(got[i]) != isfinite(want[i]))
			note->lost++;
		if (!isfinite(got[i]) || !isfinite(want[i]))
			continue;
		note->wrong += (got[i] - want[i]) * (got[i] - want[i]);
		note->whole += want[i] * want[i];
	}
	ddl__ulp_add(&note->ulp, type, (enum ddl_wire)r->call.wire, got, want, n);
}

static void compare_result(struct ddl_request *r)
{
	struct ddl__note *note = &r->audited->mine;
	for (uint64_t i = 0; i < r->call.count; i += DDL__ULP_BLOCK)
		compare_block(r, i, r->call.count - i < DDL__ULP_BLOCK ? (size_t)(r->call.count - i) : DDL__ULP_BLOCK, note);
	note->start = r->audited->starts;
	note->hash = ddl__audit_hash(0, r->recv, r->recv_bytes);
}

/* ---- requests ---- */

static bool is_audited(const struct ddl_request *r)
{
	return r->comm->audit && !r->comm->audit->closed && r->call.collective == DDL__ALLREDUCE &&
	       ddl__type_rounds((enum ddl_type)r->call.type) && r->call.count > 0 && r->comm->size > 1;
}

/* The library's own requests are neither compared nor in the statistics. */
static void own(struct ddl_comm *comm, bool on, bool watching)
{
	pthread_mutex_lock(&comm->lock);
	comm->audit->closed = on;
	comm->watching = watching;
	pthread_mutex_unlock(&comm->lock);
}

static int make_requests(struct ddl_request *r, struct ddl_error *err)
{
	struct ddl__audited *a = r->audited;
	struct ddl_comm *comm = r->comm;
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	const bool watching = comm->watching;
	options.wire = DDL_WIRE_NATIVE;
	options.accuracy = DDL_ACCURACY_EXACT;
	options.reproducible = 0;
	options.priority = INT_MIN;
	own(comm, true, false);
	int rc = ddl_allreduce_init(a->copy, a->copy, r->call.count, reference_type((enum ddl_type)r->call.type),
				    (enum ddl_op)r->call.op, comm, &options, &a->reference, err);
	rc = rc ? rc : ddl_allgather_init(&a->mine, a->all, sizeof(a->mine), DDL_UINT8, comm, &options, &a->notes, err);
	own(comm, false, watching);
	return rc;
}

int ddl__audited_open(struct ddl_request *r, struct ddl_error *err)
{
	if (!is_audited(r))
		return 0;
	struct ddl__audited *a = calloc(1, sizeof(*a));
	r->audited = a;
	if (!a)
		return ddl__error_memory(err);
	a->copy = malloc(r->call.count * ddl_type_size(reference_type((enum ddl_type)r->call.type)));
	a->all = calloc((size_t)r->comm->size, sizeof(*a->all));
	if (!a->copy || !a->all)
		return ddl__error_set(err, -ENOMEM, "out of memory for a copy of %llu elements, which DDL_CHECK needs: unset it",
				      (unsigned long long)r->call.count);
	a->mine.request = r->id;
	r->comm->audit->requests++; /* requests of a communicator are made in one order */
	return make_requests(r, err);
}

/* Keeps a result that no start followed. More than LATE_MAX are forgotten, on all ranks alike. */
static void keep_late(struct ddl_request *r)
{
	struct ddl__audit *audit = r->comm->audit;
	pthread_mutex_lock(&audit->lock);
	if (audit->n_late == audit->room_late && audit->room_late < LATE_MAX) {
		size_t room = audit->room_late ? audit->room_late * 2 : 16;
		struct ddl__late *more = realloc(audit->late, room * sizeof(*more));
		if (more) {
			audit->late = more;
			audit->room_late = room;
		}
	}
	if (audit->n_late < audit->room_late)
		audit->late[audit->n_late++] = (struct ddl__late){ r->audited->mine, r->call, r->audited->told };
	pthread_mutex_unlock(&audit->lock);
}

void ddl__audited_close(struct ddl_request *r)
{
	struct ddl__audited *a = r->audited;
	if (!a)
		return;
	if (a->mine.start)
		keep_late(r);
	if (a->reference)
		ddl__request_destroy(a->reference);
	if (a->notes)
		ddl__request_destroy(a->notes);
	free(a->copy);
	free(a->all);
	free(a);
	r->audited = NULL;
}

bool ddl__audited_active(const struct ddl_request *r)
{
	const struct ddl__audited *a = r->audited;
	return atomic_load(&a->reference->active) || atomic_load(&a->notes->active);
}

/* Waits for one of them, or looks. Returns 1: complete; 0: not yet. */
static int settle(struct ddl_request *request, bool wait)
{
	int rc = wait ? ddl_wait(request) : ddl_test(request);
	return rc < 0 ? rc : wait || rc;
}

int ddl__audited_finish(struct ddl_request *r, bool wait)
{
	struct ddl__audited *a = r->audited;
	if (!a->noted)
		return 1;
	int rc = a->taken ? settle(a->reference, wait) : 1;
	rc = rc == 1 ? settle(a->notes, wait) : rc;
	if (rc != 1)
		return rc;
	ddl__audit_judge(r->comm, &r->call, a->all, 1, 0, &a->told);
	a->mine = (struct ddl__note){ .request = r->id };
	if (a->taken)
		compare_result(r);
	a->taken = a->noted = false;
	return 1;
}

int ddl__audited_start(struct ddl_request *r)
{
	struct ddl__audited *a = r->audited;
	int rc = ddl__audited_finish(r, false); /* of a start that nobody has waited for */
	if (rc != 1)
		return rc ? rc : -EINVAL;
	a->starts++;
	a->taken = takes(r->comm->audit->rate, r->id, a->starts);
	a->noted = a->taken || a->mine.start;
	if (a->taken) {
		a->mine.input_start = a->starts;
		copy_input(r, &a->mine);
		rc = ddl_start(a->reference);
	} else {
		rc = 0;
	}
	return rc == 0 && a->noted ? ddl_start(a->notes) : rc;
}

/* ---- communicators ---- */

int ddl__audit_open(struct ddl_comm *comm, uint64_t rate)
{
	if (rate == 0)
		return 0;
	comm->audit = calloc(1, sizeof(*comm->audit));
	if (!comm->audit)
		return -ENOMEM;
	comm->audit->rate = rate;
	pthread_mutex_init(&comm->audit->lock, NULL);
	return 0;
}

static int by_request(const void *a, const void *b)
{
	const struct ddl__note *x = &((const struct ddl__late *)a)->note, *y = &((const struct ddl__late *)b)->note;
	return (x->request > y->request) - (x->request < y->request);
}

/* Gathers the late notes of all ranks; where they are not of the same results, or a rank has no memory, none. */
static void judge_late(struct ddl_comm *comm)
{
	struct ddl__audit *audit = comm->audit;
	const size_t n = audit->n_late;
	struct ddl__note *mine = calloc(n + 1, sizeof(*mine)), *all = calloc(n * (size_t)comm->size + 1, sizeof(*all));
	const int64_t told = mine && all ? (int64_t)n : -1;
	int64_t bounds[4] = { told, -told };
	uint64_t hash = 0;
	if (n)
		qsort(audit->late, n, sizeof(*audit->late), by_request);
	for (size_t i = 0; told > 0 && i < n; i++) {
		mine[i] = audit->late[i].note;
		mine[i].input_start = 0;
		hash = ddl__audit_hash(hash ^ mine[i].request, &mine[i].start, sizeof(mine[i].start));
	}
	bounds[2] = (int64_t)(hash >> 1);
	bounds[3] = -bounds[2];
	int rc = ddl_allreduce(bounds, bounds, 4, DDL_INT64, DDL_MIN, comm);
	if (rc == 0 && told > 0 && bounds[0] == -bounds[1] && bounds[2] == -bounds[3]) {
		rc = ddl_allgather(mine, all, n * sizeof(*mine), DDL_UINT8, comm);
		for (size_t i = 0; rc == 0 && i < n; i++)
			ddl__audit_judge(comm, &audit->late[i].call, all, n, i, &audit->late[i].told);
	}
	free(mine);
	free(all);
}

void ddl__audit_report(struct ddl_comm *comm)
{
	struct ddl__audit *audit = comm->audit;
	if (!audit)
		return;
	own(comm, true, false);
	for (uint32_t i = 0; i < comm->ids.n; i++) {
		struct ddl_request *r = comm->ids.rows[i].request;
		if (r && r->audited && r->audited->mine.start) {
			keep_late(r);
			r->audited->mine.start = 0;
		}
	}
	if (!atomic_load(&comm->failed))
		judge_late(comm);
	ddl__audit_summary(comm);
}

void ddl__audit_close(struct ddl_comm *comm)
{
	if (!comm->audit)
		return;
	pthread_mutex_destroy(&comm->audit->lock);
	free(comm->audit->late);
	free(comm->audit);
	comm->audit = NULL;
}
