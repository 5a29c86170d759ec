/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - see stream.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "stream.h"

#define READ_ROUNDS 16 /* receive calls before others get their turn */

struct ddl__stream *ddl__stream_create(int fd, bool passes_fds)
{
	struct ddl__stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->out = malloc(DDL__STREAM_OUT);
	if (!stream->out) {
		free(stream);
		return NULL;
	}
	stream->out_size = DDL__STREAM_OUT;
	stream->fd = fd;
	stream->passes_fds = passes_fds;
	return stream;
}

static void drop_pass(struct ddl__stream *stream)
{
	struct ddl__stream_pass *pass = stream->passes;

	stream->passes = pass->next;
	for (size_t i = 0; i < pass->n; i++)
		close(pass->fds[i]);
	free(pass);
}

void ddl__stream_destroy(struct ddl__stream *stream)
{
	if (!stream)
		return;
	for (size_t i = 0; i < stream->n_in_fds; i++)
		close(stream->in_fds[i]);
	while (stream->passes)
		drop_pass(stream);
	close(stream->fd);
	free(stream->out);
	free(stream);
}

static size_t waiting(const struct ddl__stream *stream)
{
	return stream->out_tail - stream->out_head;
}

/* Moves what waits to the front, so that all free room is behind it. */
static void pack(struct ddl__stream *stream)
{
	if (stream->out_head == 0)
		return;
	memmove(stream->out, stream->out + stream->out_head, waiting(stream));
	stream->out_tail -= stream->out_head;
	stream->out_head = 0;
}

bool ddl__stream_fits(struct ddl__stream *stream, size_t body)
{
	return waiting(stream) + sizeof(struct ddl__frame) + body <= stream->out_size;
}

static int make_room(struct ddl__stream *stream, size_t bytes)
{
	size_t size = stream->out_size;
	uint8_t *out;

	pack(stream);
	if (stream->out_tail + bytes <= size)
		return 0;
	while (size < stream->out_tail + bytes)
		size *= 2;
	if (size > DDL__STREAM_OUT_MAX)
		return -ENOBUFS;
	out = realloc(stream->out, size);
	if (!out)
		return -ENOMEM;
	stream->out = out;
	stream->out_size = size;
	return 0;
}

static int add_pass(struct ddl__stream *stream, const int *fds, size_t n_fds)
{
	struct ddl__stream_pass **end = &stream->passes;
	struct ddl__stream_pass *pass = calloc(1, sizeof(*pass));

	if (!pass)
		return -ENOMEM;
	pass->at = stream->out_put;
	memcpy(pass->fds, fds, n_fds * sizeof(*fds));
	pass->n = n_fds;
	while (*end)
		end = &(*end)->next;
	*end = pass;
	return 0;
}

int ddl__stream_put(struct ddl__stream *stream, const struct ddl__frame *frame, const void *body, const int *fds, size_t n_fds)
{
	struct ddl__frame header = *frame;
	size_t bytes = sizeof(header) + frame->bytes;
	int rc;

	header.magic = DDL__FRAME_MAGIC;
	if (stream->out_tail + bytes > stream->out_size) {
		rc = make_room(stream, bytes);
		if (rc)
			return rc;
	}
	if (n_fds) {
		rc = add_pass(stream, fds, n_fds);
		if (rc)
			return rc;
	}
	memcpy(stream->out + stream->out_tail, &header, sizeof(header));
	if (frame->bytes)
		memcpy(stream->out + stream->out_tail + sizeof(header), body, frame->bytes);
	stream->out_tail += bytes;
	stream->out_put += bytes;
	return 0;
}

void ddl__stream_data(struct ddl__stream *stream, const struct ddl__frame *frame, const void *body)
{
	struct ddl__stream_slice *slice = &stream->data[stream->n_data++];

	slice->frame = *frame;
	slice->frame.magic = DDL__FRAME_MAGIC;
	slice->body = body;
}

size_t ddl__stream_busy(const struct ddl__stream *stream)
{
	return stream->n_data;
}

void ddl__stream_move(struct ddl__stream *stream, size_t place, const void *body)
{
	stream->data[place].body = body;
}

bool ddl__stream_idle(const struct ddl__stream *stream)
{
	return stream->n_data == 0 && waiting(stream) == 0;
}

/* What of a data frame is not written yet. */
static size_t add_slice(const struct ddl__stream_slice *slice, size_t done, struct iovec *iov)
{
	const size_t header = sizeof(slice->frame);
	size_t n = 0;

	if (done < header)
		iov[n++] = (struct iovec){ (uint8_t *)&slice->frame + done, header - done };
	if (slice->frame.bytes) {
		size_t at = done > header ? done - header : 0;

		iov[n++] = (struct iovec){ (uint8_t *)slice->body + at, slice->frame.bytes - at };
	}
	return n;
}

/* Control bytes that may go in this call: descriptors go with the first byte of their frame. */
static size_t control_now(const struct ddl__stream *stream, bool first, const struct ddl__stream_pass **with)
{
	uint64_t written = stream->out_put - waiting(stream);
	const struct ddl__stream_pass *pass = stream->passes;

	*with = NULL;
	if (pass && pass->at == written && first) {
		*with = pass;
		pass = pass->next;
	}
	return pass ? (size_t)(pass->at - written) : waiting(stream);
}

static void attach_fds(struct msghdr *msg, const struct ddl__stream_pass *pass)
{
	struct cmsghdr *cmsg = msg->msg_control;

	msg->msg_controllen = CMSG_SPACE(pass->n * sizeof(int));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(pass->n * sizeof(int));
	memcpy(CMSG_DATA(cmsg), pass->fds, pass->n * sizeof(int));
}

/* So many bytes of data frames were written, of `most` frames. Returns what is left of them. */
static size_t account_data(struct ddl__stream *stream, size_t n, size_t most)
{
	size_t through = 0;

	while (n > 0 && through < most) {
		size_t left = sizeof(struct ddl__frame) + stream->data[through].frame.bytes - stream->data_done;
		size_t take = n < left ? n : left;

		n -= take;
		stream->data_done += take;
		if (take < left)
			break;
		stream->data_done = 0;
		through++;
	}
	stream->n_data -= through;
	if (through)
		memmove(stream->data, stream->data + through, stream->n_data * sizeof(*stream->data));
	return n;
}

int ddl__stream_write(struct ddl__stream *stream)
{
	while (!ddl__stream_idle(stream)) {
		_Alignas(struct cmsghdr) char space[CMSG_SPACE(DDL__STREAM_FDS * sizeof(int))] = { 0 };
		bool begun = stream->n_data && stream->data_done;
		const struct ddl__stream_pass *with;
		size_t control = control_now(stream, !begun, &with);
		struct iovec iov[2 * DDL__STREAM_SLICES + 1];
		struct msghdr msg = { .msg_iov = iov, .msg_control = space };
		ssize_t n;

		if (begun)
			msg.msg_iovlen = add_slice(&stream->data[0], stream->data_done, iov);
		if (control)
			iov[msg.msg_iovlen++] = (struct iovec){ stream->out + stream->out_head, control };
		for (size_t i = begun; i < stream->n_data && control == waiting(stream); i++)
			msg.msg_iovlen += add_slice(&stream->data[i], 0, iov + msg.msg_iovlen);
		if (with)
			attach_fds(&msg, with);
		else
			msg.msg_control = NULL;
		n = sendmsg(stream->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 1 : -errno;
		if (with && n > 0)
			drop_pass(stream);
		if (begun)
			n = (ssize_t)account_data(stream, (size_t)n, 1);
		control = (size_t)n < control ? (size_t)n : control;
		stream->out_head += control;
		if ((size_t)n > control)
			account_data(stream, (size_t)n - control, stream->n_data);
	}
	stream->out_head = stream->out_tail = 0;
	return 0;
}

static int parse(struct ddl__stream *stream, const struct ddl__frame_sink *sink, void *context)
{
	size_t used;
	int rc;

	if (stream->in_head == stream->in_tail)
		return 0;
	rc = ddl__parser_feed(&stream->parser, sink, context, stream->in + stream->in_head, stream->in_tail - stream->in_head,
			      &used);
	stream->in_head += used;
	return rc;
}

/* Keeps the descriptors that came; more than a peer of ours sends is refused. Truncated: this process may not open more. */
static int keep_fds(struct ddl__stream *stream, struct msghdr *msg)
{
	int rc = msg->msg_flags & MSG_CTRUNC ? -EMFILE : 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t n;

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (stream->n_in_fds < sizeof(stream->in_fds) / sizeof(*stream->in_fds)) {
				stream->in_fds[stream->n_in_fds++] = fd;
			} else {
				close(fd);
				rc = -EBADMSG;
			}
		}
	}
	return rc;
}

static int receive(struct ddl__stream *stream, const struct ddl__frame_sink *sink, void *context, bool *dry)
{
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(DDL__STREAM_FDS * sizeof(int))];
	size_t room = 0;
	void *to = ddl__parser_room(&stream->parser, &room);
	struct iovec iov[2] = { { to, room }, { stream->in, sizeof(stream->in) } };
	struct msghdr msg = { .msg_iov = to ? iov : iov + 1, .msg_iovlen = to ? 2 : 1 };
	ssize_t n;
	int rc;

	if (stream->passes_fds) {
		msg.msg_control = space;
		msg.msg_controllen = sizeof(space);
	}
	do
		n = recvmsg(stream->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	/* A call stops behind descriptors, whatever follows them. */
	*dry = n < 0 || (!stream->passes_fds && n < (ssize_t)(room + sizeof(stream->in)));
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
	if (stream->passes_fds) {
		rc = keep_fds(stream, &msg);
		if (rc)
			return rc;
	}
	if (n == 0)
		return -ECONNRESET;
	stream->in_head = 0;
	stream->in_tail = (size_t)n > room ? (size_t)n - room : 0;
	return to ? ddl__parser_landed(&stream->parser, sink, context, (size_t)n < room ? (size_t)n : room) : 0;
}

int ddl__stream_read(struct ddl__stream *stream, const struct ddl__frame_sink *sink, void *context)
{
	bool dry = false;

	for (int round = 0;; round++) {
		int rc = parse(stream, sink, context);

		if (rc || dry || round == READ_ROUNDS)
			return rc;
		rc = receive(stream, sink, context, &dry);
		if (rc)
			return rc;
	}
}

int ddl__stream_take_fd(struct ddl__stream *stream)
{
	int fd;

	if (stream->n_in_fds == 0)
		return -1;
	fd = stream->in_fds[0];
	stream->n_in_fds--;
	memmove(stream->in_fds, stream->in_fds + 1, stream->n_in_fds * sizeof(fd));
	return fd;
}
