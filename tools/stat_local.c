/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat_local.c - finds the communicators of this machine's processes: each shows its state in a memfd (engine/state.h), which is
 * found among the descriptors below /proc. Nothing in the processes runs for that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"
#include "dump.h"
#include "stat.h"
#include "state.h"

struct seen { /* a memfd may be found in a process and in a child that it is just making */
	ino_t *inodes;
	size_t n, room;
};

static bool is_new(struct seen *seen, ino_t inode)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->inodes[i] == inode)
			return false;
	if (seen->n == seen->room) {
		size_t room = seen->room ? 2 * seen->room : 64;
		ino_t *more = realloc(seen->inodes, room * sizeof(*more));

		if (!more)
			return true;
		seen->inodes = more;
		seen->room = room;
	}
	seen->inodes[seen->n++] = inode;
	return true;
}

/* Whether a state belongs to what was asked for. */
static bool is_wanted(const struct ddl__state *s, const char *job)
{
	const size_t length = job ? strlen(job) : 0, number = strlen(s->slurm_job);

	if (!job)
		return true;
	if (number && strncmp(job, s->slurm_job, number) == 0 &&
	    (job[number] == '\0' || (job[number] == '.' && strcmp(job + number + 1, s->slurm_step) == 0)))
		return true;
	return strncmp(s->job, job, length) == 0 && (s->job[length] == '\0' || s->job[length] == '-');
}

/* The kernel's letter for a process's state. */
static char letter_of(const char *proc, const char *pid)
{
	char path[300], text[512];
	size_t n = 0;
	FILE *in;
	char *end;

	snprintf(path, sizeof(path), "%s/%s/stat", proc, pid);
	in = fopen(path, "re");
	if (in) {
		n = fread(text, 1, sizeof(text) - 1, in);
		fclose(in);
	}
	text[n] = '\0';
	end = strrchr(text, ')'); /* the name before it may hold anything */
	return end && end[1] == ' ' && end[2] ? end[2] : '?';
}

static double seconds_since(uint64_t then)
{
	const uint64_t now = ddl__coarse_ns();

	return then && now > then ? (double)(now - then) / 1e9 : 0;
}

static json_t *make_wait(const struct ddl__state_wait *w)
{
	static const char *const what[] = { "nothing", "data", "room", "delivery" };
	char call[192];

	ddl__call_describe(&w->call, call, sizeof(call));
	return json_pack("{sI ss sI sf sI sI sI sI sI ss ss si ss}", "request", (json_int_t)DDL__REQUEST_NUMBER(w->request), "call",
			 call, "start", (json_int_t)w->start, "for_s", seconds_since(w->since_ns), "done", (json_int_t)w->done,
			 "all", (json_int_t)w->all, "lane", (json_int_t)w->lane, "step", (json_int_t)w->step + 1, "steps",
			 (json_int_t)w->steps, "kind", ddl__step_name(w->step_kind), "what", what[w->what & 3], "peer", w->peer,
			 "peer_node", w->peer_node);
}

static json_t *make_state(const char *proc, const char *pid, const struct ddl__state *s)
{
	const uint64_t starts = atomic_load(&s->starts), completions = atomic_load(&s->completions);
	const uint64_t tested = atomic_load(&s->tested_ns);
	const char letter[] = { letter_of(proc, pid), '\0' };
	json_t *waits = json_array();
	json_t *state = json_pack("{si si ss ss ss ss si ss sI sI sb sf sb si so}", "rank", s->rank, "ranks", s->ranks, "node",
				  s->node, "communicator", s->job, "job", s->slurm_job, "step", s->slurm_step, "pid", atoi(pid),
				  "process", letter, "active", (json_int_t)(starts - completions), "starts", (json_int_t)starts,
				  "asleep", atomic_load(&s->asleep) != 0, "tested_s", tested ? seconds_since(tested) : -1.0,
				  "thread", s->polls != 0, "failed", (int)atomic_load(&s->failed), "waits", waits);

	/* What was noted counts while it is the last that happened. */
	if (state && s->noted_ns && s->noted_starts == starts && s->noted_completions == completions)
		for (uint32_t i = 0; i < s->n_waits; i++)
			json_array_append_new(waits, make_wait(&s->waits[i]));
	return state;
}

static void look_at(const char *proc, const char *pid, int fd, const char *job, struct seen *seen, json_t *states)
{
	struct ddl__state *s = calloc(1, sizeof(*s));
	struct stat info;
	json_t *state;

	if (s && fstat(fd, &info) == 0 && ddl__state_read(fd, s) == 0 && is_wanted(s, job) && is_new(seen, info.st_ino)) {
		state = make_state(proc, pid, s);
		if (state)
			json_array_append_new(states, state);
	}
	free(s);
}

/* The memfds of a process. Of others' processes, and of those that end meanwhile, there is nothing to see. */
static void look_through(const char *proc, const char *pid, const char *job, struct seen *seen, json_t *states)
{
	char folder[300], path[600], target[64];
	struct dirent *entry;
	DIR *fds;

	snprintf(folder, sizeof(folder), "%s/%.20s/fd", proc, pid);
	fds = opendir(folder);
	while (fds && (entry = readdir(fds)) != NULL) {
		ssize_t length;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		if (strncmp(target, "/memfd:" DDL__STATE_NAME, sizeof("/memfd:" DDL__STATE_NAME) - 1) != 0)
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		look_at(proc, pid, fd, job, seen, states);
		close(fd);
	}
	if (fds)
		closedir(fds);
}

int ddl__stat_local(const char *proc, const char *job, json_t *states)
{
	struct seen seen = { 0 };
	struct dirent *entry;
	DIR *processes = opendir(proc);

	if (!processes)
		return -errno;
	while ((entry = readdir(processes)) != NULL)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			look_through(proc, entry->d_name, job, &seen, states);
	closedir(processes);
	free(seen.inodes);
	return 0;
}
