/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c - the public calls on requests that exist: started, asked, waited for, freed.
 */
#include <errno.h>

#include "engine.h"

int ddl_start(struct ddl_request *request)
{
	struct ddl_comm *comm = request->comm;
	int rc = atomic_load(&comm->failed);
	if (rc < 0)
		return rc;
	if (atomic_load(&request->active))
		return -EINVAL;
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

int ddl_test(struct ddl_request *request)
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

int ddl_wait(struct ddl_request *request)
{
	if (!state(request))
		ddl__engine_wait(request->comm, settled, request, 0, false);
	int rc = state(request);
	return rc < 0 ? rc : 0;
}

int ddl_request_free(struct ddl_request *request)
{
	if (!request || atomic_load(&request->comm->forked))
		return 0;
	if (atomic_load(&request->active)) {
		if (!atomic_load(&request->comm->failed))
			return -EINVAL;
		ddl__engine_settle(request->comm);
	}
	ddl__request_destroy(request);
	return 0;
}
