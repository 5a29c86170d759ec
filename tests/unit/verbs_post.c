/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_post.c - lanes over RDMA: what is written where, how it is posted, and how much at a time.
 */
#include "verbs_pair.h"

/* ---- where slices go ---- */

/* Slot by slot, or straight into the output; from memory, or through a slot. */
static void test_slices_go_straight_from_memory_to_memory_where_both_are_known(void **state)
{
	static const size_t sizes[] = { 1, 100, 220, 4096, 70000, 300000 };
	struct world world;

	two_ranks(&world, 1);
	for (size_t i = 0; i < 4 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		const size_t bytes = sizes[i / 4];
		const bool from = i & 1, to = i & 2;
		struct ddl__lane lane = lane_of((uint32_t)i, 0, 4, (uint32_t)bytes);
		struct trade trade;

		trade_open(&trade, &world, &lane, 11);
		until(&world, has_credit, trade.tx);
		if (from)
			trade.held_from = hold(&world, 0, trade.from, trade.n * bytes);
		if (to)
			trade.held_to = hold(&world, 1, trade.to, trade.n * bytes);
		for (int k = 0; k < 3; k++) {
			trade_start(&trade);
			if (to)
				until(&world, is_granted, &trade);
			until(&world, trade_step, &trade);
			trade_check(&trade);
			assert_int_equal(trade.borrowed, from ? trade.n : 0);
			assert_int_equal(trade.placed, from && to ? trade.n : 0); /* slots have no spots */
		}
		trade_close(&trade);
	}
	leave(&world);
}

static void test_a_grant_holds_for_its_start_alone(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 5000);
	struct trade trade;
	struct world world;
	void *held_to;

	two_ranks(&world, 1);
	trade_open(&trade, &world, &lane, 9);
	trade_hold(&trade);
	until(&world, has_credit, trade.tx);
	trade_start(&trade);
	until(&world, is_granted, &trade);
	trade.spot_start = 2; /* what the sender is at is granted by nobody */
	until(&world, trade_step, &trade);
	assert_int_equal(trade.placed, 0);
	trade_check(&trade);
	trade_start(&trade);
	until(&world, is_granted, &trade);
	trade.spot_start = 0; /* not final */
	until(&world, trade_step, &trade);
	assert_int_equal(trade.placed, 0);
	trade_start(&trade);
	until(&world, is_granted, &trade);
	until(&world, trade_step, &trade);
	assert_int_equal(trade.placed, trade.n);
	held_to = trade.held_to; /* the next start comes without known memory, and the one after it with it */
	drop(&world, 1, held_to);
	trade.held_to = NULL;
	OPS->hide(world.rank[1].transport, &(struct ddl__window){ .memory = trade.to, .size = trade.n * trade.bytes });
	trade_start(&trade);
	until(&world, trade_step, &trade);
	assert_int_equal(trade.placed, 0);
	trade_check(&trade);
	trade.held_to = hold(&world, 1, trade.to, trade.n * trade.bytes);
	trade_start(&trade);
	until(&world, is_granted, &trade);
	until(&world, trade_step, &trade);
	assert_int_equal(trade.placed, trade.n);
	trade_check(&trade);
	trade_close(&trade);
	leave(&world);
}

struct beyond {
	struct trade *trade;
	uint64_t offset;
	bool sent;
};

static bool beyond_step(void *context)
{
	struct beyond *beyond = context;
	struct trade *trade = beyond->trade;
	const struct ddl__spot spot = { trade->start, beyond->offset };

	if (!beyond->sent)
		beyond->sent = OPS->tx_borrow(trade->tx, trade->held_from, trade->from, trade->bytes, &spot);
	trade_take(trade);
	return trade->taken == 1;
}

static void test_what_does_not_fit_into_what_was_granted_goes_through_slots(void **state)
{
	static const uint64_t offsets[] = { 1, 100, 5001, UINT64_MAX, UINT64_MAX - 4999, UINT64_MAX / 2 };
	struct world world;

	two_ranks(&world, 1);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		struct ddl__lane lane = lane_of((uint32_t)i, 0, 1, 5000);
		struct trade trade;
		struct beyond beyond = { &trade, offsets[i], false };

		trade_open(&trade, &world, &lane, 1);
		trade_hold(&trade);
		until(&world, has_credit, trade.tx);
		trade_start(&trade);
		until(&world, is_granted, &trade);
		until(&world, beyond_step, &beyond);
		assert_int_equal(trade.copied, 1);
		trade_check(&trade);
		trade_close(&trade);
	}
	leave(&world);
}

/* A request begins at once, and its receiving end opens before or after the sending one. */
static void test_a_start_that_begins_with_its_lane_is_granted_memory(void **state)
{
	struct world world;

	two_ranks(&world, 1);
	for (uint32_t i = 0; i < 20; i++) {
		struct ddl__lane lane = lane_of(i, 0, 4, 5000);
		struct trade trade = { .world = &world, .bytes = 5000, .n = 9, .from = malloc(45000), .to = malloc(45000) };

		trade.held_from = hold(&world, 0, trade.from, 45000);
		trade.held_to = hold(&world, 1, trade.to, 45000);
		if (i % 2)
			trade.tx = open_tx(&world.rank[0], 1, &lane);
		trade.rx = open_rx(&world.rank[1], 0, &lane);
		OPS->rx_land(trade.rx, trade_where, &trade);
		trade_start(&trade);
		rank_flush(&world.rank[1], true);
		rank_poll(&world.rank[0]); /* the grant has come, and maybe the announcement */
		if (i % 2 == 0)
			trade.tx = open_tx(&world.rank[0], 1, &lane);
		until(&world, is_granted, &trade);
		until(&world, trade_step, &trade);
		assert_int_equal(trade.placed, trade.n);
		trade_check(&trade);
		trade_close(&trade);
	}
	leave(&world);
}

/* ---- inline ---- */

static void test_as_much_is_sent_inline_as_the_device_takes(void **state)
{
	static const struct {
		int device;
		size_t most; /* that goes inline */
	} cases[] = { { 1, 0 }, { 28, 0 }, { 40, 40 }, { 60, 40 }, { 64, 64 }, { 100, 64 }, { 220, 220 }, { 1000, 220 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint32_t sizes[] = { 1, 40, 41, 64, 65, 220, 221, 5000 };
		struct fake_verbs_counts before;
		struct world world;

		if (i > 0)
			assert_string_equal(fake_verbs_end(), "");
		if (i > 0)
			fake_verbs_begin();
		add_devices(2, 1, &(struct fake_device){ .max_inline = cases[i].device });
		ranks_open(&world, 2);
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			struct ddl__lane lane = lane_of((uint32_t)k, 0, 10, sizes[k]);
			struct trade trade;

			trade_open(&trade, &world, &lane, 10);
			until(&world, has_credit, trade.tx);
			before = fake_verbs_counts();
			until(&world, trade_step, &trade);
			assert_int_equal(fake_verbs_counts().inlines - before.inlines, sizes[k] <= cases[i].most ? 10 : 0);
			trade_check(&trade);
			trade_close(&trade);
		}
		leave(&world);
	}
}

/* ---- how much at a time ---- */

/* Opens `n` lanes from rank 0 to rank 1 and waits for their credits. */
static void open_flows(struct world *world, struct flows *flows, uint32_t n, uint32_t slots, uint32_t slot_bytes, size_t slices)
{
	*flows = (struct flows){ .n = n };
	for (uint32_t i = 0; i < n; i++) {
		struct ddl__lane lane = lane_of(i, 0, slots, slot_bytes);

		flows->flow[i] = flow_open(world, 0, 1, &lane, slices);
	}
	for (uint32_t i = 0; i < n; i++)
		until(world, has_credit, flows->flow[i].tx);
	settle(world);
}

static void close_flows(struct flows *flows)
{
	for (size_t i = 0; i < flows->n; i++)
		flow_close(&flows->flow[i]);
}

static uint32_t under_way(const struct verbs_link *link)
{
	return link->n_posted - link->n_completed;
}

/* The sender looks, the receiver does not: it stops when the receives are used up but for the spare, and nothing meets none. */
static void test_a_receiver_that_does_not_look_stops_the_sender(void **state)
{
	static struct flows flows;
	struct fake_verbs_counts before, after;
	struct verbs_link *link;
	struct world world;

	two_ranks(&world, 1);
	link = link_on(&world, 0, 0);
	open_flows(&world, &flows, 12, 64, 64, 200);
	before = fake_verbs_counts();
	for (int k = 0; k < 100; k++) {
		for (size_t i = 0; i < flows.n; i++)
			flow_send(&flows.flow[i]);
		rank_flush(&world.rank[0], true);
		rank_poll(&world.rank[0]);
	}
	after = fake_verbs_counts();
	assert_int_equal(after.immediates - before.immediates, DDL__VERBS_RECEIVES - DDL__VERBS_SPARE);
	assert_int_equal(after.delivered - before.delivered, DDL__VERBS_RECEIVES - DDL__VERBS_SPARE);
	assert_int_equal(link->room, 0);
	assert_non_null(link->turns);
	until(&world, flows_step, &flows);
	close_flows(&flows);
	leave(&world);
}

/* Both send as much as they may, and then both look. */
static void test_ranks_that_flood_each_other_go_on(void **state)
{
	static struct flows flows;
	struct world world;

	two_ranks(&world, 1);
	flows = (struct flows){ .n = 16 };
	for (uint32_t i = 0; i < flows.n; i++) {
		struct ddl__lane lane = lane_of(i, 0, 64, 100);

		flows.flow[i] = flow_open(&world, (int)(i % 2), (int)(1 - i % 2), &lane, 1000);
	}
	for (uint32_t i = 0; i < flows.n; i++)
		until(&world, has_credit, flows.flow[i].tx);
	settle(&world);
	for (int k = 0; k < 20; k++)
		for (uint32_t i = 0; i < flows.n; i++)
			flow_send(&flows.flow[i]);
	until(&world, flows_step, &flows);
	for (int rank = 0; rank < 2; rank++)
		assert_true(under_way(link_on(&world, rank, 0)) <= DDL__VERBS_SENDS);
	close_flows(&flows);
	leave(&world);
}

/* A send queue that is full of what nobody answers takes no more, and no more is posted to it. */
static void test_a_send_queue_that_is_full_is_left_alone(void **state)
{
	static struct flows flows;
	uint64_t random = 1;
	struct verbs_link *link;
	struct world world;

	two_ranks(&world, 1);
	link = link_on(&world, 0, 0);
	open_flows(&world, &flows, 12, 64, 64, 200);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	for (size_t i = 0; i < flows.n; i++)
		flow_send(&flows.flow[i]);
	assert_int_equal(under_way(link), DDL__VERBS_SENDS - DDL__VERBS_SPARE);
	assert_int_equal(link->room, DDL__VERBS_RECEIVES - DDL__VERBS_SPARE - under_way(link));
	by_steps(&world, flows_step, &flows, &random);
	close_flows(&flows);
	leave_by_steps(&world, &random);
}

static void test_few_completions_are_asked_for(void **state)
{
	static struct flows flows;
	struct fake_verbs_counts before, after;
	uint64_t random = 1;
	struct world world;

	two_ranks(&world, 1);
	open_flows(&world, &flows, 12, 64, 64, 640);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	before = fake_verbs_counts();
	for (size_t i = 0; i < flows.n; i++) /* more than the queue takes: the rest is posted many at a time */
		flow_send(&flows.flow[i]);
	by_steps(&world, flows_step, &flows, &random);
	after = fake_verbs_counts();
	assert_int_equal(flows.n * 640 <= after.immediates - before.immediates, 1);
	print_message("%d of %d work requests were signaled\n", (int)(after.signaled - before.signaled),
		      (int)(after.immediates - before.immediates));
	assert_true((after.signaled - before.signaled) * 4 <= after.immediates - before.immediates);
	close_flows(&flows);
	leave_by_steps(&world, &random);
}

/* What is a message alone is told of once in so many. */
static void test_credits_are_seldom_told_of(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 1, 64); /* each slice waits for the credit of the one before */
	struct world world;
	struct flow flow;
	uint32_t posted;

	two_ranks(&world, 1);
	flow = flow_open(&world, 0, 1, &lane, 500);
	until(&world, flow_step, &flow);
	posted = link_on(&world, 1, 0)->n_posted;
	assert_true(posted >= 499);
	assert_true(link_on(&world, 1, 0)->n_completed >= posted - DDL__VERBS_SIGNAL);
	assert_true(fake_verbs_counts().signaled <= link_on(&world, 0, 0)->n_posted + posted / DDL__VERBS_SIGNAL + 1);
	flow_close(&flow);
	leave(&world);
}

static void test_few_bytes_are_under_way_at_a_time(void **state)
{
	static const uint32_t sizes[] = { 4096, 100000, 262144, 1048576, DDL__SLOT_BYTES_MAX };
	uint64_t random = 1;
	struct world world;

	two_ranks(&world, 1);
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ddl__lane lane = lane_of(i, 0, 64, sizes[i]);
		struct verbs_link *link = link_on(&world, 0, 0);
		struct flow flow;

		fake_verbs_delivery(FAKE_AT_ONCE, 1);
		flow = flow_open(&world, 0, 1, &lane, sizes[i] > 1000000 ? 9 : 64);
		until(&world, has_credit, flow.tx);
		settle(&world);
		fake_verbs_delivery(FAKE_BY_STEP, 1);
		flow_send(&flow);
		assert_true(link->flying < DDL__VERBS_FLYING + sizes[i]);
		assert_true(link->turns || link->flying < DDL__VERBS_FLYING);
		by_steps(&world, flow_step, &flow, &random);
		flow_close(&flow);
	}
	leave_by_steps(&world, &random);
}

/* ---- turns ---- */

static uint64_t landed(const struct flow *flow)
{
	return ((const struct verbs_rx *)flow->rx)->in.landed;
}

/* Priorities of two lanes, and which of the starts they belong to; whether the second, which is sent when the queue is full of
 * the first, goes before what waits. */
static void race(int first_priority, int second_priority, uint64_t first_turn, uint64_t second_turn, bool overtakes)
{
	struct ddl__lane low = lane_of(1, 0, 64, 262144), high = lane_of(2, 0, 1, 262144);
	struct flow first, second;
	uint64_t random = 1;
	size_t before = 0;
	struct world world;

	low.call.priority = first_priority;
	high.call.priority = second_priority;
	two_ranks(&world, 1);
	first = flow_open(&world, 0, 1, &low, 40);
	second = flow_open(&world, 0, 1, &high, 1);
	until(&world, has_credit, first.tx);
	until(&world, has_credit, second.tx);
	settle(&world);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	OPS->tx_turn(first.tx, first_turn);
	OPS->tx_turn(second.tx, second_turn);
	flow_send(&first);
	flow_send(&second);
	while (landed(&second) == 0) {
		assert_int_equal(fake_verbs_step(1), 1);
		rank_poll(&world.rank[0]);
		rank_poll(&world.rank[1]);
	}
	for (size_t i = 0; i < landed(&first); i++)
		before += slice_bytes(&first, i);
	if (overtakes)
		assert_true(before <= DDL__VERBS_FLYING + low.slot_bytes);
	else
		assert_int_equal(landed(&first), 40);
	by_steps(&world, flow_step, &first, &random);
	by_steps(&world, flow_step, &second, &random);
	flow_close(&first);
	flow_close(&second);
	leave_by_steps(&world, &random);
}

static void test_what_is_more_urgent_comes_soon(void **state)
{
	race(0, 1, 1, 1, true);
}

static void test_what_is_less_urgent_waits(void **state)
{
	race(0, -1, 2, 1, false);
}

static void test_of_equals_the_start_that_came_first_goes_first(void **state)
{
	race(0, 0, 2, 1, true);
}

static void test_of_equals_the_start_that_came_later_waits(void **state)
{
	race(0, 0, 1, 2, false);
}

/* ---- numbers that wrap ---- */

/* Messages are counted modulo 2^32. */
static void test_a_link_works_on_after_four_billion_messages(void **state)
{
	struct ddl__lane there = lane_of(1, 0, 16, 64), back = lane_of(2, 0, 16, 64);
	struct flows flows = { .n = 2 };
	struct world world;

	two_ranks(&world, 1);
	for (int rank = 0; rank < 2; rank++) { /* as if they had been sent */
		link_on(&world, rank, 0)->sent = UINT32_MAX - 1000;
		link_on(&world, rank, 0)->received = UINT32_MAX - 1000;
		link_on(&world, rank, 0)->n_posted = UINT32_MAX - 500;
		link_on(&world, rank, 0)->n_completed = UINT32_MAX - 500;
	}
	flows.flow[0] = flow_open(&world, 0, 1, &there, 3000);
	flows.flow[1] = flow_open(&world, 1, 0, &back, 3000);
	until(&world, flows_step, &flows);
	assert_true(link_on(&world, 0, 0)->sent < 100000);
	close_flows(&flows);
	leave(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_slices_go_straight_from_memory_to_memory_where_both_are_known),
		CASE(test_a_grant_holds_for_its_start_alone),
		CASE(test_what_does_not_fit_into_what_was_granted_goes_through_slots),
		CASE(test_a_start_that_begins_with_its_lane_is_granted_memory),
		CASE(test_as_much_is_sent_inline_as_the_device_takes),
		CASE(test_a_receiver_that_does_not_look_stops_the_sender),
		CASE(test_ranks_that_flood_each_other_go_on),
		CASE(test_a_send_queue_that_is_full_is_left_alone),
		CASE(test_few_completions_are_asked_for),
		CASE(test_credits_are_seldom_told_of),
		CASE(test_few_bytes_are_under_way_at_a_time),
		CASE(test_what_is_more_urgent_comes_soon),
		CASE(test_what_is_less_urgent_waits),
		CASE(test_of_equals_the_start_that_came_first_goes_first),
		CASE(test_of_equals_the_start_that_came_later_waits),
		CASE(test_a_link_works_on_after_four_billion_messages),
	};

	return cmocka_run_group_tests_name("verbs_post", tests, NULL, NULL);
}
