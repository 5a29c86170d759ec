/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - what was measured is there for the next job, and nothing that lies in its folder hurts, or is hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keep.h"

#define PLAN  "1;job=1;tree=sw(a(0-1),b(2-3));mode=multiring"
#define TEXT  "# ddl tuning 1\nranks 2 2\nallreduce 1024 ring 5000\n"
#define OTHER "measured-0000000000000000"

static char cache[] = "/tmp/ddl-keep-XXXXXX", folder[64];

static int make_cache(void **state)
{
	strcpy(cache + strlen(cache) - 6, "XXXXXX");
	assert_non_null(mkdtemp(cache));
	snprintf(folder, sizeof(folder), "%s/ddl", cache);
	setenv("XDG_CACHE_HOME", cache, 1);
	unsetenv("DDL_NET");
	unsetenv("DDL_TRANSPORTS");
	return 0;
}

static const char *in(const char *name)
{
	static char path[512];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int remove_cache(void **state)
{
	DIR *dir = opendir(folder);
	for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
		unlink(in(entry->d_name));
	if (dir)
		closedir(dir);
	if (rmdir(folder))
		unlink(folder);
	return rmdir(cache);
}

static void keep(void)
{
	struct ddl__tuning tuning;
	assert_int_equal(ddl__tuning_parse(TEXT, strlen(TEXT), &tuning, NULL), 0);
	ddl__keep_write(PLAN, &tuning);
}

static const char *kept(const char *plan)
{
	static char text[4096];
	ddl__keep_read(plan, text, sizeof(text));
	return text;
}

/* The name of the one file there. */
static const char *only_file(void)
{
	static char name[256];
	DIR *dir = opendir(folder);
	int n = 0;
	assert_non_null(dir);
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		if (entry->d_name[0] != '.' && ++n == 1)
			snprintf(name, sizeof(name), "%s", entry->d_name);
	closedir(dir);
	assert_int_equal(n, 1);
	return name;
}

static void what_was_kept_is_read_for_the_same_nodes_only(void **state)
{
	assert_string_equal(kept(PLAN), "");
	keep();
	keep();
	assert_string_equal(kept(PLAN), TEXT);
	assert_string_equal(kept("1;job=2;tree=sw(a(0-1),b(2-3));mode=multiring"), TEXT);
	assert_string_equal(kept("1;job=1;tree=sw(a(0-1),c(2-3));mode=multiring"), "");
	setenv("DDL_NET", "eth1", 1);
	assert_string_equal(kept(PLAN), "");
	unsetenv("DDL_NET");
	only_file();
}

static void only_a_file_of_this_users_is_read(void **state)
{
	char path[512];
	keep();
	snprintf(path, sizeof(path), "%s", in(only_file()));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_string_equal(kept(PLAN), ""); /* and nobody waits for a writer */
	keep();
	assert_string_equal(kept(PLAN), TEXT);
	assert_int_equal(rename(path, in("elsewhere")), 0);
	assert_int_equal(symlink("elsewhere", path), 0);
	assert_string_equal(kept(PLAN), "");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_string_equal(kept(PLAN), "");
	keep(); /* cannot, and says nothing */
	assert_int_equal(rmdir(path), 0);
	assert_string_equal(only_file(), "elsewhere");
	if (geteuid() == 0) {
		keep();
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_string_equal(kept(PLAN), "");
	}
}

static void make_old(const char *name)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	int fd = open(in(name), O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, old), 0);
	close(fd);
}

static void only_what_was_kept_is_removed_when_it_is_old(void **state)
{
	assert_int_equal(mkdir(folder, 0700), 0);
	make_old("thesis.tex");
	make_old(OTHER);
	keep();
	assert_int_equal(access(in("thesis.tex"), F_OK), 0);
	assert_int_not_equal(access(in(OTHER), F_OK), 0);
	assert_string_equal(kept(PLAN), TEXT);
}

static void without_a_folder_nothing_is_kept(void **state)
{
	int fd = open(folder, O_CREAT | O_WRONLY, 0600); /* a file where the folder should be */
	char home[64] = "";
	close(fd);
	keep();
	assert_string_equal(kept(PLAN), "");
	if (getenv("HOME"))
		snprintf(home, sizeof(home), "%s", getenv("HOME"));
	setenv("XDG_CACHE_HOME", "not/absolute", 1);
	setenv("HOME", "", 1);
	keep();
	assert_string_equal(kept(PLAN), "");
	unsetenv("HOME");
	unsetenv("XDG_CACHE_HOME");
	keep();
	assert_string_equal(kept(PLAN), "");
	if (*home)
		setenv("HOME", home, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_cache, remove_cache)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_was_kept_is_read_for_the_same_nodes_only),
		CASE(only_a_file_of_this_users_is_read),
		CASE(only_what_was_kept_is_removed_when_it_is_old),
		CASE(without_a_folder_nothing_is_kept),
	};

	return cmocka_run_group_tests_name("keep", tests, NULL, NULL);
}
