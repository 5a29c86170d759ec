/* SPDX-License-Identifier: Apache-2.0 */
/* memfd.c - see memfd.h. */
#include "memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int ddl__memfd_map(int fd, size_t size, int flags, void **memory)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *at;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size < 0 || (size_t)st.st_size != size)
		return -EBADMSG;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	*memory = at;
	return 0;
}

int ddl__memfd_make(const char *name, size_t size, int flags, int *fd, void **memory)
{
	struct rlimit limit;
	int made, rc;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur)
		return -EFBIG; /* to try would end the process: SIGXFSZ */
	made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (made < 0)
		return -errno;
	do
		rc = fallocate(made, 0, 0, (off_t)size);
	while (rc && errno == EINTR);
	if (rc || fcntl(made, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		rc = -errno;
	else
		rc = ddl__memfd_map(made, size, flags, memory);
	if (rc)
		close(made);
	else
		*fd = made;
	return rc;
}
