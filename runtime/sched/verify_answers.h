/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify_answers.h - what schedules must keep to where a slice is answered in the slot that it came in.
 */
#ifndef DDL_SCHED_VERIFY_ANSWERS_H
#define DDL_SCHED_VERIFY_ANSWERS_H

#include "verify.h"

/*
 * Returns 0 if every step that answers receives from and sends to one and the same peer, and that peer sends nothing into the slot
 * of a slice before it has taken the answer to it, in one start. (All slices of a start are taken before the next one begins.)
 * Lanes must fit together. -EPROTO with a sentence that names rank, lane and step otherwise.
 */
int ddl__verify_answers(const struct ddl__verify *verify, struct ddl_error *err);

#endif
