/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_memory.h - memory that RDMA devices may read and write: a pool for the slots of lanes, and memory of the program,
 * registered where it lies.
 *
 * A device reaches pages, not addresses: what is registered is pinned, and a program that unmaps a buffer and gets other pages at
 * the same address leaves the device with the old ones. So memory of the program is registered only if it is told when that
 * happens (watch_memory.h), and a registration that was passed by is never found again. Registrations outlive their use: they
 * stay, until others need the room, for the next request with the same buffer.
 *
 * Everything is registered with all devices of the transport. All calls come under one lock, the engine's.
 */
#ifndef DDL_TRANSPORT_VERBS_MEMORY_H
#define DDL_TRANSPORT_VERBS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#include "transport.h"

struct ibv_pd;
struct ddl__verbs_api;
struct ddl__verbs_memory;

struct ddl__verbs_memory_device {
	struct ibv_pd *pd; /* its protection domain; borrowed until destroy */
	const char *name;  /* for sentences: "mlx5_0"; borrowed until destroy */
};

struct ddl__verbs_memory_config {
	const struct ddl__verbs_api *api; /* borrowed until destroy */
	struct ddl__verbs_memory_device devices[DDL__RAILS_MAX];
	size_t n_devices;         /* 1 ... DDL__RAILS_MAX */
	enum ddl__register which; /* memory of the program */
	size_t cached_max;        /* registrations that stay though nobody holds them; 0: the default */
	size_t cached_bytes;      /* of those; 0: the default */
};

struct ddl__verbs_region {             /* bytes that every device may read and write; of program memory whole pages */
	uint8_t *at;                   /* where they begin */
	size_t bytes;                  /* how many */
	uint32_t lkey[DDL__RAILS_MAX]; /* by device: the key for this side's work requests, */
	uint32_t rkey[DDL__RAILS_MAX]; /* and for the peer's */
};

struct ddl__verbs_piece {                       /* of the pool */
	uint8_t *at;                            /* aligned to 64 bytes; NULL: none */
	size_t bytes;                           /* at least what was asked for */
	const struct ddl__verbs_region *region; /* that it lies in */
};

/* Registers nothing yet. Returns 0; -ENOMEM. The caller ends it with destroy. */
int ddl__verbs_memory_create(const struct ddl__verbs_memory_config *config, struct ddl__verbs_memory **memory,
			     struct ddl_error *err);

/* Gives all back, also pieces and regions that are still out. No queue pair may use them any more. NULL does nothing. */
void ddl__verbs_memory_destroy(struct ddl__verbs_memory *memory);

/* ---- the pool ---- */

/* A piece of at least so many bytes, all devices' to write, until put. May register more memory. -ENOMEM, or what a
 * device says: err says what is missing. */
int ddl__verbs_memory_get(struct ddl__verbs_memory *memory, size_t bytes, struct ddl__verbs_piece *piece, struct ddl_error *err);

/* Gives a piece back; no device may write there any more. One that is none (at NULL) does nothing. */
void ddl__verbs_memory_put(struct ddl__verbs_memory *memory, struct ddl__verbs_piece *piece);

/* ---- memory of the program ---- */

/*
 * A region that covers these bytes, to be used by devices until drop; or NULL: they must not, and slots serve. For the start of a
 * request: it makes system calls and may register.
 * before: what this caller held until now, or NULL; it is dropped unless it is returned, so no device may use it any more.
 * ours: memory from ddl_mem_alloc(), of whose end forget() tells; whoever asks for all of it has it registered once.
 */
const struct ddl__verbs_region *ddl__verbs_memory_hold(struct ddl__verbs_memory *memory, const struct ddl__verbs_region *before,
						       const void *at, size_t bytes, bool ours);

/* Ends a hold; no device uses the region for this caller any more. NULL does nothing. */
void ddl__verbs_memory_drop(struct ddl__verbs_memory *memory, const struct ddl__verbs_region *region);

/* These bytes of ours will be unmapped: no region that has some of them is found any more, and none stays registered unheld. */
void ddl__verbs_memory_forget(struct ddl__verbs_memory *memory, const void *at, size_t bytes);

/* Unpins what the program has unmapped meanwhile: now and then, and before the engine sleeps. Costs nothing if there is none. */
void ddl__verbs_memory_tidy(struct ddl__verbs_memory *memory);

#endif
