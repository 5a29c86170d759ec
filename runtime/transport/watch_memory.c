/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_memory.c - see watch_memory.h.
 *
 * userfaultfd tells of what happens to mappings: whoever unmaps, empties or moves watched memory waits in the kernel until a
 * thread of ours has read of it. So that thread does nothing else, and nothing that could wait for whoever unmaps: no allocation,
 * no lock. It notes what it read in a ring; a reader that is a whole ring behind knows that it missed something.
 *
 * The kernel wants memory to be registered for faults of some kind too. We name write protection and never protect a page: so no
 * fault is ever ours to resolve, and no program hangs on us for touching its memory.
 *
 * What is unmapped can be mapped again by another thread before the first call has returned, or we have read of it. Between
 * taking the mapping away and our reading of it the kernel refuses to protect pages, with EAGAIN, and it looks at that first: so
 * asking it to protect no page at all tells whether something is under way. Reading wakes who waits before we have noted
 * anything: `turn` is odd from before the call until after the note. Both together are ddl__memory_watch_settle().
 *
 * A child after a fork watches nothing: the kernel takes its memory off the list, and it closes its copy of the descriptor, which
 * would keep the parent's memory watched though nobody reads. The watch is the process's, as its memory is: one of the library's
 * few globals.
 */
#include "watch_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

enum {
	NOTES = 1024,
	MESSAGES = 16,
	SETTLE_YIELDS = 50,
	SETTLE_TRIES = 100,
	SETTLE_NAP_NS = 20000,
	STACK_BYTES = 256 * 1024,
	GONE = 1
};

#define FEATURES (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP)

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;             /* of what follows, up to the thread */
	unsigned users;                   /* gets without their put */
	struct ddl__memory_range *ranges; /* list by next */
	pthread_t thread;                 /* while there are users */
	int fd, stop_fd;                  /* -1: none */
	atomic_uint turn;                 /* odd: events are being read and noted */
	atomic_uint_fast64_t noted;       /* notes ever */
	struct {
		atomic_uintptr_t begin, end; /* GONE is or-ed to begin: pages are aligned */
	} notes[NOTES];
} watch = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .stop_fd = -1 };

/* ---- the thread ---- */

static void note(uintptr_t begin, uintptr_t end, unsigned gone)
{
	uint64_t n = atomic_load_explicit(&watch.noted, memory_order_relaxed);
	atomic_store_explicit(&watch.notes[n % NOTES].begin, begin | gone, memory_order_release);
	atomic_store_explicit(&watch.notes[n % NOTES].end, end, memory_order_release);
	atomic_store_explicit(&watch.noted, n + 1, memory_order_release);
}

static void take_events(void)
{
	struct uffd_msg messages[MESSAGES];
	atomic_fetch_add(&watch.turn, 1);
	ssize_t rc = read(watch.fd, messages, sizeof(messages));
	for (ssize_t i = 0; i < rc / (ssize_t)sizeof(messages[0]); i++) {
		const struct uffd_msg *m = &messages[i];
		if (m->event == UFFD_EVENT_REMAP)
			note(m->arg.remap.from, m->arg.remap.from + m->arg.remap.len, GONE);
		else if (m->event == UFFD_EVENT_UNMAP || m->event == UFFD_EVENT_REMOVE)
			note(m->arg.remove.start, m->arg.remove.end, m->event == UFFD_EVENT_UNMAP ? GONE : 0);
	}
	atomic_fetch_add(&watch.turn, 1);
}

/* Closes the descriptor itself: so there is always somebody who reads, or nothing that is watched. */
static void *serve(void *context)
{
	struct pollfd fds[2] = { { .fd = watch.fd, .events = POLLIN }, { .fd = watch.stop_fd, .events = POLLIN } };
	while (!fds[1].revents && !(fds[0].revents & (POLLERR | POLLHUP | POLLNVAL))) {
		if (poll(fds, 2, -1) > 0 && (fds[0].revents & POLLIN))
			take_events();
	}
	if (!(fds[0].revents & POLLNVAL)) /* else the program closed what it did not know */
		close(watch.fd);
	return NULL;
}

static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&watch.thread, &attr, serve, NULL);
	if (rc == EINVAL) /* the libraries' thread-local variables do not fit */
		rc = pthread_create(&watch.thread, NULL, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		pthread_setname_np(watch.thread, "ddl-memory");
	return -rc;
}

/* ---- beginning and end ---- */

/* Only what may be done in a child of a process with threads. The lock may have been held by a thread that is not here. */
static void forget_in_child(void)
{
	if (watch.fd >= 0) {
		close(watch.fd);
		close(watch.stop_fd);
	}
	pthread_mutex_init(&watch.lock, NULL);
	watch.fd = watch.stop_fd = -1;
	watch.users = 0;
	watch.ranges = NULL;
	atomic_store(&watch.turn, 0);
}

static void prepare(void)
{
	pthread_atfork(NULL, NULL, forget_in_child);
}

/* A descriptor that tells of events and no faults in the kernel; negative errno. */
static int open_fd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY), device;
	if (fd < 0 && errno == EINVAL) /* before 5.11 */
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 || errno != EPERM)
		return fd >= 0 ? fd : -errno;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC); /* where an administrator gives it to some */
	if (device < 0)
		return -EPERM;
	fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	close(device);
	return fd >= 0 ? fd : -EPERM;
}

static int begin(char *why, size_t size)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };
	int rc;
	watch.fd = open_fd();
	if (watch.fd < 0) {
		rc = watch.fd;
		watch.fd = -1;
		snprintf(why, size, "userfaultfd is %s here: %s", rc == -EPERM ? "not permitted" : "not to be had", strerror(-rc));
		return rc;
	}
	watch.stop_fd = eventfd(0, EFD_CLOEXEC);
	if (watch.stop_fd < 0)
		rc = -errno;
	else if (ioctl(watch.fd, UFFDIO_API, &api))
		rc = errno == EINVAL ? -EOPNOTSUPP : -errno;
	else if (!(api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP))
		rc = -EOPNOTSUPP;
	else
		rc = start_thread();
	if (rc < 0) {
		snprintf(why, size, "userfaultfd does not tell of memory that is unmapped: %s", strerror(-rc));
		close(watch.fd);
		if (watch.stop_fd >= 0)
			close(watch.stop_fd);
		watch.fd = watch.stop_fd = -1;
	}
	return rc;
}

int ddl__memory_watch_get(char *why, size_t size)
{
	int rc = 0;
	pthread_once(&watch.once, prepare);
	pthread_mutex_lock(&watch.lock);
	if (watch.users == 0)
		rc = begin(why, size);
	if (rc == 0)
		watch.users++;
	pthread_mutex_unlock(&watch.lock);
	return rc;
}

void ddl__memory_watch_put(void)
{
	pthread_mutex_lock(&watch.lock);
	if (watch.users && --watch.users == 0) {
		eventfd_write(watch.stop_fd, 1);
		pthread_join(watch.thread, NULL);
		close(watch.stop_fd);
		watch.fd = watch.stop_fd = -1;
		watch.ranges = NULL;
	}
	pthread_mutex_unlock(&watch.lock);
}

/* ---- what is watched ---- */

/* Whether all of it is mapped, private and of no file. */
static bool is_private(uintptr_t begin, uintptr_t end)
{
	uintptr_t from, to, at = begin;
	unsigned long inode;
	char line[512], access;
	bool whole = true, ok = true; /* whole: the last line was read to its end */
	FILE *in = fopen("/proc/self/maps", "re");
	if (!in)
		return false;
	while (ok && at < end && fgets(line, sizeof(line), in)) {
		bool first = whole;
		whole = strchr(line, '\n') != NULL;
		if (!first)
			continue;
		ok = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*3c%c %*x %*x:%*x %lu", &from, &to, &access, &inode) == 4;
		if (!ok || to <= at)
			continue;
		ok = from <= at && access == 'p' && inode == 0;
		at = to;
	}
	fclose(in);
	return ok && at >= end;
}

int ddl__memory_watch_add(struct ddl__memory_range *range)
{
	struct uffdio_register wanted = { .range = { range->begin, range->end - range->begin }, .mode = UFFDIO_REGISTER_MODE_WP };
	int rc = 0;
	pthread_mutex_lock(&watch.lock);
	if (ioctl(watch.fd, UFFDIO_REGISTER, &wanted)) {
		rc = errno == EBUSY ? -EBUSY : -EOPNOTSUPP;
	} else {
		atomic_store(&range->gone, false);
		range->next = watch.ranges;
		watch.ranges = range;
	}
	pthread_mutex_unlock(&watch.lock);
	if (rc < 0 || is_private(range->begin, range->end)) /* looked at now: whatever becomes of it is noted */
		return rc;
	ddl__memory_watch_remove(range);
	return -EOPNOTSUPP;
}

/* What of at ... end no other range has is not watched any more. The lock is held. */
static void unwatch(uintptr_t at, uintptr_t end)
{
	while (at < end) {
		uintptr_t covered = at, next = end;
		for (const struct ddl__memory_range *r = watch.ranges; r; r = r->next) {
			if (atomic_load(&r->gone))
				continue;
			if (r->begin <= at && r->end > covered)
				covered = r->end;
			else if (r->begin > at && r->begin < next)
				next = r->begin;
		}
		if (covered == at) {
			struct uffdio_range bare = { at, next - at };
			ioctl(watch.fd, UFFDIO_UNREGISTER, &bare);
			covered = next;
		}
		at = covered;
	}
}

void ddl__memory_watch_remove(struct ddl__memory_range *range)
{
	pthread_mutex_lock(&watch.lock);
	for (struct ddl__memory_range **at = &watch.ranges; *at; at = &(*at)->next) {
		if (*at != range)
			continue;
		*at = range->next;
		if (!atomic_load(&range->gone)) /* else other memory, and maybe another's, is there */
			unwatch(range->begin, range->end);
		break;
	}
	pthread_mutex_unlock(&watch.lock);
}

/* ---- what happened ---- */

/* Whether no mapping is being changed of whose change we have not read. */
static int is_still(void)
{
	struct uffdio_writeprotect nothing = { .mode = 0 };
	if (ioctl(watch.fd, UFFDIO_WRITEPROTECT, &nothing) == 0)
		return -EPROTO;
	return errno == EINVAL ? 1 : errno == EAGAIN ? 0 : -errno;
}

bool ddl__memory_watch_settle(void)
{
	const struct timespec nap = { .tv_nsec = SETTLE_NAP_NS };
	for (int i = 0; i < SETTLE_TRIES; i++) {
		int still = is_still();
		atomic_thread_fence(memory_order_seq_cst);
		unsigned turn = atomic_load(&watch.turn);
		if (still < 0)
			return false;
		if (still && turn % 2 == 0)
			return true;
		if (i < SETTLE_YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	return false;
}

void ddl__memory_reader_init(struct ddl__memory_reader *reader)
{
	reader->taken = atomic_load_explicit(&watch.noted, memory_order_acquire);
}

int ddl__memory_reader_next(struct ddl__memory_reader *reader, struct ddl__memory_note *next)
{
	uint64_t noted = atomic_load_explicit(&watch.noted, memory_order_acquire), at = reader->taken % NOTES;
	if (noted == reader->taken)
		return 0;
	uintptr_t begin = atomic_load_explicit(&watch.notes[at].begin, memory_order_acquire);
	uintptr_t end = atomic_load_explicit(&watch.notes[at].end, memory_order_acquire);
	noted = atomic_load_explicit(&watch.noted, memory_order_relaxed);
	if (noted - reader->taken >= NOTES) { /* the next note may be half in the place of this one */
		reader->taken = noted;
		return -EOVERFLOW;
	}
	reader->taken++;
	*next = (struct ddl__memory_note){ begin & ~(uintptr_t)GONE, end, begin & GONE };
	return 1;
}

bool ddl__memory_reader_behind(const struct ddl__memory_reader *reader)
{
	return atomic_load_explicit(&watch.turn, memory_order_acquire) % 2 ||
	       atomic_load_explicit(&watch.noted, memory_order_acquire) != reader->taken;
}
