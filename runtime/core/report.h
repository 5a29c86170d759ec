/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - the statistics of all ranks, told when their communicator is destroyed.
 *
 * The rows of collectives are the same on every rank, so least, most and sum over the ranks are reductions on the communicator
 * itself. Where the time alone is wanted each kind of collective is made once more with buffers of its own and started a few
 * times while nothing else runs. Rank 0 writes a table, or a file.
 */
#ifndef DDL_CORE_REPORT_H
#define DDL_CORE_REPORT_H

#include <ddl/ddl.h>

/* Collective. Of a communicator that has failed rank 0 tells its own figures. */
void ddl__report(struct ddl_comm *comm);

#endif
