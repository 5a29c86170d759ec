/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi.c - any MPI: MPI_Allreduce. bfloat16, which MPI 3 does not know, is summed by an operation of the caller's, as training
 * frameworks do over MPI; a library that has the type itself (Intel MPI) uses its own.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static MPI_Op sum_bfloat16;   /* MPI_OP_NULL where the library has the type */
static MPI_Datatype bfloat16; /* two bytes */

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
	(void)type;
	bench_add_bfloat16(inout, in, (size_t)*length);
}

static int open_mpi(const struct bench_settings *settings)
{
	int rank, size;

	if (strcmp(settings->wire, "native")) {
		fprintf(stderr, "mpi: elements travel in their own type only\n");
		return -1;
	}
	if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
		return -1;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (rank != settings->rank || size != settings->size) {
		fprintf(stderr, "mpi: MPI says rank %d of %d, the launcher %d of %d\n", rank, size, settings->rank, settings->size);
		return -1;
	}
#ifdef MPIX_C_BF16
	bfloat16 = MPIX_C_BF16;
	sum_bfloat16 = MPI_SUM;
	(void)add;
#else
	bfloat16 = MPI_UINT16_T;
	MPI_Op_create(add, 1, &sum_bfloat16);
#endif
	return 0;
}

static int run(const struct bench_call *call)
{
	const void *send = call->send == call->recv ? MPI_IN_PLACE : call->send;
	const int f32 = call->type == BENCH_FLOAT32;

	return MPI_Allreduce(send, call->recv, (int)call->count, f32 ? MPI_FLOAT : bfloat16, f32 ? MPI_SUM : sum_bfloat16,
			     MPI_COMM_WORLD) == MPI_SUCCESS
		       ? 0
		       : -1;
}

static void close_mpi(void)
{
	MPI_Finalize();
}

const struct bench_peer bench_peer = {
	.name = "mpi",
	.open = open_mpi,
	.run = run,
	.close = close_mpi,
};
