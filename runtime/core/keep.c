/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.c - the files of keep.h: named by a digest of the nodes, written beside and renamed, so that no reader sees half of one.
 */
#include "keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "plan.h"

#define PREFIX "measured-"

enum { OLD_S = 7 * 24 * 3600, LOOKED_AT = 1000 };

/* The folder, made where it is missing. Returns its descriptor; negative: there is none. */
static int open_folder(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char path[PATH_MAX];
	int length;
	if (cache && *cache == '/')
		length = snprintf(path, sizeof(path) - 5, "%s", cache);
	else if (home && *home == '/')
		length = snprintf(path, sizeof(path) - 5, "%s/.cache", home);
	else
		return -ENOENT;
	if (length >= (int)sizeof(path) - 5)
		return -ENAMETOOLONG;
	mkdir(path, 0700);
	strcat(path, "/ddl");
	mkdir(path, 0700);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* By the tree with its tasks, and what may lead elsewhere over the same nodes. */
static void name_file(const char *plan_text, char *name, size_t size)
{
	const char *tree = strstr(plan_text, ";tree="), *way[] = { getenv("DDL_NET"), getenv("DDL_TRANSPORTS") };
	uint64_t digest = ddl__plan_digest(tree ? tree : plan_text, strlen(tree ? tree : plan_text));
	for (size_t i = 0; i < 2; i++)
		digest = digest * 31 + (way[i] ? ddl__plan_digest(way[i], strlen(way[i])) : 0);
	snprintf(name, size, PREFIX "%016llx", (unsigned long long)digest);
}

/* Whether it is a file of this user's. */
static bool is_ours(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid();
}

void ddl__keep_read(const char *plan_text, char *text, size_t size)
{
	char name[128];
	int folder = open_folder();
	struct stat st;
	text[0] = '\0';
	if (folder < 0)
		return;
	name_file(plan_text, name, sizeof(name));
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe there shall not hold us up */
	ssize_t got = fd < 0 || fstat(fd, &st) || !is_ours(&st) ? -1 : read(fd, text, size - 1);
	text[got > 0 ? got : 0] = '\0';
	if (fd >= 0)
		close(fd);
	close(folder);
}

/* Removes old files that were kept; whatever else lies in the folder stays. Takes the descriptor over. */
static void tidy(int folder)
{
	DIR *dir = fdopendir(folder);
	struct dirent *entry;
	struct stat st;
	if (!dir) {
		close(folder);
		return;
	}
	for (int i = 0; i < LOOKED_AT && (entry = readdir(dir)); i++)
		if (strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) == 0 &&
		    fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_ours(&st) &&
		    time(NULL) - st.st_mtime > OLD_S)
			unlinkat(folder, entry->d_name, 0);
	closedir(dir);
}

void ddl__keep_write(const char *plan_text, const struct ddl__tuning *tuning)
{
	char name[128], beside[160];
	int folder = open_folder();
	if (folder < 0) {
		ddl__log(DDL__LOG_INFO, "what was measured is not kept for the next job: %s", strerror(-folder));
		return;
	}
	name_file(plan_text, name, sizeof(name));
	snprintf(beside, sizeof(beside), "%s.%d", name, (int)getpid());
	int fd = openat(folder, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool good = out != NULL;
	if (good) {
		ddl__tuning_print(tuning, out);
		good = !ferror(out);
		good &= fclose(out) == 0;
	} else if (fd >= 0) {
		close(fd);
	}
	if (!good || renameat(folder, beside, folder, name)) {
		ddl__log(DDL__LOG_INFO, "what was measured is not kept for the next job: %s", strerror(errno));
		unlinkat(folder, beside, 0);
	}
	tidy(folder);
}
