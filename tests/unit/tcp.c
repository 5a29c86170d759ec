/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.c - lanes over TCP: what every transport must do, and what is TCP's own. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "transport.h"

#define OPS (&ddl__transport_tcp)
#include "transport_faults.h"

static int open_at(struct rank *rank, const char *const *addresses, size_t n, struct ddl_error *err)
{
	struct ddl__transport_config config = {
		.n_ranks = 1,
		.timeout_ms = 1000,
		.machine = "",
		.addresses = addresses,
		.n_addresses = n,
		.events = &test_events,
		.context = rank,
	};
	int rc;

	rank->epoll_fd = config.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rc = OPS->open(&config, &rank->transport, err);
	if (rc)
		close(rank->epoll_fd);
	else
		rank->ops = OPS;
	return rc;
}

static void test_the_first_address_that_is_there_is_taken(void **state)
{
	static const char *const some[] = { "192.0.2.77", "127.0.0.1" }, *const none[] = { "192.0.2.77", "no address" };
	struct rank rank = { 0 };
	struct ddl_error err = { 0 };

	assert_int_equal(open_at(&rank, some, 2, &err), 0);
	rank_close(&rank);
	assert_true(open_at(&rank, none, 2, &err) < 0);
	assert_non_null(strstr(err.text, "192.0.2.77"));
	assert_true(open_at(&rank, none, 0, &err) < 0);
	assert_non_null(strstr(err.text, "no address"));
}

static void test_loopback_reaches_nobody_on_another_machine(void **state)
{
	struct ddl__peer peers[3] = { 0 };
	struct world world = { .n = 3 };

	for (int i = 0; i < 3; i++) {
		rank_open(&world.rank[i], OPS, i, 3, WATCHDOG_MS, "127.0.0.1");
		peers[i] = (struct ddl__peer){ world.rank[i].address, world.rank[i].address_size, "one machine" };
	}
	peers[2].machine = "another machine";
	assert_int_equal(OPS->attach(world.rank[0].transport, peers, test_secret, NULL), 0);
	assert_true(OPS->reaches(world.rank[0].transport, 1));
	assert_false(OPS->reaches(world.rank[0].transport, 2));
	world_close(&world);
}

static void test_ipv6(void **state)
{
	static const char *const loopback[] = { "::1" };
	struct ddl__lane lane = lane_of(1, 0, 4, 10000);
	struct world world = { .n = 2 };
	struct rank probe = { 0 };
	struct flow flow;

	if (open_at(&probe, loopback, 1, NULL)) {
		print_message("no IPv6 on this machine\n");
		skip();
	}
	rank_close(&probe);
	for (int i = 0; i < 2; i++)
		rank_open(&world.rank[i], OPS, i, 2, WATCHDOG_MS, "::1");
	for (int i = 0; i < 2; i++)
		rank_attach(&world.rank[i], &world, test_secret);
	flow = flow_open(&world, 0, 1, &lane, 100);
	until(&world, flow_step, &flow);
	flow_close(&flow);
	leave(&world);
}

static struct ddl__link *link_of(struct world *world, int rank, int peer)
{
	return link_at(&world->rank[rank], peer);
}

static void test_sockets_that_take_little_lose_nothing(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 8, 60000), other = lane_of(1, 1, 3, 7000);
	static struct flows flows;
	struct world world;
	int small = 32768; /* less than the slots hold; smaller ones make the kernel wait for its own timers */

	world_open(&world, OPS, 2);
	flows.n = 4;
	flows.flow[0] = flow_open(&world, 0, 1, &lane, 100);
	flows.flow[1] = flow_open(&world, 1, 0, &lane, 100);
	flows.flow[2] = flow_open(&world, 0, 1, &other, 400);
	flows.flow[3] = flow_open(&world, 1, 0, &other, 400);
	until(&world, has_credit, flows.flow[0].tx);
	for (int i = 0; i < 2; i++) {
		int fd = link_of(&world, i, !i)->stream->fd;

		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	}
	until(&world, flows_step, &flows);
	for (size_t i = 0; i < flows.n; i++)
		flow_close(&flows.flow[i]);
	leave(&world);
}

static void test_nothing_is_paced_within_a_machine(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 2, 100);
	static struct flows flows;
	struct world world;

	world_open(&world, OPS, 2);
	flows.n = 1;
	flows.flow[0] = flow_open(&world, 0, 1, &lane, 10);
	until(&world, has_credit, flows.flow[0].tx);
	for (int i = 0; i < 2; i++) {
		char name[16] = "";
		socklen_t size = sizeof(name);

		assert_int_equal(getsockopt(link_of(&world, i, !i)->stream->fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
		assert_string_equal(name, "reno");
	}
	until(&world, flows_step, &flows);
	flow_close(&flows.flow[0]);
	leave(&world);
}

/* Bytes on their way from rank 0 to rank 1 that the kernel has: they can be overtaken no more. */
static size_t in_the_kernel(struct world *world)
{
	int sent = 0, landed = 0;

	assert_int_equal(ioctl(link_of(world, 0, 1)->stream->fd, SIOCOUTQ, &sent), 0);
	assert_int_equal(ioctl(link_of(world, 1, 0)->stream->fd, FIONREAD, &landed), 0);
	return (size_t)sent + (size_t)landed;
}

static size_t bytes_received(const struct flow *flow)
{
	size_t bytes = 0;

	for (size_t i = 0; i < flow->received; i++)
		bytes += slice_bytes(flow, i);
	return bytes;
}

struct race {
	struct flow *slow, *patient, *urgent;
};

static bool urgent_is_there(void *context)
{
	struct race *race = context;
	size_t bytes;

	if (OPS->rx_slot(race->urgent->rx, &bytes))
		return true;
	flow_receive(race->slow);
	flow_receive(race->patient);
	return false;
}

static void test_an_urgent_lane_overtakes_what_waits(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 64, 500000), urgent = lane_of(2, 0, 1, 1000), last = lane_of(3, 0, 1, 1000);
	struct world world;
	struct flow slow, patient, fast;
	struct race race = { &slow, &patient, &fast };

	urgent.call.priority = 5;
	last.call.priority = -5;
	world_open(&world, OPS, 2);
	slow = flow_open(&world, 0, 1, &lane, 64);
	patient = flow_open(&world, 0, 1, &last, 1);
	fast = flow_open(&world, 0, 1, &urgent, 1);
	until(&world, has_credit, patient.tx);
	until(&world, has_credit, slow.tx);
	until(&world, has_credit, fast.tx);
	flow_send(&slow);
	flow_send(&patient);
	flow_send(&fast);
	assert_int_equal(slow.sent, 64);
	assert_false(OPS->tx_flushed(slow.tx)); /* 32 MB are more than the kernel takes */
	size_t taken = in_the_kernel(&world);
	until(&world, urgent_is_there, &race);
	assert_true(slow.received < 64);
	assert_true(bytes_received(&slow) <= taken + 2 * 500000); /* what the kernel had, and what had begun */
	assert_int_equal(patient.received, 0);
	assert_false(has_slice(patient.rx));
	until(&world, flow_step, &slow);
	until(&world, flow_step, &patient);
	until(&world, flow_step, &fast);
	flow_close(&slow);
	flow_close(&patient);
	flow_close(&fast);
	leave(&world);
}

struct order {
	struct flow *first, *second;
};

/* The second receives only while not all of the first is there. */
static bool first_is_through(void *context)
{
	struct order *order = context;

	flow_receive(order->first);
	if (order->first->received == order->first->slices)
		return true;
	flow_receive(order->second);
	return false;
}

static void test_of_equal_lanes_the_one_that_was_started_first_goes_first(void **state)
{
	struct ddl__lane lanes[] = { lane_of(1, 0, 32, 500000), lane_of(2, 0, 32, 500000) };

	for (int first = 0; first < 2; first++) { /* whatever was made first, and whatever has slices first */
		struct world world;
		struct flow flow[2];
		struct order order = { &flow[first], &flow[!first] };

		world_open(&world, OPS, 2);
		for (int i = 0; i < 2; i++) {
			flow[i] = flow_open(&world, 0, 1, &lanes[i], 32);
			until(&world, has_credit, flow[i].tx);
			OPS->tx_turn(flow[i].tx, i == first ? 10 : 11);
		}
		flow_send(order.second);
		size_t taken = in_the_kernel(&world);
		flow_send(order.first);
		until(&world, first_is_through, &order);
		assert_true(order.second->received < order.second->slices);
		assert_true(bytes_received(order.second) <= taken + 2 * 500000); /* what the kernel had, and what had begun */
		until(&world, flow_step, order.second);
		flow_close(&flow[0]);
		flow_close(&flow[1]);
		leave(&world);
	}
}

static void test_one_that_left_before_it_got_all_is_lost(void **state)
{
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	fill(&world, &flow);
	assert_false(OPS->tx_flushed(flow.tx));
	OPS->rx_close(flow.rx);
	flow.rx = NULL;
	OPS->goodbye(world.rank[1].transport);
	until(&world, heard_bye, &world.rank[0]);
	assert_int_equal(world.rank[0].n_lost, 0);
	rank_close(&world.rank[1]);
	until(&world, is_lost, &world.rank[0]);
	assert_int_equal(world.rank[0].lost[1], -ECONNRESET);
	assert_string_equal(world.rank[0].detail[1], "it has left");
	flow_close(&flow);
	world_close(&world);
}

static bool amid_a_slice(void *context)
{
	struct ddl__link *link = context;
	size_t room;

	return ddl__parser_room(&link->stream->parser, &room) && room == 50;
}

static void test_a_lane_closed_amid_a_slice_loses_the_rest(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100), other = lane_of(2, 0, 4, 100);
	struct ddl__frame frame = { DDL__FRAME_MAGIC, DDL__FRAME_DATA, 100, 1, 0, 0, 0 };
	static const uint8_t body[50];
	struct world world;
	struct flow flow, more;
	int fd;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 0, 1, &lane, 4);
	until(&world, flow_step, &flow);
	frame.grant = ddl__table_find(&link_of(&world, 1, 0)->rx, 1, 0)->grant;
	fd = link_of(&world, 0, 1)->stream->fd;
	assert_int_equal(send(fd, &frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
	assert_int_equal(send(fd, body, 50, MSG_NOSIGNAL), 50);
	until(&world, amid_a_slice, link_of(&world, 1, 0));
	OPS->rx_close(flow.rx);
	flow.rx = NULL;
	assert_int_equal(send(fd, body, 50, MSG_NOSIGNAL), 50);
	more = flow_open(&world, 0, 1, &other, 4);
	until(&world, flow_step, &more);
	flow_close(&flow);
	flow_close(&more);
	leave(&world);
}

struct lie {
	const char *says;
	uint16_t type;
	uint32_t bytes, count, times;
	bool old; /* of an earlier opening: dropped, no harm */
};

static void test_what_breaks_the_contract_is_a_loss(void **state)
{
	static const struct lie lies[] = {
		{ "it sent a slice that is larger than its slot", DDL__FRAME_DATA, 101, 0, 1, false },
		{ "it sent a slice without a credit", DDL__FRAME_DATA, 1, 0, 5, false },
		{ "it gave credits for slices that it cannot have", DDL__FRAME_CREDIT, 0, 5, 1, false },
		{ "it gave credits for slices that it cannot have", DDL__FRAME_CREDIT, 0, UINT32_MAX, 1, false },
		{ "it sent a frame that has no meaning over tcp", DDL__FRAME_DOORBELL, 0, 0, 1, false },
		{ "it announced a lane twice", DDL__FRAME_ANNOUNCE, offsetof(struct ddl__announcement, terms), 0, 1, false },
		{ "it announced a lane in a wrong form", DDL__FRAME_ANNOUNCE, 55, 0, 1, false },
		{ "it told of the loss of a rail that cannot be", DDL__FRAME_LOST, 0, 0, 1, false },
		{ "it told of the loss of a rail that cannot be", DDL__FRAME_LOST, 0, 7, 1, false },
		{ "it told of the loss of a rail that cannot be", DDL__FRAME_LOST, 5, 1, 1, false },
		{ "it began the handshake anew", DDL__FRAME_PROOF, 0, 0, 1, false },
		{ "it went on after its goodbye", DDL__FRAME_BYE, 0, 0, 2, false },
		{ NULL, DDL__FRAME_DATA, 100, 0, 10, true },
		{ NULL, DDL__FRAME_CREDIT, 0, 1000, 1, true },
		{ NULL, DDL__FRAME_WITHDRAW, 0, 0, 2, true },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		const struct lie *lie = &lies[i];
		struct ddl__lane lane = lane_of(1, 0, 4, 100);
		uint8_t body[sizeof(struct ddl__announcement)] = { 0 };
		struct world world;
		struct flow there, back;
		struct ddl__end *rx, *tx;

		world_open(&world, OPS, 2);
		there = flow_open(&world, 0, 1, &lane, 4);
		back = flow_open(&world, 1, 0, &lane, 2);
		until(&world, flow_step, &there);
		until(&world, flow_step, &back);
		rx = ddl__table_find(&link_of(&world, 1, 0)->rx, 1, 0);
		tx = ddl__table_find(&link_of(&world, 1, 0)->tx, 1, 0);
		memcpy(body, &lane, sizeof(lane));
		for (uint32_t k = 0; k < lie->times; k++) {
			struct ddl__frame frame = { DDL__FRAME_MAGIC, lie->type, lie->bytes, 1, 0, 0, lie->count };
			int fd = link_of(&world, 0, 1)->stream->fd;

			frame.grant = (lie->type == DDL__FRAME_DATA ? rx->grant : tx->grant) + (lie->old ? 1000u : 0u);
			assert_int_equal(send(fd, &frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
			assert_int_equal(send(fd, body, lie->bytes, MSG_NOSIGNAL), lie->bytes);
		}
		if (lie->says) {
			until(&world, is_lost, &world.rank[1]);
			assert_int_equal(world.rank[1].lost[0], -EBADMSG);
			assert_string_equal(world.rank[1].detail[0], lie->says);
		} else {
			there.slices = 50;
			until(&world, flow_step, &there);
			assert_int_equal(world.rank[1].n_lost, 0);
		}
		flow_close(&there);
		flow_close(&back);
		world_close(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_works_here),
		TRANSPORT_CASES,
		TRANSPORT_FAULTS,
		CASE(test_the_death_of_a_peer_is_noticed),
		CASE(test_the_first_address_that_is_there_is_taken),
		CASE(test_loopback_reaches_nobody_on_another_machine),
		CASE(test_ipv6),
		CASE(test_sockets_that_take_little_lose_nothing),
		CASE(test_nothing_is_paced_within_a_machine),
		CASE(test_an_urgent_lane_overtakes_what_waits),
		CASE(test_of_equal_lanes_the_one_that_was_started_first_goes_first),
		CASE(test_one_that_left_before_it_got_all_is_lost),
		CASE(test_a_lane_closed_amid_a_slice_loses_the_rest),
		CASE(test_what_breaks_the_contract_is_a_loss),
	};

	return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
