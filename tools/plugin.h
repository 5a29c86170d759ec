/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h - the Slurm plugin as a file: where it is, and what it was built for.
 */
#ifndef DDL_TOOLS_PLUGIN_H
#define DDL_TOOLS_PLUGIN_H

#include <stddef.h>

#define DDL__PLUGIN_FILE "spank_ddl.so"

/*
 * Finds it beside this program and where Slurm keeps its own. root: "", or a folder that stands for the root folder (then not
 * beside this program; path is told as seen from there). Returns 0, or -ENOENT.
 */
int ddl__plugin_find(const char *root, char *path, size_t size);

/* The release of Slurm that the plugin in file was built for. Returns 0; -ENOENT: it cannot be read; -EBADMSG: it does not say. */
int ddl__plugin_release(const char *file, int *year, int *month);

#endif
