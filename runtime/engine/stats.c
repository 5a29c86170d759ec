/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - see stats.h. */
#include "stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "trace.h"

_Static_assert(DDL_STATS_RAILS == DDL__RAILS_MAX, "statistics know all rails");

enum { TRACED_WAIT_NS = 1000 }; /* shorter waits are not worth a place in the trace */

/* ---- what a lane does ---- */

static void trace_lane(const struct ddl_request *r, uint32_t index, struct ddl__trace_event event)
{
	const struct ddl__steps *steps = r->lanes[index].steps;
	const struct ddl__lane_watch *w = &r->watch->lanes[index];
	event.request = r->watch->trace;
	event.id = r->id;
	event.start = (uint32_t)r->starts;
	event.lane = index;
	event.number = steps->number;
	event.from = steps->recv_peer;
	event.to = steps->send_peer;
	event.level = steps->recv_peer >= 0 ? w->recv_level : w->send_level;
	ddl__trace_add(r->comm->trace, &event);
}

/* Ends a wait at a time. */
static void end_wait(struct ddl_request *r, uint32_t index, uint64_t now)
{
	struct ddl__lane_watch *w = &r->watch->lanes[index];
	const uint64_t lasted = now > w->since_ns ? now - w->since_ns : 0;
	enum ddl__span kind = DDL__SPAN_DATA;
	switch ((enum ddl__halt)w->halt) {
	case DDL__HALT_DATA:
		w->done.wait_data_ns += lasted;
		break;
	case DDL__HALT_CREDIT:
	case DDL__HALT_DELIVERY:
		w->done.wait_credit_ns += lasted;
		kind = DDL__SPAN_CREDIT;
		break;
	case DDL__HALT_LANE:
		w->done.wait_lane_ns += lasted;
		kind = DDL__SPAN_LANE;
		break;
	default:
		return;
	}
	if (r->comm->trace && lasted >= TRACED_WAIT_NS)
		trace_lane(r, index, (struct ddl__trace_event){ .begin_ns = w->since_ns, .end_ns = now, .kind = kind });
}

void ddl__watch_begin(struct ddl_request *request, uint32_t lane)
{
	struct ddl__lane_watch *w = &request->watch->lanes[lane];
	if (w->halt == DDL__MOVED)
		return;
	uint64_t now = ddl__now_ns();
	end_wait(request, lane, now);
	w->halt = DDL__MOVED;
	w->since_ns = now;
}

void ddl__watch_moved(struct ddl_request *request, uint32_t lane, const struct ddl__step *step, size_t bytes)
{
	struct ddl__lane_watch *w = &request->watch->lanes[lane];
	const uint64_t begin = w->since_ns, now = ddl__now_ns();
	const bool in = ddl__step_receives(step->kind), out = ddl__step_sends(step->kind);
	*(ddl__step_reduces(step->kind) ? &w->done.reduce_ns : &w->done.copy_ns) += now - begin;
	w->since_ns = now;
	w->done.bytes_received += in ? bytes : 0;
	w->done.slices_received += in;
	w->done.bytes_sent += out ? bytes : 0;
	w->done.slices_sent += out;
	if (request->comm->trace)
		trace_lane(request, lane,
			   (struct ddl__trace_event){ .begin_ns = begin,
						      .end_ns = now,
						      .kind = DDL__SPAN_WORK,
						      .step = step->kind,
						      .bytes = (uint32_t)bytes,
						      .sent = out ? w->sent + 1 : 0,
						      .received = in ? w->received + 1 : 0 });
	w->sent += out;
	w->received += in;
}

void ddl__watch_halt(struct ddl_request *request, uint32_t lane, enum ddl__halt halt)
{
	struct ddl__lane_watch *w = &request->watch->lanes[lane];
	if (w->halt == halt)
		return;
	if (w->halt != DDL__MOVED && w->halt != DDL__HALT_START) { /* it waits for another thing now */
		uint64_t now = ddl__now_ns();
		end_wait(request, lane, now);
		w->since_ns = now;
	}
	w->halt = (uint8_t)halt;
}

void ddl__watch_start(struct ddl_request *request)
{
	const uint64_t now = ddl__now_ns();
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		struct ddl__lane_watch *w = &request->watch->lanes[l];
		w->since_ns = now;
		w->halt = DDL__HALT_START;
		w->sent = w->received = 0;
	}
}

void ddl__watch_complete(struct ddl_request *request)
{
	struct ddl__watch *w = request->watch;
	const uint64_t now = ddl__now_ns(), lasted = now > request->started_ns ? now - request->started_ns : 0;
	w->starts++;
	w->total_ns += lasted;
	if (w->starts == 1 || lasted < w->shortest_ns)
		w->shortest_ns = lasted;
	if (lasted > w->longest_ns)
		w->longest_ns = lasted;
	const struct ddl__trace_event event = { .begin_ns = request->started_ns,
						.end_ns = now,
						.kind = DDL__SPAN_REQUEST,
						.request = w->trace,
						.id = request->id,
						.start = (uint32_t)request->starts,
						.from = -1,
						.to = -1 };
	if (request->comm->trace)
		ddl__trace_add(request->comm->trace, &event);
}

/* ---- adding up ---- */

static void add(struct ddl_stats *to, const struct ddl_stats *from)
{
	to->bytes_sent += from->bytes_sent;
	to->bytes_received += from->bytes_received;
	to->slices_sent += from->slices_sent;
	to->slices_received += from->slices_received;
	to->wait_data_ns += from->wait_data_ns;
	to->wait_credit_ns += from->wait_credit_ns;
	to->wait_lane_ns += from->wait_lane_ns;
	to->reduce_ns += from->reduce_ns;
	to->copy_ns += from->copy_ns;
}

/* The part of a lane's figures that belongs to the peer it sends to, or to the one it receives from, with the work. */
static struct ddl_stats half(const struct ddl__lane_state *lane, const struct ddl_stats *s, bool sends)
{
	const bool work = sends ? lane->steps->recv_peer < 0 : lane->steps->recv_peer >= 0;
	struct ddl_stats part = { 0 };
	if (sends) {
		part.bytes_sent = s->bytes_sent;
		part.slices_sent = s->slices_sent;
		part.wait_credit_ns = s->wait_credit_ns;
	} else {
		part.bytes_received = s->bytes_received;
		part.slices_received = s->slices_received;
		part.wait_data_ns = s->wait_data_ns;
	}
	if (work) {
		part.wait_lane_ns = s->wait_lane_ns;
		part.reduce_ns = s->reduce_ns;
		part.copy_ns = s->copy_ns;
	}
	return part;
}

/* Adds a lane up by level, rail and peer; a lane without peers only to all. */
static void add_lane(const struct ddl_request *r, uint32_t index, struct ddl_stats *all, struct ddl_stats *levels,
		     struct ddl_stats *rails, struct ddl_stats *peers)
{
	const struct ddl__lane_state *lane = &r->lanes[index];
	const struct ddl__lane_watch *w = &r->watch->lanes[index];
	add(all, &w->done);
	for (int sends = 0; sends < 2; sends++) {
		const int peer = sends ? lane->steps->send_peer : lane->steps->recv_peer;
		const uint8_t level = sends ? w->send_level : w->recv_level;
		if (peer < 0)
			continue;
		const struct ddl_stats part = half(lane, &w->done, sends);
		add(&levels[level], &part);
		if (level > 0) /* within a node there is none */
			add(&rails[sends ? w->send_rail : w->recv_rail], &part);
		if (peers)
			add(&peers[peer], &part);
	}
}

static void add_request(struct ddl_request *r)
{
	struct ddl__watch *w = r->watch;
	struct ddl__stats *stats = r->comm->stats;
	if (w->added || !stats)
		return;
	struct ddl__stats_row *row = &stats->rows[w->row];
	w->added = true;
	for (uint32_t l = 0; l < r->schedule->n_lanes; l++)
		add_lane(r, l, &row->all, row->levels, row->rails, stats->peers);
	if (w->starts && (!row->times.starts || w->shortest_ns < row->times.shortest_ns))
		row->times.shortest_ns = w->shortest_ns;
	if (w->longest_ns > row->times.longest_ns)
		row->times.longest_ns = w->longest_ns;
	row->times.starts += w->starts;
	row->times.total_ns += w->total_ns;
}

static bool add_each(const struct ddl_request *request, const void *context)
{
	if (request->watch)
		add_request((struct ddl_request *)request);
	return false;
}

void ddl__stats_add_live(struct ddl_comm *comm)
{
	pthread_mutex_lock(&comm->lock);
	for (uint32_t i = 0; i < comm->ids.n; i++)
		if (comm->ids.rows[i].request && comm->ids.rows[i].request->watch)
			add_request(comm->ids.rows[i].request);
	ddl__channels_any(comm, add_each, NULL);
	pthread_mutex_unlock(&comm->lock);
}

/* ---- making and unmaking ---- */

/* Height of a vertex: 0 a node. */
static unsigned height_of(const struct ddl__vertex *v)
{
	unsigned most = 0;
	for (size_t i = 0; i < v->n_children; i++) {
		unsigned h = height_of(v->children[i]) + 1;
		most = h > most ? h : most;
	}
	return most;
}

static unsigned depth_of(const struct ddl__vertex *v)
{
	unsigned n = 0;
	for (; v->parent; v = v->parent)
		n++;
	return n;
}

/* How high this rank and another must go to meet: 0 in their node, l in a switch of height l. */
static unsigned level_of(const struct ddl_comm *comm, int peer)
{
	const size_t *node = comm->layout->node_of_rank;
	if (peer < 0 || node[peer] == node[comm->rank])
		return 0;
	const struct ddl__vertex *a = comm->plan->nodes[node[comm->rank]], *b = comm->plan->nodes[node[peer]];
	unsigned da = depth_of(a), db = depth_of(b);
	for (; da > db; da--)
		a = a->parent;
	for (; db > da; db--)
		b = b->parent;
	while (a != b) {
		a = a->parent;
		b = b->parent;
	}
	unsigned level = height_of(a);
	return level < DDL_STATS_LEVELS ? level : DDL_STATS_LEVELS - 1;
}

/* Where and how a lane's peers are reached. */
static void find_ways(struct ddl_request *request, uint32_t index, struct ddl__lane_watch *w)
{
	const struct ddl__lane_state *lane = &request->lanes[index];
	struct ddl__stats *stats = request->comm->stats;
	w->recv_level = (uint8_t)level_of(request->comm, lane->steps->recv_peer);
	w->send_level = (uint8_t)level_of(request->comm, lane->steps->send_peer);
	if (lane->rx && lane->rx_ops->rx_rail)
		w->recv_rail = (uint8_t)lane->rx_ops->rx_rail(lane->rx);
	if (lane->tx && lane->tx_ops->tx_rail)
		w->send_rail = (uint8_t)lane->tx_ops->tx_rail(lane->tx);
	const unsigned rail = w->recv_rail > w->send_rail ? w->recv_rail : w->send_rail;
	stats->n_rails = rail >= stats->n_rails ? rail + 1 : stats->n_rails;
}

/* The row of a request that is made. */
static uint32_t row_for(struct ddl_comm *comm, const struct ddl__request_args *args)
{
	struct ddl__stats *s = comm->stats;
	uint32_t row = args->call.root == comm->rank ? DDL__ROW_SENDS : DDL__ROW_RECEIVES;
	if (args->call.collective != DDL__SENDRECV) {
		if (s->n_rows < DDL__ROWS_MAX)
			s->n_rows++;
		row = (uint32_t)s->n_rows - 1;
	}
	struct ddl__stats_row *r = &s->rows[row];
	if (r->requests++ == 0) {
		r->call = args->call;
		if (comm->observe & DDL__OBSERVE_ALONE && args->counts && args->call.collective != DDL__ALLTOALL) {
			r->counts = malloc((size_t)comm->size * sizeof(*r->counts));
			if (r->counts)
				memcpy(r->counts, args->counts, (size_t)comm->size * sizeof(*r->counts));
		}
	}
	return row;
}

int ddl__watch_open(struct ddl_request *request, const struct ddl__request_args *args)
{
	struct ddl_comm *comm = request->comm;
	if (!comm->watching)
		return 0;
	struct ddl__watch *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->lanes = calloc(request->schedule->n_lanes + 1, sizeof(*w->lanes));
	if (!w->lanes) {
		free(w);
		return -ENOMEM;
	}
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++)
		find_ways(request, l, &w->lanes[l]);
	w->row = row_for(comm, args);
	w->trace = ddl__trace_name(comm->trace, &request->call);
	request->watch = w;
	return 0;
}

void ddl__watch_close(struct ddl_request *request)
{
	if (!request->watch)
		return;
	add_request(request);
	free(request->watch->lanes);
	free(request->watch);
	request->watch = NULL;
}

int ddl__stats_open(struct ddl_comm *comm, unsigned observe)
{
	struct ddl__stats *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->rows = calloc(DDL__ROWS_MAX, sizeof(*s->rows));
	s->peers = calloc((size_t)comm->size, sizeof(*s->peers));
	comm->stats = s;
	if (!s->rows || !s->peers)
		return -ENOMEM;
	s->n_rows = DDL__ROW_COLLECTIVES;
	s->n_levels = height_of(comm->plan->root) + 1;
	s->n_levels = s->n_levels < DDL_STATS_LEVELS ? s->n_levels : DDL_STATS_LEVELS;
	s->n_rails = 1;
	comm->observe = observe;
	comm->watching = true;
	return 0;
}

void ddl__stats_end(struct ddl_comm *comm)
{
	comm->watching = false;
}

void ddl__stats_close(struct ddl_comm *comm)
{
	struct ddl__stats *s = comm->stats;
	if (!s)
		return;
	for (size_t i = 0; s->rows && i < s->n_rows; i++)
		free(s->rows[i].counts);
	free(s->rows);
	free(s->peers);
	free(s);
	comm->stats = NULL;
}

/* ---- the public calls ---- */

int ddl_request_get_stats(const struct ddl_request *request, struct ddl_request_stats *stats)
{
	if (!request || !stats || stats->struct_size < sizeof(*stats))
		return -EINVAL;
	struct ddl_comm *comm = request->comm;
	const size_t size = stats->struct_size;
	if (!request->watch)
		return -EOPNOTSUPP;
	memset(stats, 0, sizeof(*stats));
	stats->struct_size = size;
	pthread_mutex_lock(&comm->lock);
	const struct ddl__watch *w = request->watch;
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++)
		add_lane(request, l, &stats->all, stats->levels, stats->rails, NULL);
	stats->starts = w->starts;
	stats->total_ns = w->total_ns;
	stats->shortest_ns = w->shortest_ns;
	stats->longest_ns = w->longest_ns;
	stats->n_levels = comm->stats->n_levels;
	stats->n_rails = comm->stats->n_rails;
	pthread_mutex_unlock(&comm->lock);
	return 0;
}

int ddl_request_get_peer_stats(const struct ddl_request *request, int peer, struct ddl_stats *stats)
{
	if (!request || !stats || peer < 0 || peer >= request->comm->size)
		return -EINVAL;
	if (!request->watch)
		return -EOPNOTSUPP;
	memset(stats, 0, sizeof(*stats));
	pthread_mutex_lock(&request->comm->lock);
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		const struct ddl__lane_state *lane = &request->lanes[l];
		for (int sends = 0; sends < 2; sends++) {
			if ((sends ? lane->steps->send_peer : lane->steps->recv_peer) != peer)
				continue;
			const struct ddl_stats part = half(lane, &request->watch->lanes[l].done, sends);
			add(stats, &part);
		}
	}
	pthread_mutex_unlock(&request->comm->lock);
	return 0;
}
