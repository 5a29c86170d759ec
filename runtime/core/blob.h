/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.h - what a rank publishes at start: named byte strings in one piece. {u8 name length, name, u32 size (little endian),
 * bytes}...
 */
#ifndef DDL_CORE_BLOB_H
#define DDL_CORE_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct ddl__blob {
	uint8_t *data; /* owned; freed with free() */
	size_t size;   /* bytes in use */
	size_t room;   /* bytes allocated */
};

/* Appends. name: at most 255 bytes. Returns 0, -EINVAL or -ENOMEM. */
int ddl__blob_add(struct ddl__blob *blob, const char *name, const void *data, size_t size);

/* Finds by name; *found points into data. Returns 0; -ENOENT; -EBADMSG (malformed up to where it was looked for). */
int ddl__blob_find(const void *data, size_t size, const char *name, const void **found, size_t *found_size);

#endif
