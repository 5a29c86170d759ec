/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - see state.h. */
#include "state.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dump.h"
#include "engine.h"
#include "origin.h"

enum { READS_MAX = 100 };

int ddl__state_open(struct ddl_comm *comm)
{
	comm->state_fd = memfd_create(DDL__STATE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (comm->state_fd >= 0 && ftruncate(comm->state_fd, sizeof(struct ddl__state)) == 0) {
		void *memory = mmap(NULL, sizeof(struct ddl__state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
				    comm->state_fd, 0);
		comm->state = memory == MAP_FAILED ? NULL : memory;
	}
	if (comm->state)
		return 0;
	if (comm->state_fd >= 0)
		close(comm->state_fd);
	comm->state_fd = -1;
	comm->state = calloc(1, sizeof(*comm->state));
	return comm->state ? 0 : -ENOMEM;
}

static void copy_variable(char *to, size_t size, const char *name)
{
	const char *value = getenv(name);
	snprintf(to, size, "%s", value ? value : "");
}

void ddl__state_show(struct ddl_comm *comm)
{
	struct ddl__state *s = comm->state;
	s->rank = comm->rank;
	s->ranks = comm->size;
	s->pid = (int32_t)getpid();
	s->polls = comm->has_thread;
	s->version = DDL__STATE_VERSION;
	s->size = sizeof(*s);
	snprintf(s->job, sizeof(s->job), "%s", comm->origin->job);
	snprintf(s->node, sizeof(s->node), "%.63s", ddl_comm_node_name(comm, comm->rank));
	copy_variable(s->slurm_job, sizeof(s->slurm_job), "SLURM_JOB_ID");
	copy_variable(s->slurm_step, sizeof(s->slurm_step), "SLURM_STEP_ID");
	atomic_thread_fence(memory_order_release);
	s->magic = DDL__STATE_MAGIC;
}

/* The lanes of a request that wait. */
static void note_request(struct ddl__state *s, const struct ddl_request *r)
{
	uint64_t done, all;
	ddl__request_done(r, &done, &all);
	for (uint32_t l = 0; l < r->schedule->n_lanes && s->n_waits < DDL__STATE_WAITS; l++) {
		const struct ddl__lane_wait wait = ddl__lane_wait(r, l);
		if (wait.what == DDL__WAIT_NOTHING)
			continue;
		struct ddl__state_wait *w = &s->waits[s->n_waits++];
		*w = (struct ddl__state_wait){
			.call = r->call,
			.start = r->starts,
			.since_ns = atomic_load_explicit(&r->moved_ns, memory_order_relaxed),
			.done = done,
			.all = all,
			.request = r->id,
			.lane = l,
			.step = wait.step,
			.steps = wait.steps,
			.peer = wait.peer,
			.what = (uint8_t)wait.what,
			.step_kind = wait.step_kind,
		};
		snprintf(w->peer_node, sizeof(w->peer_node), "%.63s", ddl_comm_node_name(r->comm, wait.peer));
	}
}

void ddl__state_note(struct ddl_comm *comm)
{
	struct ddl__state *s = comm->state;
	if (!comm->layout)
		return;
	atomic_fetch_add_explicit(&s->sequence, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	s->n_active = s->n_waits = 0;
	s->noted_ns = ddl__coarse_ns();
	s->noted_starts = atomic_load_explicit(&s->starts, memory_order_relaxed);
	s->noted_completions = atomic_load_explicit(&s->completions, memory_order_relaxed);
	for (const struct ddl_request *r = comm->active; r; r = r->next) {
		s->n_active++;
		note_request(s, r);
	}
	atomic_fetch_add_explicit(&s->sequence, 1, memory_order_release);
}

void ddl__state_note_changed(struct ddl_comm *comm)
{
	const struct ddl__state *s = comm->state;
	bool same = s->noted_ns && s->noted_starts == atomic_load_explicit(&s->starts, memory_order_relaxed) &&
		    s->noted_completions == atomic_load_explicit(&s->completions, memory_order_relaxed);
	for (const struct ddl_request *r = comm->active; same && r; r = r->next)
		same = atomic_load_explicit(&r->moved_ns, memory_order_relaxed) < s->noted_ns;
	if (!same)
		ddl__state_note(comm);
}

void ddl__state_forked(struct ddl_comm *comm)
{
	if (comm->state_fd >= 0)
		close(comm->state_fd);
	comm->state_fd = -1;
}

void ddl__state_close(struct ddl_comm *comm)
{
	if (comm->state_fd >= 0) {
		munmap(comm->state, sizeof(*comm->state));
		close(comm->state_fd);
	} else {
		free(comm->state);
	}
	comm->state = NULL;
	comm->state_fd = -1;
}

/* Whether what was read is one of ours, whoever wrote it; makes its texts end. */
static bool is_sound(struct ddl__state *s)
{
	if (s->magic != DDL__STATE_MAGIC || s->version != DDL__STATE_VERSION || s->size != sizeof(*s) || s->rank < 0 ||
	    s->rank >= s->ranks || s->n_waits > DDL__STATE_WAITS)
		return false;
	s->job[sizeof(s->job) - 1] = s->slurm_job[sizeof(s->slurm_job) - 1] = s->slurm_step[sizeof(s->slurm_step) - 1] = '\0';
	s->node[sizeof(s->node) - 1] = '\0';
	for (uint32_t i = 0; i < s->n_waits; i++)
		s->waits[i].peer_node[sizeof(s->waits[i].peer_node) - 1] = '\0';
	return true;
}

int ddl__state_read(int fd, struct ddl__state *state)
{
	uint32_t before = 1, after = 0;
	struct stat info;
	if (fstat(fd, &info) < 0 || info.st_size != (off_t)sizeof(*state))
		return -EBADMSG;
	for (int i = 0; (before & 1 || before != after) && i < READS_MAX; i++) { /* not mapped: its owner may cut it */
		if (i)
			usleep(100);
		if (pread(fd, &before, sizeof(before), offsetof(struct ddl__state, sequence)) != sizeof(before) ||
		    pread(fd, state, sizeof(*state), 0) != sizeof(*state) ||
		    pread(fd, &after, sizeof(after), offsetof(struct ddl__state, sequence)) != sizeof(after))
			return -EBADMSG;
	}
	if (before & 1 || before != after) /* stopped while it was writing */
		state->n_waits = state->n_active = 0;
	return is_sound(state) ? 0 : -EBADMSG;
}
