/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_pair.h - ranks with RDMA devices of their own on the fabric in this process: rank 0 has a0, a1, ..., rank 1 b0, b1, ...
 * Each device is a rail. What the tests of transport/verbs share beside transport_pair.h.
 */
#ifndef DDL_TEST_VERBS_PAIR_H
#define DDL_TEST_VERBS_PAIR_H

#include "fake_verbs.h"
#include "transport.h"

#define OPS        (&ddl__transport_verbs)
#define TEST_VERBS (&fake_verbs_api)
#include "transport_pair.h"
#include "verbs.h"

static inline int fabric_up(void **state)
{
	note_fds(state);
	fake_verbs_begin();
	return 0;
}

static inline int fabric_down(void **state)
{
	const char *left = fake_verbs_end();

	if (*left)
		print_error("%s\n", left);
	return same_fds(state) || *left ? -1 : 0;
}

#undef CASE
#define CASE(test) cmocka_unit_test_setup_teardown(test, fabric_up, fabric_down)

/* ---- ranks ---- */

/* Gives each rank its devices, which are like this one but for the name; RoCE. */
static inline void add_devices(int n_ranks, unsigned rails, const struct fake_device *like)
{
	for (int rank = 0; rank < n_ranks; rank++) {
		for (unsigned rail = 0; rail < rails; rail++) {
			struct fake_device device = *like;
			char name[32];

			snprintf(name, sizeof(name), "%c%u", 'a' + rank, rail);
			device.name = name;
			for (int port = 0; port < FAKE_PORTS; port++)
				device.ports[port].ethernet = true;
			fake_verbs_add(&device);
		}
	}
}

/* Opens a rank on its devices; 0, or what it failed with: err. */
static inline int try_open(struct rank *rank, int number, int n_ranks, const struct ddl__rdma_settings *settings,
			   struct ddl_error *err)
{
	static const char *const addresses[DDL__RAILS_MAX] = {
		"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8",
	};
	const char prefix[2] = { (char)('a' + number), '\0' };
	struct ddl__transport_config config = {
		.rank = number,
		.n_ranks = n_ranks,
		.timeout_ms = 10 * WATCHDOG_MS,
		.machine = "one machine",
		.addresses = addresses,
		.n_addresses = DDL__RAILS_MAX,
		.events = &test_events,
		.context = rank,
		.verbs = &fake_verbs_api,
		.rdma = settings,
	};
	int rc;

	memset(rank, 0, sizeof(*rank));
	rank->epoll_fd = config.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(rank->epoll_fd >= 0);
	fake_verbs_see(prefix);
	rc = OPS->open(&config, &rank->transport, err);
	fake_verbs_see(NULL);
	if (rc) {
		close(rank->epoll_fd);
		return rc;
	}
	rank->ops = OPS;
	assert_int_equal(OPS->address(rank->transport, rank->address, &rank->address_size), 0);
	return 0;
}

/* All of the devices that add_devices() has given them. */
static inline void ranks_open(struct world *world, int n)
{
	struct ddl_error err = { 0 };

	memset(world, 0, sizeof(*world));
	world->n = n;
	for (int i = 0; i < n; i++)
		if (try_open(&world->rank[i], i, n, NULL, &err))
			fail_msg("open: %s", err.text);
	for (int i = 0; i < n; i++)
		rank_attach(&world->rank[i], world, test_secret);
}

static inline void two_ranks(struct world *world, unsigned rails)
{
	add_devices(2, rails, &(struct fake_device){ 0 });
	ranks_open(world, 2);
}

static inline struct verbs *verbs_at(struct world *world, int rank)
{
	return (struct verbs *)world->rank[rank].transport;
}

/* The link of one of two ranks to the other. */
static inline struct verbs_link *link_on(struct world *world, int rank, unsigned rail)
{
	return (struct verbs_link *)ddl__mesh_link((struct ddl__mesh *)world->rank[rank].transport, !rank, rail, 0);
}

/* ---- what moves the fabric ---- */

/* Everybody flushes, says that it sleeps and looks again; then all sleep unless the step is done or the fabric goes on. */
static inline bool sleep_once(struct world *world, bool (*step)(void *), void *context)
{
	bool done;

	for (int i = 0; i < world->n; i++) {
		rank_flush(&world->rank[i], true);
		rank_sleeping(&world->rank[i], true);
	}
	done = step(context);
	if (!done && fake_verbs_step(1) == 0)
		world_sleep(world);
	for (int i = 0; i < world->n; i++) {
		rank_sleeping(&world->rank[i], false);
		rank_poll(&world->rank[i]);
	}
	return done;
}

/* As until(), where the fabric delivers by step: a random number of them between passes of the ranks. */
static inline void by_steps(struct world *world, bool (*step)(void *), void *context, uint64_t *random)
{
	for (int tries = 0; tries < STEPS_MAX; tries++) {
		bool done = step(context);
		size_t n = fake_verbs_step(1 + random_next(random) % 8);

		for (int i = 0; i < world->n; i++) {
			if (random_next(random) % 4 == 0)
				continue;
			rank_flush(&world->rank[i], random_next(random) % 2);
			if (world->rank[i].ops)
				rank_poll(&world->rank[i]);
		}
		if (done || (n == 0 && sleep_once(world, step, context)))
			return;
	}
	fail_msg("not done after %d steps", STEPS_MAX);
}

/* Delivers all, and lets all ranks look, until nothing is left. */
static inline void settle(struct world *world)
{
	size_t n;

	do {
		n = fake_verbs_step(SIZE_MAX);
		for (int i = 0; i < world->n; i++) {
			rank_flush(&world->rank[i], true);
			if (world->rank[i].ops)
				rank_poll(&world->rank[i]);
		}
	} while (n);
}

/* Now and then in loops that do not sleep: some wait a little before they try again. */
static inline void let_time_pass(struct world *world, int tries)
{
	struct pollfd fds[RANKS_MAX];

	if (tries % 256 != 255)
		return;
	for (int i = 0; i < world->n; i++)
		fds[i] = (struct pollfd){ world->rank[i].ops ? world->rank[i].epoll_fd : -1, POLLIN, 0 };
	poll(fds, (nfds_t)world->n, 1);
}

/* As until(), where nobody may sleep, since work requests that get no answer wait for their timers: these go off in every pass. */
static inline void with_timeouts(struct world *world, bool (*step)(void *), void *context)
{
	for (int tries = 0; tries < STEPS_MAX; tries++) {
		if (step(context))
			return;
		let_time_pass(world, tries);
		fake_verbs_step(SIZE_MAX);
		fake_verbs_timeouts(1);
		for (int i = 0; i < world->n; i++) {
			rank_flush(&world->rank[i], true);
			if (world->rank[i].ops)
				rank_poll(&world->rank[i]);
		}
	}
	fail_msg("not done after %d steps", STEPS_MAX);
}

/* All ranks leave while the fabric delivers by step. */
static inline void leave_by_steps(struct world *world, uint64_t *random)
{
	for (int i = 0; i < world->n; i++)
		OPS->goodbye(world->rank[i].transport);
	by_steps(world, both_done, world, random);
	for (int i = 0; i < world->n; i++)
		assert_int_equal(world->rank[i].n_lost, 0);
	world_close(world);
}

/* ---- memory that is no slot ---- */

/* Has the transport know memory until drop. */
static inline void *hold(struct world *world, int rank, uint8_t *memory, size_t bytes)
{
	const struct ddl__window window = { .fd = -1, .memory = memory, .size = bytes };
	void *held = OPS->hold(world->rank[rank].transport, NULL, memory, bytes, &window);

	assert_non_null(held);
	return held;
}

static inline void drop(struct world *world, int rank, void *held)
{
	OPS->drop(world->rank[rank].transport, held);
}

struct trade { /* slices of one size from memory to memory, as a request does it that starts again and again */
	struct world *world;
	struct ddl__tx *tx;
	struct ddl__rx *rx;
	uint8_t *from, *to;    /* n slices each */
	size_t bytes;          /* of a slice */
	size_t n;              /* slices of a start */
	uint64_t start;        /* what sender and receiver are at */
	uint64_t spot_start;   /* what the sender says; 0: slices are not final */
	size_t sent, taken;    /* of this start */
	size_t placed, copied; /* how those that were taken came */
	size_t borrowed;       /* how those were sent */
	void *held_from, *held_to;
};

static inline void *trade_where(void *context, uint64_t ahead, size_t bytes)
{
	struct trade *trade = context;

	return bytes == trade->bytes && trade->taken + ahead < trade->n ? trade->to + (trade->taken + ahead) * trade->bytes : NULL;
}

static inline void trade_fill(struct trade *trade, uint8_t salt)
{
	for (size_t i = 0; i < trade->n * trade->bytes; i++)
		trade->from[i] = (uint8_t)(i * 31 + i / 251 + salt);
	memset(trade->to, 0xee, trade->n * trade->bytes);
}

/* From rank 0 to rank 1. The memory is not known to the transports. */
static inline void trade_open(struct trade *trade, struct world *world, const struct ddl__lane *lane, size_t n)
{
	*trade = (struct trade){ .world = world, .bytes = lane->slot_bytes, .n = n };
	trade->from = malloc(n * trade->bytes + 1);
	trade->to = malloc(n * trade->bytes + 1);
	assert_true(trade->from && trade->to);
	trade_fill(trade, 0);
	trade->rx = open_rx(&world->rank[1], 0, lane);
	OPS->rx_land(trade->rx, trade_where, trade);
	trade->tx = open_tx(&world->rank[0], 1, lane);
}

static inline void trade_hold(struct trade *trade)
{
	trade->held_from = hold(trade->world, 0, trade->from, trade->n * trade->bytes);
	trade->held_to = hold(trade->world, 1, trade->to, trade->n * trade->bytes);
}

/* The next start; what the receiver accepts is what it has held, or not. */
static inline void trade_start(struct trade *trade)
{
	trade->start++;
	trade->spot_start = trade->start;
	trade->sent = trade->taken = trade->placed = trade->copied = trade->borrowed = 0;
	trade_fill(trade, (uint8_t)(trade->start * 57));
	OPS->rx_accept(trade->rx, trade->start, trade->held_to, trade->to, trade->n * trade->bytes);
}

static inline void trade_send(struct trade *trade)
{
	uint8_t *slot;

	while (trade->sent < trade->n) {
		const struct ddl__spot spot = { trade->spot_start, trade->sent * trade->bytes };
		const uint8_t *from = trade->from + trade->sent * trade->bytes;

		if (OPS->tx_borrows(trade->tx, trade->held_from, from, trade->bytes)) {
			if (!OPS->tx_borrow(trade->tx, trade->held_from, from, trade->bytes, trade->spot_start ? &spot : NULL))
				return;
			trade->borrowed++;
		} else {
			slot = OPS->tx_slot(trade->tx);
			if (!slot)
				return;
			memcpy(slot, from, trade->bytes);
			OPS->tx_send(trade->tx, trade->bytes);
		}
		trade->sent++;
	}
}

static inline void trade_take(struct trade *trade)
{
	const uint8_t *at;
	size_t bytes;

	while (trade->taken < trade->n && (at = OPS->rx_slot(trade->rx, &bytes))) {
		uint8_t *target = trade->to + trade->taken * trade->bytes;

		assert_int_equal(bytes, trade->bytes);
		trade->placed += at == target;
		trade->copied += at != target;
		if (at != target)
			memcpy(target, at, bytes);
		trade->taken++;
		OPS->rx_release(trade->rx);
	}
}

static inline bool trade_step(void *context)
{
	struct trade *trade = context;

	trade_send(trade);
	trade_take(trade);
	return trade->taken == trade->n && OPS->tx_flushed(trade->tx);
}

static inline void trade_check(const struct trade *trade)
{
	assert_memory_equal(trade->to, trade->from, trade->n * trade->bytes);
}

static inline void trade_close(struct trade *trade)
{
	OPS->rx_close(trade->rx);
	OPS->tx_close(trade->tx);
	if (trade->held_from)
		drop(trade->world, 0, trade->held_from);
	if (trade->held_to)
		drop(trade->world, 1, trade->held_to);
	free(trade->from);
	free(trade->to);
}

/* Whether the sender knows where the slices of this start go. */
static inline bool is_granted(void *context)
{
	struct trade *trade = context;

	return ((struct verbs_tx *)trade->tx)->grant.start == trade->start;
}

/* ---- a peer that lies ---- */

/* Posts on a link what the transport never would. wr: its opcode and what goes with that. */
static inline void post_raw(struct verbs_link *link, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct ibv_send_wr *bad;

	wr->wr_id = ddl__verbs_id(link, false, 0) ^ UINT64_C(1) << 62; /* of no link */
	wr->sg_list = sge;
	wr->num_sge = sge ? 1 : 0;
	assert_int_equal(fake_verbs_api.post_send(link->qp, wr, &bad), 0);
}

static inline void post_word_raw(struct verbs_link *link, enum verbs_kind kind, uint32_t rest)
{
	post_raw(link,
		 &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htobe32((uint32_t)kind << 30 | rest) },
		 NULL);
}

#endif
