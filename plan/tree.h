/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - vertices of a topology or plan, and the rules for their names. Inside of plan/ only.
 *
 * A tree is owned from the top: destroying a vertex destroys what is below. All walks recurse; the depth is bounded by
 * DDL__PLAN_DEPTH_MAX switches because every maker of trees refuses deeper ones.
 */
#ifndef DDL_PLAN_TREE_H
#define DDL_PLAN_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "plan.h"

#define DDL__VERTICES_MAX 262144u  /* of one plan or topology */
#define DDL__FABRIC       "fabric" /* the root where nothing is known, or where the tree has several tops */

/* A vertex without children, whose name is a copy of length bytes. NULL: no memory. */
struct ddl__vertex *ddl__vertex_create(const char *name, size_t length);

/* Hangs child below parent, last; from then on parent owns it. Returns 0 or -ENOMEM (child is still the caller's). */
int ddl__vertex_add(struct ddl__vertex *parent, struct ddl__vertex *child);

/* Frees a vertex and all below it. NULL does nothing. */
void ddl__vertex_destroy(struct ddl__vertex *vertex);

/* Sorts the children of every vertex by name, in natural order. */
void ddl__vertex_sort(struct ddl__vertex *vertex);

/* Switches on the longest way down, 0 for a node. */
size_t ddl__vertex_depth(const struct ddl__vertex *vertex);

/* Nodes below (a node counts itself). */
size_t ddl__vertex_count(const struct ddl__vertex *vertex);

/* Writes the nodes below to nodes, left to right, from index n on. Returns n plus their number. */
size_t ddl__vertex_collect(struct ddl__vertex *vertex, struct ddl__vertex **nodes, size_t n);

/* Whether a byte stands for itself in the plan's text; all others are escaped. */
int ddl__name_plain(char c);

/* Whether all bytes of a name do; 0 also for an empty name, one that is too long, and (a node's) one with '/'. */
int ddl__node_name_valid(const char *name);

/*
 * Checks that n node names are valid and differ, in O(n log n). Returns 0; code with a sentence; -ENOMEM.
 */
int ddl__names_check(const char *const *names, size_t n, int code, struct ddl_error *err);

#endif
