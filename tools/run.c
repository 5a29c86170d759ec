/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - `ddl run`: starts N processes on this machine that find each other through PMIx, as under srun --mpi=pmix.
 *
 * One loop watches the processes' outputs, our signals (signalfd) and the PMIx server's pipe. A process that ends badly ends the
 * others: SIGTERM, and after a grace SIGKILL. The exit status is that of the first one that failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "options.h"
#include "plan.h"
#include "run.h"
#include "tools.h"
#include "topology.h"

#define GRACE_SECONDS     5    /* between SIGTERM and SIGKILL */
#define DRAIN_MS          2000 /* how long outputs may stay open after the last process */
#define EXIT_NOT_FOUND    127  /* as shells say it */
#define EXIT_NO_PROGRAM   126  /* found, but it cannot be started */
#define EXIT_BY_SIGNAL    128  /* plus the signal */
#define FILES_PER_PROCESS 8    /* descriptors that a process costs us, generously */
#define FILES_AT_LEAST    2    /* that it costs at least */
#define FILES_OF_OURS     24   /* that we and the PMIx server have open besides */

static const int forwarded[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };

struct settings {
	int64_t n;            /* processes */
	int64_t grace;        /* seconds between SIGTERM and SIGKILL */
	int prefix;           /* 1: lines get the rank */
	int kill_on_bad_exit; /* 1: a process that fails ends the others */
	const char *mode;     /* text of --ddl; NULL: not given */
	const char *topology; /* file; NULL: not given */
	char **argv;          /* the program and its arguments */
};

struct rank {
	struct ddl__run_process process;    /* pid 0: not running */
	struct ddl__run_stream *streams[2]; /* standard output and error; NULL: at their end */
	int ended;                          /* 1: it was collected just now */
	int status;                         /* what wait said of it */
};

struct run {
	const struct settings *settings;
	struct ddl__run_janitor janitor;
	struct ddl__run_pmix *pmix;
	char folder[256];     /* temporary files */
	char host[256];       /* this machine */
	struct rank *ranks;   /* settings->n of them */
	struct pollfd *polls; /* room for all that is watched */
	int64_t running;      /* processes */
	int signal_fd;        /* our signals */
	int deaf;             /* 1: the PMIx server is gone */
	rlim_t files;         /* limit of open files that the processes get */
	int status;           /* exit status of the first failure; 0 so far none */
	int ending;           /* 1: the processes got SIGTERM; 2: SIGKILL */
	int interrupted;      /* 1: SIGINT came once */
	int mute;             /* 1: our standard output is gone */
	int64_t deadline_ms;  /* of the grace or of the drain; 0 none */
};

static void signal_all(const struct run *run, int sig)
{
	for (int64_t i = 0; i < run->settings->n; i++)
		if (run->ranks[i].process.pid > 0)
			kill(-run->ranks[i].process.pid, sig);
}

static void end_all(struct run *run)
{
	if (run->ending)
		return;
	run->ending = 1;
	run->deadline_ms = ddl__now_ms() + run->settings->grace * 1000;
	signal_all(run, SIGTERM);
	signal_all(run, SIGCONT);
}

/*
 * A process ended. What it is ended with by us (SIGTERM, SIGKILL after the grace) is no news; a signal from elsewhere is, also
 * late: it tells the cause where others ended sooner because of it.
 */
static void account(struct run *run, int64_t rank, int status)
{
	int code = WIFSIGNALED(status) ? EXIT_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	int by_us = WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || run->ending == 2);
	const char *others = !run->ending && run->settings->kill_on_bad_exit && run->running > 0 ? "; ending the others" : "";

	if (code == 0 || (run->ending && (by_us || !WIFSIGNALED(status))))
		return;
	if (WIFSIGNALED(status))
		ddl__failed("run", "rank %ld was killed by signal %d (%s)%s", (long)rank, WTERMSIG(status),
			    strsignal(WTERMSIG(status)), others);
	else
		ddl__failed("run", "rank %ld ended with status %d%s", (long)rank, code, others);
	if (!run->status)
		run->status = code;
	if (run->settings->kill_on_bad_exit)
		end_all(run);
}

/* Collects a process if it ended, and ends what is left of its group while the leader's number cannot be another's yet. */
static int reap_rank(struct run *run, int64_t rank, int *status)
{
	pid_t pid = run->ranks[rank].process.pid;
	siginfo_t info = { .si_pid = 0 };

	if (pid <= 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid != pid)
		return 0;
	kill(-pid, SIGKILL);
	ddl__run_janitor_tell(&run->janitor, pid, 0);
	if (waitpid(pid, status, 0) != pid)
		return 0;
	run->ranks[rank].process.pid = 0;
	run->running--;
	if (run->running == 0)
		run->deadline_ms = ddl__now_ms() + DRAIN_MS;
	return 1;
}

/* Collects all that ended. Of those that ended together, a signal is the likelier cause: it counts first. */
static void reap(struct run *run)
{
	for (int64_t i = 0; i < run->settings->n; i++)
		run->ranks[i].ended = reap_rank(run, i, &run->ranks[i].status);
	for (int signaled = 1; signaled >= 0; signaled--)
		for (int64_t i = 0; i < run->settings->n; i++)
			if (run->ranks[i].ended && WIFSIGNALED(run->ranks[i].status) == signaled)
				account(run, i, run->ranks[i].status);
}

static void take_signals(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		int sig = (int)info.ssi_signo;

		if (sig == SIGCHLD) {
			reap(run);
		} else if (sig == SIGINT && run->interrupted) {
			end_all(run);
		} else {
			run->interrupted |= sig == SIGINT;
			signal_all(run, sig);
		}
	}
}

static void take_abort(struct run *run)
{
	char message[256], word[256];
	size_t rank;
	int status, rc = ddl__run_pmix_read(run->pmix, &rank, &status, message, sizeof(message));

	if (rc < 0) {
		run->deaf = 1;
		if (!run->ending) /* it may fall over dying processes */
			ddl__failed("run", "the PMIx server ended: no new communicators can be made");
	}
	if (rc <= 0)
		return;
	ddl__failed("run", "rank %zu called PMIx_Abort with status %d%s%s", rank, status, *message ? ": " : "",
		    ddl__error_word(word, sizeof(word), message, strlen(message)));
	if (!run->status)
		run->status = (status & 0xff) ? status & 0xff : 1;
	end_all(run);
}

/* Our standard output takes no more: that a reader went away is no news, all else is. */
static void silence(struct run *run, int error)
{
	run->mute = 1;
	if (error != EPIPE)
		ddl__failed("run", "the output could not be written: %s; ending the processes", strerror(error));
	if (!run->status)
		run->status = error == EPIPE ? EXIT_BY_SIGNAL + SIGPIPE : DDL__EXIT_FAILED;
	end_all(run);
}

/* Writes lines to one of our outputs without sleeping through a signal: a piece of PIPE_BUF bytes never blocks after POLLOUT. */
static int write_all(void *context, int fd, const char *data, size_t size)
{
	struct run *run = context;

	while (size > 0 && !(fd == STDOUT_FILENO && run->mute)) {
		struct pollfd polls[2] = { { .fd = fd, .events = POLLOUT }, { .fd = run->signal_fd, .events = POLLIN } };
		int64_t left = run->deadline_ms ? run->deadline_ms - ddl__now_ms() : -1;
		ssize_t n = 0;

		if (poll(polls, 2, run->ending == 1 && left >= 0 ? (int)left : -1) < 0 && errno != EINTR)
			return -errno;
		if (polls[1].revents)
			take_signals(run);
		if (run->ending == 1 && run->deadline_ms <= ddl__now_ms()) {
			run->ending = 2;
			signal_all(run, SIGKILL);
		}
		if (polls[0].revents)
			n = write(fd, data, size < 4096 ? size : 4096);
		if (n < 0 && errno != EINTR && errno != EAGAIN) {
			if (fd != STDOUT_FILENO) /* nobody reads our errors */
				return 0;
			silence(run, errno);
			return 0;
		}
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Sets up what is watched; streams[] gets the stream of each entry from the third on. */
static nfds_t fill_polls(struct run *run, struct ddl__run_stream ***streams)
{
	nfds_t n = 2;

	run->polls[0] = (struct pollfd){ .fd = run->signal_fd, .events = POLLIN };
	run->polls[1] = (struct pollfd){ .fd = run->deaf ? -1 : ddl__run_pmix_fd(run->pmix), .events = POLLIN };
	for (int64_t i = 0; i < run->settings->n; i++) {
		for (int k = 0; k < 2; k++) {
			if (!run->ranks[i].streams[k])
				continue;
			run->polls[n] = (struct pollfd){ .fd = ddl__run_stream_fd(run->ranks[i].streams[k]), .events = POLLIN };
			streams[n++] = &run->ranks[i].streams[k];
		}
	}
	return n;
}

/* The life of the processes, until all have ended and all that they wrote is out. */
static void watch(struct run *run, struct ddl__run_stream ***streams)
{
	nfds_t n = fill_polls(run, streams);

	while (run->running > 0 || n > 2) {
		int64_t left = run->deadline_ms ? run->deadline_ms - ddl__now_ms() : -1;

		if (run->deadline_ms && left <= 0) {
			if (run->running == 0) /* somebody who left the groups holds an output open: do not wait for it */
				break;
			run->ending = 2;
			run->deadline_ms = 0;
			signal_all(run, SIGKILL);
			continue;
		}
		if (poll(run->polls, n, (int)left) < 0 && errno != EINTR)
			break;
		if (run->polls[1].revents)
			take_abort(run);
		for (nfds_t i = 2; i < n; i++) {
			if (!run->polls[i].revents || ddl__run_stream_read(*streams[i], write_all, run) > 0)
				continue;
			ddl__run_stream_destroy(*streams[i]);
			*streams[i] = NULL;
		}
		if (run->polls[0].revents)
			take_signals(run);
		n = fill_polls(run, streams);
	}
}

static int start_rank(struct run *run, int64_t rank, struct ddl_error *err)
{
	int input = rank == 0 && !isatty(STDIN_FILENO) ? STDIN_FILENO : -1;
	struct rank *self = &run->ranks[rank];
	char label[16] = "", **env;
	int rc = ddl__run_pmix_env(run->pmix, (size_t)rank, &env, err);

	if (rc < 0)
		return rc;
	if (run->settings->prefix)
		snprintf(label, sizeof(label), "[%d] ", (int)rank);
	rc = ddl__run_spawn(run->settings->argv, env, input, run->files, &self->process, err);
	ddl__run_env_destroy(env);
	if (rc < 0)
		return rc;
	run->running++;
	ddl__run_janitor_tell(&run->janitor, self->process.pid, 1);
	self->streams[0] = ddl__run_stream_create(self->process.out, STDOUT_FILENO, label);
	self->streams[1] = ddl__run_stream_create(self->process.err, STDERR_FILENO, label);
	return self->streams[0] && self->streams[1] ? 0 : ddl__error_memory(err);
}

/* Starts the processes and sees them to their end. Returns the exit status. */
static int run_ranks(struct run *run)
{
	struct ddl__run_stream ***streams = calloc(2 + 2 * (size_t)run->settings->n, sizeof(struct ddl__run_stream **));
	struct ddl_error err;
	int rc = 0;

	if (!streams)
		return ddl__failed("run", "no memory");
	for (int64_t i = 0; i < run->settings->n && rc == 0; i++)
		rc = start_rank(run, i, &err);
	if (rc < 0) {
		ddl__failed("run", "%s", err.text);
		run->status = rc == -ENOENT ? EXIT_NOT_FOUND : rc == -EACCES || rc == -ENOEXEC ? EXIT_NO_PROGRAM : 1;
		run->ending = 2;
		signal_all(run, SIGKILL);
	}
	watch(run, streams);
	for (int64_t i = 0; i < run->settings->n; i++)
		for (int k = 0; k < 2; k++)
			ddl__run_stream_destroy(run->ranks[i].streams[k]);
	free(streams);
	return run->status;
}

/* Blocks the signals that are read from signal_fd. */
static int take_over_signals(struct run *run)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&set, forwarded[i]);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* a parent may have left it ignored: then nobody could be waited for */
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signal_fd < 0 ? -errno : 0;
}

/* Returns whether there are enough: with fewer the PMIx server could not answer a process, which would wait for it for ever. */
static int raise_file_limit(struct run *run)
{
	rlim_t n = (rlim_t)run->settings->n, wanted = n * FILES_PER_PROCESS + 256;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1;
	run->files = limit.rlim_cur;
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur >= n * FILES_AT_LEAST + FILES_OF_OURS;
}

/* A plan for this machine, cut out of a topology, into the environment. */
static int set_plan(const struct settings *settings, const struct ddl__options *options, const char *host, struct ddl_error *err)
{
	struct ddl__topology *topology;
	uint32_t tasks = (uint32_t)settings->n;
	struct ddl__plan *plan;
	char *text;
	int rc = ddl__topology_load(settings->topology, &topology, err);

	if (rc < 0)
		return rc;
	rc = ddl__plan_create(&(struct ddl__plan_request){ .topology = topology,
							   .source = "file",
							   .job = "run",
							   .nodes = &host,
							   .tasks = &tasks,
							   .n_nodes = 1,
							   .options = options },
			      &plan, err);
	ddl__topology_destroy(topology);
	if (rc < 0)
		return rc;
	rc = ddl__plan_encode(plan, &text, err);
	ddl__plan_destroy(plan);
	if (rc < 0)
		return rc;
	rc = setenv(DDL__PLAN_ENV, text, 1) < 0 ? ddl__error_memory(err) : 0;
	free(text);
	return rc;
}

/* What --ddl and --topology put into the environment; without them it is handed on as it is. */
static int set_environment(const struct settings *settings, const char *host, struct ddl_error *err)
{
	struct ddl__options options;
	int rc = 0;

	ddl__options_init(&options);
	if (settings->mode) {
		rc = ddl__options_parse(settings->mode, &options, err);
		if (rc < 0)
			return rc;
		unsetenv(DDL__PLAN_ENV);
		if (options.mode == DDL__MODE_OFF)
			unsetenv(DDL__MODE_ENV);
		else if (setenv(DDL__MODE_ENV, settings->mode, 1) < 0)
			return ddl__error_memory(err);
	} else {
		options.mode = DDL__MODE_AUTO;
	}
	if (settings->topology && options.mode != DDL__MODE_OFF)
		rc = set_plan(settings, &options, host, err);
	return rc;
}

static int run_with_server(struct run *run)
{
	struct ddl_error err;
	int status, rc = take_over_signals(run);

	if (rc < 0)
		return ddl__failed("run", "signals cannot be taken: %s", strerror(-rc));
	rc = ddl__run_pmix_open((size_t)run->settings->n, run->host, run->folder, &run->pmix, &err);
	if (rc < 0)
		return ddl__failed("run", "%s", err.text);
	ddl__run_janitor_tell(&run->janitor, ddl__run_pmix_pid(run->pmix), 1);
	status = run_ranks(run);
	ddl__run_janitor_tell(&run->janitor, ddl__run_pmix_pid(run->pmix), 0);
	ddl__run_pmix_close(run->pmix);
	return status;
}

static int run_settings(const struct settings *settings)
{
	struct run run = { .settings = settings, .signal_fd = -1 };
	struct ddl_error err;
	int status;

	if (gethostname(run.host, sizeof(run.host) - 1) < 0 || !*run.host)
		strcpy(run.host, "localhost");
	run.host[strcspn(run.host, ".")] = '\0';
	if (set_environment(settings, run.host, &err) < 0)
		return ddl__usage("run", "%s", err.text);
	if (!raise_file_limit(&run))
		return ddl__failed("run", "%ld processes need %ld open files here: raise `ulimit -n`", (long)settings->n,
				   (long)settings->n * FILES_AT_LEAST + FILES_OF_OURS);
	run.ranks = calloc((size_t)settings->n, sizeof(*run.ranks));
	run.polls = calloc(2 + 2 * (size_t)settings->n, sizeof(*run.polls));
	if (!run.ranks || !run.polls)
		status = ddl__failed("run", "no memory for %ld processes", (long)settings->n);
	else if (ddl__run_janitor_open(run.folder, sizeof(run.folder), &run.janitor, &err) < 0)
		status = ddl__failed("run", "%s", err.text);
	else {
		status = run_with_server(&run);
		ddl__run_janitor_close(&run.janitor, run.folder);
	}
	if (run.signal_fd >= 0)
		close(run.signal_fd);
	free(run.ranks);
	free(run.polls);
	return status;
}

static int print_help(void)
{
	static const struct ddl__help help[] = {
		{ "-n, --ntasks N", "processes to start (default 1)" },
		{ "--ddl MODE[,KEY=VALUE...]", "as srun's --ddl; `--ddl help` lists what exists" },
		{ "--topology FILE", "topology.conf or .yaml from which this machine's plan is cut" },
		{ "--no-prefix", "lines without the rank in front" },
		{ "--no-kill-on-bad-exit", "a process that fails does not end the others" },
		{ "--grace SECONDS", "between SIGTERM and SIGKILL when the others are ended (default 5)" },
		{ "--help", "this text" },
		{ NULL, NULL },
	};

	ddl__help_print(stdout, "ddl run [-n N] [OPTIONS] PROGRAM [ARGUMENTS]",
			"Starts N processes on this machine that find each other through PMIx.", help);
	return DDL__EXIT_GOOD;
}

enum { OPT_HELP = 256, OPT_DDL, OPT_TOPOLOGY, OPT_NO_PREFIX, OPT_NO_KILL, OPT_GRACE };

/* Returns -1 to go on, else the exit status. */
static int take_option(int option, char **argv, struct settings *settings)
{
	struct ddl_error err;

	switch (option) {
	case 'n':
		if (ddl__number_parse("-n", optarg, 1, DDL__RUN_MAX, &settings->n, &err) < 0)
			return ddl__usage("run", "%s", err.text);
		return -1;
	case OPT_GRACE:
		if (ddl__number_parse("--grace", optarg, 0, 86400, &settings->grace, &err) < 0)
			return ddl__usage("run", "%s", err.text);
		return -1;
	case OPT_DDL:
		settings->mode = optarg;
		return -1;
	case OPT_TOPOLOGY:
		settings->topology = optarg;
		return -1;
	case OPT_NO_PREFIX:
		settings->prefix = 0;
		return -1;
	case OPT_NO_KILL:
		settings->kill_on_bad_exit = 0;
		return -1;
	case OPT_HELP:
		return print_help();
	default:
		return ddl__usage_getopt("run", option, optind, argv);
	}
}

static int parse(int argc, char **argv, struct settings *settings)
{
	static const struct option options[] = {
		{ "ntasks", required_argument, NULL, 'n' },
		{ "ddl", required_argument, NULL, OPT_DDL },
		{ "topology", required_argument, NULL, OPT_TOPOLOGY },
		{ "no-prefix", no_argument, NULL, OPT_NO_PREFIX },
		{ "no-kill-on-bad-exit", no_argument, NULL, OPT_NO_KILL },
		{ "grace", required_argument, NULL, OPT_GRACE },
		{ "help", no_argument, NULL, OPT_HELP },
		{ NULL, 0, NULL, 0 },
	};
	int option, status = -1;

	opterr = 0;
	optind = 1;
	while (status < 0 && (option = getopt_long(argc, argv, "+:n:", options, NULL)) != -1)
		status = take_option(option, argv, settings);
	if (status >= 0)
		return status;
	if (settings->mode && !strcmp(settings->mode, "help")) {
		ddl__options_help(stdout);
		return DDL__EXIT_GOOD;
	}
	if (optind >= argc)
		return ddl__usage("run", "the program to start is missing: ddl run -n N PROGRAM [ARGUMENTS]");
	settings->argv = argv + optind;
	return -1;
}

int ddl_tool_run(int argc, char **argv)
{
	struct settings settings = { .n = 1, .grace = GRACE_SECONDS, .prefix = 1, .kill_on_bad_exit = 1 };
	int status = parse(argc, argv, &settings), null = 0;

	if (status >= 0)
		return status;
	while (null >= 0 && null <= STDERR_FILENO) /* who started us may have closed what we take for granted */
		null = open("/dev/null", O_RDWR);
	if (null > STDERR_FILENO)
		close(null);
	return run_settings(&settings);
}
