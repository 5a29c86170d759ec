/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.c - which bootstrap is chosen, what self and store do, and what each says when something is wrong. PMIx itself:
 * tests/fabric/run.bats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RANKS        5
#define LONG_MS      60000

/* What libpmix forgets when it cannot reach its server is not ours to free. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libpmix";
}

struct pair {
	char key[64];
	void *data;
	size_t size;
};

struct memory { /* a store in memory that several threads share */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct pair pairs[128];
	size_t n;
	int patient;   /* 1: a get waits; 0: what is not there is late at once */
	int set_fails; /* returned by set */
	int get_fails; /* returned by get */
};

static int memory_set(void *context, const char *key, const void *data, size_t size)
{
	struct memory *memory = context;
	struct pair *pair;

	if (memory->set_fails)
		return memory->set_fails;
	pthread_mutex_lock(&memory->mutex);
	assert_true(memory->n < COUNT(memory->pairs));
	pair = &memory->pairs[memory->n++];
	snprintf(pair->key, sizeof(pair->key), "%s", key);
	pair->data = malloc(size ? size : 1);
	memcpy(pair->data, data, size);
	pair->size = size;
	pthread_cond_broadcast(&memory->changed);
	pthread_mutex_unlock(&memory->mutex);
	return 0;
}

static const struct pair *find(const struct memory *memory, const char *key)
{
	for (size_t i = 0; i < memory->n; i++)
		if (!strcmp(memory->pairs[i].key, key))
			return &memory->pairs[i];
	return NULL;
}

static int memory_get(void *context, const char *key, void *data, size_t capacity, size_t *size, int timeout_ms)
{
	struct memory *memory = context;
	const struct pair *pair;
	struct timespec deadline;
	int rc = 0, late = memory->patient ? 0 : ETIMEDOUT;

	if (memory->get_fails)
		return memory->get_fails;
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += timeout_ms / 1000 + 1;
	pthread_mutex_lock(&memory->mutex);
	while (!(pair = find(memory, key)) && late != ETIMEDOUT)
		late = pthread_cond_timedwait(&memory->changed, &memory->mutex, &deadline);
	if (!pair) {
		rc = -ETIMEDOUT;
	} else {
		*size = pair->size;
		if (pair->size > capacity)
			rc = -EMSGSIZE;
		else
			memcpy(data, pair->data, pair->size);
	}
	pthread_mutex_unlock(&memory->mutex);
	return rc;
}

static void memory_init(struct memory *memory, int patient)
{
	memset(memory, 0, sizeof(*memory));
	pthread_mutex_init(&memory->mutex, NULL);
	pthread_cond_init(&memory->changed, NULL);
	memory->patient = patient;
}

static void memory_fini(struct memory *memory)
{
	for (size_t i = 0; i < memory->n; i++)
		free(memory->pairs[i].data);
	pthread_cond_destroy(&memory->changed);
	pthread_mutex_destroy(&memory->mutex);
}

static struct ddl_store store_of(struct memory *memory, int rank, int size)
{
	return (struct ddl_store){ .context = memory, .rank = rank, .size = size, .set = memory_set, .get = memory_get };
}

static struct ddl__boot *open_store(struct memory *memory, int rank, int size)
{
	struct ddl_store store = store_of(memory, rank, size);
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct ddl__boot *boot;
	struct ddl_error err;

	options.store = &store;
	assert_int_equal(ddl__boot_open(&options, LONG_MS, &boot, &err), 0);
	assert_string_equal(boot->ops->name, "store");
	assert_int_equal(boot->rank, rank);
	assert_int_equal(boot->size, size);
	return boot;
}

static int clear_environment(void **state)
{
	(void)state;
	unsetenv("PMIX_NAMESPACE");
	unsetenv("PMIX_RANK");
	unsetenv("PMI_SIZE");
	unsetenv("SLURM_STEP_NUM_TASKS");
	return 0;
}

static void a_process_alone_gets_what_it_put(void **state)
{
	struct ddl__boot *boot;
	struct ddl_error err;
	size_t size;
	void *data;

	(void)state;
	assert_int_equal(ddl__boot_open(NULL, LONG_MS, &boot, &err), 0);
	assert_string_equal(boot->ops->name, "self");
	assert_int_equal(boot->rank, 0);
	assert_int_equal(boot->size, 1);
	assert_int_equal(boot->ops->put(boot, "a", "x\0y", 3, &err), 0);
	assert_int_equal(boot->ops->put(boot, "empty", NULL, 0, &err), 0);
	assert_int_equal(boot->ops->put(boot, "a", "z", 1, &err), -EINVAL);
	assert_int_equal(boot->ops->fence(boot, &err), 0);
	assert_int_equal(boot->ops->get(boot, 0, "a", &data, &size, &err), 0);
	assert_int_equal(size, 3);
	assert_memory_equal(data, "x\0y", 4);
	free(data);
	assert_int_equal(boot->ops->get(boot, 0, "empty", &data, &size, &err), 0);
	assert_int_equal(size, 0);
	free(data);
	assert_int_equal(boot->ops->get(boot, 0, "b", &data, &size, &err), -ENOENT);
	assert_string_equal(err.text, "rank 0 never put the key b");
	assert_int_equal(boot->ops->get(boot, 1, "a", &data, &size, &err), -EINVAL);
	boot->ops->close(boot);
	for (const struct ddl__boot_ops *const *ops = ddl__boots; *ops; ops++)
		if ((*ops)->close)
			(*ops)->close(NULL);
}

static void several_tasks_without_pmix_are_not_alone(void **state)
{
	struct ddl__boot *boot = NULL;
	struct ddl_error err;

	(void)state;
	setenv("SLURM_STEP_NUM_TASKS", "16", 1);
	assert_int_equal(ddl__boot_open(NULL, LONG_MS, &boot, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "16 tasks but no PMIx: start it with srun --mpi=pmix"));
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	assert_int_equal(ddl__boot_open(NULL, LONG_MS, &boot, &err), 0);
	boot->ops->close(boot);
	setenv("PMI_SIZE", "4", 1);
	assert_int_equal(ddl__boot_open(NULL, LONG_MS, &boot, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "PMI 1 or 2"));
}

static void a_broken_pmix_does_not_end_in_lonely_processes(void **state)
{
	struct ddl__boot *boot = NULL;
	struct ddl_error err;
	int rc;

	(void)state;
	setenv("PMIX_NAMESPACE", "no-such-job", 1);
	setenv("PMIX_RANK", "3", 1);
	rc = ddl__boot_open(NULL, LONG_MS, &boot, &err);
	assert_true(rc < 0);
	assert_int_equal(err.code, rc);
	assert_null(boot);
#ifdef DDL_HAVE_PMIX
	assert_int_equal(rc, -ECONNREFUSED);
	assert_non_null(strstr(err.text, "rank 3 of the job no-such-job"));
#else
	assert_non_null(strstr(err.text, "built without PMIx"));
#endif
}

static void a_broken_store_is_refused(void **state)
{
	static const struct {
		int rank, size;
		int lacks; /* 1: set, 2: get */
		const char *says;
	} cases[] = {
		{ 0, 0, 0, "rank 0 of 0" },   { -1, 2, 0, "rank -1 of 2" }, { 2, 2, 0, "rank 2 of 2" },
		{ 0, 1, 1, "lacks its set" }, { 0, 1, 2, "lacks its get" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ddl_store store = store_of(NULL, cases[i].rank, cases[i].size);
		struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
		struct ddl__boot *boot = NULL;
		struct ddl_error err;

		if (cases[i].lacks == 1)
			store.set = NULL;
		if (cases[i].lacks == 2)
			store.get = NULL;
		options.store = &store;
		assert_int_equal(ddl__boot_open(&options, LONG_MS, &boot, &err), -EINVAL);
		assert_non_null(strstr(err.text, cases[i].says));
		assert_null(boot);
	}
}

struct member {
	struct memory *memory;
	int rank;
	int rc;
};

/* One rank: two rounds of put, fence, and get from everybody; the second values are large. */
static void *exchange(void *context)
{
	struct member *member = context;
	struct ddl_store store = store_of(member->memory, member->rank, RANKS);
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct ddl__boot *boot;
	struct ddl_error err;
	size_t size;
	void *data;

	options.store = &store;
	member->rc = ddl__boot_open(&options, LONG_MS, &boot, &err);
	for (int round = 0; round < 2 && member->rc == 0; round++) {
		size_t length = round ? 100000 : 8;
		char *mine = malloc(length);

		memset(mine, 'a' + member->rank + 8 * round, length);
		member->rc = boot->ops->put(boot, round ? "large" : "small", mine, length, &err);
		free(mine);
		if (member->rc == 0)
			member->rc = boot->ops->fence(boot, &err);
		for (int rank = 0; rank < RANKS && member->rc == 0; rank++) {
			member->rc = boot->ops->get(boot, rank, round ? "large" : "small", &data, &size, &err);
			if (member->rc)
				break;
			if (size != length || ((char *)data)[length - 1] != 'a' + rank + 8 * round || ((char *)data)[length])
				member->rc = -EBADMSG;
			free(data);
		}
	}
	boot->ops->close(boot);
	return NULL;
}

static void ranks_exchange_over_a_store(void **state)
{
	struct memory memory;
	struct member members[RANKS];
	pthread_t threads[RANKS];

	(void)state;
	memory_init(&memory, 1);
	for (int rank = 0; rank < RANKS; rank++) {
		members[rank] = (struct member){ &memory, rank, -1 };
		assert_int_equal(pthread_create(&threads[rank], NULL, exchange, &members[rank]), 0);
	}
	for (int rank = 0; rank < RANKS; rank++) {
		pthread_join(threads[rank], NULL);
		assert_int_equal(members[rank].rc, 0);
	}
	memory_fini(&memory);
}

/* All but some ranks have set their marker; everybody, rank 0 or not, names those that did not. */
static void missing_ranks_are_named(void **state)
{
	static const struct {
		int size;
		unsigned there; /* bit r: rank r came */
		int rank;       /* who asks; came too */
		const char *says;
	} cases[] = {
		{ 4, 0x0a, 0, "rank 2 of 4 never came" },     { 4, 0x01, 1, "ranks 2, 3 of 4 never came" },
		{ 4, 0x0c, 1, "rank 0 of 4 never came" },     { 8, 0x02, 0, "ranks 2, 3, 4, 5 and more of 8 never came" },
		{ 4, 0x0d, 1, "waited 60000 ms for rank 0" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct memory memory;
		struct ddl__boot *boot;
		struct ddl_error err;
		char key[64];

		memory_init(&memory, 0);
		for (int rank = 0; rank < cases[i].size; rank++) {
			snprintf(key, sizeof(key), "ddl/%d/fence/0", rank);
			if (cases[i].there >> rank & 1)
				memory_set(&memory, key, "1", 1);
		}
		boot = open_store(&memory, cases[i].rank, cases[i].size);
		assert_int_equal(boot->ops->fence(boot, &err), -ETIMEDOUT);
		assert_non_null(strstr(err.text, cases[i].says));
		boot->ops->close(boot);
		memory_fini(&memory);
	}
}

static void a_failing_store_is_told(void **state)
{
	struct memory memory;
	struct ddl__boot *boot;
	struct ddl_error err;
	char key[400];
	size_t size = 1;
	void *data = NULL;

	(void)state;
	memory_init(&memory, 0);
	boot = open_store(&memory, 0, 2);
	assert_int_equal(boot->ops->get(boot, 1, "k", &data, &size, &err), -ENOENT);
	assert_string_equal(err.text, "rank 1 never put the key ddl/1/k");
	assert_int_equal(boot->ops->get(boot, 2, "k", &data, &size, &err), -EINVAL);
	assert_int_equal(boot->ops->get(boot, -1, "k", &data, &size, &err), -EINVAL);
	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	assert_int_equal(boot->ops->put(boot, key, "x", 1, &err), -EINVAL);
	memory.set_fails = -EEXIST;
	assert_int_equal(boot->ops->put(boot, "k", "x", 1, &err), -EEXIST);
	assert_non_null(strstr(err.text, "each communicator needs a store or prefix of its own"));
	assert_int_equal(boot->ops->fence(boot, &err), -EEXIST);
	memory.set_fails = 0;
	memory.get_fails = -ECONNRESET;
	assert_int_equal(boot->ops->get(boot, 1, "k", &data, &size, &err), -ECONNRESET);
	assert_int_equal(boot->ops->fence(boot, &err), -ECONNRESET);
	assert_null(data);
	assert_int_equal(size, 1);
	boot->ops->close(boot);
	memory_fini(&memory);
}

static void every_member_tells_what_it_saw(void **state)
{
	size_t n = 0;

	(void)state;
	for (const struct ddl__boot_ops *const *ops = ddl__boots; *ops; ops++, n++) {
		char why[256] = "";

		(*ops)->probe(NULL, why, sizeof(why));
		assert_true(strlen(why) > 8);
		assert_true(strlen((*ops)->name) > 0 && strlen((*ops)->description) > 0);
	}
	assert_int_equal(n, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_process_alone_gets_what_it_put, clear_environment),
		cmocka_unit_test_setup(several_tasks_without_pmix_are_not_alone, clear_environment),
		cmocka_unit_test_setup(a_broken_store_is_refused, clear_environment),
		cmocka_unit_test_setup(ranks_exchange_over_a_store, clear_environment),
		cmocka_unit_test_setup(missing_ranks_are_named, clear_environment),
		cmocka_unit_test_setup(a_failing_store_is_told, clear_environment),
		cmocka_unit_test_setup(every_member_tells_what_it_saw, clear_environment),
		cmocka_unit_test_setup(a_broken_pmix_does_not_end_in_lonely_processes, clear_environment),
	};

	return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
