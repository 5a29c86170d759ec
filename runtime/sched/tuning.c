/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning.c - the tuning file: reading, writing, looking up.
 */
#include "tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define HEAD  "# ddl tuning 1"
#define NOISE 0.95 /* measured times vary: another than the plain ring must be so much faster */

void ddl__tuning_init(struct ddl__tuning *tuning, const struct ddl__model *model)
{
	memset(tuning, 0, sizeof(*tuning));
	tuning->n_levels = model->n_levels;
	for (uint32_t l = 0; l < model->n_levels; l++)
		tuning->ranks[l] = model->level[l].ranks;
}

bool ddl__tuning_fits(const struct ddl__tuning *tuning, const struct ddl__model *model)
{
	struct ddl__tuning here;
	ddl__tuning_init(&here, model);
	for (size_t i = 0; i < tuning->n; i++) {
		const struct ddl__candidate *c = &tuning->at[i].candidate;
		if (c->n_dims && ddl__dims_ranks(c->dims, c->n_dims) != model->n_ranks)
			return false; /* nobody measured that */
	}
	return here.n_levels == tuning->n_levels && memcmp(here.ranks, tuning->ranks, sizeof(here.ranks)) == 0;
}

char *ddl__tuning_misfit(const struct ddl__tuning *tuning, const struct ddl__model *model, char *text, size_t size)
{
	uint32_t all = tuning->n_levels ? tuning->ranks[tuning->n_levels - 1] : 0;
	int used = snprintf(text, size, "measured on %u ranks, at most %u on a node", all, tuning->ranks[0]);
	if (used < 0 || (size_t)used >= size)
		return text;
	if (all == model->n_ranks && tuning->ranks[0] == model->level[0].ranks)
		snprintf(text + used, size - (size_t)used, ", below other switches");
	else
		snprintf(text + used, size - (size_t)used, "; here are %u and %u", model->n_ranks, model->level[0].ranks);
	return text;
}

int ddl__tuning_add(struct ddl__tuning *tuning, uint64_t bytes, const struct ddl__candidate *candidate, uint64_t ns)
{
	size_t i = 0;
	for (; i < tuning->n && tuning->at[i].bytes <= bytes; i++) {
		struct ddl__tuned *t = &tuning->at[i];
		if (t->bytes < bytes || !ddl__candidate_same(&t->candidate, candidate))
			continue;
		t->ns = ns < t->ns ? ns : t->ns;
		return 0;
	}
	if (tuning->n == DDL__TUNING_MAX)
		return -ENOSPC;
	memmove(&tuning->at[i + 1], &tuning->at[i], (tuning->n - i) * sizeof(tuning->at[0]));
	tuning->at[i] = (struct ddl__tuned){ bytes, *candidate, ns };
	tuning->n++;
	return 0;
}

/* A number in digits alone. */
static int read_number(const char *word, unsigned long long *number)
{
	errno = 0;
	*number = strtoull(word, NULL, 10);
	return word[strspn(word, "0123456789")] || errno ? -EBADMSG : 0;
}

static int read_shape(char *words, struct ddl__tuning *tuning)
{
	char *save = NULL;
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *end;
		unsigned long ranks = strtoul(word, &end, 10);
		if (*end || ranks == 0 || ranks > UINT32_MAX || tuning->n_levels == DDL__LEVELS_MAX)
			return -EBADMSG;
		tuning->ranks[tuning->n_levels++] = (uint32_t)ranks;
	}
	return tuning->n_levels ? 0 : -EBADMSG;
}

static int read_size(char *words, struct ddl__tuning *tuning)
{
	struct ddl__candidate candidate;
	char name[DDL__CANDIDATE_TEXT_SIZE], bytes_word[24], ns_word[24], rest;
	unsigned long long bytes, ns;
	if (sscanf(words, "%23s %63s %23s %c", bytes_word, name, ns_word, &rest) != 3 || read_number(bytes_word, &bytes) < 0 ||
	    read_number(ns_word, &ns) < 0 || bytes == 0 || ns == 0)
		return -EBADMSG;
	if (ddl__select(DDL__ALLREDUCE, name, &candidate, NULL) < 0)
		return -EBADMSG;
	return ddl__tuning_add(tuning, bytes, &candidate, ns) < 0 ? -EBADMSG : 0;
}

int ddl__tuning_parse(const char *text, size_t length, struct ddl__tuning *tuning, struct ddl_error *err)
{
	struct ddl__tuning *result = calloc(1, sizeof(*result));
	char *copy = strndup(text, length), *save = NULL;
	int rc = result && copy ? 0 : ddl__error_memory(err), number = 0;
	if (rc == 0 && (length > DDL__TUNING_TEXT_MAX || strncmp(copy, HEAD "\n", sizeof(HEAD)) != 0))
		rc = ddl__error_set(err, -EBADMSG, "this is no tuning file: the first line must be \"%s\"", HEAD);
	for (char *line = rc == 0 ? strtok_r(copy, "\n", &save) : NULL; line && rc == 0; line = strtok_r(NULL, "\n", &save)) {
		number++;
		if (*line == '#')
			continue;
		if (strncmp(line, "ranks ", 6) == 0 && result->n_levels == 0)
			rc = read_shape(line + 6, result);
		else if (strncmp(line, "allreduce ", 10) == 0)
			rc = read_size(line + 10, result);
		else
			rc = -EBADMSG;
		if (rc < 0)
			ddl__error_set(
				err, rc,
				"line %d, not counting empty ones, is not understood: write the file anew with ddl perf --explore",
				number);
	}
	if (rc == 0 && result->n_levels == 0)
		rc = ddl__error_set(err, -EBADMSG, "the line that begins with \"ranks\" is missing");
	if (rc == 0)
		*tuning = *result;
	free(result);
	free(copy);
	return rc;
}

ssize_t ddl__tuning_read(const char *path, char *text, struct ddl__tuning *tuning, struct ddl_error *err)
{
	FILE *in = fopen(path, "re");
	if (!in)
		return ddl__error_set(err, -errno, "%s", strerror(errno));
	size_t size = fread(text, 1, DDL__TUNING_TEXT_MAX, in);
	int rc = ferror(in) ? ddl__error_set(err, -EIO, "%s", strerror(errno)) : ddl__tuning_parse(text, size, tuning, err);
	fclose(in);
	return rc < 0 ? rc : (ssize_t)size;
}

void ddl__tuning_print(const struct ddl__tuning *tuning, FILE *out)
{
	fprintf(out, "%s\nranks", HEAD);
	for (uint32_t l = 0; l < tuning->n_levels; l++)
		fprintf(out, " %u", tuning->ranks[l]);
	fputc('\n', out);
	for (size_t i = 0; i < tuning->n; i++) {
		char name[DDL__CANDIDATE_TEXT_SIZE];
		fprintf(out, "allreduce %llu %s %llu\n", (unsigned long long)tuning->at[i].bytes,
			ddl__candidate_text(&tuning->at[i].candidate, name), (unsigned long long)tuning->at[i].ns);
	}
}

/* On the line through two times; before NULL: through the origin. Sums and products only, so that all machines choose alike. */
static double on_line(const struct ddl__tuned *before, const struct ddl__tuned *last, uint64_t bytes)
{
	double slope = (double)last->ns / (double)last->bytes;
	if (before)
		slope = ((double)last->ns - (double)before->ns) / (double)(last->bytes - before->bytes);
	return (double)last->ns + ((double)bytes - (double)last->bytes) * slope;
}

double ddl__tuning_time(const struct ddl__tuning *tuning, const struct ddl__candidate *candidate, uint64_t bytes)
{
	const struct ddl__tuned *before = NULL, *low = NULL, *high = NULL;
	for (size_t i = 0; i < tuning->n && !high; i++) {
		const struct ddl__tuned *t = &tuning->at[i];
		if (!ddl__candidate_same(&t->candidate, candidate))
			continue;
		if (t->bytes >= bytes) {
			high = t;
		} else {
			before = low;
			low = t;
		}
	}
	if (high && (high->bytes == bytes || high->bytes == tuning->at[0].bytes))
		return (double)high->ns;
	if (high)
		return low ? on_line(low, high, bytes) : 0;
	return low && low->bytes == tuning->at[tuning->n - 1].bytes
		       ? on_line(before && before->ns < low->ns ? before : NULL, low, bytes)
		       : 0;
}

int ddl__tuning_find(const struct ddl__tuning *tuning, uint64_t bytes, struct ddl__candidate *candidate)
{
	const struct ddl__tuned *best = NULL;
	struct ddl__candidate ring;
	ddl__select(DDL__ALLREDUCE, NULL, &ring, NULL);
	double least = 0, nearest = 0;
	for (size_t i = 0; i < tuning->n; i++) {
		double ns = ddl__tuning_time(tuning, &tuning->at[i].candidate, bytes);
		if (ddl__candidate_same(&tuning->at[i].candidate, &ring))
			ns *= NOISE;
		if (ns > 0 && (!best || ns < least)) {
			best = &tuning->at[i];
			least = ns;
		}
	}
	for (size_t i = 0; i < tuning->n && least == 0; i++) {
		double a = (double)tuning->at[i].bytes, b = bytes ? (double)bytes : 1;
		double ratio = a > b ? a / b : b / a;
		if (!best || ratio < nearest) {
			best = &tuning->at[i];
			nearest = ratio;
		}
	}
	if (best)
		*candidate = best->candidate;
	return best ? 0 : -ENOENT;
}
