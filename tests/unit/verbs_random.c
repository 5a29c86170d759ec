/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_random.c - lanes over RDMA under whatever may happen: random lanes, sizes, priorities and rails, work carried out at random
 * times, faults of every kind at random places. All slices arrive, each once and in order; or the ranks are lost to each other, and
 * both hear of it; nothing hangs, nothing is left.
 *
 * DDL_TEST_SEED=N begins with that run; DDL_TEST_RUNS=N makes so many. "long" makes many.
 */
#include "verbs_pair.h"

enum { FLOWS_MAX = 8, TRADES_MAX = 3, FAULTS_MAX = 3, PASSES_MAX = 200000, RUNS = 600, LONG_RUNS = 30000 };

struct life { /* of one run */
	uint64_t random;
	struct world world;
	unsigned rails;
	struct flow flows[FLOWS_MAX];
	size_t n_flows;
	struct trade trades[TRADES_MAX]; /* all from rank 0 to rank 1 */
	size_t n_trades;
	unsigned starts; /* of each trade */
	size_t faults;   /* that are to come */
	size_t struck;   /* that have come */
	bool closes;     /* lanes are closed when they are through, and others opened */
	uint32_t requests;
	bool steps; /* the fabric works by steps */
};

static uint32_t draw(struct life *life, uint32_t n)
{
	return (uint32_t)(random_next(&life->random) % n);
}

/* ---- lanes ---- */

static struct ddl__lane draw_lane(struct life *life)
{
	static const uint32_t sizes[] = { 0, 1, 64, 200, 4096, 30000, 300000 };
	struct ddl__lane lane = lane_of(++life->requests, draw(life, 6), 1 + draw(life, 12), sizes[draw(life, 7)]);

	lane.call.rings = 1 + draw(life, 5);
	lane.call.priority = (int)draw(life, 3) - 1;
	return lane;
}

static void draw_flow(struct life *life, struct flow *flow)
{
	const struct ddl__lane lane = draw_lane(life);
	const int from = (int)draw(life, 2);

	*flow = flow_open(&life->world, from, !from, &lane, draw(life, lane.slot_bytes > 100000 ? 12 : 60));
}

static void draw_trade(struct life *life, struct trade *trade)
{
	struct ddl__lane lane = draw_lane(life);

	lane.slot_bytes = 1 + draw(life, 20000);
	trade_open(trade, &life->world, &lane, 1 + draw(life, 15));
	if (draw(life, 4))
		trade->held_from = hold(&life->world, 0, trade->from, trade->n * trade->bytes);
	if (draw(life, 4))
		trade->held_to = hold(&life->world, 1, trade->to, trade->n * trade->bytes);
	trade_start(trade);
}

/* Whether all starts of it are through. */
static bool trade_goes_on(struct life *life, struct trade *trade)
{
	if (!trade_step(trade))
		return true;
	trade_check(trade);
	if (trade->start >= life->starts)
		return false;
	trade_start(trade);
	return true;
}

static bool lost(const struct life *life)
{
	return life->world.rank[0].n_lost || life->world.rank[1].n_lost;
}

/* A step of some lanes. Returns whether all are through. */
static bool work(struct life *life)
{
	bool done = true;

	for (size_t i = 0; i < life->n_flows; i++) {
		struct flow *flow = &life->flows[i];

		if (draw(life, 3))
			flow_send(flow);
		if (draw(life, 3))
			flow_receive(flow);
		if (flow->received == flow->slices && life->closes && draw(life, 2)) {
			flow_close(flow);
			life->closes = life->requests < 60;
			*flow = (struct flow){ .ops = OPS };
			if (life->closes && !lost(life)) {
				struct ddl_error err = { 0 };
				const struct ddl__lane lane = draw_lane(life);
				const int from = (int)draw(life, 2);

				/* may have been lost meanwhile, and will be told */
				flow->lane = lane;
				if (OPS->rx_open(life->world.rank[!from].transport, from, &lane, &flow->rx, &err))
					flow->rx = NULL;
				if (OPS->tx_open(life->world.rank[from].transport, !from, &lane, &flow->tx, &err))
					flow->tx = NULL;
				flow->slices = flow->rx && flow->tx ? draw(life, 20) : 0;
			}
		}
		done = done && flow->received == flow->slices;
	}
	for (size_t i = 0; i < life->n_trades; i++)
		done = draw(life, 4) && !trade_goes_on(life, &life->trades[i]) && done;
	return done;
}

/* ---- faults ---- */

static void strike(struct life *life)
{
	static const enum ibv_wc_status statuses[] = { IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR,
						       IBV_WC_GENERAL_ERR };
	const unsigned rail = draw(life, life->rails);
	const int rank = (int)draw(life, 2);
	char name[3] = { (char)('a' + rank), (char)('0' + rail), '\0' }, other[3] = { (char)('a' + !rank), name[1], '\0' };
	struct verbs_link *link = link_on(&life->world, rank, rail);

	life->struck++;
	switch (draw(life, 8)) {
	case 0:
	case 1:
		fake_verbs_fail_send(name, 1 + draw(life, 20), statuses[draw(life, 4)]);
		break;
	case 2:
		fake_verbs_port_state(name, 1, IBV_PORT_DOWN);
		break;
	case 3:
		fake_verbs_cut(name, 1, other, 1, true);
		break;
	case 4:
		fake_verbs_event(name, IBV_EVENT_DEVICE_FATAL, 0);
		break;
	case 5:
		if (link->qp)
			fake_verbs_qp_event(link->qp, IBV_EVENT_QP_FATAL);
		break;
	case 6:
		fake_verbs_fail_post(name, draw(life, 2), draw(life, 2), ENOMEM);
		break;
	default: /* the stream alone */
		if (link->link.state == DDL__LINK_UP)
			shutdown(link->link.stream->fd, SHUT_RDWR);
	}
}

/* ---- a run ---- */

static void pass(struct life *life)
{
	if (life->faults && draw(life, 12) == 0) {
		life->faults--;
		strike(life);
	}
	if (life->steps)
		fake_verbs_step(draw(life, 12));
	if (draw(life, 8) == 0)
		fake_verbs_timeouts(1);
	for (int i = 0; i < 2; i++) {
		struct rank *rank = &life->world.rank[i];

		if (draw(life, 3) == 0)
			rank_flush(rank, draw(life, 3) == 0);
		if (draw(life, 6) == 0)
			rank_sleeping(rank, draw(life, 2));
		if (draw(life, 4))
			rank_poll(rank);
	}
}

/* Nobody waits for anything any more, or has lost the other. */
static bool is_over(void *context)
{
	struct life *life = context;
	bool heard = true;

	for (int i = 0; i < 2; i++)
		heard = heard && (life->world.rank[i].n_lost || life->world.rank[i].aborted);
	return both_done(&life->world) || heard;
}

static void close_all(struct life *life)
{
	for (size_t i = 0; i < life->n_flows; i++)
		flow_close(&life->flows[i]);
	for (size_t i = 0; i < life->n_trades; i++)
		trade_close(&life->trades[i]);
}

static void check_end(struct life *life, bool done)
{
	if (!done && !lost(life))
		fail_msg("neither done nor lost after %d passes", PASSES_MAX);
	if (lost(life) && life->struck == 0)
		fail_msg("lost without a fault: %s %s", life->world.rank[0].detail[1], life->world.rank[1].detail[0]);
	for (int i = 0; i < 2; i++)
		if (life->world.rank[i].lost[!i] == -EBADMSG)
			fail_msg("rank %d: %s", i, life->world.rank[i].detail[!i]);
}

static void run(uint64_t seed)
{
	struct life life = { .random = seed, .starts = 1 };
	bool done = false;

	life.rails = 1 + draw(&life, 3);
	life.steps = draw(&life, 4);
	life.closes = draw(&life, 2);
	life.faults = draw(&life, FAULTS_MAX + 1);
	life.starts += draw(&life, 3);
	two_ranks(&life.world, life.rails);
	if (life.steps)
		fake_verbs_delivery(FAKE_BY_STEP, seed);
	for (uint32_t n = draw(&life, FLOWS_MAX + 1); n > 0; n--)
		draw_flow(&life, &life.flows[life.n_flows++]);
	for (uint32_t n = draw(&life, TRADES_MAX + 1); n > 0; n--)
		draw_trade(&life, &life.trades[life.n_trades++]);
	for (int i = 0; i < PASSES_MAX && !done && !lost(&life); i++) {
		pass(&life);
		let_time_pass(&life.world, i);
		done = work(&life);
	}
	check_end(&life, done);
	for (int i = 0; i < 2; i++)
		if (!lost(&life))
			OPS->goodbye(life.world.rank[i].transport);
		else
			OPS->let_go(life.world.rank[i].transport);
	for (int i = 0; i < 2 && lost(&life); i++)
		OPS->abort(life.world.rank[i].transport, -ECANCELED, "a test");
	with_timeouts(&life.world, is_over, &life);
	check_end(&life, done);
	close_all(&life);
	world_close(&life.world);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t n_runs = RUNS;

static void all_arrives_or_both_hear_of_the_loss(void **state)
{
	const uint64_t first = number_of("DDL_TEST_SEED", 1), runs = number_of("DDL_TEST_RUNS", n_runs);

	for (uint64_t seed = first; seed < first + runs; seed++) {
		if (getenv("DDL_TEST_SEED"))
			print_message("DDL_TEST_SEED=%llu\n", (unsigned long long)seed);
		*(uint64_t *)state[0] = seed;
		run(seed);
		assert_string_equal(fake_verbs_end(), "");
		fake_verbs_begin();
	}
}

static uint64_t running;

static int begin(void **state)
{
	fake_verbs_begin();
	*state = &running;
	return 0;
}

static int end(void **state)
{
	const char *left = fake_verbs_end();

	print_message("DDL_TEST_SEED=%llu was the last run\n%s\n", (unsigned long long)running, left);
	return *left ? -1 : 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_arrives_or_both_hear_of_the_loss, begin, end),
	};

	if (argc > 1 && strcmp(argv[1], "long") == 0)
		n_runs = LONG_RUNS;
	return cmocka_run_group_tests_name("verbs_random", tests, NULL, NULL);
}
