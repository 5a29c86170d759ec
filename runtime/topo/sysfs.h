/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs.h - reading the one-line files of proc and sysfs below a root folder, "" for this machine's.
 */
#ifndef DDL_TOPO_SYSFS_H
#define DDL_TOPO_SYSFS_H

#include <stddef.h>
#include <stdint.h>

#define DDL__PATH_SIZE 512   /* bytes of a path, with NUL */
#define DDL__CPUS_MAX  16384 /* hardware threads that are looked at */

struct ddl__cpus {                         /* a set of hardware threads */
	uint64_t bits[DDL__CPUS_MAX / 64]; /* bit i % 64 of word i / 64: hardware thread i */
};

/* Reads the first line of root + path without its end; text is "" and the result -ENOENT where it cannot be read. path as
 * printf. */
int ddl__sysfs_line(const char *root, char *text, size_t size, const char *path, ...) __attribute__((format(printf, 4, 5)));

/* Reads a number, decimal or 0x; otherwise where there is none. */
int64_t ddl__sysfs_number(const char *root, int64_t otherwise, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* Whether root + path exists. */
int ddl__sysfs_exists(const char *root, const char *path, ...) __attribute__((format(printf, 2, 3)));

/* The names in a folder, sorted naturally, without those that begin with a dot; *names: one allocation, caller frees. A folder that
 * does not exist has none. Returns 0 or -ENOMEM. */
int ddl__sysfs_list(const char *root, const char *path, char ***names, size_t *n);

/* Reads a list such as 0-3,8-11 into a set; what it cannot read ends the list. */
void ddl__cpus_parse(struct ddl__cpus *cpus, const char *text);
int ddl__cpus_has(const struct ddl__cpus *cpus, size_t cpu);
int ddl__cpus_has_any(const struct ddl__cpus *cpus);
void ddl__cpus_add(struct ddl__cpus *cpus, size_t cpu);

/* Writes a set as such a list; returns text, or NULL where it does not fit (text is "" then). */
char *ddl__cpus_text(const struct ddl__cpus *cpus, char *text, size_t size);

#endif
