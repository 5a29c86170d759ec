/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_output.c - turns what processes write into whole lines with a label.
 *
 * A carriage return ends a line too, so that a progress line shows at once; a line feed right after it joins it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

#define LINE_MAX_BYTES 65536 /* a longer line goes out in parts */

struct ddl__run_stream {
	int fd;                       /* read from */
	int to_fd;                    /* lines go there */
	char label[16];               /* before each line */
	size_t label_size;            /* bytes of it */
	int inside;                   /* 1: the label of the current line is out already */
	int after_return;             /* 1: the last line ended with a carriage return */
	size_t used;                  /* bytes of line */
	char line[LINE_MAX_BYTES];    /* begun, not written yet */
	char out[2 * LINE_MAX_BYTES]; /* lines with labels, to be written at once */
	size_t n_out;                 /* bytes of out */
};

struct ddl__run_stream *ddl__run_stream_create(int fd, int to_fd, const char *label)
{
	struct ddl__run_stream *stream = malloc(sizeof(*stream));

	if (!stream)
		return NULL;
	stream->fd = fd;
	stream->to_fd = to_fd;
	stream->label_size = strnlen(label, sizeof(stream->label));
	memcpy(stream->label, label, stream->label_size);
	stream->inside = stream->after_return = 0;
	stream->used = stream->n_out = 0;
	return stream;
}

void ddl__run_stream_destroy(struct ddl__run_stream *stream)
{
	if (!stream)
		return;
	close(stream->fd);
	free(stream);
}

int ddl__run_stream_fd(const struct ddl__run_stream *stream)
{
	return stream->fd;
}

static int flush(struct ddl__run_stream *stream, int (*write_all)(void *, int, const char *, size_t), void *context)
{
	size_t n = stream->n_out;

	stream->n_out = 0;
	return n ? write_all(context, stream->to_fd, stream->out, n) : 0;
}

/* Moves the line so far to the output. ended: 1 if it is complete. */
static int put_line(struct ddl__run_stream *stream, int ended, int (*write_all)(void *, int, const char *, size_t), void *context)
{
	int rc = 0;

	if (stream->n_out + stream->label_size + stream->used > sizeof(stream->out))
		rc = flush(stream, write_all, context);
	if (!stream->inside) {
		memcpy(stream->out + stream->n_out, stream->label, stream->label_size);
		stream->n_out += stream->label_size;
	}
	memcpy(stream->out + stream->n_out, stream->line, stream->used);
	stream->n_out += stream->used;
	stream->used = 0;
	stream->inside = !ended;
	return rc;
}

static int put_byte(struct ddl__run_stream *stream, char c, int (*write_all)(void *, int, const char *, size_t), void *context)
{
	int joins = c == '\n' && stream->after_return; /* no label: it ends the line that the carriage return showed */

	stream->after_return = c == '\r';
	stream->line[stream->used++] = c;
	if (joins)
		stream->inside = 1;
	if (c == '\n' || c == '\r')
		return put_line(stream, 1, write_all, context);
	return stream->used == sizeof(stream->line) ? put_line(stream, 0, write_all, context) : 0;
}

int ddl__run_stream_read(struct ddl__run_stream *stream, int (*write_all)(void *context, int fd, const char *data, size_t size),
			 void *context)
{
	char chunk[16384];
	ssize_t n = read(stream->fd, chunk, sizeof(chunk));
	int rc = 0;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	for (ssize_t i = 0; i < n && rc == 0; i++)
		rc = put_byte(stream, chunk[i], write_all, context);
	if (n <= 0 && stream->used > 0) { /* the end without a line feed */
		if (stream->label_size)
			rc = put_byte(stream, '\n', write_all, context);
		else
			rc = put_line(stream, 1, write_all, context);
	}
	if (rc == 0)
		rc = flush(stream, write_all, context);
	if (rc < 0)
		return rc;
	return n > 0;
}
