/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - see share.h. */
#include "share.h"

#include "mem.h"
#include "shape.h"

static bool permits(const struct ddl__schedule *schedule)
{
	for (uint32_t l = 0; l < schedule->n_lanes; l++)
		for (uint32_t i = 0; i < schedule->lanes[l].n; i++)
			if (schedule->lanes[l].steps[i].lend || schedule->lanes[l].steps[i].place)
				return true;
	return false;
}

void ddl__share_init(struct ddl_request *request, const struct ddl__build *build)
{
	const struct ddl__kernels *k = request->kernels;
	struct ddl__shape shape = { 0 };
	if (ddl__shape_of((enum ddl__collective)request->call.collective, build, &shape) == 0) {
		request->send_bytes = shape.input * k->type_bytes;
		request->recv_bytes = shape.output * k->type_bytes;
	}
	request->shares = k->type_bytes == k->wire_bytes &&
			  request->schedule->slice_elements * k->wire_bytes >= DDL__LEND_BYTES_MIN && permits(request->schedule);
	request->borrows = request->shares && request->call.wire == DDL_WIRE_NATIVE;
}

static struct ddl__shared find(const struct ddl_comm *comm, const void *buffer, size_t bytes)
{
	const struct ddl__window *window = comm->windows && bytes ? ddl__mem_find(comm, buffer, bytes) : NULL;
	return (struct ddl__shared){ window, window ? (size_t)((const uint8_t *)buffer - window->memory) : 0 };
}

static void show(const struct ddl_comm *comm, const struct ddl__transport_ops *ops, int peer, const struct ddl__window *window)
{
	if (window)
		ops->show(comm->transports[(int)comm->via[peer]], peer, window);
}

/* Whether the request has lanes that way. */
static bool goes_over(const struct ddl_request *request, const struct ddl__transport_ops *ops)
{
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++)
		if (request->lanes[l].tx_ops == ops || request->lanes[l].rx_ops == ops)
			return true;
	return false;
}

/* Nobody writes into the output by himself any more: before what is held of it may be dropped. */
static void stop_accepting(const struct ddl_request *request)
{
	for (uint32_t l = 0; request->borrows && request->lanes && l < request->schedule->n_lanes; l++)
		if (request->lanes[l].rx && request->lanes[l].rx_ops->rx_accept)
			request->lanes[l].rx_ops->rx_accept(request->lanes[l].rx, 0, NULL, NULL, 0);
}

/* Transports that must know the memory that they use get to know it. */
static void hold(struct ddl_request *request)
{
	const struct ddl_comm *comm = request->comm;
	struct {
		void *memory;
		size_t bytes;
	} buffers[2] = { { (void *)(uintptr_t)request->send, request->send_bytes }, { request->recv, request->recv_bytes } };
	for (size_t t = 0; t < comm->n_transports; t++) {
		struct ddl__transport *transport = comm->transports[t];
		if (!transport->ops->hold || !goes_over(request, transport->ops))
			continue;
		for (int b = 0; b < 2; b++) {
			void *memory = buffers[b].memory;
			size_t bytes = buffers[b].bytes;
			if (memory && bytes)
				request->held[t][b] = transport->ops->hold(transport, request->held[t][b], memory, bytes,
									   ddl__mem_holder(comm, memory, bytes));
		}
	}
}

void ddl__share_end(struct ddl_request *request)
{
	const struct ddl_comm *comm = request->comm;
	stop_accepting(request);
	for (size_t t = 0; t < comm->n_transports; t++) {
		for (int b = 0; b < 2; b++) {
			if (request->held[t][b])
				comm->transports[t]->ops->drop(comm->transports[t], request->held[t][b]);
			request->held[t][b] = NULL;
		}
	}
}

/* What the transport to that peer holds of a buffer. */
static void *held(const struct ddl_request *request, int peer, uint8_t buffer)
{
	return buffer == DDL__SCRATCH ? NULL : request->held[(int)request->comm->via[peer]][buffer == DDL__OUTPUT];
}

void ddl__share_start(struct ddl_request *request)
{
	const struct ddl_comm *comm = request->comm;
	if (!request->shares)
		return;
	request->send_in = find(comm, request->send, request->send_bytes);
	request->recv_in = find(comm, request->recv, request->recv_bytes);
	if (request->borrows) {
		stop_accepting(request); /* what was granted for the last start and not sent yet */
		hold(request);
	}
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		const struct ddl__lane_state *lane = &request->lanes[l];
		if (lane->tx && lane->tx_ops->show) { /* to be lent */
			show(comm, lane->tx_ops, lane->steps->send_peer, request->send_in.window);
			show(comm, lane->tx_ops, lane->steps->send_peer, request->recv_in.window);
		}
		if (lane->rx && lane->rx_ops->show) {
			show(comm, lane->rx_ops, lane->steps->recv_peer, request->recv_in.window);
			lane->rx_ops->rx_grant(lane->rx, request->starts, request->recv_in.window, request->recv_in.at,
					       request->recv_bytes);
		}
		if (lane->rx && lane->rx_ops->rx_accept && request->borrows && request->starts && request->recv)
			lane->rx_ops->rx_accept(lane->rx, request->starts, held(request, lane->steps->recv_peer, DDL__OUTPUT),
						request->recv, request->recv_bytes);
	}
}

bool ddl__share_lend(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
		     uint64_t offset, size_t bytes)
{
	const struct ddl__shared *in = step->src_buffer == DDL__INPUT ? &request->send_in : &request->recv_in;
	if (!request->shares || !step->lend || step->src_buffer == DDL__SCRATCH || !in->window || !lane->tx_ops->tx_lend)
		return false;
	return lane->tx_ops->tx_lend(lane->tx, in->window, in->at + (step->src + offset) * request->kernels->type_bytes, bytes);
}

void *ddl__share_place(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
		       uint64_t offset, size_t bytes)
{
	if (!request->shares || !step->place || !lane->tx_ops->tx_place)
		return NULL;
	return lane->tx_ops->tx_place(lane->tx, request->starts, (step->dst + offset) * request->kernels->type_bytes, bytes);
}

/* The element of a buffer, as it is in this start; NULL: there is no such buffer. */
static uint8_t *element(const struct ddl_request *request, uint8_t buffer, uint64_t at)
{
	uint8_t *base = buffer == DDL__INPUT    ? (uint8_t *)(uintptr_t)request->send
			: buffer == DDL__OUTPUT ? request->recv
						: request->scratch;
	return base ? base + at * request->kernels->type_bytes : NULL;
}

/* The buffer that a slice can be sent from once its step has done its work; DDL__SCRATCH: it cannot. */
static uint8_t lies_in(const struct ddl__step *step)
{
	/* what is complete stays as it is */
	bool stores = step->kind == DDL__RECV_REDUCE_STORE_SEND || step->kind == DDL__RECV_STORE_SEND;
	if (step->lend)
		return step->src_buffer;
	return step->place && stores && step->dst_buffer == DDL__OUTPUT ? DDL__OUTPUT : DDL__SCRATCH;
}

const void *ddl__share_borrow(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
			      uint64_t offset, size_t bytes)
{
	const uint8_t buffer = lies_in(step);
	if (!request->borrows || buffer == DDL__SCRATCH || !lane->tx_ops->tx_borrow || bytes < DDL__LEND_BYTES_MIN)
		return NULL;
	const void *at = element(request, buffer, (step->lend ? step->src : step->dst) + offset);
	void *hold = held(request, lane->steps->send_peer, buffer);
	return at && (!lane->tx_ops->tx_borrows || lane->tx_ops->tx_borrows(lane->tx, hold, at, bytes)) ? at : NULL;
}

void ddl__share_send(const struct ddl_request *request, const struct ddl__lane_state *lane, const struct ddl__step *step,
		     uint64_t offset, const void *from, size_t bytes)
{
	const struct ddl__spot spot = { request->starts, (step->dst + offset) * request->kernels->type_bytes };
	lane->tx_ops->tx_borrow(lane->tx, held(request, lane->steps->send_peer, lies_in(step)), from, bytes,
				step->place ? &spot : NULL);
}

void *ddl__share_landing(void *context, uint64_t ahead, size_t bytes)
{
	const struct ddl__lane_state *lane = context;
	const struct ddl_request *request = lane->request;
	uint64_t elements = request->schedule->slice_elements, done = lane->slice;
	for (uint32_t i = lane->step; i < lane->steps->n; i++, done = 0) {
		const struct ddl__step *step = &lane->steps->steps[i];
		if (!ddl__step_receives(step->kind))
			continue;
		uint64_t left = ddl__step_slices(step, elements) - done, offset = (done + ahead) * elements;
		if (ahead >= left) {
			ahead -= left;
			continue;
		}
		uint64_t n = step->count - offset < elements ? step->count - offset : elements;
		bool stores = step->kind == DDL__RECV || step->kind == DDL__RECV_STORE_SEND;
		return stores && step->dst_buffer == DDL__OUTPUT && n * request->kernels->type_bytes == bytes
			       ? element(request, DDL__OUTPUT, step->dst + offset)
			       : NULL;
	}
	return NULL; /* of the next start */
}
