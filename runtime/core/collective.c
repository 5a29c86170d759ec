/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective.c - the public collectives: what was asked for is put into one form, see ask.h.
 */
#include "ask.h"

static struct ddl__ask ask_for(enum ddl__collective collective, const void *send, void *recv, size_t count, enum ddl_type type)
{
	return (struct ddl__ask){ .args = { .call = { .collective = collective, .type = type, .root = -1, .count = count },
					    .peer = -1 },
				  .send = send,
				  .recv = recv };
}

static struct ddl__ask ask_reduction(enum ddl__collective collective, const void *send, void *recv, size_t count,
				     enum ddl_type type, enum ddl_op op)
{
	struct ddl__ask ask = ask_for(collective, send, recv, count, type);
	ask.args.call.op = op;
	return ask;
}

static struct ddl__ask ask_rooted(enum ddl__collective collective, const void *send, void *recv, size_t count, enum ddl_type type,
				  int root)
{
	struct ddl__ask ask = ask_for(collective, send, recv, count, type);
	ask.args.call.root = root;
	return ask;
}

static struct ddl__ask by_counts(struct ddl__ask ask, const size_t *counts)
{
	ask.args.counts = counts;
	ask.by_counts = true;
	return ask;
}

int ddl_allreduce_init(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_reduction(DDL__ALLREDUCE, send, recv, count, type, op);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_allreduce(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_reduction(DDL__ALLREDUCE, send, recv, count, type, op);
	return ddl__ask_run(comm, &ask);
}

int ddl_broadcast_init(void *buffer, size_t count, enum ddl_type type, int root, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_rooted(DDL__BROADCAST, buffer, buffer, count, type, root);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_broadcast(void *buffer, size_t count, enum ddl_type type, int root, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_rooted(DDL__BROADCAST, buffer, buffer, count, type, root);
	return ddl__ask_run(comm, &ask);
}

int ddl_barrier_init(struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl_request **request,
		     struct ddl_error *err)
{
	struct ddl__ask ask = ask_for(DDL__BARRIER, NULL, NULL, 0, 0);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_barrier(struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_for(DDL__BARRIER, NULL, NULL, 0, 0);
	return ddl__ask_run(comm, &ask);
}

int ddl_reduce_scatter_init(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm,
			    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_reduction(DDL__REDUCE_SCATTER, send, recv, count, type, op);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_reduce_scatter(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_reduction(DDL__REDUCE_SCATTER, send, recv, count, type, op);
	return ddl__ask_run(comm, &ask);
}

int ddl_reduce_scatter_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, enum ddl_op op,
				   struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl_request **request,
				   struct ddl_error *err)
{
	struct ddl__ask ask = by_counts(ask_reduction(DDL__REDUCE_SCATTER, send, recv, 0, type, op), counts);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_reduce_scatter_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, enum ddl_op op,
			      struct ddl_comm *comm)
{
	struct ddl__ask ask = by_counts(ask_reduction(DDL__REDUCE_SCATTER, send, recv, 0, type, op), counts);
	return ddl__ask_run(comm, &ask);
}

int ddl_allgather_init(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_for(DDL__ALLGATHER, send, recv, count, type);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_allgather(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_for(DDL__ALLGATHER, send, recv, count, type);
	return ddl__ask_run(comm, &ask);
}

int ddl_allgather_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, struct ddl_comm *comm,
			      const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = by_counts(ask_for(DDL__ALLGATHER, send, recv, 0, type), counts);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_allgather_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, struct ddl_comm *comm)
{
	struct ddl__ask ask = by_counts(ask_for(DDL__ALLGATHER, send, recv, 0, type), counts);
	return ddl__ask_run(comm, &ask);
}

int ddl_reduce_init(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, int root, struct ddl_comm *comm,
		    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_reduction(DDL__REDUCE, send, recv, count, type, op);
	ask.args.call.root = root;
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_reduce(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, int root, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_reduction(DDL__REDUCE, send, recv, count, type, op);
	ask.args.call.root = root;
	return ddl__ask_run(comm, &ask);
}

int ddl_alltoall_init(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm,
		      const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_for(DDL__ALLTOALL, send, recv, count, type);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_alltoall(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_for(DDL__ALLTOALL, send, recv, count, type);
	return ddl__ask_run(comm, &ask);
}

int ddl_alltoall_counts_init(const void *send, const size_t *send_counts, void *recv, const size_t *recv_counts, enum ddl_type type,
			     struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl_request **request,
			     struct ddl_error *err)
{
	struct ddl__ask ask = by_counts(ask_for(DDL__ALLTOALL, send, recv, 0, type), send_counts);
	ask.args.recv_counts = recv_counts;
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_alltoall_counts(const void *send, const size_t *send_counts, void *recv, const size_t *recv_counts, enum ddl_type type,
			struct ddl_comm *comm)
{
	struct ddl__ask ask = by_counts(ask_for(DDL__ALLTOALL, send, recv, 0, type), send_counts);
	ask.args.recv_counts = recv_counts;
	return ddl__ask_run(comm, &ask);
}

int ddl_gather_init(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm,
		    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_rooted(DDL__GATHER, send, recv, count, type, root);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_gather(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_rooted(DDL__GATHER, send, recv, count, type, root);
	return ddl__ask_run(comm, &ask);
}

int ddl_gather_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm,
			   const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = by_counts(ask_rooted(DDL__GATHER, send, recv, 0, type, root), counts);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_gather_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm)
{
	struct ddl__ask ask = by_counts(ask_rooted(DDL__GATHER, send, recv, 0, type, root), counts);
	return ddl__ask_run(comm, &ask);
}

int ddl_scatter_init(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm,
		     const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_rooted(DDL__SCATTER, send, recv, count, type, root);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_scatter(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_rooted(DDL__SCATTER, send, recv, count, type, root);
	return ddl__ask_run(comm, &ask);
}

int ddl_scatter_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm,
			    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = by_counts(ask_rooted(DDL__SCATTER, send, recv, 0, type, root), counts);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_scatter_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm)
{
	struct ddl__ask ask = by_counts(ask_rooted(DDL__SCATTER, send, recv, 0, type, root), counts);
	return ddl__ask_run(comm, &ask);
}

/* From rank `from` to rank `to`, one of which is this one. */
static struct ddl__ask ask_point(const void *send, void *recv, size_t count, enum ddl_type type, int from, int to, uint32_t tag)
{
	struct ddl__ask ask = ask_rooted(DDL__SENDRECV, send, recv, count, type, from);
	ask.args.peer = to;
	ask.args.tag = tag;
	return ask;
}

int ddl_send_init(const void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm,
		  const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_point(buffer, NULL, count, type, ddl_comm_rank(comm), peer, tag);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_recv_init(void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm,
		  const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__ask ask = ask_point(NULL, buffer, count, type, peer, ddl_comm_rank(comm), tag);
	return ddl__ask_init(comm, &ask, options, request, err);
}

int ddl_send(const void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_point(buffer, NULL, count, type, ddl_comm_rank(comm), peer, tag);
	return ddl__ask_run(comm, &ask);
}

int ddl_recv(void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm)
{
	struct ddl__ask ask = ask_point(NULL, buffer, count, type, peer, ddl_comm_rank(comm), tag);
	return ddl__ask_run(comm, &ask);
}
