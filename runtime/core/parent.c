/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parent.c - what ranks put travels to all ranks of the parent, by counts; each keeps what its group put.
 *
 * Every step on which ranks must agree is a meeting: each hands in how it fared and two numbers, and gets those of all. If one
 * fared badly, it tells its sentence, and all return it.
 */
#include "parent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "comm.h"
#include "engine.h"
#include "error.h"

enum { ROW = 3 }; /* of a rank in the table of a meeting: how it fared, and two numbers */

struct parent {
	struct ddl__boot boot;       /* first */
	struct ddl_comm *comm;       /* the parent; borrowed */
	int64_t *table;              /* of a meeting: ROW numbers a rank of the parent */
	struct ddl_request *meeting; /* gathers it */
	struct ddl_error told;       /* the sentence of a rank that failed */
	struct ddl_request *telling; /* sums its bytes: all other ranks have zeros */
	int *members;                /* boot.size ranks of the parent, in the order of the new communicator */
	struct ddl__blob mine;       /* what this rank put */
	uint8_t *all;                /* what all ranks of the parent put; NULL: before the fence */
	size_t *at;                  /* ranks of the parent + 1: where a rank's bytes begin in it */
	bool fenced;                 /* the fence was gone through, well or not */
	int failed;                  /* a meeting ended badly: all ranks know */
};

struct member { /* a rank and where it wants to be */
	int64_t key;
	int rank;
};

/* This rank cannot take part any more: the parent is aborted, so that the others are told instead of left waiting. */
static int give_up(struct ddl_comm *comm, int rc, struct ddl_error *err)
{
	if (!ddl_comm_get_error(comm, NULL))
		ddl__comm_fail(comm, rc, "rank %d on node %s: %s", comm->rank, ddl_comm_node_name(comm, comm->rank), err->text);
	return ddl_comm_get_error(comm, err);
}

static int run(struct ddl_comm *comm, struct ddl_request *request, struct ddl_error *err)
{
	int rc = ddl_start(request);

	rc = rc ? rc : ddl_wait(request);
	return rc < 0 ? give_up(comm, rc, err) : 0;
}

/* The sentence of a rank that failed becomes that of all. */
static int tell(struct parent *p, int rank, struct ddl_error *err)
{
	int rc;

	memset(&p->told, 0, sizeof(p->told));
	if (p->comm->rank == rank)
		ddl__error_set(&p->told, err->code, "rank %d on node %s: %s", rank, ddl_comm_node_name(p->comm, rank), err->text);
	rc = run(p->comm, p->telling, err);
	if (rc < 0)
		return rc;
	p->told.text[sizeof(p->told.text) - 1] = '\0';
	*err = p->told;
	return err->code < 0 ? err->code : -EPROTO;
}

/*
 * All ranks meet: rc is how this one fared, with the sentence in err. Returns 0 with everyone's row in the table, or the failure of
 * the lowest rank that fared badly.
 */
static int meet(struct parent *p, int rc, int64_t a, int64_t b, struct ddl_error *err)
{
	int64_t *mine = &p->table[(size_t)p->comm->rank * ROW];

	mine[0] = rc;
	mine[1] = a;
	mine[2] = b;
	if (rc < 0)
		err->code = rc;
	rc = run(p->comm, p->meeting, err);
	for (int r = 0; rc == 0 && r < p->comm->size; r++)
		if (p->table[(size_t)r * ROW] < 0)
			rc = tell(p, r, err);
	return rc;
}

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->rank > y->rank) - (x->rank < y->rank);
}

/* The ranks of this rank's color, in order. */
static int group(struct parent *p, int color, struct ddl_error *err)
{
	int size = p->comm->size, n = 0;
	struct member *members = calloc((size_t)size, sizeof(*members));

	p->members = calloc((size_t)size, sizeof(*p->members));
	if (!members || !p->members) {
		free(members);
		return ddl__error_memory(err);
	}
	for (int r = 0; r < size; r++)
		if (p->table[(size_t)r * ROW + 1] == color && color != DDL_UNDEFINED)
			members[n++] = (struct member){ p->table[(size_t)r * ROW + 2], r };
	qsort(members, (size_t)n, sizeof(*members), compare_members);
	p->boot.size = n;
	p->boot.rank = -1;
	for (int r = 0; r < n; r++) {
		p->members[r] = members[r].rank;
		if (members[r].rank == p->comm->rank)
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
static int gather(struct parent *p, struct ddl_error *err)
{
	size_t n = (size_t)p->comm->size, *counts = calloc(n, sizeof(*counts));
	struct ddl_request *request = NULL;
	int rc;

	p->at = calloc(n + 1, sizeof(*p->at));
	for (size_t r = 0; counts && p->at && r < n; r++) {
		counts[r] = (size_t)p->table[r * ROW + 1];
		p->at[r + 1] = p->at[r] + counts[r];
	}
	p->all = counts && p->at ? malloc(p->at[n] + 1) : NULL;
	rc = p->all ? ddl_allgather_counts_init(p->mine.data, p->all, counts, DDL_UINT8, p->comm, NULL, &request, err)
		    : ddl__error_memory(err);
	rc = rc < 0 ? give_up(p->comm, rc, err) : run(p->comm, request, err);
	ddl_request_free(request);
	free(counts);
	return rc;
}

/* rc: a rank that failed before takes part all the same. */
static int exchange(struct parent *p, int rc, struct ddl_error *err)
{
	p->fenced = true;
	rc = meet(p, rc, (int64_t)p->mine.size, 0, err);
	p->failed = rc ? rc : gather(p, err);
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
	ddl_request_free(p->meeting);
	ddl_request_free(p->telling);
	free(p->table);
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

/*
 * The requests of all meetings. They are made before anything else: a rank that cannot open any more files can still tell so by
 * them.
 */
static int make_requests(struct parent *p, struct ddl_error *err)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;
	size_t rank = (size_t)p->comm->rank;
	int rc;

	p->table = calloc((size_t)p->comm->size * ROW, sizeof(*p->table));
	if (!p->table)
		return ddl__error_memory(err);
	options.algorithm = "ring"; /* whatever DDL_ALGO says */
	options.reproducible = 0;
	rc = ddl_allgather_init(&p->table[rank * ROW], p->table, ROW, DDL_INT64, p->comm, NULL, &p->meeting, err);
	return rc ? rc
		  : ddl_allreduce_init(&p->told, &p->told, sizeof(p->told), DDL_UINT8, DDL_SUM, p->comm, &options, &p->telling,
				       err);
}

int ddl__parent_open(struct ddl_comm *comm, int rc, int color, int key, struct ddl__boot **boot, struct ddl_error *err)
{
	struct ddl_error why = { 0 };
	struct parent *p = calloc(1, sizeof(*p));
	int made;

	if (!p)
		return give_up(comm, ddl__error_memory(err), err);
	p->boot.ops = &ops;
	p->comm = comm;
	made = make_requests(p, &why); /* err may hold what is to be told */
	if (made < 0) {
		*err = why;
		rc = give_up(comm, made, err);
	} else {
		rc = meet(p, rc, color, key, err);
	}
	if (rc == 0 && group(p, color, err) < 0)
		rc = give_up(comm, -ENOMEM, err);
	if (rc < 0) {
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
	return p->failed ? p->failed : meet(p, rc, 0, 0, err);
}
