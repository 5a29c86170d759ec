/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - see ranks.h. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "ranks.h"

static struct board *board; /* one a process: back ends reach it through bench_barrier() and bench_share() */

void bench_barrier(void)
{
	board_barrier(board);
}

int bench_share(void *data, size_t size)
{
	return board_share(board, data, size);
}

/* A number that the launcher has put into the environment: Open MPI, then Hydra (MPICH, Intel MPI), then PMIx. -1: none. */
static int from_environment(const char *const *names)
{
	for (; *names; names++) {
		const char *text = getenv(*names);

		if (text && *text)
			return atoi(text);
	}
	return -1;
}

void ranks_from_environment(struct bench_settings *settings)
{
	static const char *const rank_names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", NULL };
	static const char *const size_names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL };

	settings->rank = from_environment(rank_names);
	settings->size = from_environment(size_names);
}

int ranks_option(int c, const char *value, struct ranks_options *options)
{
	switch (c) {
	case 'b':
		options->board = value;
		return 0;
	case 'o':
		options->out = value;
		return 0;
	case 'f':
		options->settings.folder = value;
		return 0;
	case 'l':
		options->limit_s = (unsigned)atoi(value);
		return options->limit_s > 0 ? 0 : -1;
	case 'i':
		options->settings.interface = value;
		return 0;
	case 'r':
		options->settings.rank = atoi(value);
		return 0;
	case 'n':
		options->settings.size = atoi(value);
		return 0;
	default:
		return -1;
	}
}

int ranks_check(const struct bench_settings *settings)
{
	if (settings->size >= 1 && settings->size <= BENCH_RANKS_MAX && settings->rank >= 0 && settings->rank < settings->size)
		return 0;
	fprintf(stderr, "harness: rank %d of %d (1 to %d are possible); the launcher tells, or --rank and --size\n", settings->rank,
		settings->size, BENCH_RANKS_MAX);
	return -1;
}

/*
 * Rank i on the i-th of the cores that this process may use, counted round. A library with threads of its own has all these cores:
 * on one its threads would wait for each other (Gloo's spin on a lock that the other thread holds).
 */
static int pin(struct bench_settings *s)
{
	cpu_set_t all, one;
	int n, core = -1;

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		return -1;
	n = CPU_COUNT(&all);
	for (int i = 0; i <= s->rank % n; i++) {
		do
			core++;
		while (!CPU_ISSET(core, &all));
	}
	CPU_ZERO(&one);
	CPU_SET(core, &one);
	s->ranks_on_cores = n < s->size ? n : s->size;
	return bench_peer.has_threads || s->unbound ? 0 : sched_setaffinity(0, sizeof(one), &one);
}

struct board *ranks_meet(struct bench_settings *settings, const char *path)
{
	if (pin(settings) < 0) {
		fprintf(stderr, "harness: rank %d cannot bind itself to a core: %m\n", settings->rank);
		return NULL;
	}
	board = board_open(path, settings->rank, settings->size,
			   bench_peer.has_threads || settings->ranks_on_cores < settings->size);
	return board;
}
