/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_pool.c - see verbs_pool.h.
 *
 * Chunks of some MiB are mapped and registered, and pieces cut off them: the first extent that is large enough, in the order of
 * addresses; what is given back joins its neighbours. Extents are kept beside the memory and not in it: a peer that errs writes
 * into slots at worst. Of chunks without pieces one is kept.
 */
#include "verbs_pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"

enum { ALIGNMENT = 64, EXTENTS_MORE = 64 };

static const size_t CHUNK_BYTES = (size_t)4 << 20;
static const size_t CHUNK_BYTES_MIN = (size_t)64 << 10;
static const size_t HUGE_BYTES = (size_t)2 << 20;

struct extent {       /* that is free */
	size_t at;    /* in the chunk */
	size_t bytes; /* that many */
};

struct ddl__verbs_chunk {
	struct ddl__verbs_entry entry; /* first */
	struct extent *free;           /* by address; no two touch */
	size_t n_free, room;           /* of that array */
	size_t pieces;                 /* that are out */
	struct ddl__verbs_chunk *next; /* of the pool's */
};

static size_t rounded(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* ---- chunks ---- */

static void chunk_destroy(struct ddl__verbs_pool *pool, struct ddl__verbs_chunk *chunk)
{
	ddl__verbs_registry_remove(pool->registry, &chunk->entry);
	munmap(chunk->entry.region.at, chunk->entry.region.bytes);
	free(chunk->free);
	free(chunk);
}

/* Memory that begins where a huge page can, where it is large enough for one; NULL: there is none. */
static void *map(size_t bytes)
{
	size_t more = bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
	uint8_t *at = mmap(NULL, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	if (more) {
		size_t before = (HUGE_BYTES - (uintptr_t)at % HUGE_BYTES) % HUGE_BYTES;
		if (before)
			munmap(at, before);
		if (more - before)
			munmap(at + before + bytes, more - before);
		at += before;
		madvise(at, bytes, MADV_HUGEPAGE);
	}
	madvise(at, bytes, MADV_DONTFORK); /* kernels before 5.12 would give the parent other pages than the device has */
	return at;
}

static int chunk_create(struct ddl__verbs_pool *pool, size_t bytes, struct ddl__verbs_chunk **made, struct ddl_error *err)
{
	struct ddl__verbs_chunk *chunk = calloc(1, sizeof(*chunk));
	int rc = -ENOMEM;
	if (!chunk)
		return ddl__error_memory(err);
	chunk->room = EXTENTS_MORE;
	chunk->free = malloc(chunk->room * sizeof(chunk->free[0]));
	void *at = chunk->free ? map(bytes) : NULL;
	if (at)
		rc = ddl__verbs_registry_add(pool->registry, &chunk->entry, at, bytes, err);
	else
		ddl__error_set(err, rc, "there is no memory for %zu bytes of slots", bytes);
	if (rc < 0) {
		if (at)
			munmap(at, bytes);
		free(chunk->free);
		free(chunk);
		return rc;
	}
	chunk->free[0] = (struct extent){ 0, bytes };
	chunk->n_free = 1;
	*made = chunk;
	return 0;
}

/* A chunk that has room for that many: of the usual size; or if it is hard to get, or too small, of just enough. */
static int grow(struct ddl__verbs_pool *pool, size_t bytes, struct ddl__verbs_chunk **chunk, struct ddl_error *err)
{
	size_t enough = rounded(bytes, bytes > CHUNK_BYTES ? HUGE_BYTES : CHUNK_BYTES_MIN);
	int rc = chunk_create(pool, enough > CHUNK_BYTES ? enough : CHUNK_BYTES, chunk, err);
	if (rc < 0 && enough < CHUNK_BYTES)
		rc = chunk_create(pool, enough, chunk, err);
	if (rc == 0) {
		(*chunk)->next = pool->first;
		pool->first = *chunk;
	}
	return rc;
}

/* ---- pieces ---- */

/* Makes sure that every piece can be given back without memory: each adds an extent at most. */
static int reserve(struct ddl__verbs_chunk *chunk)
{
	size_t room = 2 * chunk->room;
	if (chunk->pieces + 2 <= chunk->room)
		return 0;
	struct extent *more = realloc(chunk->free, room * sizeof(more[0]));
	if (!more)
		return -ENOMEM;
	chunk->free = more;
	chunk->room = room;
	return 0;
}

static void drop_extent(struct ddl__verbs_chunk *chunk, size_t i)
{
	chunk->n_free--;
	memmove(&chunk->free[i], &chunk->free[i + 1], (chunk->n_free - i) * sizeof(chunk->free[0]));
}

static bool cut(struct ddl__verbs_chunk *chunk, size_t bytes, struct ddl__verbs_piece *piece)
{
	for (size_t i = 0; i < chunk->n_free; i++) {
		struct extent *e = &chunk->free[i];
		if (e->bytes < bytes)
			continue;
		if (reserve(chunk) < 0)
			return false;
		e = &chunk->free[i];
		*piece = (struct ddl__verbs_piece){ chunk->entry.region.at + e->at, bytes, &chunk->entry.region };
		e->at += bytes;
		e->bytes -= bytes;
		if (e->bytes == 0)
			drop_extent(chunk, i);
		chunk->pieces++;
		return true;
	}
	return false;
}

int ddl__verbs_pool_get(struct ddl__verbs_pool *pool, size_t bytes, struct ddl__verbs_piece *piece, struct ddl_error *err)
{
	struct ddl__verbs_chunk *chunk;
	int rc;
	if (bytes > SIZE_MAX / 2)
		return ddl__error_set(err, -ENOMEM, "%zu bytes of slots are larger than memory", bytes);
	bytes = bytes ? rounded(bytes, ALIGNMENT) : ALIGNMENT;
	for (chunk = pool->first; chunk; chunk = chunk->next)
		if (cut(chunk, bytes, piece))
			return 0;
	rc = grow(pool, bytes, &chunk, err);
	if (rc == 0 && !cut(chunk, bytes, piece)) /* a new one has room for that */
		rc = ddl__error_memory(err);
	return rc;
}

/* Whether another chunk than this one has no pieces. */
static bool has_spare(const struct ddl__verbs_pool *pool, const struct ddl__verbs_chunk *chunk)
{
	for (const struct ddl__verbs_chunk *c = pool->first; c; c = c->next)
		if (c != chunk && c->pieces == 0)
			return true;
	return false;
}

static void join(struct ddl__verbs_chunk *chunk, size_t at, size_t bytes)
{
	struct extent *e = chunk->free;
	size_t low = 0, high = chunk->n_free;
	while (low < high) { /* the first extent behind it */
		size_t middle = (low + high) / 2;
		if (e[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	bool before = low > 0 && e[low - 1].at + e[low - 1].bytes == at;
	bool after = low < chunk->n_free && at + bytes == e[low].at;
	if (before && after) {
		e[low - 1].bytes += bytes + e[low].bytes;
		drop_extent(chunk, low);
	} else if (before) {
		e[low - 1].bytes += bytes;
	} else if (after) {
		e[low].at = at;
		e[low].bytes += bytes;
	} else {
		memmove(&e[low + 1], &e[low], (chunk->n_free - low) * sizeof(e[0]));
		e[low] = (struct extent){ at, bytes };
		chunk->n_free++;
	}
}

void ddl__verbs_pool_put(struct ddl__verbs_pool *pool, struct ddl__verbs_piece *piece)
{
	struct ddl__verbs_chunk *chunk, **at = &pool->first;
	if (!piece->at)
		return;
	while (*at && &(*at)->entry.region != piece->region)
		at = &(*at)->next;
	chunk = *at;
	if (chunk) {
		join(chunk, (size_t)(piece->at - chunk->entry.region.at), piece->bytes);
		if (--chunk->pieces == 0 && (chunk->entry.region.bytes != CHUNK_BYTES || has_spare(pool, chunk))) {
			*at = chunk->next;
			chunk_destroy(pool, chunk);
		}
	}
	*piece = (struct ddl__verbs_piece){ .at = NULL };
}

void ddl__verbs_pool_fini(struct ddl__verbs_pool *pool)
{
	while (pool->first) {
		struct ddl__verbs_chunk *chunk = pool->first;
		pool->first = chunk->next;
		chunk_destroy(pool, chunk);
	}
}
