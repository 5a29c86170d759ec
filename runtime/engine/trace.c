/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - a ring of spans in memory, written out when the communicator is destroyed.
 */
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "error.h"
#include "log.h"

enum { SPANS = 65536 };

struct span {
	uint64_t start_ns, end_ns; /* monotonic clock */
	uint32_t request;          /* id */
	struct ddl__call call;
};

struct ddl__trace {
	FILE *file;
	int rank;
	uint64_t n; /* spans ever recorded */
	struct span *spans;
};

int ddl__trace_open(const char *folder, const char *job, int rank, struct ddl__trace **trace, struct ddl_error *err)
{
	char path[1024], name[80];
	snprintf(name, sizeof(name), "%s", job && *job ? job : "local");
	for (char *c = name; *c; c++)
		if (*c == '/')
			*c = '_';
	snprintf(path, sizeof(path), "%s/ddl-%s-%d.json", folder, name, rank);
	struct ddl__trace *t = calloc(1, sizeof(*t));
	if (!t)
		return ddl__error_set(err, -ENOMEM, "out of memory for the trace");
	t->rank = rank;
	t->spans = calloc(SPANS, sizeof(*t->spans));
	t->file = t->spans ? fopen(path, "we") : NULL;
	if (!t->spans || !t->file) {
		int code = t->spans ? errno : ENOMEM;
		free(t->spans);
		free(t);
		return ddl__error_set(err, -code, "the trace %s cannot be written: %s; make the folder or leave trace= out", path,
				      strerror(code));
	}
	*trace = t;
	return 0;
}

void ddl__trace_span(struct ddl__trace *trace, const struct ddl_request *request)
{
	if (!trace)
		return;
	trace->spans[trace->n++ % SPANS] = (struct span){ request->started_ns, ddl__now_ns(), request->id, request->call };
}

void ddl__trace_close(struct ddl__trace *trace)
{
	if (!trace)
		return;
	uint64_t first = trace->n > SPANS ? trace->n - SPANS : 0;
	fprintf(trace->file, "{\"traceEvents\":[");
	for (uint64_t i = first; i < trace->n; i++) {
		const struct span *s = &trace->spans[i % SPANS];
		char call[160];
		ddl__call_describe(&s->call, call, sizeof(call));
		fprintf(trace->file, "%s\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
			i > first ? "," : "", call, trace->rank, s->request, (double)s->start_ns / 1e3,
			(double)(s->end_ns - s->start_ns) / 1e3);
	}
	fprintf(trace->file, "\n]}\n");
	bool failed = ferror(trace->file); /* then the last flush may find nothing that it could fail on */
	if (fclose(trace->file) != 0 || failed)
		ddl__log(DDL__LOG_WARNING, "the trace of rank %d is incomplete: it could not be written; is the disk full?",
			 trace->rank);
	free(trace->spans);
	free(trace);
}
