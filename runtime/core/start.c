/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c - the public calls on requests that exist: given other buffers, started, asked, waited for, freed.
 */
#include <errno.h>

#include "audit.h"
#include "engine.h"
#include "error.h"

int ddl_request_set_buffers(struct ddl_request *request, const void *send, void *recv, struct ddl_error *err)
{
	const uintptr_t in = (uintptr_t)send, out = (uintptr_t)recv;
	const size_t send_bytes = request->send_bytes, recv_bytes = request->recv_bytes;
	if (atomic_load(&request->active) || (request->audited && ddl__audited_finish(request, false) != 1))
		return ddl__error_set(err, -EBUSY, "the request is active: wait for it, then give it other buffers");
	if ((send_bytes && !send) || (recv_bytes && !recv))
		return ddl__error_set(err, -EINVAL, "the %s buffer is NULL, and the request needs %zu bytes there",
				      send_bytes && !send ? "send" : "receive", send_bytes && !send ? send_bytes : recv_bytes);
	if (request->call.collective == DDL__BROADCAST && send != recv)
		return ddl__error_set(err, -EINVAL, "a broadcast has one buffer: give it as both");
	bool apart = !send_bytes || !recv_bytes || in >= out + recv_bytes || out >= in + send_bytes;
	if (!apart && (request->in_place == INT64_MIN || (int64_t)(out - in) != request->in_place))
		return ddl__error_set(err, -EINVAL, "the send and receive buffers overlap: give this request two apart, or %s",
				      request->in_place == INT64_MIN ? "make it anew" : "one memory as its in-place form has it");
	ddl__request_lay(request, send, recv);
	return 0;
}

int ddl_start(struct ddl_request *request)
{
	struct ddl_comm *comm = request->comm;
	int rc = atomic_load(&comm->failed);
	if (rc < 0)
		return rc;
	if (atomic_load(&request->active))
		return -EINVAL;
	if (request->audited && (rc = ddl__audited_start(request)) < 0)
		return rc;
	if (request->watch)
		request->started_ns = ddl__now_ns();
	atomic_store_explicit(&request->moved_ns, ddl__coarse_ns(), memory_order_relaxed);
	atomic_store_explicit(&request->active, true, memory_order_relaxed); /* submit hands it to whoever makes progress */
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

static int test(struct ddl_request *request)
{
	int rc = state(request);
	if (rc)
		return rc;
	ddl__engine_poke(request->comm);
	rc = state(request);
	if (rc)
		return rc;
	ddl__process_progress(request->comm, &(bool){ false });
	if (ddl__engine_overdue(request))
		ddl__engine_wait(request->comm, settled, request, 1, false); /* one pass: fails it */
	return state(request);
}

int ddl_test(struct ddl_request *request)
{
	int rc = test(request);
	return rc == 1 && request->audited ? ddl__audited_finish(request, false) : rc;
}

int ddl_wait(struct ddl_request *request)
{
	if (!state(request))
		ddl__engine_wait(request->comm, settled, request, 0, false);
	int rc = state(request);
	if (rc > 0 && request->audited)
		rc = ddl__audited_finish(request, true);
	return rc < 0 ? rc : 0;
}

int ddl_request_free(struct ddl_request *request)
{
	if (!request || atomic_load(&request->comm->forked))
		return 0;
	if (atomic_load(&request->active) || (request->audited && ddl__audited_active(request))) {
		if (!atomic_load(&request->comm->failed))
			return -EINVAL;
		ddl__engine_settle(request->comm);
	}
	ddl__request_destroy(request);
	return 0;
}
