/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filestore.c - one file a key. A value is written to a file of a name of its own and then linked under the key's name: a reader
 * sees all of it or nothing, and a key that is there already is noticed. Readers look again and again, more and more seldom.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "filestore.h"

#define NAME_SIZE 256 /* bytes of a file's name with NUL */

struct ddl__filestore {
	struct ddl_store store; /* context points back here */
	int folder;             /* descriptor */
};

/* The name of a key's file: letters, digits, '-', '_' and inner dots stay, all else becomes %XX. */
static int encode_key(const char *key, char name[NAME_SIZE])
{
	size_t used = 0;

	if (*key == '\0')
		return -EINVAL;
	for (const unsigned char *p = (const unsigned char *)key; *p; p++) {
		int plain = (*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || *p == '-' ||
			    *p == '_' || (*p == '.' && used > 0);

		if (used + 4 > NAME_SIZE)
			return -ENAMETOOLONG;
		used += (size_t)sprintf(name + used, plain ? "%c" : "%%%02X", *p);
	}
	return 0;
}

static int write_all(int fd, const void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, (const char *)data + done, size - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

static int read_all(int fd, void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = read(fd, (char *)data + done, size - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

static int filestore_set(void *context, const char *key, const void *data, size_t size)
{
	struct ddl__filestore *filestore = context;
	char name[NAME_SIZE], temporary[64];
	int fd, rc = encode_key(key, name);

	if (rc < 0)
		return rc;
	snprintf(temporary, sizeof(temporary), ".%d.%ld.new", filestore->store.rank, (long)getpid());
	fd = openat(filestore->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, data, size);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && linkat(filestore->folder, temporary, filestore->folder, name, 0) < 0)
		rc = -errno;
	unlinkat(filestore->folder, temporary, 0);
	return rc;
}

/* Reads a key's file if it is there: -ENOENT if not. */
static int read_key(const struct ddl__filestore *filestore, const char *name, void *data, size_t capacity, size_t *size)
{
	int fd = openat(filestore->folder, name, O_RDONLY | O_CLOEXEC), rc;
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) < 0) {
		rc = -errno;
	} else {
		*size = (size_t)status.st_size;
		rc = *size > capacity ? -EMSGSIZE : read_all(fd, data, *size);
	}
	close(fd);
	return rc;
}

static int filestore_get(void *context, const char *key, void *data, size_t capacity, size_t *size, int timeout_ms)
{
	const struct ddl__filestore *filestore = context;
	const int64_t deadline = ddl__now_ms() + timeout_ms;
	char name[NAME_SIZE];
	int rc = encode_key(key, name);

	if (rc < 0)
		return rc;
	for (long pause_us = 500;; pause_us = pause_us < 32000 ? 2 * pause_us : pause_us) {
		struct timespec pause = { 0, pause_us * 1000 };

		rc = read_key(filestore, name, data, capacity, size);
		if (rc != -ENOENT)
			return rc;
		if (ddl__now_ms() >= deadline)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

int ddl__filestore_open(const char *path, int rank, int size, struct ddl__filestore **filestore, struct ddl_error *err)
{
	struct ddl__filestore *opened;
	int fd;

	if (size < 1 || rank < 0 || rank >= size)
		return ddl__error_set(err, -EINVAL, "rank %d of %d ranks does not exist; ranks are 0 ... ranks-1", rank, size);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ddl__error_set(err, -errno, "store '%.200s' cannot be opened (%s); make an empty folder for each run", path,
				      strerror(errno));
	opened = calloc(1, sizeof(*opened));
	if (!opened) {
		close(fd);
		return ddl__error_set(err, -ENOMEM, "no memory for a store");
	}
	opened->folder = fd;
	opened->store = (struct ddl_store){
		.context = opened,
		.rank = rank,
		.size = size,
		.set = filestore_set,
		.get = filestore_get,
	};
	*filestore = opened;
	return 0;
}

const struct ddl_store *ddl__filestore_store(const struct ddl__filestore *filestore)
{
	return &filestore->store;
}

void ddl__filestore_close(struct ddl__filestore *filestore)
{
	if (!filestore)
		return;
	close(filestore->folder);
	free(filestore);
}
