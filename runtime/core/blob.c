/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.c - packing and unpacking; what comes in is another rank's and not trusted.
 */
#include "blob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ddl__blob_add(struct ddl__blob *blob, const char *name, const void *data, size_t size)
{
	size_t length = strlen(name), more = 1 + length + 4 + size;
	if (length > 255 || size > UINT32_MAX)
		return -EINVAL;
	if (blob->size + more > blob->room) {
		size_t room = (blob->size + more) * 2;
		uint8_t *bigger = realloc(blob->data, room);
		if (!bigger)
			return -ENOMEM;
		blob->data = bigger;
		blob->room = room;
	}
	uint8_t *at = blob->data + blob->size;
	*at++ = (uint8_t)length;
	memcpy(at, name, length);
	at += length;
	for (int i = 0; i < 4; i++)
		*at++ = (uint8_t)(size >> (8 * i));
	if (size)
		memcpy(at, data, size);
	blob->size += more;
	return 0;
}

int ddl__blob_find(const void *data, size_t size, const char *name, const void **found, size_t *found_size)
{
	const uint8_t *at = data, *end = at + size;
	size_t wanted = strlen(name);
	while (at < end) {
		size_t length = *at++, bytes = 0;
		if ((size_t)(end - at) < length + 4)
			return -EBADMSG;
		const uint8_t *key = at;
		at += length;
		for (int i = 0; i < 4; i++)
			bytes |= (size_t)*at++ << (8 * i);
		if ((size_t)(end - at) < bytes)
			return -EBADMSG;
		if (length == wanted && memcmp(key, name, length) == 0) {
			*found = at;
			*found_size = bytes;
			return 0;
		}
		at += bytes;
	}
	return -ENOENT;
}
