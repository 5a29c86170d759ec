/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_memory.c - see verbs_memory.h.
 *
 * Regions that may be found are in one array by where they begin; `reach` is how far those up to a row go, so a search stops at
 * the first row from which on nothing can cover. What was unmapped leaves the array at once, and is deregistered when nobody
 * holds it. Whoever asks for a region first has the notes of what happened taken, all that happened before included
 * (watch_memory.h): so nothing that is unmapped is found.
 *
 * Where a fork gives the parent new pages while the device keeps the old ones (kernels before 5.12), only slots are registered.
 */
#include "verbs_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "log.h"
#include "verbs_pool.h"
#include "watch_memory.h"

enum { CACHED_MAX = 256, ROWS_MORE = 64, REFUSALS = 16, ASKS_REFUSED = 1000 };

static const size_t CACHED_BYTES = (size_t)2 << 30;

enum watched { UNTRIED = 0, ON = 1, REFUSED = 2 };

struct buffer {                         /* memory of the program that is registered */
	struct ddl__verbs_entry entry;  /* first */
	struct ddl__memory_range range; /* the pages */
	bool watched;                   /* the range is */
	bool ours;                      /* from ddl_mem_alloc() */
	bool valid;                     /* in the array; else in the list */
	unsigned holds;
	uint64_t used;       /* clock of the last hold */
	struct buffer *next; /* of those that are not valid */
};

struct row {
	struct buffer *buffer;
	uintptr_t reach; /* the greatest end up to this row */
};

struct refusal { /* a range that was not registered, and will not be soon */
	uintptr_t begin, end;
	unsigned asks; /* more, until it is tried again */
};

struct ddl__verbs_memory {
	struct ddl__verbs_registry registry;
	struct ddl__verbs_pool pool;
	enum ddl__register which;
	size_t cached_max, cached_bytes; /* bounds of what stays though nobody holds it */
	uintptr_t page;                  /* bytes */
	struct row *rows;                /* valid buffers by begin */
	size_t n_rows, room;
	struct buffer *stale;      /* those that are not valid */
	size_t n_idle, idle_bytes; /* valid ones without holds */
	uint64_t clock;            /* holds so far */
	enum watched watch;        /* whether this transport has got the watch */
	struct ddl__memory_reader reader;
	size_t too_large; /* so many bytes could not be registered; SIZE_MAX: none failed since something was given back */
	struct refusal refused[REFUSALS]; /* by address */
	bool survives_fork;               /* the devices' pages stay this process's */
	bool warned;                      /* that something could not be registered */
};

static size_t bytes_of(const struct buffer *b)
{
	return b->range.end - b->range.begin;
}

/* ---- the array ---- */

static void reach_from(struct ddl__verbs_memory *memory, size_t i)
{
	uintptr_t reach = i ? memory->rows[i - 1].reach : 0;
	for (; i < memory->n_rows; i++) {
		if (memory->rows[i].buffer->range.end > reach)
			reach = memory->rows[i].buffer->range.end;
		memory->rows[i].reach = reach;
	}
}

/* The first row whose buffer begins at that address or behind it. */
static size_t row_from(const struct ddl__verbs_memory *memory, uintptr_t begin)
{
	size_t low = 0, high = memory->n_rows;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (memory->rows[middle].buffer->range.begin < begin)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int reserve_row(struct ddl__verbs_memory *memory)
{
	if (memory->n_rows < memory->room)
		return 0;
	struct row *more = realloc(memory->rows, (memory->room + ROWS_MORE) * sizeof(more[0]));
	if (!more)
		return -ENOMEM;
	memory->rows = more;
	memory->room += ROWS_MORE;
	return 0;
}

static void insert(struct ddl__verbs_memory *memory, struct buffer *b)
{
	size_t i = row_from(memory, b->range.begin);
	memmove(&memory->rows[i + 1], &memory->rows[i], (memory->n_rows - i) * sizeof(memory->rows[0]));
	memory->rows[i].buffer = b;
	memory->n_rows++;
	reach_from(memory, i);
	b->valid = true;
}

static void take_out(struct ddl__verbs_memory *memory, size_t i)
{
	struct buffer *b = memory->rows[i].buffer;
	memory->n_rows--;
	memmove(&memory->rows[i], &memory->rows[i + 1], (memory->n_rows - i) * sizeof(memory->rows[0]));
	reach_from(memory, i);
	b->valid = false;
	if (b->holds == 0) {
		memory->n_idle--;
		memory->idle_bytes -= bytes_of(b);
	}
	b->next = memory->stale;
	memory->stale = b;
}

/* ---- what becomes of buffers ---- */

static void destroy(struct ddl__verbs_memory *memory, struct buffer *b)
{
	ddl__verbs_registry_remove(&memory->registry, &b->entry);
	if (b->watched)
		ddl__memory_watch_remove(&b->range);
	free(b);
	memory->too_large = SIZE_MAX;
}

/* Gives back what is not valid and held by nobody. */
static void sweep(struct ddl__verbs_memory *memory)
{
	for (struct buffer **at = &memory->stale; *at;) {
		struct buffer *b = *at;
		if (b->holds) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		destroy(memory, b);
	}
}

enum whose { OTHERS = 1, EVERYBODYS = 2 };

/* Nothing of these pages is found any more. gone: they are not mapped, or nobody knows. */
static void invalidate(struct ddl__verbs_memory *memory, uintptr_t begin, uintptr_t end, bool gone, enum whose whose)
{
	for (size_t i = row_from(memory, end); i-- > 0 && memory->rows[i].reach > begin;)
		if (memory->rows[i].buffer->range.end > begin && (whose == EVERYBODYS || !memory->rows[i].buffer->ours))
			take_out(memory, i);
	for (struct buffer *b = gone ? memory->stale : NULL; b; b = b->next)
		if (b->range.begin < end && b->range.end > begin)
			atomic_store(&b->range.gone, true);
}

static void take_notes(struct ddl__verbs_memory *memory)
{
	struct ddl__memory_note note;
	int rc;
	if (memory->watch != ON)
		return;
	while ((rc = ddl__memory_reader_next(&memory->reader, &note)))
		if (rc > 0)
			invalidate(memory, note.begin, note.end, note.gone, OTHERS);
		else
			invalidate(memory, 0, UINTPTR_MAX, true, OTHERS);
}

/* Gives the one back that was not used for the longest time. False: none is without a hold. */
static bool evict(struct ddl__verbs_memory *memory)
{
	size_t oldest = memory->n_rows;
	for (size_t i = 0; memory->n_idle && i < memory->n_rows; i++) {
		const struct buffer *b = memory->rows[i].buffer;
		if (b->holds == 0 && (oldest == memory->n_rows || b->used < memory->rows[oldest].buffer->used))
			oldest = i;
	}
	if (oldest == memory->n_rows)
		return false;
	take_out(memory, oldest);
	sweep(memory);
	return true;
}

static void trim(struct ddl__verbs_memory *memory, size_t max, size_t bytes)
{
	while ((memory->n_idle > max || memory->idle_bytes > bytes) && evict(memory))
		;
}

/* ---- finding and making ---- */

/* All that was unmapped is known. */
static struct buffer *find_buffer(const struct ddl__verbs_memory *memory, uintptr_t begin, uintptr_t end, bool ours)
{
	for (size_t i = row_from(memory, begin + 1); i-- > 0 && memory->rows[i].reach >= end;) {
		struct buffer *b = memory->rows[i].buffer;
		if (b->range.end >= end && b->ours == ours)
			return b;
	}
	return NULL;
}

static struct refusal *refusal_of(struct ddl__verbs_memory *memory, uintptr_t begin)
{
	return &memory->refused[begin / memory->page % REFUSALS];
}

/* Whether it was refused not long ago; the memory there may be another by now. */
static bool is_refused(struct ddl__verbs_memory *memory, uintptr_t begin, uintptr_t end)
{
	struct refusal *r = refusal_of(memory, begin);
	if (end - begin >= memory->too_large)
		return true;
	if (r->begin != begin || r->end != end || r->asks == 0)
		return false;
	r->asks--;
	return true;
}

static bool watch_is_on(struct ddl__verbs_memory *memory)
{
	char why[DDL__REASON_SIZE + 64];
	if (memory->watch != UNTRIED)
		return memory->watch == ON;
	if (ddl__memory_watch_get(why, sizeof(why)) < 0) {
		memory->watch = REFUSED;
		if (memory->which != DDL__REGISTER_ALL)
			ddl__log(DDL__LOG_INFO,
				 "RDMA copies through slots what lies in other memory than that of ddl_mem_alloc(), since nobody "
				 "tells when it is unmapped: %s",
				 why);
		return false;
	}
	memory->watch = ON;
	ddl__memory_reader_init(&memory->reader);
	return true;
}

/* Registers it, at the cost of what nobody holds. */
static int enter(struct ddl__verbs_memory *memory, struct buffer *b)
{
	struct ddl_error err = { 0 };
	int rc;
	do {
		rc = ddl__verbs_registry_add(&memory->registry, &b->entry, (void *)b->range.begin, bytes_of(b), &err);
	} while (rc == -ENOMEM && evict(memory));
	if (rc == -ENOMEM)
		memory->too_large = bytes_of(b);
	if (rc < 0 && !memory->warned)
		ddl__log(DDL__LOG_WARNING, "RDMA copies through slots: %s", err.text);
	memory->warned |= rc < 0;
	return rc;
}

static struct buffer *make_buffer(struct ddl__verbs_memory *memory, uintptr_t begin, uintptr_t end, bool ours)
{
	struct buffer *b;
	int rc = -EOPNOTSUPP;
	if (is_refused(memory, begin, end) || reserve_row(memory) < 0)
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->range.begin = begin;
	b->range.end = end;
	b->ours = ours;
	b->watched = !ours && watch_is_on(memory) && ddl__memory_watch_add(&b->range) == 0;
	if (b->watched || ours || memory->which == DDL__REGISTER_ALL)
		rc = enter(memory, b);
	if (rc == 0) {
		insert(memory, b);
		memory->n_idle++;
		memory->idle_bytes += bytes_of(b);
		return b;
	}
	if (b->watched)
		ddl__memory_watch_remove(&b->range);
	free(b);
	if (rc != -ENOMEM) /* too_large tells of that */
		*refusal_of(memory, begin) = (struct refusal){ begin, end, ASKS_REFUSED };
	return NULL;
}

static void begin_hold(struct ddl__verbs_memory *memory, struct buffer *b)
{
	if (b->holds++ == 0) {
		memory->n_idle--;
		memory->idle_bytes -= bytes_of(b);
	}
	b->used = ++memory->clock;
}

static void end_hold(struct ddl__verbs_memory *memory, struct buffer *b)
{
	if (--b->holds == 0 && b->valid) {
		memory->n_idle++;
		memory->idle_bytes += bytes_of(b);
	}
}

const struct ddl__verbs_region *ddl__verbs_memory_hold(struct ddl__verbs_memory *memory, const struct ddl__verbs_region *before,
						       const void *at, size_t bytes, bool ours)
{
	struct buffer *held = (struct buffer *)(uintptr_t)before, *b = NULL;
	uintptr_t begin = (uintptr_t)at / memory->page * memory->page;
	uintptr_t end = ((uintptr_t)at + bytes + memory->page - 1) / memory->page * memory->page;
	bool wanted = bytes && end > begin && (ours || memory->which != DDL__REGISTER_ALLOC) &&
		      (memory->which == DDL__REGISTER_ALL || memory->survives_fork);
	if (wanted && !ours && memory->watch == ON && !ddl__memory_watch_settle()) {
		invalidate(memory, begin, end, true, OTHERS);
		wanted = false;
	}
	take_notes(memory);
	if (wanted && held && held->valid && held->ours == ours && held->range.begin <= begin && held->range.end >= end)
		b = held;
	else if (wanted)
		b = find_buffer(memory, begin, end, ours);
	if (wanted && !b)
		b = make_buffer(memory, begin, end, ours);
	if (b)
		begin_hold(memory, b);
	ddl__verbs_memory_drop(memory, before);
	return b ? &b->entry.region : NULL;
}

void ddl__verbs_memory_drop(struct ddl__verbs_memory *memory, const struct ddl__verbs_region *region)
{
	if (region)
		end_hold(memory, (struct buffer *)(uintptr_t)region);
	sweep(memory);
	trim(memory, memory->cached_max, memory->cached_bytes);
}

void ddl__verbs_memory_forget(struct ddl__verbs_memory *memory, const void *at, size_t bytes)
{
	invalidate(memory, (uintptr_t)at, (uintptr_t)at + bytes, false, EVERYBODYS);
	sweep(memory);
}

void ddl__verbs_memory_tidy(struct ddl__verbs_memory *memory)
{
	take_notes(memory);
	sweep(memory);
}

/* ---- the pool ---- */

int ddl__verbs_memory_get(struct ddl__verbs_memory *memory, size_t bytes, struct ddl__verbs_piece *piece, struct ddl_error *err)
{
	int rc;
	do {
		rc = ddl__verbs_pool_get(&memory->pool, bytes, piece, err);
	} while (rc == -ENOMEM && evict(memory));
	return rc;
}

void ddl__verbs_memory_put(struct ddl__verbs_memory *memory, struct ddl__verbs_piece *piece)
{
	ddl__verbs_pool_put(&memory->pool, piece);
}

/* ---- beginning and end ---- */

int ddl__verbs_memory_create(const struct ddl__verbs_memory_config *config, struct ddl__verbs_memory **made, struct ddl_error *err)
{
	struct ddl__verbs_memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return ddl__error_memory(err);
	memory->registry.api = config->api;
	memory->registry.n_devices = config->n_devices;
	memcpy(memory->registry.devices, config->devices, sizeof(memory->registry.devices));
	memory->pool.registry = &memory->registry;
	memory->which = config->which;
	memory->cached_max = config->cached_max ? config->cached_max : CACHED_MAX;
	memory->cached_bytes = config->cached_bytes ? config->cached_bytes : CACHED_BYTES;
	memory->page = (uintptr_t)sysconf(_SC_PAGESIZE);
	memory->too_large = SIZE_MAX;
	memory->survives_fork = config->api->is_fork_initialized && config->api->is_fork_initialized() == IBV_FORK_UNNEEDED;
	if (!memory->survives_fork && memory->which != DDL__REGISTER_ALL)
		ddl__log(DDL__LOG_INFO,
			 "RDMA copies through slots, since devices lose the memory of a process that forks here: that takes "
			 "a kernel from 5.12 on and an rdma-core from 36 on");
	*made = memory;
	return 0;
}

void ddl__verbs_memory_destroy(struct ddl__verbs_memory *memory)
{
	if (!memory)
		return;
	take_notes(memory);
	while (memory->n_rows)
		take_out(memory, memory->n_rows - 1);
	for (struct buffer *b = memory->stale; b; b = b->next)
		b->holds = 0;
	sweep(memory);
	ddl__verbs_pool_fini(&memory->pool);
	if (memory->watch == ON)
		ddl__memory_watch_put();
	free(memory->rows);
	free(memory);
}
