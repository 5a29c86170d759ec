/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - `ddl trace merge`: the trace files of a job's ranks as one that Perfetto and Chrome read.
 *
 * Each file holds one event a line, sorted by time (engine/trace.h), so the files are merged as they are read, through a heap of
 * their next lines: memory does not grow with their size. A file that is broken or cut counts as far as it is good, and a sentence
 * says so.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <jansson.h>

#include "tools.h"
#include "trace.h"

#define TOOL      "trace"
#define LINE_MAX_ 65536 /* bytes of an event: longer ones are none of ours */
#define MERGED    "ddl-trace-merged-1"

static const struct ddl__help help[] = {
	{ "-o, --output FILE", "where to write; default: DIR/trace.json" },
	{ "--help", "this text" },
	{ NULL, NULL },
};

struct source { /* a rank's file */
	char *path;
	FILE *in;
	json_t *head;      /* its otherData */
	const char *job;   /* in head */
	json_int_t rank;   /* in head */
	size_t pid;        /* in the merged trace */
	unsigned long row; /* lines read so far */
	json_t *event;     /* the next one; NULL: at its end */
	double time;       /* of it */
};

struct merge {
	struct source *sources;
	size_t n;
	struct source **heap; /* of those that have an event, the earliest first */
	size_t n_heap;
	size_t events; /* written */
};

/* ---- reading a file ---- */

static void end_source(struct source *s, const char *why)
{
	if (why)
		fprintf(stderr, "ddl trace: %s %s at line %lu: what comes before counts\n", s->path, why, s->row);
	fclose(s->in);
	s->in = NULL;
}

/* Reads a line without its end and the comma there. False at the end of the file, or with a line that is too long. */
static bool read_line(struct source *s, char *line)
{
	if (!fgets(line, LINE_MAX_, s->in))
		return false;
	s->row++;
	size_t length = strlen(line);
	if (length == 0 || line[length - 1] != '\n')
		return false;
	line[--length] = '\0';
	if (length > 0 && line[length - 1] == ',')
		line[length - 1] = '\0';
	return true;
}

/* The next event of a file into s->event. */
static void next_event(struct source *s)
{
	char line[LINE_MAX_];
	const json_t *time;

	s->event = NULL;
	if (!s->in)
		return;
	if (!read_line(s, line)) {
		end_source(s, "is cut");
		return;
	}
	if (strcmp(line, "]}") == 0) {
		end_source(s, NULL);
		return;
	}
	s->event = json_loads(line, 0, NULL);
	time = json_object_get(s->event, "ts");
	s->time = json_is_number(time) ? json_number_value(time) : -HUGE_VAL; /* names come first */
	if (json_is_object(s->event) && json_is_string(json_object_get(s->event, "ph")) && (!time || json_is_number(time)))
		return;
	json_decref(s->event);
	s->event = NULL;
	end_source(s, "is broken");
}

/* The first line. False, with a sentence: it is no trace of a rank. */
static bool read_head(struct source *s)
{
	char line[LINE_MAX_ + 2];
	json_t *whole;
	const char *format;

	whole = read_line(s, line) ? json_loads(strcat(line, "]}"), 0, NULL) : NULL;
	s->head = json_incref(json_object_get(whole, "otherData"));
	json_decref(whole);
	format = json_string_value(json_object_get(s->head, "format"));
	s->job = json_string_value(json_object_get(s->head, "job"));
	s->rank = json_integer_value(json_object_get(s->head, "rank"));
	if (format && strcmp(format, DDL__TRACE_FORMAT) == 0 && s->job && s->rank >= 0)
		return true;
	fprintf(stderr, "ddl trace: %s is left out: it is no trace that a rank wrote\n", s->path);
	return false;
}

static void source_fini(struct source *s)
{
	if (s->in)
		fclose(s->in);
	json_decref(s->event);
	json_decref(s->head);
	free(s->path);
}

/* ---- finding them ---- */

static int is_trace(const struct dirent *entry)
{
	const size_t length = strlen(entry->d_name);

	return strncmp(entry->d_name, "ddl-", 4) == 0 && length > 9 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static bool open_source(struct source *s, const char *folder, const char *name)
{
	memset(s, 0, sizeof(*s));
	if (asprintf(&s->path, "%s/%s", folder, name) < 0) {
		s->path = NULL;
		return false;
	}
	s->in = fopen(s->path, "re");
	if (!s->in)
		fprintf(stderr, "ddl trace: %s is left out: %s\n", s->path, strerror(errno));
	if (s->in && read_head(s))
		return true;
	source_fini(s);
	return false;
}

static int by_rank(const void *a, const void *b)
{
	const struct source *x = a, *y = b;
	const int jobs = strcmp(x->job, y->job);

	return jobs ? jobs : x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Each file stays open: as many as the system allows. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int open_sources(struct merge *m, const char *folder)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, is_trace, alphasort);

	if (n < 0)
		return ddl__failed(TOOL, "the folder %s cannot be read: %s", folder, strerror(errno));
	raise_limit();
	m->sources = calloc((size_t)n + 1, sizeof(*m->sources));
	m->heap = calloc((size_t)n + 1, sizeof(struct source *));
	for (int i = 0; i < n; i++) {
		if (m->sources && m->heap && open_source(&m->sources[m->n], folder, entries[i]->d_name))
			m->n++;
		free(entries[i]);
	}
	free(entries);
	if (!m->sources || !m->heap)
		return ddl__failed(TOOL, "no memory");
	if (m->n == 0)
		return ddl__failed(TOOL, "%s has no traces: they are files ddl-JOB-RANK.json, which a job writes with DDL_TRACE=%s",
				   folder, folder);
	qsort(m->sources, m->n, sizeof(*m->sources), by_rank);
	for (size_t i = 0; i < m->n; i++)
		m->sources[i].pid = i;
	return DDL__EXIT_GOOD;
}

/* ---- merging ---- */

static bool is_before(const struct source *a, const struct source *b)
{
	return a->time < b->time || (a->time == b->time && a->pid < b->pid);
}

static void swap(struct source **a, struct source **b)
{
	struct source *t = *a;

	*a = *b;
	*b = t;
}

static void sink(struct merge *m, size_t i)
{
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < m->n_heap; child++)
			if (is_before(m->heap[child], m->heap[least]))
				least = child;
		if (least == i)
			return;
		swap(&m->heap[i], &m->heap[least]);
		i = least;
	}
}

static bool is_named(const struct source *s, const char *name)
{
	const char *event = json_string_value(json_object_get(s->event, "name"));
	const char *kind = json_string_value(json_object_get(s->event, "ph"));

	return event && kind && *kind == 'M' && strcmp(event, name) == 0;
}

/* Several communicators in one folder have ranks of the same numbers: processes get new numbers, and the job into their names. */
static void renumber(const struct merge *m, struct source *s)
{
	const char *node = json_string_value(json_object_get(s->head, "node"));
	const bool one_job = strcmp(m->sources[0].job, m->sources[m->n - 1].job) == 0;

	json_object_set_new(s->event, "pid", json_integer((json_int_t)s->pid));
	if (is_named(s, "process_name"))
		json_object_set_new(s->event, "args",
				    json_pack("{so}", "name",
					      json_sprintf("rank %d (%s)%s%s", (int)s->rank, node ? node : "?",
							   one_job ? "" : " of ", one_job ? "" : s->job)));
	else if (is_named(s, "process_sort_index"))
		json_object_set_new(s->event, "args", json_pack("{sI}", "sort_index", (json_int_t)s->pid));
}

static void write_head(const struct merge *m, FILE *out)
{
	json_t *ranks = json_array(), *head = json_pack("{ss so}", "format", MERGED, "files", ranks);
	char *text;

	for (size_t i = 0; i < m->n; i++)
		json_array_append(ranks, m->sources[i].head);
	text = json_dumps(head, JSON_COMPACT);
	fprintf(out, "{\"otherData\":%s,\"traceEvents\":[", text ? text : "{}");
	free(text);
	json_decref(head);
}

static void write_events(struct merge *m, FILE *out)
{
	for (size_t i = 0; i < m->n; i++) {
		next_event(&m->sources[i]);
		if (m->sources[i].event)
			m->heap[m->n_heap++] = &m->sources[i];
	}
	for (size_t i = m->n_heap; i-- > 0;)
		sink(m, i);
	while (m->n_heap > 0) {
		struct source *s = m->heap[0];
		char *text;

		renumber(m, s);
		text = json_dumps(s->event, JSON_COMPACT | JSON_REAL_PRECISION(16));
		fprintf(out, "%s\n%s", m->events++ ? "," : "", text ? text : "{}");
		free(text);
		json_decref(s->event);
		next_event(s);
		if (!s->event)
			m->heap[0] = m->heap[--m->n_heap];
		sink(m, 0);
	}
	fprintf(out, "\n]}\n");
}

static json_int_t sum_of(const struct merge *m, const char *key, bool largest)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < m->n; i++) {
		const json_int_t value = json_integer_value(json_object_get(m->sources[i].head, key));

		sum = largest ? (value > sum ? value : sum) : sum + value;
	}
	return sum;
}

static int write_merged(struct merge *m, const char *path)
{
	FILE *out = fopen(path, "we");
	bool failed;

	if (!out)
		return ddl__failed(TOOL, "%s cannot be written: %s", path, strerror(errno));
	write_head(m, out);
	write_events(m, out);
	failed = ferror(out);
	if (fclose(out) != 0 || failed)
		return ddl__failed(TOOL, "%s could not be written: is the disk full?", path);
	printf("%s: %zu events of %zu ranks; their clocks agree within %.1f us; %lld spans had been dropped (DDL_TRACE_SIZE)\n",
	       path, m->events, m->n, (double)sum_of(m, "clock_error_ns", true) / 1000, (long long)sum_of(m, "dropped", false));
	return DDL__EXIT_GOOD;
}

static int merge(const char *folder, const char *output)
{
	struct merge m = { 0 };
	char *path = NULL;
	int status = open_sources(&m, folder);

	if (status == DDL__EXIT_GOOD && !output && asprintf(&path, "%s/trace.json", folder) < 0)
		status = ddl__failed(TOOL, "no memory");
	if (status == DDL__EXIT_GOOD)
		status = write_merged(&m, output ? output : path);
	for (size_t i = 0; i < m.n; i++)
		source_fini(&m.sources[i]);
	free(m.sources);
	free(m.heap);
	free(path);
	return status;
}

int ddl_tool_trace(int argc, char **argv)
{
	static const struct option options[] = { { "output", required_argument, NULL, 'o' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	const char *output = NULL;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			output = optarg;
			break;
		case 'h':
			ddl__help_print(stdout, "ddl trace merge DIR [-o FILE]",
					"Merges the traces that ranks wrote into DIR (DDL_TRACE) into one for Perfetto or Chrome.",
					help);
			return DDL__EXIT_GOOD;
		default:
			return ddl__usage_getopt(TOOL, option, optind, argv);
		}
	}
	if (argc - optind != 2 || strcmp(argv[optind], "merge") != 0)
		return ddl__usage(TOOL, "give what to do and where: ddl trace merge DIR; `ddl trace --help` tells more");
	return merge(argv[optind + 1], output);
}
