/* SPDX-License-Identifier: Apache-2.0 */
/* shm_window.c - slices that are lent and placed between two processes that have mapped each other's memory. */
#include "transport.h"
#include "transport_pair.h"

#include <sys/mman.h>

#include "shm_lane.h"
#include "shm_window.h"

#define OPS  (&ddl__transport_shm)
#define SIZE 65536u /* bytes of a window */
#define PART 8192u  /* bytes of a slice */

static struct ddl__window make_window(uint32_t id)
{
	struct ddl__window window = { .id = id, .size = SIZE };

	window.fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(window.fd, SIZE), 0);
	assert_int_equal(fcntl(window.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	window.memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, window.fd, 0);
	assert_ptr_not_equal(window.memory, MAP_FAILED);
	for (size_t i = 0; i < SIZE; i++)
		window.memory[i] = (uint8_t)(i * 7 + (i >> 8) + id);
	return window;
}

static void drop_window(struct ddl__window *window)
{
	munmap(window->memory, SIZE);
	close(window->fd);
}

struct pair { /* a lane from rank 0 to rank 1, with a window of each */
	struct world world;
	struct ddl__window window[2];
	struct ddl__tx *tx;
	struct ddl__rx *rx;
};

static struct ddl__windows *windows_of(struct pair *p, int rank)
{
	/* the link's own part ends with its windows; what the transport keeps before them is none of the test's business */
	struct ddl__link *link = ((struct ddl__mesh *)p->world.rank[rank].transport)->links[!rank];

	return (struct ddl__windows *)((char *)link + link->mesh->ops->link_size - sizeof(struct ddl__windows));
}

static bool both_mapped(void *context)
{
	struct pair *p = context;

	return ddl__windows_mapped(windows_of(p, 0), 1) && ddl__windows_mapped(windows_of(p, 1), 2);
}

static void pair_open(struct pair *p)
{
	struct ddl__lane lane = lane_of(1, 0, 2, PART);

	world_open(&p->world, OPS, 2);
	p->window[0] = make_window(1);
	p->window[1] = make_window(2);
	p->rx = open_rx(&p->world.rank[1], 0, &lane);
	p->tx = open_tx(&p->world.rank[0], 1, &lane);
}

static void show_both(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		for (int twice = 0; twice < 2; twice++)
			OPS->show(p->world.rank[i].transport, !i, &p->window[i]);
	until(&p->world, both_mapped, p);
	until(&p->world, has_credit, p->tx);
}

static void pair_close(struct pair *p)
{
	OPS->tx_close(p->tx);
	OPS->rx_close(p->rx);
	for (int i = 0; i < 2; i++)
		OPS->hide(p->world.rank[i].transport, &p->window[i]);
	world_close(&p->world);
	drop_window(&p->window[0]);
	drop_window(&p->window[1]);
}

static void test_more_windows_than_the_peer_takes_are_not_shown(void **state)
{
	struct pair p;

	pair_open(&p);
	until(&p.world, has_credit, p.tx);
	windows_of(&p, 0)->n_shown = DDL__WINDOWS_MAX;
	OPS->show(p.world.rank[0].transport, 1, &p.window[0]);
	assert_null(windows_of(&p, 0)->shown);
	windows_of(&p, 0)->n_shown = 0;
	show_both(&p);
	assert_int_equal(windows_of(&p, 0)->n_shown, 1);
	OPS->hide(p.world.rank[0].transport, &p.window[0]);
	assert_int_equal(windows_of(&p, 0)->n_shown, 0);
	pair_close(&p);
}

static void test_a_lent_slice_is_read_where_it_lies(void **state)
{
	struct pair p;
	const uint8_t *at;
	size_t bytes;

	pair_open(&p);
	until(&p.world, has_credit, p.tx);
	assert_false(OPS->tx_lend(p.tx, &p.window[0], 0, PART)); /* not shown yet */
	show_both(&p);
	assert_false(OPS->tx_lend(p.tx, &p.window[0], 0, 100)); /* not worth it */
	assert_true(OPS->tx_flushed(p.tx));
	assert_true(OPS->tx_lend(p.tx, &p.window[0], 3 * PART, PART));
	memcpy(OPS->tx_slot(p.tx), "as ever", 8);
	OPS->tx_send(p.tx, 8);
	assert_false(OPS->tx_lend(p.tx, &p.window[0], 0, PART)); /* no credit */
	assert_false(OPS->tx_flushed(p.tx));

	p.window[0].memory[3 * PART + 5] = 99; /* read when the receiver comes to it */
	at = OPS->rx_slot(p.rx, &bytes);
	assert_int_equal(bytes, PART);
	assert_memory_equal(at, p.window[0].memory + 3 * PART, PART);
	assert_ptr_equal(at, OPS->rx_slot(p.rx, &bytes));
	OPS->rx_release(p.rx);
	assert_true(OPS->tx_flushed(p.tx)); /* what went through a slot need not be read */
	assert_string_equal(OPS->rx_slot(p.rx, &bytes), "as ever");
	OPS->rx_release(p.rx);
	pair_close(&p);
}

static void test_a_placed_slice_is_where_it_was_granted(void **state)
{
	struct pair p;
	uint8_t *at;
	size_t bytes;

	pair_open(&p);
	until(&p.world, has_credit, p.tx);
	OPS->rx_grant(p.rx, 1, &p.window[1], PART, 3 * PART);
	assert_null(OPS->tx_place(p.tx, 1, 0, PART)); /* not mapped */
	show_both(&p);
	assert_null(OPS->tx_place(p.tx, 2, 0, PART)); /* another start */
	assert_null(OPS->tx_place(p.tx, 1, 2 * PART + 1, PART));
	assert_null(OPS->tx_place(p.tx, 1, SIZE_MAX, PART));
	for (size_t i = 0; i < 2; i++) {
		at = OPS->tx_place(p.tx, 1, (2 - i) * PART, PART);
		assert_non_null(at);
		memset(at, 'a' + (int)i, PART);
		OPS->tx_placed(p.tx, PART);
	}
	assert_null(OPS->tx_place(p.tx, 1, 0, PART)); /* no credit */
	assert_true(OPS->tx_flushed(p.tx));
	for (size_t i = 0; i < 2; i++) {
		const uint8_t *there = OPS->rx_slot(p.rx, &bytes);

		assert_ptr_equal(there, p.window[1].memory + PART + (2 - i) * PART);
		assert_int_equal(bytes, PART);
		assert_true(there[0] == 'a' + (int)i && there[PART - 1] == 'a' + (int)i);
		OPS->rx_release(p.rx);
	}
	OPS->rx_grant(p.rx, 2, NULL, 0, 0);
	assert_null(OPS->tx_place(p.tx, 2, 0, PART));
	OPS->rx_grant(p.rx, 3, &p.window[1], 0, SIZE);
	assert_non_null(OPS->tx_place(p.tx, 3, SIZE - PART, PART));
	pair_close(&p);
}

static bool gone(void *context)
{
	return windows_of(context, 1)->n_seen == 0;
}

static void test_what_is_hidden_is_unmapped_and_not_lent(void **state)
{
	struct ddl__lane other = lane_of(2, 0, 4, 100);
	struct pair p;
	struct flow flow;

	pair_open(&p);
	flow = flow_open(&p.world, 1, 0, &other, 50);
	show_both(&p);
	assert_int_equal(windows_of(&p, 1)->n_seen, 1);
	OPS->hide(p.world.rank[0].transport, &p.window[0]);
	assert_false(OPS->tx_lend(p.tx, &p.window[0], 0, PART));
	until(&p.world, gone, &p);
	assert_null(ddl__windows_at(windows_of(&p, 1), 1, 0, PART));
	until(&p.world, flow_step, &flow); /* other lanes go on */
	flow_close(&flow);
	pair_close(&p);
}

static bool is_lost(void *context)
{
	return ((struct rank *)context)->n_lost > 0;
}

/* Slices that lie where no slice can be */
static void lend_beyond(struct pair *p)
{
	assert_true(OPS->tx_lend(p->tx, &p->window[0], SIZE - PART + 1, PART));
}

static void lend_around(struct pair *p)
{
	assert_true(OPS->tx_lend(p->tx, &p->window[0], SIZE_MAX - PART / 2, PART));
}

static void lend_the_unknown(struct pair *p)
{
	ddl__windows_fini(windows_of(p, 1));
	assert_true(OPS->tx_lend(p->tx, &p->window[0], 0, PART));
}

static void place_beyond(struct pair *p)
{
	OPS->rx_grant(p->rx, 1, &p->window[1], 0, 3 * PART);
	assert_non_null(OPS->tx_place(p->tx, 1, 2 * PART, PART));
	OPS->rx_grant(p->rx, 2, &p->window[1], 0, 2 * PART);
	OPS->tx_placed(p->tx, PART);
}

static void place_without_a_grant(struct pair *p)
{
	OPS->rx_grant(p->rx, 1, &p->window[1], 0, 3 * PART);
	assert_non_null(OPS->tx_place(p->tx, 1, PART, PART));
	OPS->rx_grant(p->rx, 2, NULL, 0, 0);
	OPS->tx_placed(p->tx, PART);
}

static void test_a_slice_that_lies_nowhere_is_a_loss(void **state)
{
	static void (*const lies[])(struct pair *) = { lend_beyond, lend_around, lend_the_unknown, place_beyond,
						       place_without_a_grant };

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct pair p;
		size_t bytes;

		pair_open(&p);
		show_both(&p);
		lies[i](&p);
		assert_null(OPS->rx_slot(p.rx, &bytes));
		until(&p.world, is_lost, &p.world.rank[1]);
		assert_string_equal(p.world.rank[1].detail[0], "it sent a slice that lies in no window and no slot");
		pair_close(&p);
	}
}

/* ---- answers: rank 0 sends, rank 1 sends back in the slot that it came in ---- */

struct back { /* the lane back of a pair's */
	struct ddl__tx *tx;
	struct ddl__rx *rx;
};

static struct back back_open(struct pair *p, uint32_t slot_bytes)
{
	struct ddl__lane lane = lane_of(1, 0, 2, slot_bytes);
	struct back back;

	pair_open(p);
	show_both(p);
	back.rx = open_rx(&p->world.rank[0], 1, &lane);
	back.tx = open_tx(&p->world.rank[1], 0, &lane);
	until(&p->world, has_credit, back.tx);
	assert_null(OPS->tx_answer(back.tx, PART)); /* nobody said that they belong together */
	OPS->pair(p->tx, back.rx);
	OPS->pair(back.tx, p->rx);
	return back;
}

static void back_close(struct pair *p, struct back *back)
{
	OPS->tx_close(back->tx);
	OPS->rx_close(back->rx);
	pair_close(p);
}

/* Rank 0 sends; returns where it wrote. */
static const uint8_t *ask(struct pair *p, int letter)
{
	uint8_t *at = OPS->tx_slot(p->tx);

	assert_non_null(at);
	memset(at, letter, PART);
	OPS->tx_send(p->tx, PART);
	return at;
}

static void answer(struct pair *p, const struct back *back, int letter)
{
	size_t bytes;
	const void *question = OPS->rx_slot(p->rx, &bytes);
	void *at = OPS->tx_answer(back->tx, PART);

	assert_non_null(at);
	assert_ptr_equal(at, question);
	memset(at, letter, PART);
	OPS->tx_answered(back->tx, PART);
	OPS->rx_release(p->rx);
}

static void test_an_answer_lies_where_the_question_lay(void **state)
{
	struct pair p;
	struct back back = back_open(&p, PART);
	size_t bytes;

	for (int i = 0; i < 7; i++) { /* round the slots, in turn with slices in slots of their own */
		const uint8_t *at = ask(&p, 'a' + i), *there;

		answer(&p, &back, 'A' + i);
		there = OPS->rx_slot(back.rx, &bytes);
		assert_ptr_equal(there, at);
		assert_int_equal(bytes, PART);
		assert_true(there[0] == 'A' + i && there[PART - 1] == 'A' + i);
		OPS->rx_release(back.rx);
		if (i % 3 == 0)
			continue;
		memset(OPS->tx_slot(back.tx), '0' + i, PART);
		OPS->tx_send(back.tx, PART);
		there = OPS->rx_slot(back.rx, &bytes);
		assert_ptr_not_equal(there, at);
		assert_true(there[0] == '0' + i && there[PART - 1] == '0' + i);
		OPS->rx_release(back.rx);
	}
	back_close(&p, &back);
}

static void test_what_cannot_be_answered_in_its_slot_is_not(void **state)
{
	struct pair p;
	struct back back = back_open(&p, PART);
	size_t bytes;

	ask(&p, 'a');
	assert_non_null(OPS->rx_slot(p.rx, &bytes));
	assert_null(OPS->tx_answer(back.tx, 100)); /* not worth it */
	assert_null(OPS->tx_answer(back.tx, PART + 1));
	assert_non_null(OPS->tx_answer(back.tx, PART));
	for (int i = 0; i < 2; i++) {
		assert_non_null(OPS->tx_slot(back.tx));
		OPS->tx_send(back.tx, PART);
	}
	assert_null(OPS->tx_answer(back.tx, PART)); /* no credit */
	for (int i = 0; i < 2; i++) {
		assert_non_null(OPS->rx_slot(back.rx, &bytes));
		OPS->rx_release(back.rx);
	}
	assert_non_null(OPS->tx_answer(back.tx, PART));
	OPS->rx_release(p.rx);
	assert_true(OPS->tx_lend(p.tx, &p.window[0], 0, PART));
	assert_ptr_equal(OPS->rx_slot(p.rx, &bytes), ddl__windows_at(windows_of(&p, 1), 1, 0, PART));
	assert_null(OPS->tx_answer(back.tx, PART)); /* it is the peer's memory */
	OPS->rx_release(p.rx);
	back_close(&p, &back);
}

static void test_an_answer_that_lies_nowhere_is_a_loss(void **state)
{
	static const struct {
		uint32_t slot_bytes; /* of the lane back */
		uint64_t slot;       /* what it says */
		uint32_t bytes;      /* that it is long */
	} lies[] = { { PART, 2, PART }, { PART, UINT64_MAX, PART }, { 2 * PART, 0, PART + 1 } };

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct pair p;
		struct back back = back_open(&p, lies[i].slot_bytes);
		struct ddl__shm_slot *line;
		size_t bytes;

		line = (struct ddl__shm_slot *)((uint8_t *)OPS->tx_slot(back.tx) - 4096 + sizeof(struct ddl__shm_segment));
		ask(&p, 'a');
		answer(&p, &back, 'A');
		assert_int_equal(line->inside.elsewhere.at, 0);
		line->inside.elsewhere.at = lies[i].slot;
		line->what = lies[i].bytes | DDL__SLICE_ANSWER;
		assert_null(OPS->rx_slot(back.rx, &bytes));
		until(&p.world, is_lost, &p.world.rank[0]);
		assert_string_equal(p.world.rank[0].detail[1], "it sent a slice that lies in no window and no slot");
		back_close(&p, &back);
	}
}

enum wrong { NO_DESCRIPTOR, NO_SEALS, TOO_SMALL, A_PIPE, NO_ID, NO_SIZE, SHOWN_TWICE, WITH_A_BODY, WRONGS };

static int wrong_memory(enum wrong wrong)
{
	int fds[2];
	int fd;

	if (wrong == A_PIPE) {
		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		close(fds[1]);
		return fds[0];
	}
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, wrong == TOO_SMALL ? SIZE - 1 : SIZE), 0);
	if (wrong != NO_SEALS)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static void test_windows_in_a_wrong_form_are_refused(void **state)
{
	for (int wrong = NO_DESCRIPTOR; wrong < WRONGS; wrong++) {
		uint64_t size = wrong == NO_SIZE ? 0 : SIZE;
		struct ddl__frame frame = { .type = wrong == WITH_A_BODY ? DDL__FRAME_HIDE : DDL__FRAME_WINDOW,
					    .bytes = sizeof(size),
					    .request = wrong == NO_ID         ? 0
						       : wrong == SHOWN_TWICE ? 1
									      : 9 };
		bool bare = wrong == NO_DESCRIPTOR || wrong == WITH_A_BODY;
		struct ddl__stream *stream;
		struct pair p;
		int fd;

		pair_open(&p);
		show_both(&p);
		stream = ((struct ddl__mesh *)p.world.rank[0].transport)->links[1]->stream;
		fd = bare ? -1 : wrong_memory((enum wrong)wrong);
		assert_int_equal(ddl__stream_put(stream, &frame, &size, &fd, !bare), 0);
		assert_int_equal(ddl__stream_write(stream), 0);
		until(&p.world, is_lost, &p.world.rank[1]);
		assert_int_equal(p.world.rank[1].lost[0], -EBADMSG);
		assert_non_null(strstr(p.world.rank[1].detail[0], "window"));
		pair_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_a_lent_slice_is_read_where_it_lies),      CASE(test_a_placed_slice_is_where_it_was_granted),
		CASE(test_what_is_hidden_is_unmapped_and_not_lent), CASE(test_a_slice_that_lies_nowhere_is_a_loss),
		CASE(test_windows_in_a_wrong_form_are_refused),     CASE(test_more_windows_than_the_peer_takes_are_not_shown),
		CASE(test_an_answer_lies_where_the_question_lay),   CASE(test_what_cannot_be_answered_in_its_slot_is_not),
		CASE(test_an_answer_that_lies_nowhere_is_a_loss),
	};

	return cmocka_run_group_tests_name("shm_window", tests, NULL, NULL);
}
