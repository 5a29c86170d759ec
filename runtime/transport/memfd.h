/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memfd.h - memory that processes of one machine share: it has no name in a file system, ends with the last process that has it
 * open or mapped, and cannot shrink under a reader.
 */
#ifndef DDL_TRANSPORT_MEMFD_H
#define DDL_TRANSPORT_MEMFD_H

#include <stddef.h>

/*
 * Makes a memfd of size bytes, all of them there, seals its size, and maps it. flags: of mmap, beside MAP_SHARED. Returns 0 or
 * negative errno; -EFBIG: more than RLIMIT_FSIZE.
 */
int ddl__memfd_make(const char *name, size_t size, int flags, int *fd, void **memory);

/* Maps one that somebody else made. -EBADMSG: it is not of that size, or can shrink. The descriptor stays the caller's. */
int ddl__memfd_map(int fd, size_t size, int flags, void **memory);

#endif
