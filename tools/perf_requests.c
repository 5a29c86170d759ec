/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_requests.c - where the tensors of a row lie, and the requests over them. Blocks are as equal as can be: where the ranks
 * share a tensor evenly the collective of equal blocks is measured, else that by counts.
 */
#include "engine.h"
#include "perf_inside.h"
#include "schedule.h"

#define ALIGNMENT 4096 /* of tensors from this size on */

size_t ddl__perf_requests_of(const struct ddl__perf_options *options, const struct ddl__perf_row *row)
{
	const size_t n = row->n ? row->n : 1;

	return options->collective == DDL__PERF_SENDRECV ? 2 * n : n;
}

/* Where the tensor behind one of that many bytes begins: cache lines are not shared, large tensors begin on a page. */
static size_t padded(uint64_t bytes)
{
	const size_t unit = bytes < ALIGNMENT ? 64 : ALIGNMENT;

	return ((size_t)bytes + unit - 1) / unit * unit;
}

size_t ddl__perf_place(const struct ddl__perf *perf, const struct ddl__perf_row *row, size_t *offsets)
{
	/* an all-to-all gets its block from every rank: the largest is up to one element more than its share */
	const size_t more = perf->setting.options->collective == DDL__PERF_ALLTOALL ? (size_t)perf->n_ranks * perf->type_size : 0;
	size_t end = 0;

	for (size_t i = 0; i < row->n; i++) {
		const uint64_t bytes = row->tensors[row->first + i].count * perf->type_size;

		if (bytes >= ALIGNMENT)
			end = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
		if (offsets)
			offsets[i] = end;
		end += padded(bytes + more);
	}
	return end;
}

uint64_t ddl__perf_block(const struct ddl__perf *perf, uint64_t count, int rank, uint64_t *n)
{
	uint64_t begin;

	ddl__split(count, (uint64_t)perf->n_ranks, (uint64_t)rank, 1, &begin, n);
	return begin;
}

struct made { /* what a request is made from */
	struct ddl__perf *perf;
	const struct ddl_request_options *options;
	struct ddl_request **request;
	char *send, *recv; /* areas of the tensor */
	uint64_t count;    /* elements of the tensor */
	uint64_t block;    /* of them, equal blocks have; 0: by counts */
	size_t at;         /* bytes before the own block */
};

static int create_blocks(const struct made *m, struct ddl_error *err)
{
	const struct ddl__perf_options *o = m->perf->setting.options;
	struct ddl_comm *comm = m->perf->setting.comm;
	const size_t *counts = m->perf->counts, *back = m->perf->back;
	char *const own_send = m->send + m->at, *const own_recv = m->recv + m->at;
	const uint64_t n = m->block;

	switch (o->collective) {
	case DDL__PERF_REDUCE_SCATTER:
		return n ? ddl_reduce_scatter_init(m->send, own_recv, n, o->type, o->op, comm, m->options, m->request, err)
			 : ddl_reduce_scatter_counts_init(m->send, own_recv, counts, o->type, o->op, comm, m->options, m->request,
							  err);
	case DDL__PERF_ALLGATHER:
		return n ? ddl_allgather_init(own_send, m->recv, n, o->type, comm, m->options, m->request, err)
			 : ddl_allgather_counts_init(own_send, m->recv, counts, o->type, comm, m->options, m->request, err);
	case DDL__PERF_GATHER:
		return n ? ddl_gather_init(own_send, m->recv, n, o->type, o->root, comm, m->options, m->request, err)
			 : ddl_gather_counts_init(own_send, m->recv, counts, o->type, o->root, comm, m->options, m->request, err);
	case DDL__PERF_SCATTER:
		return n ? ddl_scatter_init(m->send, own_recv, n, o->type, o->root, comm, m->options, m->request, err)
			 : ddl_scatter_counts_init(m->send, own_recv, counts, o->type, o->root, comm, m->options, m->request, err);
	default:
		return n ? ddl_alltoall_init(m->send, m->recv, n, o->type, comm, m->options, m->request, err)
			 : ddl_alltoall_counts_init(m->send, counts, m->recv, back, o->type, comm, m->options, m->request, err);
	}
}

/* To the next rank; the second request of the tensor receives from the one before. */
static int create_messages(const struct made *m, struct ddl_error *err)
{
	const struct ddl__perf_options *o = m->perf->setting.options;
	struct ddl_comm *comm = m->perf->setting.comm;
	const int n = m->perf->n_ranks, next = (m->perf->rank + 1) % n, before = (m->perf->rank + n - 1) % n;
	int rc = ddl_send_init(m->send, m->count, o->type, next, 0, comm, m->options, m->request, err);

	if (rc < 0)
		return rc;
	m->perf->n_requests++;
	return ddl_recv_init(m->recv, m->count, o->type, before, 0, comm, m->options, m->request + 1, err);
}

static int create(const struct made *m, struct ddl_error *err)
{
	const struct ddl__perf_options *o = m->perf->setting.options;
	struct ddl_comm *comm = m->perf->setting.comm;

	switch (o->collective) {
	case DDL__PERF_ALLREDUCE:
		return ddl_allreduce_init(m->send, m->recv, m->count, o->type, o->op, comm, m->options, m->request, err);
	case DDL__PERF_REDUCE:
		return ddl_reduce_init(m->send, m->recv, m->count, o->type, o->op, o->root, comm, m->options, m->request, err);
	case DDL__PERF_BROADCAST:
		return ddl_broadcast_init(m->recv, m->count, o->type, o->root, comm, m->options, m->request, err);
	case DDL__PERF_BARRIER:
		return ddl_barrier_init(comm, m->options, m->request, err);
	case DDL__PERF_SENDRECV:
		return create_messages(m, err);
	default:
		return create_blocks(m, err);
	}
}

/* The blocks of a tensor of that many elements. */
static void cut(struct made *m)
{
	struct ddl__perf *perf = m->perf;
	uint64_t own, n;

	m->at = (size_t)ddl__perf_block(perf, m->count, perf->rank, &own) * perf->type_size;
	m->block = m->count % (uint64_t)perf->n_ranks == 0 ? own : 0;
	for (int r = 0; r < perf->n_ranks; r++) {
		ddl__perf_block(perf, m->count, r, &n);
		perf->counts[r] = n;
		perf->back[r] = own;
	}
}

int ddl__perf_requests_create(struct ddl__perf *perf, const struct ddl__perf_row *row, struct ddl_error *err)
{
	const struct ddl__perf_options *o = perf->setting.options;
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	const size_t total = ddl__perf_requests_of(o, row), each = total / (row->n ? row->n : 1);

	options.wire = o->wire;
	options.rounding = o->rounding;
	options.seed = o->seed;
	options.accuracy = o->accuracy;
	options.reproducible = o->reproducible ? 1 : options.reproducible;
	options.rings = o->rings;
	options.algorithm = o->algorithm;
	ddl__perf_place(perf, row, perf->offsets);
	for (perf->n_requests = 0; perf->n_requests < total; perf->n_requests++) {
		const size_t i = perf->n_requests / each;
		struct made m = { .perf = perf, .options = &options, .request = &perf->requests[perf->n_requests] };
		int rc;

		if (row->n > 0) {
			m.count = row->tensors[row->first + i].count;
			m.recv = perf->recv + perf->offsets[i];
			m.send = o->in_place ? m.recv : perf->send + perf->offsets[i];
			cut(&m);
		}
		rc = create(&m, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}
