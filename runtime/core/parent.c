/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parent.c - what ranks put travels to all ranks of the parent, by counts; each keeps what its group put.
 *
 * Every step on which ranks must agree is a meeting: each hands in how it fared and some numbers, and gets those of all. If one
 * fared badly, it broadcasts its sentence, and all return it.
 */
#include "parent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "error.h"

enum { NUMBERS_MAX = 2 }; /* that a rank hands in at a meeting */

struct parent {
	struct ddl__boot boot; /* first */
	struct ddl_comm *comm; /* the parent; borrowed */
	int *members;          /* boot.size ranks of the parent, in the order of the new communicator */
	struct ddl__blob mine; /* what this rank put */
	uint8_t *all;          /* what all ranks of the parent put; NULL: before the fence */
	size_t *at;            /* ranks of the parent + 1: where a rank's bytes begin in it */
	bool fenced;           /* the fence was gone through, well or not */
	int failed;            /* a meeting ended badly: all ranks know */
};

struct member { /* a rank and where it wants to be */
	int64_t color, key;
	int rank;
};

/* The parent cannot carry on what all its ranks take part in: they are told instead of left waiting. */
static int give_up(struct ddl_comm *comm, int rc, struct ddl_error *err)
{
	if (!ddl_comm_get_error(comm, err))
		ddl_comm_abort(comm, err->text);
	return rc;
}

/* Starts a request, waits for it and frees it. rc: of its making. */
static int run(struct ddl_comm *comm, int rc, struct ddl_request *request, struct ddl_error *err)
{
	if (rc < 0)
		return give_up(comm, rc, err);
	rc = ddl_start(request);
	rc = rc ? rc : ddl_wait(request);
	ddl_request_free(request);
	return rc < 0 ? give_up(comm, rc, err) : 0;
}

/* The sentence of a rank that failed becomes that of all. */
static int tell(struct ddl_comm *comm, int rank, struct ddl_error *err)
{
	struct ddl_error told = { 0 };
	struct ddl_request *request = NULL;
	int rc;

	if (ddl_comm_rank(comm) == rank)
		ddl__error_set(&told, err->code, "rank %d on node %s: %s", rank, ddl_comm_node_name(comm, rank), err->text);
	rc = ddl_broadcast_init(&told, sizeof(told), DDL_UINT8, rank, comm, NULL, &request, err);
	rc = run(comm, rc, request, err);
	if (rc < 0)
		return rc;
	told.text[sizeof(told.text) - 1] = '\0';
	*err = told;
	return told.code < 0 ? told.code : -EPROTO;
}

/*
 * All ranks meet. rc: how this one fared, with the sentence in err. mine: n numbers; all: those of all ranks, n a rank. Returns 0, or
 * the failure of the lowest rank that fared badly.
 */
static int meet(struct ddl_comm *comm, int rc, const int64_t *mine, size_t n, int64_t *all, struct ddl_error *err)
{
	size_t size = (size_t)ddl_comm_size(comm), rank = (size_t)ddl_comm_rank(comm), row = n + 1;
	int64_t *table = calloc(size * row, sizeof(*table));
	struct ddl_request *request = NULL;
	int failed = -1;

	if (!table)
		return give_up(comm, ddl__error_memory(err), err);
	table[rank * row] = rc;
	if (n)
		memcpy(&table[rank * row + 1], mine, n * sizeof(*mine));
	if (rc < 0)
		err->code = rc;
	rc = ddl_allgather_init(&table[rank * row], table, row, DDL_INT64, comm, NULL, &request, err);
	rc = run(comm, rc, request, err);
	for (size_t r = 0; rc == 0 && r < size; r++) {
		if (table[r * row] < 0 && failed < 0)
			failed = (int)r;
		if (n)
			memcpy(&all[r * n], &table[r * row + 1], n * sizeof(*all));
	}
	free(table);
	return rc == 0 && failed >= 0 ? tell(comm, failed, err) : rc;
}

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->rank > y->rank) - (x->rank < y->rank);
}

/* The ranks of this rank's color, in order. */
static int group(struct parent *p, const int64_t *numbers, struct ddl_error *err)
{
	int size = ddl_comm_size(p->comm), me = ddl_comm_rank(p->comm), n = 0;
	struct member *members = calloc((size_t)size, sizeof(*members));

	p->members = calloc((size_t)size, sizeof(*p->members));
	if (!members || !p->members) {
		free(members);
		return ddl__error_memory(err);
	}
	for (int r = 0; r < size; r++)
		if (numbers[2 * r] == numbers[2 * me] && numbers[2 * r] != DDL_UNDEFINED)
			members[n++] = (struct member){ numbers[2 * r], numbers[2 * r + 1], r };
	qsort(members, (size_t)n, sizeof(*members), compare_members);
	p->boot.size = n;
	p->boot.rank = -1;
	for (int r = 0; r < n; r++) {
		p->members[r] = members[r].rank;
		if (members[r].rank == me)
			p->boot.rank = r;
	}
	free(members);
	return 0;
}

static int put(struct ddl__boot *boot, const char *key, const void *data, size_t size, struct ddl_error *err)
{
	struct parent *p = (struct parent *)boot;

	return ddl__blob_add(&p->mine, key, data, size) < 0 ? ddl__error_memory(err) : 0;
}

/* All ranks' bytes, one rank after the other. */
static int gather(struct parent *p, const int64_t *sizes, struct ddl_error *err)
{
	size_t n = (size_t)ddl_comm_size(p->comm), *counts = calloc(n, sizeof(*counts));
	struct ddl_request *request = NULL;
	int rc;

	p->at = calloc(n + 1, sizeof(*p->at));
	for (size_t r = 0; counts && p->at && r < n; r++) {
		counts[r] = (size_t)sizes[r];
		p->at[r + 1] = p->at[r] + counts[r];
	}
	p->all = counts && p->at ? malloc(p->at[n] + 1) : NULL;
	rc = p->all ? ddl_allgather_counts_init(p->mine.data, p->all, counts, DDL_UINT8, p->comm, NULL, &request, err)
		    : ddl__error_memory(err);
	rc = run(p->comm, rc, request, err);
	free(counts);
	return rc;
}

/* rc: a rank that failed before takes part all the same. */
static int exchange(struct parent *p, int rc, struct ddl_error *err)
{
	int64_t size = (int64_t)p->mine.size, *sizes = calloc((size_t)ddl_comm_size(p->comm), sizeof(*sizes));

	p->fenced = true;
	if (!sizes) {
		p->failed = give_up(p->comm, ddl__error_memory(err), err);
		return p->failed;
	}
	rc = meet(p->comm, rc, &size, 1, sizes, err);
	p->failed = rc ? rc : gather(p, sizes, err);
	free(sizes);
	return p->failed;
}

static int fence(struct ddl__boot *boot, struct ddl_error *err)
{
	return exchange((struct parent *)boot, 0, err);
}

static int get(struct ddl__boot *boot, int rank, const char *key, void **data, size_t *size, struct ddl_error *err)
{
	struct parent *p = (struct parent *)boot;
	const void *found;
	size_t found_size;
	int member;
	char *copy;

	if (rank < 0 || rank >= boot->size || !p->all)
		return ddl__error_set(err, -EINVAL, "there is no rank %d: the group has %d ranks", rank, boot->size);
	member = p->members[rank];
	if (ddl__blob_find(p->all + p->at[member], p->at[member + 1] - p->at[member], key, &found, &found_size) < 0)
		return ddl__error_set(err, -ENOENT, "rank %d never put the key %s", rank, key);
	copy = malloc(found_size + 1);
	if (!copy)
		return ddl__error_memory(err);
	memcpy(copy, found, found_size);
	copy[found_size] = '\0';
	*data = copy;
	*size = found_size;
	return 0;
}

static void close_(struct ddl__boot *boot)
{
	struct parent *p = (struct parent *)boot;

	if (!p)
		return;
	free(p->members);
	free(p->mine.data);
	free(p->all);
	free(p->at);
	free(p);
}

static const struct ddl__boot_ops ops = {
	.name = "parent",
	.description = "collectives on the communicator that is split",
	.put = put,
	.fence = fence,
	.get = get,
	.close = close_,
};

int ddl__parent_open(struct ddl_comm *comm, int rc, int color, int key, struct ddl__boot **boot, struct ddl_error *err)
{
	const int64_t mine[NUMBERS_MAX] = { color, key };
	struct parent *p = calloc(1, sizeof(*p));
	int64_t *numbers = calloc((size_t)ddl_comm_size(comm), sizeof(mine));

	if (rc == 0 && (!p || !numbers))
		rc = ddl__error_memory(err);
	if (!numbers) /* cannot even listen to the others */
		rc = give_up(comm, rc, err);
	else
		rc = meet(comm, rc, mine, NUMBERS_MAX, numbers, err);
	if (rc == 0) {
		p->boot.ops = &ops;
		p->comm = comm;
		rc = group(p, numbers, err);
		if (rc < 0)
			give_up(comm, rc, err);
	}
	free(numbers);
	if (rc < 0) {
		if (p)
			close_(&p->boot);
		return rc;
	}
	*boot = &p->boot;
	return 0;
}

int ddl__parent_finish(struct ddl__boot *boot, int rc, struct ddl_error *err)
{
	struct parent *p = (struct parent *)boot;

	if (!p->fenced)
		return exchange(p, rc, err);
	return p->failed ? p->failed : meet(p->comm, rc, NULL, 0, NULL, err);
}
