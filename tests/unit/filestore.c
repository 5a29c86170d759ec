/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filestore.c - keys in a folder: what is set is got, whole or not at all; absent keys time out; stale folders are noticed.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "filestore.h"

static char folder[64];

static int make_folder(void **state)
{
	strcpy(folder, "/tmp/ddl-filestore-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[512];

	while (dir && (entry = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	return rmdir(folder);
}

/* Files in the folder, begun ones included. */
static int count_files(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(dir);
	return n;
}

static struct ddl__filestore *open_rank(int rank, int size)
{
	struct ddl__filestore *filestore = NULL;
	struct ddl_error err;

	assert_int_equal(ddl__filestore_open(folder, rank, size, &filestore, &err), 0);
	return filestore;
}

static void a_key_of_one_rank_is_read_by_another(void **state)
{
	struct ddl__filestore *a = open_rank(0, 2), *b = open_rank(1, 2);
	const struct ddl_store *sa = ddl__filestore_store(a), *sb = ddl__filestore_store(b);
	const char value[] = "some\0bytes\xff";
	char data[64];
	size_t size = 0;

	assert_int_equal(sa->rank, 0);
	assert_int_equal(sb->rank, 1);
	assert_int_equal(sb->size, 2);
	assert_int_equal(sa->set(sa->context, "ddl/0/address", value, sizeof(value)), 0);
	assert_int_equal(sa->set(sa->context, "empty", "", 0), 0);
	assert_int_equal(sb->get(sb->context, "ddl/0/address", data, sizeof(data), &size, 0), 0);
	assert_int_equal(size, sizeof(value));
	assert_memory_equal(data, value, size);
	assert_int_equal(sb->get(sb->context, "empty", data, sizeof(data), &size, 0), 0);
	assert_int_equal(size, 0);
	assert_int_equal(count_files(), 2);
	ddl__filestore_close(a);
	ddl__filestore_close(b);
}

static void keys_that_look_alike_as_file_names_stay_apart(void **state)
{
	static const char *const keys[] = { "a/b", "a%2Fb", "a_b", ".", "..", ".a", "a b", "../a", "\xc3\xa4" };
	struct ddl__filestore *filestore = open_rank(0, 1);
	const struct ddl_store *store = ddl__filestore_store(filestore);
	char data[64];
	size_t size = 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_int_equal(store->set(store->context, keys[i], &i, sizeof(i)), 0);
	assert_int_equal(count_files(), sizeof(keys) / sizeof(keys[0]));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		assert_int_equal(store->get(store->context, keys[i], data, sizeof(data), &size, 0), 0);
		assert_memory_equal(data, &i, sizeof(i));
	}
	ddl__filestore_close(filestore);
}

static void a_key_is_set_once(void **state)
{
	struct ddl__filestore *filestore = open_rank(0, 1);
	const struct ddl_store *store = ddl__filestore_store(filestore);
	char data[8];
	size_t size = 0;

	assert_int_equal(store->set(store->context, "key", "old", 3), 0);
	assert_int_equal(store->set(store->context, "key", "new", 3), -EEXIST);
	assert_int_equal(store->get(store->context, "key", data, sizeof(data), &size, 0), 0);
	assert_memory_equal(data, "old", 3);
	assert_int_equal(count_files(), 1);
	ddl__filestore_close(filestore);
}

static void a_value_too_large_tells_its_size_and_is_not_copied(void **state)
{
	struct ddl__filestore *filestore = open_rank(0, 1);
	const struct ddl_store *store = ddl__filestore_store(filestore);
	char data[4] = "xyz";
	size_t size = 0;

	assert_int_equal(store->set(store->context, "key", "0123456789", 10), 0);
	assert_int_equal(store->get(store->context, "key", data, sizeof(data), &size, 0), -EMSGSIZE);
	assert_int_equal(size, 10);
	assert_string_equal(data, "xyz");
	ddl__filestore_close(filestore);
}

static void bad_keys_folders_and_ranks_are_refused(void **state)
{
	struct ddl__filestore *filestore = open_rank(0, 1), *none = NULL;
	const struct ddl_store *store = ddl__filestore_store(filestore);
	struct ddl_error err;
	char key[400], data[8];
	size_t size;

	memset(key, 'k', sizeof(key));
	key[sizeof(key) - 1] = '\0';
	assert_int_equal(store->set(store->context, key, "", 0), -ENAMETOOLONG);
	assert_int_equal(store->set(store->context, "", "", 0), -EINVAL);
	assert_int_equal(store->get(store->context, "absent", data, sizeof(data), &size, 0), -ETIMEDOUT);
	assert_int_equal(ddl__filestore_open("/nonexistent/folder", 0, 1, &none, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/folder"));
	assert_int_equal(ddl__filestore_open("/proc/self/stat", 0, 1, &none, &err), -ENOTDIR);
	assert_int_equal(ddl__filestore_open(folder, 2, 2, &none, &err), -EINVAL);
	assert_int_equal(ddl__filestore_open(folder, -1, 2, &none, &err), -EINVAL);
	assert_int_equal(ddl__filestore_open(folder, 0, 0, &none, &err), -EINVAL);
	assert_null(none);
	ddl__filestore_close(filestore);
	ddl__filestore_close(NULL);
}

static void processes_exchange_keys_that_come_in_any_order(void **state)
{
	enum { RANKS = 4, BYTES = 100000 };
	pid_t children[RANKS];

	for (int rank = 0; rank < RANKS; rank++) {
		children[rank] = fork();
		assert_true(children[rank] >= 0);
		if (children[rank] > 0)
			continue;
		struct ddl__filestore *filestore = NULL;
		struct ddl_error err;
		char *data = malloc(BYTES), key[16];
		size_t size = 0;
		int wrong = !data || ddl__filestore_open(folder, rank, RANKS, &filestore, &err) < 0;
		const struct ddl_store *store = wrong ? NULL : ddl__filestore_store(filestore);

		for (int i = 0; i < RANKS && !wrong; i++) {
			int peer = (rank + i) % RANKS;

			snprintf(key, sizeof(key), "key/%d", i == 0 ? rank : peer);
			if (i == 0) {
				memset(data, rank + 1, BYTES);
				wrong = store->set(store->context, key, data, BYTES) != 0;
			} else {
				wrong = store->get(store->context, key, data, BYTES, &size, 60000) != 0 || size != BYTES ||
					data[0] != peer + 1 || data[BYTES - 1] != peer + 1;
			}
		}
		ddl__filestore_close(filestore);
		free(data);
		_exit(wrong);
	}
	for (int rank = 0; rank < RANKS; rank++) {
		int status = -1;

		assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_key_of_one_rank_is_read_by_another, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(keys_that_look_alike_as_file_names_stay_apart, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_key_is_set_once, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_value_too_large_tells_its_size_and_is_not_copied, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(bad_keys_folders_and_ranks_are_refused, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(processes_exchange_keys_that_come_in_any_order, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
