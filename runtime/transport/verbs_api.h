/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_api.h - the verbs that transport/verbs calls, as a table: libibverbs is opened at run time, so that one build serves nodes
 * with RDMA devices and nodes without, and tests put a fabric of their own there.
 *
 * What is inline in <infiniband/verbs.h> is in the table too, so whoever has a table calls nothing by the name ibv_*. There is
 * nothing here that a provider may lack: no extended completion queues, shared receive queues, on-demand paging.
 *
 * Arguments and results are those of the verb; see ibv_<name>(3). Most return 0 or a positive errno, some NULL or -1 with errno:
 * the verb's page says which.
 *
 * Only built where the header of libibverbs is (DDL_HAVE_VERBS). Elsewhere verbs_absent.c is all there is of the transport.
 */
#ifndef DDL_TRANSPORT_VERBS_API_H
#define DDL_TRANSPORT_VERBS_API_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct ddl__verbs_api {
	/* devices */
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	/* attr: zeroed by the caller; the library of an older build may not know all of it */
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	/* size: of *entry. NULL where the library is older than it (rdma-core 32): then sysfs says of which type a GID is. */
	int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
			    size_t size);
	int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
	/* memory */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *at, size_t bytes, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	/* completions */
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
				    int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int n);
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	const char *(*wc_status_str)(enum ibv_wc_status status);
	/* queue pairs */
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	/* what devices tell by themselves */
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	/* fork */
	int (*fork_init)(void);
	enum ibv_fork_status (*is_fork_initialized)(void); /* NULL where the library is older than it (rdma-core 36) */
};

/*
 * Opens libibverbs for as long as the process lives and fills the table. Returns 0; -ENOENT: there is no such library, -ENOSYS: it
 * lacks a verb; then why (size bytes) gets a clause that says which.
 */
int ddl__verbs_load(struct ddl__verbs_api *api, char *why, size_t size);

#endif
