/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi.c - any MPI: MPI_Allreduce; several at once are MPI_Iallreduce, or with the way "persistent" MPI_Allreduce_init (MPI 4; Open
 * MPI before: MPIX_Allreduce_init). MPI has no priorities. bfloat16, which MPI 3 does not know, is summed by an operation of the
 * caller's, as training frameworks do over MPI; a library that has the type itself (Intel MPI) uses its own.
 */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static MPI_Op sum_bfloat16;   /* MPI_OP_NULL where the library has the type */
static const char *way;       /* of several at once: "persistent", else non-blocking */
static MPI_Datatype bfloat16; /* two bytes */

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
	(void)type;
	bench_add_bfloat16(inout, in, (size_t)*length);
}

static int open_mpi(const struct bench_settings *settings)
{
	int rank, size;

	way = settings->way;
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

struct handle {
	struct bench_call call;
	MPI_Request request; /* MPI_REQUEST_NULL: none, or complete and not persistent */
	int persistent;
};

static MPI_Datatype type_of(const struct bench_call *call)
{
	return call->type == BENCH_FLOAT32 ? MPI_FLOAT : bfloat16;
}

static MPI_Op sum_of(const struct bench_call *call)
{
	return call->type == BENCH_FLOAT32 ? MPI_SUM : sum_bfloat16;
}

static const void *input_of(const struct bench_call *call)
{
	return call->send == call->recv ? MPI_IN_PLACE : call->send;
}

static int make_persistent(struct handle *h)
{
	const struct bench_call *c = &h->call;

#if MPI_VERSION >= 4
	return MPI_Allreduce_init(input_of(c), c->recv, (int)c->count, type_of(c), sum_of(c), MPI_COMM_WORLD, MPI_INFO_NULL,
				  &h->request) == MPI_SUCCESS
		       ? 0
		       : -1;
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
	return MPIX_Allreduce_init(input_of(c), c->recv, (int)c->count, type_of(c), sum_of(c), MPI_COMM_WORLD, MPI_INFO_NULL,
				   &h->request) == MPI_SUCCESS
		       ? 0
		       : -1;
#else
	(void)c;
	fprintf(stderr, "mpi: this MPI has no persistent all-reduce (MPI_Allreduce_init, MPIX_Allreduce_init)\n");
	return -1;
#endif
}

static int add_call(const struct bench_call *call, int priority, void **handle)
{
	struct handle *h = calloc(1, sizeof(*h));

	(void)priority;
	if (!h)
		return -1;
	h->call = *call;
	h->request = MPI_REQUEST_NULL;
	h->persistent = !strcmp(way, "persistent");
	if (h->persistent && make_persistent(h) < 0) {
		free(h);
		return -1;
	}
	*handle = h;
	return 0;
}

static int start(void *handle)
{
	struct handle *h = handle;
	const struct bench_call *c = &h->call;

	if (h->persistent)
		return MPI_Start(&h->request) == MPI_SUCCESS ? 0 : -1;
	return MPI_Iallreduce(input_of(c), c->recv, (int)c->count, type_of(c), sum_of(c), MPI_COMM_WORLD, &h->request) ==
			       MPI_SUCCESS
		       ? 0
		       : -1;
}

static int test(void *handle)
{
	struct handle *h = handle;
	int complete;

	return MPI_Test(&h->request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS ? complete : -1;
}

static int wait_for(void *handle)
{
	struct handle *h = handle;

	return MPI_Wait(&h->request, MPI_STATUS_IGNORE) == MPI_SUCCESS ? 0 : -1;
}

static void drop(void *handle)
{
	struct handle *h = handle;

	if (h->persistent && h->request != MPI_REQUEST_NULL)
		MPI_Request_free(&h->request);
	free(h);
}

const struct bench_async bench_async = {
	.add = add_call,
	.start = start,
	.test = test,
	.wait = wait_for,
	.drop = drop,
};
