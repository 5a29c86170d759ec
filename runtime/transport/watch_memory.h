/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_memory.h - tells when the program unmaps, empties or moves memory that devices were told about.
 *
 * There is one watch for the process, since the kernel lets memory be watched by one only, and several communicators reduce the
 * same buffers. Each of its users takes notes at its own pace with a reader. Every function but those on readers may be called by
 * any thread; they do not wait for one another but for a system call's time.
 *
 * Watched is private memory without a file only. Memory of files may be emptied by way of the file, and System V's is detached,
 * and nobody is told. (Nor is anybody told when shmat() with SHM_REMAP replaces a mapping.)
 */
#ifndef DDL_TRANSPORT_WATCH_MEMORY_H
#define DDL_TRANSPORT_WATCH_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ddl__memory_range {              /* that is watched: part of its user's struct */
	uintptr_t begin, end;           /* whole pages */
	atomic_bool gone;               /* its user: it is known to be unmapped, at least in parts */
	struct ddl__memory_range *next; /* the watch's */
};

struct ddl__memory_note {     /* what happened to pages that were watched */
	uintptr_t begin, end; /* whole pages */
	bool gone;            /* false: they are still mapped, but what was in them is lost */
};

struct ddl__memory_reader { /* of notes; used by one thread at a time */
	uint64_t taken;     /* notes so far */
};

/*
 * Starts the watch, unless it is on. 0; negative errno where the kernel does not have it (before 5.7; with write protection,
 * before 6.12 on arm64) or does not permit it: why (size bytes) gets a clause. put ends what the last get began; no range is left
 * then.
 */
int ddl__memory_watch_get(char *why, size_t size);
void ddl__memory_watch_put(void);

/*
 * Watches begin ... end of the range. -EOPNOTSUPP: other memory than private without a file, or not mapped; -EBUSY: somebody else
 * in this process watches it.
 */
int ddl__memory_watch_add(struct ddl__memory_range *range);
void ddl__memory_watch_remove(struct ddl__memory_range *range); /* one that was not added: does nothing */

/*
 * Waits for a moment until all that happened before this call is noted; whoever then has taken all notes knows of every mapping
 * that is not there any more, even if the call that ended it has not returned yet. False: it could not be had; know nothing then.
 */
bool ddl__memory_watch_settle(void);

void ddl__memory_reader_init(struct ddl__memory_reader *reader); /* what happened before is not told */
/* 1: the next note; 0: there is none; -EOVERFLOW: some were missed, anything may have happened. No system call. */
int ddl__memory_reader_next(struct ddl__memory_reader *reader, struct ddl__memory_note *note);
bool ddl__memory_reader_behind(const struct ddl__memory_reader *reader); /* whether there are notes, or one is being made */

#endif
