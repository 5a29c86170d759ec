/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - slices of a request that need no copy, since user memory is mapped by both ranks (see transport.h: windows), or since
 * the transport sends from user memory and lets slices land in it.
 *
 * What a step permits is in the schedule and the same on every rank; whether it is made use of is decided slice by slice, by where
 * this rank's buffers lie and by what it has heard of the peer. Nobody waits for that.
 */
#ifndef DDL_ENGINE_SHARE_H
#define DDL_ENGINE_SHARE_H

#include "engine.h"

/* Notes whether steps of a new request may lend or place slices, and how large its buffers are. */
void ddl__share_init(struct ddl_request *request, const struct ddl__build *build);

/* A start begins: finds out where the buffers lie, shows the peers that memory, grants what may be placed. The lock is held. */
void ddl__share_start(struct ddl_request *request);

/* Sends a slice by lending it, if that is possible now. */
bool ddl__share_lend(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
		     uint64_t offset, size_t bytes);

/* Where a slice goes that is written straight into the peer's output; NULL: it cannot be now. */
void *ddl__share_place(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
		       uint64_t offset, size_t bytes);

/* Gives back what transports hold of the buffers. The lock is held. */
void ddl__share_end(struct ddl_request *request);

/* Where a slice lies that is sent without a copy, after a step has done its work; NULL: it goes through a slot. */
const void *ddl__share_borrow(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
			      uint64_t offset, size_t bytes);

/* Sends it from there. */
void ddl__share_send(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
		     uint64_t offset, const void *from, size_t bytes);

/* Where the slice goes that lands `ahead` slices after the one that the lane takes next; NULL: to a slot. context: the lane. */
void *ddl__share_landing(void *context, uint64_t ahead, size_t bytes);

#endif
