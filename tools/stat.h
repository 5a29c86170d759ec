/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat.h - what `ddl stat` is made of: states of processes as JSON objects, and the view of all of them.
 *
 * An object, one a communicator of a process:
 *   rank, ranks, node, communicator, job, step   who it is
 *   pid, process                                 on its node; the kernel's letter for its state (R, S, D, T, t, Z)
 *   active, starts                               requests
 *   asleep, tested_s, thread                     a thread waits in a call; seconds since it last asked; it has a service thread
 *   failed                                       0, or the code that the communicator failed with
 *   waits                                        [{request, call, start, for_s, done, all, lane, step, steps, kind, what, peer,
 *                                                peer_node}]
 * and {"answered": NODE} for a node that was asked.
 */
#ifndef DDL_TOOLS_STAT_H
#define DDL_TOOLS_STAT_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

/*
 * Adds the communicators of this machine's processes that the caller may look at. job: "4242", "4242.0", the name of a
 * communicator, or NULL: all. proc: the folder /proc. Returns 0 or negative errno.
 */
int ddl__stat_local(const char *proc, const char *job, json_t *states);

/* Adds those of a Slurm job's nodes, through srun. Returns the exit status; sentences are printed. */
int ddl__stat_job(const char *job, int timeout_s, json_t *states);

/*
 * Prints a table of the states, at most `rows` of them (0: all), then a sentence for each rank that others wait for and that does
 * not wait itself.
 */
void ddl__stat_print(FILE *out, const json_t *states, size_t rows);

#endif
