/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cores.h - which hardware threads a rank's service threads run on: chosen among those that the rank may use, and known beforehand
 * of all ranks of the machine, since each publishes what it may use.
 *
 * Numbers are those of the kernel, as taskset and /proc use them. A core goes by its lowest hardware thread.
 */
#ifndef DDL_TOPO_CORES_H
#define DDL_TOPO_CORES_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#include "options.h"
#include "sysfs.h"

#define DDL__CORES_ENV     "DDL_PROGRESS_CORES"
#define DDL__CORES_TEXT    160  /* bytes of what ddl__cores_text() says, with NUL */
#define DDL__CPU_LIST_SIZE 1024 /* bytes of a list of hardware threads that is told, with NUL */

struct ddl__lie {                     /* how the hardware threads of a machine lie */
	uint16_t core[DDL__CPUS_MAX]; /* its core */
	int16_t numa[DDL__CPUS_MAX];  /* its NUMA node; -1 not known */
};

struct ddl__serving {           /* what is known of a rank of the machine */
	struct ddl__cpus may;   /* hardware threads that it may use */
	struct ddl__cpus named; /* of these the ones to choose from; none: by rule */
	int numa;               /* NUMA node of its first rail; -1 not known */
};

enum ddl__cores_how {
	DDL__CORES_NONE = 0,    /* no service threads */
	DDL__CORES_WHOLE = 1,   /* cores that nobody else needs */
	DDL__CORES_SIBLING = 2, /* second hardware threads of cores that the program needs */
	DDL__CORES_NAMED = 3,   /* of those that the user named */
	DDL__CORES_FREE = 4,    /* not bound: the user says so */
	DDL__CORES_SINGLE = 5,  /* not bound: the rank may use a single hardware thread */
	DDL__CORES_FEW = 6,     /* not bound: the ranks that share them need them all */
	DDL__CORES_REFUSED = 7, /* not bound: the kernel refused it */
	DDL__CORES_ALONE = 8,   /* no service threads: there is one rank */
};

struct ddl__cores {                        /* what was chosen */
	enum ddl__cores_how how;           /* and why */
	uint32_t n;                        /* hardware threads that were chosen; 0: not bound */
	uint32_t cpus[DDL__PROGRESS_MAX];  /* these */
	uint32_t cores[DDL__PROGRESS_MAX]; /* the cores they belong to */
	uint32_t usable, usable_cores;     /* hardware threads and cores that the rank may use */
	uint32_t ranks;                    /* that may use some of them, this one included */
};

/* Reads how the hardware threads of a set lie; what is not known is a core of its own. root: as in facts.h. */
void ddl__lie_read(const char *root, const struct ddl__cpus *cpus, struct ddl__lie *lie);

/*
 * Chooses for rank `me` of the n of its machine, each of which has up to `threads` (1 ... DDL__PROGRESS_MAX) service threads.
 * The same on whatever rank it is called: ranks choose one after the other.
 *
 * A rank's share of a core is one over the ranks that may use it. Where the shares make up a core for the program and one more,
 * that one is set aside, as many as asked for and as there are; where cores do not suffice, hardware threads are counted the same
 * way, and else the thread is not bound. Taken are, in this order: those that are taken least, those that the fewest ranks may
 * use, those on the NUMA node of the rail, the last.
 * Returns 0 or -ENOMEM.
 */
int ddl__cores_choose(const struct ddl__lie *lie, const struct ddl__serving *ranks, size_t n, size_t me, uint32_t threads,
		      struct ddl__cores *cores);

/* "hardware thread 7, a core of its own", or why there is none. Returns text, which has DDL__CORES_TEXT bytes. */
char *ddl__cores_text(const struct ddl__cores *cores, char *text);

/*
 * Reads what DDL_PROGRESS_CORES may be: "auto" (or NULL), "none", or a list such as 3,7-8, which serves a whole node: named are
 * those of it that the process may use. named is empty but for a list.
 * -EINVAL with a sentence, also where the process may use none of the list.
 */
int ddl__cores_named(const char *text, const struct ddl__cpus *may, struct ddl__cpus *named, struct ddl_error *err);

#endif
