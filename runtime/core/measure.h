/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.h - a communicator that has nothing to choose by measures for itself: the few all-reduces that the cost model finds
 * promising, at a few sizes, for some hundredths of a second each. No speed that a network card tells, and no model, knows what a
 * step costs on a busy machine, or what neighbours leave of an uplink.
 */
#ifndef DDL_CORE_MEASURE_H
#define DDL_CORE_MEASURE_H

#include <ddl/ddl.h>

/*
 * Measures where that may change a choice: more than one node, no algorithm asked for by name, no tuning file that fits. The
 * result is kept per set of nodes and tasks (keep.h); a later job on the same ones confirms it by a few runs, or measures again.
 * Collective; all ranks choose by the same times afterwards. Returns 0; -ENOMEM; what aborted the communicator.
 */
int ddl__measure(struct ddl_comm *comm, struct ddl_error *err);

#endif
