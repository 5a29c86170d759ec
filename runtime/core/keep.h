/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.h - what was measured, kept for the later steps of a job: a file in $XDG_CACHE_HOME/ddl (or ~/.cache/ddl) per job and set of
 * nodes. Files older than a day are removed in passing. What cannot be read or written is no failure: it is measured again.
 */
#ifndef DDL_CORE_KEEP_H
#define DDL_CORE_KEEP_H

#include "plan.h"
#include "tuning.h"

/* Reads what was kept for the job, nodes and tasks of a plan (and its text) as text with NUL, at most size bytes; "": nothing. */
void ddl__keep_read(const struct ddl__plan *plan, const char *plan_text, char *text, size_t size);

/* Keeps it. */
void ddl__keep_write(const struct ddl__plan *plan, const char *plan_text, const struct ddl__tuning *tuning);

#endif
