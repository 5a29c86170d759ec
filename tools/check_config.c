/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_config.c - Slurm's configuration as `ddl check` reads it: plugstack.conf from its file, the rest from what commands print.
 */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"
#include "plugin.h"

enum { DEPTH_MAX = 8, OUTPUT_MAX = 4 << 20 };

/* Cuts the next word off; "" at the end. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " \t\r\n");

	*rest = word + strcspn(word, " \t\r\n");
	if (**rest)
		*(*rest)++ = '\0';
	return word;
}

/* A line that loads the plugin. The first counts; but a comment only as long as there is none. */
static void take_plugin(struct ddl__plugstack *stack, const char *file, int number, char *line, bool comment, bool pattern)
{
	const char *need = next_word(&line), *path = next_word(&line), *slash = strrchr(path, '/');

	if (strcmp(slash ? slash + 1 : path, DDL__PLUGIN_FILE) != 0 ||
	    (strcmp(need, "optional") != 0 && strcmp(need, "required") != 0))
		return;
	if (stack->found || (comment && stack->commented))
		return;
	stack->found = !comment;
	stack->commented = comment;
	stack->required = strcmp(need, "required") == 0;
	stack->pattern = pattern;
	stack->line = number;
	line += strspn(line, " \t");
	line[strcspn(line, "#\r\n")] = '\0';
	snprintf(stack->file, sizeof(stack->file), "%s", file);
	snprintf(stack->path, sizeof(stack->path), "%s", path);
	snprintf(stack->arguments, sizeof(stack->arguments), "%s", line);
}

static int read_file(const char *root, const char *path, bool pattern, int depth, struct ddl__plugstack *stack);

/* The files of an include; a relative one lies beside the file that includes. */
static void include(const char *root, const char *from, const char *what, bool pattern, int depth, struct ddl__plugstack *stack)
{
	char full[4096];
	glob_t found;
	const char *slash = strrchr(from, '/');
	int length = snprintf(full, sizeof(full), "%s%.*s%s", root, *what == '/' || !slash ? 0 : (int)(slash - from + 1), from,
			      what);

	if (length < 0 || (size_t)length >= sizeof(full) || depth >= DEPTH_MAX)
		return;
	if (glob(full, 0, NULL, &found) != 0) {
		snprintf(stack->empty_include, sizeof(stack->empty_include), "%s", what);
		return;
	}
	pattern = pattern || strpbrk(what, "*?[");
	for (size_t i = 0; i < found.gl_pathc; i++)
		read_file(root, found.gl_pathv[i] + strlen(root), pattern, depth + 1, stack);
	globfree(&found);
}

static int read_file(const char *root, const char *path, bool pattern, int depth, struct ddl__plugstack *stack)
{
	char full[4096], text[4096];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	file = fopen(full, "re");
	if (!file)
		return -errno;
	for (int number = 1; fgets(text, sizeof(text), file); number++) {
		char *line = text + strspn(text, " \t"), *rest = line;
		const bool comment = *line == '#';

		if (strncmp(line, "include", 7) == 0 && isspace((unsigned char)line[7])) {
			next_word(&rest);
			include(root, path, next_word(&rest), pattern, depth, stack);
		} else {
			take_plugin(stack, path, number, line + strspn(line, "# \t"), comment, pattern);
		}
	}
	fclose(file);
	return 0;
}

void ddl__plugstack_read(const char *root, const char *path, struct ddl__plugstack *stack)
{
	memset(stack, 0, sizeof(*stack));
	stack->exists = read_file(root, path, false, 0, stack) == 0;
}

char *ddl__config_value(const char *config, const char *key, char *value, size_t size)
{
	const size_t length = strlen(key);

	*value = '\0';
	for (const char *line = config; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		const char *at = line + length;

		if (strncmp(line, key, length) != 0 || (*at != ' ' && *at != '='))
			continue;
		at += strspn(at, " ");
		if (*at != '=')
			continue;
		at += 1 + strspn(at + 1, " ");
		snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
		break;
	}
	if (strcmp(value, "(null)") == 0)
		*value = '\0';
	return value;
}

int ddl__ask(const char *command, char **text)
{
	char line[4096], whole[1024];
	size_t length = 0;
	FILE *out, *pipe;
	int status;

	*text = NULL;
	out = open_memstream(text, &length);
	if (!out)
		return -1;
	snprintf(whole, sizeof(whole), "PATH=$PATH:/usr/sbin:/sbin exec timeout -k 1 15 %s 2>&1 </dev/null", command);
	fflush(stdout);
	pipe = popen(whole, "re");
	while (pipe && fgets(line, sizeof(line), pipe))
		if (ftello(out) < OUTPUT_MAX)
			fputs(line, out);
	status = pipe ? pclose(pipe) : -1;
	if (fclose(out) == 0 && *text && status >= 0 && WIFEXITED(status))
		return WEXITSTATUS(status);
	free(*text);
	*text = NULL;
	return -1;
}

const char *ddl__check_find_line(const char *root, const char *path, const char *what, char *line, size_t size)
{
	char full[DDL__PATH_SIZE];
	bool found = false;
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	file = fopen(full, "re");
	while (file && !found && fgets(line, (int)size, file))
		found = strncmp(line, what, strlen(what)) == 0;
	if (file)
		fclose(file);
	if (!found)
		*line = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line;
}
