/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - see frame.h. */
#include <errno.h>
#include <string.h>

#include "frame.h"
#include "transport.h"

_Static_assert(sizeof(struct ddl__frame) == 24, "the header has no padding");

static int check_header(const struct ddl__frame *frame)
{
	if (frame->magic != DDL__FRAME_MAGIC || frame->type < DDL__FRAME_HELLO || frame->type > DDL__FRAME_FAULT)
		return -EBADMSG;
	if (frame->bytes > (frame->type == DDL__FRAME_DATA ? DDL__SLOT_BYTES_MAX : DDL__CONTROL_MAX))
		return -EBADMSG;
	return 0;
}

/* The frame is complete: the parser is ready for the next one before the sink hears of it. */
static int finish(struct ddl__parser *parser, const struct ddl__frame_sink *sink, void *context)
{
	bool data = parser->frame.type == DDL__FRAME_DATA;

	parser->have = 0;
	parser->to = NULL;
	return sink->frame(context, &parser->frame, data ? NULL : parser->body);
}

static int take_header(struct ddl__parser *parser, const struct ddl__frame_sink *sink, void *context)
{
	int rc = check_header(&parser->frame);

	if (rc)
		return rc;
	parser->to = NULL;
	if (parser->frame.type == DDL__FRAME_DATA) {
		void *to = NULL;

		rc = sink->data(context, &parser->frame, &to);
		if (rc)
			return rc;
		parser->to = to;
	}
	return 0;
}

static void take_body(struct ddl__parser *parser, const uint8_t *bytes, size_t n)
{
	size_t at = parser->have - sizeof(parser->frame);

	if (parser->frame.type != DDL__FRAME_DATA)
		memcpy(parser->body + at, bytes, n);
	else if (parser->to)
		memcpy(parser->to + at, bytes, n);
	parser->have += n;
}

int ddl__parser_feed(struct ddl__parser *parser, const struct ddl__frame_sink *sink, void *context, const void *bytes, size_t n,
		     size_t *used)
{
	const uint8_t *from = bytes;
	const size_t header = sizeof(parser->frame);
	size_t at = 0;
	int rc = 0;

	while (at < n && rc == 0) {
		size_t take;

		if (parser->have < header) {
			take = n - at < header - parser->have ? n - at : header - parser->have;
			memcpy((uint8_t *)&parser->frame + parser->have, from + at, take);
			parser->have += take;
			if (parser->have == header)
				rc = take_header(parser, sink, context);
			else if (parser->have >= sizeof(parser->frame.magic) && parser->frame.magic != DDL__FRAME_MAGIC)
				rc = -EBADMSG; /* who speaks another protocol may never send a whole header */
		} else {
			size_t left = header + parser->frame.bytes - parser->have;

			take = n - at < left ? n - at : left;
			take_body(parser, from + at, take);
		}
		at += take;
		if (rc == 0 && parser->have >= header && parser->have == header + parser->frame.bytes)
			rc = finish(parser, sink, context);
	}
	*used = at;
	return rc;
}

void *ddl__parser_room(struct ddl__parser *parser, size_t *room)
{
	const size_t header = sizeof(parser->frame);

	if (parser->have < header || !parser->to)
		return NULL;
	*room = header + parser->frame.bytes - parser->have;
	return parser->to + (parser->have - header);
}

int ddl__parser_landed(struct ddl__parser *parser, const struct ddl__frame_sink *sink, void *context, size_t n)
{
	parser->have += n;
	if (parser->have < sizeof(parser->frame) + parser->frame.bytes)
		return 0;
	return finish(parser, sink, context);
}

void ddl__parser_drop(struct ddl__parser *parser)
{
	parser->to = NULL;
}
