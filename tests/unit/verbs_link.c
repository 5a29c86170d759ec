/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_link.c - links over RDMA that cannot be made, or fail: what is said of it on both ranks, that others carry on where there
 * are others, and that nothing is left.
 */
#include "verbs_pair.h"

#include <limits.h>
#include <sys/resource.h>

static void next_fabric(void)
{
	assert_string_equal(fake_verbs_end(), "");
	fake_verbs_begin();
}

static void check_says(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* ---- limits ---- */

static void test_a_device_with_small_queues_is_refused_by_its_name(void **state)
{
	static const struct fake_device cases[] = {
		{ .max_wr = DDL__VERBS_RECEIVES - 1 },
		{ .max_cqe = DDL__VERBS_RECEIVES + DDL__VERBS_SENDS - 1 },
		{ .max_wr = 16, .max_cqe = 16 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddl_error err = { 0 };
		struct rank rank;

		add_devices(1, 1, &cases[i]);
		assert_int_equal(try_open(&rank, 0, 2, NULL, &err), -ENODEV);
		check_says(err.text, "a0");
		check_says(err.text, "and 256 and 384 are needed");
		next_fabric();
	}
}

static void test_a_device_with_just_enough_works(void **state)
{
	const struct fake_device least = {
		.max_wr = DDL__VERBS_RECEIVES,
		.max_cqe = DDL__VERBS_RECEIVES + DDL__VERBS_SENDS,
		.max_sge = 1,
		.max_inline = 1,
	};
	static struct flows flows;
	struct world world;

	add_devices(3, 1, &least);
	ranks_open(&world, 3);
	flows = (struct flows){ .n = 12 };
	for (uint32_t i = 0; i < flows.n; i++) {
		struct ddl__lane lane = lane_of(i, i, 5, 1 + 1000 * i);

		lane.call.rings = 2;
		flows.flow[i] = flow_open(&world, (int)(i % 3), (int)((i + 1) % 3), &lane, 100);
	}
	until(&world, flows_step, &flows);
	assert_int_equal(fake_verbs_counts().cqs, fake_verbs_counts().qps); /* a queue holds one link */
	for (size_t i = 0; i < flows.n; i++)
		flow_close(&flows.flow[i]);
	leave(&world);
}

/* As many links share a completion queue as it has room for. */
static void test_more_links_than_a_completion_queue_takes_get_several(void **state)
{
	static const struct {
		int links; /* that the device's queues take */
		size_t queues;
	} cases[] = { { 1, 24 }, { 2, 12 }, { 3, 8 }, { 5, 8 }, { 6, 4 }, { 100, 4 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct flows flows;
		struct world world;

		add_devices(4, 1, &(struct fake_device){ .max_cqe = cases[i].links * 384 });
		ranks_open(&world, 4);
		flows = (struct flows){ .n = 0 };
		for (int from = 0; from < 4; from++) {
			for (int to = 0; to < 4; to++) {
				for (uint32_t k = 0; k < 2 && from != to; k++) {
					struct ddl__lane lane = lane_of(1, k, 3, 5000);

					lane.call.rings = 2;
					flows.flow[flows.n++] = flow_open(&world, from, to, &lane, 20);
				}
			}
		}
		until(&world, flows_step, &flows);
		assert_int_equal(fake_verbs_counts().qps, 24);
		assert_int_equal(fake_verbs_counts().cqs, cases[i].queues);
		for (size_t k = 0; k < flows.n; k++)
			flow_close(&flows.flow[k]);
		leave(&world);
		next_fabric();
	}
}

/* ---- what cannot be made ---- */

static void test_without_lockable_memory_it_does_not_open_and_says_how_much_is_needed(void **state)
{
	const struct rlimit little = { 1 << 16, 1 << 16 };
	struct ddl_error err = { 0 };
	struct rlimit before;
	struct rank rank;

	getrlimit(RLIMIT_MEMLOCK, &before);
	add_devices(1, 1, &(struct fake_device){ 0 });
	fake_verbs_limit_memory(4096);
	setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ little.rlim_cur, before.rlim_max });
	assert_int_equal(try_open(&rank, 0, 2, NULL, &err), -ENOMEM);
	setrlimit(RLIMIT_MEMLOCK, &before);
	check_says(err.text, " bytes could not be registered with the RDMA device a0");
	check_says(err.text, "64 KiB may be locked");
	check_says(err.text, "LimitMEMLOCK=infinity");
	check_says(err.text, "PropagateResourceLimitsExcept=MEMLOCK");
}

static void test_without_memory_for_slots_a_lane_does_not_open_and_the_next_does(void **state)
{
	struct ddl__lane large = lane_of(1, 0, 64, DDL__SLOT_BYTES_MAX), small = lane_of(2, 0, 4, 1000);
	struct ddl_error err = { 0 };
	struct ddl__rx *rx;
	struct ddl__tx *tx;
	struct world world;
	struct flow flow;

	two_ranks(&world, 1);
	fake_verbs_limit_memory(64 << 20);
	assert_int_equal(OPS->rx_open(world.rank[0].transport, 1, &large, &rx, &err), -ENOMEM);
	check_says(err.text, "bytes could not be registered with the RDMA device a0");
	memset(&err, 0, sizeof(err));
	assert_int_equal(OPS->tx_open(world.rank[0].transport, 1, &large, &tx, &err), -ENOMEM);
	check_says(err.text, "bytes could not be registered with the RDMA device a0");
	flow = flow_open(&world, 0, 1, &small, 20);
	until(&world, flow_step, &flow);
	flow_close(&flow);
	leave(&world);
}

enum lack {
	NO_QP,
	NO_CQ,
	NO_RECEIVES,
	NO_MEMORY,
	N_LACKS,
};

static const char *const lacks[] = {
	[NO_QP] = "no queue pair: ",
	[NO_CQ] = "no completion queue: ",
	[NO_RECEIVES] = "its queue pair does not begin: ",
	[NO_MEMORY] = "bytes could not be registered with the RDMA device a0",
};

/* From now on rank 0 does not get what a link needs. */
static void take_away(enum lack lack)
{
	switch (lack) {
	case NO_QP:
		fake_verbs_fail_qp(4, ENOMEM); /* it is asked for with less and less inline */
		break;
	case NO_CQ:
		fake_verbs_fail_cq(1, ENOMEM);
		break;
	default:
		fake_verbs_fail_post("a0", 0, 1, ENOMEM);
	}
}

static bool both_lost(void *context)
{
	struct world *world = context;

	return world->rank[0].n_lost && world->rank[1].n_lost;
}

static bool rank_0_up(void *context)
{
	return link_on(context, 0, 0)->link.state == DDL__LINK_UP;
}

enum { PIECES = 1024 };

/* No more memory can be registered, and what rank 0 has is in use. */
static void use_up(struct world *world, struct ddl__verbs_piece *pieces)
{
	fake_verbs_limit_memory(fake_verbs_counts().bytes);
	for (size_t i = 0; i < PIECES; i++)
		if (ddl__verbs_memory_get(verbs_at(world, 0)->memory, 1 << 14, &pieces[i], NULL))
			return;
	fail_msg("there is more than %d pieces", PIECES);
}

static void test_a_link_that_cannot_be_made_is_a_loss_that_both_understand(void **state)
{
	for (enum lack lack = NO_QP; lack < N_LACKS; lack++) {
		static struct ddl__verbs_piece pieces[PIECES];
		struct ddl__lane lane = lane_of(1, 0, 4, 1000);
		struct world world;
		struct flow flow;
		int who = 0; /* either may be up first, and find out */

		two_ranks(&world, 1);
		flow = flow_open(&world, 0, 1, &lane, 2);
		memset(pieces, 0, sizeof(pieces));
		if (lack == NO_MEMORY)
			use_up(&world, pieces);
		else
			take_away(lack);
		until(&world, both_lost, &world);
		if (lack == NO_QP || lack == NO_CQ)
			who = !strstr(world.rank[0].detail[1], "RDMA to it over a0 port 1 cannot be set up: ");
		check_says(world.rank[who].detail[!who],
			   who ? "RDMA to it over b0 port 1 cannot" : "RDMA to it over a0 port 1 cannot");
		check_says(world.rank[who].detail[!who], lacks[lack]);
		check_says(world.rank[!who].detail[who], who ? "RDMA from its b0 port 1 cannot" : "RDMA from its a0 port 1 cannot");
		check_says(world.rank[!who].detail[who], lacks[lack]);
		for (int i = 0; i < 2; i++)
			assert_int_equal(world.rank[i].lost[!i], -EHOSTUNREACH);
		for (size_t i = 0; i < PIECES; i++)
			ddl__verbs_memory_put(verbs_at(&world, 0)->memory, &pieces[i]);
		flow_close(&flow);
		world_close(&world);
		next_fabric();
	}
}

static void test_where_one_rail_cannot_be_made_another_serves(void **state)
{
	for (enum lack lack = NO_QP; lack < NO_MEMORY; lack++) {
		struct flows flows = { .n = 2 };
		struct world world;

		two_ranks(&world, 2);
		take_away(lack);
		for (uint32_t i = 0; i < 2; i++) { /* both over rail 0 */
			struct ddl__lane lane = lane_of(1, 2 * i, 4, 1000);

			flows.flow[i] = flow_open(&world, (int)i, (int)!i, &lane, 50);
		}
		until(&world, flows_step, &flows);
		assert_true(rank_0_up(&world) == false);
		assert_int_equal(link_on(&world, 0, 1)->link.state, DDL__LINK_UP);
		for (uint32_t i = 0; i < 2; i++)
			flow_close(&flows.flow[i]);
		leave(&world);
		next_fabric();
	}
}

/* Over RoCE a queue pair is joined when the network has told the peer's hardware address. What is asked, or told, may be lost. */
static void test_a_queue_pair_that_cannot_be_joined_yet_is_joined_later(void **state)
{
	for (int late = 0; late < 3; late++) {
		struct ddl__lane there = lane_of(1, 0, 4, 1000), back = lane_of(2, 0, 4, 1000);
		struct flows flows = { .n = 2 };
		struct world world;

		two_ranks(&world, 1);
		if (late != 1)
			fake_verbs_fail_join("a0", 3, ETIMEDOUT);
		if (late != 0)
			fake_verbs_fail_join("b0", 5, ETIMEDOUT);
		flows.flow[0] = flow_open(&world, 0, 1, &there, 50);
		flows.flow[1] = flow_open(&world, 1, 0, &back, 50);
		until(&world, flows_step, &flows);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(world.rank[i].n_lost, 0);
			flow_close(&flows.flow[i]);
		}
		leave(&world);
		next_fabric();
	}
}

static void test_what_another_try_does_not_mend_is_not_tried_again(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 1000);
	struct world world;
	struct flow flow;

	two_ranks(&world, 1);
	fake_verbs_fail_join("a0", 1, ENETUNREACH);
	flow = flow_open(&world, 0, 1, &lane, 2);
	until(&world, both_lost, &world);
	check_says(world.rank[0].detail[1], "its queue pair cannot be joined to the peer's: Network is unreachable");
	check_says(world.rank[1].detail[0], "RDMA from its a0 port 1 cannot be set up: its queue pair cannot be joined");
	flow_close(&flow);
	world_close(&world);
}

/* rails: 1, a loss of the peer; 2, the other one serves. */
static void give_up_joining(unsigned rails)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 1000);
	struct world world;
	struct flow flow;

	two_ranks(&world, rails);
	fake_verbs_fail_join("a0", UINT_MAX, ETIMEDOUT);
	verbs_at(&world, 0)->mesh.timeout_ms = 100;
	flow = flow_open(&world, 0, 1, &lane, 50);
	if (rails == 1) {
		until(&world, both_lost, &world);
		check_says(world.rank[0].detail[1], "nobody on that port's network answers for the peer's address 10.99.2.1");
		check_says(world.rank[1].detail[0], "RDMA from its a0 port 1 cannot be set up: its queue pair cannot be joined");
	} else {
		until(&world, flow_step, &flow);
		assert_int_equal(link_on(&world, 0, 0)->link.state, DDL__LINK_DOWN);
	}
	flow_close(&flow);
	if (rails == 1)
		world_close(&world);
	else
		leave(&world);
}

static void test_a_queue_pair_that_is_never_joined_is_given_up(void **state)
{
	give_up_joining(1);
}

static void test_and_another_rail_serves_where_there_is_one(void **state)
{
	give_up_joining(2);
}

static bool rank_0_joining(void *context)
{
	return link_on(context, 0, 0)->join_until_ns != 0;
}

/* A queue pair that is not joined yet holds nobody up who leaves. */
static void test_ranks_may_leave_while_a_queue_pair_is_being_joined(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 1000);
	struct world world;
	struct flow flow;

	two_ranks(&world, 1);
	fake_verbs_fail_join("a0", UINT_MAX, ETIMEDOUT);
	flow = flow_open(&world, 0, 1, &lane, 2);
	until(&world, rank_0_joining, &world);
	flow_close(&flow);
	leave(&world);
	for (int i = 0; i < 2; i++)
		assert_int_equal(world.rank[i].n_lost, 0);
}

/* ---- what fails ---- */

enum fault {
	UNANSWERED,
	REMOTE_ACCESS,
	LOCAL_PROTECTION,
	ODD,
	WRONG_KEY,
	FLUSHED,
	PORT_DOWN,
	DEVICE_FATAL,
	QP_FATAL,
	CQ_FAILED,
	NO_SENDS,
	NO_MORE_RECEIVES,
	N_FAULTS,
};

static const struct {
	const char *there; /* rank 0, whose rail 0 it is */
	const char *back;  /* rank 1 */
} said[] = {
	[UNANSWERED] = { "nothing was heard of the peer in 7 tries (transport retry counter exceeded)", NULL },
	[REMOTE_ACCESS] = { "remote access error (vendor's code 0x", NULL },
	[LOCAL_PROTECTION] = { "local protection error (vendor's code 0x", NULL },
	[ODD] = { "general error (vendor's code 0x", NULL },
	[WRONG_KEY] = { "", "it was sent a write to memory that it does not grant" },
	[FLUSHED] = { "its queue pair went into the error state", NULL },
	[PORT_DOWN] = { "that port is down", NULL },
	[DEVICE_FATAL] = { "the device failed", NULL },
	[QP_FATAL] = { "its queue pair failed", NULL },
	[CQ_FAILED] = { "its completion queue failed", NULL },
	[NO_SENDS] = { "its queue pair takes no more work: Cannot allocate memory", NULL },
	[NO_MORE_RECEIVES] = { "its queue pair takes no more receives: Cannot allocate memory", NULL },
};

static void strike(struct world *world, enum fault fault)
{
	struct verbs_link *link = link_on(world, 0, 0);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR, .element.cq = link->queue->cq };
	struct ibv_send_wr wild = { .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { 0x1000, 4711 }, .send_flags = IBV_SEND_SIGNALED };

	switch (fault) {
	case UNANSWERED:
		fake_verbs_cut("a0", 1, "b0", 1, true);
		break;
	case REMOTE_ACCESS:
		fake_verbs_fail_send("a0", 1, IBV_WC_REM_ACCESS_ERR);
		break;
	case LOCAL_PROTECTION:
		fake_verbs_fail_send("a0", 1, IBV_WC_LOC_PROT_ERR);
		break;
	case ODD:
		fake_verbs_fail_send("a0", 1, IBV_WC_GENERAL_ERR);
		break;
	case WRONG_KEY:
		post_raw(link, &wild, &(struct ibv_sge){ (uintptr_t)link->memory.at, 64, link->memory.region->lkey[link->device] });
		break;
	case FLUSHED:
		fake_verbs_api.modify_qp(link->qp, &error, IBV_QP_STATE);
		break;
	case PORT_DOWN:
		fake_verbs_port_state("a0", 1, IBV_PORT_DOWN);
		break;
	case DEVICE_FATAL:
		fake_verbs_event("a0", IBV_EVENT_DEVICE_FATAL, 0);
		break;
	case QP_FATAL:
		fake_verbs_qp_event(link->qp, IBV_EVENT_QP_FATAL);
		break;
	case CQ_FAILED:
		ddl__mesh_enter(&verbs_at(world, 0)->mesh);
		ddl__verbs_event(verbs_at(world, 0), link->port->device, &event);
		ddl__mesh_leave(&verbs_at(world, 0)->mesh);
		break;
	case NO_SENDS:
		fake_verbs_fail_post("a0", 1, 0, ENOMEM);
		break;
	default:
		fake_verbs_fail_post("a0", 0, 1, ENOMEM);
	}
}

struct failing {
	struct world *world;
	struct flows flows;
};

static bool failing_lost(void *context)
{
	struct failing *failing = context;

	flows_step(&failing->flows);
	return both_lost(failing->world);
}

static bool failing_done(void *context)
{
	return flows_step(&((struct failing *)context)->flows);
}

static bool some_came(void *context)
{
	struct failing *failing = context;

	return flows_step(&failing->flows) || failing->flows.flow[0].received >= 7;
}

/* Half of the lanes each way, all over rail 0 or spread over the rails. */
static void failing_open(struct failing *failing, struct world *world, unsigned rails, size_t slices)
{
	two_ranks(world, rails);
	*failing = (struct failing){ .world = world, .flows.n = 8 };
	for (uint32_t i = 0; i < failing->flows.n; i++) {
		struct ddl__lane lane = lane_of(1, i, 4, i < 4 ? 20000 : 100);

		failing->flows.flow[i] = flow_open(world, (int)(i / 2 % 2), (int)(1 - i / 2 % 2), &lane, slices);
	}
	until(world, some_came, failing);
}

static void failing_close(struct failing *failing)
{
	for (size_t i = 0; i < failing->flows.n; i++)
		flow_close(&failing->flows.flow[i]);
}

static void test_every_fault_of_the_only_rail_is_a_loss_that_both_understand(void **state)
{
	for (enum fault fault = UNANSWERED; fault < N_FAULTS; fault++) {
		struct failing failing;
		struct world world;

		failing_open(&failing, &world, 1, 100000);
		strike(&world, fault);
		with_timeouts(&world, failing_lost, &failing);
		for (int i = 0; i < 2; i++)
			assert_int_equal(world.rank[i].n_lost, 1);
		if (fault == WRONG_KEY) { /* rank 1 sees it first, or rank 0 is told */
			check_says(world.rank[1].detail[0], "b0 port 1 failed");
			check_says(world.rank[0].detail[1], "port 1 failed");
		} else if (strstr(world.rank[0].detail[1], "RDMA to it over a0 port 1 failed: ")) {
			check_says(world.rank[0].detail[1], said[fault].there);
			check_says(world.rank[1].detail[0], "RDMA from its a0 port 1 failed: ");
			check_says(world.rank[1].detail[0], said[fault].there);
		} else { /* the other's writes fail as well, and it was first */
			assert_true(fault != NO_SENDS && fault != DEVICE_FATAL && fault != QP_FATAL && fault != CQ_FAILED);
			check_says(world.rank[0].detail[1], "RDMA from its b0 port 1 failed: ");
			check_says(world.rank[1].detail[0], "RDMA to it over b0 port 1 failed: ");
		}
		assert_int_equal(fake_verbs_counts().qps, 0);
		failing_close(&failing);
		world_close(&world);
		next_fabric();
	}
}

/* Either rail's loss: all arrives, each slice once and in order, and links that are made later do not use that rail. */
static void test_every_fault_of_a_rail_is_carried_on_by_another(void **state)
{
	for (enum fault fault = UNANSWERED; fault < N_FAULTS; fault++) {
		struct failing failing;
		struct world world;

		failing_open(&failing, &world, 2, 200);
		strike(&world, fault);
		with_timeouts(&world, failing_done, &failing);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(world.rank[i].n_lost, 0);
			assert_int_equal(world.rank[i].n_moved, 1);
			check_says(world.rank[i].moved, " port 1 failed: ");
			check_says(world.rank[i].moved, i ? "(rail 0, b0:1)" : "(rail 0, a0:1)");
			check_says(world.rank[i].moved, "goes on over rail 1");
		}
		failing_close(&failing);
		leave(&world);
		next_fabric();
	}
}

static void test_a_port_that_is_up_again_is_no_longer_blamed(void **state)
{
	struct failing failing;
	struct world world;

	failing_open(&failing, &world, 1, 100000);
	fake_verbs_port_state("a0", 1, IBV_PORT_DOWN);
	rank_poll(&world.rank[0]);
	assert_int_equal(link_on(&world, 0, 0)->link.state, DDL__LINK_UP); /* it may come back in time */
	fake_verbs_port_state("a0", 1, IBV_PORT_ACTIVE);
	rank_poll(&world.rank[0]);
	strike(&world, FLUSHED);
	with_timeouts(&world, failing_lost, &failing);
	for (int i = 0; i < 2; i++)
		assert_null(strstr(world.rank[i].detail[!i], "is down"));
	failing_close(&failing);
	world_close(&world);
}

static void fail_link(struct world *world, int rank, const char *what)
{
	ddl__mesh_enter(&verbs_at(world, rank)->mesh);
	ddl__verbs_fail(link_on(world, rank, 0), "%s", what);
	ddl__mesh_leave(&verbs_at(world, rank)->mesh);
}

/* The peer may have been the only one with something under way: then it gives up first, and knows least. */
static void test_who_is_told_of_a_fault_says_that_its_own_port_is_down(void **state)
{
	struct failing failing;
	struct world world;

	failing_open(&failing, &world, 1, 100000);
	fake_verbs_port_state("a0", 1, IBV_PORT_DOWN);
	rank_poll(&world.rank[0]);
	fail_link(&world, 1, "nothing was heard");
	until(&world, both_lost, &world);
	check_says(world.rank[0].detail[1], "RDMA from its b0 port 1 failed: nothing was heard; a0 port 1 here is down");
	assert_null(strstr(world.rank[1].detail[0], "is down"));
	failing_close(&failing);
	world_close(&world);
}

static void test_a_port_that_is_down_is_blamed_before_its_device_tells_of_it(void **state)
{
	struct failing failing;
	struct world world;

	failing_open(&failing, &world, 1, 100000);
	fake_verbs_port_state("a0", 1, IBV_PORT_DOWN);
	fail_link(&world, 0, "local QP operation error");
	until(&world, both_lost, &world);
	check_says(world.rank[0].detail[1], "RDMA to it over a0 port 1 failed: local QP operation error; that port is down");
	check_says(world.rank[1].detail[0], "RDMA from its a0 port 1 failed: local QP operation error; that port is down");
	failing_close(&failing);
	world_close(&world);
}

static void test_both_ports_down_is_a_loss(void **state)
{
	struct failing failing;
	struct world world;

	failing_open(&failing, &world, 2, 100000);
	fake_verbs_port_state("a0", 1, IBV_PORT_DOWN);
	rank_poll(&world.rank[0]);
	fake_verbs_port_state("a1", 1, IBV_PORT_DOWN);
	with_timeouts(&world, failing_lost, &failing);
	for (int i = 0; i < 2; i++)
		check_says(world.rank[i].detail[!i], i ? "(rail 1, b1:1)" : "(rail 1, a1:1)");
	failing_close(&failing);
	world_close(&world);
}

/* ---- memory of the caller ---- */

/* Slices that lie in memory, and land in memory, go on over another rail. */
static void test_slices_between_memory_go_on_over_another_rail(void **state)
{
	for (enum fault fault = UNANSWERED; fault < N_FAULTS; fault++) {
		for (size_t at = 0; at < 8; at++) {
			struct ddl__lane lane = lane_of(1, 0, 4, 5000);
			uint64_t random = at + 1;
			struct trade trade;
			struct world world;

			two_ranks(&world, 2);
			trade_open(&trade, &world, &lane, 30);
			trade_hold(&trade);
			until(&world, has_credit, trade.tx);
			for (int k = 0; k < 3; k++) {
				trade_start(&trade);
				until(&world, is_granted, &trade);
				if (k == 1) {
					fake_verbs_delivery(FAKE_BY_STEP, at);
					for (size_t i = 0; i < 2 * at; i++) {
						trade_send(&trade);
						fake_verbs_step(1 + random_next(&random) % 3);
						rank_poll(&world.rank[i % 2]);
						trade_take(&trade);
					}
					strike(&world, fault);
					fake_verbs_delivery(FAKE_AT_ONCE, 1);
				}
				with_timeouts(&world, trade_step, &trade);
				trade_check(&trade);
				if (k == 2 && world.rank[0].n_moved)
					assert_int_equal(trade.placed, trade.n); /* granted anew, by the other device's key */
			}
			trade_close(&trade);
			leave(&world);
			next_fabric();
		}
	}
}

/* The peer took in less than it had said, and the memory is the caller's again: a loss; nothing else is sent in its place. */
static void test_memory_that_was_given_back_is_not_sent_again(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 5000);
	struct ddl__progress progress = { .landed = 2, .released = 2 };
	struct verbs_tx *tx;
	struct trade trade;
	struct world world;

	two_ranks(&world, 2);
	trade_open(&trade, &world, &lane, 3);
	trade_hold(&trade);
	until(&world, has_credit, trade.tx);
	trade_start(&trade);
	until(&world, trade_step, &trade);
	tx = (struct verbs_tx *)trade.tx;
	assert_int_equal(tx->settled, 3);
	tx->credited = 2;
	assert_int_equal(ddl__verbs_resume(&tx->mesh, &progress), -EAGAIN);
	tx->credited = 3;
	trade_close(&trade);
	leave(&world);
}

static void forget(struct world *world, int rank, void **held, uint8_t *memory, size_t bytes)
{
	drop(world, rank, *held);
	*held = NULL;
	OPS->hide(world->rank[rank].transport, &(struct ddl__window){ .memory = memory, .size = bytes });
}

/* A request is over and its memory given back; then its lane moves, and must not grant that memory any more. */
static void test_memory_that_was_given_back_is_not_granted_again(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 5000);
	struct trade trade;
	struct world world;
	struct flow other;

	two_ranks(&world, 2);
	trade_open(&trade, &world, &lane, 3);
	trade_hold(&trade);
	lane.index = 1;
	other = flow_open(&world, 0, 1, &lane, 10);
	until(&world, has_credit, trade.tx);
	until(&world, flow_step, &other);
	trade_start(&trade);
	until(&world, trade_step, &trade);
	OPS->rx_accept(trade.rx, 0, NULL, NULL, 0);
	forget(&world, 1, &trade.held_to, trade.to, trade.n * trade.bytes);
	strike(&world, QP_FATAL);
	other.slices = 100;
	until(&world, flow_step, &other);
	until(&world, has_credit, trade.tx); /* it has moved */
	assert_int_equal(world.rank[1].n_moved, 1);
	assert_int_equal(((struct verbs_tx *)trade.tx)->grant.start, 0);
	flow_close(&other);
	trade_close(&trade);
	leave(&world);
}

/* The communicator failed: the callers' memory is theirs at once, whatever is under way. */
static void test_memory_that_was_let_go_is_not_touched(void **state)
{
	for (int who = 0; who < 2; who++) {
		for (size_t under_way = 0; under_way < 5; under_way++) {
			struct ddl__lane lane = lane_of(1, 0, 8, 4096);
			struct trade trade;
			struct world world;
			uint8_t *guard;

			two_ranks(&world, 1);
			trade_open(&trade, &world, &lane, 8);
			trade_hold(&trade);
			until(&world, has_credit, trade.tx);
			trade_start(&trade);
			until(&world, is_granted, &trade);
			settle(&world);
			fake_verbs_delivery(FAKE_BY_STEP, 1);
			trade_send(&trade);
			fake_verbs_step(under_way);
			OPS->let_go(world.rank[who].transport);
			assert_int_equal(fake_verbs_counts().qps, 1);
			guard = malloc(trade.n * trade.bytes);
			memset(trade.to, 0x55, trade.n * trade.bytes);
			memset(guard, 0x55, trade.n * trade.bytes);
			memset(trade.from, 0xaa, trade.n * trade.bytes);
			fake_verbs_step(SIZE_MAX);
			for (int i = 0; i < 4; i++)
				rank_poll(&world.rank[i % 2]);
			fake_verbs_step(SIZE_MAX);
			if (who == 1)
				assert_memory_equal(trade.to, guard, trade.n * trade.bytes);
			else
				assert_null(memchr(trade.to, 0xaa, trade.n * trade.bytes));
			OPS->abort(world.rank[who].transport, -ECANCELED, "it failed");
			OPS->let_go(world.rank[!who].transport);
			assert_int_equal(fake_verbs_counts().qps, 0);
			trade_close(&trade);
			world_close(&world);
			free(guard);
			next_fabric();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_a_device_with_small_queues_is_refused_by_its_name),
		CASE(test_a_device_with_just_enough_works),
		CASE(test_more_links_than_a_completion_queue_takes_get_several),
		CASE(test_without_lockable_memory_it_does_not_open_and_says_how_much_is_needed),
		CASE(test_without_memory_for_slots_a_lane_does_not_open_and_the_next_does),
		CASE(test_a_link_that_cannot_be_made_is_a_loss_that_both_understand),
		CASE(test_where_one_rail_cannot_be_made_another_serves),
		CASE(test_a_queue_pair_that_cannot_be_joined_yet_is_joined_later),
		CASE(test_what_another_try_does_not_mend_is_not_tried_again),
		CASE(test_a_queue_pair_that_is_never_joined_is_given_up),
		CASE(test_and_another_rail_serves_where_there_is_one),
		CASE(test_ranks_may_leave_while_a_queue_pair_is_being_joined),
		CASE(test_every_fault_of_the_only_rail_is_a_loss_that_both_understand),
		CASE(test_every_fault_of_a_rail_is_carried_on_by_another),
		CASE(test_a_port_that_is_up_again_is_no_longer_blamed),
		CASE(test_who_is_told_of_a_fault_says_that_its_own_port_is_down),
		CASE(test_a_port_that_is_down_is_blamed_before_its_device_tells_of_it),
		CASE(test_both_ports_down_is_a_loss),
		CASE(test_slices_between_memory_go_on_over_another_rail),
		CASE(test_memory_that_was_given_back_is_not_sent_again),
		CASE(test_memory_that_was_given_back_is_not_granted_again),
		CASE(test_memory_that_was_let_go_is_not_touched),
	};

	return cmocka_run_group_tests_name("verbs_link", tests, NULL, NULL);
}
