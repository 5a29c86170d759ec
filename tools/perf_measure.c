/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_measure.c - carries a row out: requests, warm-up, timed iterations behind barriers, and the check of the results.
 *
 * The check is cheap where all ranks should hold the same bits, which a hash of the results tells: then each rank compares its
 * share of every tensor with the reference. Where that fails, the row is small, or each rank has a result of its own, every rank
 * compares everything it has.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit.h"
#include "engine.h"
#include "error.h"
#include "perf_inside.h"
#include "tools.h"

#define ALIGNMENT  4096                /* of buffers */
#define FULL_CHECK (UINT64_C(1) << 22) /* inputs that every rank looks at without sharing the work */

/* The two areas of that many bytes, as the user wants them. */
static int allocate_areas(struct ddl__perf *perf, size_t bytes, struct ddl_error *err)
{
	void *send = NULL, *recv = NULL;
	int rc = 0;

	if (perf->setting.options->mem) {
		rc = ddl_mem_alloc(perf->setting.comm, bytes, &send, err);
		if (rc == 0)
			rc = ddl_mem_alloc(perf->setting.comm, bytes, &recv, err);
	} else {
		send = aligned_alloc(ALIGNMENT, bytes);
		recv = aligned_alloc(ALIGNMENT, bytes);
	}
	perf->send = send;
	perf->recv = recv;
	if (rc < 0)
		return rc;
	if (!send || !recv)
		return ddl__error_set(err, -ENOMEM, "no memory for two buffers of %zu bytes on rank %d; measure smaller sizes",
				      bytes, perf->rank);
	memset(send, 0, bytes); /* no page fault is timed */
	memset(recv, 0, bytes);
	return 0;
}

static void free_area(const struct ddl__perf *perf, void *area)
{
	if (perf->setting.options->mem)
		ddl_mem_free(perf->setting.comm, area);
	else
		free(area);
}

static int allocate(struct ddl__perf *perf, struct ddl_error *err)
{
	const struct ddl__perf_setting *s = &perf->setting;
	size_t bytes = 0, n = 1;
	int rc;

	for (size_t i = 0; i < s->n_rows; i++) {
		const size_t requests = ddl__perf_requests_of(s->options, &s->rows[i]);
		const size_t end = ddl__perf_place(perf, &s->rows[i], NULL);

		bytes = end > bytes ? end : bytes;
		n = requests > n ? requests : n;
	}
	bytes += ALIGNMENT - bytes % ALIGNMENT;
	rc = allocate_areas(perf, bytes, err);
	if (rc < 0)
		return rc;
	perf->offsets = calloc(n, sizeof(*perf->offsets));
	perf->requests = calloc(n, sizeof(struct ddl_request *));
	perf->counts = calloc((size_t)perf->n_ranks, sizeof(*perf->counts));
	perf->back = calloc((size_t)perf->n_ranks, sizeof(*perf->back));
	perf->times_us = calloc((size_t)s->options->iterations, sizeof(*perf->times_us));
	if (!perf->offsets || !perf->requests || !perf->counts || !perf->back || !perf->times_us)
		return ddl__error_memory(err);
	return 0;
}

int ddl__perf_create(const struct ddl__perf_setting *setting, struct ddl__perf **perf, struct ddl_error *err)
{
	struct ddl__perf *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return ddl__error_memory(err);
	p->setting = *setting;
	p->rank = ddl_comm_rank(setting->comm);
	p->n_ranks = ddl_comm_size(setting->comm);
	p->type_size = ddl_type_size(setting->options->type);
	rc = allocate(p, err);
	if (rc == 0)
		rc = ddl_barrier_init(setting->comm, NULL, &p->barrier, err);
	if (rc < 0) {
		ddl__perf_destroy(p);
		return rc;
	}
	*perf = p;
	return 0;
}

static void free_requests(struct ddl__perf *perf)
{
	for (size_t i = 0; i < perf->n_requests; i++)
		ddl_request_free(perf->requests[i]);
	perf->n_requests = 0;
}

void ddl__perf_destroy(struct ddl__perf *perf)
{
	if (!perf)
		return;
	free_requests(perf);
	ddl_request_free(perf->barrier);
	free(perf->requests);
	free(perf->offsets);
	free(perf->counts);
	free(perf->back);
	free(perf->times_us);
	free_area(perf, perf->send);
	free_area(perf, perf->recv);
	free(perf);
}

/* The sentence of a failure on the data path, where the communicator has one. */
static int fail(const struct ddl__perf *perf, int rc, struct ddl_error *err)
{
	if (ddl_comm_get_error(perf->setting.comm, err) == 0)
		return ddl__error_set(err, rc, "rank %d: a collective failed: %s", perf->rank, strerror(-rc));
	return rc;
}

static int run_barrier(struct ddl__perf *perf)
{
	int rc = ddl_start(perf->barrier);

	return rc < 0 ? rc : ddl_wait(perf->barrier);
}

/* The row once: the last tensor first, as gradients become ready. */
static int run_row(struct ddl__perf *perf)
{
	int rc = 0;

	perf->starts++;
	for (size_t i = perf->n_requests; rc == 0 && i-- > 0;)
		rc = ddl_start(perf->requests[i]);
	for (size_t i = perf->n_requests; rc == 0 && i-- > 0;)
		rc = ddl_wait(perf->requests[i]);
	return rc;
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void progress(struct ddl__perf *perf, const struct ddl__perf_row *row)
{
	if (perf->setting.output)
		ddl__perf_output_progress(perf->setting.output, row);
}

static int time_row(struct ddl__perf *perf, const struct ddl__perf_row *row)
{
	const struct ddl__perf_options *o = perf->setting.options;

	for (int i = -o->warmup; i < o->iterations; i++) {
		double begin;
		int rc;

		ddl__perf_refill(perf, row);
		rc = run_barrier(perf);
		begin = now_us();
		if (rc == 0)
			rc = run_row(perf);
		if (rc < 0)
			return rc;
		if (i >= 0)
			perf->times_us[i] = now_us() - begin;
		progress(perf, row);
	}
	return ddl_allreduce(perf->times_us, perf->times_us, (size_t)o->iterations, DDL_FLOAT64, DDL_MAX, perf->setting.comm);
}

/* Whether all ranks hold the same bits. Collective. */
static int compare_ranks(struct ddl__perf *perf, const struct ddl__perf_row *row, bool *equal)
{
	struct ddl_comm *comm = perf->setting.comm;
	uint64_t hash = 0;
	int64_t low, high;
	int rc;

	for (size_t i = 0; i < row->n; i++)
		hash = ddl__audit_hash(hash, perf->recv + perf->offsets[i], row->tensors[row->first + i].count * perf->type_size);
	rc = ddl_allreduce(&hash, &low, 1, DDL_INT64, DDL_MIN, comm);
	if (rc == 0)
		rc = ddl_allreduce(&hash, &high, 1, DDL_INT64, DDL_MAX, comm);
	if (rc == 0)
		*equal = low == high && low == (int64_t)hash;
	return rc;
}

static int agree(struct ddl__perf *perf, bool *good)
{
	const int32_t mine = *good;
	int32_t all = 0;
	int rc = ddl_allreduce(&mine, &all, 1, DDL_INT32, DDL_MIN, perf->setting.comm);

	*good = rc == 0 && mine && all == 1;
	return rc;
}

/* The errors of all ranks together. Collective. */
static int gather_errors(struct ddl__perf *perf, const struct ddl__ulp *mine, struct ddl__perf_result *result)
{
	double most = mine->most, sums[] = { mine->squares, (double)mine->n };
	int rc = ddl_allreduce(&most, &most, 1, DDL_FLOAT64, DDL_MAX, perf->setting.comm);

	rc = rc ? rc : ddl_allreduce(sums, sums, 2, DDL_FLOAT64, DDL_SUM, perf->setting.comm);
	result->most_ulp = sums[1] > 0 ? most : NAN;
	result->rms_ulp = sums[1] > 0 ? sqrt(sums[0] / sums[1]) : NAN;
	return rc;
}

static int check_row(struct ddl__perf *perf, const struct ddl__perf_row *row, bool exact, struct ddl__perf_result *result)
{
	const struct ddl__perf_options *o = perf->setting.options;
	const struct ddl__check check = {
		.type = o->type,
		.op = ddl__perf_reduces(o->collective) ? o->op : 0,
		.wire = (enum ddl_wire)perf->requests[0]->call.wire,
		.random = perf->requests[0]->call.rounding == DDL_ROUND_STOCHASTIC,
		.n_ranks = perf->n_ranks,
		.root = o->root,
		.exact = exact,
		.seed = o->seed + exact,
	};
	const bool small = row->bytes / perf->type_size <= FULL_CHECK / (uint64_t)perf->n_ranks;
	const bool alike = ddl__perf_alike(o->collective);
	struct ddl__ulp ulp = { 0 };
	bool equal = !alike, good;
	int rc;

	ddl__perf_fill(perf, row, &check);
	rc = run_row(perf);
	if (rc == 0 && alike)
		rc = compare_ranks(perf, row, &equal);
	if (rc < 0)
		return rc;
	good = ddl__perf_compare(perf, row, &check, small || !alike, false, &ulp) && equal;
	rc = agree(perf, &good);
	if (rc == 0 && !exact)
		rc = gather_errors(perf, &ulp, result);
	if (rc < 0)
		return rc;
	result->correct = result->correct && good;
	if (!good && ddl__perf_compare(perf, row, &check, true, true, NULL) && !equal)
		ddl__failed("perf", "rank %d (%s): the ranks' results are not the same bits", perf->rank,
			    ddl_comm_node_name(perf->setting.comm, perf->rank));
	progress(perf, row);
	return 0;
}

/* The type that travelled: the elements' own, or another. */
static const char *wire_name(const struct ddl__perf *perf, const struct ddl__call *call)
{
	if (perf->setting.options->collective == DDL__PERF_BARRIER)
		return "none";
	if (call->wire > DDL_WIRE_NATIVE)
		return ddl__choice_by_id(ddl__wires, (int)call->wire)->name;
	return ddl__choice_by_id(ddl__types, (int)perf->setting.options->type)->name;
}

static int measure(struct ddl__perf *perf, const struct ddl__perf_row *row, struct ddl__perf_result *result)
{
	const struct ddl__perf_options *o = perf->setting.options;
	const struct ddl__check plain = { .type = o->type,
					  .op = ddl__perf_reduces(o->collective) ? o->op : 0,
					  .n_ranks = perf->n_ranks,
					  .root = o->root,
					  .seed = o->seed };
	const bool check = o->check && row->n > 0;
	int rc = 0;

	result->correct = check ? 1 : -1;
	result->most_ulp = result->rms_ulp = NAN;
	if (check)
		rc = check_row(perf, row, true, result);
	if (rc == 0) {
		ddl__perf_fill(perf, row, &plain);
		rc = time_row(perf, row);
	}
	if (rc == 0 && check)
		rc = check_row(perf, row, false, result);
	return rc;
}

int ddl__perf_algorithm(struct ddl__perf *perf, const struct ddl__perf_row *row, char *text, struct ddl_error *err)
{
	int rc = ddl__perf_requests_create(perf, row, err);

	if (rc == 0)
		ddl__call_how(&perf->requests[0]->call, text);
	free_requests(perf);
	return rc;
}

int ddl__perf_measure(struct ddl__perf *perf, const struct ddl__perf_row *row, struct ddl__perf_result *result,
		      struct ddl_error *err)
{
	const struct ddl__call *call;
	int rc = ddl__perf_requests_create(perf, row, err);

	if (rc < 0) {
		free_requests(perf);
		return rc;
	}
	perf->starts = 0;
	rc = measure(perf, row, result);
	if (rc < 0)
		rc = fail(perf, rc, err);
	if (rc == 0) {
		call = &perf->requests[0]->call;
		result->starts = perf->starts;
		ddl__call_how(call, result->algorithm);
		result->rings = (int)call->rings;
		result->wire_bytes = row->bytes;
		if (call->wire > DDL_WIRE_NATIVE)
			result->wire_bytes = ddl__wire_bytes((enum ddl_wire)call->wire, (enum ddl_type)call->type,
							     row->bytes / perf->type_size);
		result->wire = wire_name(perf, call);
		ddl__perf_stats(perf->times_us, (size_t)perf->setting.options->iterations, result);
	}
	free_requests(perf);
	return rc;
}
