/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.c - arguments checked, defaults filled in from the plan, requests made.
 */
#include "ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "choose.h"
#include "error.h"
#include "origin.h"
#include "shape.h"

enum { RAIL_BYTES_MIN = 64 * 1024 }; /* less is not worth a ring of its own */

_Static_assert(DDL__CALL_DIMS >= DDL__CANDIDATE_DIMS, "a call can name a candidate's dimensions");

static bool rooted(uint32_t collective)
{
	return collective == DDL__BROADCAST || collective == DDL__REDUCE || collective == DDL__GATHER || collective == DDL__SCATTER;
}

/* Type, operation, ranks, and that counts are there. */
static int check_words(const struct ddl_comm *comm, const struct ddl__ask *ask, struct ddl_error *err)
{
	const struct ddl__request_args *a = &ask->args;
	if (a->call.collective == DDL__BARRIER)
		return 0;
	if (!ddl_type_size((enum ddl_type)a->call.type))
		return ddl__error_set(err, -EINVAL, "type %u is unknown: use enum ddl_type", a->call.type);
	if (ddl__reduces((enum ddl__collective)a->call.collective) && (a->call.op == 0 || !ddl__op_name((enum ddl_op)a->call.op)))
		return ddl__error_set(err, -EINVAL, "operation %u is unknown: use enum ddl_op", a->call.op);
	if (rooted(a->call.collective) && (a->call.root < 0 || a->call.root >= comm->size))
		return ddl__error_set(err, -EINVAL, "root %d is not a rank from 0 to %d", a->call.root, comm->size - 1);
	if (a->call.collective == DDL__SENDRECV) {
		int other = a->call.root == comm->rank ? a->peer : a->call.root;
		if (other < 0 || other >= comm->size || other == comm->rank)
			return ddl__error_set(err, -EINVAL,
					      "rank %d cannot send to or receive from rank %d: name another rank, 0 to %d",
					      comm->rank, other, comm->size - 1);
	}
	if (ask->by_counts && (!a->counts || (a->call.collective == DDL__ALLTOALL && !a->recv_counts)))
		return ddl__error_set(err, -EINVAL, "the counts are NULL: give an array with a count for each of the %d ranks",
				      comm->size);
	return 0;
}

/* Whether `count` elements fit into memory. */
static bool fits(uint64_t count, size_t size)
{
	return count <= PTRDIFF_MAX / size;
}

/* The buffers: there where they are needed, and apart or in place. */
static int check_buffers(const struct ddl__ask *ask, const struct ddl__shape *s, size_t size, struct ddl_error *err)
{
	const uintptr_t send = (uintptr_t)ask->send, recv = (uintptr_t)ask->recv;
	if (!fits(s->input, size) || !fits(s->output, size))
		return ddl__error_set(err, -EINVAL, "the count %llu is larger than memory",
				      (unsigned long long)(s->input > s->output ? s->input : s->output));
	if ((s->input && !ask->send) || (s->output && !ask->recv))
		return ddl__error_set(err, -EINVAL, "the %s buffer is NULL and its count is not 0",
				      s->input && !ask->send ? "send" : "receive");
	if (s->input == 0 || s->output == 0 || send >= recv + s->output * size || recv >= send + s->input * size)
		return 0;
	const struct ddl__request_args *a = &ask->args;
	bool alike = a->call.collective != DDL__ALLTOALL || !a->counts || s->input == s->output;
	if (alike && send - s->input_at * size == recv - s->output_at * size)
		return 0;
	return ddl__error_set(
		err, -EINVAL,
		"the send and receive buffers overlap: to work in place they must begin %llu and %llu elements into one "
		"memory%s",
		(unsigned long long)s->input_at, (unsigned long long)s->output_at,
		alike ? "" : ", and each rank must send as much to another as it gets from it");
}

/* In place, each block of an all-to-all is replaced by one of the same size. */
static int check_exchange(const struct ddl_comm *comm, const struct ddl__ask *ask, struct ddl_error *err)
{
	const struct ddl__request_args *a = &ask->args;
	for (int r = 0; a->call.collective == DDL__ALLTOALL && a->counts && ask->send == ask->recv && r < comm->size; r++)
		if (a->counts[r] != a->recv_counts[r])
			return ddl__error_set(
				err, -EINVAL,
				"all-to-all in place: %zu elements go to rank %d and %zu come from it: they must be as "
				"many, else use two buffers",
				a->counts[r], r, a->recv_counts[r]);
	return 0;
}

int ddl__ask_check(const struct ddl_comm *comm, struct ddl__ask *ask, struct ddl_error *err)
{
	struct ddl__request_args *a = &ask->args;
	int rc = check_words(comm, ask, err);
	if (rc < 0)
		return rc;
	const struct ddl__build build = { .layout = comm->layout,
					  .rank = comm->rank,
					  .count = a->call.count,
					  .counts = a->counts,
					  .recv_counts = a->recv_counts,
					  .root = a->call.root,
					  .peer = a->peer };
	struct ddl__shape shape;
	if (ddl__shape_of((enum ddl__collective)a->call.collective, &build, &shape) < 0)
		return ddl__error_set(err, -EINVAL, "the counts of all ranks together are larger than memory");
	size_t size = ddl_type_size((enum ddl_type)a->call.type);
	if (a->call.collective != DDL__BARRIER)
		rc = check_buffers(ask, &shape, size, err);
	rc = rc ? rc : check_exchange(comm, ask, err);
	if (rc < 0)
		return rc;
	/* buffers that come later are not held against counts again */
	const bool pairs = ask->by_counts && a->call.collective == DDL__ALLTOALL;
	a->in_place = pairs ? INT64_MIN : (int64_t)((shape.output_at - shape.input_at) * size);
	if (pairs) {
		a->call.counts = 1; /* ranks differ by right: each pair of them agrees on its own */
	} else if (ask->by_counts) {
		a->call.counts = ddl__counts_digest(comm->size, a->counts);
		a->call.count = 0;
		for (int r = 0; r < comm->size; r++)
			a->call.count += a->counts[r];
	}
	return 0;
}

/* What is asked for by name. */
static int take_forced(const struct ddl_comm *comm, enum ddl__collective collective, const char *name,
		       struct ddl__candidate *candidate, struct ddl_error *err)
{
	const struct ddl__options *o = &comm->plan->options;
	int rc = ddl__select(collective, name, candidate, err);
	if (rc < 0 || !ddl__takes_dims(candidate->algorithm))
		return rc;
	return candidate->n_dims ? ddl__dims_check(candidate->dims, candidate->n_dims, comm->size, err)
				 : ddl__dims_check(o->dims, o->n_dims, comm->size, err);
}

/* DDL_ALGO; NULL: it says nothing. */
static const char *environment_names(void)
{
	const char *name = getenv("DDL_ALGO");
	return name && *name ? name : NULL;
}

const char *ddl__ask_forced(const struct ddl_comm *comm)
{
	const char *name = environment_names();
	return name ? name : ddl__select_wanted(&comm->plan->options);
}

/* Bytes of the call's count on its wire. */
static uint64_t wire_bytes(const struct ddl__call *call)
{
	return call->type ? ddl__wire_bytes((enum ddl_wire)call->wire, (enum ddl_type)call->type, call->count) : 0;
}

/*
 * The algorithm and the wire: what is asked for by name (the request's options, DDL_ALGO, --ddl=ring), else what is the fastest of
 * those that keep what is asked of precision. From agreed facts only.
 */
static int choose(const struct ddl_comm *comm, const struct ddl_request_options *o, struct ddl__call *call,
		  struct ddl__candidate *candidate, struct ddl_error *err)
{
	const enum ddl__collective collective = (enum ddl__collective)call->collective;
	const struct ddl__settings *env = &comm->origin->settings;
	const struct ddl__said said = { .wire = o->wire,
					.accuracy = o->accuracy,
					.reproducible = o->reproducible,
					.env_accuracy = env->accuracy,
					.env_reproducible = env->reproducible,
					.plan = &comm->plan->options };
	const bool all = collective == DDL__ALLREDUCE;
	const char *named = o->algorithm && *o->algorithm ? o->algorithm : all ? environment_names() : NULL;
	const char *forced = named || !all ? named : ddl__select_wanted(&comm->plan->options);
	const bool blocks = ddl__has_blocks(collective) && !call->counts; /* by counts it is that of all blocks */
	struct ddl__model model;
	struct ddl__picked picked;
	ddl__model_init(&model, comm->layout);
	struct ddl__pick pick = { .model = &model, .tuning = comm->tuning, .forced = forced ? candidate : NULL };
	int rc = forced ? take_forced(comm, collective, forced, candidate, err) : 0;
	rc = rc ? rc : ddl__choose_ways(&said, call, call->count * (blocks ? (uint64_t)comm->size : 1), &pick, err);
	if (rc < 0)
		return rc;
	rc = ddl__pick(&pick, &picked);
	if (rc < 0 && forced && !named) {
		pick.forced = NULL; /* what the plan names gives way to what is asked of precision */
		rc = ddl__pick(&pick, &picked);
	}
	while (rc < 0 && ddl__choose_relax(&said, &pick))
		rc = ddl__pick(&pick, &picked);
	if (rc < 0) {
		ddl__choose_refuse(&pick, err);
		return -EOPNOTSUPP;
	}
	*candidate = picked.candidate[picked.way];
	call->wire = pick.ways[picked.way].wire;
	call->accuracy = pick.need.narrow || pick.ways[picked.way].rounds ? ddl__said_accuracy(&said) : 0;
	call->in_order = pick.need.in_order;
	return 0;
}

/* Rings where nobody says how many: one a rail, where each has enough to carry between nodes. From agreed facts only. */
static uint32_t default_rings(const struct ddl_comm *comm, const struct ddl__call *call)
{
	uint32_t rails = comm->plan->rails < DDL__RAILS_MAX ? comm->plan->rails : DDL__RAILS_MAX;
	bool blocks = ddl__has_blocks((enum ddl__collective)call->collective) && !call->counts;
	if (rails < 2 || comm->plan->n_nodes < 2)
		return 1;
	return (double)wire_bytes(call) * (blocks ? comm->size : 1) >= (double)rails * RAIL_BYTES_MIN ? rails : 1;
}

/* The caller's options, by a library that may be older or newer than the caller: what it does not know of are the defaults. */
static int read_options(const struct ddl_request_options *given, struct ddl_request_options *o, struct ddl_error *err)
{
	*o = (struct ddl_request_options)DDL_REQUEST_OPTIONS_INIT;
	if (given && given->struct_size < offsetof(struct ddl_request_options, rounding))
		return ddl__error_set(err, -EINVAL, "ddl_request_options is not initialised: start from DDL_REQUEST_OPTIONS_INIT");
	if (given)
		memcpy(o, given, given->struct_size < sizeof(*o) ? given->struct_size : sizeof(*o));
	if (o->rings < 0 || o->rings > (int)DDL__RINGS_MAX || (unsigned)o->wire > DDL_WIRE_INT8)
		return ddl__error_set(err, -EINVAL, "ddl_request_options: rings must be 0 to %d, wire a value of enum ddl_wire",
				      DDL__RINGS_MAX);
	if ((unsigned)o->rounding > DDL_ROUND_STOCHASTIC || (unsigned)o->error_feedback > 1)
		return ddl__error_set(err, -EINVAL,
				      "ddl_request_options: rounding must be a value of enum ddl_rounding, error_feedback 0 or 1");
	if ((unsigned)o->accuracy > DDL_ACCURACY_EXACT || o->reproducible < -1 || o->reproducible > 1)
		return ddl__error_set(
			err, -EINVAL,
			"ddl_request_options: accuracy must be a value of enum ddl_accuracy, reproducible -1, 0 or 1");
	return 0;
}

/* How a wire that rounds is to do it; without one nothing is rounded. */
static void complete_rounding(const struct ddl_request_options *o, struct ddl__call *call)
{
	call->rounding = call->seed = call->feedback = 0;
	if (call->wire == DDL_WIRE_NATIVE)
		return;
	call->rounding = o->rounding;
	call->seed = o->rounding == DDL_ROUND_STOCHASTIC ? o->seed : 0;
	call->feedback = (uint32_t)o->error_feedback;
}

/* The options, completed: the plan's word where the caller has none. */
static int complete_call(const struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl__call *call,
			 struct ddl__candidate *candidate, struct ddl_error *err)
{
	const struct ddl__options *plan = &comm->plan->options;
	struct ddl_request_options o;
	int rc = read_options(options, &o, err);
	if (rc == 0 && o.error_feedback && ddl__reduces((enum ddl__collective)call->collective) && call->op != DDL_SUM &&
	    call->op != DDL_AVG)
		rc = ddl__error_set(err, -EINVAL, "error feedback is for sums and averages, not for %s: set error_feedback to 0",
				    ddl__op_name((enum ddl_op)call->op));
	call->feedback = (uint32_t)o.error_feedback;
	rc = rc ? rc : choose(comm, &o, call, candidate, err);
	if (rc)
		return rc;
	complete_rounding(&o, call);
	call->algorithm = candidate->algorithm->id;
	for (uint32_t i = 0; i < candidate->n_dims; i++)
		call->dims[i] = candidate->dims[i];
	call->rings = o.rings ? (uint32_t)o.rings : plan->rings ? plan->rings : default_rings(comm, call);
	call->priority = o.priority;
	return 0;
}

int ddl__ask_init(struct ddl_comm *comm, struct ddl__ask *ask, const struct ddl_request_options *options,
		  struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__candidate candidate = { 0 };
	struct ddl_request *r;
	int rc = ddl_comm_get_error(comm, err);
	rc = rc ? rc : ddl__ask_check(comm, ask, err);
	rc = rc ? rc : complete_call(comm, options, &ask->args.call, &candidate, err);
	rc = rc ? rc : ddl__request_create(comm, &candidate, &ask->args, &r, err);
	if (rc)
		return rc;
	ddl__request_lay(r, ask->send, ask->recv);
	rc = comm->audit ? ddl__audited_open(r, err) : 0;
	if (rc < 0) {
		ddl__request_destroy(r);
		return rc;
	}
	*request = r;
	return 0;
}
