/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_api.c - the library as it is opened, and what the fabric in one process (fake_verbs.h) does in its place. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fake_verbs.h"

static const struct ddl__verbs_api *const v = &fake_verbs_api;

#define QUEUE  8  /* places of a queue */
#define INLINE 32 /* bytes that may be inline */
#define BYTES  4096

struct end { /* one side of a connection */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t memory[BYTES];
	union ibv_gid gid;
	uint16_t lid;
	bool ethernet;
};

static struct ibv_context *open_named(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int n;

	list = v->get_device_list(&n);
	for (int i = 0; i < n; i++)
		if (!strcmp(v->get_device_name(list[i]), name))
			context = v->open_device(list[i]);
	v->free_device_list(list);
	return context;
}

static void open_end(struct end *end, const char *name)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = QUEUE,
						  .max_recv_wr = QUEUE,
						  .max_send_sge = 2,
						  .max_recv_sge = 1,
						  .max_inline_data = INLINE } };
	struct ibv_port_attr port = { 0 };

	memset(end, 0, sizeof(*end));
	end->context = open_named(name);
	assert_non_null(end->context);
	assert_int_equal(v->query_port(end->context, 1, &port), 0);
	end->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	end->lid = port.lid;
	assert_int_equal(v->query_gid(end->context, 1, end->ethernet ? 1 : 0, &end->gid), 0);
	end->pd = v->alloc_pd(end->context);
	end->channel = v->create_comp_channel(end->context);
	end->cq = v->create_cq(end->context, 4 * QUEUE, end, end->channel, 0);
	assert_non_null(end->cq);
	attr.send_cq = attr.recv_cq = end->cq;
	end->qp = v->create_qp(end->pd, &attr);
	assert_non_null(end->qp);
	end->mr = v->reg_mr(end->pd, end->memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(end->mr);
}

static void close_end(struct end *end)
{
	assert_int_equal(v->destroy_qp(end->qp), 0);
	assert_int_equal(v->destroy_cq(end->cq), 0);
	assert_int_equal(v->destroy_comp_channel(end->channel), 0);
	assert_int_equal(v->dereg_mr(end->mr), 0);
	assert_int_equal(v->dealloc_pd(end->pd), 0);
	assert_int_equal(v->close_device(end->context), 0);
}

static void connect_to(struct end *end, const struct end *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	assert_int_equal(v->modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = peer->qp->qp_num,
				     .rq_psn = 77,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12 };
	attr.ah_attr.port_num = 1;
	attr.ah_attr.dlid = peer->lid;
	attr.ah_attr.is_global = end->ethernet;
	attr.ah_attr.grh.dgid = peer->gid;
	attr.ah_attr.grh.sgid_index = 1;
	assert_int_equal(v->modify_qp(end->qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 3, .rnr_retry = 2, .sq_psn = 77, .max_rd_atomic = 1
	};
	assert_int_equal(v->modify_qp(end->qp, &attr,
				      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					      IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void begin_pair(struct end *a, struct end *b, bool ethernet)
{
	fake_verbs_begin();
	fake_verbs_add(&(struct fake_device){ .name = "one0", .ports[0].ethernet = ethernet });
	fake_verbs_add(&(struct fake_device){ .name = "two0", .ports[0].ethernet = ethernet });
	open_end(a, "one0");
	open_end(b, "two0");
	connect_to(a, b);
	connect_to(b, a);
}

static void end_pair(struct end *a, struct end *b)
{
	close_end(a);
	close_end(b);
	assert_string_equal(fake_verbs_end(), "");
}

static int receive(struct end *end, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)end->memory + BYTES / 2, BYTES / 2, end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return v->post_recv(end->qp, &wr, &bad);
}

static int post(struct end *end, enum ibv_wr_opcode opcode, unsigned flags, size_t bytes, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)end->memory, (uint32_t)bytes, flags & IBV_SEND_INLINE ? 0 : end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 100 + bytes,
				  .sg_list = &sge,
				  .num_sge = bytes ? 1 : 0,
				  .opcode = opcode,
				  .send_flags = flags,
				  .imm_data = 0x01020304,
				  .wr.rdma = { .remote_addr = to, .rkey = rkey } };
	struct ibv_send_wr *bad;

	return v->post_send(end->qp, &wr, &bad);
}

static int write_to(struct end *end, const struct end *peer, unsigned flags, size_t bytes)
{
	return post(end, IBV_WR_RDMA_WRITE, flags, bytes, (uintptr_t)peer->memory, peer->mr->rkey);
}

static struct ibv_wc completion(struct end *end)
{
	struct ibv_wc wc;

	assert_int_equal(v->poll_cq(end->cq, 1, &wc), 1);
	return wc;
}

static void assert_quiet(struct end *end)
{
	struct ibv_wc wc;

	assert_int_equal(v->poll_cq(end->cq, 1, &wc), 0);
}

static void the_library_is_opened_or_it_is_said_what_is_missing(void **state)
{
	struct ddl__verbs_api api;
	char why[160] = "";
	int n, rc = ddl__verbs_load(&api, why, sizeof(why));

	if (rc) {
		assert_non_null(strstr(why, "libibverbs"));
		return;
	}
	assert_non_null(api.post_send);
	assert_string_equal(api.wc_status_str(IBV_WC_SUCCESS), "success");
	struct ibv_device **list = api.get_device_list(&n); /* NULL with ENOSYS where the kernel has no RDMA */
	if (list)
		api.free_device_list(list);
}

static void writes_and_sends_arrive(void **state)
{
	struct end a, b;
	struct ibv_wc wc;

	for (int ethernet = 0; ethernet < 2; ethernet++) {
		begin_pair(&a, &b, ethernet);
		memset(a.memory, 0x5a, BYTES);
		assert_int_equal(write_to(&a, &b, IBV_SEND_SIGNALED, 100), 0);
		assert_int_equal(b.memory[99], 0x5a);
		assert_int_equal(b.memory[100], 0);
		assert_quiet(&b);
		wc = completion(&a);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
		assert_int_equal(wc.wr_id, 200);

		assert_int_equal(receive(&b, 7), 0);
		assert_int_equal(post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_INLINE, 16, (uintptr_t)b.memory + 512, b.mr->rkey),
				 0);
		memset(a.memory, 0, 16); /* inline: it was copied */
		wc = completion(&b);
		assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.imm_data, 0x01020304);
		assert_int_equal(wc.byte_len, 16);
		assert_int_equal(wc.wr_id, 7);
		assert_int_equal(b.memory[527], 0x5a);

		assert_int_equal(receive(&b, 8), 0);
		assert_int_equal(post(&a, IBV_WR_SEND, IBV_SEND_SIGNALED, 64, 0, 0), 0);
		wc = completion(&b);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, 64);
		assert_int_equal(b.memory[BYTES / 2 + 63], 0x5a);
		completion(&a);
		end_pair(&a, &b);
	}
}

static void a_credit_is_a_write_of_nothing(void **state)
{
	struct end a, b;

	begin_pair(&a, &b, true);
	assert_int_equal(receive(&b, 1), 0);
	assert_int_equal(post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_INLINE, 0, 0, 0), 0);
	assert_int_equal(completion(&b).byte_len, 0);
	end_pair(&a, &b);
}

static void places_are_free_when_a_completion_was_polled(void **state)
{
	struct end a, b;
	int rc;

	begin_pair(&a, &b, true);
	for (int i = 0; i < QUEUE; i++)
		assert_int_equal(write_to(&a, &b, i == QUEUE - 1 ? IBV_SEND_SIGNALED : 0, 8), 0);
	rc = write_to(&a, &b, 0, 8);
	assert_int_equal(rc, ENOMEM); /* all is written, but nothing is known of it */
	completion(&a);
	assert_int_equal(write_to(&a, &b, 0, 8), 0);
	for (int i = 0; i < QUEUE; i++)
		assert_int_equal(receive(&b, 1), 0);
	assert_int_equal(receive(&b, 1), ENOMEM);
	end_pair(&a, &b);
}

static void memory_is_reached_by_its_key_alone(void **state)
{
	static const struct {
		int64_t offset;
		size_t bytes;
		int wrong_key;
		bool fails;
	} cases[] = {
		{ 0, BYTES, 0, false }, { 1, BYTES, 0, true },      { -1, 1, 0, true },
		{ 0, 1, 1, true },      { BYTES - 1, 1, 0, false }, { BYTES, 1, 0, true },
	};
	struct ibv_async_event event;
	struct end a, b;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin_pair(&a, &b, true);
		assert_int_equal(receive(&b, 1), 0);
		assert_int_equal(post(&a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, cases[i].bytes,
				      (uintptr_t)b.memory + (uint64_t)cases[i].offset,
				      cases[i].wrong_key ? b.mr->lkey : b.mr->rkey),
				 0);
		assert_int_equal(completion(&a).status, cases[i].fails ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
		if (cases[i].fails) { /* the other end fails too */
			assert_int_equal(a.qp->state, IBV_QPS_ERR);
			assert_int_equal(completion(&b).status, IBV_WC_WR_FLUSH_ERR);
			assert_int_equal(v->get_async_event(b.context, &event), 0);
			assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
			assert_ptr_equal(event.element.qp, b.qp);
			v->ack_async_event(&event);
		}
		end_pair(&a, &b);
	}
}

static void local_memory_is_checked_too(void **state)
{
	struct end a, b;
	struct ibv_mr *mr;

	begin_pair(&a, &b, true);
	mr = a.mr;
	a.mr = v->reg_mr(a.pd, a.memory, 16, 0);
	assert_int_equal(write_to(&a, &b, IBV_SEND_SIGNALED, 16), 0);
	assert_int_equal(completion(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(write_to(&a, &b, 0, 17), 0);
	assert_int_equal(write_to(&a, &b, 0, 16), 0); /* in the error state: flushed */
	assert_int_equal(completion(&a).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(completion(&a).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(v->dereg_mr(a.mr), 0);
	a.mr = mr;
	end_pair(&a, &b);
}

static void without_a_receive_it_waits_or_is_given_up(void **state)
{
	struct end a, b;

	begin_pair(&a, &b, true);
	assert_int_equal(post(&a, IBV_WR_SEND, IBV_SEND_SIGNALED, 8, 0, 0), 0);
	fake_verbs_timeouts(2);
	assert_quiet(&a);
	assert_int_equal(receive(&b, 1), 0);
	assert_int_equal(completion(&b).status, IBV_WC_SUCCESS);
	assert_int_equal(completion(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(post(&a, IBV_WR_SEND, 0, 8, 0, 0), 0);
	fake_verbs_timeouts(3);
	assert_int_equal(completion(&a).status, IBV_WC_RNR_RETRY_EXC_ERR);
	end_pair(&a, &b);
}

static void a_cut_wire_is_noticed_by_retries(void **state)
{
	struct end a, b;

	begin_pair(&a, &b, true);
	fake_verbs_cut("one0", 1, "two0", 1, true);
	a.memory[0] = 1;
	assert_int_equal(write_to(&a, &b, IBV_SEND_SIGNALED, 8), 0);
	fake_verbs_timeouts(3);
	assert_quiet(&a);
	fake_verbs_cut("one0", 1, "two0", 1, false);
	assert_int_equal(completion(&a).status, IBV_WC_SUCCESS);
	/* the way back: what was written is there, but nobody knows */
	fake_verbs_cut("two0", 1, "one0", 1, true);
	a.memory[0] = 2;
	assert_int_equal(write_to(&a, &b, 0, 8), 0);
	assert_int_equal(b.memory[0], 2);
	fake_verbs_timeouts(3);
	assert_quiet(&a);
	fake_verbs_timeouts(1);
	assert_int_equal(completion(&a).status, IBV_WC_RETRY_EXC_ERR);
	end_pair(&a, &b);
}

static void a_port_that_goes_down_tells(void **state)
{
	struct ibv_async_event event;
	struct ibv_port_attr port = { 0 };
	struct end a, b;

	begin_pair(&a, &b, false);
	fake_verbs_port_state("two0", 1, IBV_PORT_DOWN);
	assert_int_equal(v->query_port(b.context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	assert_int_equal(v->get_async_event(b.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(event.element.port_num, 1);
	v->ack_async_event(&event);
	assert_int_equal(write_to(&a, &b, IBV_SEND_SIGNALED, 8), 0);
	fake_verbs_timeouts(4);
	assert_int_equal(completion(&a).status, IBV_WC_RETRY_EXC_ERR);
	end_pair(&a, &b);
}

static void a_request_is_made_to_fail(void **state)
{
	struct end a, b;

	begin_pair(&a, &b, true);
	fake_verbs_fail_send("one0", 2, IBV_WC_REM_OP_ERR);
	assert_int_equal(write_to(&a, &b, IBV_SEND_SIGNALED, 8), 0);
	assert_int_equal(write_to(&a, &b, 0, 9), 0);
	assert_int_equal(completion(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(completion(&a).status, IBV_WC_REM_OP_ERR);
	assert_int_equal(a.qp->state, IBV_QPS_ERR);
	end_pair(&a, &b);
}

static void whoever_sleeps_is_woken(void **state)
{
	struct pollfd wait = { .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	struct end a, b;

	begin_pair(&a, &b, true);
	wait.fd = b.channel->fd;
	assert_int_equal(fcntl(wait.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(v->get_cq_event(b.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(receive(&b, 1), 0);
	assert_int_equal(receive(&b, 2), 0);
	assert_int_equal(post(&a, IBV_WR_SEND, 0, 8, 0, 0), 0);
	assert_int_equal(poll(&wait, 1, 0), 0); /* not armed */
	assert_int_equal(v->req_notify_cq(b.cq, 0), 0);
	assert_int_equal(poll(&wait, 1, 0), 0); /* what was there before does not count */
	assert_int_equal(post(&a, IBV_WR_SEND, 0, 8, 0, 0), 0);
	assert_int_equal(poll(&wait, 1, 0), 1);
	assert_int_equal(v->get_cq_event(b.channel, &cq, &context), 0);
	assert_ptr_equal(cq, b.cq);
	assert_ptr_equal(context, &b);
	assert_int_equal(poll(&wait, 1, 0), 0);
	v->ack_cq_events(cq, 1);
	/* one that nobody fetched goes with its queue */
	assert_int_equal(v->req_notify_cq(b.cq, 0), 0);
	assert_int_equal(receive(&b, 3), 0);
	assert_int_equal(post(&a, IBV_WR_SEND, 0, 8, 0, 0), 0);
	end_pair(&a, &b);
}

static void states_and_masks_are_checked(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct end a, b;

	fake_verbs_begin();
	fake_verbs_add_simple((const char *const[]){ "one0", "two0" }, 2);
	open_end(&a, "one0");
	open_end(&b, "two0");
	assert_int_equal(receive(&a, 1), EINVAL);
	assert_int_equal(write_to(&a, &b, 0, 8), EINVAL);
	assert_int_equal(v->modify_qp(a.qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 2;
	assert_int_equal(v->modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), EINVAL);
	attr.port_num = 1;
	assert_int_equal(v->modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), EINVAL);
	assert_int_equal(v->modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(receive(&a, 1), 0);
	end_pair(&a, &b);
}

static void registering_is_made_to_fail(void **state)
{
	struct ibv_mr *mr;
	struct end a, b;

	begin_pair(&a, &b, true);
	assert_null(v->reg_mr(a.pd, a.memory, 8, IBV_ACCESS_REMOTE_WRITE)); /* nobody may write who may not write here */
	assert_int_equal(errno, EINVAL);
	fake_verbs_fail_reg("two0", 1, ENOMEM);
	mr = v->reg_mr(a.pd, a.memory, 8, 0);
	assert_non_null(mr);
	assert_int_equal(v->dereg_mr(mr), 0);
	assert_null(v->reg_mr(b.pd, b.memory, 8, 0));
	assert_int_equal(errno, ENOMEM);
	fake_verbs_limit_memory(2 * BYTES + 100);
	mr = v->reg_mr(b.pd, b.memory, 100, 0);
	assert_non_null(mr);
	assert_null(v->reg_mr(b.pd, b.memory, 1, 0));
	assert_int_equal(fake_verbs_counts().bytes, 2 * BYTES + 100);
	assert_int_equal(v->dereg_mr(mr), 0);
	end_pair(&a, &b);
}

static void what_is_left_or_misused_is_told(void **state)
{
	struct ibv_context *context;
	struct ibv_pd *pd;

	fake_verbs_begin();
	fake_verbs_add_simple((const char *const[]){ "one0" }, 1);
	context = open_named("one0");
	assert_string_equal(fake_verbs_end(), "left open: 1 devices");
	fake_verbs_begin();
	fake_verbs_add_simple((const char *const[]){ "one0" }, 1);
	context = open_named("one0");
	pd = v->alloc_pd(context);
	assert_int_equal(v->close_device(context), EBUSY);
	assert_int_equal(v->dealloc_pd(pd), 0);
	assert_int_equal(v->close_device(context), 0);
	assert_string_equal(fake_verbs_end(), "one0 is closed with 1 objects that were made of it");
}

static void steps_keep_the_order_of_each_queue_pair(void **state)
{
	struct end a, b;
	struct ibv_wc wc;

	begin_pair(&a, &b, true);
	fake_verbs_delivery(FAKE_BY_STEP, 3);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(receive(&a, (uint64_t)i), 0);
		assert_int_equal(receive(&b, (uint64_t)i), 0);
		assert_int_equal(post(&a, IBV_WR_SEND, IBV_SEND_INLINE, (size_t)i, 0, 0), 0);
		assert_int_equal(post(&b, IBV_WR_SEND, IBV_SEND_INLINE, (size_t)i, 0, 0), 0);
	}
	assert_quiet(&a);
	assert_quiet(&b);
	assert_int_equal(fake_verbs_step(3), 3);
	assert_int_equal(fake_verbs_counts().delivered, 3);
	while (fake_verbs_step(1))
		;
	for (unsigned i = 0; i < 4; i++) {
		wc = completion(&a);
		assert_int_equal(wc.byte_len, i);
		wc = completion(&b);
		assert_int_equal(wc.byte_len, i);
	}
	end_pair(&a, &b);
}

#define MANY 2000

static void *send_many(void *argument) /* returns what went wrong, NULL nothing */
{
	struct end *end = argument;
	struct ibv_wc wc;

	for (int sent = 0, done = 0; done < MANY;) {
		if (sent < MANY && post(end, IBV_WR_SEND, IBV_SEND_SIGNALED, 8, 0, 0) == 0)
			sent++;
		else
			sched_yield();
		while (v->poll_cq(end->cq, 1, &wc) == 1) {
			if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_SEND)
				return "a send failed";
			done++;
		}
	}
	return NULL;
}

static void threads_share_the_fabric(void **state)
{
	pthread_t thread;
	struct end a, b;
	void *wrong;

	begin_pair(&a, &b, true);
	fake_verbs_delivery(FAKE_BY_THREAD, 5);
	for (int i = 0; i < QUEUE; i++)
		assert_int_equal(receive(&b, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, send_many, &a), 0);
	for (int received = 0; received < MANY;) {
		struct ibv_wc wc;

		if (v->poll_cq(b.cq, 1, &wc) != 1) {
			sched_yield();
			continue;
		}
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(receive(&b, 0), 0);
		received++;
	}
	pthread_join(thread, &wrong);
	assert_null(wrong);
	assert_int_equal(fake_verbs_counts().delivered, MANY);
	end_pair(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_library_is_opened_or_it_is_said_what_is_missing),
		cmocka_unit_test(writes_and_sends_arrive),
		cmocka_unit_test(a_credit_is_a_write_of_nothing),
		cmocka_unit_test(places_are_free_when_a_completion_was_polled),
		cmocka_unit_test(memory_is_reached_by_its_key_alone),
		cmocka_unit_test(local_memory_is_checked_too),
		cmocka_unit_test(without_a_receive_it_waits_or_is_given_up),
		cmocka_unit_test(a_cut_wire_is_noticed_by_retries),
		cmocka_unit_test(a_port_that_goes_down_tells),
		cmocka_unit_test(a_request_is_made_to_fail),
		cmocka_unit_test(whoever_sleeps_is_woken),
		cmocka_unit_test(states_and_masks_are_checked),
		cmocka_unit_test(registering_is_made_to_fail),
		cmocka_unit_test(what_is_left_or_misused_is_told),
		cmocka_unit_test(steps_keep_the_order_of_each_queue_pair),
		cmocka_unit_test(threads_share_the_fabric),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
