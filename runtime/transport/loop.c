/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - many ranks in one process: the transport that unit tests run on, with one thread or a thread a rank.
 *
 * A lane is a ring of slots in ordinary memory with two counters. What a connection would carry (announcements, aborts, goodbyes,
 * deaths) goes as notes into the inbox of the other rank, whose eventfd is in its epoll set. One mutex guards the inboxes and the
 * lifetime of lanes; slots are guarded by the counters alone.
 */
#include "loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "error.h"
#include "transport.h"

struct channel { /* the shared part of a lane */
	struct ddl__lane lane;
	int sender, receiver;
	unsigned users;          /* ends that hold it, notes included; under the world's lock */
	atomic_uint sent, freed; /* slices ever sent, ever released */
	size_t *bytes;           /* slots */
	unsigned char *slots;
};

enum note_kind { NOTE_ANNOUNCE = 1, NOTE_ABORT = 2, NOTE_GOODBYE = 3, NOTE_DEATH = 4 };

struct note {
	struct note *next;
	enum note_kind kind;
	int from;
	int code;
	struct channel *channel; /* NOTE_ANNOUNCE: holds a use */
	char text[DDL_ERROR_TEXT_SIZE];
};

struct loop {
	struct ddl__transport base;
	struct ddl__transport_config config;
	struct ddl__loop_world *world;
	struct ddl__poll_source source;
	int wake_fd;
	atomic_bool sleeping;
	bool *connected; /* n_ranks: has a lane with it */
	bool *left;      /* n_ranks: said goodbye */
	bool said_goodbye;
	bool aborted;
	struct note *inbox;       /* newest first; under the world's lock */
	struct channel **pending; /* announced, no tx yet */
	size_t n_pending, room_pending;
	struct tx *senders; /* open ones, linked */
};

struct tx {
	struct ddl__tx base;
	struct loop *loop;
	int peer;
	struct ddl__lane lane;
	struct channel *channel; /* NULL: not announced yet */
	struct tx *next;
};

struct rx {
	struct ddl__rx base;
	struct loop *loop;
	struct channel *channel;
};

struct ddl__loop_world {
	pthread_mutex_t lock;
	int n_ranks;
	struct loop **loops; /* n_ranks; NULL: not open */
	bool *dead;          /* n_ranks */
	_Atomic uint32_t one_in;
	_Atomic uint64_t state; /* of the jitter */
	struct {
		atomic_bool on;          /* what follows is set */
		int from, to;            /* ranks */
		uint32_t request, slice; /* of the lane; of all it ever sends */
	} damage;
	struct ddl__loop_world *parts, *next; /* worlds split from this one; under its lock */
	uint64_t number;                      /* a part: which split made it */
	int color;                            /* a part: of its ranks */
};

struct ddl__loop_world *ddl__loop_world_create(int n_ranks)
{
	struct ddl__loop_world *world = calloc(1, sizeof(*world));
	if (!world)
		return NULL;
	world->n_ranks = n_ranks;
	world->loops = calloc((size_t)n_ranks, sizeof(struct loop *));
	world->dead = calloc((size_t)n_ranks, sizeof(*world->dead));
	pthread_mutex_init(&world->lock, NULL);
	if (!world->loops || !world->dead) {
		ddl__loop_world_destroy(world);
		return NULL;
	}
	return world;
}

void ddl__loop_world_destroy(struct ddl__loop_world *world)
{
	if (!world)
		return;
	while (world->parts) {
		struct ddl__loop_world *part = world->parts;
		world->parts = part->next;
		ddl__loop_world_destroy(part);
	}
	pthread_mutex_destroy(&world->lock);
	free(world->loops);
	free(world->dead);
	free(world);
}

struct ddl__loop_world *ddl__loop_world_part(struct ddl__loop_world *world, uint64_t number, int color, int n_ranks)
{
	pthread_mutex_lock(&world->lock);
	struct ddl__loop_world *part = world->parts;
	while (part && (part->number != number || part->color != color))
		part = part->next;
	if (!part && (part = ddl__loop_world_create(n_ranks))) {
		part->number = number;
		part->color = color;
		ddl__loop_world_jitter(part, atomic_load(&world->one_in), atomic_load(&world->state));
		part->next = world->parts;
		world->parts = part;
	}
	pthread_mutex_unlock(&world->lock);
	return part;
}

void ddl__loop_world_jitter(struct ddl__loop_world *world, uint32_t one_in, uint64_t seed)
{
	atomic_store(&world->state, seed);
	atomic_store(&world->one_in, one_in);
}

void ddl__loop_world_damage(struct ddl__loop_world *world, int from, int to, uint32_t request, uint32_t slice)
{
	world->damage.from = from;
	world->damage.to = to;
	world->damage.request = request;
	world->damage.slice = slice;
	atomic_store(&world->damage.on, true);
}

/* Whether a look at a slot shall say "not yet". Never once the peer said goodbye: what it sent before has landed. */
static bool jitter(const struct loop *loop, int peer)
{
	struct ddl__loop_world *world = loop->world;
	uint32_t one_in = atomic_load(&world->one_in);
	if (one_in == 0 || loop->left[peer])
		return false;
	uint64_t x = atomic_fetch_add(&world->state, 0x9e3779b97f4a7c15u);
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (x >> 33) % one_in == 0;
}

static void ring_bell(struct loop *to, bool always)
{
	if (atomic_exchange(&to->sleeping, false) || always)
		(void)!write(to->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

static void channel_put(struct channel *channel)
{
	if (!channel || --channel->users)
		return;
	free(channel->bytes);
	free(channel->slots);
	free(channel);
}

/* Puts a note into a rank's inbox. The world's lock is held. */
static int post(struct ddl__loop_world *world, int to, enum note_kind kind, int from, struct channel *channel, int code,
		const char *text)
{
	struct loop *loop = world->loops[to];
	if (!loop || world->dead[to])
		return 0;
	struct note *note = calloc(1, sizeof(*note));
	if (!note)
		return -ENOMEM;
	note->kind = kind;
	note->from = from;
	note->code = code;
	note->channel = channel;
	if (channel)
		channel->users++;
	if (text)
		strncpy(note->text, text, sizeof(note->text) - 1);
	note->next = loop->inbox;
	loop->inbox = note;
	ring_bell(loop, true);
	return 0;
}

void ddl__loop_world_kill(struct ddl__loop_world *world, int rank)
{
	pthread_mutex_lock(&world->lock);
	world->dead[rank] = true;
	for (int r = 0; r < world->n_ranks; r++)
		if (r != rank && world->loops[r] && world->loops[r]->connected[rank])
			post(world, r, NOTE_DEATH, rank, NULL, 0, NULL);
	pthread_mutex_unlock(&world->lock);
}

static int probe(char *why, size_t size)
{
	return 1;
}

static bool same_lane(const struct ddl__lane *a, const struct ddl__lane *b)
{
	return a->request == b->request && a->index == b->index;
}

/* An announcement meets its sender, or waits for it. The world's lock is held; the note's use of the channel is taken over. */
static void announced(struct loop *loop, struct channel *channel)
{
	for (struct tx *tx = loop->senders; tx; tx = tx->next) {
		if (tx->peer == channel->receiver && !tx->channel && same_lane(&tx->lane, &channel->lane)) {
			tx->channel = channel;
			return;
		}
	}
	if (loop->n_pending == loop->room_pending) {
		size_t room = loop->room_pending ? loop->room_pending * 2 : 16;
		struct channel **more = realloc(loop->pending, room * sizeof(struct channel *));
		if (!more) {
			channel_put(channel);
			return;
		}
		loop->pending = more;
		loop->room_pending = room;
	}
	loop->pending[loop->n_pending++] = channel;
}

static void deliver(struct loop *loop, struct note *note)
{
	const struct ddl__events *events = loop->config.events;
	void *context = loop->config.context;
	switch (note->kind) {
	case NOTE_ANNOUNCE:
		events->announced(context, note->from, &note->channel->lane);
		pthread_mutex_lock(&loop->world->lock);
		announced(loop, note->channel);
		pthread_mutex_unlock(&loop->world->lock);
		break;
	case NOTE_ABORT:
		events->aborted(context, note->from, note->code, note->text);
		break;
	case NOTE_GOODBYE:
		loop->left[note->from] = true;
		events->left(context, note->from);
		break;
	case NOTE_DEATH:
		events->lost(context, note->from, -ECONNRESET, "the connection ended");
		break;
	}
}

static void ready(struct ddl__poll_source *source, uint32_t events)
{
	struct loop *loop = (struct loop *)((char *)source - offsetof(struct loop, source));
	struct note *note, *oldest = NULL;
	uint64_t count;
	(void)!read(loop->wake_fd, &count, sizeof(count));
	pthread_mutex_lock(&loop->world->lock);
	note = loop->inbox;
	loop->inbox = NULL;
	pthread_mutex_unlock(&loop->world->lock);
	while (note) { /* newest first: turn round */
		struct note *next = note->next;
		note->next = oldest;
		oldest = note;
		note = next;
	}
	while ((note = oldest)) {
		oldest = note->next;
		deliver(loop, note);
		free(note);
	}
}

static void close_(struct ddl__transport *transport)
{
	struct loop *loop = (struct loop *)transport;
	if (!loop)
		return;
	pthread_mutex_lock(&loop->world->lock);
	if (loop->world->loops[loop->config.rank] == loop)
		loop->world->loops[loop->config.rank] = NULL;
	while (loop->inbox) {
		struct note *note = loop->inbox;
		loop->inbox = note->next;
		channel_put(note->channel);
		free(note);
	}
	for (size_t i = 0; i < loop->n_pending; i++)
		channel_put(loop->pending[i]);
	pthread_mutex_unlock(&loop->world->lock);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	free(loop->pending);
	free(loop->connected);
	free(loop->left);
	free(loop);
}

static int open_(const struct ddl__transport_config *config, struct ddl__transport **transport, struct ddl_error *err)
{
	if (!config->loop)
		return ddl__error_set(err, -EOPNOTSUPP, "transport loop serves tests within one process only");
	struct loop *loop = calloc(1, sizeof(*loop));
	if (!loop)
		return ddl__error_set(err, -ENOMEM, "out of memory for transport loop");
	loop->base.ops = &ddl__transport_loop;
	loop->config = *config;
	loop->world = config->loop;
	loop->source.ready = ready;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->connected = calloc((size_t)config->n_ranks, sizeof(*loop->connected));
	loop->left = calloc((size_t)config->n_ranks, sizeof(*loop->left));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &loop->source };
	if (loop->wake_fd < 0 || !loop->connected || !loop->left ||
	    epoll_ctl(config->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) < 0) {
		close_(&loop->base);
		return ddl__error_set(err, -ENOMEM, "transport loop could not be opened: out of memory or descriptors");
	}
	pthread_mutex_lock(&loop->world->lock);
	loop->world->loops[config->rank] = loop;
	pthread_mutex_unlock(&loop->world->lock);
	*transport = &loop->base;
	return 0;
}

static int address(struct ddl__transport *transport, void *buffer, size_t *size)
{
	*size = 0;
	return 0;
}

static int attach(struct ddl__transport *transport, const struct ddl__peer *peers, const uint8_t *secret, struct ddl_error *err)
{
	return 0;
}

static bool reaches(const struct ddl__transport *transport, int peer)
{
	return true;
}

static int rx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__rx **rx,
		   struct ddl_error *err)
{
	struct loop *loop = (struct loop *)transport;
	struct rx *r = calloc(1, sizeof(*r));
	struct channel *c = calloc(1, sizeof(*c));
	if (!r || !c)
		goto no_memory;
	c->lane = *lane;
	c->sender = peer;
	c->receiver = loop->config.rank;
	c->users = 1;
	c->bytes = calloc(lane->slots, sizeof(*c->bytes));
	c->slots = malloc((size_t)lane->slots * lane->slot_bytes + 1);
	if (!c->bytes || !c->slots)
		goto no_memory;
	r->base.ops = &ddl__transport_loop;
	r->loop = loop;
	r->channel = c;
	pthread_mutex_lock(&loop->world->lock);
	loop->connected[peer] = true;
	int rc = post(loop->world, peer, NOTE_ANNOUNCE, loop->config.rank, c, 0, NULL);
	if (loop->world->dead[peer])
		post(loop->world, loop->config.rank, NOTE_DEATH, peer, NULL, 0, NULL);
	pthread_mutex_unlock(&loop->world->lock);
	if (rc < 0)
		goto no_memory;
	*rx = &r->base;
	return 0;

no_memory:
	if (c) {
		free(c->bytes);
		free(c->slots);
	}
	free(c);
	free(r);
	return ddl__error_set(err, -ENOMEM, "out of memory for a lane of %u slots of %u bytes", lane->slots, lane->slot_bytes);
}

static int tx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__tx **tx,
		   struct ddl_error *err)
{
	struct loop *loop = (struct loop *)transport;
	struct tx *t = calloc(1, sizeof(*t));
	if (!t)
		return ddl__error_set(err, -ENOMEM, "out of memory for a lane");
	t->base.ops = &ddl__transport_loop;
	t->loop = loop;
	t->peer = peer;
	t->lane = *lane;
	pthread_mutex_lock(&loop->world->lock);
	loop->connected[peer] = true;
	for (size_t i = 0; i < loop->n_pending; i++) {
		struct channel *c = loop->pending[i];
		if (c->receiver == peer && same_lane(&c->lane, lane)) {
			t->channel = c;
			loop->pending[i] = loop->pending[--loop->n_pending];
			break;
		}
	}
	t->next = loop->senders;
	loop->senders = t;
	if (loop->world->dead[peer])
		post(loop->world, loop->config.rank, NOTE_DEATH, peer, NULL, 0, NULL);
	pthread_mutex_unlock(&loop->world->lock);
	*tx = &t->base;
	return 0;
}

static void rx_close(struct ddl__rx *rx)
{
	struct rx *r = (struct rx *)rx;
	struct ddl__loop_world *world = r->loop->world;
	pthread_mutex_lock(&world->lock);
	channel_put(r->channel);
	pthread_mutex_unlock(&world->lock);
	free(r);
}

static void tx_close(struct ddl__tx *tx)
{
	struct tx *t = (struct tx *)tx;
	struct ddl__loop_world *world = t->loop->world;
	pthread_mutex_lock(&world->lock);
	for (struct tx **at = &t->loop->senders; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			break;
		}
	channel_put(t->channel);
	pthread_mutex_unlock(&world->lock);
	free(t);
}

static void *tx_slot(struct ddl__tx *tx)
{
	struct tx *t = (struct tx *)tx;
	struct channel *c = t->channel;
	if (!c || jitter(t->loop, t->peer))
		return NULL;
	unsigned sent = atomic_load(&c->sent);
	if (sent - atomic_load(&c->freed) >= c->lane.slots)
		return NULL;
	return c->slots + (size_t)(sent % c->lane.slots) * c->lane.slot_bytes;
}

/* Wakes a rank that may sleep; it may have closed meanwhile. */
static void wake(struct ddl__loop_world *world, int rank)
{
	pthread_mutex_lock(&world->lock);
	if (world->loops[rank])
		ring_bell(world->loops[rank], false);
	pthread_mutex_unlock(&world->lock);
}

static bool is_damaged(const struct channel *c, struct ddl__loop_world *world, unsigned number)
{
	return atomic_load(&world->damage.on) && world->damage.from == c->sender && world->damage.to == c->receiver &&
	       world->damage.request == c->lane.request && world->damage.slice == number;
}

static void tx_send(struct ddl__tx *tx, size_t bytes)
{
	struct tx *t = (struct tx *)tx;
	struct channel *c = t->channel;
	const unsigned number = atomic_load(&c->sent), slot = number % c->lane.slots;
	c->bytes[slot] = bytes;
	if (is_damaged(c, t->loop->world, number) && bytes)
		c->slots[(size_t)slot * c->lane.slot_bytes + bytes - 1] ^= 0x08;
	atomic_fetch_add(&c->sent, 1);
	wake(t->loop->world, t->peer);
}

static bool tx_flushed(struct ddl__tx *tx)
{
	return true;
}

static const void *rx_slot(struct ddl__rx *rx, size_t *bytes)
{
	struct rx *r = (struct rx *)rx;
	struct channel *c = r->channel;
	unsigned freed = atomic_load(&c->freed);
	if (atomic_load(&c->sent) == freed || jitter(r->loop, c->sender))
		return NULL;
	*bytes = c->bytes[freed % c->lane.slots];
	return c->slots + (size_t)(freed % c->lane.slots) * c->lane.slot_bytes;
}

static void rx_release(struct ddl__rx *rx)
{
	struct rx *r = (struct rx *)rx;
	atomic_fetch_add(&r->channel->freed, 1);
	wake(r->loop->world, r->channel->sender);
}

static void sleeping(struct ddl__transport *transport, bool on)
{
	struct loop *loop = (struct loop *)transport;
	atomic_store(&loop->sleeping, on);
	if (on && atomic_load(&loop->world->one_in)) /* what jitter hid must be looked at again */
		(void)!write(loop->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

static void tell_connected(struct loop *loop, enum note_kind kind, int code, const char *text)
{
	pthread_mutex_lock(&loop->world->lock);
	for (int r = 0; r < loop->config.n_ranks; r++)
		if (loop->connected[r] && !loop->world->dead[loop->config.rank])
			post(loop->world, r, kind, loop->config.rank, NULL, code, text);
	pthread_mutex_unlock(&loop->world->lock);
}

static void abort_(struct ddl__transport *transport, int code, const char *text)
{
	struct loop *loop = (struct loop *)transport;
	loop->aborted = true;
	tell_connected(loop, NOTE_ABORT, code, text);
}

static void goodbye(struct ddl__transport *transport)
{
	struct loop *loop = (struct loop *)transport;
	loop->said_goodbye = true;
	tell_connected(loop, NOTE_GOODBYE, 0, NULL);
}

static bool done(const struct ddl__transport *transport)
{
	const struct loop *loop = (const struct loop *)transport;
	if (loop->aborted)
		return true;
	for (int r = 0; r < loop->config.n_ranks; r++)
		if (loop->connected[r] && !loop->left[r])
			return false;
	return loop->said_goodbye;
}

const struct ddl__transport_ops ddl__transport_loop = {
	.name = "loop",
	.description = "many ranks in one process, for tests",
	.probe = probe,
	.open = open_,
	.address = address,
	.attach = attach,
	.reaches = reaches,
	.rx_open = rx_open,
	.tx_open = tx_open,
	.rx_close = rx_close,
	.tx_close = tx_close,
	.tx_slot = tx_slot,
	.tx_send = tx_send,
	.tx_flushed = tx_flushed,
	.rx_slot = rx_slot,
	.rx_release = rx_release,
	.sleeping = sleeping,
	.abort = abort_,
	.goodbye = goodbye,
	.done = done,
	.close = close_,
};
