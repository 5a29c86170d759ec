/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_output.c - the rows, as a table, as JSON or as CSV, each written when it is measured; and the progress line.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "perf.h"
#include "tools.h"

#define START_BYTES 65536.0 /* what a start counts in the progress besides its bytes */

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const char *collective_name(const struct ddl__perf_output *output)
{
	return ddl__choice_by_id(ddl__perf_collectives, (int)output->options->collective)->name;
}

static bool is_barrier(const struct ddl__perf_output *output)
{
	return output->options->collective == DDL__PERF_BARRIER;
}

/* "none" where there are no elements. */
static const char *type_name(const struct ddl__perf_output *output)
{
	if (is_barrier(output))
		return "none";
	return ddl__choice_by_id(ddl__types, (int)output->options->type)->name;
}

/* "none" where there is no operation. */
static const char *op_name(const struct ddl__perf_output *output)
{
	if (!ddl__perf_reduces(output->options->collective))
		return "none";
	return ddl__choice_by_id(ddl__ops, (int)output->options->op)->name;
}

void ddl__perf_output_break(struct ddl__perf_output *output)
{
	if (output->width == 0)
		return;
	fprintf(stderr, "\r%*s\r", (int)output->width, "");
	fflush(stderr);
	output->width = 0;
}

static bool to_root(enum ddl__perf_collective collective)
{
	return collective == DDL__PERF_REDUCE || collective == DDL__PERF_GATHER;
}

static void begin_table(const struct ddl__perf_output *output)
{
	const struct ddl__perf_options *o = output->options;

	printf("%s", collective_name(output));
	if (!is_barrier(output))
		printf(" of %s", type_name(output));
	if (ddl__perf_reduces(o->collective))
		printf(" (%s%s)", op_name(output), o->in_place ? ", in place" : "");
	else if (o->in_place)
		printf(" (in place)");
	if (ddl__perf_rooted(o->collective))
		printf(" %s rank %d", to_root(o->collective) ? "to" : "from", o->root);
	printf(", %d rank%s on %zu node%s, %d iterations\n\n", output->n_ranks, output->n_ranks == 1 ? "" : "s", output->n_nodes,
	       output->n_nodes == 1 ? "" : "s", o->iterations);
	printf("%10s  %7s  %4s  %-13s  %5s  %11s  %11s  %11s  %8s  %8s  %s%s\n", "size", "tensors", "wire", "algorithm", "rings",
	       "median us", "min us", "p99 us", "alg GB/s", "bus GB/s", o->check ? "max ulp  rms ulp  " : "",
	       o->explore ? "of best  correct" : "correct");
}

void ddl__perf_output_begin(struct ddl__perf_output *output)
{
	output->started = now_s();
	output->all_correct = true;
	if (output->options->format == DDL__PERF_TABLE)
		begin_table(output);
	else if (output->options->format == DDL__PERF_CSV)
		printf("collective,ranks,bytes,tensors,type,op,wire,algorithm,rings,median_us,min_us,p99_us,algbw_GBps,busbw_GBps,"
		       "correct,starts,total,error_max_ulp,error_rms_ulp\n");
	fflush(stdout);
}

static const char *word(int correct, const char *yes, const char *no, const char *unchecked)
{
	return correct < 0 ? unchecked : correct ? yes : no;
}

static void print_table_row(const struct ddl__perf_output *output, const struct ddl__perf_row *row,
			    const struct ddl__perf_result *result, double algbw, double busbw)
{
	char size[32], of_best[32] = "", errors[32] = "";

	ddl__bytes_format(row->bytes, size, sizeof(size));
	if (output->options->explore)
		snprintf(of_best, sizeof(of_best), "%7.2f  ", result->of_best);
	if (output->options->check && isnan(result->rms_ulp))
		snprintf(errors, sizeof(errors), "%7s  %7s  ", "-", "-");
	else if (output->options->check)
		snprintf(errors, sizeof(errors), "%7.3g  %7.3g  ", result->most_ulp, result->rms_ulp);
	printf("%10s  %7zu  %4s  %-13s  %5d  %11.1f  %11.1f  %11.1f  %8.3f  %8.3f  %s%s%s%s%s\n", is_barrier(output) ? "-" : size,
	       row->alike, result->wire, result->algorithm, result->rings, result->median_us, result->min_us, result->p99_us, algbw,
	       busbw, errors, of_best, word(result->correct, "yes", "NO", "-"), row->whole ? "  all at once" : "",
	       result->chosen ? "  the choice" : "");
}

static void print_json_row(const struct ddl__perf_output *output, const struct ddl__perf_row *row,
			   const struct ddl__perf_result *result, double algbw, double busbw)
{
	json_t *object = json_pack("{ss si sI sI ss ss ss ss si sf sf sf sf sf sn si sb sn sn}", "collective",
				   collective_name(output), "ranks", output->n_ranks, "bytes", (json_int_t)row->bytes, "tensors",
				   (json_int_t)row->alike, "type", type_name(output), "op", op_name(output), "wire", result->wire,
				   "algorithm", result->algorithm, "rings", result->rings, "median_us", result->median_us, "min_us",
				   result->min_us, "p99_us", result->p99_us, "algbw_GBps", algbw, "busbw_GBps", busbw, "correct",
				   "starts", result->starts, "total", row->whole, "error_max_ulp", "error_rms_ulp");

	if (object && output->options->explore) {
		json_object_set_new(object, "of_best", json_real(result->of_best));
		json_object_set_new(object, "chosen", json_boolean(result->chosen));
	}
	if (object && !isnan(result->rms_ulp)) {
		json_object_set_new(object, "error_max_ulp", json_real(result->most_ulp));
		json_object_set_new(object, "error_rms_ulp", json_real(result->rms_ulp));
	}
	if (object && result->correct >= 0)
		json_object_set_new(object, "correct", json_boolean(result->correct));
	if (!object || json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) < 0)
		ddl__failed("perf", "a row could not be written");
	putchar('\n');
	json_decref(object);
}

static void print_csv_row(const struct ddl__perf_output *output, const struct ddl__perf_row *row,
			  const struct ddl__perf_result *result, double algbw, double busbw)
{
	char errors[64] = ",";

	if (!isnan(result->rms_ulp))
		snprintf(errors, sizeof(errors), "%.6g,%.6g", result->most_ulp, result->rms_ulp);
	printf("%s,%d,%" PRIu64 ",%zu,%s,%s,%s,%s,%d,%.3f,%.3f,%.3f,%.6f,%.6f,%s,%d,%s,%s\n", collective_name(output),
	       output->n_ranks, row->bytes, row->alike, type_name(output), op_name(output), result->wire, result->algorithm,
	       result->rings, result->median_us, result->min_us, result->p99_us, algbw, busbw,
	       word(result->correct, "true", "false", ""), result->starts, row->whole ? "true" : "false", errors);
}

void ddl__perf_output_row(struct ddl__perf_output *output, const struct ddl__perf_row *row, const struct ddl__perf_result *result)
{
	const struct ddl__perf_options *o = output->options;
	const double algbw = ddl__perf_algbw(row->bytes, result->median_us);
	const double busbw = ddl__perf_busbw(o->collective, output->n_ranks, row->bytes, result->median_us);

	ddl__perf_output_break(output);
	output->all_correct = output->all_correct && result->correct != 0;
	if (o->format == DDL__PERF_JSON)
		print_json_row(output, row, result, algbw, busbw);
	else if (o->format == DDL__PERF_CSV)
		print_csv_row(output, row, result, algbw, busbw);
	else
		print_table_row(output, row, result, algbw, busbw);
	fflush(stdout);
}

double ddl__perf_work(const struct ddl__perf_options *options, const struct ddl__perf_row *rows, size_t n_rows)
{
	const int starts = options->iterations + options->warmup + (options->check ? 2 : 0);
	double work = 0;

	for (size_t i = 0; i < n_rows; i++)
		work += ((double)rows[i].bytes + START_BYTES) * (options->check && rows[i].n == 0 ? starts - 2 : starts);
	return work;
}

void ddl__perf_output_progress(struct ddl__perf_output *output, const struct ddl__perf_row *row)
{
	const double now = now_s();
	const double spent = now - output->started;
	char size[32], line[128], left[32] = "";
	double share;
	size_t width;

	output->done += (double)row->bytes + START_BYTES;
	if (!output->options->progress || now - output->shown < 0.1)
		return;
	output->shown = now;
	share = output->done < output->work ? output->done / output->work : 1;
	if (share > 0.02 && spent > 1) { /* too early to tell before */
		const int seconds = (int)(spent / share * (1 - share) + 0.5);

		snprintf(left, sizeof(left), ", %d:%02d left", seconds / 60, seconds % 60);
	}
	width = (size_t)snprintf(line, sizeof(line), "%s %s: %3.0f %%%s", collective_name(output),
				 row->whole ? "all tensors" : ddl__bytes_format(row->bytes, size, sizeof(size)), share * 100, left);
	fprintf(stderr, "\r%-*s", (int)output->width, line);
	fflush(stderr);
	output->width = width > output->width ? width : output->width;
}

/* Only what all ranks get alike is compared between them; what is only moved, to the bit. */
static const char *verdict(const struct ddl__perf_output *output)
{
	const enum ddl__perf_collective collective = output->options->collective;

	if (!output->all_correct)
		return "Some results are WRONG; the standard error stream tells which.";
	if (!ddl__perf_reduces(collective))
		return "All results are exact.";
	if (collective != DDL__PERF_ALLREDUCE)
		return "All results are within the rounding of float64's.";
	return "All results are within the rounding of float64's, and the same bits on every rank.";
}

void ddl__perf_output_end(struct ddl__perf_output *output)
{
	const struct ddl__perf_options *o = output->options;

	ddl__perf_output_break(output);
	if (o->format == DDL__PERF_TABLE && o->check && !is_barrier(output))
		printf("\n%s\n", verdict(output));
	fflush(stdout);
}
