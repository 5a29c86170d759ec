/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - when each request was started and completed, as Chrome/Perfetto JSON, one file a rank. Bounded: the newest spans are
 * kept.
 */
#ifndef DDL_ENGINE_TRACE_H
#define DDL_ENGINE_TRACE_H

#include <ddl/error.h>

struct ddl__trace;
struct ddl_request;

/* folder must exist. The file ddl-JOB-RANK.json is written by close. -ENOMEM; -ENOENT and the like when it cannot be written. */
int ddl__trace_open(const char *folder, const char *job, int rank, struct ddl__trace **trace, struct ddl_error *err);

/* Records a start that is complete now. trace NULL does nothing. The engine's lock is held. */
void ddl__trace_span(struct ddl__trace *trace, const struct ddl_request *request);

/* Writes the file and frees. NULL does nothing. */
void ddl__trace_close(struct ddl__trace *trace);

#endif
