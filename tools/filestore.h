/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filestore.h - a struct ddl_store over a folder, by which ranks find each other where there is no PMIx: --store DIR.
 *
 * Serves processes of one machine (also in different network namespaces) and of machines that share a file system.
 */
#ifndef DDL_TOOLS_FILESTORE_H
#define DDL_TOOLS_FILESTORE_H

#include <ddl/ddl.h>

struct ddl__filestore; /* owns an open folder */

/*
 * Opens the folder, which must exist and should be a new one for each run: a key that is there already is refused by set.
 * Returns 0; -ENOENT, -ENOTDIR, -EACCES (the folder); -EINVAL (rank, size); -ENOMEM. Freed with ddl__filestore_close().
 */
int ddl__filestore_open(const char *path, int rank, int size, struct ddl__filestore **filestore, struct ddl_error *err);

/* The store to hand to ddl_comm_create(); owned by filestore. */
const struct ddl_store *ddl__filestore_store(const struct ddl__filestore *filestore);

/* Closes it; the keys stay, since other ranks may still read them: who made the folder removes it. NULL does nothing. */
void ddl__filestore_close(struct ddl__filestore *filestore);

#endif
