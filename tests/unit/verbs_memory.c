/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_memory.c - the pool hands out registered pieces that never overlap; memory of the program is registered as often as needed
 * and no longer than it is the program's; and when no more may be registered, the sentence says what to do.
 *
 * Behind the table of verbs is a stand-in that registers everything with a number that grows, up to a limit of bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_api.h"
#include "verbs_memory.h"
#include "watch_memory.h"

enum { PIECES = 500, ROUNDS = 10000, STEPS = 20000, SPOTS = 40 };

static size_t page;
static bool watch_is_on; /* by the test itself, beside the transports */

/* ---- devices ---- */

static struct {
	size_t bytes, mrs;  /* registered now */
	size_t limit;       /* of bytes */
	uint32_t made;      /* registrations ever: the last one's rkey */
	int error;          /* all fail with it; 0: none */
	struct ibv_pd *bad; /* with this device none can be made */
	size_t refused;     /* registrations that failed */
	enum ibv_fork_status fork;
} fake;

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (fake.error || pd == fake.bad || fake.bytes + bytes > fake.limit) {
		free(mr);
		fake.refused++;
		errno = fake.error ? fake.error : ENOMEM;
		return NULL;
	}
	*mr = (struct ibv_mr){ .pd = pd, .addr = at, .length = bytes, .lkey = 1000000 + ++fake.made, .rkey = fake.made };
	fake.bytes += bytes;
	fake.mrs++;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	fake.bytes -= mr->length;
	fake.mrs--;
	free(mr);
	return 0;
}

static enum ibv_fork_status fork_status(void)
{
	return fake.fork;
}

static const struct ddl__verbs_api api = { .reg_mr = reg_mr, .dereg_mr = dereg_mr, .is_fork_initialized = fork_status };

static struct ibv_pd pds[2];

static struct ddl__verbs_memory_config config_of(size_t devices)
{
	return (struct ddl__verbs_memory_config){ .api = &api,
						  .devices = { { &pds[0], "card_0" }, { &pds[1], "card_1" } },
						  .n_devices = devices,
						  .which = watch_is_on ? DDL__REGISTER_AUTO : DDL__REGISTER_ALL };
}

static struct ddl__verbs_memory *open_with(const struct ddl__verbs_memory_config *config)
{
	struct ddl__verbs_memory *memory;
	struct ddl_error err;

	assert_int_equal(ddl__verbs_memory_create(config, &memory, &err), 0);
	return memory;
}

static struct ddl__verbs_memory *open_one(void)
{
	struct ddl__verbs_memory_config config = config_of(1);

	return open_with(&config);
}

static int begin(void **state)
{
	char why[256];

	memset(&fake, 0, sizeof(fake));
	fake.limit = SIZE_MAX;
	fake.fork = IBV_FORK_UNNEEDED;
	page = (size_t)sysconf(_SC_PAGESIZE);
	watch_is_on = ddl__memory_watch_get(why, sizeof(why)) == 0;
	if (!watch_is_on)
		*state = "no watch";
	return 0;
}

static int end(void **state)
{
	if (watch_is_on)
		ddl__memory_watch_put();
	assert_int_equal(fake.mrs, 0);
	assert_int_equal(fake.bytes, 0);
	return 0;
}

#define WATCHED()                                                                                                                  \
	do {                                                                                                                       \
		if (*state)                                                                                                        \
			skip();                                                                                                    \
	} while (0)

static uint64_t next_random(uint64_t *seed)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static char *map(void *at, size_t pages, int flags)
{
	char *memory = mmap(at, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* What happened is known: on a busy machine that may take a while. */
static void settle(void)
{
	for (int i = 0; watch_is_on && !ddl__memory_watch_settle(); i++)
		assert_true(i < 10000);
}

/* hold() alone may say NULL, and tidy() do nothing, while what happened is not known yet. */
static const struct ddl__verbs_region *hold(struct ddl__verbs_memory *memory, const struct ddl__verbs_region *before,
					    const void *at, size_t bytes)
{
	settle();
	return ddl__verbs_memory_hold(memory, before, at, bytes, false);
}

/* What a hold of these bytes gives; it ends at once. */
static const struct ddl__verbs_region *again(struct ddl__verbs_memory *memory, const void *at, size_t bytes)
{
	const struct ddl__verbs_region *r = hold(memory, NULL, at, bytes);

	ddl__verbs_memory_drop(memory, r);
	return r;
}

static void tidy(struct ddl__verbs_memory *memory)
{
	settle();
	ddl__verbs_memory_tidy(memory);
}

static bool covers(const struct ddl__verbs_region *region, const void *at, size_t bytes)
{
	return region && (uintptr_t)region->at <= (uintptr_t)at && (uintptr_t)region->at + region->bytes >= (uintptr_t)at + bytes;
}

/* ---- the pool ---- */

static size_t some_bytes(uint64_t *seed)
{
	uint64_t x = next_random(seed);

	switch (x % 8) {
	case 0:
		return (x >> 8) % 64;
	case 1:
		return (size_t)1 << (x >> 8) % 22;
	case 2:
		return (x >> 8) % (x % 200 == 2 ? 9000000 : 1000000);
	default:
		return (x >> 8) % 20000;
	}
}

static void fill(const struct ddl__verbs_piece *piece, size_t i)
{
	memset(piece->at, (int)(i % 251), piece->bytes < 4096 ? piece->bytes : 4096);
	memset(piece->at + piece->bytes - 64, (int)(i % 251), 64);
}

static bool is_filled(const struct ddl__verbs_piece *piece, size_t i)
{
	size_t n = piece->bytes < 4096 ? piece->bytes : 4096;

	for (size_t k = 0; k < n; k++)
		if (piece->at[k] != i % 251)
			return false;
	for (size_t k = piece->bytes - 64; k < piece->bytes; k++)
		if (piece->at[k] != i % 251)
			return false;
	return true;
}

static void pieces_come_and_go_and_never_overlap(void **state)
{
	struct ddl__verbs_memory_config config = config_of(2);
	struct ddl__verbs_memory *memory = open_with(&config);
	struct ddl__verbs_piece pieces[PIECES] = { 0 };
	struct ddl_error err;
	uint64_t seed = 1;
	size_t out = 0, most = 0;

	for (int step = 0; step < STEPS; step++) {
		size_t i = next_random(&seed) % PIECES, bytes = some_bytes(&seed);

		if (pieces[i].at) {
			assert_true(is_filled(&pieces[i], i));
			out -= pieces[i].bytes;
			ddl__verbs_memory_put(memory, &pieces[i]);
			assert_null(pieces[i].at);
			continue;
		}
		assert_int_equal(ddl__verbs_memory_get(memory, bytes, &pieces[i], &err), 0);
		assert_true(pieces[i].bytes >= bytes && pieces[i].bytes >= 64);
		assert_int_equal((uintptr_t)pieces[i].at % 64, 0);
		assert_true(covers(pieces[i].region, pieces[i].at, pieces[i].bytes));
		assert_int_not_equal(pieces[i].region->rkey[0], pieces[i].region->rkey[1]);
		assert_int_equal(pieces[i].region->lkey[1], 1000000 + pieces[i].region->rkey[1]);
		fill(&pieces[i], i);
		out += pieces[i].bytes;
		most = out > most ? out : most;
		assert_true(fake.bytes / 2 < 2 * most + ((size_t)16 << 20)); /* holes are used again */
	}
	for (size_t i = 0; i < PIECES; i++)
		ddl__verbs_memory_put(memory, &pieces[i]);
	assert_int_equal(fake.mrs, 2); /* one chunk stays, */
	assert_int_equal(ddl__verbs_memory_get(memory, fake.bytes / 2, &pieces[0], &err), 0);
	assert_int_equal(fake.mrs, 2); /* whole again */
	ddl__verbs_memory_put(memory, &pieces[0]);
	assert_int_equal(ddl__verbs_memory_get(memory, 64, &pieces[0], &err), 0);
	ddl__verbs_memory_destroy(memory); /* with a piece */
}

static void large_pieces_have_memory_of_their_own(void **state)
{
	struct ddl__verbs_memory *memory = open_one();
	struct ddl__verbs_piece small, large;
	struct ddl_error err;

	assert_int_equal(ddl__verbs_memory_get(memory, 1, &small, &err), 0);
	size_t before = fake.bytes;
	assert_int_equal(ddl__verbs_memory_get(memory, 50000000, &large, &err), 0);
	assert_int_equal(fake.mrs, 2);
	assert_int_equal((uintptr_t)large.at % (2 << 20), 0);
	memset(large.at, 1, large.bytes);
	ddl__verbs_memory_put(memory, &large);
	assert_int_equal(fake.bytes, before);
	assert_int_equal(ddl__verbs_memory_get(memory, SIZE_MAX - 10, &large, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "larger than memory"));
	assert_int_equal(ddl__verbs_memory_get(memory, SIZE_MAX / 4, &large, &err), -ENOMEM);
	assert_non_null(strstr(err.text, "there is no memory for"));
	ddl__verbs_memory_put(memory, &small);
	ddl__verbs_memory_destroy(memory);
}

static void too_small_a_limit_is_told_with_its_remedy(void **state)
{
	struct ddl__verbs_memory_config config = config_of(2);
	struct ddl__verbs_memory *memory = open_with(&config);
	struct ddl__verbs_piece pieces[3];
	struct rlimit before, now;
	struct ddl_error err;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	now = before;
	now.rlim_cur = 65536;
	if (before.rlim_max < now.rlim_cur)
		skip();
	setrlimit(RLIMIT_MEMLOCK, &now);
	fake.limit = (size_t)3 << 20; /* less than a chunk */
	assert_int_equal(ddl__verbs_memory_get(memory, 500000, &pieces[0], &err), 0);
	assert_int_equal(ddl__verbs_memory_get(memory, 700000, &pieces[1], &err), 0);
	size_t bytes = fake.bytes;
	assert_int_equal(ddl__verbs_memory_get(memory, 700000, &pieces[2], &err), -ENOMEM);
	assert_int_equal(fake.bytes, bytes); /* with all devices or with none */
	assert_non_null(strstr(err.text, "720896 bytes could not be registered with the RDMA device card_"));
	assert_non_null(strstr(err.text, "64 KiB may be locked here"));
	assert_non_null(strstr(err.text, "LimitMEMLOCK=infinity"));
	assert_non_null(strstr(err.text, "PropagateResourceLimitsExcept=MEMLOCK"));
	assert_null(strstr(err.text, "..."));
	fake.limit = SIZE_MAX;
	fake.bad = &pds[1];
	assert_int_equal(ddl__verbs_memory_get(memory, 700000, &pieces[2], &err), -ENOMEM);
	assert_non_null(strstr(err.text, "card_1"));
	assert_int_equal(fake.bytes, bytes);
	fake.bad = NULL;
	fake.error = EIO;
	assert_int_equal(ddl__verbs_memory_get(memory, 700000, &pieces[2], &err), -EIO);
	assert_non_null(strstr(err.text, "card_0"));
	assert_null(strstr(err.text, "MEMLOCK"));
	fake.error = 0;
	ddl__verbs_memory_put(memory, &pieces[0]);
	ddl__verbs_memory_put(memory, &pieces[1]);
	assert_int_equal(fake.mrs, 0);
	ddl__verbs_memory_destroy(memory);
	setrlimit(RLIMIT_MEMLOCK, &before);
}

/* ---- memory of the program ---- */

static void a_buffer_is_registered_once(void **state)
{
	struct ddl__verbs_memory_config config = config_of(2);
	struct ddl__verbs_memory *memory = open_with(&config);
	const struct ddl__verbs_region *a, *b, *c;
	char *at;

	at = map(NULL, 16, 0);
	a = hold(memory, NULL, at + 3, 5 * page);
	assert_true(covers(a, at, 6 * page));
	assert_int_equal(fake.mrs, 2);
	assert_ptr_equal(hold(memory, a, at + 3, 5 * page), a);
	b = hold(memory, NULL, at + page, page);
	assert_ptr_equal(b, a);
	assert_ptr_equal(again(memory, at + 4 * page, 2 * page), a);
	assert_int_equal(fake.mrs, 2);
	assert_ptr_not_equal(again(memory, at + 4 * page, 2 * page + 1), a);
	assert_int_equal(fake.mrs, 4);
	ddl__verbs_memory_drop(memory, b);
	assert_ptr_equal(again(memory, at, page), a);
	ddl__verbs_memory_drop(memory, a);
	assert_ptr_equal(hold(memory, NULL, at, page), a); /* held by nobody, but still there */
	c = hold(memory, a, at + 8 * page, page);
	assert_ptr_not_equal(c, a);
	assert_int_equal(fake.mrs, 6);
	assert_null(hold(memory, c, at, 0));
	ddl__verbs_memory_drop(memory, NULL);
	ddl__verbs_memory_destroy(memory);
	munmap(at, 16 * page);
}

static void what_is_not_held_gives_way(void **state)
{
	struct ddl__verbs_memory_config config = config_of(1);
	struct ddl__verbs_memory *memory;
	const struct ddl__verbs_region *first, *r;
	struct ddl__verbs_piece piece;
	struct ddl_error err;
	char *at;

	config.cached_max = 4;
	config.cached_bytes = 20 * page;
	memory = open_with(&config);
	at = map(NULL, 100, 0);
	first = hold(memory, NULL, at, page);
	for (size_t i = 1; i < 20; i++)
		ddl__verbs_memory_drop(memory, hold(memory, NULL, at + i * page, page));
	assert_int_equal(fake.mrs, 1 + 4);
	uint32_t made = fake.made;
	for (size_t i = 16; i < 20; i++) /* those used last */
		ddl__verbs_memory_drop(memory, hold(memory, NULL, at + i * page, page));
	assert_int_equal(fake.made, made);
	ddl__verbs_memory_drop(memory, hold(memory, NULL, at + 30 * page, 18 * page));
	assert_int_equal(fake.bytes, (1 + 2 + 18) * page);
	ddl__verbs_memory_drop(memory, hold(memory, NULL, at + 50 * page, 21 * page));
	assert_int_equal(fake.bytes, page); /* more than may stay at all */
	r = hold(memory, NULL, at + 80 * page, 2 * page);
	ddl__verbs_memory_drop(memory, r);
	fake.limit = 5 * page; /* who needs it gets what nobody holds */
	r = hold(memory, NULL, at + 90 * page, 4 * page);
	assert_true(covers(r, at + 90 * page, 4 * page));
	assert_int_equal(fake.bytes, 5 * page);
	ddl__verbs_memory_drop(memory, r);
	fake.limit = page + (64 << 10);
	assert_int_equal(ddl__verbs_memory_get(memory, 10000, &piece, &err), 0);
	assert_true(covers(first, at, page));
	assert_ptr_equal(again(memory, at, page), first);
	ddl__verbs_memory_put(memory, &piece);
	ddl__verbs_memory_destroy(memory);
	munmap(at, 100 * page);
}

static const char *const ways[] = { "munmap", "mmap", "dontneed", "free", "mremap", "a part" };

static void end_memory(const char *way, char *at, char *spare)
{
	if (!strcmp(way, "munmap"))
		munmap(at, 4 * page);
	else if (!strcmp(way, "mmap"))
		map(at + 3 * page, 2, MAP_FIXED);
	else if (!strcmp(way, "dontneed"))
		madvise(at + page, page, MADV_DONTNEED);
	else if (!strcmp(way, "free"))
		madvise(at, page, MADV_FREE);
	else if (!strcmp(way, "mremap"))
		assert_ptr_equal(mremap(at, 4 * page, 4 * page, MREMAP_MAYMOVE | MREMAP_FIXED, spare), spare);
	else
		munmap(at + 2 * page, page);
	if (strcmp(way, "dontneed") != 0 && strcmp(way, "free") != 0)
		map(at, 4, MAP_FIXED);
}

/* Two transports with the same buffers, one of which holds it on. */
static void what_was_unmapped_is_not_found(void **state)
{
	struct ddl__verbs_memory *one, *two;

	WATCHED();
	one = open_one();
	two = open_one();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char *spare = map(NULL, 4, 0), *at = map(NULL, 5, 0);
		memset(at, 1, 5 * page);
		const struct ddl__verbs_region *a = hold(one, NULL, at, 4 * page), *b = hold(two, NULL, at, 4 * page), *c;

		assert_non_null(a);
		assert_non_null(b);
		uint32_t old = b->rkey[0];
		ddl__verbs_memory_drop(two, b);
		end_memory(ways[i], at, spare);
		c = hold(one, NULL, at, 4 * page);
		assert_ptr_not_equal(c, a);
		assert_true(c && c->rkey[0] > old);
		assert_ptr_equal(again(one, at, 4 * page), c);
		assert_int_equal(fake.mrs, 3);
		tidy(two); /* held by nobody */
		assert_int_equal(fake.mrs, 2);
		assert_int_equal(a->rkey[0], old - 1); /* held: it is still a's */
		assert_ptr_equal(hold(one, a, at, page), c);
		assert_int_equal(fake.mrs, 1);
		ddl__verbs_memory_drop(one, c);
		ddl__verbs_memory_drop(one, c);
		b = hold(two, NULL, at, 4 * page);
		assert_true(b && b->rkey[0] > old);
		ddl__verbs_memory_drop(two, b);
		munmap(at, 5 * page);
		munmap(spare, 4 * page);
		tidy(one);
		tidy(two);
		assert_int_equal(fake.mrs, 0);
	}
	ddl__verbs_memory_destroy(one);
	ddl__verbs_memory_destroy(two);
}

static void programs_that_unmap_a_lot_are_followed(void **state)
{
	struct ddl__verbs_memory *memory;
	const struct ddl__verbs_region *r;
	char *at, *other;

	WATCHED();
	memory = open_one();
	at = map(NULL, 1, 0);
	other = map(NULL, 2, 0);
	ddl__verbs_memory_drop(memory, hold(memory, NULL, at, page));
	r = hold(memory, NULL, other, 2 * page);
	for (int i = 0; i < 5000; i++) /* more than is noted */
		madvise(other + page, page, MADV_DONTNEED);
	ddl__verbs_memory_drop(memory, r);
	assert_int_equal(fake.mrs, 2);
	uint32_t made = fake.made;
	tidy(memory);
	assert_int_equal(fake.mrs, 0); /* what is not known is taken for unmapped */
	r = hold(memory, NULL, at, page);
	assert_true(r && r->rkey[0] > made);
	ddl__verbs_memory_destroy(memory);
	munmap(at, page);
	munmap(other, 2 * page);
}

/* ---- threads ---- */

struct turn {
	void *_Atomic at; /* to be unmapped; NULL: not yet */
	atomic_bool stop;
};

static void *unmaps(void *context)
{
	struct turn *turn = context;

	while (!atomic_load(&turn->stop)) {
		void *at = atomic_exchange(&turn->at, NULL);

		if (at)
			munmap(at, 2 * page);
		else
			sched_yield();
	}
	return NULL;
}

/* The registration found is one of the memory that is there now, though the thread that unmapped the old may not know yet. */
static void another_thread_unmaps(void **state)
{
	struct ddl__verbs_memory *memory;
	const struct ddl__verbs_region *r = NULL;
	struct turn turn = { .at = NULL };
	pthread_t thread;
	size_t found = 0;
	char *at;

	WATCHED();
	memory = open_one();
	at = map(NULL, 2, 0);
	assert_int_equal(pthread_create(&thread, NULL, unmaps, &turn), 0);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t made = fake.made;

		atomic_store(&turn.at, at);
		while (mmap(at, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
		       MAP_FAILED)
			sched_yield();
		if (i % 2)
			ddl__verbs_memory_drop(memory, r);
		r = ddl__verbs_memory_hold(memory, i % 2 ? NULL : r, at + i % 3, page, false);
		assert_true(!r || r->rkey[0] > made);
		found += r != NULL;
	}
	atomic_store(&turn.stop, true);
	pthread_join(thread, NULL);
	assert_true(found > 0);
	ddl__verbs_memory_destroy(memory);
	munmap(at, 2 * page);
}

/* ---- at random, against a list ---- */

struct held {
	const struct ddl__verbs_region *region;
	size_t from, pages; /* in the arena */
	bool stale;
};

/* Whether what is held for these pages is right: registered since they were mapped, and no new one where somebody holds such. */
static void check_hold(struct ddl__verbs_memory *memory, const struct held *held, char *arena, size_t from, size_t pages)
{
	const uint32_t made = fake.made;
	const struct ddl__verbs_region *r = again(memory, arena + from * page, pages * page);
	bool any = false;

	for (size_t i = 0; i < SPOTS; i++) {
		const struct held *h = &held[i];

		assert_false(h->region && h->stale && h->region == r);
		any |= h->region && !h->stale && covers(h->region, arena + from * page, pages * page);
	}
	assert_true(covers(r, arena + from * page, pages * page));
	assert_true(!any || fake.made == made);
}

static void holds_and_ends_at_random(void **state)
{
	struct ddl__verbs_memory_config config = config_of(1);
	struct ddl__verbs_memory *memory;
	struct held held[SPOTS] = { 0 };
	const size_t pages = 64;
	uint64_t seed = 7;
	char *arena;

	config.cached_max = 10;
	memory = open_with(&config);
	arena = map(NULL, pages, 0);
	for (int step = 0; step < STEPS; step++) {
		size_t from = next_random(&seed) % pages, n = 1 + next_random(&seed) % (pages - from);
		struct held *h = &held[next_random(&seed) % SPOTS];

		if (n > 20 && step % 7)
			n = 1 + n % 4;
		if (step % 9 == 0 && watch_is_on) {
			if (step % 2)
				map(arena + from * page, n, MAP_FIXED);
			else
				madvise(arena + from * page, n * page, MADV_DONTNEED);
			for (size_t i = 0; i < SPOTS; i++)
				if (held[i].region && (uintptr_t)held[i].region->at < (uintptr_t)arena + (from + n) * page &&
				    (uintptr_t)held[i].region->at + held[i].region->bytes > (uintptr_t)arena + from * page)
					held[i].stale = true;
		} else if (step % 3 == 0) {
			ddl__verbs_memory_drop(memory, h->region);
			h->region = NULL;
		} else {
			h->region = hold(memory, h->region, arena + from * page + 1, n * page - 2);
			assert_true(covers(h->region, arena + from * page, n * page));
			h->stale = false;
			check_hold(memory, held, arena, from, n);
			check_hold(memory, held, arena, step % (int)pages, 1);
		}
	}
	assert_true(fake.mrs <= SPOTS + 10);
	ddl__verbs_memory_destroy(memory);
	munmap(arena, pages * page);
}

/* ---- what is not registered ---- */

static void what_cannot_be_registered_is_tried_seldom(void **state)
{
	struct ddl__verbs_memory *memory;
	const struct ddl__verbs_region *r;
	char *at;

	WATCHED();
	memory = open_one();
	at = map(NULL, 20, 0);
	r = hold(memory, NULL, at, page);
	fake.limit = 3 * page;
	for (int i = 0; i < 10; i++)
		assert_null(hold(memory, NULL, at + page, 8 * page));
	assert_int_equal(fake.refused, 1);
	ddl__verbs_memory_drop(memory, hold(memory, NULL, at + page, 2 * page)); /* less may be had */
	assert_int_equal(fake.refused, 1);
	fake.limit = SIZE_MAX;
	ddl__verbs_memory_drop(memory, r);
	munmap(at, page);
	tidy(memory); /* something was given back: it is tried again */
	r = hold(memory, NULL, at + page, 8 * page);
	assert_non_null(r);
	fake.error = EFAULT;
	for (int i = 0; i < 10; i++)
		assert_null(hold(memory, NULL, at + 10 * page, 8 * page));
	assert_int_equal(fake.refused, 2);
	fake.error = 0;
	r = NULL;
	for (int i = 0; i < 2000 && !r; i++)
		r = hold(memory, NULL, at + 10 * page, 8 * page);
	assert_non_null(r); /* not for ever */
	ddl__verbs_memory_destroy(memory);
	munmap(at + page, 19 * page);
}

static void the_setting_says_which_memory_is_registered(void **state)
{
	struct ddl__verbs_memory_config config = config_of(1);
	struct ddl__verbs_memory *memory;
	const struct ddl__verbs_region *r;
	int fd = memfd_create("memory", MFD_CLOEXEC);
	char *at = map(NULL, 2, 0), *of_file;

	assert_int_equal(ftruncate(fd, (off_t)(2 * page)), 0);
	of_file = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (enum ddl__register which = DDL__REGISTER_AUTO; which <= DDL__REGISTER_ALL; which++) {
		for (int fork_safe = 0; fork_safe < 2; fork_safe++) {
			bool all = which == DDL__REGISTER_ALL;

			config.which = which;
			fake.fork = fork_safe ? IBV_FORK_UNNEEDED : IBV_FORK_DISABLED;
			memory = open_with(&config);
			r = hold(memory, NULL, at, page);
			assert_true(!!r == (all || (fork_safe && which == DDL__REGISTER_AUTO && !*state)));
			r = hold(memory, NULL, of_file, page);
			assert_true(!!r == all);
			r = ddl__verbs_memory_hold(memory, NULL, of_file, 2 * page, true);
			assert_true(!!r == (all || fork_safe));
			ddl__verbs_memory_destroy(memory);
			assert_int_equal(fake.mrs, 0);
		}
	}
	munmap(at, 2 * page);
	munmap(of_file, 2 * page);
	close(fd);
}

static void memory_of_ours_is_there_until_it_is_forgotten(void **state)
{
	struct ddl__verbs_memory *memory = open_one();
	char *at = map(NULL, 10, 0);
	const struct ddl__verbs_region *all = ddl__verbs_memory_hold(memory, NULL, at, 10 * page, true), *part;

	part = ddl__verbs_memory_hold(memory, NULL, at + 100, page, true);
	assert_ptr_equal(part, all);
	assert_int_equal(fake.mrs, 1);
	ddl__verbs_memory_drop(memory, part);
	ddl__verbs_memory_drop(memory, all);
	part = ddl__verbs_memory_hold(memory, NULL, at + 2 * page, page, true);
	assert_ptr_equal(part, all);
	ddl__verbs_memory_forget(memory, at + 9 * page, page);
	all = ddl__verbs_memory_hold(memory, NULL, at + 2 * page, page, true);
	assert_ptr_not_equal(all, part);
	ddl__verbs_memory_drop(memory, all);
	ddl__verbs_memory_forget(memory, at + 2 * page, page);
	assert_int_equal(fake.mrs, 1); /* held */
	ddl__verbs_memory_drop(memory, part);
	assert_int_equal(fake.mrs, 0);
	ddl__verbs_memory_drop(memory, ddl__verbs_memory_hold(memory, NULL, at, page, true));
	assert_int_equal(fake.mrs, 1);
	ddl__verbs_memory_forget(memory, at, 10 * page);
	assert_int_equal(fake.mrs, 0);
	munmap(at, 10 * page);
	ddl__verbs_memory_destroy(memory);
}

/* ---- fork ---- */

static void a_child_disturbs_nobody(void **state)
{
	static struct ddl__verbs_memory *memory; /* reachable in the child, for those who look for leaks there */
	const struct ddl__verbs_region *r;
	int status;
	pid_t child;
	char *at;

	memory = open_one();
	at = map(NULL, 4, 0);
	at[0] = 1;
	r = hold(memory, NULL, at, 4 * page);
	assert_non_null(r);
	child = fork();
	if (child == 0) {
		int read = at[0];

		munmap(at, 4 * page);
		_exit(read == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ptr_equal(hold(memory, r, at, 4 * page), r);
	ddl__verbs_memory_destroy(memory);
	munmap(at, 4 * page);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(pieces_come_and_go_and_never_overlap),
		CASE(large_pieces_have_memory_of_their_own),
		CASE(too_small_a_limit_is_told_with_its_remedy),
		CASE(a_buffer_is_registered_once),
		CASE(what_is_not_held_gives_way),
		CASE(what_was_unmapped_is_not_found),
		CASE(programs_that_unmap_a_lot_are_followed),
		CASE(another_thread_unmaps),
		CASE(holds_and_ends_at_random),
		CASE(what_cannot_be_registered_is_tried_seldom),
		CASE(the_setting_says_which_memory_is_registered),
		CASE(memory_of_ours_is_there_until_it_is_forgotten),
		CASE(a_child_disturbs_nobody),
	};

	return cmocka_run_group_tests_name("verbs_memory", tests, NULL, NULL);
}
