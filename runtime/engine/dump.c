/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c - see dump.h. */
#include "dump.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "origin.h"
#include "trace.h"

enum { LANES_MAX = 16 }; /* of a request in a dump */

struct ddl__lane_wait ddl__lane_wait(const struct ddl_request *request, uint32_t index)
{
	const struct ddl__lane_state *lane = &request->lanes[index];
	struct ddl__lane_wait wait = { .what = DDL__WAIT_NOTHING, .peer = -1, .steps = lane->steps->n };
	size_t bytes;
	if (lane->done || lane->steps->n == 0)
		return wait;
	bool through = lane->step == lane->steps->n;
	const struct ddl__step *step = &lane->steps->steps[through ? lane->step - 1 : lane->step];
	if (!through && step->wait_lane != DDL__NO_WAIT && request->lanes[step->wait_lane].step <= step->wait_step)
		return wait; /* that lane tells who is to blame */
	bool receiving = !through && ddl__step_receives(step->kind) && !lane->rx_ops->rx_slot(lane->rx, &bytes);
	wait.peer = receiving ? lane->steps->recv_peer : lane->steps->send_peer;
	wait.step = through ? lane->step - 1 : lane->step;
	wait.step_kind = step->kind;
	if (wait.peer >= 0)
		wait.what = receiving ? DDL__WAIT_DATA : through ? DDL__WAIT_DELIVERY : DDL__WAIT_ROOM;
	return wait;
}

static void describe_lane(const struct ddl_request *request, uint32_t lane, const struct ddl__lane_wait *wait, char *text,
			  size_t size)
{
	static const char *const what[] = { "nothing", "data from", "room at", "delivery to" };
	snprintf(text, size, "lane %u step %u of %u (%s) waits for %s rank %d on node %s", lane, wait->step + 1, wait->steps,
		 ddl__step_name(wait->step_kind), what[wait->what], wait->peer, ddl_comm_node_name(request->comm, wait->peer));
}

void ddl__request_describe_wait(const struct ddl_request *request, char *text, size_t size)
{
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		const struct ddl__lane_wait wait = ddl__lane_wait(request, l);
		if (wait.what == DDL__WAIT_NOTHING)
			continue;
		describe_lane(request, l, &wait, text, size);
		return;
	}
	snprintf(text, size, "it waits for data in no lane");
}

void ddl__request_done(const struct ddl_request *request, uint64_t *done, uint64_t *all)
{
	const uint64_t slice = request->schedule->slice_elements;
	const struct ddl__kernels *k = request->kernels;
	*done = *all = 0;
	for (uint32_t l = 0; l < request->schedule->n_lanes; l++) {
		const struct ddl__lane_state *lane = &request->lanes[l];
		for (uint32_t s = 0; s < lane->steps->n; s++) {
			const uint64_t count = lane->steps->steps[s].count, part = lane->slice * slice;
			*all += ddl__wire_size(k, count);
			if (s < lane->step)
				*done += ddl__wire_size(k, count);
			else if (s == lane->step)
				*done += ddl__wire_size(k, part < count ? part : count);
		}
	}
}

static void dump_request(FILE *out, const struct ddl_request *r)
{
	const uint64_t moved = atomic_load_explicit(&r->moved_ns, memory_order_relaxed), now = ddl__coarse_ns();
	char text[256];
	uint64_t done, all;
	uint32_t waiting = 0;
	ddl__call_describe(&r->call, text, sizeof(text));
	ddl__request_done(r, &done, &all);
	fprintf(out, "ddl:   request %u (%s), start %llu: nothing moved for %.1f s, %llu of %llu bytes done\n",
		DDL__REQUEST_NUMBER(r->id), text, (unsigned long long)r->starts, (double)(now > moved ? now - moved : 0) / 1e9,
		(unsigned long long)done, (unsigned long long)all);
	for (uint32_t l = 0; l < r->schedule->n_lanes; l++) {
		const struct ddl__lane_wait wait = ddl__lane_wait(r, l);
		if (wait.what == DDL__WAIT_NOTHING || ++waiting > LANES_MAX)
			continue;
		describe_lane(r, l, &wait, text, sizeof(text));
		fprintf(out, "ddl:     %s\n", text);
	}
	if (waiting > LANES_MAX)
		fprintf(out, "ddl:     and %u lanes more wait\n", waiting - LANES_MAX);
}

static void dump_all(FILE *out, const struct ddl_comm *comm, const char *why)
{
	char when[64] = "";
	const time_t now = time(NULL);
	struct tm local;
	unsigned n = 0;
	for (const struct ddl_request *r = comm->active; r; r = r->next)
		n++;
	if (localtime_r(&now, &local))
		strftime(when, sizeof(when), "%F %T", &local);
	fprintf(out, "ddl: %s: rank %d of %d on node %s, process %d, communicator %s, %s: %u active request%s\n", why, comm->rank,
		comm->size, ddl_comm_node_name(comm, comm->rank), (int)getpid(), *comm->origin->job ? comm->origin->job : "local",
		when, n, n == 1 ? "" : "s");
	for (const struct ddl_request *r = comm->active; r; r = r->next)
		dump_request(out, r);
}

static void append(const struct ddl_comm *comm, const char *text, size_t size)
{
	char path[1024];
	snprintf(path, sizeof(path), "%s/dump.%d.txt", ddl__trace_folder(comm->trace), comm->rank);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return; /* the trace itself says what is wrong with the folder */
	(void)!write(fd, text, size);
	close(fd);
}

static void dump(struct ddl_comm *comm, const char *why, bool aloud)
{
	char *text = NULL;
	size_t size = 0;
	if (!comm->layout || (!aloud && !comm->trace))
		return;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return;
	dump_all(out, comm, why);
	bool good = fclose(out) == 0;
	if (good && aloud)
		(void)!write(STDERR_FILENO, text, size); /* one write: dumps of many ranks do not mix */
	if (good && comm->trace) {
		append(comm, text, size);
		ddl__trace_write(comm->trace);
	}
	free(text);
}

void ddl__dump(struct ddl_comm *comm, const char *why)
{
	dump(comm, why, true);
}

void ddl__dump_quietly(struct ddl_comm *comm, const char *why)
{
	dump(comm, why, false);
}
