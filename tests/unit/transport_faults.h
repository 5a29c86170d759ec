/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport_faults.h - what every transport between processes must survive: peers that are not there, that are not what they should
 * be, that die; bytes that make no sense; a machine that is short of something. OPS as in transport_cases.h.
 */
#ifndef DDL_TEST_TRANSPORT_FAULTS_H
#define DDL_TEST_TRANSPORT_FAULTS_H

#include <sys/resource.h>

#include "transport_cases.h"

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

#define STRANGERS 240 /* a third of them, those who stay silent, are more than there are slots */

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
	mesh->stranger_ms = 3600000; /* they stay as long as they may */
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
	assert_true(mesh->n_strangers > 0);
	for (size_t i = 0; i < DDL__MESH_STRANGERS; i++)
		mesh->strangers[i].deadline_ns = 1; /* an hour later */
	ddl__mesh_due(mesh, 1);
	until(&world, all_dropped, mesh);
	assert_int_equal(ddl__mesh_dropped(&mesh->base), STRANGERS);
	assert_int_equal(world.rank[1].n_strangers, 1); /* the first is told, and who it was */
	assert_non_null(strstr(world.rank[1].stranger, OPS->name));
	assert_int_equal(world.rank[0].n_strangers, 0);
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
	assert_int_equal(send(ddl__mesh_link(mesh, 1, 0, 0)->stream->fd, "this is no frame, whoever sent it", 33, MSG_NOSIGNAL),
			 33);
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

static size_t add_frame(uint8_t *to, struct ddl__frame frame, const void *body)
{
	frame.magic = DDL__FRAME_MAGIC;
	memcpy(to, &frame, sizeof(frame));
	memcpy(to + sizeof(frame), body, frame.bytes);
	return sizeof(frame) + frame.bytes;
}

/* One of each kind, most of them good. */
static size_t add_frames(uint8_t *to, const struct ddl__mesh *mesh, const struct ddl__lane *lane, uint32_t rx_grant,
			 uint32_t tx_grant, uint32_t fresh)
{
	static const uint8_t slice[100] = { 1 };
	struct ddl__announcement other = { .lane = lane_of(fresh, 2, 2, 50) };
	const uint32_t size = ddl__lane_announcement_bytes(mesh);
	uint32_t r = lane->request, i = lane->index;
	size_t n = 0;

	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_ANNOUNCE, size, fresh, 2, 1, 0 }, &other);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_DATA, 100, r, i, rx_grant, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_DATA, 0, r, i, rx_grant, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_CREDIT, 0, r, i, tx_grant, 1 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_WITHDRAW, 0, fresh, 2, 1, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_DOORBELL, 0, 0, 0, 0, 0 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_ABORT, 20, 0, 0, 0, (uint32_t)-1 }, slice);
	n += add_frame(to + n, (struct ddl__frame){ 0, DDL__FRAME_LOST, 0, 0, 0, 0, 1 }, slice);
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
	link = link_at(&world.rank[1], 0);
	for (uint32_t round = 0; round < 5000; round++) {
		uint8_t bytes[1024];
		struct ddl__end *rx = ddl__table_find(&link->rx, 1, 0), *tx = ddl__table_find(&link->tx, 1, 0);
		size_t n = add_frames(bytes, link->mesh, &lane, rx->grant, tx ? tx->grant : 1, 100 + round);
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

static bool left_0(void *context)
{
	return ((struct world *)context)->rank[1].left[0];
}

/* Who was connected to is up before the one who connects knows. */
static void test_a_goodbye_amid_the_handshake_is_heard(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100);
	struct world world;
	struct ddl__rx *rx;

	world_open(&world, OPS, 2);
	rx = open_rx(&world.rank[0], 1, &lane);
	while (!link_at(&world.rank[0], 1)->proved) {
		rank_poll(&world.rank[0]);
		if (!link_at(&world.rank[0], 1)->proved)
			rank_poll(&world.rank[1]);
	}
	assert_int_equal(link_at(&world.rank[0], 1)->state, DDL__LINK_GREETING);
	OPS->rx_close(rx);
	OPS->goodbye(world.rank[0].transport);
	assert_true(OPS->done(world.rank[0].transport));
	until(&world, left_0, &world);
	assert_int_equal(world.rank[1].n_lost, 0);
	OPS->goodbye(world.rank[1].transport);
	until(&world, both_done, &world);
	assert_int_equal(world.rank[1].n_lost, 0);
	world_close(&world);
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
static inline void die_in_the_middle(int in, int out)
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

static inline void test_the_death_of_a_peer_is_noticed(void **state)
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
		rank_flush(&world.rank[0], true);
		rank_sleeping(&world.rank[0], true);
		flow_send(&flow);
		rank_flush(&world.rank[0], true);
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

/* clang-format off */
#define TRANSPORT_FAULTS \
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
	CASE(test_a_goodbye_amid_the_handshake_is_heard), \
	CASE(test_ranks_that_never_spoke_leave_at_once), \
	CASE(test_malformed_addresses_are_refused), \
	CASE(test_ranks_without_an_address_are_not_reached)
/* clang-format on */

#endif
