/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - see trace.h. */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "engine.h"
#include "error.h"
#include "log.h"
#include "schedule.h"

enum {
	NAMES_MAX = 16384, /* requests that are told apart by what they do; later ones have a number only */
	TRACKS = 1024,     /* of a request: itself, and its lanes; those beyond share the last */
	NODE_SIZE = 64,
	FOLDER_SIZE = 1024,
};

struct ddl__trace {
	FILE *file;
	char folder[FOLDER_SIZE], job[80], node[NODE_SIZE];
	int rank, ranks;
	int64_t ahead_ns;
	uint64_t error_ns;
	uint64_t job_hash;               /* tells arrows of communicators apart */
	uint64_t n;                      /* events ever recorded */
	size_t room;                     /* events that are kept */
	struct ddl__trace_event *events; /* a ring */
	struct ddl__call *names;
	uint32_t n_names, room_names;
	uint64_t n_written; /* events recorded when the file was written last */
	bool failed;        /* to write: said once */
};

int ddl__trace_open(const struct ddl_comm *comm, const char *folder, const char *job, int megabytes, struct ddl__trace **trace,
		    struct ddl_error *err)
{
	char path[FOLDER_SIZE + 128];
	struct ddl__trace *t = calloc(1, sizeof(*t));
	if (!t)
		return ddl__error_set(err, -ENOMEM, "out of memory for the trace");
	snprintf(t->folder, sizeof(t->folder), "%s", folder);
	snprintf(t->job, sizeof(t->job), "%s", job && *job ? job : "local");
	for (char *c = t->job; *c; c++)
		if (*c == '/' || *c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = '_';
	for (const char *c = t->job; *c; c++)
		t->job_hash = t->job_hash * 31 + (unsigned char)*c;
	snprintf(t->node, sizeof(t->node), "%.63s", ddl_comm_node_name(comm, comm->rank));
	snprintf(path, sizeof(path), "%s/ddl-%s-%d.json", folder, t->job, comm->rank);
	t->rank = comm->rank;
	t->ranks = comm->size;
	t->room = (size_t)megabytes * 1024 * 1024 / sizeof(*t->events);
	t->events = malloc(t->room * sizeof(*t->events)); /* pages come as they are used */
	t->file = t->events ? fopen(path, "we") : NULL;
	if (!t->events || !t->file) {
		int code = t->events ? errno : ENOMEM;
		free(t->events);
		free(t);
		return ddl__error_set(err, -code, "the trace %s cannot be written: %s; make the folder or leave trace= out", path,
				      strerror(code));
	}
	*trace = t;
	return 0;
}

void ddl__trace_clock(struct ddl__trace *trace, int64_t ahead_ns, uint64_t error_ns)
{
	trace->ahead_ns = ahead_ns;
	trace->error_ns = error_ns;
}

uint32_t ddl__trace_name(struct ddl__trace *t, const struct ddl__call *call)
{
	if (!t)
		return 0;
	if (t->n_names == t->room_names && t->room_names < NAMES_MAX) {
		uint32_t room = t->room_names ? t->room_names * 2 : 64;
		struct ddl__call *more = realloc(t->names, room * sizeof(*more));
		if (more) {
			t->names = more;
			t->room_names = room;
		}
	}
	if (t->n_names < t->room_names)
		t->names[t->n_names] = *call;
	return t->n_names++;
}

void ddl__trace_add(struct ddl__trace *trace, const struct ddl__trace_event *event)
{
	trace->events[trace->n++ % trace->room] = *event;
}

const char *ddl__trace_folder(const struct ddl__trace *trace)
{
	return trace->folder;
}

/* ---- the file ---- */

static uint32_t track_of(const struct ddl__trace_event *e)
{
	uint32_t lane = e->kind == DDL__SPAN_REQUEST ? 0 : e->lane + 1 < TRACKS ? e->lane + 1 : TRACKS - 1;
	return (e->request % (UINT32_MAX / TRACKS - 1) + 1) * TRACKS + lane;
}

static const char *name_of(const struct ddl__trace *t, uint32_t request, char *text, size_t size)
{
	if (request < t->n_names && request < t->room_names)
		ddl__call_describe(&t->names[request], text, size);
	else
		snprintf(text, size, "request");
	return text;
}

/* Times in microseconds, as the format wants them, of rank 0's clock. */
static void print_times(const struct ddl__trace *t, const struct ddl__trace_event *e)
{
	const int64_t begin = (int64_t)e->begin_ns - t->ahead_ns;
	const uint64_t lasted = e->end_ns > e->begin_ns ? e->end_ns - e->begin_ns : 0, size = (uint64_t)llabs(begin);
	fprintf(t->file, "\"ts\":%s%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u", begin < 0 ? "-" : "", size / 1000,
		(unsigned)(size % 1000), lasted / 1000, (unsigned)(lasted % 1000));
}

/* The end of an arrow, which both ranks must name alike: a slice of a lane of a start. */
static void print_arrow(const struct ddl__trace *t, const struct ddl__trace_event *e, bool sent)
{
	const int64_t begin = (int64_t)e->begin_ns - t->ahead_ns;
	const int from = sent ? t->rank : e->from, to = sent ? e->to : t->rank;
	const uint32_t parts[] = { e->id, e->start, e->number, (uint32_t)from, (uint32_t)to, sent ? e->sent : e->received };
	uint64_t hash = t->job_hash;
	if (begin < 0)
		return;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash = (hash ^ parts[i]) * 0x9e3779b97f4a7c15u + (hash >> 29);
	fprintf(t->file,
		",\n{\"ph\":\"%s\",\"cat\":\"slice\",\"name\":\"slice\",\"id\":\"%" PRIx64
		"\",\"pid\":%d,\"tid\":%u,\"ts\":%" PRIu64 ".%03u%s}",
		sent ? "s" : "f", hash, t->rank, track_of(e), (uint64_t)begin / 1000, (unsigned)(begin % 1000),
		sent ? "" : ",\"bp\":\"e\"");
}

static void print_event(const struct ddl__trace *t, const struct ddl__trace_event *e)
{
	static const char *const waits[] = { [DDL__SPAN_DATA] = "waits for data",
					     [DDL__SPAN_CREDIT] = "waits for room",
					     [DDL__SPAN_LANE] = "waits for another lane" };
	char text[192];
	fprintf(t->file, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,", t->rank, track_of(e));
	print_times(t, e);
	if (e->kind == DDL__SPAN_REQUEST) {
		fprintf(t->file, ",\"cat\":\"request\",\"name\":\"%s\",\"args\":{\"request\":%u,\"start\":%u}}",
			name_of(t, e->request, text, sizeof(text)), DDL__REQUEST_NUMBER(e->id), e->start);
		return;
	}
	if (e->kind == DDL__SPAN_WORK)
		fprintf(t->file, ",\"cat\":\"work\",\"name\":\"%s\",\"args\":{\"bytes\":%u,", ddl__step_name(e->step), e->bytes);
	else
		fprintf(t->file, ",\"cat\":\"wait\",\"name\":\"%s\",\"args\":{", waits[e->kind]);
	if (e->from >= 0)
		fprintf(t->file, "\"from\":%d,", e->from);
	if (e->to >= 0)
		fprintf(t->file, "\"to\":%d,", e->to);
	fprintf(t->file, "\"level\":%u,\"start\":%u}}", e->level, e->start);
	if (e->sent)
		print_arrow(t, e, true);
	if (e->received)
		print_arrow(t, e, false);
}

static int by_track(const void *a, const void *b)
{
	const struct ddl__trace_event *const *x = a, *const *y = b;
	const uint32_t tx = track_of(*x), ty = track_of(*y);
	return tx < ty ? -1 : tx > ty;
}

static int by_begin(const void *a, const void *b)
{
	const struct ddl__trace_event *const *x = a, *const *y = b;
	return (*x)->begin_ns < (*y)->begin_ns ? -1 : (*x)->begin_ns > (*y)->begin_ns;
}

static void print_track(const struct ddl__trace *t, const struct ddl__trace_event *e)
{
	char text[192];
	fprintf(t->file, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"", t->rank,
		track_of(e));
	if (e->kind == DDL__SPAN_REQUEST) {
		fprintf(t->file, "request %u: %s", DDL__REQUEST_NUMBER(e->id), name_of(t, e->request, text, sizeof(text)));
	} else {
		fprintf(t->file, "request %u lane %u:", DDL__REQUEST_NUMBER(e->id), e->lane);
		if (e->from >= 0)
			fprintf(t->file, " from rank %d", e->from);
		if (e->to >= 0)
			fprintf(t->file, " to rank %d", e->to);
		fprintf(t->file, " (level %u)", e->level);
	}
	fprintf(t->file, "\"}}");
}

static void print_head(const struct ddl__trace *t, size_t kept)
{
	fprintf(t->file,
		"{\"otherData\":{\"format\":\"" DDL__TRACE_FORMAT "\",\"job\":\"%s\",\"rank\":%d,\"ranks\":%d,\"node\":\"%s\","
		"\"clock_ahead_ns\":%" PRId64 ",\"clock_error_ns\":%" PRIu64 ",\"spans\":%zu,\"dropped\":%" PRIu64
		"},\"traceEvents\":[\n",
		t->job, t->rank, t->ranks, t->node, t->ahead_ns, t->error_ns, kept, t->n - kept);
	fprintf(t->file, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d (%s)\"}},\n", t->rank,
		t->rank, t->node);
	fprintf(t->file, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", t->rank,
		t->rank);
}

static void print_all(const struct ddl__trace *t, const struct ddl__trace_event **sorted, size_t kept)
{
	for (size_t i = 0; i < kept; i++)
		sorted[i] = &t->events[i];
	print_head(t, kept);
	qsort(sorted, kept, sizeof(*sorted), by_track);
	for (size_t i = 0; i < kept; i++)
		if (i == 0 || track_of(sorted[i]) != track_of(sorted[i - 1]))
			print_track(t, sorted[i]);
	qsort(sorted, kept, sizeof(*sorted), by_begin);
	for (size_t i = 0; i < kept; i++)
		print_event(t, sorted[i]);
	fprintf(t->file, "\n]}\n");
}

void ddl__trace_write(struct ddl__trace *t)
{
	if (!t || (t->n_written == t->n && t->n))
		return;
	const size_t kept = t->n < t->room ? (size_t)t->n : t->room;
	const struct ddl__trace_event **sorted = malloc((kept + 1) * sizeof(struct ddl__trace_event *));
	rewind(t->file);
	bool good = sorted && ftruncate(fileno(t->file), 0) == 0;
	if (good)
		print_all(t, sorted, kept);
	free(sorted);
	good = good && !ferror(t->file);
	good = fflush(t->file) == 0 && good;
	if (!good && !t->failed)
		ddl__log(DDL__LOG_WARNING, "the trace of rank %d is incomplete: it could not be written; is the disk full?",
			 t->rank);
	t->failed |= !good;
	t->n_written = good ? t->n : 0;
}

void ddl__trace_close(struct ddl__trace *t)
{
	if (!t)
		return;
	ddl__trace_write(t);
	fclose(t->file);
	free(t->events);
	free(t->names);
	free(t);
}
