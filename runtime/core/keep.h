/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.h - what was measured, kept for later jobs and steps on the same nodes: a file in $XDG_CACHE_HOME/ddl (or ~/.cache/ddl) per
 * set of nodes with their tasks. Files older than a week are removed in passing. What cannot be read or written is no failure: it
 * is measured again.
 */
#ifndef DDL_CORE_KEEP_H
#define DDL_CORE_KEEP_H

#include "tuning.h"

/* Reads what was kept for the nodes and tasks of a plan's text as text with NUL, at most size bytes; "": nothing. */
void ddl__keep_read(const char *plan_text, char *text, size_t size);

/* Keeps it. */
void ddl__keep_write(const char *plan_text, const struct ddl__tuning *tuning);

#endif
