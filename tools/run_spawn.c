/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_spawn.c - starts processes so that none of them outlives `ddl run`, and the janitor that sees to what is left.
 *
 * Each process leads a process group of its own: signals reach its children too, and a terminal's signals reach it only through us.
 * When we die, the kernel kills the leaders (PR_SET_PDEATHSIG) and the janitor, who notices by the end of its pipe, the groups;
 * then it removes the folder. So nothing stays even after SIGKILL.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "run.h"

struct message {       /* to the janitor */
	pid_t pid;     /* of a group's leader */
	int32_t alive; /* 1: started; 0: it and its group are gone */
};

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)info;
	(void)type;
	(void)walk;
	remove(path);
	return 0;
}

static void remove_tree(const char *path)
{
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The life of the janitor. */
static void janitor_main(int fd, const char *folder)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM };
	pid_t alive[DDL__RUN_MAX] = { 0 };
	struct message message;
	size_t n = 0, i;
	ssize_t got;
	int null;

	for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	setpgid(0, 0);
	null = open("/dev/null", O_RDWR);
	for (int std = 0; std <= 2 && null >= 0; std++) /* whoever reads our output must see its end */
		dup2(null, std);
	while ((got = read(fd, &message, sizeof(message))) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got != sizeof(message))
			break;
		for (i = 0; i < n && alive[i] != message.pid; i++)
			;
		if (message.alive && i == n && n < DDL__RUN_MAX)
			alive[n++] = message.pid;
		else if (!message.alive && i < n)
			alive[i] = alive[--n];
	}
	for (i = 0; i < n; i++)
		kill(-alive[i], SIGKILL);
	remove_tree(folder);
	_exit(0);
}

int ddl__run_janitor_open(char *folder, size_t size, struct ddl__run_janitor *janitor, struct ddl_error *err)
{
	const char *parent = getenv("TMPDIR");
	int ends[2];

	if (snprintf(folder, size, "%s/ddl-run.XXXXXX", parent && *parent ? parent : "/tmp") >= (int)size)
		return ddl__error_set(err, -ENAMETOOLONG, "the path in TMPDIR is too long");
	if (!mkdtemp(folder))
		return ddl__error_set(err, -errno, "no folder can be made in %.200s: %s (set TMPDIR to where it can)",
				      parent && *parent ? parent : "/tmp", strerror(errno));
	if (pipe2(ends, O_CLOEXEC) < 0)
		goto remove_folder;
	janitor->pid = fork();
	if (janitor->pid < 0) {
		close(ends[0]);
		close(ends[1]);
		goto remove_folder;
	}
	if (janitor->pid == 0) {
		close(ends[1]);
		janitor_main(ends[0], folder);
	}
	setpgid(janitor->pid, janitor->pid);
	close(ends[0]);
	janitor->fd = ends[1];
	return 0;

remove_folder:
	ddl__error_set(err, -errno, "no process can be started: %s", strerror(errno));
	remove_tree(folder);
	return err ? err->code : -EAGAIN;
}

void ddl__run_janitor_tell(const struct ddl__run_janitor *janitor, pid_t pid, int alive)
{
	struct message message = { pid, alive };
	ssize_t written;

	do
		written = write(janitor->fd, &message, sizeof(message)); /* SIGPIPE is ignored: without a janitor we go on */
	while (written < 0 && errno == EINTR);
}

void ddl__run_janitor_close(struct ddl__run_janitor *janitor, const char *folder)
{
	close(janitor->fd);
	while (waitpid(janitor->pid, NULL, 0) < 0 && errno == EINTR)
		;
	remove_tree(folder); /* only if somebody killed it */
}

/* In the child, between fork and exec: only what is safe there. Never returns. */
static void become(char *const *argv, char *const *env, pid_t parent, const int fds[3], uint64_t files, int report)
{
	struct rlimit limit;
	sigset_t none;
	int error;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	signal(SIGPIPE, SIG_DFL);
	for (int std = 0; std <= 2; std++)
		if (dup2(fds[std], std) < 0)
			goto failed;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = files;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvpe(argv[0], argv, env);
	if (errno == ENOENT && strcmp(argv[0], "ddl") == 0)
		execve("/proc/self/exe", argv, env); /* this program, from wherever it was started */
failed:
	error = errno;
	while (write(report, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* Waits until a child has become its program. Returns 0 or the negative errno that it reports. */
static int wait_exec(int report, pid_t pid)
{
	int error = 0;
	ssize_t n;

	do
		n = read(report, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(error))
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return -error;
}

/* The child gets copies of fds, all of which are above 2 or a standard input that stays where it is. */
static int start(char *const *argv, char *const *env, const int fds[3], uint64_t files, pid_t *pid, struct ddl_error *err)
{
	int report[2], rc;
	pid_t parent = getpid(), child;
	char word[128];

	if (pipe2(report, O_CLOEXEC) < 0)
		return ddl__error_set(err, -errno, "no pipe can be made: %s", strerror(errno));
	child = fork();
	if (child == 0)
		become(argv, env, parent, fds, files, report[1]);
	rc = child < 0 ? -errno : 0;
	close(report[1]);
	if (rc == 0) {
		setpgid(child, child);
		rc = wait_exec(report[0], child);
	}
	close(report[0]);
	if (rc < 0)
		return ddl__error_set(err, rc, "the program %s cannot be started: %s",
				      ddl__error_word(word, sizeof(word), argv[0], strlen(argv[0])), strerror(-rc));
	*pid = child;
	return 0;
}

int ddl__run_spawn(char *const *argv, char *const *env, int input, uint64_t files, struct ddl__run_process *process,
		   struct ddl_error *err)
{
	int out[2], error[2], null, rc;

	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0)
		return ddl__error_set(err, -errno, "/dev/null cannot be opened: %s", strerror(errno));
	if (pipe2(out, O_CLOEXEC) < 0) {
		rc = ddl__error_set(err, -errno, "no pipe can be made: %s (ulimit -n allows too few files)", strerror(errno));
		goto close_null;
	}
	if (pipe2(error, O_CLOEXEC) < 0) {
		rc = ddl__error_set(err, -errno, "no pipe can be made: %s (ulimit -n allows too few files)", strerror(errno));
		goto close_out;
	}
	rc = start(argv, env, (const int[3]){ input >= 0 ? input : null, out[1], error[1] }, files, &process->pid, err);
	if (rc == 0) {
		process->out = out[0];
		process->err = error[0];
	} else {
		close(error[0]);
	}
	close(error[1]);
close_out:
	close(out[1]);
	if (rc < 0)
		close(out[0]);
close_null:
	close(null);
	return rc;
}
