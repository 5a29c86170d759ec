/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - the level is read from the environment at the first line, and is one of the library's few globals.
 */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

static atomic_int level_set = -1;

static int level_now(void)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	int level = atomic_load(&level_set);
	if (level >= 0)
		return level;
	level = DDL__LOG_WARNING;
	const char *wanted = getenv("DDL_LOG");
	char word[64];
	bool known = !wanted || !*wanted;
	for (int i = 0; wanted && i < 4; i++) {
		if (strcmp(wanted, names[i]) == 0) {
			level = i;
			known = true;
		}
	}
	atomic_store(&level_set, level);
	if (!known)
		ddl__log(DDL__LOG_WARNING, "DDL_LOG=%s is no level: choose from error, warning, info, debug",
			 ddl__error_word(word, sizeof(word), wanted, strlen(wanted)));
	return level;
}

void ddl__log(enum ddl__log_level level, const char *format, ...)
{
	char line[1024] = "ddl: ";
	va_list args;
	if ((int)level > level_now())
		return;
	va_start(args, format);
	vsnprintf(line + 5, sizeof(line) - 6, format, args);
	va_end(args);
	strcat(line, "\n");
	(void)!write(STDERR_FILENO, line, strlen(line)); /* one write: lines of many ranks do not mix */
}
