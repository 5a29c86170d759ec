/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the parts of `ddl run`: the PMIx server (run_pmix.c), the processes (run_spawn.c), their output (run_output.c).
 */
#ifndef DDL_TOOLS_RUN_H
#define DDL_TOOLS_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ddl/error.h>

#define DDL__RUN_MAX 4096 /* processes of one run */

/* The PMIx server, a process of its own. */

struct ddl__run_pmix;

/*
 * Starts the server of a job of n processes on this machine. host: this machine's name; folder: where it keeps its files. To be
 * called while there are no threads. Returns 0; -EOPNOTSUPP (built without PMIx); -EIO, -ETIMEDOUT, -ECONNRESET with a sentence.
 */
int ddl__run_pmix_open(size_t n, const char *host, const char *folder, struct ddl__run_pmix **pmix, struct ddl_error *err);

/* The environment of a rank: that of this process, with what PMIx needs. Freed with ddl__run_env_destroy(). */
int ddl__run_pmix_env(const struct ddl__run_pmix *pmix, size_t rank, char ***env, struct ddl_error *err);
void ddl__run_env_destroy(char **env);

pid_t ddl__run_pmix_pid(const struct ddl__run_pmix *pmix); /* leader of its process group */
int ddl__run_pmix_fd(const struct ddl__run_pmix *pmix);    /* readable when the server has something to say */

/* What it has to say: 1: a process called PMIx_Abort, with its rank, status and message (size bytes); 0: nothing; -ECONNRESET: the
 * server is gone. */
int ddl__run_pmix_read(struct ddl__run_pmix *pmix, size_t *rank, int *status, char *message, size_t size);

void ddl__run_pmix_close(struct ddl__run_pmix *pmix); /* NULL does nothing */

/* The janitor: a process that cleans up when this one is gone, however it went. */

struct ddl__run_janitor {
	pid_t pid; /* the janitor */
	int fd;    /* it is told about processes here; when this end closes, it ends what is left and removes the folder */
};

/* Makes the folder (its path is written to folder, size bytes) and starts the janitor. To be called before there are threads. */
int ddl__run_janitor_open(char *folder, size_t size, struct ddl__run_janitor *janitor, struct ddl_error *err);
void ddl__run_janitor_tell(const struct ddl__run_janitor *janitor, pid_t pid, int alive); /* the leader of a group of processes */
void ddl__run_janitor_close(struct ddl__run_janitor *janitor, const char *folder);

/* Processes. */

struct ddl__run_process {
	pid_t pid; /* also its process group */
	int out;   /* reading end of its standard output */
	int err;   /* reading end of its standard error */
};

/*
 * Starts a program in a process group of its own, with the signal mask of a fresh process. It dies when this thread does. input:
 * becomes its standard input, -1: /dev/null. files: its limit of open files. Returns 0; negative errno of what failed with a
 * sentence, for example -ENOENT for a program that does not exist.
 */
int ddl__run_spawn(char *const *argv, char *const *env, int input, uint64_t files, struct ddl__run_process *process,
		   struct ddl_error *err);

/* Output. */

struct ddl__run_stream; /* one of the outputs of one process */

/* fd is owned from then on. to_fd: where its lines go. label: stands before each line; "" none. NULL: no memory. */
struct ddl__run_stream *ddl__run_stream_create(int fd, int to_fd, const char *label);
void ddl__run_stream_destroy(struct ddl__run_stream *stream);
int ddl__run_stream_fd(const struct ddl__run_stream *stream);

/*
 * Reads what is there and hands whole lines to write (which returns 0 or a negative errno, handed on). Returns 1: more may come; 0:
 * end, the last line was written. A line longer than 64 KiB goes out in parts.
 */
int ddl__run_stream_read(struct ddl__run_stream *stream, int (*write_all)(void *context, int fd, const char *data, size_t size),
			 void *context);

#endif
