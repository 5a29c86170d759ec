/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pmix_exchange.c - every rank puts values, fences, and checks what all the others put; several times over, as a program does that
 * makes several communicators. Started by ddl run or srun --mpi=pmix.
 *
 *     pmix_exchange [ROUNDS [BYTES [TIMEOUT_MS [WHAT RANK]]]]
 *
 * WHAT happens on RANK: absent (it never comes), abort (it calls PMIx_Abort), die (it kills itself before the fence).
 * A rank prints "ok RANK of SIZE on HOST", or what went wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef DDL_HAVE_PMIX
#include <pmix.h>
#endif

#include "boot.h"

#define ABSENT_SECONDS 60 /* how long an absent rank stays, if nobody ends it */

struct arguments {
	int rounds;       /* communicators one after the other */
	size_t bytes;     /* of a value */
	int timeout_ms;   /* of a fence */
	const char *what; /* "" nothing */
	int rank;         /* on whom */
};

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int fail(const struct ddl__boot *boot, const char *where, const struct ddl_error *err)
{
	printf("failed rank %d %s: %d %s\n", boot ? boot->rank : -1, where, err->code, err->text);
	return 1;
}

static int happens(const struct arguments *arguments, const char *what)
{
	const char *rank = getenv("PMIX_RANK");

	return !strcmp(arguments->what, what) && rank && atoi(rank) == arguments->rank;
}

static char byte_of(int rank, int round, int key)
{
	return (char)(1 + rank * 7 + round * 31 + key * 101);
}

/* Whether a rank's value is what it must be. */
static int check(struct ddl__boot *boot, int rank, int round, int key, const char *name, size_t bytes)
{
	struct ddl_error err;
	size_t size;
	void *data;
	int good;

	if (boot->ops->get(boot, rank, name, &data, &size, &err) < 0)
		return fail(boot, "get", &err);
	good = size == bytes && ((char *)data)[size] == '\0';
	for (size_t i = 0; i < size && good; i++)
		good = ((char *)data)[i] == byte_of(rank, round, key);
	free(data);
	if (!good)
		printf("failed rank %d: round %d, %s of rank %d has other bytes than it put\n", boot->rank, round, name, rank);
	return !good;
}

/* Puts, fences and checks one key. */
static int exchange(struct ddl__boot *boot, int round, int key, size_t bytes)
{
	const char *name = key ? "second" : "first";
	char *value = malloc(bytes + 1);
	struct ddl_error err;
	int rc;

	if (!value)
		return 1;
	memset(value, byte_of(boot->rank, round, key), bytes);
	rc = boot->ops->put(boot, name, value, bytes, &err);
	free(value);
	if (rc < 0)
		return fail(boot, "put", &err);
	if (boot->ops->fence(boot, &err) < 0)
		return fail(boot, "fence", &err);
	for (int rank = 0; rank < boot->size; rank++)
		if (check(boot, rank, round, key, name, bytes))
			return 1;
	return 0;
}

static int run_round(const struct arguments *arguments, int round)
{
	double start = now_ms(), opened;
	struct ddl__boot *boot;
	struct ddl_error err;
	size_t size;
	void *data;
	int rc;

	if (ddl__boot_open(NULL, arguments->timeout_ms, &boot, &err) < 0)
		return fail(NULL, "open", &err);
	opened = now_ms();
	if (happens(arguments, "die"))
		kill(getpid(), SIGKILL);
#ifdef DDL_HAVE_PMIX
	if (happens(arguments, "abort"))
		PMIx_Abort(9, "the loss is not a number", NULL, 0);
#endif
	rc = exchange(boot, round, 0, arguments->bytes) || exchange(boot, round, 1, 1);
	if (rc == 0 && boot->ops->get(boot, (boot->rank + 1) % boot->size, "never", &data, &size, &err) != -ENOENT) {
		printf("failed rank %d: a key that nobody put was found\n", boot->rank);
		rc = 1;
	}
	if (rc == 0 && round == arguments->rounds - 1)
		printf("ok %d of %d on %s in job %s\n", boot->rank, boot->size, boot->host, boot->job);
	if (rc == 0 && boot->rank == 0)
		fprintf(stderr, "round %d: open %.1f ms, two exchanges %.1f ms\n", round, opened - start, now_ms() - opened);
	boot->ops->close(boot);
	return rc;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {
		.rounds = argc > 1 ? atoi(argv[1]) : 2,
		.bytes = argc > 2 ? (size_t)atol(argv[2]) : 1024,
		.timeout_ms = argc > 3 ? atoi(argv[3]) : 60000,
		.what = argc > 4 ? argv[4] : "",
		.rank = argc > 5 ? atoi(argv[5]) : 0,
	};
	int rc = 0;

	if (happens(&arguments, "absent")) {
		sleep(ABSENT_SECONDS);
		return 0;
	}
	for (int round = 0; round < arguments.rounds && rc == 0; round++)
		rc = run_round(&arguments, round);
	return rc;
}
