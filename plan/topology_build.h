/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology_build.h - what all readers of topologies share: they describe switches, one call makes the tree. Inside of plan/ only.
 *
 * A description says what a line of Slurm says: a switch (or block), its child switches and its nodes as host lists. They may
 * come in any order, and one switch may be described several times where the reader allows it (addresses of nodes do so).
 */
#ifndef DDL_PLAN_TOPOLOGY_BUILD_H
#define DDL_PLAN_TOPOLOGY_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "topology.h"
#include "tree.h"

struct ddl__topology {
	const char *kind;         /* "tree", "block", "flat"; static */
	struct ddl__vertex *root; /* NULL: nothing is known of switches */
};

struct ddl__builder;

/* A builder without switches. NULL: no memory. Freed with ddl__builder_destroy(). */
struct ddl__builder *ddl__builder_create(void);
void ddl__builder_destroy(struct ddl__builder *builder);

/*
 * A switch: *id is its number from then on. line: where it stands, for sentences. again: whether it may have been described
 * before (then that number is given). Returns 0; -EBADMSG (described twice, or a name that is empty, too long or has blanks or
 * brackets); -ENOMEM.
 */
int ddl__builder_switch(struct ddl__builder *builder, const char *name, size_t length, size_t line, int again, size_t *id,
			struct ddl_error *err);

/* Sets a switch's link speed; Slurm's 1 (nothing was said) counts as not known. */
void ddl__builder_speed(struct ddl__builder *builder, size_t id, uint64_t speed);

/* Says that the switches or nodes of a host list hang below a switch. Returns 0; -EBADMSG; -ENOMEM. */
int ddl__builder_children(struct ddl__builder *builder, size_t id, const char *list, size_t length, size_t line,
			  struct ddl_error *err);
int ddl__builder_nodes(struct ddl__builder *builder, size_t id, const char *list, size_t length, size_t line,
		       struct ddl_error *err);

/*
 * Makes the topology. Switches that share a child become one; empty ones are left out; several tops get a root.
 * Returns 0; -EBADMSG (a child that is not described, a circle, too deep, too many); -ENOMEM.
 */
int ddl__builder_finish(struct ddl__builder *builder, const char *kind, struct ddl__topology **topology, struct ddl_error *err);

/* A topology of kind "flat". Returns 0 or -ENOMEM. */
int ddl__topology_create_flat(struct ddl__topology **topology, struct ddl_error *err);

#endif
