/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.c - looks for the Slurm plugin, and in it for the release that it was built for, without loading it: it loads into Slurm's
 * programs only.
 */
#include "plugin.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (16u << 20) /* bytes that are looked at */

static int is_there(const char *file, char *plain)
{
	return realpath(file, plain) && access(plain, R_OK) == 0;
}

int ddl__plugin_find(const char *root, char *path, size_t size)
{
	static const char *const folders[] = { "../lib/slurm", /* beside this program, wherever it was installed */
					       "../lib64/slurm",
					       "../lib/x86_64-linux-gnu/slurm",
					       "../lib/aarch64-linux-gnu/slurm",
					       "/usr/lib64/slurm",
					       "/usr/lib/slurm",
					       "/usr/local/lib/slurm",
					       "/usr/local/lib64/slurm",
					       "/usr/lib/x86_64-linux-gnu/slurm",
					       "/usr/lib/aarch64-linux-gnu/slurm",
					       "/usr/lib/x86_64-linux-gnu/slurm-wlm",
					       "/usr/lib/aarch64-linux-gnu/slurm-wlm" };
	char self[1024], file[1200], plain[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[length > 0 ? length : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const int beside = folders[i][0] != '/';

		if (beside && *root)
			continue;
		snprintf(file, sizeof(file), "%s/%s/" DDL__PLUGIN_FILE, beside ? self : root, folders[i] + !beside);
		if (!is_there(file, plain))
			continue;
		snprintf(path, size, "%s", *root ? file + strlen(root) : plain);
		return 0;
	}
	return -ENOENT;
}

int ddl__plugin_release(const char *file, int *year, int *month)
{
	static const char mark[20] = "ddl built for Slurm"; /* spank_ddl.c; the number comes after it */
	FILE *stream = fopen(file, "re");
	char *bytes = stream ? malloc(FILE_MAX) : NULL, *at;
	size_t n = bytes ? fread(bytes, 1, FILE_MAX, stream) : 0;
	int rc = stream ? -EBADMSG : -ENOENT;
	uint32_t number;

	at = n ? memmem(bytes, n, mark, sizeof(mark)) : NULL;
	if (at && (size_t)(bytes + n - at) >= sizeof(mark) + sizeof(number)) {
		memcpy(&number, at + sizeof(mark), sizeof(number));
		*year = (int)(number >> 16 & 0xff);
		*month = (int)(number >> 8 & 0xff);
		rc = 0;
	}
	free(bytes);
	if (stream)
		fclose(stream);
	return rc;
}
