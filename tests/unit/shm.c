/* SPDX-License-Identifier: Apache-2.0 */
/* shm.c - lanes through shared memory: what every transport must do, and what is shared memory's own. */
#include "transport.h"

#define OPS (&ddl__transport_shm)
#include "transport_faults.h"

#include <sys/mman.h>
#include <sys/un.h>

#include "shm_window.h"

static struct ddl__link *link_of(struct world *world, int rank, int peer)
{
	return ((struct ddl__mesh *)world->rank[rank].transport)->links[peer];
}

static void test_only_ranks_of_one_machine_are_reached(void **state)
{
	static const char *const machines[] = { "one machine", "one machine", "another one", "" };
	struct ddl__peer peers[4];
	struct world world = { .n = 4 };

	for (int i = 0; i < 4; i++) {
		rank_open(&world.rank[i], OPS, i, 4, 1000, "127.0.0.1");
		peers[i] = (struct ddl__peer){ world.rank[i].address, world.rank[i].address_size, machines[i] };
	}
	assert_int_equal(OPS->attach(world.rank[0].transport, peers, test_secret, NULL), 0);
	assert_true(OPS->reaches(world.rank[0].transport, 1));
	assert_false(OPS->reaches(world.rank[0].transport, 2));
	assert_false(OPS->reaches(world.rank[0].transport, 3));
	world_close(&world);
}

/* What a sender or a receiver gone mad may write into a lane's memory, seen from the slice in its first slot; see shm_lane.h. */
enum lie { A_SLICE_AHEAD, A_SLICE_AGAIN, TOO_LARGE, IN_NO_WINDOW, TOO_MANY_CREDITS, FEWER_CREDITS };

static void tell(enum lie lie, uint8_t *slice)
{
	uint64_t *sequence = (uint64_t *)(slice - 64), *consumed = (uint64_t *)(slice - 192);
	uint32_t *what = (uint32_t *)(slice - 56);

	switch (lie) {
	case A_SLICE_AHEAD:
		*sequence += 8;
		break;
	case A_SLICE_AGAIN:
		*sequence -= 1;
		break;
	case TOO_LARGE:
		*what = 101;
		*sequence += 4;
		break;
	case IN_NO_WINDOW:
		*what = 100 | DDL__SLICE_LENT;
		*sequence += 4;
		break;
	case TOO_MANY_CREDITS:
		*consumed += 5;
		break;
	case FEWER_CREDITS:
		*consumed -= 1000;
		break;
	}
}

/* A sender looks at its credits when it has used up those that it knows. */
static void send_all(struct ddl__tx *tx)
{
	for (int i = 0; i < 8 && OPS->tx_slot(tx); i++)
		OPS->tx_send(tx, 100);
}

static void test_lies_in_shared_memory_are_a_loss(void **state)
{
	static const char *const says[] = {
		"it sent a slice without a credit",
		"it sent a slice without a credit",
		"it sent a slice that is larger than its slot",
		"it sent a slice that lies in no window and no slot",
		"it gave credits for slices that it cannot have",
		"it gave credits for slices that it cannot have",
	};

	for (int lie = A_SLICE_AHEAD; lie <= FEWER_CREDITS; lie++) {
		int victim = lie <= IN_NO_WINDOW ? 1 : 0;
		struct ddl__lane lane = lane_of(1, 0, 4, 100);
		struct world world;
		struct flow flow;
		uint8_t *slot;
		size_t bytes;

		world_open(&world, OPS, 2);
		flow = flow_open(&world, 0, 1, &lane, 8);
		until(&world, has_credit, flow.tx);
		slot = OPS->tx_slot(flow.tx);
		until(&world, flow_step, &flow); /* back at the first slot */
		tell((enum lie)lie, slot);
		if (victim == 0)
			send_all(flow.tx);
		assert_null(victim ? OPS->rx_slot(flow.rx, &bytes) : OPS->tx_slot(flow.tx));
		until(&world, is_lost, &world.rank[victim]);
		assert_int_equal(world.rank[victim].lost[!victim], -EBADMSG);
		assert_string_equal(world.rank[victim].detail[!victim], says[lie]);
		flow_close(&flow);
		world_close(&world);
	}
}

/* Memory that comes with an announcement and must not be used */
enum memory { NO_MEMORY, NO_SEALS, TOO_SMALL, A_PIPE, MEMORIES };

static int make(enum memory memory, size_t right)
{
	int fds[2];
	int fd;

	if (memory == A_PIPE) {
		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		close(fds[1]);
		return fds[0];
	}
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (off_t)(memory == TOO_SMALL ? right - 1 : right)), 0);
	if (memory != NO_SEALS)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static void test_memory_that_may_shrink_or_is_none_is_refused(void **state)
{
	for (int memory = NO_MEMORY; memory < MEMORIES; memory++) {
		struct ddl__lane lane = lane_of(1, 0, 4, 128), bad = lane_of(2, 0, 4, 128);
		struct ddl__frame frame = { .type = DDL__FRAME_ANNOUNCE, .bytes = sizeof(bad), .request = 2, .grant = 77 };
		struct ddl__stream *stream;
		struct world world;
		struct flow flow;
		int fd = -1;

		world_open(&world, OPS, 2);
		flow = flow_open(&world, 0, 1, &lane, 1);
		until(&world, flow_step, &flow);
		stream = link_of(&world, 0, 1)->stream;
		if (memory != NO_MEMORY)
			fd = make((enum memory)memory, 128 + 4 * (64 + 128));
		assert_int_equal(ddl__stream_put(stream, &frame, &bad, &fd, fd >= 0), 0);
		assert_int_equal(ddl__stream_write(stream), 0);
		until(&world, is_lost, &world.rank[1]);
		assert_int_equal(world.rank[1].lost[0], -EBADMSG);
		assert_non_null(strstr(world.rank[1].detail[0], "it announced a lane with"));
		flow_close(&flow);
		world_close(&world);
	}
}

static bool maps_hold(const char *word)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false;

	assert_non_null(maps);
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, word) != NULL;
	fclose(maps);
	return found;
}

static void test_nothing_has_a_name_in_a_file_system(void **state)
{
	struct ddl__lane lane = lane_of(1, 0, 4, 100000);
	struct sockaddr_un bound = { 0 };
	socklen_t size = sizeof(bound);
	struct world world;
	struct flow flow;

	world_open(&world, OPS, 2);
	flow = flow_open(&world, 0, 1, &lane, 10);
	until(&world, flow_step, &flow);
	assert_true(maps_hold("/memfd:ddl-lane (deleted)"));
	assert_false(maps_hold("/dev/shm/"));
	assert_int_equal(
		getsockname(((struct ddl__mesh *)world.rank[0].transport)->listeners[0].fd, (struct sockaddr *)&bound, &size), 0);
	assert_int_equal(bound.sun_path[0], 0); /* abstract */
	assert_memory_equal(bound.sun_path + 1, "ddl-", 4);
	flow_close(&flow);
	leave(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_works_here),
		TRANSPORT_CASES,
		TRANSPORT_FAULTS,
		CASE(test_the_death_of_a_peer_is_noticed),
		CASE(test_only_ranks_of_one_machine_are_reached),
		CASE(test_lies_in_shared_memory_are_a_loss),
		CASE(test_memory_that_may_shrink_or_is_none_is_refused),
		CASE(test_nothing_has_a_name_in_a_file_system),
	};

	return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
