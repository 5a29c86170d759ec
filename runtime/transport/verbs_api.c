/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_api.c - see verbs_api.h.
 *
 * The verbs of the data path are inline in the header and go through the device's own table, so they need no symbol of the library;
 * the others are looked up by name. The library stays open: its providers keep state for the process.
 */
#include "verbs_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libibverbs.so.1"

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ibv_post_recv(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, n, wc);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

struct verb {
	const char *symbol;
	void **entry;   /* of the table */
	bool dispensed; /* may be missing */
};

/* A pointer to a function, as dlsym() gives it: POSIX has it fit into a pointer to an object. */
#define VERB(name, may_lack)                                                                                                       \
	{                                                                                                                          \
		.symbol = "ibv_" #name, .entry = (void **)&api->name, .dispensed = (may_lack)                                      \
	}

int ddl__verbs_load(struct ddl__verbs_api *api, char *why, size_t size)
{
	const struct verb verbs[] = {
		VERB(get_device_list, false),
		VERB(free_device_list, false),
		VERB(get_device_name, false),
		VERB(open_device, false),
		VERB(close_device, false),
		VERB(query_device, false),
		VERB(query_port, false),
		VERB(query_gid, false),
		{ .symbol = "_ibv_query_gid_ex", .entry = (void **)&api->query_gid_ex, .dispensed = true },
		VERB(query_pkey, false),
		VERB(alloc_pd, false),
		VERB(dealloc_pd, false),
		VERB(reg_mr, false),
		VERB(dereg_mr, false),
		VERB(create_comp_channel, false),
		VERB(destroy_comp_channel, false),
		VERB(create_cq, false),
		VERB(destroy_cq, false),
		VERB(get_cq_event, false),
		VERB(ack_cq_events, false),
		VERB(wc_status_str, false),
		VERB(create_qp, false),
		VERB(modify_qp, false),
		VERB(destroy_qp, false),
		VERB(get_async_event, false),
		VERB(ack_async_event, false),
		VERB(fork_init, false),
		VERB(is_fork_initialized, true),
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!library) {
		const char *reason = dlerror();

		/* "libibverbs.so.1: cannot open shared object file: ..." says it; where it is there but does not load, what else */
		snprintf(why, size, "libibverbs is not usable (%s)", reason ? reason : LIBRARY);
		return -ENOENT;
	}
	memset(api, 0, sizeof(*api));
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		*verbs[i].entry = dlsym(library, verbs[i].symbol);
		if (*verbs[i].entry || verbs[i].dispensed)
			continue;
		snprintf(why, size, LIBRARY " lacks %s", verbs[i].symbol);
		return -ENOSYS;
	}
	api->post_send = post_send;
	api->post_recv = post_recv;
	api->poll_cq = poll_cq;
	api->req_notify_cq = req_notify_cq;
	return 0;
}
