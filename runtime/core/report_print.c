/* SPDX-License-Identifier: Apache-2.0 */
/* report_print.c - see report_print.h. */
#include "report_print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "log.h"
#include "origin.h"
#include "stats.h"

_Static_assert(sizeof(struct ddl_stats) == DDL__REPORT_PART * sizeof(uint64_t), "a struct of figures alone");

enum { SENT = 0, RECEIVED = 1, WAIT_DATA = 4, WAIT_CREDIT = 5, WAIT_LANE = 6, REDUCE = 7, COPY = 8 };

static const char *const figures[DDL__REPORT_PART] = { "bytes_sent",      "bytes_received", "slices_sent",
						       "slices_received", "wait_data_ns",   "wait_credit_ns",
						       "wait_lane_ns",    "reduce_ns",      "copy_ns" };

/* The communicator's name, fit for a file's name and for JSON. */
static const char *job_of(const struct ddl_comm *comm, char *text, size_t size)
{
	snprintf(text, size, "%s", *comm->origin->job ? comm->origin->job : "local");
	for (char *c = text; *c; c++)
		if (*c == '/' || *c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = '_';
	return text;
}

static const char *what_of(const struct ddl_comm *comm, size_t row, char *text, size_t size)
{
	if (row == DDL__ROW_SENDS || row == DDL__ROW_RECEIVES)
		snprintf(text, size, row == DDL__ROW_SENDS ? "messages sent" : "messages received");
	else
		ddl__call_describe(&comm->stats->rows[row].call, text, size);
	return text;
}

/* ---- the table ---- */

static char *bytes_text(int64_t bytes, char *text, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double value = (double)bytes;
	size_t unit = 0;
	for (; value >= 1024 && unit < 5; unit++)
		value /= 1024;
	snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return text;
}

/* "1.20 ... 3.40", in ms. */
static char *range_text(int64_t least, int64_t most, char *text, size_t size)
{
	snprintf(text, size, "%.2f ... %.2f", (double)least / 1e6, (double)most / 1e6);
	return text;
}

/* One line of figures: least and most over the ranks, or where one rank tells its own the two are the same. */
static void print_part(FILE *out, const struct ddl__report_rows *rows, size_t at, const char *name)
{
	char sent[24], received[24], data[48], credit[48], lane[48], reduce[48], copy[48];
	const int64_t *least = rows->least + at, *most = rows->most + at;
	fprintf(out, "ddl:   %-8s %11s %11s  %-20s %-20s %-20s %-20s %-20s\n", name, bytes_text(most[SENT], sent, sizeof(sent)),
		bytes_text(most[RECEIVED], received, sizeof(received)),
		range_text(least[WAIT_DATA], most[WAIT_DATA], data, sizeof(data)),
		range_text(least[WAIT_CREDIT], most[WAIT_CREDIT], credit, sizeof(credit)),
		range_text(least[WAIT_LANE], most[WAIT_LANE], lane, sizeof(lane)),
		range_text(least[REDUCE], most[REDUCE], reduce, sizeof(reduce)),
		range_text(least[COPY], most[COPY], copy, sizeof(copy)));
}

static bool is_empty(const struct ddl__report_rows *rows, size_t at)
{
	return rows->most[at + SENT] == 0 && rows->most[at + RECEIVED] == 0 && rows->most[at + WAIT_DATA] == 0 &&
	       rows->most[at + WAIT_CREDIT] == 0;
}

static void print_row(FILE *out, const struct ddl_comm *comm, const struct ddl__report_rows *rows, size_t row)
{
	const size_t at = row * rows->width;
	const int64_t *least = rows->least + at, *most = rows->most + at, starts = most[DDL__REPORT_STARTS];
	const unsigned n_levels = comm->stats->n_levels, n_rails = comm->stats->n_rails;
	char what[192], times[48], name[24];
	size_t part = at + DDL__REPORT_TIMES;
	if (starts == 0)
		return;
	fprintf(out, "ddl: %s, %" PRId64 " start%s: %s ms in all, %.3f ... %.3f ms each", what_of(comm, row, what, sizeof(what)),
		starts, starts == 1 ? "" : "s", range_text(least[DDL__REPORT_TOTAL], most[DDL__REPORT_TOTAL], times, sizeof(times)),
		(double)least[DDL__REPORT_SHORTEST] / 1e6, (double)most[DDL__REPORT_LONGEST] / 1e6);
	if (most[DDL__REPORT_ALONE])
		fprintf(out, ", alone %.3f ms", (double)most[DDL__REPORT_ALONE] / 1e6);
	if (!rows->of_one && least[DDL__REPORT_LEAST] != INT64_MAX && comm->size > 1 && row >= DDL__ROW_COLLECTIVES) {
		int rank = (int)(least[DDL__REPORT_LEAST] & ((1 << DDL__REPORT_RANK_BITS) - 1));
		fprintf(out, "; rank %d on node %s waited the least: the others may wait for it", rank,
			ddl_comm_node_name(comm, rank));
	}
	fputc('\n', out);
	print_part(out, rows, part, "all");
	for (unsigned l = 0; l < n_levels + n_rails; l++) {
		part += DDL__REPORT_PART;
		snprintf(name, sizeof(name), l < n_levels ? "level %u" : "rail %u", l < n_levels ? l : l - n_levels);
		if (!is_empty(rows, part) && (l < n_levels ? n_levels > 2 || comm->plan->n_nodes > 1 : n_rails > 1))
			print_part(out, rows, part, name);
	}
}

static void print_table(FILE *out, const struct ddl_comm *comm, const struct ddl__report_rows *rows)
{
	char job[80];
	fprintf(out, "ddl: statistics of communicator %s, %d ranks; times in ms, %s\n", job_of(comm, job, sizeof(job)), comm->size,
		rows->of_one ? "of rank 0 alone, since the communicator has failed" : "least ... most over the ranks; most bytes");
	fprintf(out, "ddl:   %-8s %11s %11s  %-20s %-20s %-20s %-20s %-20s\n", "", "sent", "received", "wait for data",
		"wait for room", "wait for own lane", "reduce", "copy");
	for (size_t row = 0; row < rows->n; row++)
		print_row(out, comm, rows, row);
}

/* ---- JSON ---- */

static void print_figures(FILE *out, const int64_t *part)
{
	for (size_t i = 0; i < DDL__REPORT_PART; i++)
		fprintf(out, "%s\"%s\":%" PRId64, i ? "," : "", figures[i], part[i]);
}

static void json_part(FILE *out, const struct ddl__report_rows *rows, size_t at)
{
	fprintf(out, "{\"least\":{");
	print_figures(out, rows->least + at);
	fprintf(out, "},\"most\":{");
	print_figures(out, rows->most + at);
	fprintf(out, "},\"sum\":{");
	print_figures(out, rows->sum + at);
	fprintf(out, "}}");
}

static void json_row(FILE *out, const struct ddl_comm *comm, const struct ddl__report_rows *rows, size_t row)
{
	static const char *const times[] = { "starts", "total_ns", "shortest_ns", "longest_ns", "alone_ns" };
	const size_t at = row * rows->width;
	const unsigned n_levels = comm->stats->n_levels, n_rails = comm->stats->n_rails;
	char what[192];
	size_t part = at + DDL__REPORT_TIMES;
	fprintf(out, "{\"what\":\"%s\"", what_of(comm, row, what, sizeof(what)));
	for (size_t i = 0; i < DDL__REPORT_LEAST; i++)
		fprintf(out, ",\"%s\":{\"least\":%" PRId64 ",\"most\":%" PRId64 ",\"sum\":%" PRId64 "}", times[i],
			rows->least[at + i], rows->most[at + i], rows->sum[at + i]);
	if (!rows->of_one && rows->least[at + DDL__REPORT_LEAST] != INT64_MAX)
		fprintf(out, ",\"waited_least\":%" PRId64,
			rows->least[at + DDL__REPORT_LEAST] & ((1 << DDL__REPORT_RANK_BITS) - 1));
	fprintf(out, ",\"all\":");
	json_part(out, rows, part);
	fprintf(out, ",\"levels\":[");
	for (unsigned l = 0; l < n_levels + n_rails; l++) {
		part += DDL__REPORT_PART;
		fprintf(out, "%s", l == 0 ? "" : l == n_levels ? "],\"rails\":[" : ",");
		json_part(out, rows, part);
	}
	fprintf(out, "]}");
}

static void print_json(FILE *out, const struct ddl_comm *comm, const struct ddl__report_rows *rows)
{
	bool first = true;
	char job[80];
	fprintf(out, "{\"format\":\"ddl-stats-1\",\"communicator\":\"%s\",\"ranks\":%d,\"of_rank_0_alone\":%s,\"requests\":[",
		job_of(comm, job, sizeof(job)), comm->size, rows->of_one ? "true" : "false");
	for (size_t row = 0; row < rows->n; row++) {
		if (rows->most[row * rows->width + DDL__REPORT_STARTS] == 0)
			continue;
		fprintf(out, "%s\n", first ? "" : ",");
		json_row(out, comm, rows, row);
		first = false;
	}
	fprintf(out, "],\"peers\":[");
	for (size_t i = 0; i < rows->n_peers; i++) {
		fprintf(out, "%s\n{\"rank\":%u,\"peer\":%u,", i ? "," : "", rows->peers[i].rank, rows->peers[i].peer);
		print_figures(out, (const int64_t *)&rows->peers[i].stats);
		fputc('}', out);
	}
	fprintf(out, "]}\n");
}

/* The file; that of a part of a communicator has the part's name in it. */
static void write_json(const struct ddl_comm *comm, const struct ddl__report_rows *rows)
{
	const char *name = comm->origin->settings.stats_file;
	char path[400], job[80];
	if (comm->origin->part)
		snprintf(path, sizeof(path), "%.*s-%s.json", (int)strlen(name) - 5, name, job_of(comm, job, sizeof(job)));
	else
		snprintf(path, sizeof(path), "%s", name);
	FILE *out = fopen(path, "we");
	if (!out) {
		ddl__log(DDL__LOG_WARNING, "the statistics %s (DDL_STATS) cannot be written: %s", path, strerror(errno));
		return;
	}
	print_json(out, comm, rows);
	bool failed = ferror(out);
	if (fclose(out) != 0 || failed)
		ddl__log(DDL__LOG_WARNING, "the statistics %s (DDL_STATS) are incomplete: is the disk full?", path);
}

void ddl__report_print(const struct ddl_comm *comm, const struct ddl__report_rows *rows)
{
	char *text = NULL;
	size_t size = 0;
	if (*comm->origin->settings.stats_file) {
		write_json(comm, rows);
		return;
	}
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return;
	print_table(out, comm, rows);
	if (fclose(out) == 0)
		(void)!write(STDERR_FILENO, text, size);
	free(text);
}
