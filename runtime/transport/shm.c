/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c - lanes through memory that two processes of one machine share.
 *
 * The receiver makes a memfd for each lane: a counter of credits, and slots (shm_lane.h). It goes to the sender with the
 * announcement over an abstract unix socket, which stays open and only carries control: its end is how the death of a peer is
 * noticed. Nothing has a name in a file system, so nothing is left behind, whatever happens. What a peer writes into shared memory
 * is checked before it is used.
 *
 * The sender remembers the credits that it saw last and looks again only when they are used up, so that the line of the counter
 * stays with the receiver as long as there is room. That loses no wake-up: it waits for credits only after a look that found none.
 *
 * Doorbell. Each process has a page with a flag that says that it sleeps, and an eventfd in its epoll set; both go to every peer.
 * Who publishes a slice (a sequence) or a credit (the counter) looks at the flag afterwards. Who is about to sleep sets the flag
 * and looks for slices and credits afterwards: at the sequence of the next slot of every lane that it waits for, and, having no
 * credit left, at the counter. All four are sequentially consistent, so there is one order of them: either the flag comes before
 * the look at the flag, and the bell rings, or what was published comes before the look for it, and is seen.
 *
 * Windows (shm_window.h). A slice that is lent or placed takes a slot as any other, whose line tells where it lies. The sender
 * counts a lent slice as read when the receiver has released it. What the receiver grants stands in the lane's head; it is written
 * when its start begins, and the sender takes it only in its own start of the same number: those belong together, and the
 * receiver's does not end before all slices of it have come. So it never changes while the sender may look at it.
 *
 * Answers. A line that one core has written, and another reads, costs as much again when that one writes to it. What is sent back
 * to where a slice came from is therefore written over the slice: half as many lines go back and forth, and half as much memory is
 * in use. The answer takes a slot of its own lane all the same, whose line tells which slot of the other lane it lies in. That
 * slot's credit is returned as ever: its owner does not use it before it has read the answer (see transport.h: pair).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "error.h"
#include "memfd.h"
#include "mesh.h"
#include "shm_lane.h"
#include "shm_window.h"

#define MAGIC     0x6464736du /* of an address */
#define BACKLOG   4096
#define NAME_SIZE 32u   /* bytes of a socket's abstract name, without its leading NUL */
#define PAGE_SIZE 4096u /* bytes of a doorbell's memory */

struct doorbell {                  /* a process's page */
	_Atomic uint32_t sleeping; /* 1: ring */
};

struct shm_tx {
	struct ddl__mesh_tx mesh;
	struct ddl__shm_lane *lane; /* NULL before the announcement came */
	uint64_t sent;
	uint64_t consumed;   /* of these, released when we looked last */
	uint64_t lent;       /* of these, up to the last that was lent */
	uint64_t start;      /* whose grant `granted` is; 0 none */
	uint64_t at, size;   /* it, as the receiver wrote it */
	uint64_t window;     /* id of the receiver's */
	uint64_t placing_at; /* bytes into the grant: the slice that tx_placed will send */
	struct shm_rx *pair; /* the lane back; NULL: none */
};

struct shm_rx {
	struct ddl__mesh_rx mesh;
	struct ddl__shm_lane lane;
	uint64_t released;
	uint8_t *granted;    /* what the sender may write to; NULL: nothing */
	size_t granted_size; /* bytes */
	struct shm_tx *pair; /* the lane back; NULL: none */
};

struct shm_link {
	struct ddl__link link;
	struct doorbell *doorbell; /* the peer's; NULL before it came */
	int bell_fd;               /* the peer's eventfd; -1 with doorbell NULL */
	struct ddl__windows windows;
};

struct shm {
	struct ddl__mesh mesh;
	struct doorbell *doorbell; /* ours */
	int doorbell_fd;           /* its memfd: peers get duplicates */
	int bell_fd;               /* our eventfd */
	struct ddl__poll_source bell;
	uint32_t watched; /* epoll events bell_fd is registered for */
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics work between processes");

/* Addresses and sockets */

static socklen_t name_address(struct sockaddr_un *address, const char *name)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path + 1, name, NAME_SIZE);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_SIZE);
}

static int make_name(char *name)
{
	uint8_t random[(NAME_SIZE - 4) / 2];
	char text[NAME_SIZE + 1] = "ddl-";
	int rc = ddl__auth_random(random, sizeof(random));

	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(text + 4 + 2 * i, 3, "%02x", random[i]);
	memcpy(name, text, NAME_SIZE);
	return rc;
}

static int shm_listen(struct ddl__mesh *mesh, const struct ddl__transport_config *config, int *fd, void *own, size_t *size,
		      struct ddl_error *err)
{
	struct sockaddr_un address;
	char name[NAME_SIZE], why[DDL__REASON_SIZE];
	socklen_t length;
	int rc = make_name(name);
	int made = rc ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	length = name_address(&address, name);
	if (rc == 0 && (made < 0 || bind(made, (struct sockaddr *)&address, length) || listen(made, BACKLOG)))
		rc = -errno;
	if (rc) {
		if (made >= 0)
			close(made);
		return ddl__error_set(err, rc, "shm: cannot make a unix socket: %s", ddl__error_reason(why, sizeof(why), rc));
	}
	memcpy(own, name, sizeof(name));
	*size = sizeof(name);
	*fd = made;
	return 0;
}

static bool shm_reaches(const struct ddl__mesh *mesh, const void *own, size_t size, const char *machine)
{
	return size == NAME_SIZE && machine[0] && strcmp(machine, mesh->machine) == 0;
}

static void shm_target(const void *own, struct sockaddr_storage *to, socklen_t *size, char *words, size_t words_size)
{
	memset(to, 0, sizeof(*to));
	*size = name_address((struct sockaddr_un *)to, own);
	snprintf(words, words_size, "unix socket @%.*s", (int)NAME_SIZE, (const char *)own);
}

static void shm_tune(int fd)
{
}

static bool shm_admits(int fd)
{
	struct ucred other;
	socklen_t size = sizeof(other);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

/* Doorbells */

static void ring(struct shm_link *link)
{
	static const uint64_t one = 1;

	if (!link->doorbell || !atomic_load(&link->doorbell->sleeping))
		return;
	if (atomic_exchange(&link->doorbell->sleeping, 0) && write(link->bell_fd, &one, sizeof(one)) < 0)
		return; /* full of rings already: it wakes */
}

static void bell_ready(struct ddl__poll_source *source, uint32_t events)
{
	struct shm *shm = (struct shm *)((char *)source - offsetof(struct shm, bell));
	uint64_t rings;

	if (read(shm->bell_fd, &rings, sizeof(rings)) < 0)
		return; /* rung once, seen twice */
}

static int shm_up(struct ddl__link *base)
{
	struct shm *shm = (struct shm *)base->mesh;
	struct ddl__frame frame = { .type = DDL__FRAME_DOORBELL };
	int fds[2] = { fcntl(shm->doorbell_fd, F_DUPFD_CLOEXEC, 0), fcntl(shm->bell_fd, F_DUPFD_CLOEXEC, 0) };
	int rc = fds[0] < 0 || fds[1] < 0 ? -errno : 0;

	((struct shm_link *)base)->bell_fd = -1;
	if (rc == 0)
		rc = ddl__stream_put(base->stream, &frame, NULL, fds, 2);
	for (int i = 0; rc && i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return rc ? rc : ddl__windows_up(base, &((struct shm_link *)base)->windows);
}

static int on_doorbell(struct shm_link *link, const struct ddl__frame *frame)
{
	int page_fd = ddl__stream_take_fd(link->link.stream);
	int bell_fd = ddl__stream_take_fd(link->link.stream);
	void *memory = NULL;
	int rc = 0;

	if (page_fd < 0 || bell_fd < 0 || link->doorbell || frame->bytes)
		rc = ddl__link_bad(&link->link, "it sent a doorbell in a wrong form");
	if (rc == 0)
		rc = ddl__memfd_map(page_fd, PAGE_SIZE, 0, &memory);
	if (page_fd >= 0)
		close(page_fd);
	if (rc) {
		if (bell_fd >= 0)
			close(bell_fd);
		return rc;
	}
	link->doorbell = memory;
	link->bell_fd = bell_fd;
	ring(link); /* what was published before we could ring */
	return 0;
}

static void shm_down(struct ddl__link *base)
{
	struct shm_link *link = (struct shm_link *)base;

	if (!link->doorbell)
		return;
	munmap(link->doorbell, PAGE_SIZE);
	close(link->bell_fd);
	link->doorbell = NULL;
	link->bell_fd = -1;
}

/* What goes over the socket */

static void shm_pump(struct ddl__link *link)
{
	ddl__link_write(link);
	ddl__link_settle(link);
}

static bool shm_unsent(const struct ddl__link *link)
{
	return false; /* what is published has arrived */
}

static int shm_data(struct ddl__link *link, const struct ddl__frame *frame, void **to)
{
	return ddl__link_bad(link, "it sent data over the socket");
}

static int shm_frame(struct ddl__link *link, const struct ddl__frame *frame, const void *body)
{
	if (frame->type >= DDL__FRAME_WINDOW && frame->type <= DDL__FRAME_HIDE)
		return ddl__windows_frame(link, &((struct shm_link *)link)->windows, frame, body);
	if (frame->type != DDL__FRAME_DOORBELL)
		return ddl__link_bad(link, "it sent a frame that has no meaning over shm");
	return on_doorbell((struct shm_link *)link, frame);
}

static void lane_free(struct ddl__shm_lane *lane)
{
	if (!lane)
		return;
	munmap(lane->segment, lane->size);
	free(lane);
}

static int shm_offered(struct ddl__link *link, struct ddl__offer *offer, const void *terms)
{
	int fd = ddl__stream_take_fd(link->stream);
	struct ddl__shm_lane *lane;
	void *memory = NULL;
	int rc;

	if (fd < 0)
		return ddl__link_bad(link, "it announced a lane without its memory");
	lane = calloc(1, sizeof(*lane));
	rc = lane ? ddl__memfd_map(fd, ddl__shm_lane_size(&offer->end.lane), 0, &memory) : -ENOMEM;
	close(fd);
	if (rc) {
		free(lane);
		return rc == -EBADMSG ? ddl__link_bad(link, "it announced a lane with memory of a wrong size or without seals")
				      : rc;
	}
	ddl__shm_lane_init(lane, &offer->end.lane, memory);
	offer->extra = lane;
	return 0;
}

static void shm_refuse(struct ddl__offer *offer)
{
	lane_free(offer->extra);
}

static void shm_grant(struct ddl__mesh_tx *tx, void *extra)
{
	((struct shm_tx *)tx)->lane = extra;
}

/* The ops */

static const struct ddl__mesh_ops mesh_ops = {
	.transport = &ddl__transport_shm,
	.magic = MAGIC,
	.link_size = sizeof(struct shm_link),
	.passes_fds = true,
	.listen = shm_listen,
	.reaches = shm_reaches,
	.target = shm_target,
	.tune = shm_tune,
	.admits = shm_admits,
	.up = shm_up,
	.pump = shm_pump,
	.unsent = shm_unsent,
	.data = shm_data,
	.frame = shm_frame,
	.offered = shm_offered,
	.refuse = shm_refuse,
	.grant = shm_grant,
	.down = shm_down,
};

static int shm_probe(char *why, size_t size)
{
	void *memory;
	int fd;
	int rc = ddl__memfd_make("ddl-probe", PAGE_SIZE, 0, &fd, &memory);

	if (rc) {
		snprintf(why, size, "no sealed memfd here: %s", strerror(-rc));
		return 0;
	}
	munmap(memory, PAGE_SIZE);
	close(fd);
	return 1;
}

static void shm_free(struct shm *shm)
{
	if (shm->doorbell) {
		munmap(shm->doorbell, PAGE_SIZE);
		close(shm->doorbell_fd);
	}
	if (shm->bell_fd >= 0) {
		/* Peers may still hold the eventfd: closing ours alone would not take it out of the epoll set. */
		ddl__mesh_watch(&shm->mesh, shm->bell_fd, &shm->bell, 0, &shm->watched);
		close(shm->bell_fd);
	}
	free(shm);
}

static int shm_open_bell(struct shm *shm, const struct ddl__transport_config *config)
{
	void *memory;
	int rc = ddl__memfd_make("ddl-doorbell", PAGE_SIZE, 0, &shm->doorbell_fd, &memory);

	if (rc)
		return rc;
	shm->doorbell = memory;
	shm->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (shm->bell_fd < 0)
		return -errno;
	shm->bell.ready = bell_ready;
	shm->mesh.epoll_fd = config->epoll_fd;
	return ddl__mesh_watch(&shm->mesh, shm->bell_fd, &shm->bell, EPOLLIN, &shm->watched);
}

static int shm_open_transport(const struct ddl__transport_config *config, struct ddl__transport **transport, struct ddl_error *err)
{
	struct shm *shm = calloc(1, sizeof(*shm));
	char why[DDL__REASON_SIZE];
	int rc;

	if (!shm)
		return ddl__error_memory(err);
	shm->bell_fd = -1;
	rc = shm_open_bell(shm, config);
	if (rc)
		ddl__error_set(err, rc, "shm: no shared memory for this process: %s", ddl__error_reason(why, sizeof(why), rc));
	else
		rc = ddl__mesh_init(&shm->mesh, &mesh_ops, config, err);
	if (rc) {
		shm_free(shm);
		return rc;
	}
	*transport = &shm->mesh.base;
	return 0;
}

static int rx_memory(struct shm_rx *rx, const struct ddl__lane *lane, struct ddl_error *err)
{
	char why[DDL__REASON_SIZE];
	void *memory = NULL;
	int rc = ddl__memfd_make("ddl-lane", ddl__shm_lane_size(lane), 0, &rx->mesh.fd, &memory);

	if (rc)
		return ddl__error_set(err, rc == -ENOSPC ? -ENOMEM : rc, "shm: no shared memory for %u slots of %u bytes: %s",
				      lane->slots, lane->slot_bytes, ddl__error_reason(why, sizeof(why), rc));
	ddl__shm_lane_init(&rx->lane, lane, memory);
	return 0;
}

static int shm_rx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__rx **out,
		       struct ddl_error *err)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;
	struct shm_rx *rx;
	int rc = ddl__lane_check(mesh, lane, err);

	if (rc)
		return rc;
	rx = calloc(1, sizeof(*rx));
	if (!rx)
		return ddl__error_memory(err);
	rc = rx_memory(rx, lane, err);
	if (rc == 0) {
		int fd = rx->mesh.fd;

		rc = ddl__mesh_rx_open(mesh, peer, lane, &rx->mesh, err);
		if (rc) {
			close(fd);
			munmap(rx->lane.segment, rx->lane.size);
		}
	}
	if (rc) {
		free(rx);
		return rc;
	}
	*out = &rx->mesh.base;
	return 0;
}

static int shm_tx_open(struct ddl__transport *transport, int peer, const struct ddl__lane *lane, struct ddl__tx **out,
		       struct ddl_error *err)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;
	struct shm_tx *tx;
	int rc = ddl__lane_check(mesh, lane, err);

	if (rc)
		return rc;
	tx = calloc(1, sizeof(*tx));
	if (!tx)
		return ddl__error_memory(err);
	rc = ddl__mesh_tx_open(mesh, peer, lane, &tx->mesh, err);
	if (rc) {
		free(tx);
		return rc;
	}
	*out = &tx->mesh.base;
	return 0;
}

static void shm_rx_close(struct ddl__rx *base)
{
	struct shm_rx *rx = (struct shm_rx *)base;

	ddl__mesh_rx_close(&rx->mesh);
	munmap(rx->lane.segment, rx->lane.size);
	free(rx);
}

static void shm_tx_close(struct ddl__tx *base)
{
	struct shm_tx *tx = (struct shm_tx *)base;

	ddl__mesh_tx_close(&tx->mesh);
	lane_free(tx->lane);
	free(tx);
}

/* Whether a slot is free. */
static bool has_credit(struct shm_tx *tx)
{
	struct ddl__link *link = tx->mesh.link;
	uint64_t consumed;

	if (!tx->mesh.granted || link->state != DDL__LINK_UP)
		return false;
	if (tx->sent - tx->consumed < tx->lane->slots)
		return true;
	consumed = atomic_load(&tx->lane->segment->consumed);
	if (consumed - tx->consumed > tx->sent - tx->consumed) {
		ddl__link_fail(link, -EBADMSG, "it gave credits for slices that it cannot have");
		return false;
	}
	tx->consumed = consumed;
	return tx->sent - consumed < tx->lane->slots;
}

static void *shm_tx_slot(struct ddl__tx *base)
{
	struct shm_tx *tx = (struct shm_tx *)base;

	return has_credit(tx) ? ddl__shm_slice(tx->lane) : NULL;
}

/* Sends the next slot; what: the slice's size, and where it lies. */
static void publish(struct shm_tx *tx, uint32_t what)
{
	struct ddl__link *link = tx->mesh.link;

	if (link->heard_bye)
		ddl__link_fail(link, -ECONNRESET, "it has left");
	if (link->state != DDL__LINK_UP)
		return;
	atomic_store_explicit(&tx->lane->at->what, what, memory_order_relaxed);
	atomic_store(&tx->lane->at->sequence, ++tx->sent);
	ddl__shm_go_on(tx->lane);
	ring((struct shm_link *)link);
}

static void shm_tx_send(struct ddl__tx *base, size_t bytes)
{
	publish((struct shm_tx *)base, (uint32_t)bytes);
}

/* Whether all that was lent was read. */
static bool shm_tx_flushed(struct ddl__tx *base)
{
	const struct shm_tx *tx = (const struct shm_tx *)base;

	return tx->lent == 0 || atomic_load(&tx->lane->segment->consumed) >= tx->lent;
}

/* Sends a slice that lies elsewhere, if there is a credit. */
static bool refer(struct shm_tx *tx, uint32_t what, uint64_t window, uint64_t at)
{
	if (!has_credit(tx))
		return false;
	tx->lane->at->inside.elsewhere = (struct ddl__elsewhere){ window, at };
	publish(tx, what);
	return true;
}

static bool shm_tx_lend(struct ddl__tx *base, const struct ddl__window *window, size_t offset, size_t bytes)
{
	struct shm_tx *tx = (struct shm_tx *)base;

	if (bytes < DDL__LEND_BYTES_MIN || !ddl__windows_mapped(&((struct shm_link *)tx->mesh.link)->windows, window->id) ||
	    !refer(tx, (uint32_t)bytes | DDL__SLICE_LENT, window->id, offset))
		return false;
	tx->lent = tx->sent;
	return true;
}

static void shm_rx_grant(struct ddl__rx *base, uint64_t start, const struct ddl__window *window, size_t offset, size_t bytes)
{
	struct shm_rx *rx = (struct shm_rx *)base;
	struct ddl__grant *grant = &rx->lane.segment->grant;

	rx->granted = window ? window->memory + offset : NULL;
	rx->granted_size = window ? bytes : 0;
	if (!window)
		return; /* what stands there holds for an earlier start */
	atomic_store_explicit(&grant->window, window->id, memory_order_relaxed);
	atomic_store_explicit(&grant->at, offset, memory_order_relaxed);
	atomic_store_explicit(&grant->size, bytes, memory_order_relaxed);
	atomic_store_explicit(&grant->start, start, memory_order_release);
}

static void *shm_tx_place(struct ddl__tx *base, uint64_t start, size_t offset, size_t bytes)
{
	struct shm_tx *tx = (struct shm_tx *)base;
	const struct ddl__grant *grant;

	if (bytes < DDL__LEND_BYTES_MIN || !has_credit(tx))
		return NULL;
	grant = &tx->lane->segment->grant;
	if (tx->start != start) {
		if (atomic_load_explicit(&grant->start, memory_order_acquire) != start)
			return NULL;
		tx->start = start;
		tx->window = atomic_load_explicit(&grant->window, memory_order_relaxed);
		tx->at = atomic_load_explicit(&grant->at, memory_order_relaxed);
		tx->size = atomic_load_explicit(&grant->size, memory_order_relaxed);
	}
	if (offset > tx->size || bytes > tx->size - offset || tx->at > UINT64_MAX - offset)
		return NULL;
	tx->placing_at = offset;
	return ddl__windows_at(&((struct shm_link *)tx->mesh.link)->windows, tx->window, tx->at + offset, bytes);
}

static void shm_tx_placed(struct ddl__tx *base, size_t bytes)
{
	struct shm_tx *tx = (struct shm_tx *)base;

	(void)refer(tx, (uint32_t)bytes | DDL__SLICE_PLACED, 0, tx->placing_at);
}

static void shm_pair(struct ddl__tx *tx, struct ddl__rx *rx)
{
	((struct shm_tx *)tx)->pair = (struct shm_rx *)rx;
	((struct shm_rx *)rx)->pair = (struct shm_tx *)tx;
}

static void *shm_tx_answer(struct ddl__tx *base, size_t bytes)
{
	struct shm_tx *tx = (struct shm_tx *)base;
	const struct shm_rx *rx = tx->pair;

	if (!rx || bytes < DDL__LEND_BYTES_MIN || bytes > rx->mesh.end.lane.slot_bytes || !has_credit(tx) ||
	    atomic_load_explicit(&rx->lane.at->what, memory_order_relaxed) & ~DDL__SLICE_SIZE)
		return NULL;
	return ddl__shm_slice(&rx->lane);
}

static void shm_tx_answered(struct ddl__tx *base, size_t bytes)
{
	struct shm_tx *tx = (struct shm_tx *)base;

	(void)refer(tx, (uint32_t)bytes | DDL__SLICE_ANSWER, 0, tx->pair->lane.next);
}

/* Where an answer lies; NULL: nowhere. */
static const void *answered(const struct shm_tx *tx, uint64_t slot, uint32_t bytes)
{
	if (!tx || !tx->lane || slot >= tx->lane->slots || bytes > tx->mesh.end.lane.slot_bytes)
		return NULL;
	return ddl__shm_slice_of(tx->lane, (uint32_t)slot);
}

/* Where a slice lies that its slot only tells of; NULL: nowhere. */
static const void *elsewhere(const struct shm_rx *rx, uint32_t what)
{
	const struct ddl__elsewhere from = rx->lane.at->inside.elsewhere;
	uint32_t bytes = what & DDL__SLICE_SIZE;

	if (what & DDL__SLICE_ANSWER)
		return answered(rx->pair, from.at, bytes);
	if (what & DDL__SLICE_LENT)
		return ddl__windows_at(&((struct shm_link *)rx->mesh.link)->windows, from.window, from.at, bytes);
	return from.at <= rx->granted_size && bytes <= rx->granted_size - from.at ? rx->granted + from.at : NULL;
}

static const void *shm_rx_slot(struct ddl__rx *base, size_t *bytes)
{
	struct shm_rx *rx = (struct shm_rx *)base;
	uint64_t next = rx->released + 1, sequence = atomic_load(&rx->lane.at->sequence);
	uint32_t what, size;
	const void *at;

	if (sequence != next) {
		if (sequence != (next > rx->lane.slots ? next - rx->lane.slots : 0))
			ddl__link_fail(rx->mesh.link, -EBADMSG, "it sent a slice without a credit");
		return NULL;
	}
	what = atomic_load_explicit(&rx->lane.at->what, memory_order_relaxed);
	size = what & DDL__SLICE_SIZE;
	if (size > rx->mesh.end.lane.slot_bytes) {
		ddl__link_fail(rx->mesh.link, -EBADMSG, "it sent a slice that is larger than its slot");
		return NULL;
	}
	at = what == size ? ddl__shm_slice(&rx->lane) : elsewhere(rx, what);
	if (!at) {
		ddl__link_fail(rx->mesh.link, -EBADMSG, "it sent a slice that lies in no window and no slot");
		return NULL;
	}
	*bytes = size;
	return at;
}

static void shm_rx_release(struct ddl__rx *base)
{
	struct shm_rx *rx = (struct shm_rx *)base;

	ddl__shm_go_on(&rx->lane);
	atomic_store(&rx->lane.segment->consumed, ++rx->released);
	if (rx->mesh.link->state == DDL__LINK_UP)
		ring((struct shm_link *)rx->mesh.link);
}

static void shm_show(struct ddl__transport *transport, int peer, const struct ddl__window *window)
{
	struct ddl__link *link = ((struct ddl__mesh *)transport)->links[peer];

	if (link && window->fd >= 0)
		ddl__windows_show(link, &((struct shm_link *)link)->windows, window);
}

static void shm_hide(struct ddl__transport *transport, const struct ddl__window *window)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;

	for (int i = 0; i < mesh->n_ranks; i++)
		if (mesh->links[i])
			ddl__windows_hide(mesh->links[i], &((struct shm_link *)mesh->links[i])->windows, window->id);
}

static void shm_sleeping(struct ddl__transport *transport, bool on)
{
	atomic_store(&((struct shm *)transport)->doorbell->sleeping, on ? 1u : 0u);
}

static void shm_forked(struct ddl__transport *transport)
{
	const struct shm *shm = (const struct shm *)transport;

	for (int i = 0; i < shm->mesh.n_ranks; i++) {
		const struct shm_link *link = (const struct shm_link *)shm->mesh.links[i];

		if (link && link->doorbell)
			close(link->bell_fd);
		for (const struct ddl__shown *shown = link ? link->windows.shown : NULL; shown; shown = shown->next)
			if (shown->fd >= 0)
				close(shown->fd);
	}
	close(shm->doorbell_fd);
	close(shm->bell_fd);
	ddl__mesh_forked(transport);
}

static void shm_close(struct ddl__transport *transport)
{
	struct ddl__mesh *mesh = (struct ddl__mesh *)transport;

	if (!transport)
		return;
	for (int i = 0; i < mesh->n_ranks; i++)
		if (mesh->links[i])
			ddl__windows_fini(&((struct shm_link *)mesh->links[i])->windows);
	ddl__mesh_fini((struct ddl__mesh *)transport);
	shm_free((struct shm *)transport);
}

const struct ddl__transport_ops ddl__transport_shm = {
	.name = "shm",
	.description = "shared memory between processes of one machine",
	.probe = shm_probe,
	.open = shm_open_transport,
	.address = ddl__mesh_address,
	.attach = ddl__mesh_attach,
	.reaches = ddl__mesh_reaches,
	.rx_open = shm_rx_open,
	.tx_open = shm_tx_open,
	.rx_close = shm_rx_close,
	.tx_close = shm_tx_close,
	.tx_slot = shm_tx_slot,
	.tx_send = shm_tx_send,
	.tx_flushed = shm_tx_flushed,
	.rx_slot = shm_rx_slot,
	.rx_release = shm_rx_release,
	.show = shm_show,
	.hide = shm_hide,
	.tx_lend = shm_tx_lend,
	.rx_grant = shm_rx_grant,
	.tx_place = shm_tx_place,
	.tx_placed = shm_tx_placed,
	.pair = shm_pair,
	.tx_answer = shm_tx_answer,
	.tx_answered = shm_tx_answered,
	.sleeping = shm_sleeping,
	.abort = ddl__mesh_abort,
	.goodbye = ddl__mesh_goodbye,
	.done = ddl__mesh_done,
	.close = shm_close,
	.forked = shm_forked,
};
