/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c - memory that the node's other processes may reduce from and to, without a copy in between.
 *
 * Where ranks of the node are reached by a transport that can show memory, it is a sealed memfd: it has no name, ends with the last
 * process that maps it, and cannot shrink under a reader. Elsewhere it is plain memory. All pages are there from the start, on the
 * NUMA node of the calling thread, so that no collective meets a page fault.
 */
#include "mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "channel.h"
#include "error.h"
#include "log.h"
#include "memfd.h"

static size_t whole_pages(size_t bytes)
{
	return bytes ? (bytes + DDL__WINDOW_ALIGNMENT - 1) / DDL__WINDOW_ALIGNMENT * DDL__WINDOW_ALIGNMENT : DDL__WINDOW_ALIGNMENT;
}

/* Whether some rank is reached by a transport that can show memory. */
static bool is_of_use(const struct ddl_comm *comm)
{
	for (int r = 0; r < comm->size; r++)
		if (comm->via[r] >= 0 && comm->transports[(int)comm->via[r]]->ops->show)
			return true;
	return false;
}

/*
 * -ENOMEM unless the machine has so much memory now. What is made here is there from the start, and the kernel would rather end
 * processes, others' too, than say that it has no more. Where the kernel does not tell, it is tried.
 */
static int check_room(size_t bytes, char *why, size_t size)
{
	unsigned long long kib, available = 0, swap = 0;
	char line[128];
	FILE *in = fopen("/proc/meminfo", "re");
	if (!in)
		return 0;
	while (fgets(line, sizeof(line), in)) {
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			available = kib;
		else if (sscanf(line, "SwapFree: %llu", &kib) == 1)
			swap = kib;
	}
	fclose(in);
	if (available == 0 || bytes / 1024 < available + swap)
		return 0;
	snprintf(why, size, "%llu KiB are available there", available + swap);
	return -ENOMEM;
}

/* Half of the descriptors stay for connections: memory that takes one more is not worth it. */
static bool leaves_descriptors(int fd)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)fd < limit.rlim_cur / 2;
}

static int map_shared(struct ddl__window *window)
{
	void *memory;
	int fd, rc = ddl__memfd_make("ddl-mem", window->size, MAP_POPULATE, &fd, &memory);
	if (rc == 0 && !leaves_descriptors(fd)) {
		munmap(memory, window->size);
		close(fd);
		rc = -EMFILE;
	}
	if (rc < 0)
		return rc;
	window->fd = fd;
	window->memory = memory;
	return 0;
}

static int map_private(struct ddl__window *window)
{
	void *at = mmap(NULL, window->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	madvise(at, window->size, MADV_HUGEPAGE);
	memset(at, 0, window->size);
	window->fd = -1;
	window->memory = at;
	return 0;
}

static void window_destroy(struct ddl__window *window)
{
	munmap(window->memory, window->size);
	if (window->fd >= 0)
		close(window->fd);
	free(window);
}

int ddl_mem_alloc(struct ddl_comm *comm, size_t bytes, void **memory, struct ddl_error *err)
{
	char why[DDL__REASON_SIZE];
	struct ddl__window *window;
	int rc = ddl_comm_get_error(comm, err);
	if (rc < 0)
		return rc;
	if (bytes > SIZE_MAX / 2)
		return ddl__error_set(err, -EINVAL, "%zu bytes are larger than memory", bytes);
	window = calloc(1, sizeof(*window));
	if (!window)
		return ddl__error_memory(err);
	window->size = whole_pages(bytes);
	rc = check_room(window->size, why, sizeof(why));
	if (rc == 0 && (!is_of_use(comm) || map_shared(window) < 0)) {
		rc = map_private(window); /* no more descriptors, or a small limit: it is memory all the same */
		ddl__error_reason(why, sizeof(why), rc);
	}
	if (rc < 0) {
		free(window);
		return ddl__error_set(err, rc, "rank %d on node %s has no memory for %zu bytes: %s", comm->rank,
				      ddl_comm_node_name(comm, comm->rank), bytes, why);
	}
	pthread_mutex_lock(&comm->lock);
	window->id = ++comm->n_windows;
	window->next = comm->windows;
	comm->windows = window;
	pthread_mutex_unlock(&comm->lock);
	*memory = window->memory;
	return 0;
}

/* ---- freeing ---- */

static bool touches(const struct ddl__window *window, const void *at, size_t bytes)
{
	uintptr_t begin = (uintptr_t)window->memory, first = (uintptr_t)at;
	return bytes && first < begin + window->size && first + bytes > begin;
}

/* Whether the request may still use the memory: those behind the blocking calls only while they run. */
static bool uses(const struct ddl_request *r, const void *context)
{
	const struct ddl__window *window = context;
	return (!r->kept || atomic_load(&r->active)) &&
	       (touches(window, r->send, r->send_bytes) || touches(window, r->recv, r->recv_bytes));
}

static bool in_use(const struct ddl_comm *comm, const struct ddl__window *window)
{
	for (uint32_t i = 0; i < comm->ids.n; i++)
		if (comm->ids.rows[i].request && uses(comm->ids.rows[i].request, window))
			return true;
	return ddl__channels_any(comm, uses, window);
}

int ddl_mem_free(struct ddl_comm *comm, void *memory)
{
	struct ddl__window **at = &comm->windows, *window = NULL;
	int rc = 0;
	if (!memory || atomic_load(&comm->forked))
		return 0;
	pthread_mutex_lock(&comm->lock);
	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	if (!*at)
		rc = -EINVAL;
	else if (in_use(comm, *at))
		rc = -EBUSY;
	if (rc == 0) {
		window = *at;
		*at = window->next;
		for (size_t t = 0; t < comm->n_transports; t++)
			if (comm->transports[t]->ops->hide)
				comm->transports[t]->ops->hide(comm->transports[t], window);
	}
	pthread_mutex_unlock(&comm->lock);
	if (rc < 0)
		ddl__log(DDL__LOG_ERROR, "rank %d on node %s: ddl_mem_free() of %p: %s", comm->rank,
			 ddl_comm_node_name(comm, comm->rank), memory,
			 rc == -EBUSY ? "a request still uses this memory; free the request first"
				      : "this is not memory that ddl_mem_alloc() gave for this communicator");
	else
		window_destroy(window);
	return rc;
}

const struct ddl__window *ddl__mem_holder(const struct ddl_comm *comm, const void *at, size_t bytes)
{
	for (const struct ddl__window *w = comm->windows; w; w = w->next) {
		uintptr_t begin = (uintptr_t)w->memory, first = (uintptr_t)at;
		if (first >= begin && first - begin <= w->size && bytes <= w->size - (first - begin))
			return w;
	}
	return NULL;
}

const struct ddl__window *ddl__mem_find(const struct ddl_comm *comm, const void *at, size_t bytes)
{
	const struct ddl__window *window = ddl__mem_holder(comm, at, bytes);
	return window && window->fd >= 0 ? window : NULL;
}

void ddl__mem_forked(const struct ddl_comm *comm)
{
	for (const struct ddl__window *w = comm->windows; w; w = w->next)
		if (w->fd >= 0)
			close(w->fd);
}

void ddl__mem_fini(struct ddl_comm *comm)
{
	while (comm->windows) {
		struct ddl__window *window = comm->windows;
		comm->windows = window->next;
		window_destroy(window);
	}
}
