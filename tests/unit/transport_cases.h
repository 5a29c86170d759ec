/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport_cases.h - what every transport between processes must do. The file that includes this defines OPS before.
 */
#ifndef DDL_TEST_TRANSPORT_CASES_H
#define DDL_TEST_TRANSPORT_CASES_H

#include <pthread.h>

#include "transport_pair.h"

static bool has_slice(void *context)
{
	size_t bytes;

	return OPS->rx_slot(context, &bytes) != NULL;
}

static bool is_lost(void *context)
{
	return ((struct rank *)context)->n_lost > 0;
}

static inline void test_works_here(void **state)
{
	char why[128];

	assert_int_equal(OPS->probe(why, sizeof(why)), 1);
}

static void test_lanes_open_in_any_order(void **state)
{
	struct ddl__lane a = lane_of(1, 0, 4, 1000), b = lane_of(2, 5, 3, 70000);

	for (int lower = 0; lower < 2; lower++) { /* the receiver is the lower rank, or the higher */
		struct flow flow_a = { .ops = OPS, .lane = a, .slices = 500 }, flow_b = { .ops = OPS, .lane = b, .slices = 200 };
		struct world world;
		struct rank *to, *from;

		world_open(&world, OPS, 2);
		to = &world.rank[lower];
		from = &world.rank[!lower];
		flow_a.rx = open_rx(to, !lower, &a);
		flow_a.tx = open_tx(from, lower, &a);
		until(&world, flow_step, &flow_a);
		flow_b.tx = open_tx(from, lower, &b);
		assert_null(OPS->tx_slot(flow_b.tx)); /* no announcement, no credit */
		flow_b.rx = open_rx(to, !lower, &b);
		until(&world, flow_step, &flow_b);
		assert_int_equal(from->n_announced, 2);
		assert_memory_equal(&from->announced, &b, sizeof(b));
		flow_close(&flow_a);
		flow_close(&flow_b);
		leave(&world);
	}
}

static bool heard_two(void *context)
{
	return ((struct rank *)context)->n_announced == 2;
}

static void test_an_announcement_waits_for_its_lane(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 2, 100), other = lane_of(2, 0, 2, 100);
	struct flow flow = { .ops = OPS, .lane = lane, .slices = 10 }, unused;
	struct world world;

	world_open(&world, OPS, 2);
	flow.rx = open_rx(&world.rank[1], 0, &lane);
	unused = flow_open(&world, 0, 1, &other, 1); /* makes the connection, over which both announcements go */
	until(&world, flow_step, &unused);
	until(&world, heard_two, &world.rank[0]);
	flow.tx = open_tx(&world.rank[0], 1, &lane);
	assert_non_null(OPS->tx_slot(flow.tx));
	until(&world, flow_step, &flow);
	flow_close(&flow);
	flow_close(&unused);
	leave(&world);
}

static void test_credits_stop_the_sender(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 5, 4096);
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 0, 1, &lane, 1000);
	flow.stalled = true;
	until(&world, has_credit, flow.tx);
	flow_send(&flow);
	assert_int_equal(flow.sent, 5);
	until(&world, has_slice, flow.rx);
	flow_send(&flow);
	assert_int_equal(flow.sent, 5);
	for (size_t more = 6; more < 9; more++) {
		size_t bytes;
		const void *slot;

		until(&world, has_slice, flow.rx);
		slot = OPS->rx_slot(flow.rx, &bytes);
		check_slice(&flow, slot, bytes);
		OPS->rx_release(flow.rx);
		flow.received++;
		until(&world, has_credit, flow.tx);
		flow_send(&flow);
		assert_int_equal(flow.sent, more);
	}
	flow.stalled = false;
	until(&world, flow_step, &flow);
	flow_close(&flow);
	leave(&world);
}

/* As a request does it: every start sends its slices and waits for nothing but the next start's. */
static void test_credits_that_wait_leave_enough_for_every_start(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 5, 64);
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 0, 1, &lane, 300);
	if (OPS->rx_expect)
		OPS->rx_expect(flow.rx, 3);
	for (size_t start = 1; start <= 100; start++) {
		flow.slices = 3 * start;
		until(&world, flow_step, &flow);
		assert_int_equal(flow.received, 3 * start);
	}
	flow_close(&flow);
	leave(&world);
}

static void test_slices_may_be_empty(void **state)
{
	struct ddl__lane lane = lane_of(7, 0, 1, 0);
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 1, 0, &lane, 1000);
	until(&world, flow_step, &flow);
	assert_true(OPS->tx_flushed(flow.tx));
	flow_close(&flow);
	leave(&world);
}

static void test_a_stalled_lane_blocks_no_other(void **state)
{
	static struct flows flows;
	struct world world;

	world_open(&world, OPS, 2);
	flows = (struct flows){ .n = 24 };
	for (uint32_t i = 0; i < flows.n; i++) {
		struct ddl__lane lane = lane_of(1 + i / 4, i % 4, 1 + i % 8, 1 + 5000 * i);

		lane.call.priority = (int32_t)(i % 3) - 1;
		flows.flow[i] = flow_open(&world, (int)(i % 2), (int)(1 - i % 2), &lane, 100);
		flows.flow[i].stalled = i == 22 || i == 3;
	}
	until(&world, flows_step, &flows);
	assert_int_equal(flows.flow[22].received, 0);
	flows.flow[22].stalled = flows.flow[3].stalled = false;
	until(&world, flows_step, &flows);
	for (size_t i = 0; i < flows.n; i++)
		flow_close(&flows.flow[i]);
	leave(&world);
}

static void test_four_ranks_all_to_all(void **state)
{
	static struct flows flows;
	struct ddl__lane lane = lane_of(1, 0, 3, 50000);
	struct world world;

	world_open(&world, OPS, 4);
	flows = (struct flows){ .n = 0 };
	for (int from = 0; from < 4; from++)
		for (int to = 0; to < 4; to++)
			if (from != to)
				flows.flow[flows.n++] = flow_open(&world, from, to, &lane, 50);
	assert_false(OPS->reaches(world.rank[0].transport, 0));
	assert_true(OPS->reaches(world.rank[0].transport, 3));
	assert_false(OPS->reaches(world.rank[0].transport, 4));
	until(&world, flows_step, &flows);
	for (size_t i = 0; i < flows.n; i++)
		flow_close(&flows.flow[i]);
	leave(&world);
}

static bool step_of_peer(void *context)
{
	return ((struct rank *)context)->n_announced > 0;
}

static void test_a_lane_of_another_shape_is_told_and_gets_no_credit(void **state)
{
	struct ddl__lane ours = lane_of(1, 0, 4, 1000), theirs = lane_of(1, 0, 4, 2000);
	struct world world;
	struct ddl__tx *tx;
	struct ddl__rx *rx;

	theirs.call.count = 4711;
	world_open(&world, OPS, 2);
	tx = open_tx(&world.rank[0], 1, &ours);
	rx = open_rx(&world.rank[1], 0, &theirs);
	until(&world, step_of_peer, &world.rank[0]);
	assert_memory_equal(&world.rank[0].announced, &theirs, sizeof(theirs));
	assert_null(OPS->tx_slot(tx));
	OPS->tx_close(tx);
	OPS->rx_close(rx);
	leave(&world);
}

static void test_lanes_that_cannot_be_are_refused(void **state)
{
	const struct ddl__lane bad[] = {
		lane_of(1, 0, 0, 10),
		lane_of(1, 0, DDL__SLOTS_MAX + 1, 10),
		lane_of(1, 0, 1, DDL__SLOT_BYTES_MAX + 1),
	};
	struct ddl__lane good = lane_of(1, 0, 1, 10);
	struct world world;
	struct ddl__rx *rx, *again;
	struct ddl__tx *tx, *twice;
	struct ddl_error err;

	world_open(&world, OPS, 2);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(OPS->rx_open(world.rank[0].transport, 1, &bad[i], &rx, &err), -EINVAL);
		assert_int_equal(OPS->tx_open(world.rank[0].transport, 1, &bad[i], &tx, &err), -EINVAL);
	}
	assert_int_equal(OPS->rx_open(world.rank[0].transport, 0, &good, &rx, &err), -EINVAL);
	assert_int_equal(OPS->tx_open(world.rank[0].transport, 2, &good, &tx, NULL), -EINVAL);
	rx = open_rx(&world.rank[0], 1, &good);
	tx = open_tx(&world.rank[0], 1, &good);
	assert_int_equal(OPS->rx_open(world.rank[0].transport, 1, &good, &again, &err), -EINVAL);
	assert_int_equal(OPS->tx_open(world.rank[0].transport, 1, &good, &twice, &err), -EINVAL);
	OPS->rx_close(rx);
	OPS->tx_close(tx);
	world_close(&world);
}

static void test_a_closed_lane_may_be_opened_again(void **state)
{
	struct ddl__lane lane = lane_of(3, 1, 4, 30000);
	struct flow fresh = { .ops = OPS, .lane = lane, .slices = 20 };
	struct flow old;
	struct world world;

	world_open(&world, OPS, 2);
	old = flow_open(&world, 0, 1, &lane, 100);
	until(&world, has_credit, old.tx);
	flow_send(&old); /* what lands later for a closed lane is dropped */
	OPS->rx_close(old.rx);
	old.rx = NULL;
	fresh.rx = open_rx(&world.rank[1], 0, &lane);
	world.rank[0].n_announced = 0;
	until(&world, step_of_peer, &world.rank[0]);
	assert_null(OPS->tx_slot(old.tx));
	OPS->tx_close(old.tx);
	old.tx = NULL;
	fresh.tx = open_tx(&world.rank[0], 1, &lane);
	until(&world, flow_step, &fresh);
	flow_close(&fresh);
	leave(&world);
}

static bool has_no_credit(void *context)
{
	return OPS->tx_slot(context) == NULL;
}

static void test_closing_the_receiving_end_stops_the_sender(void **state)
{
	struct ddl__lane lane = lane_of(3, 1, 4, 30000);
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 0, 1, &lane, 1);
	until(&world, has_credit, flow.tx);
	OPS->rx_close(flow.rx);
	flow.rx = NULL;
	until(&world, has_no_credit, flow.tx);
	flow_close(&flow);
	leave(&world);
}

/* More than any socket buffer holds, with slots for all of it. */
static void fill(struct world *world, struct flow *flow)
{
	struct ddl__lane lane = lane_of(1, 0, 48, 500000);

	*flow = flow_open(world, 0, 1, &lane, 48);
	flow->stalled = true;
	until(world, has_credit, flow->tx);
	flow_send(flow);
	assert_int_equal(flow->sent, 48);
}

static void test_what_was_sent_before_closing_is_delivered(void **state)
{
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	fill(&world, &flow);
	OPS->tx_close(flow.tx);
	flow.tx = NULL;
	flow.stalled = false;
	until(&world, flow_step, &flow);
	flow_close(&flow);
	leave(&world);
}

static void test_a_goodbye_loses_nothing(void **state)
{
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	fill(&world, &flow);
	OPS->tx_close(flow.tx);
	flow.tx = NULL;
	OPS->goodbye(world.rank[0].transport);
	assert_false(OPS->done(world.rank[0].transport)); /* the other has not said it */
	flow.stalled = false;
	until(&world, flow_step, &flow);
	flow_close(&flow);
	leave(&world);
}

static bool heard_bye(void *context)
{
	struct rank *rank = context;

	return link_at(rank, 1)->heard_bye;
}

static void test_sending_to_one_that_left_is_a_loss(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world;
	struct flow flow;
	struct ddl__rx *rx;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 0, 1, &lane, 2);
	until(&world, flow_step, &flow);
	OPS->goodbye(world.rank[1].transport);
	until(&world, heard_bye, &world.rank[0]);
	assert_int_equal(world.rank[0].n_lost, 0); /* leaving is no fault */
	assert_true(world.rank[0].left[1]);
	flow.slices = 3;
	flow_send(&flow);
	until(&world, is_lost, &world.rank[0]);
	assert_int_equal(world.rank[0].lost[1], -ECONNRESET);
	assert_string_equal(world.rank[0].detail[1], "it has left");
	assert_null(OPS->tx_slot(flow.tx));
	assert_int_equal(OPS->rx_open(world.rank[0].transport, 1, &lane, &rx, NULL), -ECONNRESET);
	flow_close(&flow);
	world_close(&world);
}

static bool aborted(void *context)
{
	return ((struct rank *)context)->aborted != 0;
}

static void test_an_abort_reaches_the_peers_with_its_text(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 0, 1, &lane, 2);
	until(&world, flow_step, &flow);
	OPS->abort(world.rank[1].transport, -ECANCELED, "the user pressed ^C");
	until(&world, aborted, &world.rank[0]);
	assert_int_equal(world.rank[0].aborted, -ECANCELED);
	assert_string_equal(world.rank[0].abort_text, "the user pressed ^C");
	flow_close(&flow);
	leave(&world);
}

/* One rank per thread: the way to sleep and to be woken */

struct player {
	struct rank *rank;
	struct flow out, in;
	size_t total; /* slices to send */
	size_t ahead; /* slices that this side may have sent more than it received */
	bool failed;
};

static bool play(struct player *player)
{
	flow_receive(&player->in);
	player->out.slices = player->in.received + player->ahead;
	if (player->out.slices > player->total)
		player->out.slices = player->total;
	flow_send(&player->out);
	rank_flush(player->rank, true);
	return player->in.received == player->in.slices && player->out.sent == player->total;
}

static void *player_thread(void *context)
{
	struct player *player = context;
	struct pollfd fd = { player->rank->epoll_fd, POLLIN, 0 };

	while (!play(player)) {
		bool done;

		rank_sleeping(player->rank, true);
		done = play(player);
		if (!done && poll(&fd, 1, WATCHDOG_MS) == 0) {
			player->failed = true;
			break;
		}
		rank_sleeping(player->rank, false);
		rank_poll(player->rank);
		if (done)
			break;
	}
	return NULL;
}

/* Rank i sends total[i] slices, ahead[i] of them without having received as many. */
static void play_game(const size_t total[2], const size_t ahead[2])
{
	struct ddl__lane lane = lane_of(1, 0, 1, 64);
	struct player player[2] = { 0 };
	struct world world;
	pthread_t thread[2];

	world_open(&world, OPS, 2);
	for (int i = 0; i < 2; i++) {
		struct flow flow = { .ops = OPS, .lane = lane };

		player[i] = (struct player){
			.rank = &world.rank[i], .out = flow, .in = flow, .total = total[i], .ahead = ahead[i]
		};
		player[i].in.slices = total[!i];
		player[i].in.rx = open_rx(&world.rank[i], !i, &lane);
		player[i].out.tx = open_tx(&world.rank[i], !i, &lane);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, player_thread, &player[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		assert_false(player[i].failed);
		assert_int_equal(player[i].in.received, total[!i]);
		flow_close(&player[i].in);
		flow_close(&player[i].out);
	}
	leave(&world);
}

static void test_a_sleeping_receiver_is_woken(void **state)
{
	static const size_t total[2] = { 3000, 3000 }, ahead[2] = { 1, 0 }; /* to and fro */

	play_game(total, ahead);
}

static void test_a_sleeping_sender_is_woken(void **state)
{
	static const size_t total[2] = { 3000, 0 }, ahead[2] = { 3000, 0 }; /* one way: only credits come back */

	play_game(total, ahead);
}

/* clang-format off */
#define TRANSPORT_CASES \
	CASE(test_lanes_open_in_any_order), \
	CASE(test_an_announcement_waits_for_its_lane), \
	CASE(test_credits_stop_the_sender), \
	CASE(test_credits_that_wait_leave_enough_for_every_start), \
	CASE(test_slices_may_be_empty), \
	CASE(test_a_stalled_lane_blocks_no_other), \
	CASE(test_four_ranks_all_to_all), \
	CASE(test_a_lane_of_another_shape_is_told_and_gets_no_credit), \
	CASE(test_lanes_that_cannot_be_are_refused), \
	CASE(test_a_closed_lane_may_be_opened_again), \
	CASE(test_closing_the_receiving_end_stops_the_sender), \
	CASE(test_what_was_sent_before_closing_is_delivered), \
	CASE(test_a_goodbye_loses_nothing), \
	CASE(test_sending_to_one_that_left_is_a_loss), \
	CASE(test_an_abort_reaches_the_peers_with_its_text), \
	CASE(test_a_sleeping_receiver_is_woken), \
	CASE(test_a_sleeping_sender_is_woken)
/* clang-format on */

#endif
