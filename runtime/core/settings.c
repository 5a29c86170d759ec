/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - options first, then the environment, then defaults.
 */
#include "settings.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cores.h"
#include "error.h"
#include "log.h"
#include "plan.h"
#include "reduce.h"
#include "stats.h"

enum { TIMEOUT_S_DEFAULT = 600, TIMEOUT_S_MAX = 86400, TRACE_MIB_DEFAULT = 16, TRACE_MIB_MAX = 65536 };

const char *ddl__environment(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

/* A whole number from the environment; unset leaves *value. */
static int read_number(const char *name, long min, long max, int *value, struct ddl_error *err)
{
	const char *text = ddl__environment(name);
	char *end, word[64];
	if (!text)
		return 0;
	errno = 0;
	long number = strtol(text, &end, 10);
	if (errno || *end || number < min || number > max)
		return ddl__error_set(err, -EINVAL, "%s=%s is not a whole number from %ld to %ld", name,
				      ddl__error_word(word, sizeof(word), text, strlen(text)), min, max);
	*value = (int)number;
	return 0;
}

/* DDL_STATS: a list of 1, alone and the name of a file; "" and 0 want none. */
static int read_stats(struct ddl__settings *s, struct ddl_error *err)
{
	const char *text = ddl__environment("DDL_STATS");
	for (const char *at = text; at && *at && strcmp(text, "0") != 0;) {
		const size_t length = strcspn(at, ",");
		char word[64];
		if (length == 1 && *at == '1') {
			s->observe |= DDL__OBSERVE_STATS;
		} else if (length == 5 && strncmp(at, "alone", 5) == 0) {
			s->observe |= DDL__OBSERVE_STATS | DDL__OBSERVE_ALONE;
		} else if (length > 5 && length < sizeof(s->stats_file) && strncmp(at + length - 5, ".json", 5) == 0) {
			s->observe |= DDL__OBSERVE_STATS | DDL__OBSERVE_PEERS;
			memcpy(s->stats_file, at, length);
			s->stats_file[length] = '\0';
		} else {
			return ddl__error_set(err, -EINVAL,
					      "DDL_STATS: \"%s\" is none of 0, 1, alone and a file's name that ends with .json",
					      ddl__error_word(word, sizeof(word), at, length));
		}
		at += length + (at[length] == ',');
	}
	return 0;
}

static int read_dump_signal(int *number, struct ddl_error *err)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = { { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "off", 0 } };
	const char *text = ddl__environment("DDL_DUMP_SIGNAL");
	char word[64];
	*number = SIGUSR1;
	for (size_t i = 0; text && i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (strcmp(text, signals[i].name) != 0)
			continue;
		*number = signals[i].number;
		return 0;
	}
	return !text ? 0
		     : ddl__error_set(err, -EINVAL, "DDL_DUMP_SIGNAL=%s: choose from USR1, USR2, off",
				      ddl__error_word(word, sizeof(word), text, strlen(text)));
}

/* strtod(), with a decimal point in the language of any program. */
static double read_decimal(const char *text, char **end)
{
	locale_t plain = newlocale(LC_NUMERIC_MASK, "C", NULL);
	const double number = plain ? strtod_l(text, end, plain) : strtod(text, end);
	if (plain)
		freelocale(plain);
	return number;
}

/* DDL_CHECK: a share, 0.01 or 1e-2; 0 and nothing: none. */
static int read_check(uint64_t *check, struct ddl_error *err)
{
	const char *text = ddl__environment("DDL_CHECK");
	char *end, word[64];
	*check = 0;
	if (!text)
		return 0;
	double share = read_decimal(text, &end);
	if (end == text || *end || !(share >= 0 && share <= 1))
		return ddl__error_set(
			err, -EINVAL,
			"DDL_CHECK=%s is not a number from 0 to 1: give the share of the starts to check, such as 0.01",
			ddl__error_word(word, sizeof(word), text, strlen(text)));
	*check = share >= 1 - 0x1p-53 ? UINT64_MAX : (uint64_t)(share * 0x1p64);
	return 0;
}

/* What tells people what goes on. */
static int read_observation(struct ddl__settings *s, struct ddl_error *err)
{
	s->observe = 0;
	s->stats_file[0] = '\0';
	s->trace_megabytes = TRACE_MIB_DEFAULT;
	int rc = read_stats(s, err);
	rc = rc ? rc : read_check(&s->check, err);
	rc = rc ? rc : read_dump_signal(&s->dump_signal, err);
	return rc ? rc : read_number("DDL_TRACE_SIZE", 1, TRACE_MIB_MAX, &s->trace_megabytes, err);
}

/* What is spelled as --ddl (key NULL) or as one of its keys; unset leaves the options. */
static int read_options(const char *name, const char *key, struct ddl__options *options, struct ddl_error *err)
{
	const char *text = ddl__environment(name);
	struct ddl_error why;
	if (!text || (key ? ddl__options_set(options, key, text, &why) : ddl__options_parse(text, options, &why)) == 0)
		return 0;
	return ddl__error_set(err, -EINVAL, "%s: %s", name, why.text);
}

int ddl__settings_precision(enum ddl_accuracy *accuracy, int *reproducible, struct ddl_error *err)
{
	struct ddl__options keys;
	ddl__options_init(&keys);
	int rc = read_options("DDL_ACCURACY", "accuracy", &keys, err);
	*accuracy = (enum ddl_accuracy)keys.accuracy;
	*reproducible = -1;
	return rc ? rc : read_number("DDL_REPRODUCIBLE", 0, 1, reproducible, err);
}

int ddl__settings_read(const struct ddl_comm_options *options, struct ddl__settings *s, struct ddl_error *err)
{
	static const struct ddl_comm_options defaults = DDL_COMM_OPTIONS_INIT;
	const struct ddl_comm_options *o = options ? options : &defaults;
	if (o->struct_size < sizeof(*o))
		return ddl__error_set(err, -EINVAL, "ddl_comm_options is not initialised: start from DDL_COMM_OPTIONS_INIT");
	if (o->timeout_ms < 0 || o->progress_threads < -1 || o->progress_threads > DDL__PROGRESS_MAX || o->measure < -1 ||
	    o->measure > 1)
		return ddl__error_set(
			err, -EINVAL,
			"ddl_comm_options: timeout_ms must not be negative, progress_threads be -1 to %d, measure -1, 0 or 1",
			DDL__PROGRESS_MAX);
	ddl__options_init(&s->options);
	if (read_options(DDL__MODE_ENV, NULL, &s->options, err) < 0 || read_options("DDL_TRACE", "trace", &s->options, err) < 0 ||
	    ddl__settings_precision(&s->accuracy, &s->reproducible, err) < 0)
		return -EINVAL;
	s->plan = o->plan ? o->plan : ddl__environment(DDL__PLAN_ENV);
	s->transports = o->transports ? o->transports : ddl__environment("DDL_TRANSPORTS");
	s->interfaces = o->interfaces ? o->interfaces : ddl__environment("DDL_NET");
	s->tuning = ddl__environment("DDL_TUNE");
	if (ddl__kernels_choose(ddl__environment("DDL_KERNELS"), err) < 0)
		return -EINVAL;
	s->progress_threads = o->progress_threads;
	int seconds = TIMEOUT_S_DEFAULT;
	int rc = read_number("DDL_TIMEOUT", 1, TIMEOUT_S_MAX, &seconds, err);
	if (rc == 0 && s->progress_threads < 0)
		rc = read_number("DDL_PROGRESS", 0, DDL__PROGRESS_MAX, &s->progress_threads, err);
	s->progress_cores = ddl__environment(DDL__CORES_ENV);
	s->measure = o->measure >= 0 ? o->measure : 1;
	if (rc == 0 && o->measure < 0)
		rc = read_number("DDL_MEASURE", 0, 1, &s->measure, err);
	rc = rc ? rc : read_observation(s, err);
	rc = rc ? rc : ddl__settings_rdma(&s->rdma, err);
	s->timeout_ms = o->timeout_ms ? o->timeout_ms : seconds * 1000;
	ddl__log(DDL__LOG_DEBUG, "deadline %d ms, transports %s, interfaces %s", s->timeout_ms,
		 s->transports ? s->transports : "all", s->interfaces ? s->interfaces : "by rule");
	return rc;
}
