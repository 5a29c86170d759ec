/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parent.h - the bootstrap of a communicator that is split from another: its ranks find each other by collectives on the parent.
 *
 * All ranks of the parent go through it together, those that will not belong to the new communicator too, and whatever fails on
 * one of them in between: open, fence, finish. A failure of one rank becomes that of all, with its sentence; so nobody waits for a
 * rank that has given up. When a collective on the parent itself fails, the parent is aborted, and all return with its error.
 */
#ifndef DDL_CORE_PARENT_H
#define DDL_CORE_PARENT_H

#include "boot.h"

/*
 * Groups the ranks by color, in the order of (key, rank in the parent).
 * rc       0, or what is wrong on this rank already, with its sentence in err
 * color    DDL_UNDEFINED: this rank takes part and belongs to no group
 * boot     on success; its rank and size are those in the group, its size 0 for a rank that belongs to none. The caller fills in
 *          job and secret. Calls ddl__parent_finish() and then close.
 * err      not NULL
 */
int ddl__parent_open(struct ddl_comm *parent, int rc, int color, int key, struct ddl__boot **boot, struct ddl_error *err);

/*
 * The end: whether the new communicators were made everywhere.
 * rc       how it went on this rank, with the sentence in err
 * Returns 0 if it went well on all ranks, else the failure of the lowest rank on which it did not.
 */
int ddl__parent_finish(struct ddl__boot *boot, int rc, struct ddl_error *err);

#endif
