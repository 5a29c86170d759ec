/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - see shape.h. */
#include "shape.h"

#include <errno.h>
#include <stdlib.h>

uint64_t ddl__block(const struct ddl__build *build, int rank)
{
	return build->counts ? build->counts[rank] : build->count;
}

bool ddl__has_blocks(enum ddl__collective collective)
{
	return collective == DDL__REDUCE_SCATTER || collective == DDL__ALLGATHER || collective == DDL__ALLTOALL ||
	       collective == DDL__GATHER || collective == DDL__SCATTER;
}

bool ddl__reduces(enum ddl__collective collective)
{
	return collective == DDL__ALLREDUCE || collective == DDL__REDUCE_SCATTER || collective == DDL__REDUCE;
}

/* The sum of the first n blocks. */
static int sum(int n, const size_t *counts, uint64_t count, uint64_t *total)
{
	uint64_t t = 0;
	for (int r = 0; r < n; r++)
		if (__builtin_add_overflow(t, counts ? counts[r] : count, &t))
			return -EOVERFLOW;
	*total = t;
	return 0;
}

int ddl__shape_of(enum ddl__collective collective, const struct ddl__build *build, struct ddl__shape *shape)
{
	struct ddl__shape s = { .input = build->count, .output = build->count };
	bool at_root = build->rank == build->root;
	uint64_t all = 0, before = 0, block = 0;
	int rc = 0;
	if (ddl__has_blocks(collective)) {
		rc = sum(build->layout->n_ranks, build->counts, build->count, &all);
		rc = rc ? rc : sum(build->rank, build->counts, build->count, &before);
		block = ddl__block(build, build->rank);
	}
	switch (collective) {
	case DDL__ALLREDUCE:
	case DDL__BROADCAST:
		break;
	case DDL__BARRIER:
		s = (struct ddl__shape){ 0 };
		break;
	case DDL__REDUCE_SCATTER:
		s = (struct ddl__shape){ .input = all, .output = block, .output_at = before };
		break;
	case DDL__ALLGATHER:
		s = (struct ddl__shape){ .input = block, .output = all, .input_at = before };
		break;
	case DDL__REDUCE:
		s.output = at_root ? build->count : 0;
		break;
	case DDL__ALLTOALL:
		s = (struct ddl__shape){ .input = all, .output = all };
		if (build->recv_counts)
			rc = rc ? rc : sum(build->layout->n_ranks, build->recv_counts, 0, &s.output);
		break;
	case DDL__GATHER:
		s = (struct ddl__shape){ .input = block, .output = at_root ? all : 0, .input_at = at_root ? before : 0 };
		break;
	case DDL__SCATTER:
		s = (struct ddl__shape){ .input = at_root ? all : 0, .output = block, .output_at = at_root ? before : 0 };
		break;
	case DDL__SENDRECV:
		s.input = at_root ? build->count : 0;
		s.output = build->rank == build->peer ? build->count : 0;
		break;
	}
	if (rc == 0)
		*shape = s;
	return rc;
}

uint64_t *ddl__displacements(int n, const size_t *counts, uint64_t count)
{
	uint64_t *at = calloc((size_t)n + 1, sizeof(*at));
	for (int r = 0; at && r < n; r++)
		at[r + 1] = at[r] + (counts ? counts[r] : count);
	return at;
}

uint64_t ddl__counts_digest(int n, const size_t *counts)
{
	uint64_t digest = (uint64_t)n;
	for (int r = 0; r < n; r++) {
		digest = (digest ^ counts[r]) * 0x9e3779b97f4a7c15u;
		digest ^= digest >> 32;
	}
	return digest ? digest : 1;
}
