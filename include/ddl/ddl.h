/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddl/ddl.h - the C API of DDL for Slurm: topology-aware persistent collectives.
 *
 * A communicator (struct ddl_comm) holds the ranks of a job step, the plan (where they sit in the switch tree) and the
 * connections between them. A request (struct ddl_request) is a persistent collective: created once, started many times.
 *
 *     struct ddl_comm *comm;
 *     struct ddl_request *sum;
 *     struct ddl_error err;
 *     if (ddl_comm_create(NULL, &comm, &err) < 0 ||
 *         ddl_allreduce_init(grad, grad, n, DDL_FLOAT32, DDL_SUM, comm, NULL, &sum, &err) < 0)
 *             errx(1, "%s", err.text);
 *     for (...) {
 *             ddl_start(sum);
 *             ... compute ...
 *             if (ddl_wait(sum) < 0) { ddl_comm_get_error(comm, &err); errx(1, "%s", err.text); }
 *     }
 *     ddl_request_free(sum);
 *     ddl_comm_destroy(comm);
 *
 * Threads: every call may come from any thread; a request is used by one thread at a time. Calls that create requests on one
 * communicator are made in the same order on every rank (requests are matched by that order); starts may come in any order.
 * After fork() the communicators and requests of the parent are of no use in the child: calls return -EOPNOTSUPP or do nothing, and
 * the parent is not disturbed.
 * Errors: see ddl/error.h. After the first failure on the data path a communicator is aborted: every later call returns that
 * error, and ddl_comm_get_error() tells the sentence.
 */
#ifndef DDL_H
#define DDL_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>
#include <ddl/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default) /* the library is built with everything hidden but this */
#endif

struct ddl_comm;
struct ddl_request;

/* Element types of user buffers. */
enum ddl_type {
	DDL_FLOAT64 = 1,  /* IEEE binary64, 8 bytes */
	DDL_FLOAT32 = 2,  /* IEEE binary32, 4 bytes */
	DDL_FLOAT16 = 3,  /* IEEE binary16, 2 bytes, reduced in float32 */
	DDL_BFLOAT16 = 4, /* bfloat16, 2 bytes, reduced in float32 */
	DDL_INT64 = 5,    /* two's complement, 8 bytes */
	DDL_INT32 = 6,    /* two's complement, 4 bytes */
	DDL_INT8 = 7,     /* two's complement, 1 byte */
	DDL_UINT8 = 8,    /* unsigned, 1 byte */
};

/* Reduction operations. Integer sums and products wrap. */
enum ddl_op {
	DDL_SUM = 1,  /* sum over the ranks */
	DDL_AVG = 2,  /* sum divided by the number of ranks; integers truncate towards zero */
	DDL_MIN = 3,  /* minimum; NaN if any input is NaN */
	DDL_MAX = 4,  /* maximum; NaN if any input is NaN */
	DDL_PROD = 5, /* product over the ranks */
};

/* Types in which elements travel between ranks. */
enum ddl_wire {
	DDL_WIRE_AUTO = 0,     /* what the plan says (--ddl=...,wire=); see enum ddl_accuracy; else the element type */
	DDL_WIRE_NATIVE = 1,   /* the element type */
	DDL_WIRE_BFLOAT16 = 2, /* DDL_FLOAT32 data travel as bfloat16; other types natively */
	DDL_WIRE_FLOAT16 = 3,  /* DDL_FLOAT32 data travel as float16, each 256 elements with a scale; other types natively */
	DDL_WIRE_INT8 = 4,     /* DDL_FLOAT32 data travel as int8, each 256 elements with a scale; other types natively */
};

/*
 * What rounding on the way may take from the result of a reduction of DDL_FLOAT32, DDL_FLOAT16 or DDL_BFLOAT16; other types are
 * never rounded. A wire that a request names is taken, and the algorithm follows from the accuracy. Where it names none, and FAST
 * or FLAT is said, DDL_FLOAT32 travels by the plan's wire, bfloat16 if it has none, where that is predicted to be clearly faster,
 * else natively.
 */
enum ddl_accuracy {
	DDL_ACCURACY_AUTO =
		0, /* DDL_ACCURACY, else what the plan says (--ddl=...,accuracy=), else FAST by the wire that is named */
	DDL_ACCURACY_FAST = 1,  /* a partial result may be rounded at every hop: the error grows with the number of ranks */
	DDL_ACCURACY_FLAT = 2,  /* each contribution is rounded once and the result once, however many ranks there are */
	DDL_ACCURACY_EXACT = 3, /* DDL_FLOAT32 travels as it is, whatever wire the plan says; the rest as FLAT */
};

/* How elements are rounded to a wire that is narrower than they are. */
enum ddl_rounding {
	DDL_ROUND_NEAREST = 0,    /* to the nearest, ties to even */
	DDL_ROUND_STOCHASTIC = 1, /* up or down by chance, in proportion to the distances: right on average */
};

/*
 * A key-value store of the caller's, over which ranks find each other where there is no PMIx (for example torch's store).
 * Both calls return 0 or a negative errno and may be called only while ddl_comm_create() runs, from its thread.
 */
struct ddl_store {
	void *context; /* handed to the callbacks */
	int rank;      /* this process's rank, 0 ... size-1 */
	int size;      /* number of ranks, at least 1 */
	/* Publishes size bytes under key; a key is set once. */
	int (*set)(void *context, const char *key, const void *data, size_t size);
	/* Waits up to timeout_ms for key and copies it to data (room for capacity bytes); *size is its full size, also when
	 * that exceeds capacity, in which case nothing is copied and -EMSGSIZE is returned. -ETIMEDOUT when it never came. */
	int (*get)(void *context, const char *key, void *data, size_t capacity, size_t *size, int timeout_ms);
};

#define DDL_UNDEFINED (-1) /* color of a rank that belongs to no part in ddl_comm_split() */

/* How a communicator is made. Fill with DDL_COMM_OPTIONS_INIT, then change what you need. */
struct ddl_comm_options {
	size_t struct_size;            /* sizeof(struct ddl_comm_options), so that fields can be added */
	const struct ddl_store *store; /* borrowed until ddl_comm_create() returns; NULL: PMIx, else alone */
	const char *plan;              /* plan text; borrowed; NULL: DDL_PLAN from the environment, else built by exchange */
	const char *transports;        /* comma-separated names as `ddl info` prints them; NULL: DDL_TRANSPORTS, else all usable */
	const char *interfaces;        /* comma-separated interface names for tcp; NULL: DDL_NET, else by rule */
	int timeout_ms;                /* deadline of every call that waits for peers; 0: DDL_TIMEOUT (seconds), else 600 s */
	int progress_threads;          /* cores that service threads run on, 0 (none) to 8; a communicator has one such thread;
					* -1: DDL_PROGRESS, else what the plan says, else 0 */
	int measure; /* 1: where all-reduces are chosen by time, measure them first; 0: go by the model and DDL_TUNE;
					* -1: DDL_MEASURE, else 1 */
};
#define DDL_COMM_OPTIONS_INIT                                                                                                      \
	{                                                                                                                          \
		sizeof(struct ddl_comm_options), NULL, NULL, NULL, NULL, 0, -1, -1                                                 \
	}

/* How a request is made. Fill with DDL_REQUEST_OPTIONS_INIT, then change what you need. Must be the same on every rank. */
struct ddl_request_options {
	size_t struct_size;    /* sizeof(struct ddl_request_options) */
	enum ddl_wire wire;    /* type in which the elements travel */
	int priority;          /* higher goes first, see ddl_start(); default 0 */
	int rings;             /* rings that share the data, 1 ... 64; 0: what the plan says, else 1; of long messages one a rail */
	const char *algorithm; /* name as `ddl info` prints it; borrowed; NULL: DDL_ALGO, else chosen */
	enum ddl_rounding rounding; /* to wires that round */
	uint64_t seed;              /* of stochastic rounding: the same seed, the same bits in every run */
	int error_feedback;         /* 1: what rounding takes away is added to the input of the next start; not of MIN, MAX, PROD */
	enum ddl_accuracy accuracy; /* what rounding may take from results */
	int reproducible; /* 1: all-reduces reduce in an order that is fixed for a number of ranks, see ddl_allreduce_init(); 0: any
			   * order; -1: DDL_REPRODUCIBLE, else what the plan says, else 0 */
};
#define DDL_REQUEST_OPTIONS_INIT                                                                                                   \
	{                                                                                                                          \
		sizeof(struct ddl_request_options), DDL_WIRE_AUTO, 0, 0, NULL, DDL_ROUND_NEAREST, 0, 0, DDL_ACCURACY_AUTO, -1      \
	}

/*
 * ddl_version - the version of the library in use, such as "0.1.0". Static.
 */
const char *ddl_version(void);

/*
 * ddl_type_size - bytes of one element of a type; 0 for an unknown type.
 */
size_t ddl_type_size(enum ddl_type type);

/*
 * ddl_comm_create - makes the communicator of all ranks of the job step. Collective; blocks until all ranks called it.
 *
 * Ranks come from options->store where given, else from PMIx (srun --mpi=pmix, ddl run, mpirun), else the process is alone.
 * The plan of rank 0 counts; without one it is built from what the nodes know of themselves. At most two fences, and a barrier:
 * from then on the end of any rank fails the calls of all others.
 * On more than one node, with no algorithm asked for by name and no tuning file, some all-reduces are measured (options->measure):
 * up to two seconds on slow networks; the times are kept in $XDG_CACHE_HOME/ddl (or ~/.cache/ddl) per set of nodes. Choices by
 * measured times may differ from job to job, and with them the rounding of results; an algorithm or a tuning file that is given
 * keeps them.
 *
 * options  NULL: all defaults
 * comm     written on success; freed with ddl_comm_destroy()
 * err      may be NULL
 * Returns 0; -EINVAL; -ENOMEM; -ENOENT (an interface or transport named does not exist); -EPROTO (a rank has another plan or an
 * incompatible library; the sentence names it); -ETIMEDOUT (a rank never came; named where known); -EBADMSG (broken plan text).
 */
int ddl_comm_create(const struct ddl_comm_options *options, struct ddl_comm **comm, struct ddl_error *err);

/*
 * ddl_comm_split - makes communicators of parts of a communicator: one for each color, of the ranks that gave it. Collective over
 * parent; blocks until all its ranks called it. Made in the same order as requests on parent.
 *
 * parent   stays as it is; the new communicators have connections of their own, live independently of it and of each other, and
 *          may be destroyed before it or after it. They inherit its transports, interfaces, deadline and service thread
 * color    0 or more: which part this rank belongs to; DDL_UNDEFINED: none
 * key      the ranks of a part are numbered by (key, rank in parent)
 * comm     written on success, NULL for a rank without a part; freed with ddl_comm_destroy()
 * err      may be NULL
 * The plan of a part is what is left of parent's when all but the part's nodes and ranks are taken out, in the same order; dims=
 * stays only where it still makes up the ranks.
 * A failure on one rank fails the call on all ranks, with a sentence that names it; then no communicator was made.
 * Returns 0; -EINVAL (a color that is negative); -ENOMEM; -EMFILE (open files); otherwise what ddl_comm_create() returns, or the
 * error that aborted parent.
 */
int ddl_comm_split(struct ddl_comm *parent, int color, int key, struct ddl_comm **comm, struct ddl_error *err);

/*
 * ddl_comm_dup - makes a communicator of the same ranks, in the same order: so that a library and its caller can use one each, and
 * neither sees the other's requests. Everything else as ddl_comm_split() with one color.
 */
int ddl_comm_dup(struct ddl_comm *parent, struct ddl_comm **comm, struct ddl_error *err);

/*
 * ddl_comm_destroy - frees a communicator and what it owns. Requests must have been freed before. NULL does nothing.
 * Says goodbye to the connected peers and waits for theirs, so that what is under way arrives; bounded by ten seconds or the
 * deadline; after a failure by a second, for the peers to hear of it.
 */
void ddl_comm_destroy(struct ddl_comm *comm);

/*
 * ddl_comm_abort - aborts a communicator: every waiting and later call on any rank returns -ECANCELED. Does not block.
 * reason   one sentence that the other ranks report, may be NULL; borrowed
 * Returns 0, or the error that aborted it before.
 */
int ddl_comm_abort(struct ddl_comm *comm, const char *reason);

/*
 * ddl_comm_get_error - the first failure of a communicator, as a sentence that names rank, node, request and step.
 * Returns its code (also in err->code), 0 if there was none (err is not written then). err may be NULL. Never blocks.
 */
int ddl_comm_get_error(const struct ddl_comm *comm, struct ddl_error *err);

/* ddl_comm_rank - this process's rank, 0 ... ddl_comm_size()-1. */
int ddl_comm_rank(const struct ddl_comm *comm);

/* ddl_comm_size - the number of ranks. */
int ddl_comm_size(const struct ddl_comm *comm);

/*
 * ddl_comm_plan - the plan in force as one line of text (doc/plan_format.md), the same bytes on every rank.
 * Owned by the communicator.
 */
const char *ddl_comm_plan(const struct ddl_comm *comm);

/*
 * ddl_comm_order - the ranks in the order of a ring of the plan.
 * ring     0 ... 63
 * order    written: ddl_comm_size() ranks; the successor of the last is the first
 * Returns 0 or -EINVAL.
 */
int ddl_comm_order(const struct ddl_comm *comm, int ring, int *order);

/* ddl_comm_node_name - name of the node of a rank, as the plan knows it; NULL for a rank out of range. Owned by comm. */
const char *ddl_comm_node_name(const struct ddl_comm *comm, int rank);

/*
 * ddl_mem_alloc - memory that the processes of a node reduce in place: requests whose buffers lie in it need no copies between
 * ranks of one node that share memory. It may be used as any other memory, and by requests of any kind; which ranks have their
 * buffers in such memory changes no result.
 *
 * comm     the memory belongs to it: other communicators treat it as any memory. It ends with ddl_mem_free() or ddl_comm_destroy()
 * bytes    any number; 0: a page
 * memory   written on success: page-aligned, zeroed, all pages there; freed with ddl_mem_free()
 * Each rank makes the call by itself, as often as it likes; it does not wait for other ranks. A buffer may begin anywhere inside.
 * Before the first start of a request on it the peers may not have mapped it yet: then that start copies.
 * Returns 0; -EINVAL; -ENOMEM; or the error that aborted the communicator.
 */
int ddl_mem_alloc(struct ddl_comm *comm, size_t bytes, void **memory, struct ddl_error *err);

/*
 * ddl_mem_free - gives memory of ddl_mem_alloc() back. NULL does nothing. Not collective.
 * Returns 0; -EINVAL (not such memory of comm); -EBUSY (a request that was not freed uses it); the sentence is logged.
 */
int ddl_mem_free(struct ddl_comm *comm, void *memory);

/*
 * ddl_allreduce_init - a persistent all-reduce: recv[i] = op over all ranks r of send_r[i], i < count.
 *
 * send, recv  count elements of type; equal pointers reduce in place, other overlap is not allowed; borrowed until
 *             ddl_request_free(). May be NULL if count is 0.
 * options     NULL: defaults. The same on every rank, as are count, type and op.
 * request     written on success; freed with ddl_request_free()
 * All ranks end with bitwise equal results, and a given plan, count and algorithm gives the same bits in every run, also where
 * elements are rounded on their way; what each wire keeps is in doc/precision.md.
 * With options->reproducible a result depends on the inputs, their order by ranks, type, op and wire alone: not on the algorithm,
 * how the message is cut, rings, rails, or which rank is where. Contributions are added in the order of ranks. What that takes is
 * in doc/precision.md. Source: ring all-reduce, Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009. Does not wait for other ranks; that they pass the same arguments is checked before the first byte moves
 * (ddl_wait: -EPROTO). Returns 0; -EINVAL; -ENOMEM; -EOPNOTSUPP (no such algorithm for this); or the error that aborted the
 * communicator.
 */
int ddl_allreduce_init(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);

/*
 * ddl_broadcast_init - a persistent broadcast: buffer of every rank becomes that of rank root, count elements of type.
 * Arguments, ownership and errors as in ddl_allreduce_init(). Elements travel natively: the copies are exact.
 * Source: pipelined chain broadcast along the ring order.
 */
int ddl_broadcast_init(void *buffer, size_t count, enum ddl_type type, int root, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);

/*
 * ddl_barrier_init - a persistent barrier: no rank completes a start before every rank has started it.
 * Source: dissemination barrier, Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988.
 */
int ddl_barrier_init(struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl_request **request,
		     struct ddl_error *err);

/*
 * ddl_reduce_scatter_init, ddl_reduce_scatter_counts_init - a persistent reduce-scatter: each rank gets its block of the reduction.
 * With counts[] each rank's block (equal blocks: count each) and begin[r] the sum of the counts of the ranks below r,
 * recv[i] = op over all ranks r of send_r[begin[me] + i], i < counts[me].
 *
 * send     as many elements as all blocks together
 * recv     counts[me] elements. In place: recv == send + begin[me]; then the rest of send stays as it is, whatever its const says
 *          about the block
 * counts   ddl_comm_size() numbers of elements, 0 allowed; copied. The same on every rank
 * Other arguments, ownership, threads and errors as in ddl_allreduce_init(). A buffer whose count is 0 may be NULL; buffers that
 * overlap otherwise than in place are refused (-EINVAL), here and in all collectives below. A given plan, count and algorithm gives
 * the same bits in every run.
 * Source: the first half of the ring all-reduce (Patarasuk and Yuan, 2009); for short blocks Bruck, Ho, Kipnis, Upfal and
 * Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997, run backwards.
 */
int ddl_reduce_scatter_init(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm,
			    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);
int ddl_reduce_scatter_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, enum ddl_op op,
				   struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl_request **request,
				   struct ddl_error *err);

/*
 * ddl_allgather_init, ddl_allgather_counts_init - a persistent all-gather: every rank gets all blocks, in the order of ranks.
 * recv[begin[r] + i] = send_r[i], i < counts[r]; counts and begin as in ddl_reduce_scatter_counts_init().
 *
 * send     counts[me] elements. In place: send == recv + begin[me]
 * recv     as many elements as all blocks together
 * Elements travel natively and the copies are exact, whatever the plan says, unless options->wire names a wire that rounds: then
 * each element is rounded once, and every rank, its own included, gets the rounded one. The rest as in ddl_reduce_scatter_init().
 * Source: the second half of the ring all-reduce; for short blocks Bruck and others, 1997.
 */
int ddl_allgather_init(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);
int ddl_allgather_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, struct ddl_comm *comm,
			      const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);

/*
 * ddl_reduce_init - a persistent reduce: on rank root, recv[i] = op over all ranks r of send_r[i], i < count.
 *
 * recv     count elements on root; not looked at elsewhere, may be NULL. In place on root: recv == send
 * The rest as in ddl_allreduce_init().
 * Source: pipelined chain along the ring order to the root; for short messages a tree of degree 4.
 */
int ddl_reduce_init(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, int root, struct ddl_comm *comm,
		    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);

/*
 * ddl_alltoall_init, ddl_alltoall_counts_init - a persistent all-to-all: every rank sends each rank a block of its own.
 * With send_counts[] and recv_counts[] (equal blocks: count each) and their sums below r send_begin[r] and recv_begin[r],
 * recv[recv_begin[r] + i] = send_r[send_begin_r[me] + i], i < recv_counts[me][r] = send_counts_r[me].
 *
 * send, recv                as many elements as their blocks together. In place: recv == send, where as much goes to each rank as
 *                           comes from it
 * send_counts, recv_counts  ddl_comm_size() numbers of elements, 0 allowed; copied. What a rank sends another is what that
 *                           other expects; each pair that exchanges something checks it before the first byte (-EPROTO)
 * Elements travel natively. The rest as in ddl_reduce_scatter_init().
 * Source: pairwise exchange; in round k the positions of the ring order whose sum is k modulo N meet.
 */
int ddl_alltoall_init(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm,
		      const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);
int ddl_alltoall_counts_init(const void *send, const size_t *send_counts, void *recv, const size_t *recv_counts, enum ddl_type type,
			     struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl_request **request,
			     struct ddl_error *err);

/*
 * ddl_gather_init, ddl_gather_counts_init - a persistent gather: rank root gets all ranks' blocks, in the order of ranks:
 * on root, recv[begin[r] + i] = send_r[i], i < counts[r]; counts and begin as in ddl_reduce_scatter_counts_init().
 *
 * send     counts[me] elements. In place on root: send == recv + begin[root]
 * recv     on root as many elements as all blocks together; not looked at elsewhere, may be NULL
 * counts   the same on every rank, not on root alone
 * Elements travel natively. The rest as in ddl_reduce_scatter_init().
 * Source: straight to the root; for short blocks a binomial tree.
 */
int ddl_gather_init(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm,
		    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);
int ddl_gather_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm,
			   const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);

/*
 * ddl_scatter_init, ddl_scatter_counts_init - a persistent scatter: each rank gets its block of rank root's buffer:
 * recv[i] = send_root[begin[me] + i], i < counts[me]; counts and begin as in ddl_reduce_scatter_counts_init().
 *
 * send     on root as many elements as all blocks together; not looked at elsewhere, may be NULL
 * recv     counts[me] elements. In place on root: recv == send + begin[root]
 * counts   the same on every rank, not on root alone
 * Elements travel natively. The rest as in ddl_reduce_scatter_init().
 * Source: straight from the root; for short blocks a binomial tree.
 */
int ddl_scatter_init(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm,
		     const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);
int ddl_scatter_counts_init(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm,
			    const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);

/*
 * ddl_send_init, ddl_recv_init - a persistent message from one rank to another, made by these two only.
 * The n-th ddl_send_init() to a peer with a tag meets the peer's n-th ddl_recv_init() from this rank with that tag; each start of
 * the one meets a start of the other. Requests of different tags, directions or peers are independent of each other, and of the
 * order in which collectives are created.
 *
 * buffer   count elements of type, the same on both sides (else -EPROTO); borrowed until ddl_request_free()
 * peer     the other rank; not this one
 * tag      any number
 * options  as in ddl_allreduce_init(); the same on both sides
 * Elements travel natively. A send is complete when the buffer may be written again; short ones may be before the peer has started.
 * The rest as in ddl_allreduce_init(). Source: none, one lane.
 */
int ddl_send_init(const void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm,
		  const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);
int ddl_recv_init(void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm,
		  const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err);

/*
 * ddl_request_set_buffers - lays a request on other buffers of the same sizes, for its next starts. What ranks agree on stays as it
 * is, so a request can be kept by its shape where each call brings other memory. Not collective, does not block.
 *
 * send, recv  as in the _init call that made the request: apart, or in place as there (an all-to-all by counts: apart); a broadcast
 *             has the same buffer as both. The one that the request has no use for on this rank is ignored. Borrowed until the next
 *             such call or ddl_request_free()
 * err         may be NULL
 * Returns 0; -EINVAL (a buffer that is needed is NULL, or they overlap); -EBUSY (the request is active).
 */
int ddl_request_set_buffers(struct ddl_request *request, const void *send, void *recv, struct ddl_error *err);

/*
 * ddl_start - starts a request. Does not block, allocates nothing.
 * Of the started requests the one with the highest priority goes first, whatever it computes and over all connections: it overtakes
 * behind the slice (at most 256 KiB) that the others are at. Requests of equal priority go first come, first served, in the order
 * in which this rank started them; later ones use what the earlier ones leave free. Ranks may start them in different orders.
 * Returns 0; -EINVAL if it is already active; or the error that aborted the communicator.
 */
int ddl_start(struct ddl_request *request);

/*
 * ddl_test - makes progress and asks whether a request is complete. Does not block.
 * Returns 1 complete (or not started); 0 not yet; negative: -EPROTO (ranks disagree on the call), -ECONNRESET (a peer died),
 * -ETIMEDOUT, -ECANCELED (aborted). ddl_comm_get_error() tells the sentence.
 */
int ddl_test(struct ddl_request *request);

/*
 * ddl_wait - blocks until a request is complete: spins for some microseconds, then offers its core to others, then sleeps.
 * Returns 0 complete (or not started), negative as ddl_test().
 */
int ddl_wait(struct ddl_request *request);

#define DDL_STATS_LEVELS 17 /* levels of the switch tree that statistics tell apart; level 0 is within a node */
#define DDL_STATS_RAILS  8  /* network interfaces of a node that they tell apart */

/* What a part of a request has done over all its starts. Each lane of a request waits for itself, so times of several lanes may
 * add up to more than the time that passed. */
struct ddl_stats {
	uint64_t bytes_sent;      /* as they travel, without headers */
	uint64_t bytes_received;  /* as they travel, without headers */
	uint64_t slices_sent;     /* pieces in which they went */
	uint64_t slices_received; /* pieces in which they came */
	uint64_t wait_data_ns;    /* waiting for data of a peer */
	uint64_t wait_credit_ns;  /* waiting for room at a peer, or for delivery */
	uint64_t wait_lane_ns;    /* waiting for another lane of this rank */
	uint64_t reduce_ns;       /* reducing, and handing on what was reduced */
	uint64_t copy_ns;         /* the same of slices that are only copied */
};

/* Statistics of a request: initialise struct_size. */
struct ddl_request_stats {
	size_t struct_size;                        /* sizeof(struct ddl_request_stats) */
	uint64_t starts;                           /* that are complete */
	uint64_t total_ns;                         /* from ddl_start() until complete, over all of them */
	uint64_t shortest_ns;                      /* the shortest of them */
	uint64_t longest_ns;                       /* the longest of them */
	uint32_t n_levels;                         /* levels that the tree has */
	uint32_t n_rails;                          /* rails that are in use, at least 1 */
	struct ddl_stats all;                      /* everything */
	struct ddl_stats levels[DDL_STATS_LEVELS]; /* by the level at which this rank and its peer meet */
	struct ddl_stats rails[DDL_STATS_RAILS];   /* of what goes between nodes, by rail */
};

/*
 * ddl_request_get_stats - what a request has done so far: bytes, and the time that its lanes spent waiting and working.
 *
 * stats       written on success
 * Only where statistics are on: DDL_STATS or a trace (ddl(7)) when the communicator was created.
 * Does not block for longer than another thread makes progress. May be called while the request is active.
 * Returns 0; -EINVAL (NULL, or struct_size is not set); -EOPNOTSUPP (statistics are off).
 */
int ddl_request_get_stats(const struct ddl_request *request, struct ddl_request_stats *stats);

/*
 * ddl_request_get_peer_stats - the part of it with one peer; the work on a slice that is received and sent on counts for whom it
 * came from. The rest as above; -EINVAL also for a peer that is no rank.
 */
int ddl_request_get_peer_stats(const struct ddl_request *request, int peer, struct ddl_stats *stats);

/*
 * ddl_request_free - frees a request that is not active. NULL does nothing. Not collective.
 * Returns 0; -EINVAL if it is active (unless the communicator was aborted).
 */
int ddl_request_free(struct ddl_request *request);

/*
 * ddl_request_reset_feedback, ddl_request_get_feedback, ddl_request_set_feedback - what a request with error_feedback will add to
 * the input of its next start: made zero, read for a checkpoint, and set from one. It is this rank's own. Not collective, do not
 * block.
 *
 * residual  count floats: written by get; read by set
 * count     elements of the input
 * Source: Seide, Fu, Droppo, Li and Yu, "1-bit stochastic gradient descent and its application to data-parallel distributed
 * training of speech DNNs", 2014.
 * Returns 0; -EOPNOTSUPP (the request has no error feedback, or its wire rounds nothing); -EBUSY (it is active); -EINVAL (another
 * count than the input's, or NULL).
 */
int ddl_request_reset_feedback(struct ddl_request *request);
int ddl_request_get_feedback(const struct ddl_request *request, float *residual, size_t count);
int ddl_request_set_feedback(struct ddl_request *request, const float *residual, size_t count);

/*
 * ddl_allreduce, ddl_broadcast, ddl_barrier and so on - the blocking forms; arguments as in the _init form. They look a matching
 * persistent request up in a cache of the communicator (same collective, counts, type, operation and root; the buffers may change)
 * and start it; the first call of a kind pays for its creation. Called in the same order on every rank; ddl_alltoall_counts() makes
 * its request anew each time. Returns 0 or negative as the _init form and ddl_wait().
 *
 * ddl_send, ddl_recv - the blocking forms of a message. A blocking send meets a blocking receive, in the order of calls of the two
 * ranks with that tag. A long send may wait for the receive: two ranks that both send first may wait for ever.
 */
int ddl_allreduce(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm);
int ddl_broadcast(void *buffer, size_t count, enum ddl_type type, int root, struct ddl_comm *comm);
int ddl_barrier(struct ddl_comm *comm);
int ddl_reduce_scatter(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm);
int ddl_reduce_scatter_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, enum ddl_op op,
			      struct ddl_comm *comm);
int ddl_allgather(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm);
int ddl_allgather_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, struct ddl_comm *comm);
int ddl_reduce(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, int root, struct ddl_comm *comm);
int ddl_alltoall(const void *send, void *recv, size_t count, enum ddl_type type, struct ddl_comm *comm);
int ddl_alltoall_counts(const void *send, const size_t *send_counts, void *recv, const size_t *recv_counts, enum ddl_type type,
			struct ddl_comm *comm);
int ddl_gather(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm);
int ddl_gather_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm);
int ddl_scatter(const void *send, void *recv, size_t count, enum ddl_type type, int root, struct ddl_comm *comm);
int ddl_scatter_counts(const void *send, void *recv, const size_t *counts, enum ddl_type type, int root, struct ddl_comm *comm);
int ddl_send(const void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm);
int ddl_recv(void *buffer, size_t count, enum ddl_type type, int peer, uint32_t tag, struct ddl_comm *comm);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
