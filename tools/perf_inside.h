/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_inside.h - what the files that measure a row share: perf_measure.c (the run), perf_requests.c (where tensors lie, and the
 * requests over them) and perf_compare.c (inputs, and the comparison of results).
 *
 * Each tensor has two areas, for inputs and results, of as many elements as the size asked for says (an all-to-all's results may be
 * some more). A collective with a block a rank reads or writes its block where it lies in the whole: so the reference knows every
 * element by its index. In place the result's area is both, and the input's keeps the pristine inputs.
 */
#ifndef DDL_TOOLS_PERF_INSIDE_H
#define DDL_TOOLS_PERF_INSIDE_H

#include "perf.h"
#include "perf_check.h"

struct ddl__perf {
	struct ddl__perf_setting setting;
	int rank, n_ranks;             /* of the communicator */
	size_t type_size;              /* bytes of an element */
	char *send;                    /* inputs; the pristine ones of an all-reduce in place */
	char *recv;                    /* results */
	size_t *offsets;               /* where the tensors of the row begin */
	size_t *counts, *back;         /* of the blocks, by rank; of an all-to-all's results */
	struct ddl_request **requests; /* of the tensors of the row; of a barrier: one */
	size_t n_requests;
	struct ddl_request *barrier; /* between iterations */
	double *times_us;            /* of the timed iterations */
	int starts;                  /* of the row at hand */
};

/* perf_requests.c: bytes of the areas of a row; offsets: where each tensor begins, may be NULL. */
size_t ddl__perf_place(const struct ddl__perf *perf, const struct ddl__perf_row *row, size_t *offsets);
/* Requests of a row: one a tensor, two with send/receive, one for a barrier. */
size_t ddl__perf_requests_of(const struct ddl__perf_options *options, const struct ddl__perf_row *row);
int ddl__perf_requests_create(struct ddl__perf *perf, const struct ddl__perf_row *row, struct ddl_error *err);
/* perf_measure.c: what carries a row out, as ddl__call_how() writes it. Collective. */
int ddl__perf_algorithm(struct ddl__perf *perf, const struct ddl__perf_row *row, char *text, struct ddl_error *err);
/* Where rank's block of a tensor of count elements begins; *n elements. */
uint64_t ddl__perf_block(const struct ddl__perf *perf, uint64_t count, int rank, uint64_t *n);

/* perf_compare.c: inputs for a check or for timing; what a correct result overwrites is poisoned. */
void ddl__perf_fill(struct ddl__perf *perf, const struct ddl__perf_row *row, const struct ddl__check *check);
/* Puts the inputs into place that a collective in place overwrites. */
void ddl__perf_refill(struct ddl__perf *perf, const struct ddl__perf_row *row);
/* Compares this rank's share of all results, or everything, and measures their errors (ulp: NULL: not). Says what is wrong where
 * loud. */
bool ddl__perf_compare(struct ddl__perf *perf, const struct ddl__perf_row *row, const struct ddl__check *check, bool everything,
		       bool loud, struct ddl__ulp *ulp);

#endif
