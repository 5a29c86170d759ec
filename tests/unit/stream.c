/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - frames in pieces, in bad shape, with descriptors, through sockets that take little at a time. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream.h"
#include "transport.h"

#define FRAMES_MAX 256

struct record { /* what a sink heard */
	size_t n;
	struct ddl__frame frame[FRAMES_MAX];
	uint8_t first[FRAMES_MAX];       /* byte of the body */
	uint8_t place[FRAMES_MAX][4096]; /* where data go */
	size_t n_data;
	bool drop;   /* data have no place */
	size_t stop; /* stop at that frame; 0: never */
};

static int on_data(void *context, const struct ddl__frame *frame, void **to)
{
	struct record *record = context;

	if (frame->bytes > sizeof(record->place[0]) || record->n == FRAMES_MAX)
		return -EBADMSG;
	if (!record->drop)
		*to = record->place[record->n];
	record->n_data++;
	return 0;
}

static int on_frame(void *context, const struct ddl__frame *frame, const void *body)
{
	struct record *record = context;

	if (record->n == FRAMES_MAX)
		return -EBADMSG;
	record->frame[record->n] = *frame;
	if (frame->bytes)
		record->first[record->n] = body ? *(const uint8_t *)body : record->place[record->n][0];
	record->n++;
	return record->n == record->stop ? 1 : 0;
}

static const struct ddl__frame_sink sink = { .data = on_data, .frame = on_frame };

static size_t add_frame(uint8_t *to, uint16_t type, uint32_t bytes, uint8_t content)
{
	struct ddl__frame frame = { .magic = DDL__FRAME_MAGIC, .type = type, .bytes = bytes, .request = 7, .lane = content };

	memcpy(to, &frame, sizeof(frame));
	memset(to + sizeof(frame), content, bytes);
	return sizeof(frame) + bytes;
}

static size_t some_frames(uint8_t *to)
{
	size_t n = add_frame(to, DDL__FRAME_ANNOUNCE, 56, 1);

	n += add_frame(to + n, DDL__FRAME_DATA, 3000, 2);
	n += add_frame(to + n, DDL__FRAME_CREDIT, 0, 3);
	n += add_frame(to + n, DDL__FRAME_DATA, 0, 4);
	n += add_frame(to + n, DDL__FRAME_ABORT, DDL__CONTROL_MAX, 5);
	n += add_frame(to + n, DDL__FRAME_DATA, 1, 6);
	n += add_frame(to + n, DDL__FRAME_BYE, 0, 7);
	return n;
}

static void check_some_frames(const struct record *record)
{
	static const uint32_t bytes[] = { 56, 3000, 0, 0, DDL__CONTROL_MAX, 1, 0 };

	assert_int_equal(record->n, 7);
	for (uint32_t i = 0; i < 7; i++) {
		assert_int_equal(record->frame[i].lane, i + 1);
		assert_int_equal(record->frame[i].bytes, bytes[i]);
		if (bytes[i] && !record->drop)
			assert_int_equal(record->first[i], i + 1);
	}
}

static void test_frames_come_in_pieces_of_any_size(void **state)
{
	static uint8_t bytes[8192];
	static struct record record;
	size_t n = some_frames(bytes);

	for (size_t piece = 1; piece <= n; piece += piece < 100 ? 1 : 97) {
		struct ddl__parser parser = { 0 };

		memset(&record, 0, sizeof(record));
		record.drop = piece % 2;
		for (size_t at = 0; at < n;) {
			size_t take = n - at < piece ? n - at : piece, used = 0;

			assert_int_equal(ddl__parser_feed(&parser, &sink, &record, bytes + at, take, &used), 0);
			assert_int_equal(used, take);
			at += take;
		}
		check_some_frames(&record);
		assert_int_equal(record.n_data, 3);
	}
}

static void test_bodies_may_be_put_in_place_by_others(void **state)
{
	static uint8_t bytes[8192];
	static struct record record;
	struct ddl__parser parser = { 0 };
	size_t n = some_frames(bytes), used, room;

	memset(&record, 0, sizeof(record));
	assert_null(ddl__parser_room(&parser, &room));
	assert_int_equal(ddl__parser_feed(&parser, &sink, &record, bytes, 80 + 24 + 100, &used), 0);
	assert_ptr_equal(ddl__parser_room(&parser, &room), record.place[1] + 100);
	assert_int_equal(room, 2900);
	memset(record.place[1] + 100, 2, 2000);
	assert_int_equal(ddl__parser_landed(&parser, &sink, &record, 2000), 0);
	assert_ptr_equal(ddl__parser_room(&parser, &room), record.place[1] + 2100);
	assert_int_equal(ddl__parser_landed(&parser, &sink, &record, 900), 0);
	assert_null(ddl__parser_room(&parser, &room));
	assert_int_equal(ddl__parser_feed(&parser, &sink, &record, bytes + 80 + 3024, n - 80 - 3024, &used), 0);
	check_some_frames(&record);
}

static void test_a_sink_may_stop_between_frames(void **state)
{
	static uint8_t bytes[8192];
	static struct record record;
	struct ddl__parser parser = { 0 };
	size_t n = some_frames(bytes), used;

	memset(&record, 0, sizeof(record));
	record.stop = 3;
	assert_int_equal(ddl__parser_feed(&parser, &sink, &record, bytes, n, &used), 1);
	assert_int_equal(used, 80 + 3024 + 24);
	assert_int_equal(ddl__parser_feed(&parser, &sink, &record, bytes + used, n - used, &used), 0);
	check_some_frames(&record);
}

static void test_bad_headers_are_refused(void **state)
{
	static const struct ddl__frame bad[] = {
		{ .magic = 0, .type = DDL__FRAME_BYE },
		{ .magic = 0x1add, .type = DDL__FRAME_BYE },
		{ .magic = DDL__FRAME_MAGIC, .type = 0 },
		{ .magic = DDL__FRAME_MAGIC, .type = DDL__FRAME_FAULT + 1 },
		{ .magic = DDL__FRAME_MAGIC, .type = DDL__FRAME_BYE, .bytes = DDL__CONTROL_MAX + 1 },
		{ .magic = DDL__FRAME_MAGIC, .type = DDL__FRAME_HELLO, .bytes = UINT32_MAX },
		{ .magic = DDL__FRAME_MAGIC, .type = DDL__FRAME_DATA, .bytes = DDL__SLOT_BYTES_MAX + 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		static struct record record;
		struct ddl__parser parser = { 0 };
		size_t used;

		memset(&record, 0, sizeof(record));
		assert_int_equal(ddl__parser_feed(&parser, &sink, &record, &bad[i], sizeof(bad[i]), &used), -EBADMSG);
		assert_int_equal(record.n + record.n_data, 0);
	}
}

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void test_mutated_bytes_never_leave_their_place(void **state)
{
	static uint8_t whole[8192], bytes[8192];
	static struct record record;
	uint64_t seed = 0x1234567;
	size_t refused = 0, n = some_frames(whole);

	for (int round = 0; round < 5000; round++) {
		struct ddl__parser parser = { 0 };
		size_t size = n - random_next(&seed) % 64;
		int rc = 0;

		memcpy(bytes, whole, n);
		for (uint64_t m = random_next(&seed) % 8; m; m--)
			bytes[random_next(&seed) % (m % 2 ? 200 : n)] = (uint8_t)random_next(&seed);
		memset(&record, 0, sizeof(record));
		record.drop = round % 4 == 0;
		for (size_t at = 0; at < size && rc == 0;) {
			size_t take = 1 + random_next(&seed) % 900, used;

			take = take < size - at ? take : size - at;
			rc = ddl__parser_feed(&parser, &sink, &record, bytes + at, take, &used);
			at += take;
		}
		assert_true(rc == 0 || rc == -EBADMSG);
		refused += rc != 0;
	}
	assert_true(refused > 100 && refused < 4900);
}

/* Sockets */

struct pair {
	struct ddl__stream *a, *b;
};

static struct pair make_pair(int buffer)
{
	struct pair pair;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	if (buffer)
		assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), 0);
	pair.a = ddl__stream_create(fds[0], true);
	pair.b = ddl__stream_create(fds[1], true);
	assert_non_null(pair.a);
	assert_non_null(pair.b);
	return pair;
}

static void end_pair(struct pair *pair)
{
	ddl__stream_destroy(pair->a);
	ddl__stream_destroy(pair->b);
}

static void test_frames_pass_a_socket_that_takes_little(void **state)
{
	static struct record record;
	static uint8_t body[4096];
	struct pair pair = make_pair(4096);
	size_t begun = 0, put = 0;

	memset(&record, 0, sizeof(record));
	for (int tries = 0; record.n < 60 && tries < 10000; tries++) {
		struct ddl__frame data = { .type = DDL__FRAME_DATA, .bytes = sizeof(body), .lane = 1000 + (uint32_t)begun };
		struct ddl__frame credit = { .type = DDL__FRAME_CREDIT, .lane = (uint32_t)put };

		if (begun < 30 && !ddl__stream_busy(pair.a)) {
			memset(body, (int)begun, sizeof(body));
			ddl__stream_data(pair.a, &data, body);
			begun++;
		}
		if (put < 30 && ddl__stream_fits(pair.a, 0)) {
			assert_int_equal(ddl__stream_put(pair.a, &credit, NULL, NULL, 0), 0);
			put++;
		}
		assert_true(ddl__stream_write(pair.a) >= 0);
		assert_int_equal(ddl__stream_read(pair.b, &sink, &record), 0);
	}
	assert_int_equal(record.n, 60);
	for (size_t i = 0, d = 0, c = 0; i < record.n; i++) {
		if (record.frame[i].type == DDL__FRAME_CREDIT) {
			assert_int_equal(record.frame[i].lane, c++);
			continue;
		}
		assert_int_equal(record.frame[i].lane, 1000 + d);
		for (size_t at = 0; at < sizeof(body); at++)
			assert_int_equal(record.place[i][at], d);
		d++;
	}
	assert_true(ddl__stream_idle(pair.a));
	end_pair(&pair);
}

static void test_descriptors_come_with_their_frames(void **state)
{
	static struct record record;
	struct pair pair = make_pair(0);
	int pipes[3][2];

	memset(&record, 0, sizeof(record));
	for (int i = 0; i < 3; i++) {
		struct ddl__frame credit = { .type = DDL__FRAME_CREDIT, .lane = (uint32_t)(10 * i) };
		struct ddl__frame door = { .type = DDL__FRAME_DOORBELL, .lane = (uint32_t)(10 * i + 1) };

		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
		assert_int_equal(ddl__stream_put(pair.a, &credit, NULL, NULL, 0), 0);
		assert_int_equal(ddl__stream_put(pair.a, &door, NULL, pipes[i], 2), 0);
	}
	assert_int_equal(ddl__stream_write(pair.a), 0);
	for (int i = 0; i < 3; i++) {
		char byte = 0;
		int fds[2];

		record.stop = record.n + 2;
		while (record.n < record.stop)
			assert_true(ddl__stream_read(pair.b, &sink, &record) >= 0);
		assert_int_equal(record.frame[record.n - 1].lane, 10 * i + 1);
		for (int k = 0; k < 2; k++)
			fds[k] = ddl__stream_take_fd(pair.b);
		assert_int_equal(ddl__stream_take_fd(pair.b), -1);
		assert_int_equal(write(fds[1], &(char){ (char)('a' + i) }, 1), 1);
		assert_int_equal(read(fds[0], &byte, 1), 1);
		assert_int_equal(byte, 'a' + i);
		assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
		close(fds[0]);
		close(fds[1]);
	}
	end_pair(&pair);
}

static void test_what_waits_is_bounded(void **state)
{
	static const uint8_t body[DDL__CONTROL_MAX];
	struct ddl__frame frame = { .type = DDL__FRAME_ABORT, .bytes = sizeof(body) };
	struct pair pair = make_pair(0);
	size_t n = 0;
	int rc;

	assert_true(ddl__stream_fits(pair.a, 0));
	while ((rc = ddl__stream_put(pair.a, &frame, body, NULL, 0)) == 0)
		assert_true(++n * sizeof(body) <= DDL__STREAM_OUT_MAX);
	assert_int_equal(rc, -ENOBUFS);
	assert_false(ddl__stream_fits(pair.a, sizeof(body)));
	assert_true(n > 1000);
	end_pair(&pair);
}

static void test_the_end_of_a_stream_comes_after_its_frames(void **state)
{
	static struct record record;
	struct ddl__frame frame = { .type = DDL__FRAME_BYE };
	struct pair pair = make_pair(0);

	memset(&record, 0, sizeof(record));
	assert_int_equal(ddl__stream_put(pair.a, &frame, NULL, NULL, 0), 0);
	assert_int_equal(ddl__stream_write(pair.a), 0);
	ddl__stream_destroy(pair.a);
	assert_int_equal(ddl__stream_read(pair.b, &sink, &record), -ECONNRESET);
	assert_int_equal(record.n, 1);
	assert_int_equal(ddl__stream_put(pair.b, &frame, NULL, NULL, 0), 0);
	assert_int_equal(ddl__stream_write(pair.b), -EPIPE); /* and no signal */
	ddl__stream_destroy(pair.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_come_in_pieces_of_any_size),
		cmocka_unit_test(test_bodies_may_be_put_in_place_by_others),
		cmocka_unit_test(test_a_sink_may_stop_between_frames),
		cmocka_unit_test(test_bad_headers_are_refused),
		cmocka_unit_test(test_mutated_bytes_never_leave_their_place),
		cmocka_unit_test(test_frames_pass_a_socket_that_takes_little),
		cmocka_unit_test(test_descriptors_come_with_their_frames),
		cmocka_unit_test(test_what_waits_is_bounded),
		cmocka_unit_test(test_the_end_of_a_stream_comes_after_its_frames),
	};

	return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
