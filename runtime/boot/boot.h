/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.h - how ranks find each other before there are connections: publish blobs, one fence, read everybody's.
 *
 * Members, in the order in which they are tried: store (the caller's callbacks, when given), pmix (srun --mpi=pmix, ddl run,
 * mpirun), self (a process that is alone). A communicator that is split from another has a member of its own (core/parent.h). All
 * calls come from one thread. Keys are short ASCII words; a key is put once a rank.
 */
#ifndef DDL_BOOT_BOOT_H
#define DDL_BOOT_BOOT_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/ddl.h>

struct ddl__boot;

struct ddl__boot_ops {
	const char *name;        /* the spelling in `ddl info` */
	const char *description; /* one line for people */
	/* Whether this member can serve here: 1 yes, 0 no; why (size bytes) gets a clause that says what was seen. No side
	 * effects. */
	int (*probe)(const struct ddl_comm_options *options, char *why, size_t size);
	int (*open)(const struct ddl_comm_options *options, int timeout_ms, struct ddl__boot **boot, struct ddl_error *err);
	/* Publishes a copy of size bytes of this rank's under key; visible to others after fence(). */
	int (*put)(struct ddl__boot *boot, const char *key, const void *data, size_t size, struct ddl_error *err);
	/* Waits until every rank called it, and makes all blobs readable. -ETIMEDOUT names missing ranks where they are known. */
	int (*fence)(struct ddl__boot *boot, struct ddl_error *err);
	/* Reads rank's blob under key; *data (NUL-ended for convenience, not counted in *size) is freed by the caller.
	 * -ENOENT: that rank never put it (the sentence names the rank). */
	int (*get)(struct ddl__boot *boot, int rank, const char *key, void **data, size_t *size, struct ddl_error *err);
	void (*close)(struct ddl__boot *boot); /* NULL does nothing */
};

struct ddl__boot { /* what every member knows; the first field of its own struct */
	const struct ddl__boot_ops *ops;
	int rank;              /* 0 ... size-1 */
	int size;              /* number of ranks */
	char job[64];          /* name of the job or step; "" */
	char host[256];        /* this node's name as the launcher knows it; "" not known */
	const uint8_t *secret; /* that all ranks know already, as they do the plan; borrowed. NULL: both are rank 0's */
};

extern const struct ddl__boot_ops ddl__boot_store;
extern const struct ddl__boot_ops ddl__boot_pmix;
extern const struct ddl__boot_ops ddl__boot_self;

/* All members in the order in which they are tried; ended by NULL. */
extern const struct ddl__boot_ops *const ddl__boots[];

/* Opens the first member whose probe says yes. The error of its open, if that fails, is final: no silent fall-back to self. */
int ddl__boot_open(const struct ddl_comm_options *options, int timeout_ms, struct ddl__boot **boot, struct ddl_error *err);

#endif
