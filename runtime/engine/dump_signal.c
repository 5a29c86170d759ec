/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump_signal.c - see dump_signal.h. A signal concerns the whole process, so this is one of the library's few globals.
 */
#include "dump_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	unsigned users; /* communicators */
	int signal;     /* that is handled; 0 none */
	atomic_int fd;  /* eventfd; -1 none */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static void on_signal(int signal)
{
	const int before = errno, fd = atomic_load(&state.fd);
	if (fd >= 0)
		(void)!write(fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	errno = before;
}

static void install(int signal)
{
	struct sigaction now, ours = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	if (sigaction(signal, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
		return;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return;
	atomic_store(&state.fd, fd);
	sigemptyset(&ours.sa_mask);
	if (sigaction(signal, &ours, NULL) != 0) {
		atomic_store(&state.fd, -1);
		close(fd);
		return;
	}
	state.signal = signal;
}

/* The program may have put a handler of its own over ours, which stays. */
static void uninstall(void)
{
	struct sigaction now;
	if (sigaction(state.signal, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == on_signal) {
		now.sa_handler = SIG_DFL;
		sigaction(state.signal, &now, NULL);
	}
	state.signal = 0;
	int fd = atomic_exchange(&state.fd, -1);
	if (fd >= 0)
		close(fd);
}

int ddl__dump_signal_open(int signal)
{
	pthread_mutex_lock(&state.lock);
	state.users++;
	if (!state.signal && signal)
		install(signal);
	int fd = state.signal == signal ? atomic_load(&state.fd) : -1;
	pthread_mutex_unlock(&state.lock);
	return fd;
}

void ddl__dump_signal_close(void)
{
	pthread_mutex_lock(&state.lock);
	if (--state.users == 0 && state.signal)
		uninstall();
	pthread_mutex_unlock(&state.lock);
}

void ddl__dump_signal_forked(void)
{
	if (state.signal)
		uninstall();
	state.users = 0;
	pthread_mutex_init(&state.lock, NULL); /* another thread may have held it */
}
