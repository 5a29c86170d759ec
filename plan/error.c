/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c - the one place where sentences for people are put into a struct ddl_error.
 *
 * Words that came from outside go through ddl__error_word() first: a log line never carries control bytes or a megabyte of input.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "error.h"

int(ddl__error_set)(struct ddl_error *err, int code, const char *fmt, ...)
{
	va_list args;
	int length;

	if (!err)
		return code;
	err->code = code;
	va_start(args, fmt);
	length = vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	if (length < 0)
		err->text[0] = '\0';
	else if ((size_t)length >= sizeof(err->text))
		memcpy(err->text + sizeof(err->text) - 4, "...", 4);
	return code;
}

int(ddl__error_memory)(struct ddl_error *err)
{
	return ddl__error_set(err, -ENOMEM, "out of memory");
}

const char *ddl__error_word(char *buffer, size_t size, const char *word, size_t length)
{
	size_t i;

	if (!size)
		return "";
	for (i = 0; i < length && i + 1 < size; i++)
		buffer[i] = word[i] >= ' ' && word[i] <= '~' ? word[i] : '?';
	buffer[i] = '\0';
	if (i < length && size > 4)
		memcpy(buffer + size - 4, "...", 4);
	return buffer;
}

const char *ddl__error_reason(char *buffer, size_t size, int code)
{
	struct rlimit limit;

	if (code == -EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		snprintf(buffer, size, "%s; the limit of open files is %llu here: raise `ulimit -n` before the program starts",
			 strerror(-code), (unsigned long long)limit.rlim_cur);
	else if (code == -EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		snprintf(buffer, size,
			 "%s; the limit of file sizes is %llu bytes here: raise `ulimit -f` before the program starts",
			 strerror(-code), (unsigned long long)limit.rlim_cur);
	else
		snprintf(buffer, size, "%s", strerror(-code));
	return buffer;
}
