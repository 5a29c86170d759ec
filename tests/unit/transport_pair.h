/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport_pair.h - drives two to four instances of a transport in one process, each with its own epoll set, as engines would.
 *
 * until() calls a step until it says that it is done, and sleeps in between until some descriptor has something. Nothing is timed:
 * only when nothing at all happens for WATCHDOG_MS does the test fail. Every test also fails if it leaves a descriptor open.
 */
#ifndef DDL_TEST_TRANSPORT_PAIR_H
#define DDL_TEST_TRANSPORT_PAIR_H

#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mesh.h"

#ifndef RANKS_MAX
#define RANKS_MAX 4
#endif
#define WATCHDOG_MS 30000
#define STEPS_MAX   1000000

struct rank {
	const struct ddl__transport_ops *ops;
	struct ddl__transport *transport;
	int epoll_fd;
	uint8_t address[DDL__ADDRESS_MAX];
	size_t address_size;
	size_t n_announced;          /* announcements heard */
	struct ddl__lane announced;  /* the last of them */
	int lost[RANKS_MAX];         /* code, by peer; 0: not lost */
	char detail[RANKS_MAX][512]; /* what was said about it */
	size_t n_lost;
	bool left[RANKS_MAX]; /* said goodbye, by peer */
	int aborted;          /* code */
	char abort_text[DDL_ERROR_TEXT_SIZE];
	size_t n_moved;     /* connections that others carry on */
	char moved[512];    /* what was said of the last of them */
	size_t n_strangers; /* that were told */
	char stranger[256]; /* the last of them */
};

struct world {
	int n;
	struct rank rank[RANKS_MAX];
};

static const uint8_t test_secret[DDL__SECRET_SIZE] = "the secret of all ranks of a job";
static const uint8_t wrong_secret[DDL__SECRET_SIZE] = "the secret of another job's rank";

static void on_announced(void *context, int peer, const struct ddl__lane *lane)
{
	struct rank *rank = context;

	rank->n_announced++;
	rank->announced = *lane;
}

static void on_lost(void *context, int peer, int code, const char *detail)
{
	struct rank *rank = context;

	assert_int_equal(rank->lost[peer], 0); /* said once a peer */
	assert_true(code < 0);
	rank->lost[peer] = code;
	rank->n_lost++;
	snprintf(rank->detail[peer], sizeof(rank->detail[peer]), "%s", detail);
}

static void on_left(void *context, int peer)
{
	struct rank *rank = context;

	assert_false(rank->left[peer]); /* said once a peer */
	rank->left[peer] = true;
}

static void on_aborted(void *context, int peer, int code, const char *text)
{
	struct rank *rank = context;

	rank->aborted = code;
	snprintf(rank->abort_text, sizeof(rank->abort_text), "%s", text);
}

static void on_stranger(void *context, const char *what)
{
	struct rank *rank = context;

	rank->n_strangers++;
	snprintf(rank->stranger, sizeof(rank->stranger), "%s", what);
}

static void on_moved(void *context, int peer, const char *what)
{
	struct rank *rank = context;

	rank->n_moved++;
	snprintf(rank->moved, sizeof(rank->moved), "%s", what);
}

static const struct ddl__events test_events = {
	.announced = on_announced,
	.lost = on_lost,
	.left = on_left,
	.aborted = on_aborted,
	.stranger = on_stranger,
	.moved = on_moved,
};

static void rank_open(struct rank *rank, const struct ddl__transport_ops *ops, int number, int n_ranks, int timeout_ms,
		      const char *host)
{
	struct ddl_error err = { 0 };
	struct ddl__transport_config config = {
		.rank = number,
		.n_ranks = n_ranks,
		.timeout_ms = timeout_ms,
		.machine = "one machine",
		.addresses = &host,
		.n_addresses = 1,
		.events = &test_events,
		.context = rank,
#ifdef TEST_VERBS
		.verbs = TEST_VERBS,
#endif
	};

	memset(rank, 0, sizeof(*rank));
	rank->ops = ops;
	rank->epoll_fd = config.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(rank->epoll_fd >= 0);
	if (ops->open(&config, &rank->transport, &err))
		fail_msg("open: %s", err.text);
	assert_int_equal(ops->address(rank->transport, rank->address, &rank->address_size), 0);
	assert_true(rank->address_size <= DDL__ADDRESS_MAX);
}

static void rank_close(struct rank *rank)
{
	if (!rank->ops)
		return;
	rank->ops->close(rank->transport);
	close(rank->epoll_fd);
	rank->ops = NULL;
}

static void rank_attach(struct rank *rank, struct world *world, const uint8_t *secret)
{
	struct ddl__peer peers[RANKS_MAX] = { 0 };
	struct ddl_error err = { 0 };

	for (int i = 0; i < world->n; i++)
		peers[i] = (struct ddl__peer){ world->rank[i].address, world->rank[i].address_size, "one machine" };
	if (rank->ops->attach(rank->transport, peers, secret, &err))
		fail_msg("attach: %s", err.text);
}

static inline void world_open(struct world *world, const struct ddl__transport_ops *ops, int n)
{
	memset(world, 0, sizeof(*world));
	world->n = n;
	for (int i = 0; i < n; i++)
		rank_open(&world->rank[i], ops, i, n, 10 * WATCHDOG_MS, "127.0.0.1"); /* not what wakes a test */
	for (int i = 0; i < n; i++)
		rank_attach(&world->rank[i], world, test_secret);
}

static void world_close(struct world *world)
{
	for (int i = 0; i < world->n; i++)
		rank_close(&world->rank[i]);
}

/* Lets a rank look at what its epoll set has. */
static void rank_poll(struct rank *rank)
{
	struct epoll_event events[16];
	int n = epoll_wait(rank->epoll_fd, events, 16, 0);

	for (int i = 0; i < n; i++) {
		struct ddl__poll_source *source = events[i].data.ptr;

		source->ready(source, events[i].events);
	}
	if (rank->ops && rank->ops->poll)
		rank->ops->poll(rank->transport);
}

static void rank_sleeping(struct rank *rank, bool on)
{
	if (rank->ops && rank->ops->sleeping)
		rank->ops->sleeping(rank->transport, on);
	if (on && rank->ops && rank->ops->poll)
		rank->ops->poll(rank->transport);
}

static void world_sleep(struct world *world)
{
	struct pollfd fds[RANKS_MAX];
	int rc;

	for (int i = 0; i < world->n; i++)
		fds[i] = (struct pollfd){ world->rank[i].ops ? world->rank[i].epoll_fd : -1, POLLIN, 0 };
	do
		rc = poll(fds, (nfds_t)world->n, WATCHDOG_MS);
	while (rc < 0 && errno == EINTR);
	if (rc <= 0)
		fail_msg("nothing happened for %d ms", WATCHDOG_MS);
}

/* The end of an engine's pass. */
static void rank_flush(struct rank *rank, bool all)
{
	if (rank->ops && rank->ops->flush)
		rank->ops->flush(rank->transport, all);
}

/* The link to a peer, over the only rail. */
static inline struct ddl__link *link_at(struct rank *rank, int peer)
{
	return ddl__mesh_link((struct ddl__mesh *)rank->transport, peer, 0, 0);
}

/* Until the step is done; between two tries everybody announces that it sleeps, looks again, and sleeps. */
static void until(struct world *world, bool (*step)(void *), void *context)
{
	for (int tries = 0; tries < STEPS_MAX; tries++) {
		bool done = step(context);

		for (int i = 0; i < world->n && !done; i++) {
			rank_flush(&world->rank[i], true);
			rank_sleeping(&world->rank[i], true);
		}
		done = done || step(context);
		for (int i = 0; i < world->n; i++)
			rank_flush(&world->rank[i], !done);
		if (!done)
			world_sleep(world);
		for (int i = 0; i < world->n; i++) {
			rank_sleeping(&world->rank[i], false);
			if (!done && world->rank[i].ops)
				rank_poll(&world->rank[i]);
		}
		if (done)
			return;
	}
	fail_msg("not done after %d steps", STEPS_MAX);
}

/* Lanes */

static struct ddl__lane lane_of(uint32_t request, uint32_t index, uint32_t slots, uint32_t slot_bytes)
{
	return (struct ddl__lane){
		.request = request,
		.index = index,
		.slots = slots,
		.slot_bytes = slot_bytes,
		.call = { .collective = 1, .root = -1, .rings = 1, .count = 1000 },
	};
}

static struct ddl__rx *open_rx(struct rank *rank, int peer, const struct ddl__lane *lane)
{
	struct ddl_error err = { 0 };
	struct ddl__rx *rx = NULL;

	if (rank->ops->rx_open(rank->transport, peer, lane, &rx, &err))
		fail_msg("rx_open: %s", err.text);
	return rx;
}

static struct ddl__tx *open_tx(struct rank *rank, int peer, const struct ddl__lane *lane)
{
	struct ddl_error err = { 0 };
	struct ddl__tx *tx = NULL;

	if (rank->ops->tx_open(rank->transport, peer, lane, &tx, &err))
		fail_msg("tx_open: %s", err.text);
	return tx;
}

struct flow { /* slices over one lane, with sizes and contents that both ends can compute */
	const struct ddl__transport_ops *ops;
	struct ddl__tx *tx;
	struct ddl__rx *rx;
	struct ddl__lane lane;
	size_t slices;
	size_t sent, received;
	bool stalled; /* the receiver does not look */
};

static size_t slice_bytes(const struct flow *flow, size_t slice)
{
	if (flow->lane.slot_bytes == 0)
		return 0;
	return slice % 3 == 0 ? flow->lane.slot_bytes : (slice * 7919 + flow->lane.index * 31) % (flow->lane.slot_bytes + 1);
}

static uint8_t slice_byte(const struct flow *flow, size_t slice, size_t at)
{
	return (uint8_t)(slice * 131 + at * 7 + (at >> 8) + flow->lane.request * 17 + flow->lane.index);
}

static struct flow flow_open(struct world *world, int from, int to, const struct ddl__lane *lane, size_t slices)
{
	struct flow flow = { .ops = world->rank[from].ops, .lane = *lane, .slices = slices };

	flow.rx = open_rx(&world->rank[to], from, lane);
	flow.tx = open_tx(&world->rank[from], to, lane);
	return flow;
}

static void flow_close(struct flow *flow)
{
	if (flow->tx)
		flow->ops->tx_close(flow->tx);
	if (flow->rx)
		flow->ops->rx_close(flow->rx);
}

static void flow_send(struct flow *flow)
{
	uint8_t *slot;

	while (flow->tx && flow->sent < flow->slices && (slot = flow->ops->tx_slot(flow->tx))) {
		size_t bytes = slice_bytes(flow, flow->sent);

		assert_ptr_equal(slot, flow->ops->tx_slot(flow->tx)); /* the same slot until it is sent */
		for (size_t i = 0; i < bytes; i++)
			slot[i] = slice_byte(flow, flow->sent, i);
		flow->ops->tx_send(flow->tx, bytes);
		flow->sent++;
	}
}

static void check_slice(const struct flow *flow, const uint8_t *slot, size_t bytes)
{
	assert_int_equal(bytes, slice_bytes(flow, flow->received));
	for (size_t i = 0; i < bytes; i++)
		if (slot[i] != slice_byte(flow, flow->received, i))
			fail_msg("slice %zu of lane %u differs at byte %zu", flow->received, flow->lane.index, i);
}

static void flow_receive(struct flow *flow)
{
	const uint8_t *slot;
	size_t bytes;

	while (flow->rx && !flow->stalled && flow->received < flow->slices && (slot = flow->ops->rx_slot(flow->rx, &bytes))) {
		check_slice(flow, slot, bytes);
		flow->ops->rx_release(flow->rx);
		flow->received++;
	}
}

static bool flow_step(void *context)
{
	struct flow *flow = context;

	flow_send(flow);
	flow_receive(flow);
	return flow->received == flow->slices;
}

static inline bool has_credit(void *context)
{
	return ((struct ddl__tx *)context)->ops->tx_slot(context) != NULL;
}

struct flows {
	struct flow flow[64];
	size_t n;
};

static inline bool flows_step(void *context)
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

static inline bool both_done(void *context)
{
	struct world *world = context;

	for (int i = 0; i < world->n; i++)
		if (world->rank[i].ops && !world->rank[i].ops->done(world->rank[i].transport))
			return false;
	return true;
}

/* All ranks leave; nobody is lost. */
static inline void leave(struct world *world)
{
	for (int i = 0; i < world->n; i++)
		world->rank[i].ops->goodbye(world->rank[i].transport);
	until(world, both_done, world);
	for (int i = 0; i < world->n; i++)
		assert_int_equal(world->rank[i].n_lost, 0);
	world_close(world);
}

/* Numbers that look random, from any state. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z;

	*state += 0x9e3779b97f4a7c15u;
	z = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Descriptors */

#define CASE(test) cmocka_unit_test_setup_teardown(test, note_fds, same_fds)

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int note_fds(void **state)
{
	static size_t before;

	before = count_fds();
	*state = &before;
	return 0;
}

static int same_fds(void **state)
{
	size_t now = count_fds();

	if (now == *(size_t *)*state)
		return 0;
	print_error("%zu descriptors before, %zu after\n", *(size_t *)*state, now);
	return -1;
}

#endif
