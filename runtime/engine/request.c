/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - a persistent request: its lanes over the transports, and the loop that carries their steps out, slice by slice.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit.h"
#include "channel.h"
#include "engine.h"
#include "error.h"
#include "options.h"
#include "rounding.h"
#include "shape.h"
#include "share.h"
#include "state.h"
#include "stats.h"

enum { /* results from this size on do not stay in the caches anyway */
       STREAM_BYTES_MIN = 8 * 1024 * 1024,
       STREAM_BYTES_MIN_PLAIN = 16 * 1024 * 1024, /* where they go through slots, which take two passes then */
};

uint64_t ddl__now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* "by counts (digest 1f...)", or nothing. */
static const char *counts_text(const struct ddl__call *call, char *text, size_t size)
{
	text[0] = '\0';
	if (call->counts)
		snprintf(text, size, " by counts (digest %llx)", (unsigned long long)call->counts);
	return text;
}

/* "wire i8, flat, stochastic with seed 7, error feedback". */
static void wire_text(const struct ddl__call *call, char *text, size_t size)
{
	const char *name = ddl__wire_name((enum ddl_wire)call->wire);
	char chance[48] = "";
	if (call->rounding == DDL_ROUND_STOCHASTIC)
		snprintf(chance, sizeof(chance), ", stochastic with seed %llu", (unsigned long long)call->seed);
	const struct ddl__choice *accuracy = call->accuracy ? ddl__choice_by_id(ddl__accuracies, (int)call->accuracy) : NULL;
	snprintf(text, size, "wire %s%s%s%s%s%s", name ? name : "unknown", accuracy ? ", " : "", accuracy ? accuracy->name : "",
		 call->in_order ? ", reproducible" : "", chance, call->feedback ? ", error feedback" : "");
}

char *ddl__call_how(const struct ddl__call *call, char *text)
{
	struct ddl__algorithm algorithm = { .name = ddl__algorithm_name(call->algorithm) };
	struct ddl__candidate candidate = { .algorithm = &algorithm };
	memcpy(candidate.dims, call->dims, sizeof(candidate.dims));
	while (candidate.n_dims < DDL__CALL_DIMS && call->dims[candidate.n_dims])
		candidate.n_dims++;
	return ddl__candidate_text(&candidate, text);
}

void ddl__call_describe(const struct ddl__call *call, char *text, size_t size)
{
	const char *name = ddl__collective_name((enum ddl__collective)call->collective);
	const char *type = ddl__type_name((enum ddl_type)call->type);
	char count[24] = "", counts[48], root[32] = "", how[DDL__CANDIDATE_TEXT_SIZE], wire[96];
	if (call->collective != DDL__ALLTOALL || !call->counts)
		snprintf(count, sizeof(count), "%llu ", (unsigned long long)call->count);
	if (call->root >= 0)
		snprintf(root, sizeof(root), " %s rank %d",
			 call->collective == DDL__REDUCE || call->collective == DDL__GATHER ? "to" : "from", call->root);
	counts_text(call, counts, sizeof(counts));
	wire_text(call, wire, sizeof(wire));
	if (call->collective == DDL__BARRIER)
		snprintf(text, size, "%s", name);
	else if (call->op == 0)
		snprintf(text, size, "%s of %s%s%s%s (%s%spriority %d, %u rings, %s)", name, count, type, counts, root,
			 call->wire > DDL_WIRE_NATIVE ? wire : "", call->wire > DDL_WIRE_NATIVE ? ", " : "", call->priority,
			 call->rings, ddl__call_how(call, how));
	else
		snprintf(text, size, "%s of %s%s%s%s (%s, %s, priority %d, %u rings, %s)", name, count, type, counts, root,
			 ddl__op_name((enum ddl_op)call->op), wire, call->priority, call->rings, ddl__call_how(call, how));
}

struct ddl__call ddl__request_call(const struct ddl_request *request, int peer)
{
	struct ddl__call call = request->call;
	if (request->pair_digests)
		call.counts = request->pair_digests[peer];
	return call;
}

/* Whether a step must wait for another lane of this rank. */
static bool waits_for_lane(const struct ddl_request *request, const struct ddl__step *step)
{
	return step->wait_lane != DDL__NO_WAIT && request->lanes[step->wait_lane].step <= step->wait_step;
}

/* Opens both ends of one lane. */
static int open_lane(struct ddl_request *request, uint32_t index, struct ddl_error *err)
{
	struct ddl_comm *comm = request->comm;
	struct ddl__lane_state *state = &request->lanes[index];
	const struct ddl__steps *steps = state->steps;
	struct ddl__lane lane = { .request = request->id, .index = steps->number, .slots = request->schedule->slots };
	const int peers[] = { steps->recv_peer, steps->send_peer };
	for (int end = 0; end < 2; end++) {
		int peer = peers[end];
		if (peer < 0)
			continue;
		lane.call = ddl__request_call(request, peer);
		lane.slot_bytes = (uint32_t)ddl__wire_size(state->kernels,
							   ddl__steps_slice(steps, request->schedule->slice_elements, end == 1));
		if (comm->via[peer] < 0)
			return ddl__error_set(err, -ENOENT,
					      "no transport reaches rank %d on node %s from rank %d on node %s: check "
					      "DDL_TRANSPORTS and DDL_NET, and that "
					      "both nodes have an address of the same kind, IPv4 or IPv6, that is not loopback",
					      peer, ddl_comm_node_name(comm, peer), comm->rank,
					      ddl_comm_node_name(comm, comm->rank));
		struct ddl__transport *t = comm->transports[(int)comm->via[peer]];
		int rc = end == 0 ? t->ops->rx_open(t, peer, &lane, &state->rx, err)
				  : t->ops->tx_open(t, peer, &lane, &state->tx, err);
		if (rc < 0)
			return rc;
		if (end == 0)
			state->rx_ops = t->ops;
		else
			state->tx_ops = t->ops;
		if (end == 0 && t->ops->rx_expect)
			t->ops->rx_expect(state->rx, ddl__steps_received(steps, request->schedule->slice_elements));
		if (end == 0 && request->borrows && t->ops->rx_land)
			t->ops->rx_land(state->rx, ddl__share_landing, state);
	}
	if (state->rx && state->tx && steps->recv_peer == steps->send_peer && state->tx_ops->pair)
		state->tx_ops->pair(state->tx, state->rx);
	return 0;
}

static void close_lanes(struct ddl_request *request)
{
	for (uint32_t l = 0; request->lanes && l < request->schedule->n_lanes; l++) {
		struct ddl__lane_state *lane = &request->lanes[l];
		if (lane->rx)
			lane->rx_ops->rx_close(lane->rx);
		if (lane->tx)
			lane->tx_ops->tx_close(lane->tx);
	}
}

/* Announcements that came before the request was created are compared now. The lock is held. */
static void compare_early(struct ddl_comm *comm, const struct ddl_request *request)
{
	const struct ddl__channel *channel = request->channel;
	size_t kept = 0, n = comm->n_early;
	for (size_t i = 0; i < n; i++) {
		const struct ddl__early early = comm->early[i];
		if (early.lane.request == request->id &&
		    (!channel || (early.peer == channel->peer && early.lane.index == channel->tag)))
			ddl__engine_events.announced(comm, early.peer, &early.lane);
		else
			comm->early[kept++] = early;
	}
	comm->n_early = kept;
}

/* Gives the request its id; that of a send/receive is its place among those of the two ranks. The lock is held. */
static int enter(struct ddl_comm *comm, struct ddl_request *request, const struct ddl__request_args *args, struct ddl_error *err)
{
	if (args->call.collective != DDL__SENDRECV) {
		int rc = ddl__ids_enter(&comm->ids, request);
		return rc == -EOVERFLOW
			       ? ddl__error_set(err, rc,
						"a communicator makes at most %u requests: keep them and start them again, or "
						"go on with another communicator (ddl_comm_dup)",
						DDL__IDS_MAX)
		       : rc < 0 ? ddl__error_memory(err)
				: 0;
	}
	bool sends = args->call.root == comm->rank;
	struct ddl__channel *channel = ddl__channel_get(comm, sends ? args->peer : args->call.root, args->tag, sends);
	if (!channel)
		return ddl__error_memory(err);
	ddl__channel_enter(channel, request);
	return 0;
}

/* An all-to-all by counts is agreed on pair by pair: the lower rank's count comes first. */
static int digest_pairs(struct ddl_request *r, const struct ddl__request_args *args)
{
	int me = r->comm->rank;
	if (r->call.collective != DDL__ALLTOALL || !args->counts)
		return 0;
	r->pair_digests = calloc((size_t)r->comm->size, sizeof(*r->pair_digests));
	if (!r->pair_digests)
		return -ENOMEM;
	for (int p = 0; p < r->comm->size; p++) {
		size_t there = args->counts[p], back = args->recv_counts[p];
		const size_t pair[] = { me < p ? there : back, me < p ? back : there };
		r->pair_digests[p] = ddl__counts_digest(2, pair);
	}
	return 0;
}

static int allocate(struct ddl_request *r, struct ddl_error *err)
{
	r->lanes = calloc(r->schedule->n_lanes ? r->schedule->n_lanes : 1, sizeof(*r->lanes));
	if (r->schedule->scratch_elements)
		r->scratch = malloc(r->schedule->scratch_elements * r->kernels->type_bytes);
	if (!r->lanes || (r->schedule->scratch_elements && !r->scratch))
		return ddl__error_set(err, -ENOMEM, "out of memory for a request of %llu elements",
				      (unsigned long long)r->call.count);
	const struct ddl__kernels *native = r->kernels;
	if (r->call.wire != DDL_WIRE_NATIVE)
		native = ddl__kernels_get((enum ddl_op)r->call.op, (enum ddl_type)r->call.type, DDL_WIRE_NATIVE);
	for (uint32_t l = 0; l < r->schedule->n_lanes; l++) {
		r->lanes[l].request = r;
		r->lanes[l].steps = &r->schedule->lanes[l];
		r->lanes[l].kernels = r->schedule->lanes[l].native ? native : r->kernels;
		r->lanes[l].step = r->lanes[l].steps->n; /* before the first start the caller's memory is the caller's */
	}
	return 0;
}

static int make_schedule(struct ddl_request *r, const struct ddl__candidate *candidate, const struct ddl__request_args *args,
			 struct ddl_error *err)
{
	struct ddl__build build = { .layout = r->comm->layout,
				    .rank = r->comm->rank,
				    .count = r->call.count,
				    .wire_bytes = r->kernels->wire_bytes,
				    .wire_block = r->kernels->wire_block,
				    .rounds = r->call.wire != DDL_WIRE_NATIVE && r->comm->size > 1,
				    .narrow = ddl__type_narrow((enum ddl_type)r->call.type),
				    .in_order = r->call.in_order,
				    .counts = args->counts,
				    .recv_counts = args->recv_counts,
				    .root = r->call.root,
				    .peer = args->peer,
				    .tag = args->tag,
				    .rings = r->call.rings };
	int rc = ddl__candidate_build(candidate, &build, &r->schedule);
	if (rc < 0)
		return ddl__error_set(err, rc, "the schedule for %s could not be built: %s", candidate->algorithm->name,
				      strerror(-rc));
	ddl__share_init(r, &build);
	return 0;
}

int ddl__request_create(struct ddl_comm *comm, const struct ddl__candidate *candidate, const struct ddl__request_args *args,
			struct ddl_request **request, struct ddl_error *err)
{
	const struct ddl__call *call = &args->call;
	struct ddl_request *r = calloc(1, sizeof(*r));
	if (!r)
		return ddl__error_set(err, -ENOMEM, "out of memory for a request");
	r->comm = comm;
	r->call = *call;
	r->in_place = args->in_place;
	enum ddl_type type = call->type ? (enum ddl_type)call->type : DDL_UINT8;
	r->kernels = ddl__kernels_get((enum ddl_op)call->op, type, (enum ddl_wire)call->wire);
	int rc = make_schedule(r, candidate, args, err);
	if (rc < 0) {
		free(r);
		return rc;
	}
	rc = allocate(r, err);
	if (rc == 0 && (digest_pairs(r, args) < 0 || ddl__rounding_open(r) < 0))
		rc = ddl__error_set(err, -ENOMEM, "out of memory for a request");
	pthread_mutex_lock(&comm->lock);
	rc = rc ? rc : enter(comm, r, args, err);
	for (uint32_t l = 0; rc == 0 && l < r->schedule->n_lanes; l++)
		rc = open_lane(r, l, err);
	if (rc == 0 && ddl__watch_open(r, args) < 0)
		rc = ddl__error_set(err, -ENOMEM, "out of memory for the statistics of a request");
	if (rc == 0)
		compare_early(comm, r);
	pthread_mutex_unlock(&comm->lock);
	if (rc < 0) {
		ddl__request_destroy(r);
		ddl__engine_settle(comm); /* where a peer was lost meanwhile, that is the cause, and all are told of it */
		return atomic_load(&comm->failed) ? ddl_comm_get_error(comm, err) : rc;
	}
	ddl__engine_poke(comm);
	*request = r;
	return 0;
}

void ddl__request_lay(struct ddl_request *request, const void *send, void *recv)
{
	pthread_mutex_lock(&request->comm->lock);
	request->send = send;
	request->recv = recv;
	ddl__share_start(request);
	pthread_mutex_unlock(&request->comm->lock);
}

void ddl__request_keep(struct ddl_request *request)
{
	pthread_mutex_lock(&request->comm->lock);
	request->kept = true;
	pthread_mutex_unlock(&request->comm->lock);
}

void ddl__request_destroy(struct ddl_request *request)
{
	struct ddl_comm *comm = request->comm;
	ddl__audited_close(request);
	pthread_mutex_lock(&comm->lock);
	if (request->channel)
		ddl__channel_leave(request);
	else
		ddl__ids_leave(&comm->ids, request);
	ddl__watch_close(request);
	ddl__share_end(request);
	close_lanes(request);
	pthread_mutex_unlock(&comm->lock);
	ddl__schedule_destroy(request->schedule);
	free(request->lanes);
	free(request->scratch);
	ddl__rounding_close(request);
	free(request->pair_digests);
	free(request);
}

void ddl__request_rewind(struct ddl_request *request)
{
	const uint64_t turn = atomic_load_explicit(&request->comm->state->starts, memory_order_relaxed);
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		struct ddl__lane_state *lane = &request->lanes[l];
		lane->step = 0;
		lane->slice = 0;
		lane->done = false;
		if (lane->tx && lane->tx_ops->tx_turn)
			lane->tx_ops->tx_turn(lane->tx, turn);
	}
	request->lanes_left = request->schedule->n_lanes;
	request->starts++;
	if (request->watch)
		ddl__watch_start(request);
	ddl__rounding_start(request);
	ddl__share_start(request);
}

static char *place(const struct ddl_request *r, uint8_t buffer, uint64_t element)
{
	const void *input = r->rounding && r->rounding->input ? r->rounding->input : r->send;
	char *base = buffer == DDL__INPUT ? (char *)(uintptr_t)input : buffer == DDL__OUTPUT ? r->recv : r->scratch;
	return base ? base + element * r->kernels->type_bytes : NULL;
}

static void reduce_many(const struct ddl_request *r, const struct ddl__step *step, uint64_t offset, size_t n, void *dst)
{
	const void *src[DDL__SOURCES_MAX];
	for (uint32_t k = 0; k < step->sources; k++)
		src[k] = place(r, step->src_buffer, step->src + k * step->stride + offset);
	r->kernels->reduce_many(&dst, 1, src, step->sources, n, step->final ? r->comm->size : 1, 0);
}

/* The work of one slice on memory. in: the slice received; out: the slot to be sent. */
static void compute(const struct ddl__lane_state *lane, const struct ddl__step *step, uint64_t offset, size_t n, const void *in,
		    void *out)
{
	const struct ddl_request *r = lane->request;
	const struct ddl__kernels *k = lane->kernels;
	const void *src = place(r, step->src_buffer, step->src + offset);
	void *dst = place(r, step->dst_buffer, step->dst + offset);
	if (n == 0)
		return;
	if (!lane->steps->native && ddl__rounding_concerns(r, step)) {
		ddl__rounding_run(r, step, offset, n, in, out, src, dst);
		return;
	}
	switch ((enum ddl__step_kind)step->kind) {
	case DDL__SEND:
		k->encode(out, src, n);
		break;
	case DDL__RECV:
		k->decode(dst, in, n);
		break;
	case DDL__RECV_REDUCE:
		k->reduce_store(dst, in, src, n, step->final ? r->comm->size : 0);
		break;
	case DDL__RECV_REDUCE_SEND:
		k->reduce_wire(out, in, src, n);
		break;
	case DDL__RECV_REDUCE_STORE_SEND:
		k->finish(dst, out, in, src, n, step->final ? r->comm->size : 1);
		break;
	case DDL__RECV_STORE_SEND:
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a step of this kind has both ends */
		memcpy(out, in, ddl__wire_size(k, n));
		k->decode(dst, in, n);
		break;
	case DDL__COPY:
		if (dst != src)
			memcpy(dst, src, n * k->type_bytes);
		break;
	case DDL__SEND_STORE:
		k->encode(out, src, n);
		k->decode(dst, out, n);
		break;
	case DDL__REDUCE_MANY:
		reduce_many(r, step, offset, n, dst);
		break;
	case DDL__ROUND:
		ddl__rounding_round(r, step, offset, n, src, dst);
		break;
	}
}

/* The same where elements travel as they are: nothing is copied onto itself, and long results go past the caches. */
static void compute_native(const struct ddl__lane_state *lane, const struct ddl__step *step, uint64_t offset, size_t n,
			   const void *in, void *out, bool placed)
{
	const struct ddl_request *r = lane->request;
	const size_t bytes = n * r->kernels->type_bytes;
	const void *src = place(r, step->src_buffer, step->src + offset);
	void *dst = place(r, step->dst_buffer, step->dst + offset);
	const int stream = r->recv_bytes >= (r->recv_in.window ? STREAM_BYTES_MIN : STREAM_BYTES_MIN_PLAIN);
	if (n == 0)
		return;
	switch ((enum ddl__step_kind)step->kind) {
	case DDL__SEND:
		ddl__copy(out, src, bytes, stream && placed);
		break;
	case DDL__ROUND:
		ddl__copy(dst, src, bytes, 0);
		break;
	case DDL__SEND_STORE:
		ddl__copy(out, src, bytes, stream && placed);
		if (dst != src)
			ddl__copy(dst, src, bytes, stream);
		break;
	case DDL__RECV:
		if (dst != in)
			ddl__copy(dst, in, bytes, stream && step->dst_buffer == DDL__OUTPUT);
		break;
	case DDL__RECV_STORE_SEND:
		ddl__copy(out, in, bytes, stream && placed);
		if (dst != in)
			ddl__copy(dst, in, bytes, stream && step->dst_buffer == DDL__OUTPUT);
		break;
	case DDL__RECV_REDUCE_STORE_SEND:
		if (stream) {
			void *const both[] = { out, dst };
			const void *const sources[] = { in, src };
			r->kernels->reduce_many(both, placed ? 2 : 1, sources, 2, n, step->final ? r->comm->size : 1, placed);
			if (!placed)
				ddl__copy(dst, out, bytes, 1);
			break;
		}
		compute(lane, step, offset, n, in, out);
		break;
	default:
		compute(lane, step, offset, n, in, out);
	}
}

/* The same where what is sent is lent or borrowed: only what stays here is to be made. */
static void compute_borrowed(const struct ddl_request *r, const struct ddl__step *step, uint64_t offset, size_t n, const void *in)
{
	const size_t bytes = n * r->kernels->type_bytes;
	const void *src = place(r, step->src_buffer, step->src + offset);
	void *dst = place(r, step->dst_buffer, step->dst + offset);
	switch ((enum ddl__step_kind)step->kind) {
	case DDL__SEND_STORE:
		if (dst != src)
			memcpy(dst, src, bytes);
		break;
	case DDL__RECV_STORE_SEND:
		if (dst != in)
			/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a step of this kind has both ends */
			memcpy(dst, in, bytes);
		break;
	case DDL__RECV_REDUCE_STORE_SEND:
		r->kernels->reduce_store(dst, in, src, n, step->final ? r->comm->size : 0);
		break;
	default:
		break; /* it sends what is there */
	}
}

/* Sends a slice by lending it, if it is of a kind that only sends, and that is possible now. */
static bool lend(const struct ddl_request *r, const struct ddl__lane_state *lane, const struct ddl__step *step, uint64_t offset,
		 size_t n)
{
	if (step->kind != DDL__SEND && step->kind != DDL__SEND_STORE)
		return false;
	if (!ddl__share_lend(r, lane, step, offset, ddl__wire_size(r->kernels, n)))
		return false;
	compute_borrowed(r, step, offset, n, NULL);
	return true;
}

static void next_slice(const struct ddl_request *r, struct ddl__lane_state *lane, const struct ddl__step *step)
{
	if (++lane->slice < ddl__step_slices(step, r->schedule->slice_elements))
		return;
	lane->slice = 0;
	lane->step++;
}

static void fail_length(struct ddl_request *r, uint32_t index, size_t landed, size_t bytes)
{
	const struct ddl__lane_state *lane = &r->lanes[index];
	ddl__engine_fail(r->comm, -EBADMSG,
			 "rank %d on node %s sent %zu bytes where %zu were expected (request %u, lane %u, step %u): the ranks run "
			 "different versions or memory is damaged",
			 lane->steps->recv_peer, ddl_comm_node_name(r->comm, lane->steps->recv_peer), landed, bytes,
			 DDL__REQUEST_NUMBER(r->id), index, lane->step);
}

/* Runs one slice of a lane. */
static enum ddl__halt run_slice(struct ddl_request *r, uint32_t index)
{
	struct ddl__lane_state *lane = &r->lanes[index];
	const struct ddl__step *step = &lane->steps->steps[lane->step];
	const void *in = NULL, *from = NULL;
	void *out = NULL;
	size_t landed = 0;
	bool placed = false, answered = false;
	if (waits_for_lane(r, step))
		return DDL__HALT_LANE;
	if (ddl__step_receives(step->kind) && !(in = lane->rx_ops->rx_slot(lane->rx, &landed)))
		return DDL__HALT_DATA;
	uint64_t slice = r->schedule->slice_elements, offset = lane->slice * slice;
	size_t n = step->count - offset < slice ? step->count - offset : slice, bytes = ddl__wire_size(lane->kernels, n);
	if (ddl__step_sends(step->kind)) {
		out = ddl__share_place(r, lane, step, offset, bytes);
		placed = out != NULL;
		if (!out && lend(r, lane, step, offset, n)) {
			r->lent++;
			if (r->watch) {
				ddl__watch_begin(r, index);
				ddl__watch_moved(r, index, step, bytes);
			}
			next_slice(r, lane, step);
			return DDL__MOVED;
		}
		if (!out && step->answer && lane->tx_ops->tx_answer)
			answered = (out = lane->tx_ops->tx_answer(lane->tx, bytes)) != NULL;
		if (!out && !(out = lane->tx_ops->tx_slot(lane->tx)))
			return DDL__HALT_CREDIT;
		from = placed ? NULL : ddl__share_borrow(r, lane, step, offset, bytes);
	}
	if (in && landed != bytes) {
		fail_length(r, index, landed, bytes);
		return DDL__HALT_FAILED;
	}
	if (r->watch)
		ddl__watch_begin(r, index);
	if (from)
		compute_borrowed(r, step, offset, n, in);
	else if (r->call.wire == DDL_WIRE_NATIVE || lane->steps->native)
		compute_native(lane, step, offset, n, in, out, placed);
	else
		compute(lane, step, offset, n, in, out);
	r->placed += placed;
	r->answered += answered;
	if (placed)
		lane->tx_ops->tx_placed(lane->tx, bytes);
	else if (answered)
		lane->tx_ops->tx_answered(lane->tx, bytes);
	else if (from)
		ddl__share_send(r, lane, step, offset, from, bytes);
	else if (out)
		lane->tx_ops->tx_send(lane->tx, bytes);
	if (in)
		lane->rx_ops->rx_release(lane->rx);
	if (r->watch)
		ddl__watch_moved(r, index, step, bytes);
	next_slice(r, lane, step);
	return DDL__MOVED;
}

int ddl__request_waits_for_left(const struct ddl_request *request)
{
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		const struct ddl__lane_state *lane = &request->lanes[l];
		size_t bytes;
		if (!lane->done && lane->step == lane->steps->n && request->shares && lane->tx &&
		    request->comm->left[lane->steps->send_peer] && !lane->tx_ops->tx_flushed(lane->tx))
			return lane->steps->send_peer; /* what it was lent it will never read */
		if (lane->done || lane->step == lane->steps->n || lane->steps->recv_peer < 0 ||
		    !request->comm->left[lane->steps->recv_peer])
			continue;
		const struct ddl__step *step = &lane->steps->steps[lane->step];
		if (ddl__step_receives(step->kind) && !lane->rx_ops->rx_slot(lane->rx, &bytes))
			return lane->steps->recv_peer;
	}
	return -1;
}

bool ddl__request_run(struct ddl_request *request)
{
	bool any = false;
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		struct ddl__lane_state *lane = &request->lanes[l];
		enum ddl__halt halt = DDL__MOVED;
		if (lane->done)
			continue;
		while (lane->step < lane->steps->n && !(any && ddl__engine_presses(request)) &&
		       (halt = run_slice(request, l)) == DDL__MOVED)
			any = true;
		if (lane->step == lane->steps->n && (!lane->tx || lane->tx_ops->tx_flushed(lane->tx))) {
			lane->done = true;
			request->lanes_left--;
			any = true;
			if (request->watch)
				ddl__watch_begin(request, l); /* ends a wait for delivery */
		} else if (request->watch && (halt != DDL__MOVED || lane->step == lane->steps->n)) {
			ddl__watch_halt(request, l, halt == DDL__MOVED ? DDL__HALT_DELIVERY : halt);
		}
	}
	return any;
}
