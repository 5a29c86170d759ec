/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_ranks.c - `ddl check` in a step: the ranks join as a program's would, tell rank 0 what each has found of its node, compare
 * clocks, and sum something small.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot.h"
#include "check.h"
#include "cores.h"
#include "engine.h"
#include "error.h"
#include "origin.h"
#include "sync.h"

enum { JOIN_MS = 60000, STARTS = 21, SMALL_COUNT = 2, LARGE_COUNT = 1 << 18 };

#define CLOCK_WARN_S 1.0   /* logs of the nodes no longer tell what came first */
#define CLOCK_FAIL_S 120.0 /* munge refuses credentials that are five minutes off */

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Sums count numbers a few times: the median time, and whether every sum was right. */
static int time_sum(struct ddl_comm *comm, size_t count, int64_t *median_ns, bool *right, struct ddl_error *err)
{
	const int size = ddl_comm_size(comm);
	const float mine = (float)(ddl_comm_rank(comm) + 1), sum = (float)size * (float)(size + 1) / 2;
	float *data = malloc(2 * count * sizeof(*data)), *result;
	struct ddl_request *request = NULL;
	int64_t times[STARTS];
	int rc;

	if (!data)
		return ddl__error_memory(err);
	result = data + count;
	for (size_t i = 0; i < count; i++)
		data[i] = mine;
	rc = ddl_allreduce_init(data, result, count, DDL_FLOAT32, DDL_SUM, comm, NULL, &request, err);
	for (int start = 0; rc == 0 && start < STARTS; start++) {
		times[start] = now_ns(CLOCK_MONOTONIC);
		rc = ddl_start(request);
		rc = rc ? rc : ddl_wait(request);
		times[start] = now_ns(CLOCK_MONOTONIC) - times[start];
		if (rc < 0)
			ddl_comm_get_error(comm, err);
		for (size_t i = 0; rc == 0 && i < count; i++) /* exact below 2^24 */
			*right = *right && (result[i] > sum * 0.999f && result[i] < sum * 1.001f);
	}
	ddl_request_free(request);
	free(data);
	if (rc < 0)
		return rc;
	qsort(times, STARTS, sizeof(times[0]), compare_times);
	*median_ns = times[STARTS / 2];
	return 0;
}

struct sums {                       /* of a rank */
	int64_t small_ns, large_ns; /* median times */
	bool right;                 /* the results were */
};

static int measure(struct ddl_comm *comm, json_t *lines, struct sums *sums, struct ddl_error *err)
{
	int rc;

	sums->right = true;
	rc = time_sum(comm, SMALL_COUNT, &sums->small_ns, &sums->right, err);
	rc = rc ? rc : time_sum(comm, LARGE_COUNT, &sums->large_ns, &sums->right, err);
	if (rc == 0 && !sums->right)
		ddl__check_add(lines, "allreduce", DDL__FAIL,
			       "run ddl perf allreduce --check on parts of the nodes to find the one at fault; test its memory and "
			       "network",
			       "sums over the ranks were wrong on rank %d", ddl_comm_rank(comm));
	return rc;
}

/* Whether a service thread has a place, where one is wanted. */
static void check_service(const struct ddl_comm *comm, json_t *lines)
{
	const struct ddl__cores *cores = &comm->origin->cores;
	char text[DDL__CORES_TEXT];

	ddl__cores_text(cores, text);
	if (cores->how == DDL__CORES_SINGLE || cores->how == DDL__CORES_FEW || cores->how == DDL__CORES_REFUSED)
		ddl__check_add(lines, "progress", DDL__WARN, "give each task a core more (srun --cpus-per-task), or set progress=0",
			       "a service thread is wanted, and is %s", text);
	else
		ddl__check_add(lines, "progress", DDL__PASS, NULL, "%s",
			       cores->how == DDL__CORES_NONE || cores->how == DDL__CORES_ALONE ? "no service threads are wanted"
			       : cores->n ? "each rank's service thread has a place"
					  : text);
}

/* ---- what the ranks tell each other ---- */

/* Gathers a text of each rank on rank 0: *all holds size * *stride bytes there, NUL-ended each. */
static int gather_texts(struct ddl_comm *comm, const char *text, char **all, size_t *stride, struct ddl_error *err)
{
	const size_t size = (size_t)ddl_comm_size(comm);
	int64_t length = (int64_t)strlen(text) + 1, longest = 0;
	char *mine;
	int rc = ddl_allreduce(&length, &longest, 1, DDL_INT64, DDL_MAX, comm);

	if (rc < 0) {
		ddl_comm_get_error(comm, err);
		return rc;
	}
	*stride = (size_t)longest;
	mine = calloc(1, *stride);
	*all = calloc(size, *stride);
	if (!mine || !*all) {
		ddl_comm_abort(comm, "ddl check: no memory for what the ranks tell");
		free(mine);
		return ddl__error_memory(err);
	}
	memcpy(mine, text, (size_t)length);
	rc = ddl_gather(mine, *all, *stride, DDL_UINT8, 0, comm);
	if (rc < 0)
		ddl_comm_get_error(comm, err);
	free(mine);
	return rc;
}

/* By how much this node's time of day is ahead of rank 0's. */
static int compare_clock(struct ddl_comm *comm, double *ahead_s, struct ddl_error *err)
{
	int64_t ahead_ns, real_ns = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC), first_ns = real_ns;
	uint64_t error_ns;
	int rc = ddl__sync(comm, &ahead_ns, &error_ns, err);

	if (rc < 0)
		return rc;
	rc = ddl_broadcast(&first_ns, 1, DDL_INT64, 0, comm);
	if (rc < 0)
		ddl_comm_get_error(comm, err);
	*ahead_s = (double)(ahead_ns + real_ns - first_ns) / 1e9;
	return rc;
}

/* The clocks of all, of which the worst is told. */
static void check_clock(const char *const *nodes, const double *ahead_s, size_t n, json_t *lines)
{
	size_t first = 0, last = 0;
	double spread;

	for (size_t i = 1; i < n; i++) {
		first = ahead_s[i] < ahead_s[first] ? i : first;
		last = ahead_s[i] > ahead_s[last] ? i : last;
	}
	spread = ahead_s[last] - ahead_s[first];
	if (spread < CLOCK_WARN_S)
		ddl__check_add(lines, "clock", DDL__PASS, NULL, "the nodes' clocks differ by less than a second (%.3f ms)",
			       spread * 1e3);
	else
		ddl__check_add(lines, "clock", spread < CLOCK_FAIL_S ? DDL__WARN : DDL__FAIL,
			       "see to chronyd or ntpd on both (chronyc tracking); munge refuses what is five minutes off",
			       "the clock of %s is %.1f s ahead of that of %s", nodes[last], spread, nodes[first]);
}

/* ---- rank 0: what all have told ---- */

static json_t *merge(const struct ddl_comm *comm, const char *texts, size_t stride)
{
	const size_t n = (size_t)ddl_comm_size(comm);
	const char **nodes = calloc(n, sizeof(*nodes));
	const json_t **lines = calloc(n, sizeof(*lines));
	double *ahead_s = calloc(n, sizeof(*ahead_s));
	json_t **told = calloc(n, sizeof(*told)), *merged = NULL;

	if (nodes && lines && ahead_s && told) {
		for (size_t i = 0; i < n; i++) {
			told[i] = json_loads(texts + i * stride, 0, NULL);
			lines[i] = json_object_get(told[i], "lines");
			ahead_s[i] = json_real_value(json_object_get(told[i], "ahead_s"));
			nodes[i] = ddl_comm_node_name(comm, (int)i);
		}
		merged = ddl__check_merge(lines, nodes, n);
		if (merged)
			check_clock(nodes, ahead_s, n, merged);
		for (size_t i = 0; i < n; i++)
			json_decref(told[i]);
	}
	free(told);
	free(ahead_s);
	free(lines);
	free(nodes);
	return merged;
}

/* Tells rank 0. *lines becomes those of all there. */
static int tell(struct ddl_comm *comm, json_t **lines, struct ddl_error *err)
{
	char *text, *all = NULL;
	json_t *told, *merged;
	struct sums sums;
	double ahead_s = 0;
	size_t stride;
	int rc = measure(comm, *lines, &sums, err);

	rc = rc ? rc : compare_clock(comm, &ahead_s, err);
	if (rc < 0)
		return rc;
	check_service(comm, *lines);
	told = json_pack("{sO sf}", "lines", *lines, "ahead_s", ahead_s);
	text = told ? json_dumps(told, JSON_COMPACT) : NULL;
	rc = gather_texts(comm, text ? text : "{}", &all, &stride, err);
	merged = rc == 0 && ddl_comm_rank(comm) == 0 ? merge(comm, all, stride) : NULL;
	if (merged) {
		json_decref(*lines);
		*lines = merged;
		if (sums.right)
			ddl__check_add(merged, "allreduce", DDL__PASS, NULL, "%d ranks sum 8 bytes in %.0f us and 1 MiB in %.0f us",
				       ddl_comm_size(comm), (double)sums.small_ns / 1e3, (double)sums.large_ns / 1e3);
	}
	free(all);
	free(text);
	json_decref(told);
	return rc;
}

void ddl__check_ranks(json_t **lines)
{
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct ddl_error err = { 0 };
	struct ddl_comm *comm = NULL;
	char why[256] = "";
	int rc;

	if (ddl__boot_pmix.probe(&options, why, sizeof(why)) != 1)
		return;
	options.timeout_ms = JOIN_MS;
	options.measure = 0;
	rc = ddl_comm_create(&options, &comm, &err);
	rc = rc ? rc : tell(comm, lines, &err);
	ddl_comm_destroy(comm);
	if (rc < 0)
		ddl__check_add(*lines, "allreduce", DDL__FAIL, "see to what it names; DDL_LOG=info tells more", "%s", err.text);
}
