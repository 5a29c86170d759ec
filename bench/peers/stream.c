/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - the rate that one plain TCP stream gets between two hosts, as the limit that collectives are held against.
 *
 *   stream receive PORT [CPU]                     prints {"bytes_per_s": N} once the sender is done
 *   stream send ADDRESS PORT MILLISECONDS [CPU]   sends for so long, to a receiver that may be about to start
 *
 * What comes in the first third of the time does not count: the congestion window opens meanwhile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK      (1 << 18) /* bytes a call */
#define LIFE_S     30        /* of the program */
#define TRIES      500       /* to connect */
#define TRY_US     10000     /* between two of them */
#define SAMPLES_MS 10        /* between two notes of the receiver's */
#define SAMPLES    4096

static unsigned char chunk[CHUNK];

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int fail(const char *what)
{
	fprintf(stderr, "stream: %s: %s\n", what, strerror(errno));
	return 1;
}

static void pin(const char *cpu)
{
	cpu_set_t set;

	if (!cpu)
		return;
	CPU_ZERO(&set);
	CPU_SET(atoi(cpu), &set);
	(void)!sched_setaffinity(0, sizeof(set), &set); /* only a better figure */
}

static int receive_from(int fd)
{
	static struct {
		double at;    /* seconds */
		double bytes; /* that had come */
	} notes[SAMPLES];
	size_t n = 0, from;
	double bytes = 0, next = 0;
	ssize_t got;

	while ((got = recv(fd, chunk, sizeof(chunk), 0)) > 0) {
		const double now = now_s();

		bytes += (double)got;
		if (now < next || n == SAMPLES)
			continue;
		notes[n].at = now;
		notes[n++].bytes = bytes;
		next = now + SAMPLES_MS / 1e3;
	}
	if (got < 0)
		return fail("receiving");
	for (from = 0; from + 2 < n && notes[from].at < notes[0].at + (notes[n - 1].at - notes[0].at) / 3;)
		from++;
	if (n < 4 || notes[n - 1].at <= notes[from].at) {
		fprintf(stderr, "stream: too little came to tell a rate\n");
		return 1;
	}
	printf("{\"bytes_per_s\": %.0f}\n", (notes[n - 1].bytes - notes[from].bytes) / (notes[n - 1].at - notes[from].at));
	return 0;
}

static int receive_on(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, fd;

	if (listener < 0)
		return fail("a socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0)
		return fail("listening");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		return fail("accepting");
	return receive_from(fd);
}

static int send_to(const char *address, int port, int ms)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	double end;
	int fd = -1;

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
		fprintf(stderr, "stream: \"%s\" is no IPv4 address\n", address);
		return 2;
	}
	for (int i = 0; i < TRIES; i++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return fail("a socket");
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
			break;
		close(fd);
		fd = -1;
		usleep(TRY_US);
	}
	if (fd < 0)
		return fail("connecting");
	for (end = now_s() + ms / 1e3; now_s() < end;)
		if (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) < 0)
			return fail("sending");
	return close(fd) < 0 ? fail("closing") : 0;
}

int main(int argc, char **argv)
{
	alarm(LIFE_S);
	if (argc >= 3 && argc <= 4 && !strcmp(argv[1], "receive")) {
		pin(argv[3]);
		return receive_on(atoi(argv[2]));
	}
	if (argc >= 5 && argc <= 6 && !strcmp(argv[1], "send")) {
		pin(argv[5]);
		return send_to(argv[2], atoi(argv[3]), atoi(argv[4]));
	}
	fprintf(stderr, "usage: stream receive PORT [CPU], stream send ADDRESS PORT MILLISECONDS [CPU]\n");
	return 2;
}
