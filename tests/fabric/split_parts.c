/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split_parts.c - splits a communicator of processes, uses the parts, and checks what comes out. Started by ddl run.
 *
 *     split_parts [WHAT RANK]
 *
 * WHAT happens on RANK: die (it kills itself while the others split), color (it gives a color that is not possible), files (it may
 * not open any more). A rank prints "ok RANK of SIZE", "aborted RANK" when the communicator that it wanted to split cannot be used
 * any more, or "failed ..." with the sentence.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ddl/ddl.h>

enum { SPLITS = 32 };

static int open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n;
}

static int failed(int rank, const char *what, const struct ddl_error *err)
{
	printf("failed rank %d: %s: %d %s\n", rank, what, err->code, err->text);
	return 1;
}

/* Whether the sum of everyone's number is as expected. */
static int check_sum(int rank, const char *what, struct ddl_comm *comm, int64_t mine, int64_t expected)
{
	struct ddl_error err = { 0, "" };
	int64_t sum[256];

	for (size_t i = 0; i < 256; i++)
		sum[i] = mine;
	if (ddl_allreduce(sum, sum, 256, DDL_INT64, DDL_SUM, comm) < 0) {
		ddl_comm_get_error(comm, &err);
		return failed(rank, what, &err);
	}
	for (size_t i = 0; i < 256; i++) {
		if (sum[i] != expected) {
			snprintf(err.text, sizeof(err.text), "the sum is %lld", (long long)sum[i]);
			return failed(rank, what, &err);
		}
	}
	return 0;
}

/* Even and odd ranks, the last rank apart; ranks run backwards. Then a part of the part, which outlives it. */
static int check_parts(struct ddl_comm *world)
{
	int rank = ddl_comm_rank(world), size = ddl_comm_size(world), bad;
	int color = rank == size - 1 ? DDL_UNDEFINED : rank % 2, n = 0, below = 0;
	struct ddl_comm *part, *twin;
	struct ddl_error err = { 0, "" };
	int64_t sum = 0;

	if (ddl_comm_split(world, color, -rank, &part, &err) < 0)
		return failed(rank, "split", &err);
	if (color == DDL_UNDEFINED)
		return part ? failed(rank, "a communicator for a rank without a part", &err) : 0;
	for (int r = 0; r < size - 1; r++) {
		if (r % 2 != rank % 2)
			continue;
		n++;
		below += r > rank;
		sum += r;
	}
	if (ddl_comm_size(part) != n || ddl_comm_rank(part) != below)
		return failed(rank, "size or rank of the part", &err);
	if (!strstr(ddl_comm_plan(part), "tasks=") || strcmp(ddl_comm_node_name(part, 0), ddl_comm_node_name(world, rank)) != 0)
		return failed(rank, "plan of the part", &err);
	if (check_sum(rank, "sum of the part", part, rank, sum))
		return 1;
	if (ddl_comm_dup(part, &twin, &err) < 0)
		return failed(rank, "dup", &err);
	bad = check_sum(rank, "sum of the twin", twin, rank * 3, sum * 3);
	ddl_comm_destroy(part);
	bad = bad || check_sum(rank, "sum without the part", twin, rank * 5, sum * 5);
	ddl_comm_destroy(twin);
	return bad;
}

/*
 * Waits until all ranks are here, by a file each in the folder SPLIT_PARTS_FOLDER: then no rank is in what came before any more,
 * nor in what follows yet.
 */
static int assemble(const struct ddl_comm *comm, const char *where)
{
	const char *folder = getenv("SPLIT_PARTS_FOLDER");
	int rank = ddl_comm_rank(comm), size = ddl_comm_size(comm);
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.%d", folder ? folder : ".", where, rank);
	FILE *file = fopen(path, "w");
	if (file)
		fclose(file);
	for (int r = 0, tries = 0; r < size;) {
		snprintf(path, sizeof(path), "%s/%s.%d", folder ? folder : ".", where, r);
		if (access(path, F_OK) == 0)
			r++;
		else if (tries++ == 6000)
			return printf("failed rank %d: rank %d did not come to %s\n", rank, r, where), 1;
		else
			usleep(10000);
	}
	return 0;
}

static int check_descriptors(struct ddl_comm *world)
{
	int rank = ddl_comm_rank(world), size = ddl_comm_size(world), bad = 0;
	struct ddl_error err = { 0, "" };
	struct ddl_comm *part;
	int before = 0;

	if (assemble(world, "before")) /* and all collectives of a split were used: the connections are there */
		return 1;
	before = open_files();
	if (assemble(world, "between"))
		return 1;
	for (int i = 0; i < SPLITS && !bad; i++) {
		int even = (size + 1) / 2;

		if (ddl_comm_split(world, (rank + i) % 2, 0, &part, &err) < 0)
			return failed(rank, "one of many splits", &err);
		bad = check_sum(rank, "sum of many", part, 1, rank % 2 ? size - even : even);
		ddl_comm_destroy(part);
	}
	if (bad || assemble(world, "after"))
		return 1;
	if (open_files() != before) {
		snprintf(err.text, sizeof(err.text), "%d descriptors before, %d after", before, open_files());
		return failed(rank, "descriptors", &err);
	}
	return assemble(world, "counted");
}

/* Splits while something happens on one rank; prints what the others are told. */
static int split_badly(struct ddl_comm *world, const char *what, int on)
{
	int rank = ddl_comm_rank(world), color = rank == on ? 1 : DDL_UNDEFINED, rc;
	struct rlimit limit = { 0, 0 }, low;
	struct ddl_error err = { 0, "" };
	struct ddl_comm *part = NULL;

	if (strcmp(what, "files") == 0) { /* the connections that a split needs are there already */
		if (ddl_comm_dup(world, &part, &err) < 0)
			return failed(rank, "the dup before", &err);
		ddl_comm_destroy(part);
		part = NULL;
	}
	if (assemble(world, "ready"))
		return 1;
	if (rank == on && strcmp(what, "die") == 0)
		raise(SIGKILL);
	if (rank == on && strcmp(what, "color") == 0)
		color = -9;
	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	low.rlim_cur = 3;
	if (rank == on && strcmp(what, "files") == 0)
		setrlimit(RLIMIT_NOFILE, &low);
	rc = ddl_comm_split(world, color, 0, &part, &err);
	setrlimit(RLIMIT_NOFILE, &limit);
	if (rc == 0) {
		ddl_comm_destroy(part);
		return failed(rank, "the split that must fail", &err);
	}
	printf("told rank %d: %d %s\n", rank, err.code, err.text);
	if (ddl_comm_get_error(world, NULL) < 0)
		return 2;
	return check_sum(rank, "sum after the failure", world, 1, ddl_comm_size(world));
}

int main(int argc, char **argv)
{
	struct ddl_comm *world, *copy;
	struct ddl_error err = { 0, "" };
	int rank, bad;

	if (ddl_comm_create(NULL, &world, &err) < 0)
		return failed(-1, "create", &err);
	rank = ddl_comm_rank(world);
	bad = check_sum(rank, "sum of the world", world, 1, ddl_comm_size(world));
	if (!bad && argc > 2)
		bad = split_badly(world, argv[1], atoi(argv[2]));
	else
		bad = bad || check_parts(world) || check_descriptors(world);
	if (!bad && argc <= 2) { /* the copy outlives the world */
		if (ddl_comm_dup(world, &copy, &err) < 0)
			return failed(rank, "dup of the world", &err);
		ddl_comm_destroy(world);
		world = copy;
		bad = check_sum(rank, "sum without the world", world, rank,
				(int64_t)ddl_comm_size(world) * (ddl_comm_size(world) - 1) / 2);
	}
	if (bad == 2)
		printf("aborted %d\n", rank);
	else if (!bad)
		printf("ok %d of %d\n", rank, ddl_comm_size(world));
	ddl_comm_destroy(world);
	return bad == 1;
}
