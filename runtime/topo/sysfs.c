/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs.c - reading the one-line files of proc and sysfs below a root folder.
 *
 * Everything here takes a machine as it is: what is not there is "not known", never an error.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostlist.h"
#include "sysfs.h"

#define NAMES_MAX 4096 /* names of a folder that are looked at */

/* root + path; -ENAMETOOLONG where it does not fit. */
static int join(char *full, const char *root, const char *path, va_list args)
{
	int used = snprintf(full, DDL__PATH_SIZE, "%s/", root);
	int more;

	if (used < 0 || used >= DDL__PATH_SIZE)
		return -ENAMETOOLONG;
	more = vsnprintf(full + used, DDL__PATH_SIZE - (size_t)used, path, args);
	return more < 0 || used + more >= DDL__PATH_SIZE ? -ENAMETOOLONG : 0;
}

static int line_of(const char *full, char *text, size_t size)
{
	int fd = open(full, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	text[0] = '\0';
	if (fd < 0)
		return -ENOENT;
	n = read(fd, text, size - 1);
	close(fd);
	if (n < 0) {
		text[0] = '\0';
		return -ENOENT;
	}
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

int ddl__sysfs_line(const char *root, char *text, size_t size, const char *path, ...)
{
	char full[DDL__PATH_SIZE];
	va_list args;
	int rc;

	text[0] = '\0';
	va_start(args, path);
	rc = join(full, root, path, args);
	va_end(args);
	return rc < 0 ? -ENOENT : line_of(full, text, size);
}

int64_t ddl__sysfs_number(const char *root, int64_t otherwise, const char *path, ...)
{
	char full[DDL__PATH_SIZE], text[64], *end;
	va_list args;
	int64_t value;
	int rc;

	va_start(args, path);
	rc = join(full, root, path, args);
	va_end(args);
	if (rc < 0 || line_of(full, text, sizeof(text)) < 0)
		return otherwise;
	errno = 0;
	value = strtoll(text, &end, 0);
	return end == text || errno ? otherwise : value;
}

int ddl__sysfs_exists(const char *root, const char *path, ...)
{
	char full[DDL__PATH_SIZE];
	va_list args;
	int rc;

	va_start(args, path);
	rc = join(full, root, path, args);
	va_end(args);
	return rc == 0 && access(full, F_OK) == 0;
}

static int compare(const void *a, const void *b)
{
	return ddl__name_compare(*(char *const *)a, *(char *const *)b);
}

/* Reads the names one after the other, NUL-ended, into *text. */
static int read_names(DIR *folder, char **text, size_t *n)
{
	size_t used = 0, room = 0;
	struct dirent *entry;
	char *more;

	while (*n < NAMES_MAX && (entry = readdir(folder))) {
		size_t length = strlen(entry->d_name) + 1;

		if (entry->d_name[0] == '.')
			continue;
		if (used + length > room) {
			room = 2 * room + 4096;
			more = realloc(*text, room);
			if (!more)
				return -ENOMEM;
			*text = more;
		}
		memcpy(*text + used, entry->d_name, length);
		used += length;
		(*n)++;
	}
	return 0;
}

int ddl__sysfs_list(const char *root, const char *path, char ***names, size_t *n)
{
	char full[DDL__PATH_SIZE], *text = NULL, *copy;
	size_t bytes = 0, count = 0;
	char **list;
	DIR *folder;
	int rc = 0;

	if (snprintf(full, sizeof(full), "%s/%s", root, path) >= (int)sizeof(full))
		folder = NULL;
	else
		folder = opendir(full);
	if (folder) {
		rc = read_names(folder, &text, &count);
		closedir(folder);
	}
	for (size_t i = 0; i < count; i++)
		bytes += strlen(text + bytes) + 1;
	list = rc == 0 ? malloc((count + 1) * sizeof(*list) + bytes) : NULL;
	if (!list) {
		free(text);
		return -ENOMEM;
	}
	copy = (char *)(list + count + 1);
	if (bytes)
		memcpy(copy, text, bytes);
	free(text);
	for (size_t i = 0; i < count; i++, copy += strlen(copy) + 1)
		list[i] = copy;
	list[count] = NULL;
	qsort(list, count, sizeof(*list), compare);
	*names = list;
	*n = count;
	return 0;
}

void ddl__cpus_add(struct ddl__cpus *cpus, size_t cpu)
{
	if (cpu < DDL__CPUS_MAX)
		cpus->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

int ddl__cpus_has(const struct ddl__cpus *cpus, size_t cpu)
{
	return cpu < DDL__CPUS_MAX && (cpus->bits[cpu / 64] >> (cpu % 64) & 1);
}

int ddl__cpus_has_any(const struct ddl__cpus *cpus)
{
	for (size_t i = 0; i < DDL__CPUS_MAX / 64; i++)
		if (cpus->bits[i])
			return 1;
	return 0;
}

void ddl__cpus_parse(struct ddl__cpus *cpus, const char *text)
{
	memset(cpus, 0, sizeof(*cpus));
	while (*text >= '0' && *text <= '9') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long cpu = first; cpu <= last && cpu < DDL__CPUS_MAX; cpu++)
			ddl__cpus_add(cpus, cpu);
		if (*end != ',')
			return;
		text = end + 1;
	}
}

char *ddl__cpus_text(const struct ddl__cpus *cpus, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++) {
		size_t last = cpu;

		if (!ddl__cpus_has(cpus, cpu))
			continue;
		while (ddl__cpus_has(cpus, last + 1))
			last++;
		used += (size_t)snprintf(text + used, size - used, last > cpu ? "%s%zu-%zu" : "%s%zu", used ? "," : "", cpu, last);
		if (used >= size) {
			text[0] = '\0';
			return NULL;
		}
		cpu = last;
	}
	return text;
}
