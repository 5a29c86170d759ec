/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c - the requests behind the blocking calls.
 *
 * They are kept by what all ranks that take part agree on (collective, counts, type, operation, root), never by buffer addresses:
 * so all ranks hit or miss together, and evict the same one. Two ranks that send and receive cannot know what the others call, so
 * each channel has a small cache of its own. An all-to-all by counts has other counts on every rank, and is made anew each time.
 */
#include <errno.h>

#include "ask.h"
#include "cache.h"
#include "channel.h"
#include "log.h"

/* The slot that holds such a request, else a free one, else the one that was used longest ago. */
static struct ddl__cached *find(struct ddl__cached *cache, size_t n, const struct ddl__call *call, bool *hit)
{
	struct ddl__cached *oldest = &cache[0];
	*hit = false;
	for (size_t i = 0; i < n; i++) {
		struct ddl__cached *c = &cache[i];
		const struct ddl__call *have = c->request ? &c->request->call : NULL;
		if (have && have->collective == call->collective && have->count == call->count && have->type == call->type &&
		    have->op == call->op && have->root == call->root && have->counts == call->counts) {
			*hit = true;
			return c;
		}
		if (!c->request ? oldest->request != NULL : oldest->request && c->used < oldest->used)
			oldest = c;
	}
	return oldest;
}

static int start_and_wait(struct ddl_request *request)
{
	int rc = ddl_start(request);
	return rc ? rc : ddl_wait(request);
}

/*
 * There is nobody to take err's sentence. Wrong arguments are logged and leave all as it was; of what else keeps this rank from a
 * call that the others make they are told.
 */
static int fail(struct ddl_comm *comm, int rc, const struct ddl_error *err)
{
	if (rc == -EINVAL || rc == -EOPNOTSUPP) {
		ddl__log(DDL__LOG_ERROR, "rank %d on node %s: %s", comm->rank, ddl_comm_node_name(comm, comm->rank), err->text);
		return rc;
	}
	pthread_mutex_lock(&comm->lock);
	ddl__engine_fail(comm, rc, "rank %d on node %s cannot take part in a call: %s", comm->rank,
			 ddl_comm_node_name(comm, comm->rank), err->text);
	pthread_mutex_unlock(&comm->lock);
	ddl__engine_settle(comm);
	return ddl_comm_get_error(comm, NULL);
}

static int run_cached(struct ddl_comm *comm, struct ddl__ask *ask, struct ddl__cached *cache, size_t n, uint64_t *uses)
{
	struct ddl_error err;
	bool hit;
	int rc = 0;
	struct ddl__cached *cached = find(cache, n, &ask->args.call, &hit);
	if (!hit) {
		if (cached->request)
			ddl__request_destroy(cached->request);
		cached->request = NULL;
		rc = ddl__ask_init(comm, ask, NULL, &cached->request, &err);
		if (rc == 0)
			ddl__request_keep(cached->request);
	}
	if (rc < 0)
		return fail(comm, rc, &err);
	cached->used = ++*uses;
	cached->request->send = ask->send;
	cached->request->recv = ask->recv;
	return start_and_wait(cached->request);
}

static int run_once(struct ddl_comm *comm, struct ddl__ask *ask)
{
	struct ddl_request *request;
	struct ddl_error err;
	int rc = ddl__ask_init(comm, ask, NULL, &request, &err);
	if (rc < 0)
		return fail(comm, rc, &err);
	rc = start_and_wait(request);
	ddl_request_free(request);
	return rc;
}

static int run_on_channel(struct ddl_comm *comm, struct ddl__ask *ask)
{
	const struct ddl__request_args *a = &ask->args;
	bool sends = a->call.root == comm->rank;
	pthread_mutex_lock(&comm->lock);
	struct ddl__channel *channel = ddl__channel_get(comm, sends ? a->peer : a->call.root, a->tag, sends);
	pthread_mutex_unlock(&comm->lock);
	if (!channel)
		return fail(comm, -ENOMEM, &(struct ddl_error){ .text = "out of memory for a channel" });
	pthread_mutex_lock(&channel->turn);
	int rc = run_cached(comm, ask, channel->cache, DDL__CHANNEL_CACHE, &channel->uses);
	pthread_mutex_unlock(&channel->turn);
	return rc;
}

int ddl__ask_run(struct ddl_comm *comm, struct ddl__ask *ask)
{
	struct ddl_error err;
	int rc = ddl_comm_get_error(comm, NULL);
	if (rc < 0)
		return rc;
	rc = ddl__ask_check(comm, ask, &err);
	if (rc < 0)
		return fail(comm, rc, &err);
	if (ask->args.call.collective == DDL__SENDRECV)
		return run_on_channel(comm, ask);
	pthread_mutex_lock(&comm->cache_lock);
	if (ask->by_counts && ask->args.call.collective == DDL__ALLTOALL)
		rc = run_once(comm, ask);
	else
		rc = run_cached(comm, ask, comm->cache, DDL__CACHE_SIZE, &comm->uses);
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
	ddl__channels_clear(comm);
}
