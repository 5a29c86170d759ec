/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_memory.c - whoever unmaps, empties or moves memory that is watched is told of, before anybody can take other memory at
 * that address for it; and programs go on as if nobody watched. Where the kernel permits no watch there is nothing to test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch_memory.h"

enum { ROUNDS = 10000, MANY = 3000, TRIES = 10000 };

#ifdef __SANITIZE_ADDRESS__
enum { FREE_KEEPS = 1 }; /* free() unmaps nothing soon */
#else
enum { FREE_KEEPS = 0 };
#endif
#ifdef __SANITIZE_THREAD__
enum { CHILD_HAS_THREADS = 0 }; /* the sanitizer permits no thread in a child of a process with threads */
#else
enum { CHILD_HAS_THREADS = 1 };
#endif

static size_t page;

static void *map(void *at, size_t pages, int flags)
{
	void *memory = mmap(at, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	memset(memory, 1, pages * page);
	return memory;
}

static struct ddl__memory_range range_of(const void *at, size_t pages)
{
	return (struct ddl__memory_range){ .begin = (uintptr_t)at, .end = (uintptr_t)at + pages * page };
}

static void settle(void)
{
	for (int i = 0; i < TRIES; i++)
		if (ddl__memory_watch_settle())
			return;
	fail_msg("what happened is not known after %d tries", TRIES);
}

/* What is noted of the pages from `at` on: 'g'one, 'e'mptied, '-' nothing; all notes are taken. */
static const char *noted(struct ddl__memory_reader *reader, const void *at, size_t pages)
{
	static char text[64];
	struct ddl__memory_note note;
	int rc;

	assert_true(pages < sizeof(text));
	settle();
	memset(text, '-', pages);
	text[pages] = '\0';
	while ((rc = ddl__memory_reader_next(reader, &note)) > 0)
		for (size_t i = 0; i < pages; i++)
			if (note.begin < (uintptr_t)at + (i + 1) * page && note.end > (uintptr_t)at + i * page)
				text[i] = text[i] == 'g' || note.gone ? 'g' : 'e';
	assert_int_equal(rc, 0);
	assert_false(ddl__memory_reader_behind(reader));
	return text;
}

static int watch_begin(void **state)
{
	char why[256] = "";

	page = (size_t)sysconf(_SC_PAGESIZE);
	if (ddl__memory_watch_get(why, sizeof(why)) == 0)
		return 0;
	print_message("no watch: %s\n", why);
	assert_true(strlen(why) > 20);
	*state = "skip";
	return 0;
}

static int watch_end(void **state)
{
	if (!*state)
		ddl__memory_watch_put();
	return 0;
}

#define WATCHED()                                                                                                                  \
	do {                                                                                                                       \
		if (*state)                                                                                                        \
			skip();                                                                                                    \
	} while (0)

static void what_becomes_of_pages_is_noted(void **state)
{
	struct ddl__memory_reader reader;
	char *at, *to, *moved;

	WATCHED();
	at = map(NULL, 8, 0);
	to = mmap(NULL, 16 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ddl__memory_range range = range_of(at, 8);
	ddl__memory_reader_init(&reader);
	assert_int_equal(ddl__memory_watch_add(&range), 0);
	at[3 * page] = 2;
	assert_string_equal(noted(&reader, at, 8), "--------");
	madvise(at + page, page, MADV_DONTNEED);
	assert_string_equal(noted(&reader, at, 8), "-e------");
	assert_int_equal(at[page], 0);
	madvise(at + 2 * page, 2 * page, MADV_FREE);
	assert_string_equal(noted(&reader, at, 8), "--ee----");
	munmap(at + 7 * page, page);
	assert_string_equal(noted(&reader, at, 8), "-------g");
	map(at + 6 * page, 1, MAP_FIXED);
	assert_string_equal(noted(&reader, at, 8), "------g-");
	assert_ptr_equal(mremap(at + 4 * page, 2 * page, page, 0), at + 4 * page);
	assert_string_equal(noted(&reader, at, 8), "-----g--");
	moved = mremap(at + 3 * page, page, 9 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	assert_ptr_equal(moved, to);
	assert_string_equal(noted(&reader, at, 8), "---g----");
	atomic_store(&range.gone, true);
	ddl__memory_watch_remove(&range);
	munmap(at, 8 * page);
	munmap(to, 16 * page);
}

static void the_heap_is_noted_when_it_shrinks(void **state)
{
	struct ddl__memory_reader reader;
	char *top, *begin;

	WATCHED();
	top = sbrk((intptr_t)(5 * page));
	if (top == (void *)-1)
		skip();
	begin = (char *)(((uintptr_t)top + page - 1) / page * page);
	memset(begin, 1, 4 * page);
	struct ddl__memory_range range = range_of(begin, 4);
	ddl__memory_reader_init(&reader);
	assert_int_equal(ddl__memory_watch_add(&range), 0);
	assert_string_equal(noted(&reader, begin, 4), "----");
	assert_ptr_not_equal(sbrk(-(intptr_t)(3 * page)), (void *)-1);
	assert_string_equal(noted(&reader, begin + 2 * page, 2), "gg");
	atomic_store(&range.gone, true);
	ddl__memory_watch_remove(&range);
}

static void blocks_of_malloc_are_noted_when_they_end_or_move(void **state)
{
	const size_t bytes = (size_t)48 << 20; /* above what malloc() keeps for itself */
	struct ddl__memory_reader reader;
	struct ddl__memory_range range;
	char *block, *other;

	WATCHED();
	for (int way = FREE_KEEPS ? 2 : 0; way < 2; way++) {
		block = malloc(bytes);
		assert_non_null(block);
		range = range_of((void *)((uintptr_t)block / page * page), 4);
		ddl__memory_reader_init(&reader);
		assert_int_equal(ddl__memory_watch_add(&range), 0);
		memset(block, 7, bytes);
		if (way == 0) {
			free(block);
		} else {
			other = realloc(block, 3 * bytes); /* pieces of it are watched: moved or copied, it is right */
			assert_non_null(other);
			for (size_t i = 0; i < bytes; i += 997)
				assert_int_equal(other[i], 7);
			free(other);
		}
		assert_string_equal(noted(&reader, (void *)range.begin, 4), "gggg");
		atomic_store(&range.gone, true);
		ddl__memory_watch_remove(&range);
	}
}

static void memory_that_can_go_unnoticed_is_refused(void **state)
{
	struct ddl__memory_range range;
	int fd, id;
	char *at;

	WATCHED();
	fd = memfd_create("watched", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(4 * page)), 0);
	for (int flags = MAP_SHARED; flags; flags = flags == MAP_SHARED ? MAP_PRIVATE : 0) {
		at = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, flags, fd, 0);
		memset(at, 1, 4 * page);
		range = range_of(at, 4);
		assert_int_equal(ddl__memory_watch_add(&range), -EOPNOTSUPP);
		ddl__memory_watch_remove(&range); /* does nothing */
		munmap(at, 4 * page);
	}
	close(fd);
	at = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	range = range_of(at, 4);
	assert_int_equal(ddl__memory_watch_add(&range), -EOPNOTSUPP);
	munmap(at, 4 * page);
	id = shmget(IPC_PRIVATE, 4 * page, 0600 | IPC_CREAT);
	if (id >= 0) {
		at = shmat(id, NULL, 0);
		shmctl(id, IPC_RMID, NULL);
		range = range_of(at, 4);
		assert_int_equal(ddl__memory_watch_add(&range), -EOPNOTSUPP);
		shmdt(at);
	}
	at = map(NULL, 4, 0);
	munmap(at + 2 * page, page); /* a hole */
	range = range_of(at, 4);
	assert_int_equal(ddl__memory_watch_add(&range), -EOPNOTSUPP);
	munmap(at, 4 * page);
	assert_int_equal(ddl__memory_watch_add(&range), -EOPNOTSUPP); /* nothing */
}

static void ranges_may_overlap(void **state)
{
	struct ddl__memory_reader one, two;
	char *at;

	WATCHED();
	at = map(NULL, 8, 0);
	struct ddl__memory_range a = range_of(at, 5), b = range_of(at + 3 * page, 4), c = range_of(at + 4 * page, 1);
	ddl__memory_reader_init(&one);
	ddl__memory_reader_init(&two);
	assert_int_equal(ddl__memory_watch_add(&a), 0);
	assert_int_equal(ddl__memory_watch_add(&b), 0);
	assert_int_equal(ddl__memory_watch_add(&c), 0);
	madvise(at, 8 * page, MADV_DONTNEED);
	assert_string_equal(noted(&one, at, 8), "eeeeeee-");
	ddl__memory_watch_remove(&a);
	madvise(at, 8 * page, MADV_DONTNEED);
	assert_string_equal(noted(&one, at, 8), "---eeee-");
	assert_string_equal(noted(&two, at, 8), "eeeeeee-"); /* every reader at its own pace */
	ddl__memory_watch_remove(&b);
	madvise(at, 8 * page, MADV_DONTNEED);
	assert_string_equal(noted(&one, at, 8), "----e---");
	ddl__memory_watch_remove(&c);
	madvise(at, 8 * page, MADV_DONTNEED);
	assert_string_equal(noted(&one, at, 8), "--------");
	munmap(at, 8 * page);
	assert_string_equal(noted(&one, at, 8), "--------");
}

static void who_is_far_behind_is_told_so(void **state)
{
	struct ddl__memory_reader slow;
	struct ddl__memory_note note;
	char *at;

	WATCHED();
	at = map(NULL, 1, 0);
	struct ddl__memory_range range = range_of(at, 1);
	ddl__memory_reader_init(&slow);
	assert_int_equal(ddl__memory_watch_add(&range), 0);
	for (int i = 0; i < MANY; i++)
		madvise(at, page, MADV_DONTNEED);
	settle();
	assert_int_equal(ddl__memory_reader_next(&slow, &note), -EOVERFLOW);
	assert_int_equal(ddl__memory_reader_next(&slow, &note), 0);
	madvise(at, page, MADV_DONTNEED);
	assert_string_equal(noted(&slow, at, 1), "e");
	ddl__memory_watch_remove(&range);
	munmap(at, page);
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
			munmap(at, page);
		else
			sched_yield();
	}
	return NULL;
}

/* One thread unmaps, another one gets the same address again before the first knows that it is done. */
static void an_address_is_not_used_again_unnoticed(void **state)
{
	struct turn turn = { .at = NULL };
	struct ddl__memory_reader reader;
	pthread_t thread;
	char *at;

	WATCHED();
	at = map(NULL, 1, 0);
	assert_int_equal(pthread_create(&thread, NULL, unmaps, &turn), 0);
	ddl__memory_reader_init(&reader);
	for (int i = 0; i < ROUNDS; i++) {
		struct ddl__memory_range range = range_of(at, 1);
		assert_int_equal(ddl__memory_watch_add(&range), 0);
		atomic_store(&turn.at, at);
		while (mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
		       MAP_FAILED)
			sched_yield();
		assert_string_equal(noted(&reader, at, 1), "g");
		atomic_store(&range.gone, true);
		ddl__memory_watch_remove(&range);
	}
	atomic_store(&turn.stop, true);
	pthread_join(thread, NULL);
	munmap(at, page);
}

static void *maps_and_unmaps(void *context)
{
	struct turn *turn = context;

	while (!atomic_load(&turn->stop)) {
		char *at = map(NULL, 4, 0);
		struct ddl__memory_range range = range_of(at, 2);

		ddl__memory_watch_get((char[256]){ 0 }, 256);
		ddl__memory_watch_add(&range);
		madvise(at, 4 * page, MADV_DONTNEED);
		munmap(at + page, 3 * page);
		atomic_store(&range.gone, true);
		ddl__memory_watch_remove(&range);
		ddl__memory_watch_put(); /* with a page still watched */
		munmap(at, page);
	}
	return NULL;
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	while (folder && readdir(folder))
		n++;
	closedir(folder);
	return n;
}

static void it_ends_while_programs_unmap(void **state)
{
	struct turn turn = { .at = NULL };
	pthread_t threads[3];
	int before;

	WATCHED();
	ddl__memory_watch_put();
	before = descriptors();
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, maps_and_unmaps, &turn), 0);
	for (int i = 0; i < 300; i++) {
		char why[256];

		assert_int_equal(ddl__memory_watch_get(why, sizeof(why)), 0);
		sched_yield();
		ddl__memory_watch_put();
	}
	atomic_store(&turn.stop, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(descriptors(), before);
	assert_false(ddl__memory_watch_settle()); /* without a watch nothing is known */
	assert_int_equal(ddl__memory_watch_get((char[256]){ 0 }, 256), 0);
}

/* ---- fork ---- */

static int in_child(char *at, int before)
{
	struct ddl__memory_reader reader;
	struct ddl__memory_range range = range_of(at, 2);
	char why[256];

	if (at[0] != 1 || descriptors() != before - 2)
		return 1;
	at[0] = 2;
	munmap(at + page, page);
	if (ddl__memory_watch_settle())
		return 2;
	if (!CHILD_HAS_THREADS)
		return 0;
	if (ddl__memory_watch_get(why, sizeof(why)))
		return 5;
	ddl__memory_reader_init(&reader);
	map(at + page, 1, MAP_FIXED);
	if (ddl__memory_watch_add(&range) || strcmp(noted(&reader, at, 2), "--") != 0)
		return 3;
	munmap(at, page);
	if (strcmp(noted(&reader, at, 2), "g-") != 0)
		return 4;
	ddl__memory_watch_put();
	munmap(at, 2 * page);
	return 0;
}

static void a_child_watches_for_itself(void **state)
{
	struct ddl__memory_reader reader;
	int status, before;
	pid_t child;
	char *at;

	WATCHED();
	at = map(NULL, 2, 0);
	struct ddl__memory_range range = range_of(at, 2);
	ddl__memory_reader_init(&reader);
	assert_int_equal(ddl__memory_watch_add(&range), 0);
	before = descriptors();
	child = fork();
	if (child == 0)
		_exit(in_child(at, before));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_string_equal(noted(&reader, at, 2), "--");
	assert_int_equal(at[0], 1);
	munmap(at, page);
	assert_string_equal(noted(&reader, at, 2), "g-");
	atomic_store(&range.gone, true);
	ddl__memory_watch_remove(&range);
	munmap(at, 2 * page);
}

/* A child that lives on must not keep memory watched that nobody reads of. */
static void a_child_that_stays_holds_up_nobody(void **state)
{
	int down[2], status;
	pid_t child;
	char *at;

	WATCHED();
	assert_int_equal(pipe(down), 0);
	at = map(NULL, 2, 0);
	struct ddl__memory_range range = range_of(at, 2);
	assert_int_equal(ddl__memory_watch_add(&range), 0);
	child = fork();
	if (child == 0) {
		close(down[1]);
		_exit(read(down[0], &status, 1) == 0 ? 0 : 1);
	}
	ddl__memory_watch_put(); /* with the range */
	munmap(at, 2 * page);
	close(down[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(down[0]);
	assert_int_equal(ddl__memory_watch_get((char[256]){ 0 }, 256), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, watch_begin, watch_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_becomes_of_pages_is_noted),
		CASE(the_heap_is_noted_when_it_shrinks),
		CASE(blocks_of_malloc_are_noted_when_they_end_or_move),
		CASE(memory_that_can_go_unnoticed_is_refused),
		CASE(ranges_may_overlap),
		CASE(who_is_far_behind_is_told_so),
		CASE(an_address_is_not_used_again_unnoticed),
		CASE(it_ends_while_programs_unmap),
		CASE(a_child_watches_for_itself),
		CASE(a_child_that_stays_holds_up_nobody),
	};

	return cmocka_run_group_tests_name("watch_memory", tests, NULL, NULL);
}
