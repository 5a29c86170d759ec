/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_lanes.c - lanes over RDMA that are closed, withdrawn and left while writes are under way: their memory stays as long as a
 * device may write to it, and not longer.
 */
#include "verbs_pair.h"

/* Receiving ends of a rank that have memory. */
static uint32_t count_lanes(struct world *world, int rank)
{
	const struct verbs *verbs = verbs_at(world, rank);
	uint32_t n = 0;

	for (uint32_t i = 0; i < verbs->n_lanes; i++)
		n += verbs->lanes[i] && verbs->lanes[i]->memory.at;
	return n;
}

static bool has_no_lanes(void *context)
{
	return count_lanes(context, 1) == 0;
}

/* Closed lanes over a rail that have no more than their numbers. */
static uint32_t count_closed(struct world *world, int rank, unsigned rail)
{
	uint32_t n = 0;

	for (const struct verbs_rx *rx = link_on(world, rank, rail)->closed; rx; rx = rx->next_closed)
		n++;
	return n;
}

/* ---- goodbyes ---- */

static bool heard_bye(void *context)
{
	return ((struct world *)context)->rank[0].transport && link_on(context, 0, 0)->link.heard_bye;
}

/* Credits are under way when the goodbye comes, over the stream: the peer has left when they are here too. */
static void test_a_goodbye_that_overtakes_credits_waits_for_them(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 8, 100);
	uint64_t random = 1;
	struct world world;
	struct flow flow;
	size_t bytes;

	two_ranks(&world, 1);
	flow = flow_open(&world, 0, 1, &lane, 8);
	until(&world, has_credit, flow.tx);
	settle(&world);
	flow_send(&flow);
	settle(&world);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	for (int i = 0; i < 8; i++) {
		assert_non_null(OPS->rx_slot(flow.rx, &bytes));
		OPS->rx_release(flow.rx);
		rank_flush(&world.rank[1], true); /* each by itself */
	}
	OPS->goodbye(world.rank[1].transport);
	until(&world, heard_bye, &world);
	for (int i = 0; i < 10; i++)
		rank_poll(&world.rank[0]);
	assert_false(world.rank[0].left[1]);
	assert_true(fake_verbs_step(SIZE_MAX) >= 8);
	rank_poll(&world.rank[0]);
	rank_poll(&world.rank[0]); /* the timer tells */
	assert_true(world.rank[0].left[1]);
	assert_int_equal(((struct verbs_tx *)flow.tx)->credited, 8);
	flow_close(&flow);
	leave_by_steps(&world, &random);
}

/* Of what was under way beside its goodbye the rest never comes: it has left all the same, and nobody waits for that. */
static void test_a_peer_that_ends_after_its_goodbye_has_left(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 8, 100);
	struct world world;
	struct flow flow;
	size_t bytes;

	two_ranks(&world, 1);
	flow = flow_open(&world, 0, 1, &lane, 8);
	until(&world, has_credit, flow.tx);
	settle(&world);
	flow_send(&flow);
	settle(&world);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	assert_non_null(OPS->rx_slot(flow.rx, &bytes));
	OPS->rx_release(flow.rx);
	rank_flush(&world.rank[1], true);
	OPS->goodbye(world.rank[1].transport);
	OPS->rx_close(flow.rx);
	flow.rx = NULL;
	rank_close(&world.rank[1]);
	for (int i = 0; i < STEPS_MAX && link_on(&world, 0, 0)->link.state == DDL__LINK_UP; i++)
		rank_poll(&world.rank[0]);
	assert_int_equal(link_on(&world, 0, 0)->link.state, DDL__LINK_LEFT);
	assert_true(world.rank[0].left[1]);
	assert_int_equal(world.rank[0].n_lost, 0);
	flow_close(&flow);
	world_close(&world);
}

/* Both say goodbye while slices are under way both ways: all come. */
static void test_goodbyes_at_any_time_lose_nothing(void **state)
{
	for (uint64_t seed = 1; seed <= 150; seed++) {
		uint64_t random = seed, passes;
		struct flows flows = { .n = 6 };
		struct world world;

		if (seed > 1)
			assert_string_equal(fake_verbs_end(), "");
		if (seed > 1)
			fake_verbs_begin();
		two_ranks(&world, 1);
		for (uint32_t i = 0; i < flows.n; i++) {
			struct ddl__lane lane = lane_of(i, 0, 1 + i * 5, 1 + i * 777);

			flows.flow[i] = flow_open(&world, (int)(i % 2), (int)(1 - i % 2), &lane, lane.slots);
			until(&world, has_credit, flows.flow[i].tx);
		}
		settle(&world);
		fake_verbs_delivery(FAKE_BY_STEP, seed);
		for (size_t i = 0; i < flows.n; i++) {
			flow_send(&flows.flow[i]);
			assert_int_equal(flows.flow[i].sent, flows.flow[i].slices);
			OPS->tx_close(flows.flow[i].tx);
			flows.flow[i].tx = NULL;
		}
		passes = random_next(&random) % 20;
		for (uint64_t k = 0; k < passes; k++) {
			fake_verbs_step(random_next(&random) % 3);
			rank_poll(&world.rank[random_next(&random) % 2]);
		}
		OPS->goodbye(world.rank[seed % 2].transport);
		by_steps(&world, flows_step, &flows, &random);
		for (size_t i = 0; i < flows.n; i++)
			flow_close(&flows.flow[i]);
		leave_by_steps(&world, &random);
	}
}

/* The cases of every transport, delivered by a thread, queue pair by queue pair. */
static void test_nothing_is_lost_when_messages_come_at_any_time(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		static struct flows flows;
		struct world world;

		if (seed > 1)
			assert_string_equal(fake_verbs_end(), "");
		if (seed > 1)
			fake_verbs_begin();
		add_devices(3, 2, &(struct fake_device){ 0 });
		fake_verbs_delivery(FAKE_BY_THREAD, seed);
		ranks_open(&world, 3);
		flows = (struct flows){ .n = 24 };
		for (uint32_t i = 0; i < flows.n; i++) {
			const int from = (int)(i % 3), to = (int)((i + 1 + i / 3 % 2) % 3);
			struct ddl__lane lane = lane_of(i, i, 1 + i % 7, 1 + i * 501);

			lane.call.rings = 4;
			flows.flow[i] = flow_open(&world, from, to, &lane, 60);
		}
		until(&world, flows_step, &flows);
		for (size_t i = 0; i < flows.n; i++)
			flow_close(&flows.flow[i]);
		leave(&world);
	}
}

/* ---- closing ---- */

/* Writes are under way to a lane that is closed: the memory they go to is nobody else's until they are over. */
static void test_memory_of_a_closed_lane_stays_until_nothing_comes(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 8, 4096), other = lane_of(2, 0, 8, 4096);
	struct ddl__verbs_piece piece;
	struct verbs_rx *rx, *second;
	uint64_t random = 1;
	struct world world;
	struct flow flow, later;
	uint32_t number;
	uint8_t *at;

	two_ranks(&world, 1);
	flow = flow_open(&world, 0, 1, &lane, 8);
	until(&world, has_credit, flow.tx);
	settle(&world);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	flow_send(&flow);
	rx = (struct verbs_rx *)flow.rx;
	at = rx->memory.at;
	number = rx->in.mesh.number;
	memset(at, 0x11, 8 * 4096);
	OPS->rx_close(flow.rx);
	flow.rx = NULL;
	for (int i = 0; i < 10; i++) { /* the withdrawal is there, the writes are not */
		rank_poll(&world.rank[0]);
		rank_poll(&world.rank[1]);
	}
	later = flow_open(&world, 0, 1, &other, 8);
	second = (struct verbs_rx *)later.rx;
	assert_ptr_not_equal(second->memory.at, at);
	assert_int_not_equal(second->in.mesh.number, number);
	assert_ptr_equal(verbs_at(&world, 1)->lanes[number], rx);
	assert_int_equal(at[0], 0x11);
	settle(&world); /* they land where they were meant to */
	assert_int_equal(at[0], slice_byte(&flow, 0, 0));
	assert_int_equal(count_lanes(&world, 1), 1);
	assert_int_equal(ddl__verbs_memory_get(verbs_at(&world, 1)->memory, 8 * 4096, &piece, NULL), 0);
	assert_ptr_equal(piece.at, at); /* it is to be had again */
	ddl__verbs_memory_put(verbs_at(&world, 1)->memory, &piece);
	by_steps(&world, flow_step, &later, &random);
	flow_close(&flow);
	flow_close(&later);
	leave_by_steps(&world, &random);
}

/* What the sender is at when its lane is withdrawn. */
enum state {
	UNOPENED,
	IDLE,
	QUEUED,
	POSTED,
	LANDED,
	CLOSED_QUEUED,
	CLOSED_POSTED,
	CLOSED_IDLE,
	N_STATES,
};

/* Fills what the receiver can take with slices of other lanes, so that nothing more is posted. */
static void fill_link(struct world *world, struct flows *others)
{
	*others = (struct flows){ .n = 4 };
	for (uint32_t i = 0; i < others->n; i++) {
		struct ddl__lane lane = lane_of(100 + i, 0, 64, 8);

		others->flow[i] = flow_open(world, 0, 1, &lane, 64);
		until(world, has_credit, others->flow[i].tx);
	}
	settle(world);
	for (size_t i = 0; i < others->n; i++)
		flow_send(&others->flow[i]);
	for (int i = 0; i < 8; i++) { /* completions make room in the send queue */
		fake_verbs_step(SIZE_MAX);
		rank_poll(&world->rank[0]);
	}
	assert_int_equal(link_on(world, 0, 0)->room, 0);
}

static void withdraw(enum state at, uint64_t seed)
{
	const bool full = at == QUEUED || at == CLOSED_QUEUED;
	struct ddl__lane lane = lane_of(1, 0, 8, 3000), first = lane_of(2, 0, 1, 1);
	struct flow flow = { .ops = OPS, .lane = lane, .slices = 8 };
	struct flows others = { .n = 0 };
	uint64_t random = seed;
	struct world world;
	struct flow opener;

	two_ranks(&world, 1);
	opener = flow_open(&world, 0, 1, &first, 1);
	until(&world, flow_step, &opener);
	flow.rx = open_rx(&world.rank[1], 0, &lane);
	if (at != UNOPENED) {
		flow.tx = open_tx(&world.rank[0], 1, &lane);
		until(&world, has_credit, flow.tx);
	} else {
		rank_flush(&world.rank[1], true);
		rank_poll(&world.rank[0]);
	}
	settle(&world);
	if (full)
		fill_link(&world, &others);
	if (at == POSTED || at == CLOSED_POSTED)
		fake_verbs_delivery(FAKE_BY_STEP, seed);
	if (at != UNOPENED && at != IDLE && at != CLOSED_IDLE)
		flow_send(&flow);
	if (at == LANDED)
		settle(&world);
	if (at >= CLOSED_QUEUED) {
		OPS->tx_close(flow.tx);
		flow.tx = NULL;
	}
	OPS->rx_close(flow.rx);
	flow.rx = NULL;
	for (size_t i = 0; i < others.n; i++) {
		OPS->rx_close(others.flow[i].rx);
		others.flow[i].rx = NULL;
	}
	OPS->rx_close(opener.rx);
	opener.rx = NULL;
	by_steps(&world, has_no_lanes, &world, &random);
	flow_close(&flow);
	flow_close(&opener);
	for (size_t i = 0; i < others.n; i++)
		flow_close(&others.flow[i]);
	assert_int_equal(link_on(&world, 0, 0)->numbers.n, 0);
	assert_true(count_closed(&world, 1, 0) <= DDL__VERBS_RECEIVES / 4);
	leave_by_steps(&world, &random);
}

static void test_a_lane_may_be_withdrawn_at_any_time(void **state)
{
	for (enum state at = UNOPENED; at < N_STATES; at++) {
		for (uint64_t seed = 1; seed <= 10; seed++) {
			if (at || seed > 1) {
				assert_string_equal(fake_verbs_end(), "");
				fake_verbs_begin();
			}
			withdraw(at, seed);
		}
	}
}

/*
 * A credit is under way when its lane is closed, and the sender has closed it too: it is not taken for that of a lane that is
 * opened meanwhile.
 */
static void test_a_late_credit_is_of_its_own_lane(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100), other = lane_of(2, 0, 4, 100);
	uint64_t random = 1;
	struct world world;
	struct flow flow, later;
	size_t bytes;

	two_ranks(&world, 1);
	flow = flow_open(&world, 0, 1, &lane, 4);
	until(&world, has_credit, flow.tx);
	flow_send(&flow);
	settle(&world);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	for (int i = 0; i < 4; i++) {
		assert_non_null(OPS->rx_slot(flow.rx, &bytes));
		OPS->rx_release(flow.rx);
	}
	rank_flush(&world.rank[1], true); /* the credits are posted and do not come */
	flow_close(&flow);
	for (int i = 0; i < 10; i++) { /* withdrawn, and given up */
		rank_poll(&world.rank[0]);
		rank_poll(&world.rank[1]);
	}
	assert_int_equal(count_lanes(&world, 1), 0);
	later = flow_open(&world, 0, 1, &other, 40);
	until(&world, has_credit, later.tx);
	settle(&world); /* the credits come */
	by_steps(&world, flow_step, &later, &random);
	flow_close(&later);
	leave_by_steps(&world, &random);
}

/* The writes to a withdrawn lane are over when the peer is gone too, and only then looked at: nobody is left to be told. */
static void test_a_withdrawn_lane_ends_with_its_peer(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 8, 100);
	struct world world;
	struct flow flow;

	two_ranks(&world, 1);
	flow = flow_open(&world, 0, 1, &lane, 8);
	until(&world, has_credit, flow.tx);
	settle(&world);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	flow_send(&flow);
	OPS->rx_close(flow.rx);
	flow.rx = NULL;
	for (int i = 0; i < STEPS_MAX && !((struct verbs_tx *)flow.tx)->withdrawn; i++)
		rank_poll(&world.rank[0]);
	assert_true(((struct verbs_tx *)flow.tx)->withdrawn);
	assert_true(fake_verbs_step(SIZE_MAX) >= 8);
	rank_close(&world.rank[1]);
	ddl__mesh_enter(&verbs_at(&world, 0)->mesh);
	ddl__link_fail(&link_on(&world, 0, 0)->link, -ECONNRESET, "a test wants it so");
	ddl__mesh_leave(&verbs_at(&world, 0)->mesh);
	assert_int_equal(world.rank[0].n_lost, 1);
	assert_int_equal(((struct verbs_tx *)flow.tx)->completed, 8);
	flow_close(&flow);
	world_close(&world);
}

static bool is_ready(void *context)
{
	return link_on(context, 1, 0)->ready;
}

/* What the peer still says of its queue pair is no nonsense because ours is no more. */
static void test_memory_may_be_let_go_while_queue_pairs_are_joined(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 8, 100);
	struct world world;
	struct flow flow;

	two_ranks(&world, 1);
	flow = flow_open(&world, 0, 1, &lane, 8);
	for (int i = 0; i < STEPS_MAX && !link_on(&world, 0, 0)->paired; i++) {
		world_sleep(&world);
		rank_poll(&world.rank[i % 2]);
	}
	assert_true(link_on(&world, 0, 0)->paired);
	assert_false(link_on(&world, 0, 0)->ready);
	OPS->let_go(world.rank[0].transport);
	until(&world, is_ready, &world); /* it has heard of ours, and said so of its own */
	for (int i = 0; i < 10; i++)
		rank_poll(&world.rank[0]);
	assert_int_equal(world.rank[0].n_lost, 0);
	assert_int_equal(link_on(&world, 0, 0)->link.state, DDL__LINK_UP);
	flow_close(&flow);
	world_close(&world);
}

/* ---- many ---- */

struct slot { /* a lane that is opened, used and closed again and again */
	struct flow flow;
	bool open;
};

static void change(struct world *world, struct slot *slot, uint32_t request, uint64_t *random)
{
	struct flow *flow = &slot->flow;

	if (!slot->open) {
		const int from = (int)(random_next(random) % 2);
		struct ddl__lane lane = lane_of(request, 0, 1 + (uint32_t)(random_next(random) % 6),
						(uint32_t)(random_next(random) % 3000));

		*flow = (struct flow){ .ops = OPS, .lane = lane, .slices = random_next(random) % 10 };
		if (random_next(random) % 8) /* or it is never opened there */
			flow->tx = open_tx(&world->rank[from], !from, &lane);
		if (random_next(random) % 8 || !flow->tx)
			flow->rx = open_rx(&world->rank[!from], from, &lane);
		slot->open = true;
		return;
	}
	if (random_next(random) % 2) {
		flow_send(flow);
		flow_receive(flow);
		return;
	}
	if (flow->tx && random_next(random) % 2) {
		OPS->tx_close(flow->tx);
		flow->tx = NULL;
	} else if (flow->rx) {
		OPS->rx_close(flow->rx);
		flow->rx = NULL;
	}
	slot->open = flow->tx || flow->rx;
}

static bool nothing_is_left(void *context)
{
	struct world *world = context;

	for (int rank = 0; rank < 2; rank++)
		if (count_lanes(world, rank) || link_on(world, rank, 0)->numbers.n ||
		    count_closed(world, rank, 0) > DDL__VERBS_RECEIVES / 4)
			return false;
	return true;
}

static void test_thousands_of_lanes_come_and_go(void **state)
{
	enum { SLOTS = 24, CHANGES = 40000 };
	struct slot slots[SLOTS] = { 0 };
	uint64_t random = 4711;
	uint32_t request = 0;
	struct world world;

	two_ranks(&world, 1);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	for (int i = 0; i < CHANGES; i++) {
		change(&world, &slots[random_next(&random) % SLOTS], ++request, &random);
		if (random_next(&random) % 2)
			fake_verbs_step(1 + random_next(&random) % 6);
		for (int rank = 0; rank < 2; rank++) {
			if (random_next(&random) % 3 == 0) {
				rank_flush(&world.rank[rank], random_next(&random) % 2);
				rank_poll(&world.rank[rank]);
			}
		}
	}
	for (int i = 0; i < SLOTS; i++)
		flow_close(&slots[i].flow);
	by_steps(&world, nothing_is_left, &world, &random);
	for (int rank = 0; rank < 2; rank++)
		assert_true(verbs_at(&world, rank)->n_lanes <= 4 * SLOTS + 64);
	assert_true(fake_verbs_counts().bytes < 64u << 20);
	leave_by_steps(&world, &random);
}

/* ---- another link ---- */

/* What was under way when the link failed is no longer wanted here; that it never comes is a loss, which somebody must hear of. */
static void test_slices_of_a_closed_lane_that_cannot_be_sent_again_are_a_loss(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 1000), second = lane_of(1, 1, 4, 1000);
	struct flows flows = { .n = 2 };
	struct world world;

	two_ranks(&world, 2);
	flows.flow[0] = flow_open(&world, 0, 1, &lane, 2);
	flows.flow[1] = flow_open(&world, 0, 1, &second, 2);
	until(&world, flows_step, &flows);
	settle(&world);
	fake_verbs_delivery(FAKE_BY_STEP, 1);
	flows.flow[0].slices = 4;
	flow_send(&flows.flow[0]);
	assert_true(OPS->tx_flushed(flows.flow[0].tx)); /* the queue pair will deliver it */
	ddl__mesh_enter(&verbs_at(&world, 0)->mesh);
	ddl__verbs_fail(link_on(&world, 0, 0), "a test wants it so");
	ddl__mesh_leave(&verbs_at(&world, 0)->mesh);
	assert_int_equal(world.rank[0].n_moved, 1);
	OPS->tx_close(flows.flow[0].tx);
	flows.flow[0].tx = NULL;
	for (int i = 0; i < 10 && !world.rank[0].n_lost; i++) {
		settle(&world);
		rank_poll(&world.rank[0]);
	}
	assert_int_equal(world.rank[0].n_lost, 1);
	assert_non_null(strstr(world.rank[0].detail[1], "RDMA to it over a0 port 1 failed: a test wants it so"));
	flow_close(&flows.flow[0]);
	flow_close(&flows.flow[1]);
	world_close(&world);
}

static bool goes_over_1(void *context)
{
	const struct flow *flow = context;

	return ((const struct verbs_tx *)flow->tx)->mesh.link->rail == 1 && has_credit(flow->tx);
}

/* What was sent over the link that failed says nothing of what the peer has taken in over another one. */
static void test_a_lane_that_has_moved_keeps_no_number_for_credits_of_its_old_link(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 1, 1000), second = lane_of(1, 1, 4, 1000);
	struct flows flows = { .n = 2 };
	struct world world;

	two_ranks(&world, 2);
	flows.flow[0] = flow_open(&world, 0, 1, &lane, 40);
	flows.flow[1] = flow_open(&world, 0, 1, &second, 2);
	until(&world, flows_step, &flows);
	settle(&world);
	assert_true(((struct verbs_rx *)flows.flow[0].rx)->mark > 10);
	ddl__mesh_enter(&verbs_at(&world, 0)->mesh);
	ddl__verbs_fail(link_on(&world, 0, 0), "a test wants it so");
	ddl__mesh_leave(&verbs_at(&world, 0)->mesh);
	until(&world, goes_over_1, &flows.flow[0]);
	OPS->rx_close(flows.flow[0].rx);
	flows.flow[0].rx = NULL;
	settle(&world);
	for (int i = 0; i < 10; i++) { /* withdrawn, and given up */
		rank_poll(&world.rank[0]);
		rank_poll(&world.rank[1]);
	}
	assert_int_equal(count_closed(&world, 1, 1), 0);
	flow_close(&flows.flow[0]);
	flow_close(&flows.flow[1]);
	leave(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_a_goodbye_that_overtakes_credits_waits_for_them),
		CASE(test_a_peer_that_ends_after_its_goodbye_has_left),
		CASE(test_goodbyes_at_any_time_lose_nothing),
		CASE(test_nothing_is_lost_when_messages_come_at_any_time),
		CASE(test_memory_of_a_closed_lane_stays_until_nothing_comes),
		CASE(test_a_lane_may_be_withdrawn_at_any_time),
		CASE(test_a_late_credit_is_of_its_own_lane),
		CASE(test_a_withdrawn_lane_ends_with_its_peer),
		CASE(test_memory_may_be_let_go_while_queue_pairs_are_joined),
		CASE(test_thousands_of_lanes_come_and_go),
		CASE(test_slices_of_a_closed_lane_that_cannot_be_sent_again_are_a_loss),
		CASE(test_a_lane_that_has_moved_keeps_no_number_for_credits_of_its_old_link),
	};

	return cmocka_run_group_tests_name("verbs_lanes", tests, NULL, NULL);
}
