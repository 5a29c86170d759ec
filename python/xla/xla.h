/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xla.h - all-reduce as a custom call of XLA, for the package ddl.jax, which loads this library and registers the handler.
 */
#ifndef DDL_XLA_H
#define DDL_XLA_H

#include <ddl/ddl.h>

#include "ffi.h"

#pragma GCC visibility push(default)

/* What the attribute "numbers" of a call holds, int64 each; a package of the same release writes it. */
enum ddl_xla_number {
	DDL_XLA_GROUP = 0,        /* as attached */
	DDL_XLA_OP = 1,           /* enum ddl_op */
	DDL_XLA_WIRE = 2,         /* enum ddl_wire */
	DDL_XLA_RINGS = 3,        /* these and the following: as in struct ddl_request_options */
	DDL_XLA_ROUNDING = 4,     /* enum ddl_rounding */
	DDL_XLA_SEED = 5,         /* of stochastic rounding */
	DDL_XLA_ACCURACY = 6,     /* enum ddl_accuracy */
	DDL_XLA_REPRODUCIBLE = 7, /* 1, 0, -1 */
	DDL_XLA_NUMBERS = 8,      /* how many */
};

/*
 * ddl_xla_attach - gives a communicator a number that calls name it by: addresses have no place in compiled programs, which may
 * be kept.
 * Returns 0; -EEXIST (the number is taken); -ENOMEM.
 */
int ddl_xla_attach(int64_t group, struct ddl_comm *comm);

/*
 * ddl_xla_detach - waits for a call that is under way on it and frees its requests; later calls fail with a sentence. Nothing
 * happens where nothing is attached. Before ddl_comm_destroy().
 */
void ddl_xla_detach(int64_t group);

/*
 * ddl_xla_allreduce - the handler: result i = op over all ranks of operand i. Operands and results are as many arrays of the same
 * shapes and, last, a token each. Attributes: numbers (see above) and algorithm, a string, empty: chosen. All arrays are under way
 * at once; the call returns when all are complete. Calls of a group come in the same order on every rank: the tokens see to it.
 */
struct ffi_error *ddl_xla_allreduce(struct ffi_call *call);

#pragma GCC visibility pop
#endif
