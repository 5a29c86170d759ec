/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - see channel.h. */
#include "channel.h"

#include <stdlib.h>

static struct ddl__channel *find(const struct ddl_comm *comm, int peer, uint32_t tag, bool sends)
{
	struct ddl__channel *c = comm->channels;
	while (c && (c->peer != peer || c->tag != tag || c->sends != sends))
		c = c->next;
	return c;
}

struct ddl__channel *ddl__channel_get(struct ddl_comm *comm, int peer, uint32_t tag, bool sends)
{
	struct ddl__channel *c = find(comm, peer, tag, sends);
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->peer = peer;
	c->tag = tag;
	c->sends = sends;
	pthread_mutex_init(&c->turn, NULL);
	c->next = comm->channels;
	comm->channels = c;
	return c;
}

void ddl__channel_enter(struct ddl__channel *channel, struct ddl_request *request)
{
	int from = channel->sends ? request->comm->rank : channel->peer, to = channel->sends ? channel->peer : request->comm->rank;
	request->id = DDL__CHANNEL_BIT | (from > to ? DDL__CHANNEL_DOWN : 0) | (channel->created++ & DDL__CHANNEL_MASK);
	request->channel = channel;
	request->channel_next = channel->live;
	channel->live = request;
}

void ddl__channel_leave(struct ddl_request *request)
{
	struct ddl_request **at = &request->channel->live;
	while (*at != request)
		at = &(*at)->channel_next;
	*at = request->channel_next;
}

bool ddl__channel_find(const struct ddl_comm *comm, int peer, const struct ddl__lane *lane, struct ddl_request **request)
{
	const struct ddl__channel *c = find(comm, peer, lane->index, true);
	if (!c || ((lane->request - c->created) & DDL__CHANNEL_MASK) <= DDL__CHANNEL_MASK / 2)
		return false; /* ahead of what was created here */
	*request = c->live;
	while (*request && (*request)->id != lane->request)
		*request = (*request)->channel_next;
	return true;
}

bool ddl__channels_any(const struct ddl_comm *comm, bool (*is)(const struct ddl_request *request, const void *context),
		       const void *context)
{
	for (const struct ddl__channel *c = comm->channels; c; c = c->next)
		for (const struct ddl_request *r = c->live; r; r = r->channel_next)
			if (is(r, context))
				return true;
	return false;
}

void ddl__channels_clear(struct ddl_comm *comm)
{
	for (struct ddl__channel *c = comm->channels; c; c = c->next)
		while (c->live)
			ddl__request_destroy(c->live);
}

void ddl__channels_fini(struct ddl_comm *comm)
{
	while (comm->channels) {
		struct ddl__channel *c = comm->channels;
		comm->channels = c->next;
		pthread_mutex_destroy(&c->turn);
		free(c);
	}
}
