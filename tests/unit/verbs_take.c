/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_take.c - what comes over RDMA: peers that do not keep to the protocol, over the queue pair and over the stream beside it;
 * sleeping and being woken.
 */
#include "verbs_pair.h"

static void next_fabric(void)
{
	assert_string_equal(fake_verbs_end(), "");
	fake_verbs_begin();
}

/* ---- over the queue pair ---- */

struct lie { /* what rank 0 does to rank 1, which has a lane from it, and one to it: 4 slots of 1000 bytes, two slices sent */
	const char *name;
	enum verbs_kind kind;
	uint32_t rest;     /* of the immediate; the number of the lane is added where that is said */
	bool number, back; /* of the lane to rank 1; of the one to rank 0 */
	int bytes;         /* that are written to the lane's slots */
	int times;
	const char *said; /* by rank 1 of it; NULL: nothing happens */
};

static const struct lie lies[] = {
	{ "no such lane", VERBS_SLICE, 4711, .times = 1, .said = "it sent a slice for a lane that it was not told of" },
	{ "a placed slice of none", VERBS_PLACED, DDL__VERBS_NUMBERS + 1, .times = 1,
	  .said = "it sent a slice for a lane that it was not told of" },
	{ "more slices than slots", VERBS_SLICE, 0, .number = true, .times = 3, .said = "it sent a slice without a credit" },
	{ "as many slices as slots", VERBS_SLICE, 0, .number = true, .times = 2, .said = NULL },
	{ "a large slice", VERBS_SLICE, 0, .number = true, .bytes = 1001, .times = 1,
	  .said = "it sent a slice that is larger than its slot" },
	{ "a placed slice", VERBS_PLACED, 0, .number = true, .times = 1,
	  .said = "it wrote a slice where it was not granted any memory" },
	{ "credits for nothing", VERBS_CREDIT, 3u << 23, .back = true, .times = 1,
	  .said = "it gave credits for slices that it cannot have" },
	{ "credits twice", VERBS_CREDIT, 1u << 23, .back = true, .times = 3,
	  .said = "it gave credits for slices that it cannot have" },
	{ "credits for no lane", VERBS_CREDIT, 1u << 23 | 4711, .times = 1, .said = NULL },
	{ "too much flow", VERBS_FLOW, DDL__VERBS_RECEIVES, .times = 1, .said = "it took in more messages than it was sent" },
	{ "far too much flow", VERBS_FLOW, 0x3fffffff, .times = 1, .said = "it took in more messages than it was sent" },
	{ "no flow", VERBS_FLOW, 0, .times = 4, .said = NULL },
};

struct scene {
	struct world world;
	struct flow there, back; /* from rank 0 to rank 1, and back */
};

static void scene_open(struct scene *scene)
{
	struct ddl__lane there = lane_of(1, 0, 4, 1000), back = lane_of(2, 0, 4, 1000);

	two_ranks(&scene->world, 1);
	scene->there = flow_open(&scene->world, 0, 1, &there, 2);
	scene->back = flow_open(&scene->world, 1, 0, &back, 2);
	until(&scene->world, has_credit, scene->there.tx);
	until(&scene->world, has_credit, scene->back.tx);
	flow_send(&scene->there);
	flow_send(&scene->back);
	settle(&scene->world);
}

/* Rank 1 looks until it has lost rank 0, or nothing happens any more. */
static void scene_run(struct scene *scene)
{
	for (int i = 0; i < 20; i++) {
		rank_flush(&scene->world.rank[1], true);
		rank_poll(&scene->world.rank[1]);
	}
}

/* said: of rank 0; NULL: nothing, and all goes on. */
static void scene_close(struct scene *scene, const char *name, const char *said)
{
	const struct rank *rank = &scene->world.rank[1];

	if (said) {
		if (rank->n_lost != 1 || rank->lost[0] != -EBADMSG || strcmp(rank->detail[0], said))
			fail_msg("%s: %d \"%s\", not \"%s\"", name, rank->lost[0], rank->detail[0], said);
		flow_close(&scene->there);
		flow_close(&scene->back);
		world_close(&scene->world);
		return;
	}
	assert_int_equal(rank->n_lost, 0);
	flow_close(&scene->there);
	flow_close(&scene->back);
	leave(&scene->world);
}

static void tell(struct scene *scene, const struct lie *lie)
{
	struct verbs_link *link = link_on(&scene->world, 0, 0);
	const struct verbs_tx *tx = (const struct verbs_tx *)scene->there.tx;
	struct ibv_sge sge = {
		.addr = (uintptr_t)tx->memory.at,
		.length = (uint32_t)lie->bytes,
		.lkey = tx->memory.region->lkey[0],
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.wr.rdma = { tx->terms.at, tx->terms.rkey },
	};
	uint32_t rest = lie->rest;

	rest += lie->number ? tx->terms.number : 0;
	rest += lie->back ? ((const struct verbs_rx *)scene->back.rx)->in.mesh.number : 0;
	for (int i = 0; i < lie->times; i++) {
		wr.imm_data = htobe32((uint32_t)lie->kind << 30 | rest);
		post_raw(link, &wr, lie->bytes ? &sge : NULL);
	}
	link->sent += (uint32_t)lie->times; /* so that a goodbye is believed */
}

static void test_messages_that_cannot_be_are_a_loss_with_the_reason(void **state)
{
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct scene scene;

		scene_open(&scene);
		tell(&scene, &lies[i]);
		scene_run(&scene);
		scene_close(&scene, lies[i].name, lies[i].said);
		next_fabric();
	}
}

/* A slice of one link's lane over another link. */
static void test_lanes_of_another_peer_are_not_to_be_written(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 1000);
	struct world world;
	struct flow mine, other;
	uint32_t number;

	add_devices(3, 1, &(struct fake_device){ 0 });
	ranks_open(&world, 3);
	mine = flow_open(&world, 0, 1, &lane, 2);
	other = flow_open(&world, 2, 1, &lane, 2);
	until(&world, flow_step, &mine);
	until(&world, flow_step, &other);
	number = ((struct verbs_rx *)other.rx)->in.mesh.number;
	post_word_raw((struct verbs_link *)ddl__mesh_link(&verbs_at(&world, 0)->mesh, 1, 0, 0), VERBS_SLICE, number);
	for (int i = 0; i < 10; i++)
		rank_poll(&world.rank[1]);
	assert_int_equal(world.rank[1].lost[0], -EBADMSG);
	assert_string_equal(world.rank[1].detail[0], "it sent a slice for a lane that it was not told of");
	assert_int_equal(world.rank[1].lost[2], 0);
	flow_close(&mine);
	flow_close(&other);
	world_close(&world);
}

static void test_messages_of_odd_sizes_are_a_loss(void **state)
{
	static const struct {
		uint32_t bytes;
		const char *said;
	} cases[] = {
		{ 0, "it sent a message that has no meaning over verbs" },
		{ 1, "it sent a message that has no meaning over verbs" },
		{ sizeof(struct ddl__verbs_grant) - 1, "it sent a message that has no meaning over verbs" },
		{ DDL__VERBS_MESSAGE, "it sent a message that has no meaning over verbs" },
		{ sizeof(struct ddl__verbs_grant), NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verbs_link *link;
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
		struct scene scene;
		struct ibv_sge sge;

		scene_open(&scene);
		link = link_on(&scene.world, 0, 0);
		memset(link->memory.at + DDL__VERBS_RECEIVES * DDL__VERBS_MESSAGE, 0xff, DDL__VERBS_MESSAGE);
		sge = (struct ibv_sge){
			.addr = (uintptr_t)link->memory.at + DDL__VERBS_RECEIVES * DDL__VERBS_MESSAGE,
			.length = cases[i].bytes,
			.lkey = link->memory.region->lkey[0],
		};
		for (int k = 0; k < (cases[i].said ? 1 : 100); k++) { /* grants for lanes that never come */
			post_raw(link, &wr, cases[i].bytes ? &sge : NULL);
			link->sent++;
			link->room--;
			link->used++;
		}
		scene_run(&scene);
		scene_close(&scene, "a message", cases[i].said);
		next_fabric();
	}
}

/* What does not fit into a receive is an error of the receiver's queue pair. */
static void test_a_message_that_is_too_long_is_a_loss(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct verbs_link *link;
	struct scene scene;
	struct ibv_sge sge;

	scene_open(&scene);
	link = link_on(&scene.world, 0, 0);
	sge = (struct ibv_sge){ (uintptr_t)link->memory.at, 1000, link->memory.region->lkey[0] };
	post_raw(link, &wr, &sge);
	scene_run(&scene);
	assert_int_equal(scene.world.rank[1].lost[0], -EHOSTUNREACH);
	assert_non_null(strstr(scene.world.rank[1].detail[0], "RDMA to it over b0 port 1 failed: local length error"));
	flow_close(&scene.there);
	flow_close(&scene.back);
	world_close(&scene.world);
}

/* Grants of any content: where a device would refuse to write, or the output is not what it is said to be. */
static void test_grants_of_nonsense_do_no_harm(void **state)
{
	static const struct ddl__verbs_grant nonsense[] = {
		{ .start = 1, .at = 0, .bytes = UINT64_MAX }, { .start = 1, .at = UINT64_MAX, .bytes = UINT64_MAX },
		{ .start = 1, .at = 0x1000, .bytes = 0 },     { .start = 0, .at = 0x1000, .bytes = 5000 },
		{ .start = 2, .at = 0x1000, .bytes = 5000 },
	};

	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		struct ddl__lane lane = lane_of(1, 0, 4, 5000);
		struct trade trade;
		struct world world;
		struct verbs_tx *tx;
		bool denied = i == 1; /* by the device */

		two_ranks(&world, 1);
		trade_open(&trade, &world, &lane, 1);
		trade.held_from = hold(&world, 0, trade.from, 5000);
		until(&world, has_credit, trade.tx);
		trade_start(&trade);
		tx = (struct verbs_tx *)trade.tx;
		tx->grant = nonsense[i];
		tx->grant.number = tx->terms.number;
		tx->grant.rkey = 0xbad;
		trade_send(&trade);
		for (int k = 0; k < 10; k++)
			for (int r = 0; r < 2; r++)
				rank_poll(&world.rank[r]);
		if (denied) {
			assert_int_equal(world.rank[0].n_lost, 1);
			assert_int_equal(world.rank[1].n_lost, 1);
			trade_close(&trade);
			world_close(&world);
		} else {
			until(&world, trade_step, &trade);
			trade_check(&trade);
			trade_close(&trade);
			leave(&world);
		}
		next_fabric();
	}
}

/* ---- over the stream ---- */

struct frame_case {
	const char *name;
	struct ddl__frame frame;
	struct ddl__verbs_pair pair; /* body of a PAIR */
	const char *said;
};

static const struct frame_case frames[] = {
	{ "a second queue pair",
	  { .type = DDL__FRAME_PAIR, .bytes = 16 },
	  { 1, 1, 256, 0 },
	  "it told of a queue pair that cannot be" },
	{ "half a queue pair", { .type = DDL__FRAME_PAIR, .bytes = 8 }, { 0 }, "it told of a queue pair that cannot be" },
	{ "nothing freed", { .type = DDL__FRAME_FREED, .count = 4711 }, { 0 }, "it gave up a lane that it was not told of" },
	{ "an open lane freed", { .type = DDL__FRAME_FREED, .count = 0 }, { 0 }, "it gave up a lane that it was not told of" },
	{ "a credit for no lane", { .type = DDL__FRAME_CREDIT, .count = 1 }, { 0 }, NULL },
	{ "a credit of another opening", { .type = DDL__FRAME_CREDIT, .request = 2, .grant = 4711, .count = 3 }, { 0 }, NULL },
	{ "credits for nothing",
	  { .type = DDL__FRAME_CREDIT, .request = 2, .grant = 1, .count = 3 },
	  { 0 },
	  "it gave credits for slices that it cannot have" },
	{ "windows", { .type = DDL__FRAME_WINDOW, .count = 1 }, { 0 }, "it sent a frame that has no meaning over verbs" },
	{ "a doorbell", { .type = DDL__FRAME_DOORBELL }, { 0 }, "it sent a frame that has no meaning over verbs" },
	{ "data", { .type = DDL__FRAME_DATA, .bytes = 16, .request = 1 }, { 0 }, "it sent a slice over the stream" },
};

static void put(struct scene *scene, const struct ddl__frame *frame, const void *body)
{
	struct ddl__stream *stream = link_on(&scene->world, 0, 0)->link.stream;

	assert_int_equal(ddl__stream_put(stream, frame, body, NULL, 0), 0);
	assert_int_equal(ddl__stream_write(stream), 0);
}

static void test_frames_that_cannot_be_are_a_loss_with_the_reason(void **state)
{
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		struct scene scene;

		scene_open(&scene);
		put(&scene, &frames[i].frame, &frames[i].pair);
		scene_run(&scene);
		scene_close(&scene, frames[i].name, frames[i].said);
		next_fabric();
	}
}

static bool is_up_1(void *context)
{
	return link_on(context, 1, 0)->link.state == DDL__LINK_UP && link_on(context, 0, 0)->link.state == DDL__LINK_UP;
}

/* The first queue pair that a peer tells of. That peer has none itself, for it was let go. */
static void test_queue_pairs_that_cannot_be_are_a_loss(void **state)
{
	static const struct ddl__verbs_pair pairs[] = {
		{ 0x1000000, 1, 256, 0 }, { 1, 0x1000000, 256, 0 },      { UINT32_MAX, 1, 256, 0 },   { 1, UINT32_MAX, 256, 0 },
		{ 1, 1, 0, 0 },           { 1, 1, DDL__VERBS_SPARE, 0 }, { 1, 1, (1u << 20) + 1, 0 }, { 1, 1, UINT32_MAX, 0 },
	};
	const size_t n = sizeof(pairs) / sizeof(pairs[0]);

	for (size_t i = 0; i <= n; i++) {
		const struct ddl__frame pair = { .type = DDL__FRAME_PAIR, .bytes = 16 }, ready = { .type = DDL__FRAME_READY };
		struct ddl__lane lane = lane_of(1, 0, 4, 100);
		struct scene scene = { 0 };

		two_ranks(&scene.world, 1);
		OPS->let_go(scene.world.rank[0].transport);
		scene.there = flow_open(&scene.world, 0, 1, &lane, 1);
		until(&scene.world, is_up_1, &scene.world);
		put(&scene, i < n ? &pair : &ready, &pairs[i % n]);
		scene_run(&scene);
		scene_close(&scene, "a queue pair",
			    i < n ? "it told of a queue pair that cannot be" : "its queue pair was ready before it told of it");
		next_fabric();
	}
}

/* Whatever a peer says of its fault, it is printed as one line of a sentence. */
static void test_what_a_peer_says_of_a_fault_is_made_printable(void **state)
{
	static const char *const texts[] = { "", "a\nb\033[31m\001", "\377\376" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct ddl__frame fault = { .type = DDL__FRAME_FAULT, .bytes = (uint32_t)strlen(texts[i]) };
		struct scene scene;

		scene_open(&scene);
		put(&scene, &fault, texts[i]);
		scene_run(&scene);
		assert_int_equal(scene.world.rank[1].lost[0], -EHOSTUNREACH);
		for (const char *at = scene.world.rank[1].detail[0]; *at; at++)
			assert_true(*at >= ' ' && *at < 127);
		flow_close(&scene.there);
		flow_close(&scene.back);
		world_close(&scene.world);
		next_fabric();
	}
}

static void announce(struct scene *scene, uint32_t request, uint32_t number)
{
	const struct ddl__verbs_terms terms = { .at = 0x1000, .rkey = 1, .number = number };
	struct ddl__announcement body = { .lane = lane_of(request, 0, 4, 1000) };
	struct ddl__frame frame = { .type = DDL__FRAME_ANNOUNCE, .bytes = sizeof(body), .request = request, .grant = request };

	memcpy(body.terms, &terms, sizeof(terms));
	put(scene, &frame, &body);
}

static void test_numbers_of_lanes_that_cannot_be_are_a_loss(void **state)
{
	struct ddl__lane lane = lane_of(77, 0, 4, 1000);
	struct ddl_error err = { 0 };
	struct scene scene;
	struct ddl__tx *tx;

	scene_open(&scene);
	announce(&scene, 77, DDL__VERBS_NUMBERS);
	scene_run(&scene);
	scene_close(&scene, "a large number", "it announced a lane in a wrong form");
	next_fabric();
	scene_open(&scene);
	announce(&scene, 77, ((struct verbs_tx *)scene.back.tx)->terms.number); /* that another one has */
	scene_run(&scene);
	assert_int_equal(OPS->tx_open(scene.world.rank[1].transport, 0, &lane, &tx, &err), -EBADMSG);
	assert_string_equal(err.text, "verbs: the lane to rank 0 cannot be: it gave two lanes one number");
	flow_close(&scene.there);
	flow_close(&scene.back);
	world_close(&scene.world);
	next_fabric();
	scene_open(&scene);
	tx = open_tx(&scene.world.rank[1], 0, &lane); /* the same, where the lane waits for it */
	announce(&scene, 77, ((struct verbs_tx *)scene.back.tx)->terms.number);
	scene_run(&scene);
	OPS->tx_close(tx);
	scene_close(&scene, "two of a number", "it gave two lanes one number");
}

/* ---- sleeping ---- */

struct player { /* a rank in a thread of its own */
	struct rank *rank;
	struct flow out[3], in[3];
	size_t ahead; /* slices that may be sent before the other's come */
	bool failed;
};

enum { LANES = 3, SLICES = 400 };

static bool play(struct player *player)
{
	bool done = true;

	for (int i = 0; i < LANES; i++) {
		flow_receive(&player->in[i]);
		player->out[i].slices = player->in[i].received + player->ahead + (size_t)i; /* or waits for the other's */
		if (player->out[i].slices > SLICES)
			player->out[i].slices = SLICES;
		flow_send(&player->out[i]);
		done = done && player->in[i].received == SLICES && player->out[i].sent == SLICES;
	}
	rank_flush(player->rank, true);
	return done;
}

static void *player_thread(void *context)
{
	struct player *player = context;
	struct pollfd fd = { player->rank->epoll_fd, POLLIN, 0 };

	while (!play(player)) {
		rank_sleeping(player->rank, true);
		if (play(player)) {
			rank_sleeping(player->rank, false);
			break;
		}
		if (poll(&fd, 1, WATCHDOG_MS) == 0) {
			player->failed = true;
			break;
		}
		rank_sleeping(player->rank, false);
		rank_poll(player->rank);
	}
	return NULL;
}

/* Messages come at any time, from a third thread: who sleeps is woken, always. */
static void test_nobody_sleeps_for_ever(void **state)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		static struct player players[2];
		struct world world;
		pthread_t threads[2];

		two_ranks(&world, 1);
		fake_verbs_delivery(FAKE_BY_THREAD, seed);
		for (int i = 0; i < 2; i++) {
			players[i] = (struct player){ .rank = &world.rank[i], .ahead = i == 0 };
			for (uint32_t k = 0; k < LANES; k++) {
				struct ddl__lane lane = lane_of(k, 0, 1 + k, 64);

				players[i].in[k] = (struct flow){ .ops = OPS, .lane = lane, .slices = SLICES };
				players[i].out[k] = players[i].in[k];
				players[i].in[k].rx = open_rx(&world.rank[i], !i, &lane);
				players[i].out[k].tx = open_tx(&world.rank[i], !i, &lane);
			}
		}
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, player_thread, &players[i]), 0);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		for (int i = 0; i < 2; i++) {
			assert_false(players[i].failed);
			for (int k = 0; k < LANES; k++) {
				flow_close(&players[i].in[k]);
				flow_close(&players[i].out[k]);
			}
		}
		leave(&world);
		next_fabric();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_messages_that_cannot_be_are_a_loss_with_the_reason),
		CASE(test_lanes_of_another_peer_are_not_to_be_written),
		CASE(test_messages_of_odd_sizes_are_a_loss),
		CASE(test_a_message_that_is_too_long_is_a_loss),
		CASE(test_grants_of_nonsense_do_no_harm),
		CASE(test_frames_that_cannot_be_are_a_loss_with_the_reason),
		CASE(test_queue_pairs_that_cannot_be_are_a_loss),
		CASE(test_what_a_peer_says_of_a_fault_is_made_printable),
		CASE(test_numbers_of_lanes_that_cannot_be_are_a_loss),
		CASE(test_nobody_sleeps_for_ever),
	};

	return cmocka_run_group_tests_name("verbs_take", tests, NULL, NULL);
}
