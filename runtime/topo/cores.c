/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cores.c - see cores.h.
 *
 * Everything it takes is in sysfs and in what ranks tell of themselves anyway; a library that knows more of machines would have to
 * be told of the other ranks' masks all the same.
 */
#include "cores.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { NUMA_MAX = 1024, SHARE = 720720 }; /* nodes looked at; a core in parts: any number of ranks up to 16 divides it */

void ddl__lie_read(const char *root, const struct ddl__cpus *cpus, struct ddl__lie *lie)
{
	struct ddl__cpus set, nodes;
	char text[4096];

	for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++) {
		lie->core[cpu] = (uint16_t)cpu;
		lie->numa[cpu] = -1;
		if (!ddl__cpus_has(cpus, cpu))
			continue;
		ddl__sysfs_line(root, text, sizeof(text), "sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
		ddl__cpus_parse(&set, text);
		for (size_t first = 0; first < cpu; first++)
			if (ddl__cpus_has(&set, first)) {
				lie->core[cpu] = (uint16_t)first;
				break;
			}
	}
	ddl__sysfs_line(root, text, sizeof(text), "sys/devices/system/node/online");
	ddl__cpus_parse(&nodes, text);
	for (size_t node = 0; node < NUMA_MAX; node++) {
		if (!ddl__cpus_has(&nodes, node))
			continue;
		ddl__sysfs_line(root, text, sizeof(text), "sys/devices/system/node/node%zu/cpulist", node);
		ddl__cpus_parse(&set, text);
		for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++)
			if (ddl__cpus_has(&set, cpu))
				lie->numa[cpu] = (int16_t)node;
	}
}

/* ---- the choice ---- */

struct choice { /* counts, by hardware thread or by core */
	const struct ddl__lie *lie;
	size_t end;                         /* one past the last hardware thread that any rank may use */
	uint32_t users[DDL__CPUS_MAX];      /* ranks that may use a hardware thread */
	uint32_t core_users[DDL__CPUS_MAX]; /* ranks that may use a core */
	uint32_t taken[DDL__CPUS_MAX];      /* service threads on a hardware thread */
	uint32_t core_taken[DDL__CPUS_MAX]; /* service threads on a core */
	uint32_t core_mark[DDL__CPUS_MAX];  /* 1 + the last rank that counted a core */
};

/* Whether a hardware thread is the first of its core that is met, for this rank. */
static bool is_new_core(struct choice *c, size_t cpu, size_t rank)
{
	uint32_t *mark = &c->core_mark[c->lie->core[cpu]];

	if (*mark == (uint32_t)rank + 1)
		return false;
	*mark = (uint32_t)rank + 1;
	return true;
}

static void count_users(struct choice *c, const struct ddl__serving *ranks, size_t n)
{
	for (size_t r = 0; r < n; r++)
		for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++) {
			if (!ddl__cpus_has(&ranks[r].may, cpu))
				continue;
			c->users[cpu]++;
			c->core_users[c->lie->core[cpu]] += is_new_core(c, cpu, r);
			c->end = cpu >= c->end ? cpu + 1 : c->end;
		}
	memset(c->core_mark, 0, sizeof(c->core_mark));
}

/* How much of cores and of hardware threads is this rank's, in parts of SHARE, and how many it may use at all. */
static void count_shares(struct choice *c, const struct ddl__serving *rank, size_t r, struct ddl__cores *cores,
			 uint64_t *core_share, uint64_t *share)
{
	*core_share = *share = 0;
	for (size_t cpu = 0; cpu < c->end; cpu++) {
		if (!ddl__cpus_has(&rank->may, cpu))
			continue;
		cores->usable++;
		*share += SHARE / c->users[cpu];
		if (!is_new_core(c, cpu, r))
			continue;
		cores->usable_cores++;
		*core_share += SHARE / c->core_users[c->lie->core[cpu]];
	}
}

/* Whether hardware thread a is the better one for a service thread of that rank. */
static bool is_better(const struct choice *c, const struct ddl__serving *rank, size_t a, size_t b)
{
	const uint16_t core_a = c->lie->core[a], core_b = c->lie->core[b];
	const bool near_a = rank->numa >= 0 && c->lie->numa[a] == rank->numa,
		   near_b = rank->numa >= 0 && c->lie->numa[b] == rank->numa;

	if (c->taken[a] != c->taken[b])
		return c->taken[a] < c->taken[b];
	if (c->core_taken[core_a] != c->core_taken[core_b])
		return c->core_taken[core_a] < c->core_taken[core_b];
	if (c->core_users[core_a] != c->core_users[core_b])
		return c->core_users[core_a] < c->core_users[core_b];
	return near_a != near_b ? near_a : a > b;
}

/* Takes that many of a set, different ones as far as there are. */
static void take(struct choice *c, const struct ddl__serving *rank, const struct ddl__cpus *set, uint64_t threads,
		 struct ddl__cores *cores)
{
	struct ddl__cpus left = *set;

	while (cores->n < threads) {
		size_t best = c->end;

		for (size_t cpu = 0; cpu < c->end; cpu++)
			if (ddl__cpus_has(&left, cpu) && (best == c->end || is_better(c, rank, cpu, best)))
				best = cpu;
		if (best == c->end)
			return;
		left.bits[best / 64] &= ~(UINT64_C(1) << (best % 64));
		c->taken[best]++;
		c->core_taken[c->lie->core[best]]++;
		cores->cores[cores->n] = c->lie->core[best];
		cores->cpus[cores->n++] = (uint32_t)best;
	}
}

/* What a share leaves when the program has one: of what is counted in parts of SHARE, rounded since these may not add up. */
static uint64_t to_spare(uint64_t share, uint32_t threads)
{
	const uint64_t whole = (share + SHARE / 100) / SHARE, spare = whole ? whole - 1 : 0;

	return spare < threads ? spare : threads;
}

/* The choice of one rank, after those before it. */
static void choose(struct choice *c, const struct ddl__serving *rank, size_t r, uint32_t threads, struct ddl__cores *cores)
{
	uint64_t core_share, share;

	memset(cores, 0, sizeof(*cores));
	count_shares(c, rank, r, cores, &core_share, &share);
	if (ddl__cpus_has_any(&rank->named)) {
		cores->how = DDL__CORES_NAMED;
		take(c, rank, &rank->named, threads, cores);
	} else if (to_spare(core_share, threads)) {
		cores->how = DDL__CORES_WHOLE;
		take(c, rank, &rank->may, to_spare(core_share, threads), cores);
	} else if (to_spare(share, threads)) {
		cores->how = DDL__CORES_SIBLING;
		take(c, rank, &rank->may, to_spare(share, threads), cores);
	} else {
		cores->how = cores->usable > 1 ? DDL__CORES_FEW : DDL__CORES_SINGLE;
	}
}

int ddl__cores_choose(const struct ddl__lie *lie, const struct ddl__serving *ranks, size_t n, size_t me, uint32_t threads,
		      struct ddl__cores *cores)
{
	struct choice *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->lie = lie;
	count_users(c, ranks, n);
	for (size_t r = 0; r <= me; r++)
		choose(c, &ranks[r], r, threads, cores);
	for (size_t r = 0; r < n; r++)
		for (size_t i = 0; i < DDL__CPUS_MAX / 64; i++)
			if (ranks[r].may.bits[i] & ranks[me].may.bits[i]) {
				cores->ranks++;
				break;
			}
	free(c);
	return 0;
}

/* ---- for people ---- */

char *ddl__cores_text(const struct ddl__cores *cores, char *text)
{
	size_t used = 0;

	switch (cores->how) {
	case DDL__CORES_NONE:
		snprintf(text, DDL__CORES_TEXT, "no service thread: ddl_test and ddl_wait make progress");
		return text;
	case DDL__CORES_ALONE:
		snprintf(text, DDL__CORES_TEXT, "no service thread: a rank alone waits for nobody");
		return text;
	case DDL__CORES_FREE:
		snprintf(text, DDL__CORES_TEXT, "not bound, as " DDL__CORES_ENV "=none says");
		return text;
	case DDL__CORES_SINGLE:
		snprintf(text, DDL__CORES_TEXT,
			 "not bound: the process may use a single hardware thread, which the program needs too");
		return text;
	case DDL__CORES_FEW:
		snprintf(text, DDL__CORES_TEXT,
			 "not bound: %u rank%s here may use these %u core%s (%u hardware threads), and none is to spare",
			 cores->ranks, cores->ranks == 1 ? "" : "s", cores->usable_cores, cores->usable_cores == 1 ? "" : "s",
			 cores->usable);
		return text;
	case DDL__CORES_REFUSED:
		snprintf(text, DDL__CORES_TEXT, "not bound: the system refused it; was the cpuset changed?");
		return text;
	case DDL__CORES_WHOLE:
	case DDL__CORES_SIBLING:
	case DDL__CORES_NAMED:
		break;
	}
	used = (size_t)snprintf(text, DDL__CORES_TEXT, "hardware thread%s ", cores->n == 1 ? "" : "s");
	for (uint32_t i = 0; i < cores->n; i++)
		used += (size_t)snprintf(text + used, DDL__CORES_TEXT - used, "%s%u", i ? "," : "", cores->cpus[i]);
	snprintf(text + used, DDL__CORES_TEXT - used, "%s",
		 cores->how == DDL__CORES_NAMED   ? ", as " DDL__CORES_ENV " says"
		 : cores->how == DDL__CORES_WHOLE ? (cores->n == 1 ? ", a core of its own" : ", cores of their own")
						  : ", of cores that the program uses too");
	return text;
}

/* A list, strictly. */
static bool read_list(const char *text, struct ddl__cpus *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	for (const char *at = text;; at++) {
		char *end;
		unsigned long first, last;

		if (*at < '0' || *at > '9')
			return false;
		first = last = strtoul(at, &end, 10);
		if (*end == '-') {
			if (end[1] < '0' || end[1] > '9')
				return false;
			last = strtoul(end + 1, &end, 10);
		}
		if (last < first || last >= DDL__CPUS_MAX)
			return false;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			ddl__cpus_add(cpus, cpu);
		if (*end == '\0')
			return true;
		if (*end != ',')
			return false;
		at = end;
	}
}

int ddl__cores_named(const char *text, const struct ddl__cpus *may, struct ddl__cpus *named, struct ddl_error *err)
{
	char word[64], list[256];

	memset(named, 0, sizeof(*named));
	if (!text || !strcmp(text, "auto") || !strcmp(text, "none"))
		return 0;
	if (!read_list(text, named))
		return ddl__error_set(err, -EINVAL,
				      DDL__CORES_ENV "=%s is not possible: it takes auto, none, or a list of hardware "
						     "threads such as 3,7-8",
				      ddl__error_word(word, sizeof(word), text, strlen(text)));
	for (size_t i = 0; i < DDL__CPUS_MAX / 64; i++)
		named->bits[i] &= may->bits[i];
	if (ddl__cpus_has_any(named))
		return 0;
	return ddl__error_set(err, -EINVAL, DDL__CORES_ENV "=%s: this process may use none of these hardware threads, only %s",
			      ddl__error_word(word, sizeof(word), text, strlen(text)),
			      ddl__cpus_text(may, list, sizeof(list)) ? list : "others");
}
