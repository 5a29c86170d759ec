/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_rails.c - several connections to a peer, one a rail and channel; slices from and to memory that is not a slot. The rails are
 * addresses of the loopback.
 */
#include <netinet/in.h>

#include "transport.h"
#include "transport_pair.h"

#define OPS   (&ddl__transport_tcp)
#define RAILS 2

static const struct ddl__spot spot; /* tcp asks the receiver where that is */

static const char *const addresses[] = { "127.0.0.1", "127.0.0.2", "127.0.0.3" };

static void open_rails(struct rank *rank, int number, int n_ranks, size_t rails, const char *const *names)
{
	struct ddl_error err = { 0 };
	struct ddl__transport_config config = {
		.rank = number,
		.n_ranks = n_ranks,
		.timeout_ms = 10 * WATCHDOG_MS,
		.machine = "one machine",
		.addresses = addresses,
		.interfaces = names,
		.n_addresses = rails,
		.events = &test_events,
		.context = rank,
	};

	memset(rank, 0, sizeof(*rank));
	rank->ops = OPS;
	rank->epoll_fd = config.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (OPS->open(&config, &rank->transport, &err))
		fail_msg("open: %s", err.text);
	assert_int_equal(OPS->address(rank->transport, rank->address, &rank->address_size), 0);
}

static void two_ranks(struct world *world, size_t rails_0, size_t rails_1, const char *const *names)
{
	memset(world, 0, sizeof(*world));
	world->n = 2;
	open_rails(&world->rank[0], 0, 2, rails_0, names);
	open_rails(&world->rank[1], 1, 2, rails_1, names);
	for (int i = 0; i < 2; i++)
		rank_attach(&world->rank[i], world, test_secret);
}

static struct ddl__mesh *mesh_of(struct world *world, int rank)
{
	return (struct ddl__mesh *)world->rank[rank].transport;
}

/* Links that are up to the other of two ranks. */
static unsigned count_links(struct world *world, int rank)
{
	const struct ddl__mesh *mesh = mesh_of(world, rank);
	unsigned n = 0;

	for (size_t i = 0; i < mesh->n_links; i++)
		n += mesh->links[i] && mesh->links[i]->state == DDL__LINK_UP;
	return n;
}

/* Last byte of the address at an end of the link's connection. */
static unsigned end_of(struct world *world, int rank, unsigned rail, unsigned channel, bool theirs)
{
	struct ddl__link *link = ddl__mesh_link(mesh_of(world, rank), !rank, rail, channel);
	struct sockaddr_in name;
	socklen_t size = sizeof(name);

	assert_non_null(link->stream);
	assert_int_equal((theirs ? getpeername : getsockname)(link->stream->fd, (struct sockaddr *)&name, &size), 0);
	return ntohl(name.sin_addr.s_addr) & 255;
}

static void run_lanes(struct world *world, struct flows *flows, size_t n, uint32_t rings)
{
	flows->n = n;
	for (size_t i = 0; i < n; i++) {
		struct ddl__lane lane = lane_of(1, (uint32_t)i, 4, 5000);

		lane.call.rings = rings;
		flows->flow[i] = flow_open(world, (int)(i % 2), (int)(1 - i % 2), &lane, 50);
	}
	until(world, flows_step, flows);
}

static void end_lanes(struct flows *flows)
{
	for (size_t i = 0; i < flows->n; i++)
		flow_close(&flows->flow[i]);
}

static void test_each_ring_goes_over_its_rail(void **state)
{
	static const char *const names[] = { "lo", "lo", "lo" };
	static struct flows flows;
	struct world world;

	two_ranks(&world, RAILS, RAILS, names);
	run_lanes(&world, &flows, 4, RAILS);
	assert_int_equal(count_links(&world, 0), RAILS);
	for (unsigned rail = 0; rail < RAILS; rail++) {
		for (int rank = 0; rank < 2; rank++) {
			assert_int_equal(end_of(&world, rank, rail, 0, false), rail + 1);
			assert_int_equal(end_of(&world, rank, rail, 0, true), rail + 1);
		}
	}
	end_lanes(&flows);
	leave(&world);
}

static void test_rings_that_share_a_rail_have_channels(void **state)
{
	static const struct {
		size_t lanes;
		uint32_t rings;
		unsigned links;
	} cases[] = { { 2, 2, 2 }, { 4, 2, 2 }, { 4, 4, 4 }, { 8, 8, 8 }, { 16, 16, 8 }, { 3, 1, 2 }, { 1, 64, 1 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct flows flows;
		struct world world;

		two_ranks(&world, RAILS, RAILS, NULL);
		run_lanes(&world, &flows, cases[i].lanes, cases[i].rings);
		assert_int_equal(count_links(&world, 0), cases[i].links);
		assert_int_equal(count_links(&world, 1), cases[i].links);
		end_lanes(&flows);
		leave(&world);
	}
}

static void test_ranks_with_other_numbers_of_rails_use_what_both_have(void **state)
{
	for (size_t first = 1; first <= 3; first++) {
		for (size_t second = 1; second <= 3; second++) {
			static struct flows flows;
			struct world world;

			two_ranks(&world, first, second, NULL);
			run_lanes(&world, &flows, 6, 1);
			assert_int_equal(count_links(&world, 0), first < second ? first : second);
			end_lanes(&flows);
			leave(&world);
		}
	}
}

static bool both_lost(void *context)
{
	struct world *world = context;

	return world->rank[0].n_lost && world->rank[1].n_lost;
}

/* What goes from the first rank to the second over a rail, and back, gets lost from now on. */
static void break_rail(struct world *world, unsigned rail, unsigned channel)
{
	assert_int_equal(shutdown(ddl__mesh_link(mesh_of(world, 0), 1, rail, channel)->stream->fd, SHUT_RDWR), 0);
}

struct until_some {
	struct flows *flows;
	size_t slices; /* of the first flow are enough */
};

static bool some_came(void *context)
{
	struct until_some *some = context;

	return flows_step(some->flows) || some->flows->flow[0].received >= some->slices;
}

static bool both_moved(void *context)
{
	struct world *world = context;

	return world->rank[0].n_moved && world->rank[1].n_moved;
}

/*
 * Two or four links, either rail, at any slice: all comes, once and in order; and lanes that are opened then go as well. The names
 * are of an interface that is there: a transport looks at them whenever an interface of the machine changes.
 */
static void test_a_rail_that_breaks_is_carried_on_by_another(void **state)
{
	static const char *const names[] = { "lo", "lo" };

	for (size_t at = 0; at < 80; at++) {
		struct flows flows = { .n = 8 }, more = { .n = 4 };
		struct until_some some = { &flows, at / 2 };
		unsigned rail = at % 2;
		struct world world;

		two_ranks(&world, RAILS, RAILS, names);
		for (size_t i = 0; i < flows.n; i++) {
			struct ddl__lane lane = lane_of(1, (uint32_t)i, 4, i < 4 ? 60000 : 100);

			lane.call.rings = at % 4 < 2 ? 2 : 4;
			flows.flow[i] = flow_open(&world, (int)(i % 2), (int)(1 - i % 2), &lane, 50);
		}
		until(&world, has_credit, flows.flow[rail].tx);
		until(&world, some_came, &some);
		break_rail(&world, rail, 0);
		until(&world, both_moved, &world);
		until(&world, flows_step, &flows);
		for (size_t i = 0; i < more.n; i++) {
			struct ddl__lane lane = lane_of(2, (uint32_t)i, 4, 5000);

			more.flow[i] = flow_open(&world, (int)(i % 2), (int)(1 - i % 2), &lane, 50);
		}
		until(&world, flows_step, &more);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(world.rank[i].n_moved, 1);
			assert_non_null(strstr(world.rank[i].moved, rail ? "(rail 1, lo)" : "(rail 0, lo)"));
			assert_non_null(strstr(world.rank[i].moved, rail ? "goes on over rail 0" : "goes on over rail 1"));
		}
		end_lanes(&flows);
		end_lanes(&more);
		leave(&world);
	}
}

/* A rank sees the network fail on its only link to the other, which hears of no end. Returns what keeps that from it. */
static int cut(struct world *world, int rank)
{
	struct ddl__link *link = ddl__mesh_link(mesh_of(world, rank), !rank, 0, 0);
	int open;

	assert_int_equal(link->state, DDL__LINK_UP);
	open = dup(link->stream->fd);
	assert_true(open >= 0);
	ddl__mesh_enter(link->mesh);
	link->silent = true;
	ddl__link_fail(link, -ENETDOWN, "the cable is cut");
	ddl__mesh_leave(link->mesh);
	return open;
}

/* Either rank or both see it. The other is reached over the other rail and told, and all comes. */
static void test_a_rail_whose_loss_one_rank_alone_sees_is_carried_on_by_another(void **state)
{
	for (unsigned see = 1; see < 4; see++) {
		struct ddl__lane there = lane_of(1, 0, 4, 100), back = lane_of(1, RAILS, 4, 100);
		struct flows flows = { .n = 2 };
		struct until_some some = { &flows, 5 };
		int open[2] = { -1, -1 };
		struct world world;

		there.call.rings = back.call.rings = 1;
		two_ranks(&world, RAILS, RAILS, NULL);
		flows.flow[0] = flow_open(&world, 0, 1, &there, 50);
		flows.flow[1] = flow_open(&world, 1, 0, &back, 50);
		until(&world, some_came, &some);
		assert_int_equal(count_links(&world, 0), 1);
		for (int i = 0; i < 2; i++)
			if (see & 1u << i)
				open[i] = cut(&world, i);
		until(&world, both_moved, &world);
		until(&world, flows_step, &flows);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(world.rank[i].n_lost, 0);
			assert_int_equal(count_links(&world, i), 1);
			if (open[i] >= 0)
				close(open[i]);
		}
		end_lanes(&flows);
		leave(&world);
	}
}

static void test_the_last_rail_that_breaks_is_a_loss_and_is_named(void **state)
{
	static const char *const names[] = { "lo", "lo" };
	static struct flows flows;
	struct world world;

	two_ranks(&world, RAILS, RAILS, names);
	run_lanes(&world, &flows, 4, RAILS);
	break_rail(&world, 0, 0);
	until(&world, both_moved, &world);
	break_rail(&world, 1, 0);
	until(&world, both_lost, &world);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(world.rank[i].n_lost, 1); /* said once a peer */
		assert_non_null(strstr(world.rank[i].detail[!i], "(rail 1, lo)"));
	}
	end_lanes(&flows);
	world_close(&world);
}

static void test_addresses_of_other_sizes_are_not_reached(void **state)
{
	struct ddl__peer peers[2] = { { 0 } };
	struct world world = { .n = 1 };
	uint8_t address[DDL__ADDRESS_MAX];

	for (size_t more = 1; more < 400; more++) {
		open_rails(&world.rank[0], 0, 2, 1, NULL);
		open_rails(&world.rank[1], 1, 2, 1, NULL);
		memset(address, 0, sizeof(address));
		memcpy(address, world.rank[1].address, world.rank[1].address_size);
		peers[1] = (struct ddl__peer){ address, world.rank[1].address_size + more, "one machine" };
		assert_int_equal(OPS->attach(world.rank[0].transport, peers, test_secret, NULL), 0);
		assert_int_equal(OPS->reaches(world.rank[0].transport, 1), more % 20 == 0 && more < 160);
		rank_close(&world.rank[0]);
		rank_close(&world.rank[1]);
	}
}

/* Memory that is not a slot */

struct place { /* where slices land: room bytes each */
	uint8_t *memory;
	size_t room;
	uint64_t next; /* slice that the receiver takes next */
	uint64_t asked;
};

static void *where(void *context, uint64_t ahead, size_t bytes)
{
	struct place *place = context;

	place->asked++;
	assert_true(bytes <= place->room);
	return place->memory + (place->next + ahead) * place->room;
}

struct trade {
	struct ddl__tx *tx;
	struct ddl__rx *rx;
	const uint8_t *from;
	size_t bytes, sent, taken, n;
	struct place *place;
	bool final;
};

static bool trade_step(void *context)
{
	struct trade *trade = context;
	const uint8_t *at;
	size_t bytes;

	while (trade->sent < trade->n &&
	       OPS->tx_borrow(trade->tx, NULL, trade->from + trade->sent * trade->bytes, trade->bytes, trade->final ? &spot : NULL))
		trade->sent++;
	while ((at = OPS->rx_slot(trade->rx, &bytes))) {
		const uint8_t *target = trade->place->memory + trade->taken * trade->place->room;

		assert_int_equal(bytes, trade->bytes);
		assert_int_equal(at == target, trade->final);
		assert_memory_equal(at, trade->from + trade->taken * trade->bytes, bytes);
		trade->place->next = ++trade->taken;
		OPS->rx_release(trade->rx);
	}
	return trade->taken == trade->n && OPS->tx_flushed(trade->tx);
}

static void test_slices_go_from_memory_to_memory(void **state)
{
	static const size_t sizes[] = { 1, 100, 4096, 70000, 300000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int final = 0; final < 2; final++) {
			struct ddl__lane lane = lane_of(1, 0, 4, (uint32_t)sizes[i]);
			struct trade trade = { .bytes = sizes[i], .n = 20, .final = final };
			uint8_t *from = malloc(trade.n * sizes[i]);
			struct place place = { calloc(trade.n, sizes[i]), sizes[i], 0, 0 };
			struct world world;

			for (size_t k = 0; k < trade.n * sizes[i]; k++)
				from[k] = (uint8_t)(k * 31 + k / 251);
			trade.from = from;
			trade.place = &place;
			two_ranks(&world, 1, 1, NULL);
			trade.rx = open_rx(&world.rank[1], 0, &lane);
			OPS->rx_land(trade.rx, where, &place);
			trade.tx = open_tx(&world.rank[0], 1, &lane);
			until(&world, trade_step, &trade);
			assert_int_equal(place.asked, final ? trade.n : 0);
			if (final)
				assert_memory_equal(place.memory, from, trade.n * sizes[i]);
			OPS->rx_close(trade.rx);
			OPS->tx_close(trade.tx);
			leave(&world);
			free(from);
			free(place.memory);
		}
	}
}

static bool amid_landing(void *context)
{
	struct trade *trade = context;
	struct ddl__link *link = ((struct ddl__mesh_rx *)trade->rx)->link;
	size_t room;

	while (trade->sent < trade->n && OPS->tx_borrow(trade->tx, NULL, trade->from, trade->bytes, &spot))
		trade->sent++;
	return link->stream && ddl__parser_room(&link->stream->parser, &room) && room < trade->bytes;
}

static bool heard_of_abort(void *context)
{
	return ((struct rank *)context)->aborted != 0;
}

/* The sender's memory changes and the receiver's must not, once they were let go, and the connection still carries an abort. */
static void test_memory_that_was_let_go_is_not_touched(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 16, DDL__SLOT_BYTES_MAX);
	struct trade trade = { .bytes = DDL__SLOT_BYTES_MAX, .n = 16 };
	struct place place = { calloc(trade.n, trade.bytes), trade.bytes, 0, 0 };
	uint8_t *from = malloc(trade.bytes);
	struct world world;

	assert_non_null(from);
	assert_non_null(place.memory);
	memset(from, 1, trade.bytes);
	trade.from = from;
	two_ranks(&world, 1, 1, NULL);
	trade.rx = open_rx(&world.rank[1], 0, &lane);
	OPS->rx_land(trade.rx, where, &place);
	trade.tx = open_tx(&world.rank[0], 1, &lane);
	until(&world, amid_landing, &trade);
	assert_false(OPS->tx_flushed(trade.tx));
	OPS->let_go(world.rank[0].transport);
	OPS->let_go(world.rank[1].transport);
	free(from);         /* who reads it now is found by the address sanitizer, */
	free(place.memory); /* and so is who writes to this */
	OPS->abort(world.rank[0].transport, -ECANCELED, "enough");
	until(&world, heard_of_abort, &world.rank[1]);
	assert_string_equal(world.rank[1].abort_text, "enough");
	assert_int_equal(world.rank[1].n_lost, 0);
	assert_false(OPS->tx_borrow(trade.tx, NULL, &trade, 1, &spot));
	OPS->rx_close(trade.rx);
	OPS->tx_close(trade.tx);
	world_close(&world);
}

static bool has_landed(void *context)
{
	size_t bytes;

	return OPS->rx_slot(context, &bytes) != NULL;
}

static bool first_is_lost(void *context)
{
	return ((struct world *)context)->rank[0].n_lost != 0;
}

/* The sender was told that its memory is its own again, and the rail breaks before the peer has read: a loss, not wrong data. */
static void test_what_is_the_callers_again_cannot_be_sent_again(void **state)
{
	static uint8_t from[100], stolen[1000];
	struct ddl__lane lane = lane_of(1, 0, 4, sizeof(from)), other = lane_of(1, 1, 4, 100);
	struct world world;
	struct flow flow;
	struct ddl__rx *rx;
	struct ddl__tx *tx;

	two_ranks(&world, RAILS, RAILS, NULL);
	flow = flow_open(&world, 0, 1, &other, 10);
	until(&world, flow_step, &flow);
	rx = open_rx(&world.rank[1], 0, &lane);
	tx = open_tx(&world.rank[0], 1, &lane);
	until(&world, has_credit, tx);
	assert_true(OPS->tx_borrow(tx, NULL, from, sizeof(from), NULL));
	rank_flush(&world.rank[0], true);
	assert_true(OPS->tx_flushed(tx));
	assert_true(recv(ddl__mesh_link(mesh_of(&world, 1), 0, 0, 0)->stream->fd, stolen, sizeof(stolen), 0) > 100);
	break_rail(&world, 0, 0);
	until(&world, first_is_lost, &world);
	OPS->rx_close(rx);
	OPS->tx_close(tx);
	flow_close(&flow);
	world_close(&world);
}

/* The same, but it lay in a slot, or the sender does not know yet that it may be reused: it is sent again. */
static void test_what_was_written_and_not_read_is_sent_again(void **state)
{
	static uint8_t from[100], stolen[1000];

	for (int borrowed = 0; borrowed < 2; borrowed++) {
		struct ddl__lane lane = lane_of(1, 0, 4, sizeof(from)), other = lane_of(1, 1, 4, 100);
		struct world world;
		struct flow flow, back;
		const uint8_t *at = NULL;
		size_t bytes = 0;

		two_ranks(&world, RAILS, RAILS, NULL);
		back = flow_open(&world, 0, 1, &other, 10);
		until(&world, flow_step, &back);
		flow = flow_open(&world, 0, 1, &lane, 1);
		until(&world, has_credit, flow.tx);
		memset(from, 7, sizeof(from));
		if (borrowed) {
			assert_true(OPS->tx_borrow(flow.tx, NULL, from, sizeof(from), NULL));
		} else {
			memcpy(OPS->tx_slot(flow.tx), from, sizeof(from));
			OPS->tx_send(flow.tx, sizeof(from));
		}
		rank_flush(&world.rank[0], true);
		assert_true(recv(ddl__mesh_link(mesh_of(&world, 1), 0, 0, 0)->stream->fd, stolen, sizeof(stolen), 0) > 100);
		if (!borrowed)
			assert_true(OPS->tx_flushed(flow.tx));
		break_rail(&world, 0, 0);
		until(&world, has_landed, flow.rx);
		at = OPS->rx_slot(flow.rx, &bytes);
		assert_int_equal(bytes, sizeof(from));
		assert_memory_equal(at, from, sizeof(from));
		flow_close(&flow);
		flow_close(&back);
		leave(&world);
	}
}

/* Waiting for the end of the pass */

static void test_short_slices_wait_for_the_end_of_the_pass(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 64, 100);
	struct world world;
	struct flow flow;

	two_ranks(&world, 1, 1, NULL);
	flow = flow_open(&world, 0, 1, &lane, 50);
	until(&world, has_credit, flow.tx);
	flow_send(&flow);
	assert_false(OPS->tx_flushed(flow.tx));
	rank_flush(&world.rank[0], false);
	assert_true(OPS->tx_flushed(flow.tx));
	until(&world, flow_step, &flow);
	flow_close(&flow);
	leave(&world);
}

/* Credits that wait come in the end, also where the receiver has nothing to say and never sleeps. */
static void test_credits_do_not_wait_for_ever(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 8, 100);
	struct world world;
	struct flow flow;

	two_ranks(&world, 1, 1, NULL);
	flow = flow_open(&world, 0, 1, &lane, 1);
	until(&world, flow_step, &flow); /* one of eight is owed */
	for (int pass = 0; pass < 100; pass++)
		rank_flush(&world.rank[1], false);
	flow.slices = 9; /* all of the eight slots are free again */
	flow.stalled = true;
	for (int tries = 0; tries < 1000 && flow.sent < 9; tries++) {
		rank_poll(&world.rank[0]);
		flow_send(&flow);
	}
	assert_int_equal(flow.sent, 9);
	rank_flush(&world.rank[0], true);
	flow.stalled = false;
	until(&world, flow_step, &flow);
	flow_close(&flow);
	leave(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_each_ring_goes_over_its_rail),
		CASE(test_rings_that_share_a_rail_have_channels),
		CASE(test_ranks_with_other_numbers_of_rails_use_what_both_have),
		CASE(test_a_rail_that_breaks_is_carried_on_by_another),
		CASE(test_a_rail_whose_loss_one_rank_alone_sees_is_carried_on_by_another),
		CASE(test_the_last_rail_that_breaks_is_a_loss_and_is_named),
		CASE(test_what_is_the_callers_again_cannot_be_sent_again),
		CASE(test_what_was_written_and_not_read_is_sent_again),
		CASE(test_addresses_of_other_sizes_are_not_reached),
		CASE(test_slices_go_from_memory_to_memory),
		CASE(test_memory_that_was_let_go_is_not_touched),
		CASE(test_short_slices_wait_for_the_end_of_the_pass),
		CASE(test_credits_do_not_wait_for_ever),
	};

	return cmocka_run_group_tests_name("tcp_rails", tests, NULL, NULL);
}
