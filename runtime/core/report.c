/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h. */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "comm.h"
#include "engine.h"
#include "error.h"
#include "log.h"
#include "report_print.h"
#include "shape.h"
#include "stats.h"

enum { ALONE_STARTS = 5, ALONE_BYTES_MAX = 1 << 30, PEERS_MAX = 256 };

/* ---- alone ---- */

static bool is_same_call(const struct ddl__call *a, const struct ddl__call *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The shortest of some starts, after a first one that is not counted; of each start the rank counts that took longest. */
static int time_alone(struct ddl_comm *comm, struct ddl_request *request, uint64_t *shortest)
{
	int64_t lasted[ALONE_STARTS + 1];
	int rc = 0;
	for (int i = 0; rc == 0 && i <= ALONE_STARTS; i++) {
		rc = ddl_barrier(comm);
		const uint64_t begin = ddl__now_ns();
		rc = rc ? rc : ddl_start(request);
		rc = rc ? rc : ddl_wait(request);
		lasted[i] = (int64_t)(ddl__now_ns() - begin);
	}
	rc = rc ? rc : ddl_allreduce(lasted, lasted, ALONE_STARTS + 1, DDL_INT64, DDL_MAX, comm);
	for (int i = 1; rc == 0 && i <= ALONE_STARTS; i++)
		if (i == 1 || (uint64_t)lasted[i] < *shortest)
			*shortest = (uint64_t)lasted[i];
	return rc;
}

/* Makes the collective of a row anew and runs it. -EOPNOTSUPP: it is none that can be. */
static int run_alone(struct ddl_comm *comm, struct ddl__stats_row *row)
{
	const struct ddl__call *call = &row->call;
	const size_t unit = call->type ? ddl_type_size((enum ddl_type)call->type) : 1;
	const bool by_counts = call->counts != 0, blocks = !by_counts && ddl__has_blocks((enum ddl__collective)call->collective);
	char how[DDL__CANDIDATE_TEXT_SIZE];
	struct ddl__ask ask = { .args = { .call = { .collective = call->collective,
						    .type = call->type,
						    .op = call->op,
						    .root = call->root,
						    .count = by_counts ? 0 : call->count },
					  .counts = row->counts,
					  .peer = -1 },
				.by_counts = by_counts };
	const struct ddl__build build = { .layout = comm->layout,
					  .rank = comm->rank,
					  .count = call->count,
					  .counts = row->counts,
					  .root = call->root,
					  .peer = -1 };
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	struct ddl_request *request = NULL;
	struct ddl_error err;
	struct ddl__shape shape;
	if (by_counts && (!row->counts || call->collective == DDL__ALLTOALL))
		return -EOPNOTSUPP;
	if (ddl__shape_of((enum ddl__collective)call->collective, &build, &shape) < 0 ||
	    call->count > ALONE_BYTES_MAX / unit / (blocks ? (uint64_t)comm->size : 1))
		return -EOPNOTSUPP;
	options.wire = (enum ddl_wire)call->wire;
	options.rounding = (enum ddl_rounding)call->rounding;
	options.seed = call->seed;
	options.error_feedback = (int)call->feedback;
	options.accuracy = (enum ddl_accuracy)call->accuracy;
	options.reproducible = (int)call->in_order;
	options.priority = call->priority;
	options.rings = (int)call->rings;
	options.algorithm = ddl__call_how(call, how);
	void *send = calloc(shape.input + 1, unit), *recv = calloc(shape.output + 1, unit);
	ask.send = send;
	ask.recv = call->collective == DDL__BROADCAST ? send : recv;
	int rc = send && recv ? ddl__ask_init(comm, &ask, &options, &request, &err) : ddl__error_memory(&err);
	rc = rc ? rc : time_alone(comm, request, &row->alone_ns);
	ddl_request_free(request);
	free(send);
	free(recv);
	return rc;
}

static int measure_alone(struct ddl_comm *comm)
{
	struct ddl__stats *s = comm->stats;
	for (size_t i = DDL__ROW_COLLECTIVES; i < s->n_rows; i++) {
		size_t k = DDL__ROW_COLLECTIVES;
		while (k < i && !is_same_call(&s->rows[k].call, &s->rows[i].call))
			k++;
		if (k < i) {
			s->rows[i].alone_ns = s->rows[k].alone_ns;
			continue;
		}
		int rc = run_alone(comm, &s->rows[i]);
		if (rc < 0 && rc != -EOPNOTSUPP)
			return rc;
	}
	return 0;
}

/* ---- all ranks ---- */

/* Figures of a row as they are reduced: times and those of all, each level and each rail. */
static size_t row_width(const struct ddl__stats *s)
{
	return DDL__REPORT_TIMES + (1 + s->n_levels + s->n_rails) * DDL__REPORT_PART;
}

static void pack(const struct ddl_comm *comm, const struct ddl__stats_row *row, int64_t *to)
{
	const struct ddl__stats *s = comm->stats;
	const struct ddl_stats *a = &row->all;
	const uint64_t waited = (a->wait_data_ns + a->wait_credit_ns) / 1000, ran = row->times.starts != 0;
	to[DDL__REPORT_STARTS] = (int64_t)row->times.starts;
	to[DDL__REPORT_TOTAL] = (int64_t)row->times.total_ns;
	to[DDL__REPORT_SHORTEST] = (int64_t)row->times.shortest_ns;
	to[DDL__REPORT_LONGEST] = (int64_t)row->times.longest_ns;
	to[DDL__REPORT_ALONE] = (int64_t)row->alone_ns;
	/* Whoever waited the least is found by its rank in the low bits. */
	to[DDL__REPORT_LEAST] = ran ? (int64_t)(waited << DDL__REPORT_RANK_BITS | (uint64_t)comm->rank) : INT64_MAX;
	to += DDL__REPORT_TIMES;
	memcpy(to, a, sizeof(*a));
	to += DDL__REPORT_PART;
	memcpy(to, row->levels, s->n_levels * sizeof(*a));
	to += s->n_levels * DDL__REPORT_PART;
	memcpy(to, row->rails, s->n_rails * sizeof(*a));
}

/*
 * How many rows and rails there are. Row counts can only differ where ranks did not make the same requests; then the rows that all
 * have are told. A rank may use fewer rails than another.
 */
static int agree_shape(struct ddl_comm *comm, size_t *n)
{
	int64_t shape[] = { (int64_t)*n, -(int64_t)comm->stats->n_rails };
	int rc = ddl_allreduce(shape, shape, 2, DDL_INT64, DDL_MIN, comm);
	if (rc < 0)
		return rc;
	*n = (size_t)shape[0];
	comm->stats->n_rails = (unsigned)-shape[1];
	return 0;
}

static int reduce_rows(struct ddl_comm *comm, size_t n_rows, struct ddl__report_rows *rows)
{
	const size_t width = row_width(comm->stats), n = width * n_rows;
	int64_t *here = calloc(n, sizeof(*here));
	rows->width = width;
	rows->n = n_rows;
	rows->least = calloc(n, sizeof(*here));
	rows->most = calloc(n, sizeof(*here));
	rows->sum = calloc(n, sizeof(*here));
	int rc = here && rows->least && rows->most && rows->sum ? 0 : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n_rows; i++)
		pack(comm, &comm->stats->rows[i], here + i * width);
	rc = rc ? rc : ddl_reduce(here, rows->least, n, DDL_INT64, DDL_MIN, 0, comm);
	rc = rc ? rc : ddl_reduce(here, rows->most, n, DDL_INT64, DDL_MAX, 0, comm);
	rc = rc ? rc : ddl_reduce(here, rows->sum, n, DDL_INT64, DDL_SUM, 0, comm);
	free(here);
	return rc;
}

/* This rank's peers with which it exchanged anything, up to PEERS_MAX. */
static size_t own_peers(const struct ddl_comm *comm, struct ddl__report_peer *peers)
{
	size_t n = 0;
	for (int r = 0; r < comm->size && n < PEERS_MAX; r++) {
		const struct ddl_stats *s = &comm->stats->peers[r];
		if (s->slices_sent || s->slices_received || s->wait_data_ns || s->wait_credit_ns)
			peers[n++] = (struct ddl__report_peer){ (uint32_t)comm->rank, (uint32_t)r, *s };
	}
	return n;
}

static int gather_peers(struct ddl_comm *comm, struct ddl__report_rows *rows)
{
	struct ddl__report_peer *own = calloc(PEERS_MAX, sizeof(*own));
	uint64_t *numbers = calloc((size_t)comm->size, sizeof(*numbers));
	size_t *counts = calloc((size_t)comm->size, sizeof(*counts));
	int rc = own && numbers && counts ? 0 : -ENOMEM;
	uint64_t n = rc ? 0 : own_peers(comm, own), all = 0;
	rc = rc ? rc : ddl_allgather(&n, numbers, 1, DDL_INT64, comm);
	for (int r = 0; rc == 0 && r < comm->size; r++) {
		counts[r] = numbers[r] * sizeof(*own);
		all += numbers[r];
	}
	if (rc == 0 && comm->rank == 0)
		rows->peers = calloc(all + 1, sizeof(*rows->peers));
	rows->n_peers = comm->rank == 0 ? all : 0;
	rc = rc || comm->rank || rows->peers ? rc : -ENOMEM;
	rc = rc ? rc : ddl_gather_counts(own, rows->peers, counts, DDL_UINT8, 0, comm);
	free(own);
	free(numbers);
	free(counts);
	return rc;
}

/* Of a failed communicator: what this rank knows alone. */
static void own_rows(struct ddl_comm *comm, struct ddl__report_rows *rows)
{
	const size_t width = row_width(comm->stats);
	rows->width = width;
	rows->n = comm->stats->n_rows;
	rows->least = rows->most = rows->sum = calloc(width * rows->n, sizeof(int64_t));
	rows->of_one = true;
	for (size_t i = 0; rows->sum && i < rows->n; i++)
		pack(comm, &comm->stats->rows[i], rows->sum + i * width);
}

static int collect(struct ddl_comm *comm, struct ddl__report_rows *rows)
{
	size_t n = comm->stats->n_rows;
	int rc = comm->observe & DDL__OBSERVE_ALONE ? measure_alone(comm) : 0;
	rc = rc ? rc : agree_shape(comm, &n);
	rc = rc ? rc : reduce_rows(comm, n, rows);
	return rc || !(comm->observe & DDL__OBSERVE_PEERS) ? rc : gather_peers(comm, rows);
}

static void rows_fini(struct ddl__report_rows *rows)
{
	free(rows->sum);
	free(rows->least != rows->sum ? rows->least : NULL);
	free(rows->most != rows->sum ? rows->most : NULL);
	free(rows->peers);
	memset(rows, 0, sizeof(*rows));
}

void ddl__report(struct ddl_comm *comm)
{
	struct ddl__report_rows rows = { 0 };
	if (!comm->stats || !(comm->observe & DDL__OBSERVE_STATS))
		return;
	ddl__stats_add_live(comm);
	ddl__stats_end(comm);
	int rc = collect(comm, &rows);
	if (rc < 0) {
		ddl__comm_fail(comm, rc, "rank %d cannot take part in the statistics: %s", comm->rank, strerror(-rc));
		rows_fini(&rows);
		own_rows(comm, &rows);
	}
	if (comm->rank == 0 && rows.sum)
		ddl__report_print(comm, &rows);
	rows_fini(&rows);
}
