/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_window.h - the user memory that two processes show each other over a link of shm.c.
 *
 * A window goes over once a link, when the first request that uses it is made or started. The peer maps it and says so; from then
 * on slices of it may be lent. Who is granted a window to place slices in looks whether it has mapped it. A peer that cannot map
 * one (no room for another mapping) just never says so.
 */
#ifndef DDL_TRANSPORT_SHM_WINDOW_H
#define DDL_TRANSPORT_SHM_WINDOW_H

#include "mesh.h"

#define DDL__WINDOWS_MAX (1u << 15) /* windows of one peer */

/* What the size of a slice in a lane says beside the size: the slot holds a struct ddl__elsewhere instead of the slice. */
#define DDL__SLICE_LENT   0x80000000u /* it lies in a window of the sender */
#define DDL__SLICE_PLACED 0x40000000u /* it lies in what the receiver granted */
#define DDL__SLICE_ANSWER 0x20000000u /* it lies in a slot that the receiver had sent */
#define DDL__SLICE_SIZE   0x1fffffffu /* mask of the size itself */

struct ddl__elsewhere {  /* where a slice lies. No padding. */
	uint64_t window; /* id of the sender's; 0 where it was placed, or is an answer */
	uint64_t at;     /* bytes into the window, or into the grant; of an answer: index of the slot */
};

struct ddl__grant {                          /* in a lane's memory; written by the receiver alone, start last */
	_Alignas(64) _Atomic uint64_t start; /* number of the receiver's start that it holds for; 0 none */
	_Atomic uint64_t window;             /* id of the receiver's */
	_Atomic uint64_t at;                 /* bytes into it */
	_Atomic uint64_t size;               /* bytes */
};

struct ddl__shown { /* a window of this process */
	uint32_t id;
	int fd;      /* duplicate that waits for the link to come up; -1: is under way */
	size_t size; /* bytes */
	bool mapped; /* the peer said so */
	struct ddl__shown *next;
};

struct ddl__seen { /* a window of the peer's */
	uint32_t id;
	uint8_t *memory;
	size_t size; /* bytes */
	struct ddl__seen *next;
};

struct ddl__windows { /* of a link; all zero: none */
	struct ddl__shown *shown;
	struct ddl__seen *seen; /* the one used last first */
	size_t n_shown, n_seen;
};

/* See struct ddl__transport_ops: show and hide, for one link. */
void ddl__windows_show(struct ddl__link *link, struct ddl__windows *windows, const struct ddl__window *window);
void ddl__windows_hide(struct ddl__link *link, struct ddl__windows *windows, uint32_t id);
/* The link came up: what waits goes out. */
int ddl__windows_up(struct ddl__link *link, struct ddl__windows *windows);
/* A frame about windows came. */
int ddl__windows_frame(struct ddl__link *link, struct ddl__windows *windows, const struct ddl__frame *frame, const void *body);
/* Whether the peer has mapped that window of ours. */
bool ddl__windows_mapped(struct ddl__windows *windows, uint32_t id);
/* That many bytes of the peer's window; NULL: it is not mapped here, or they are not in it. */
uint8_t *ddl__windows_at(struct ddl__windows *windows, uint64_t id, uint64_t at, uint64_t bytes);
/* Unmaps all, also what is lent to us. */
void ddl__windows_fini(struct ddl__windows *windows);

#endif
