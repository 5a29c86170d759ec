/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport_cases.h - what every transport between processes must do. The file that includes this defines OPS before.
 */
#ifndef DDL_TEST_TRANSPORT_CASES_H
#define DDL_TEST_TRANSPORT_CASES_H

#include <pthread.h>
#include <sys/resource.h>

#include "transport_pair.h"

static bool has_credit(void *context)
{
	return OPS->tx_slot(context) != NULL;
}

static bool has_slice(void *context)
{
	size_t bytes;

	return OPS->rx_slot(context, &bytes) != NULL;
}

static bool is_lost(void *context)
{
	return ((struct rank *)context)->n_lost > 0;
}

static bool both_done(void *context)
{
	struct world *world = context;

	for (int i = 0; i < world->n; i++)
		if (world->rank[i].ops && !OPS->done(world->rank[i].transport))
			return false;
	return true;
}

/* All ranks leave; nobody is lost. */
static void leave(struct world *world)
{
	for (int i = 0; i < world->n; i++)
		OPS->goodbye(world->rank[i].transport);
	until(world, both_done, world);
	for (int i = 0; i < world->n; i++)
		assert_int_equal(world->rank[i].n_lost, 0);
	world_close(world);
}

static void test_works_here(void **state)
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

struct flows {
	struct flow flow[64];
	size_t n;
};

static bool flows_step(void *context)
{
	struct flows *flows = context;
	bool done = true;

	for (size_t i = 0; i < flows->n; i++) {
		struct flow *flow = &flows->flow[i];

		if (!flow_step(flow) && !flow->stalled)
			done = false;
	}
	return done;
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

	return ((struct ddl__mesh *)rank->transport)->links[1]->heard_bye;
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

/* Peers that are not there, or not what they should be */

static void test_nobody_listens_any_more(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world;
	struct ddl__rx *rx, *other;
	struct ddl_error err;

	world_open(&world, OPS, 2);
	rank_close(&world.rank[1]);
	rx = open_rx(&world.rank[0], 1, &lane); /* waits for nobody, fails later */
	assert_int_equal(world.rank[0].n_lost, 0);
	until(&world, is_lost, &world.rank[0]);
	assert_int_equal(world.rank[0].lost[1], -ECONNREFUSED);
	assert_non_null(strstr(world.rank[0].detail[1], "nobody listens at its "));
	lane.index = 1;
	assert_int_equal(OPS->rx_open(world.rank[0].transport, 1, &lane, &other, &err), -ECONNREFUSED);
	OPS->rx_close(rx);
	world_close(&world);
}

static void test_a_peer_that_never_connects_is_lost_at_the_deadline(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world = { .n = 2 };
	struct ddl__rx *rx;

	for (int i = 0; i < 2; i++)
		rank_open(&world.rank[i], OPS, i, 2, 50, "127.0.0.1");
	for (int i = 0; i < 2; i++)
		rank_attach(&world.rank[i], &world, test_secret);
	rx = open_rx(&world.rank[1], 0, &lane);
	until(&world, is_lost, &world.rank[1]);
	assert_int_equal(world.rank[1].lost[0], -ETIMEDOUT);
	assert_string_equal(world.rank[1].detail[0], "it did not connect within 50 ms");
	OPS->rx_close(rx);
	world_close(&world);
}

static bool first_is_lost(void *context)
{
	struct world *world = context;

	rank_poll(&world->rank[0]); /* the other one sleeps for ever */
	return world->rank[0].n_lost > 0;
}

static void test_a_peer_that_never_answers_is_lost_at_the_deadline(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world = { .n = 2 };
	struct ddl__rx *rx;

	for (int i = 0; i < 2; i++)
		rank_open(&world.rank[i], OPS, i, 2, 50, "127.0.0.1");
	rank_attach(&world.rank[0], &world, test_secret); /* the other one's queue takes the connection, nobody looks */
	rx = open_rx(&world.rank[0], 1, &lane);
	world.n = 1;
	until(&world, first_is_lost, &world);
	assert_int_equal(world.rank[0].lost[1], -ETIMEDOUT);
	assert_string_equal(world.rank[0].detail[1], "it took the connection but did not answer within 50 ms");
	OPS->rx_close(rx);
	world.n = 2;
	world_close(&world);
}

static void test_a_peer_without_the_secret_is_refused(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world = { .n = 2 };
	struct flow flow;

	for (int i = 0; i < 2; i++)
		rank_open(&world.rank[i], OPS, i, 2, 300, "127.0.0.1");
	rank_attach(&world.rank[0], &world, test_secret);
	rank_attach(&world.rank[1], &world, wrong_secret);
	flow = flow_open(&world, 0, 1, &lane, 1);
	until(&world, is_lost, &world.rank[0]);
	assert_int_equal(world.rank[0].lost[1], -EPROTO);
	assert_string_equal(world.rank[0].detail[1], "it does not know this job's secret");
	until(&world, is_lost, &world.rank[1]); /* never heard of anybody who could prove himself */
	assert_int_equal(world.rank[1].lost[0], -ETIMEDOUT);
	assert_int_equal(ddl__mesh_dropped(world.rank[1].transport), 1);
	assert_int_equal(world.rank[0].n_announced + world.rank[1].n_announced, 0);
	flow_close(&flow);
	world_close(&world);
}

static int connect_raw(const struct world *world, int rank)
{
	const struct ddl__mesh *mesh = (const struct ddl__mesh *)world->rank[rank].transport;
	struct sockaddr_storage to;
	socklen_t size;
	char words[96];
	int fd;

	mesh->ops->target(mesh->address + sizeof(struct ddl__mesh_address), &to, &size, words, sizeof(words));
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, size), 0);
	return fd;
}

static bool all_dropped(void *context)
{
	struct ddl__mesh *mesh = context;

	return mesh->n_strangers == 0;
}

#define STRANGERS 150 /* more than there are slots */

static void test_strangers_are_sent_away_and_disturb_nobody(void **state)
{
	static const char garbage[] = "GET / HTTP/1.1\r\nHost: a-port-scanner\r\n\r\n";
	struct ddl__frame frame = { .magic = DDL__FRAME_MAGIC, .type = DDL__FRAME_HELLO, .bytes = sizeof(struct ddl__auth_hello) };
	struct ddl__auth_hello hello = { .version = DDL__AUTH_VERSION, .from = 0, .to = 1, .n_ranks = 2 };
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct ddl__mesh *mesh;
	struct world world;
	struct flow flow;
	int fds[STRANGERS];

	world_open(&world, OPS, 2);
	mesh = (struct ddl__mesh *)world.rank[1].transport;
	mesh->stranger_ms = 300;
	for (int i = 0; i < STRANGERS; i++) {
		fds[i] = connect_raw(&world, 1);
		if (i % 3 == 1)
			assert_true(send(fds[i], garbage, sizeof(garbage), MSG_NOSIGNAL) > 0);
		if (i % 3 == 2) { /* knows the protocol, but not this transport's number */
			assert_int_equal(send(fds[i], &frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
			assert_int_equal(send(fds[i], &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
		}
	}
	flow = flow_open(&world, 0, 1, &lane, 100);
	until(&world, flow_step, &flow);
	until(&world, all_dropped, mesh);
	assert_int_equal(ddl__mesh_dropped(&mesh->base), STRANGERS);
	for (int i = 0; i < STRANGERS; i++)
		close(fds[i]);
	flow_close(&flow);
	leave(&world);
}

static void test_a_peer_that_sends_rubbish_is_lost(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world;
	struct flow flow;
	struct ddl__mesh *mesh;

	world_open(&world, OPS, 3);
	flow = flow_open(&world, 0, 1, &lane, 5);
	until(&world, flow_step, &flow);
	mesh = (struct ddl__mesh *)world.rank[0].transport;
	assert_int_equal(send(mesh->links[1]->stream->fd, "this is no frame, whoever sent it", 33, MSG_NOSIGNAL), 33);
	until(&world, is_lost, &world.rank[1]);
	assert_int_equal(world.rank[1].lost[0], -EBADMSG);
	until(&world, is_lost, &world.rank[0]);
	assert_int_equal(world.rank[0].lost[1], -ECONNRESET);
	flow_close(&flow);
	flow = flow_open(&world, 2, 1, &lane, 5); /* the others go on */
	until(&world, flow_step, &flow);
	flow_close(&flow);
	world_close(&world);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static size_t add_frame(uint8_t *to, struct ddl__frame frame, const void *body)
{
	frame.magic = DDL__FRAME_MAGIC;
	memcpy(to, &frame, sizeof(frame));
	memcpy(to + sizeof(frame), body, frame.bytes);
	return sizeof(frame) + frame.bytes;
}

/* One of each kind, most of them good. */
static size_t add_frames(uint8_t *to, const struct ddl__lane *lane, uint32_t rx_grant, uint32_t tx_grant, uint32_t fresh)
{
	static const uint8_t slice[100] = { 1 };
	struct ddl__lane other = lane_of(fresh, 2, 2, 50);
	uint32_t r = lane->request, i = lane->index;
	size_t n = 0;

	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_ANNOUNCE, sizeof(other), fresh, 2, 1, 0 }, &other);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_DATA, 100, r, i, rx_grant, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_DATA, 0, r, i, rx_grant, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_CREDIT, 0, r, i, tx_grant, 1 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_WITHDRAW, 0, fresh, 2, 1, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_DOORBELL, 0, 0, 0, 0, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_ABORT, 20, 0, 0, 0, (uint32_t)-1 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_BYE, 0, 0, 0, 0, 0 }, slice);
	return n;
}

static void test_mutated_frames_on_a_link_do_no_harm(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	uint64_t seed = 0xfeedbeef;
	size_t refused = 0;
	struct world world;
	struct flow there, back;
	struct ddl__link *link;

	world_open(&world, OPS, 2);
	there = flow_open(&world, 0, 1, &lane, 7);
	back = flow_open(&world, 1, 0, &lane, 7);
	until(&world, flow_step, &there);
	until(&world, flow_step, &back);
	link = ((struct ddl__mesh *)world.rank[1].transport)->links[0];
	for (uint32_t round = 0; round < 5000; round++) {
		uint8_t bytes[1024];
		struct ddl__end *rx = ddl__table_find(&link->rx, 1, 0), *tx = ddl__table_find(&link->tx, 1, 0);
		size_t n = add_frames(bytes, &lane, rx->grant, tx ? tx->grant : 1, 100 + round);
		size_t skip = random_next(&seed) % 3 ? 0 : 24 + 56;
		struct ddl__parser parser = { 0 };
		size_t bytes_left;
		int rc = 0;

		for (uint64_t m = random_next(&seed) % 6; m; m--)
			bytes[random_next(&seed) % n] ^= (uint8_t)(1u << random_next(&seed) % 8);
		for (size_t at = skip; at < n && rc == 0;) {
			size_t take = 1 + random_next(&seed) % 100, used;

			take = take < n - at ? take : n - at;
			rc = ddl__parser_feed(&parser, &ddl__link_sink, link, bytes + at, take, &used);
			at += take;
		}
		assert_true(rc == 0 || rc == -EBADMSG);
		refused += rc != 0;
		link->heard_bye = false;
		OPS->rx_slot(there.rx, &bytes_left); /* what landed may be looked at */
	}
	assert_true(refused > 100);
	assert_int_equal(world.rank[1].n_lost, 0);
	flow_close(&there);
	flow_close(&back);
	world_close(&world);
}

/* Circumstances */

struct hardship {
	struct flow *flow;
	struct ddl__mesh *mesh; /* of the listening rank */
	struct rlimit limit;    /* as it was */
	bool over;
};

static bool flow_step_once_sent_away(void *context)
{
	struct hardship *hard = context;

	if (hard->mesh->n_dropped)
		hard->mesh->stranger_ms = DDL__MESH_STRANGER_MS;
	return flow_step(hard->flow);
}

static void test_one_that_was_too_slow_tries_again(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world;
	struct flow flow;
	struct hardship hard = { .flow = &flow };

	world_open(&world, OPS, 2);
	hard.mesh = (struct ddl__mesh *)world.rank[1].transport;
	hard.mesh->stranger_ms = 0; /* sent away at once */
	flow = flow_open(&world, 0, 1, &lane, 10);
	until(&world, flow_step_once_sent_away, &hard);
	assert_true(hard.mesh->n_dropped > 0);
	flow_close(&flow);
	leave(&world);
}

static bool flow_step_once_out_of_descriptors(void *context)
{
	struct hardship *hard = context;

	if (hard->mesh->listen_again_ns && !hard->over) {
		hard->over = true;
		setrlimit(RLIMIT_NOFILE, &hard->limit);
	}
	return flow_step(hard->flow);
}

static void test_running_out_of_descriptors_is_not_the_end(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world;
	struct flow flow;
	struct hardship hard = { .flow = &flow };
	struct rlimit none;
	int next;

	world_open(&world, OPS, 2);
	hard.mesh = (struct ddl__mesh *)world.rank[1].transport;
	flow = flow_open(&world, 0, 1, &lane, 10);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &hard.limit), 0);
	none = hard.limit;
	next = dup(0);
	close(next);
	none.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	until(&world, flow_step_once_out_of_descriptors, &hard);
	assert_true(hard.over);
	flow_close(&flow);
	leave(&world);
}

static void test_a_goodbye_waits_for_no_connection(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);

	for (int i = 0; i < 2; i++) { /* one that connects, one that waits */
		struct world world;
		struct ddl__rx *rx;

		world_open(&world, OPS, 2);
		rx = open_rx(&world.rank[i], !i, &lane);
		OPS->rx_close(rx);
		OPS->goodbye(world.rank[i].transport);
		assert_true(OPS->done(world.rank[i].transport));
		world_close(&world);
	}
}

static void test_ranks_that_never_spoke_leave_at_once(void **state)
{
	struct world world;

	world_open(&world, OPS, 3);
	for (int i = 0; i < 3; i++) {
		OPS->goodbye(world.rank[i].transport);
		assert_true(OPS->done(world.rank[i].transport));
	}
	world_close(&world);
	OPS->close(NULL);
}

static void test_malformed_addresses_are_refused(void **state)
{
	static const size_t sizes[] = { 0, 3, 17, DDL__ADDRESS_MAX };
	uint8_t junk[DDL__ADDRESS_MAX];

	memset(junk, 0xa5, sizeof(junk));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct ddl__peer peers[3] = { { 0 }, { junk, sizes[i], "one machine" }, { 0 } };
		struct ddl_error err = { 0 };
		struct world world = { .n = 1 };

		rank_open(&world.rank[0], OPS, 0, 3, 1000, "127.0.0.1");
		assert_int_equal(OPS->attach(world.rank[0].transport, peers, test_secret, &err), -EBADMSG);
		assert_non_null(strstr(err.text, "rank 1"));
		world_close(&world);
	}
}

static void test_ranks_without_an_address_are_not_reached(void **state)
{
	struct ddl__peer peers[3] = { { 0 } };
	struct world world = { .n = 1 };

	rank_open(&world.rank[0], OPS, 0, 3, 1000, "127.0.0.1");
	assert_int_equal(OPS->attach(world.rank[0].transport, peers, test_secret, NULL), 0);
	for (int i = -1; i < 4; i++)
		assert_false(OPS->reaches(world.rank[0].transport, i));
	world_close(&world);
}

/* In the child: rank 1, which receives three slices and dies without a word. Exits by itself if anything goes wrong. */
static void die_in_the_middle(int in, int out)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 1000);
	struct flow flow = { .ops = OPS, .lane = lane, .slices = 3 };
	struct world world = { .n = 2 };

	rank_open(&world.rank[1], OPS, 1, 2, WATCHDOG_MS, "127.0.0.1");
	if (write(out, world.rank[1].address, DDL__ADDRESS_MAX) != DDL__ADDRESS_MAX ||
	    read(in, world.rank[0].address, DDL__ADDRESS_MAX) != DDL__ADDRESS_MAX)
		_exit(1);
	world.rank[0].address_size = world.rank[1].address_size;
	rank_attach(&world.rank[1], &world, test_secret);
	flow.rx = open_rx(&world.rank[1], 0, &lane);
	until(&world, flow_step, &flow);
	kill(getpid(), SIGKILL);
	_exit(2);
}

static void test_the_death_of_a_peer_is_noticed(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 1000);
	struct flow flow = { .ops = OPS, .lane = lane, .slices = 1000 };
	struct world world = { .n = 2 };
	int to_child[2], to_parent[2], status;
	pid_t child;

	assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		die_in_the_middle(to_child[0], to_parent[1]);
	rank_open(&world.rank[0], OPS, 0, 2, WATCHDOG_MS, "127.0.0.1");
	assert_int_equal(read(to_parent[0], world.rank[1].address, DDL__ADDRESS_MAX), DDL__ADDRESS_MAX);
	world.rank[1].address_size = world.rank[0].address_size;
	assert_int_equal(write(to_child[1], world.rank[0].address, DDL__ADDRESS_MAX), DDL__ADDRESS_MAX);
	rank_attach(&world.rank[0], &world, test_secret);
	flow.tx = open_tx(&world.rank[0], 1, &lane);
	while (world.rank[0].n_lost == 0) {
		flow_send(&flow);
		rank_sleeping(&world.rank[0], true);
		flow_send(&flow);
		if (world.rank[0].n_lost == 0)
			world_sleep(&world);
		rank_sleeping(&world.rank[0], false);
		rank_poll(&world.rank[0]);
	}
	assert_int_equal(world.rank[0].lost[1], -ECONNRESET);
	assert_null(OPS->tx_slot(flow.tx));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	flow_close(&flow);
	world_close(&world);
	for (int i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
}

/* One rank per thread: the way to sleep and to be woken */

struct player {
	struct rank *rank;
	struct flow out, in;
	size_t ahead; /* slices that this side may have sent more than it received */
	bool failed;
};

static bool play(struct player *player)
{
	flow_receive(&player->in);
	player->out.slices = player->in.received + player->ahead;
	if (player->out.slices > player->in.slices)
		player->out.slices = player->in.slices;
	flow_send(&player->out);
	return player->in.received == player->in.slices && player->out.sent == player->in.slices;
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

static void test_a_sleeping_rank_is_woken(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 1, 64);
	struct player player[2] = { 0 };
	struct world world;
	pthread_t thread[2];

	world_open(&world, OPS, 2);
	for (int i = 0; i < 2; i++) {
		struct flow flow = { .ops = OPS, .lane = lane, .slices = 3000 };

		player[i] = (struct player){ .rank = &world.rank[i], .out = flow, .in = flow, .ahead = i == 0 ? 1 : 0 };
		player[i].in.rx = open_rx(&world.rank[i], !i, &lane);
		player[i].out.tx = open_tx(&world.rank[i], !i, &lane);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, player_thread, &player[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		assert_false(player[i].failed);
		assert_int_equal(player[i].in.received, 3000);
		flow_close(&player[i].in);
		flow_close(&player[i].out);
	}
	leave(&world);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, note_fds, same_fds)

/* clang-format off */
#define TRANSPORT_CASES \
	CASE(test_works_here), \
	CASE(test_lanes_open_in_any_order), \
	CASE(test_an_announcement_waits_for_its_lane), \
	CASE(test_credits_stop_the_sender), \
	CASE(test_slices_may_be_empty), \
	CASE(test_a_stalled_lane_blocks_no_other), \
	CASE(test_four_ranks_all_to_all), \
	CASE(test_a_lane_of_another_shape_is_told_and_gets_no_credit), \
	CASE(test_lanes_that_cannot_be_are_refused), \
	CASE(test_a_closed_lane_may_be_opened_again), \
	CASE(test_what_was_sent_before_closing_is_delivered), \
	CASE(test_a_goodbye_loses_nothing), \
	CASE(test_sending_to_one_that_left_is_a_loss), \
	CASE(test_an_abort_reaches_the_peers_with_its_text), \
	CASE(test_nobody_listens_any_more), \
	CASE(test_a_peer_that_never_connects_is_lost_at_the_deadline), \
	CASE(test_a_peer_that_never_answers_is_lost_at_the_deadline), \
	CASE(test_a_peer_without_the_secret_is_refused), \
	CASE(test_strangers_are_sent_away_and_disturb_nobody), \
	CASE(test_a_peer_that_sends_rubbish_is_lost), \
	CASE(test_mutated_frames_on_a_link_do_no_harm), \
	CASE(test_one_that_was_too_slow_tries_again), \
	CASE(test_running_out_of_descriptors_is_not_the_end), \
	CASE(test_a_goodbye_waits_for_no_connection), \
	CASE(test_ranks_that_never_spoke_leave_at_once), \
	CASE(test_malformed_addresses_are_refused), \
	CASE(test_ranks_without_an_address_are_not_reached), \
	CASE(test_the_death_of_a_peer_is_noticed), \
	CASE(test_a_sleeping_rank_is_woken)
/* clang-format on */

#endif
