/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat.c - `ddl stat`: what the ranks of a running job wait for, and who keeps them waiting.
 *
 * A job's nodes are asked through srun --overlap, which runs `ddl stat --local --json` once on each; every line that comes back is
 * one communicator of one process.
 */
#include "stat.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "hostlist.h"
#include "tools.h"

#define TOOL            "stat"
#define TIMEOUT_DEFAULT 30
#define ROWS_DEFAULT    40
#define LINE_BYTES_MAX  (1u << 20) /* of an answer */
#define GRACE_MS        2000       /* between SIGTERM and SIGKILL for srun */

static const struct ddl__help help[] = {
	{ "--local", "ask this machine only, not the job's nodes" },
	{ "--all", "a row for every rank, however many there are" },
	{ "--json", "one JSON object a line for each communicator of each process" },
	{ "--timeout SECONDS", "how long to wait for the job's nodes; default 30" },
	{ "--help", "this text" },
	{ NULL, NULL },
};

struct settings {
	const char *job; /* NULL: everything on this machine */
	int local, all, json;
	int64_t timeout_s;
};

/* ---- a job's nodes ---- */

/* srun must not take its step's shape from a job that we may be part of. */
static void forget_job(void)
{
	extern char **environ;

	for (char **at = environ; *at;) {
		char name[128];
		size_t length = strcspn(*at, "=");

		snprintf(name, sizeof(name), "%.*s", (int)length, *at);
		if (strncmp(name, "SLURM_", 6) == 0 && strncmp(name, "SLURM_CONF", 10) != 0 && length < sizeof(name) &&
		    unsetenv(name) == 0)
			at = environ;
		else
			at++;
	}
}

/* What squeue says of a job: "8 RUNNING n[1-8]"; NULL, with a sentence: nothing. The caller frees. */
static char *ask_squeue(const char *job)
{
	char command[160], *line = NULL;
	size_t room = 0;
	FILE *pipe;
	int n;

	snprintf(command, sizeof(command), "squeue -h -j %.*s -o '%%D %%T %%N' 2>&1", (int)strcspn(job, "."), job);
	pipe = popen(command, "re");
	if (pipe && getline(&line, &room, pipe) > 0)
		line[strcspn(line, "\n")] = '\0';
	else if (line)
		line[0] = '\0';
	n = pipe ? pclose(pipe) : -1;
	if (n == 0 && line && *line)
		return line;
	if (n == 0)
		ddl__failed(TOOL, "there is no job %s", job);
	else
		ddl__failed(TOOL, "squeue does not tell of job %s (%s); on a node `ddl stat --local` tells of its processes", job,
			    line ? line : "no answer");
	free(line);
	return NULL;
}

/* How many nodes the job has, and which: srun asks one of them unless it is told. 0, with a sentence: it does not run. */
static int find_nodes(const char *job, char **list)
{
	char *line = ask_squeue(job), state[32] = "";
	int nodes = 0, at = 0;

	*list = NULL;
	if (!line)
		return 0;
	if (sscanf(line, "%d %31s %n", &nodes, state, &at) < 2 || strcmp(state, "RUNNING") != 0 || nodes < 1) {
		ddl__failed(TOOL, "job %s does not run: it is %s", job, *state ? state : line);
		nodes = 0;
	} else if (at > 0) {
		*list = strdup(line + at);
	}
	free(line);
	return nodes;
}

static bool has_answered(const json_t *states, const char *node)
{
	const json_t *state;
	size_t i;

	json_array_foreach(states, i, state)
	{
		const char *name = json_string_value(json_object_get(state, "answered"));

		if (name && strcmp(name, node) == 0)
			return true;
	}
	return false;
}

/* Names the nodes that did not answer. */
static void tell_silent(const char *list, const json_t *states)
{
	char **names = NULL, *text = NULL;
	size_t n = 0, silent = 0;
	struct ddl_error err;

	if (!list || ddl__hostlist_expand(list, strlen(list), &names, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (!has_answered(states, names[i]))
			names[silent++] = names[i];
	if (silent > 0 && ddl__hostlist_compress((const char *const *)names, silent, &text) == 0)
		fprintf(stderr, "ddl stat: %zu of %zu nodes did not answer: %s; look at them, or at their slurmd\n", silent, n,
			text);
	free(text);
	free(names);
}

static void exec_srun(const char *job, int n_nodes, int output)
{
	char self[1024], number[64], jobid[80], nodes[32];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[length > 0 ? length : 0] = '\0';
	snprintf(number, sizeof(number), "%.*s", (int)strcspn(job, "."), job);
	snprintf(jobid, sizeof(jobid), "--jobid=%s", number);
	snprintf(nodes, sizeof(nodes), "--nodes=%d", n_nodes);
	forget_job();
	dup2(output, STDOUT_FILENO);
	execlp("srun", "srun", jobid, nodes, "--overlap", "--ntasks-per-node=1", "--mpi=none", "--kill-on-bad-exit=0", "--quiet",
	       "--input=none", "--job-name=ddl-stat", self, TOOL, "--local", "--json", job, (char *)NULL);
	fprintf(stderr, "ddl stat: srun cannot be started: %s; on a node `ddl stat --local` tells of its processes\n",
		strerror(errno));
	_exit(127);
}

/* One line of an answer. */
static void take_line(const char *line, json_t *states)
{
	json_t *state = json_loads(line, 0, NULL);

	if (json_is_object(state))
		json_array_append(states, state);
	else if (*line)
		fprintf(stderr, "ddl stat: a node answered \"%.60s\", which is left out\n", line);
	json_decref(state);
}

/* Takes what is complete out of the buffer. Returns how much stays. */
static size_t take_lines(char *buffer, size_t n, json_t *states)
{
	char *begin = buffer, *end;

	while ((end = memchr(begin, '\n', n - (size_t)(begin - buffer))) != NULL) {
		*end = '\0';
		take_line(begin, states);
		begin = end + 1;
	}
	n -= (size_t)(begin - buffer);
	memmove(buffer, begin, n);
	return n;
}

/* Reads until the end or the deadline. Returns whether the end came. */
static bool read_answers(int fd, int64_t deadline_ms, json_t *states)
{
	char *buffer = malloc(LINE_BYTES_MAX);
	size_t n = 0;
	bool ended = false;

	while (buffer && !ended) {
		const int64_t left = deadline_ms - ddl__now_ms();
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
		ssize_t got;

		if (left <= 0)
			break;
		if (poll(&poll_fd, 1, (int)left) <= 0)
			continue;
		got = read(fd, buffer + n, LINE_BYTES_MAX - n);
		ended = got <= 0;
		n = take_lines(buffer, n + (got > 0 ? (size_t)got : 0), states);
		if (n == LINE_BYTES_MAX) {
			fprintf(stderr, "ddl stat: a node answered with a line without an end, which is left out\n");
			n = 0;
		}
	}
	free(buffer);
	return ended;
}

/* Ends srun if it still runs, and collects it. Returns what wait said. */
static int end_srun(pid_t pid, bool ended)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	const int64_t deadline = ddl__now_ms() + GRACE_MS;
	int status = 0;

	if (!ended)
		kill(pid, SIGTERM);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (ddl__now_ms() > deadline) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			break;
		}
		nanosleep(&pause, NULL);
	}
	return status;
}

int ddl__stat_job(const char *job, int timeout_s, json_t *states)
{
	int fds[2], status;
	char *list;
	const int n_nodes = find_nodes(job, &list);
	bool ended;
	pid_t pid;

	if (n_nodes == 0)
		return DDL__EXIT_FAILED;
	fflush(stdout);
	if (pipe(fds) < 0 || (pid = fork()) < 0) {
		free(list);
		return ddl__failed(TOOL, "srun cannot be started: %s", strerror(errno));
	}
	if (pid == 0) {
		close(fds[0]);
		exec_srun(job, n_nodes, fds[1]);
	}
	close(fds[1]);
	ended = read_answers(fds[0], ddl__now_ms() + (int64_t)timeout_s * 1000, states);
	close(fds[0]);
	status = end_srun(pid, ended);
	if (!ended)
		fprintf(stderr, "ddl stat: not all nodes answered within %d s (--timeout): what follows is what is known\n",
			timeout_s);
	if (json_array_size(states) > 0)
		tell_silent(list, states);
	free(list);
	if (json_array_size(states) > 0)
		return DDL__EXIT_GOOD;
	return ddl__failed(TOOL, "no node of job %s answered%s", job,
			   WIFEXITED(status) && WEXITSTATUS(status) ? "; srun has said why" : "");
}

/* ---- the command ---- */

static bool is_job(const char *text)
{
	return *text >= '0' && *text <= '9' && strlen(text) < 40 && text[strspn(text, "0123456789._+")] == '\0';
}

static void print_json(const json_t *states)
{
	const json_t *state;
	size_t i;

	json_array_foreach(states, i, state)
	{
		char *text = json_dumps(state, JSON_COMPACT | JSON_REAL_PRECISION(9));

		if (text)
			puts(text);
		free(text);
	}
}

static void add_answered(json_t *states)
{
	const char *name = getenv("SLURMD_NODENAME"); /* may differ from the host's */
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	json_array_append_new(states, json_pack("{ss}", "answered", name && *name ? name : host));
}

static int show(const struct settings *s)
{
	json_t *states = json_array();
	int status = DDL__EXIT_GOOD, rc;

	if (s->local || !s->job) {
		rc = ddl__stat_local("/proc", s->job, states);
		if (rc < 0)
			status = ddl__failed(TOOL, "/proc cannot be read: %s", strerror(-rc));
		if (s->json)
			add_answered(states);
	} else {
		status = ddl__stat_job(s->job, (int)s->timeout_s, states);
	}
	if (status == DDL__EXIT_GOOD && s->json)
		print_json(states);
	else if (status == DDL__EXIT_GOOD)
		ddl__stat_print(stdout, states, s->all ? 0 : ROWS_DEFAULT);
	json_decref(states);
	return status;
}

static int read_settings(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = { { "local", no_argument, NULL, 'l' }, { "all", no_argument, NULL, 'a' },
						 { "json", no_argument, NULL, 'j' },  { "timeout", required_argument, NULL, 't' },
						 { "help", no_argument, NULL, 'h' },  { 0 } };
	struct ddl_error err;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (option == 'l') {
			s->local = 1;
		} else if (option == 'a') {
			s->all = 1;
		} else if (option == 'j') {
			s->json = 1;
		} else if (option == 't') {
			if (ddl__number_parse("--timeout", optarg, 1, 3600, &s->timeout_s, &err) < 0)
				return ddl__usage(TOOL, "%s", err.text);
		} else if (option == 'h') {
			ddl__help_print(
				stdout, "ddl stat [OPTIONS] [JOB[.STEP]]",
				"Tells what the ranks of a running job wait for and which rank keeps them waiting; without JOB,\n"
				"of this machine's processes.",
				help);
			return -1;
		} else {
			return ddl__usage_getopt(TOOL, option, optind, argv);
		}
	}
	if (argc - optind > 1)
		return ddl__usage(TOOL, "give one job, not %d", argc - optind);
	s->job = argv[optind];
	if (!s->job)
		s->local = 1;
	if (!s->local && !is_job(s->job))
		return ddl__usage(TOOL, "'%.60s' is not a Slurm job's number, such as 4242 or 4242.0; --local takes names too",
				  s->job);
	return DDL__EXIT_GOOD;
}

int ddl_tool_stat(int argc, char **argv)
{
	struct settings settings = { .timeout_s = TIMEOUT_DEFAULT };
	int status = read_settings(argc, argv, &settings);

	return status < 0 ? DDL__EXIT_GOOD : status ? status : show(&settings);
}
