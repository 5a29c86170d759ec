/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump_signal.h - the signal by which people ask a process what it waits for.
 *
 * The handler only writes to an eventfd, which is in the epoll set of every communicator: whoever waits, tests or serves wakes up
 * and dumps. A handler of the program's is left alone, before and after: ours is installed only where the signal would end the
 * process, and taken away only if it is still there.
 */
#ifndef DDL_ENGINE_DUMP_SIGNAL_H
#define DDL_ENGINE_DUMP_SIGNAL_H

/*
 * Installs the handler for the first communicator, if it is to be (signal 0: no). Returns the descriptor to wait for, edge
 * triggered, or -1. Each call is followed by one of close.
 */
int ddl__dump_signal_open(int signal);
void ddl__dump_signal_close(void);

/* In a child after a fork: the parent is not asked in its stead. */
void ddl__dump_signal_forked(void);

#endif
