/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective.c - the public calls on requests: arguments checked, defaults filled in from the plan, requests made, started, waited
 * for.
 *
 * The blocking calls keep their requests by what all ranks agree on (collective, count, type, operation, root), never by buffer
 * addresses: so all ranks hit or miss together, and evict the same one.
 */
#include "collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "error.h"

static int failed(const struct ddl_comm *comm, struct ddl_error *err)
{
	return ddl_comm_get_error(comm, err);
}

/* The options, completed: the plan's word where the caller has none. */
static int complete_call(const struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl__call *call,
			 const struct ddl__algorithm **algorithm, struct ddl_error *err)
{
	static const struct ddl_request_options defaults = DDL_REQUEST_OPTIONS_INIT;
	const struct ddl_request_options *o = options ? options : &defaults;
	const struct ddl__options *plan = &comm->plan->options;
	if (o->struct_size < sizeof(*o))
		return ddl__error_set(err, -EINVAL, "ddl_request_options is not initialised: start from DDL_REQUEST_OPTIONS_INIT");
	if (o->rings < 0 || o->rings > (int)DDL__RINGS_MAX || (unsigned)o->wire > DDL_WIRE_FLOAT16)
		return ddl__error_set(err, -EINVAL, "ddl_request_options: rings must be 0 to %d, wire a value of enum ddl_wire",
				      DDL__RINGS_MAX);
	const char *forced = o->algorithm ? o->algorithm : call->collective == DDL__ALLREDUCE ? getenv("DDL_ALGO") : NULL;
	int rc = ddl__select((enum ddl__collective)call->collective, forced && *forced ? forced : NULL, algorithm, err);
	if (rc < 0)
		return rc;
	enum ddl_wire wire = o->wire ? o->wire : (enum ddl_wire)plan->wire;
	call->algorithm = (*algorithm)->id;
	call->rings = o->rings ? (uint32_t)o->rings : plan->rings ? plan->rings : 1;
	call->priority = o->priority;
	call->wire = call->collective == DDL__ALLREDUCE ? ddl__wire_resolve(wire, (enum ddl_type)call->type) : DDL_WIRE_NATIVE;
	return 0;
}

static int create(struct ddl_comm *comm, struct ddl__call *call, const struct ddl_request_options *options, const void *send,
		  void *recv, struct ddl_request **request, struct ddl_error *err)
{
	const struct ddl__algorithm *algorithm;
	int rc = failed(comm, err);
	if (rc < 0)
		return rc;
	if (call->count && (!send || !recv))
		return ddl__error_set(err, -EINVAL, "a buffer is NULL and the count is not 0");
	if (call->type && call->count > SIZE_MAX / ddl_type_size((enum ddl_type)call->type))
		return ddl__error_set(err, -EINVAL, "the count %llu is larger than memory", (unsigned long long)call->count);
	rc = complete_call(comm, options, call, &algorithm, err);
	rc = rc ? rc : ddl__request_create(comm, algorithm, call, request, err);
	if (rc == 0) {
		(*request)->send = send;
		(*request)->recv = recv;
	}
	return rc;
}

static int allreduce_call(size_t count, enum ddl_type type, enum ddl_op op, struct ddl__call *call, struct ddl_error *err)
{
	*call = (struct ddl__call){ .collective = DDL__ALLREDUCE, .type = type, .op = op, .root = -1, .count = count };
	if (!ddl_type_size(type) || !ddl__op_name(op))
		return ddl__error_set(err, -EINVAL, "type %d or operation %d is unknown: use enum ddl_type and enum ddl_op",
				      (int)type, (int)op);
	return 0;
}

static int broadcast_call(const struct ddl_comm *comm, size_t count, enum ddl_type type, int root, struct ddl__call *call,
			  struct ddl_error *err)
{
	*call = (struct ddl__call){ .collective = DDL__BROADCAST, .type = type, .root = root, .count = count };
	if (!ddl_type_size(type) || root < 0 || root >= comm->size)
		return ddl__error_set(err, -EINVAL, "type %d is unknown or root %d is not a rank from 0 to %d", (int)type, root,
				      comm->size - 1);
	return 0;
}

static struct ddl__call barrier_call(void)
{
	return (struct ddl__call){ .collective = DDL__BARRIER, .root = -1 };
}

int ddl_allreduce_init(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__call call;
	int rc = allreduce_call(count, type, op, &call, err);
	return rc ? rc : create(comm, &call, options, send, recv, request, err);
}

int ddl_broadcast_init(void *buffer, size_t count, enum ddl_type type, int root, struct ddl_comm *comm,
		       const struct ddl_request_options *options, struct ddl_request **request, struct ddl_error *err)
{
	struct ddl__call call;
	int rc = broadcast_call(comm, count, type, root, &call, err);
	return rc ? rc : create(comm, &call, options, buffer, buffer, request, err);
}

int ddl_barrier_init(struct ddl_comm *comm, const struct ddl_request_options *options, struct ddl_request **request,
		     struct ddl_error *err)
{
	struct ddl__call call = barrier_call();
	return create(comm, &call, options, NULL, NULL, request, err);
}

int ddl_start(struct ddl_request *request)
{
	struct ddl_comm *comm = request->comm;
	int rc = atomic_load(&comm->failed);
	if (rc < 0)
		return rc;
	if (atomic_load(&request->active))
		return -EINVAL;
	request->started_ns = ddl__now_ns();
	atomic_store(&request->moved_ns, request->started_ns);
	atomic_store(&request->active, true);
	ddl__engine_submit(comm, request);
	return 0;
}

/* 1: complete or never started; 0: not yet; negative: the communicator failed. */
static int state(const struct ddl_request *request)
{
	int rc = atomic_load(&request->comm->failed);
	return rc ? rc : !atomic_load(&request->active);
}

static bool settled(void *context)
{
	struct ddl_request *request = context;
	if (!atomic_load(&request->active))
		return true;
	ddl__engine_check_deadline(request);
	return false;
}

int ddl_test(struct ddl_request *request)
{
	int rc = state(request);
	if (rc)
		return rc;
	ddl__engine_poke(request->comm);
	if (ddl__engine_overdue(request))
		ddl__engine_wait(request->comm, settled, request, 1, false); /* one pass: fails it */
	return state(request);
}

int ddl_wait(struct ddl_request *request)
{
	if (!state(request))
		ddl__engine_wait(request->comm, settled, request, 0, false);
	int rc = state(request);
	return rc < 0 ? rc : 0;
}

int ddl_request_free(struct ddl_request *request)
{
	if (!request)
		return 0;
	if (atomic_load(&request->active)) {
		if (!atomic_load(&request->comm->failed))
			return -EINVAL;
		ddl__engine_settle(request->comm);
	}
	ddl__request_destroy(request);
	return 0;
}

/* ---- blocking calls ---- */

/* The slot that holds such a request, else a free one, else the one that was used longest ago. */
static struct ddl__cached *cache_slot(struct ddl_comm *comm, const struct ddl__call *call, bool *hit)
{
	struct ddl__cached *oldest = &comm->cache[0];
	*hit = false;
	for (size_t i = 0; i < DDL__CACHE_SIZE; i++) {
		struct ddl__cached *c = &comm->cache[i];
		const struct ddl__call *have = c->request ? &c->request->call : NULL;
		if (have && have->collective == call->collective && have->count == call->count && have->type == call->type &&
		    have->op == call->op && have->root == call->root) {
			*hit = true;
			return c;
		}
		if (!c->request ? oldest->request != NULL : oldest->request && c->used < oldest->used)
			oldest = c;
	}
	return oldest;
}

static int run_blocking(struct ddl_comm *comm, struct ddl__call *call, const void *send, void *recv)
{
	bool hit;
	int rc = 0;
	pthread_mutex_lock(&comm->cache_lock);
	struct ddl__cached *cached = cache_slot(comm, call, &hit);
	if (!hit) {
		if (cached->request)
			ddl__request_destroy(cached->request);
		cached->request = NULL;
		rc = create(comm, call, NULL, send, recv, &cached->request, NULL);
	} else if (call->count && (!send || !recv)) {
		rc = -EINVAL;
	}
	if (rc == 0) {
		cached->used = ++comm->uses;
		cached->request->send = send;
		cached->request->recv = recv;
		rc = ddl_start(cached->request);
		rc = rc ? rc : ddl_wait(cached->request);
	}
	pthread_mutex_unlock(&comm->cache_lock);
	return rc;
}

void ddl__cache_clear(struct ddl_comm *comm)
{
	for (size_t i = 0; i < DDL__CACHE_SIZE; i++) {
		if (comm->cache[i].request)
			ddl__request_destroy(comm->cache[i].request);
		comm->cache[i].request = NULL;
	}
}

int ddl_allreduce(const void *send, void *recv, size_t count, enum ddl_type type, enum ddl_op op, struct ddl_comm *comm)
{
	struct ddl__call call;
	int rc = allreduce_call(count, type, op, &call, NULL);
	return rc ? rc : run_blocking(comm, &call, send, recv);
}

int ddl_broadcast(void *buffer, size_t count, enum ddl_type type, int root, struct ddl_comm *comm)
{
	struct ddl__call call;
	int rc = broadcast_call(comm, count, type, root, &call, NULL);
	return rc ? rc : run_blocking(comm, &call, buffer, buffer);
}

int ddl_barrier(struct ddl_comm *comm)
{
	struct ddl__call call = barrier_call();
	return run_blocking(comm, &call, NULL, NULL);
}
