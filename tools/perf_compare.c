/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_compare.c - the inputs of a row, and its results against the reference. Every rank's inputs are a function of rank, tensor
 * and index in the whole tensor, also where it contributes one block of it only.
 */
#include <inttypes.h>
#include <string.h>

#include "perf_inside.h"
#include "tools.h"

void ddl__perf_refill(struct ddl__perf *perf, const struct ddl__perf_row *row)
{
	if (perf->setting.options->in_place)
		memcpy(perf->recv, perf->send, ddl__perf_place(perf, row, NULL));
}

void ddl__perf_fill(struct ddl__perf *perf, const struct ddl__perf_row *row, const struct ddl__check *check)
{
	const enum ddl__perf_collective collective = perf->setting.options->collective;
	const bool broadcast = collective == DDL__PERF_BROADCAST, scatter = collective == DDL__PERF_SCATTER;

	ddl__check_poison(perf->recv, ddl__perf_place(perf, row, NULL));
	if (broadcast && perf->rank != check->root)
		return;
	for (size_t i = 0; i < row->n && (!scatter || perf->rank == check->root); i++)
		ddl__check_fill(check, perf->rank, i, (broadcast ? perf->recv : perf->send) + perf->offsets[i],
				row->tensors[row->first + i].count);
	ddl__perf_refill(perf, row);
}

struct part {                   /* elements to be compared at once */
	struct ddl__perf *perf; /* results */
	const struct ddl__perf_tensor *tensor;
	size_t index;            /* of the tensor in the row */
	struct ddl__check check; /* root: whose inputs they must be */
	const char *data;        /* element 0 of the tensor */
	uint64_t first, end;     /* of the tensor */
	bool loud;
	struct ddl__ulp *ulp; /* of what was compared; NULL: not measured */
};

static bool compare_part(const struct part *p)
{
	struct ddl__mismatch wrong;

	if (p->first >= p->end || ddl__check_compare(&p->check, p->index, p->data, p->first, p->end, p->ulp, &wrong))
		return true;
	if (p->loud)
		ddl__failed("perf",
			    "rank %d (%s): wrong result in %s of %" PRIu64 " elements: element %" PRIu64
			    " is %.17g, expected %.17g (allowed difference %.3g)",
			    p->perf->rank, ddl_comm_node_name(p->perf->setting.comm, p->perf->rank),
			    p->tensor->name ? p->tensor->name : "the tensor", p->tensor->count, wrong.index, wrong.got,
			    wrong.expected, wrong.bound);
	return false;
}

/* The whole consists of all ranks' blocks. */
static bool compare_gathered(struct part part)
{
	const uint64_t first = part.first, end = part.end;

	for (int r = 0; r < part.perf->n_ranks; r++) {
		uint64_t n, begin = ddl__perf_block(part.perf, part.tensor->count, r, &n);

		part.check.root = r;
		part.first = begin > first ? begin : first;
		part.end = begin + n < end ? begin + n : end;
		if (!compare_part(&part))
			return false;
	}
	return true;
}

/* From every rank came its block for this one; each is put where it lies in the sender's whole, over inputs that are used up. */
static bool compare_exchanged(struct part part, char *input)
{
	const size_t size = part.perf->type_size;
	uint64_t n, begin = ddl__perf_block(part.perf, part.tensor->count, part.perf->rank, &n);
	const char *from = part.data;

	for (int r = 0; r < part.perf->n_ranks; r++, from += n * size) {
		memcpy(input + begin * size, from, n * size);
		part.check.root = r;
		part.data = input;
		part.first = begin;
		part.end = begin + n;
		if (!compare_part(&part))
			return false;
	}
	return true;
}

/* What this rank has of one tensor; where all have the same, only its share unless everything is asked for. */
static bool compare_tensor(struct part part, bool everything)
{
	const struct ddl__perf *perf = part.perf;
	const enum ddl__perf_collective collective = perf->setting.options->collective;
	uint64_t n, begin = ddl__perf_block(perf, part.tensor->count, perf->rank, &n);

	part.first = 0;
	part.end = part.tensor->count;
	if ((ddl__perf_alike(collective) && !everything) || collective == DDL__PERF_REDUCE_SCATTER ||
	    collective == DDL__PERF_SCATTER) {
		part.first = begin;
		part.end = begin + n;
	}
	if ((collective == DDL__PERF_REDUCE || collective == DDL__PERF_GATHER) && perf->rank != part.check.root)
		return true;
	if (collective == DDL__PERF_SENDRECV)
		part.check.root = (perf->rank + perf->n_ranks - 1) % perf->n_ranks;
	if (collective == DDL__PERF_ALLGATHER || collective == DDL__PERF_GATHER)
		return compare_gathered(part);
	if (collective == DDL__PERF_ALLTOALL)
		return compare_exchanged(part, perf->send + perf->offsets[part.index]);
	return compare_part(&part);
}

bool ddl__perf_compare(struct ddl__perf *perf, const struct ddl__perf_row *row, const struct ddl__check *check, bool everything,
		       bool loud, struct ddl__ulp *ulp)
{
	for (size_t i = 0; i < row->n; i++) {
		const struct part part = {
			.perf = perf,
			.tensor = &row->tensors[row->first + i],
			.index = i,
			.check = *check,
			.data = perf->recv + perf->offsets[i],
			.loud = loud,
			.ulp = ulp,
		};

		if (!compare_tensor(part, everything))
			return false;
	}
	return true;
}
