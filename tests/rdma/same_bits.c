/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_bits.c - one rank of a job that carries out the same collectives over RDMA and over TCP, and compares results bit by bit.
 *
 *     same_bits FOLDER RANK RANKS SEED ROUNDS
 *     same_bits SEED ROUNDS                       in a job of Slurm, or of another launcher
 *
 * FOLDER has two folders, verbs and tcp, by which the ranks find each other; DDL_PLAN and so on are as for any program. In each
 * round every algorithm has its turn, with what the seed says: type, operation, wire, rounding, rings, count, root, priority, and
 * memory of the program or of ddl_mem_alloc(). Some are under way at once, and ranks start them in different orders, each twice,
 * with other inputs. Values are any bits. Prints how many were compared, or the first that differ; exit status 0 or 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ddl/ddl.h>

#include "filestore.h"
#include "select.h"

enum { AT_ONCE = 4, STARTS = 2, TIMEOUT_MS = 60000 };
enum { VERBS, TCP, N_COMMS };

static const char *const names[N_COMMS] = { "verbs", "tcp" };

struct job {
	const struct ddl__algorithm *algorithm;
	enum ddl_type type;
	enum ddl_op op;
	struct ddl_request_options options;
	size_t count, send_bytes, recv_bytes;
	int root;
	bool shared; /* memory of ddl_mem_alloc() */
	struct {
		void *send, *recv;
		struct ddl_request *request;
	} on[N_COMMS];
};

struct test {
	int rank, size;
	uint64_t seed; /* the same on all ranks */
	struct ddl_comm *comms[N_COMMS];
	unsigned long compared;
};

static uint64_t next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static int failed(const struct test *t, const char *what, const struct job *job, const char *why)
{
	printf("rank %d: %s: %s", t->rank, what, why);
	if (job)
		printf(" (%s, collective %d, type %d, operation %d, wire %d, %zu elements, %d rings, root %d, %s memory)",
		       job->algorithm->name, job->algorithm->collective, job->type, job->op, job->options.wire, job->count,
		       job->options.rings, job->root, job->shared ? "shared" : "own");
	printf("\n");
	return 1;
}

/* Makes a communicator; the ranks find each other through the folder's files, or (NULL) through their launcher. */
static int open_comm(struct test *t, const char *folder, int c)
{
	struct ddl_comm_options options = DDL_COMM_OPTIONS_INIT;
	struct ddl__filestore *files = NULL;
	struct ddl_error err = { 0 };
	char path[4096];
	int rc = 0;

	if (folder) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[c]);
		rc = ddl__filestore_open(path, t->rank, t->size, &files, &err);
		if (rc < 0)
			return failed(t, path, NULL, err.text);
		options.store = ddl__filestore_store(files);
	}
	options.transports = names[c];
	options.timeout_ms = TIMEOUT_MS;
	options.measure = 0;
	rc = ddl_comm_create(&options, &t->comms[c], &err);
	ddl__filestore_close(files);
	if (rc < 0)
		return failed(t, names[c], NULL, err.text);
	t->rank = ddl_comm_rank(t->comms[c]);
	t->size = ddl_comm_size(t->comms[c]);
	return 0;
}

/* The same on every rank. */
static void draw(struct test *t, const struct ddl__algorithm *algorithm, struct job *job)
{
	static const size_t counts[] = { 1, 3, 64, 211, 1024, 4099, 20011 };
	const enum ddl__collective collective = algorithm->collective;
	const size_t n = (size_t)t->size;

	*job = (struct job){ .algorithm = algorithm, .options = DDL_REQUEST_OPTIONS_INIT };
	job->type = next(&t->seed) % 2 ? DDL_FLOAT32 : (enum ddl_type)(1 + next(&t->seed) % DDL_UINT8);
	job->op = (enum ddl_op)(1 + next(&t->seed) % DDL_PROD);
	job->count = counts[next(&t->seed) % (sizeof(counts) / sizeof(counts[0]))];
	job->root = (int)(next(&t->seed) % n);
	job->shared = next(&t->seed) % 2;
	job->options.algorithm = algorithm->name;
	job->options.wire = (enum ddl_wire)(1 + next(&t->seed) % DDL_WIRE_INT8);
	job->options.rounding = (enum ddl_rounding)(next(&t->seed) % 2);
	job->options.seed = next(&t->seed);
	job->options.priority = (int)(next(&t->seed) % 3);
	job->options.rings = (int)(next(&t->seed) % 4);
	job->options.reproducible = 0;
	if (collective != DDL__ALLREDUCE && collective != DDL__REDUCE && collective != DDL__REDUCE_SCATTER)
		job->options.wire = DDL_WIRE_NATIVE;
	if (job->options.wire == DDL_WIRE_NATIVE)
		job->options.rounding = DDL_ROUND_NEAREST;
	job->send_bytes = job->recv_bytes = job->count * ddl_type_size(job->type);
	if (collective == DDL__REDUCE_SCATTER || collective == DDL__ALLTOALL || collective == DDL__SCATTER)
		job->send_bytes *= n;
	if (collective == DDL__ALLGATHER || collective == DDL__ALLTOALL || collective == DDL__GATHER)
		job->recv_bytes *= n;
}

static int allocate(struct test *t, struct job *job, int c, struct ddl_error *err)
{
	int rc = 0;

	if (!job->shared) {
		job->on[c].send = malloc(job->send_bytes);
		job->on[c].recv = malloc(job->recv_bytes);
		return job->on[c].send && job->on[c].recv ? 0 : -ENOMEM;
	}
	rc = ddl_mem_alloc(t->comms[c], job->send_bytes, &job->on[c].send, err);
	return rc < 0 ? rc : ddl_mem_alloc(t->comms[c], job->recv_bytes, &job->on[c].recv, err);
}

static void release(struct test *t, struct job *job, int c)
{
	ddl_request_free(job->on[c].request);
	if (!job->shared) {
		free(job->on[c].send);
		free(job->on[c].recv);
		return;
	}
	ddl_mem_free(t->comms[c], job->on[c].send);
	ddl_mem_free(t->comms[c], job->on[c].recv);
}

static int make(struct test *t, struct job *job, int c)
{
	struct ddl_comm *comm = t->comms[c];
	struct ddl_request **request = &job->on[c].request;
	struct ddl_error err = { 0 };
	void *send, *recv;
	int rc = allocate(t, job, c, &err);

	if (rc < 0)
		return failed(t, names[c], job, err.text);
	send = job->on[c].send;
	recv = job->on[c].recv;
	switch (job->algorithm->collective) {
	case DDL__ALLREDUCE:
		rc = ddl_allreduce_init(send, recv, job->count, job->type, job->op, comm, &job->options, request, &err);
		break;
	case DDL__BROADCAST:
		rc = ddl_broadcast_init(recv, job->count, job->type, job->root, comm, &job->options, request, &err);
		break;
	case DDL__BARRIER:
		rc = ddl_barrier_init(comm, &job->options, request, &err);
		break;
	case DDL__REDUCE_SCATTER:
		rc = ddl_reduce_scatter_init(send, recv, job->count, job->type, job->op, comm, &job->options, request, &err);
		break;
	case DDL__ALLGATHER:
		rc = ddl_allgather_init(send, recv, job->count, job->type, comm, &job->options, request, &err);
		break;
	case DDL__REDUCE:
		rc = ddl_reduce_init(send, recv, job->count, job->type, job->op, job->root, comm, &job->options, request, &err);
		break;
	case DDL__ALLTOALL:
		rc = ddl_alltoall_init(send, recv, job->count, job->type, comm, &job->options, request, &err);
		break;
	case DDL__GATHER:
		rc = ddl_gather_init(send, recv, job->count, job->type, job->root, comm, &job->options, request, &err);
		break;
	case DDL__SCATTER:
		rc = ddl_scatter_init(send, recv, job->count, job->type, job->root, comm, &job->options, request, &err);
		break;
	default:
		rc = -EOPNOTSUPP;
	}
	return rc < 0 ? failed(t, names[c], job, err.text) : 0;
}

/* The rank's inputs of a start, the same over both transports. */
static void fill(const struct test *t, struct job *job, int start)
{
	uint64_t state = job->options.seed + (uint64_t)start * 1000 + (uint64_t)t->rank;
	const bool is_broadcast = job->algorithm->collective == DDL__BROADCAST;
	unsigned char *send = is_broadcast ? job->on[0].recv : job->on[0].send;
	const size_t bytes = is_broadcast ? job->recv_bytes : job->send_bytes;

	for (int c = 0; c < N_COMMS; c++)
		memset(job->on[c].recv, 0xee, job->recv_bytes);
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t bits = next(&state);
		memcpy(send + i, &bits, bytes - i < 8 ? bytes - i : 8);
	}
	memcpy(is_broadcast ? job->on[1].recv : job->on[1].send, send, bytes);
}

/* Starts all jobs over both transports, each rank in an order of its own, waits for them, and compares. */
static int run_once(struct test *t, struct job *jobs, int n, int start)
{
	for (int i = 0; i < n; i++)
		fill(t, &jobs[i], start);
	for (int i = 0; i < n; i++)
		for (int c = 0; c < N_COMMS; c++) {
			struct job *job = &jobs[(i + t->rank) % n];
			int rc = ddl_start(job->on[c].request);
			if (rc < 0)
				return failed(t, names[c], job, strerror(-rc));
		}
	for (int i = 0; i < n; i++)
		for (int c = 0; c < N_COMMS; c++) {
			struct ddl_error err = { 0 };
			if (ddl_wait(jobs[i].on[c].request) == 0)
				continue;
			ddl_comm_get_error(t->comms[c], &err);
			return failed(t, names[c], &jobs[i], err.text);
		}
	for (int i = 0; i < n; i++) {
		if (memcmp(jobs[i].on[VERBS].recv, jobs[i].on[TCP].recv, jobs[i].recv_bytes))
			return failed(t, "verbs and tcp", &jobs[i], "other bits");
		t->compared++;
	}
	return 0;
}

static int run_batch(struct test *t, struct job *jobs, int n)
{
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		for (int c = 0; c < N_COMMS && !rc; c++)
			rc = make(t, &jobs[i], c);
	for (int start = 0; start < STARTS && !rc; start++)
		rc = run_once(t, jobs, n, start);
	for (int i = 0; i < n && !rc; i++)
		for (int c = 0; c < N_COMMS; c++)
			release(t, &jobs[i], c);
	return rc;
}

static int run_round(struct test *t)
{
	struct job jobs[AT_ONCE];
	int n = 0, rc = 0;

	for (const struct ddl__algorithm *a = ddl__algorithms; a->name && !rc; a++) {
		if (a->collective != DDL__SENDRECV)
			draw(t, a, &jobs[n++]);
		if (n == AT_ONCE || (n && !a[1].name)) {
			rc = run_batch(t, jobs, n);
			n = 0;
		}
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct test t = { 0 };
	const char *folder = NULL;
	int rc = 0;

	if (argc != 3 && argc != 6) {
		fprintf(stderr, "usage: same_bits [FOLDER RANK RANKS] SEED ROUNDS\n");
		return 2;
	}
	if (argc == 6) {
		folder = argv[1];
		t.rank = atoi(argv[2]);
		t.size = atoi(argv[3]);
	}
	t.seed = strtoull(argv[argc - 2], NULL, 10);
	for (int c = 0; c < N_COMMS && !rc; c++)
		rc = open_comm(&t, folder, c);
	for (int round = atoi(argv[argc - 1]); round > 0 && !rc; round--)
		rc = run_round(&t);
	if (rc)
		return rc;
	for (int c = 0; c < N_COMMS; c++)
		ddl_comm_destroy(t.comms[c]);
	printf("rank %d: %lu results, the same bits over verbs and tcp\n", t.rank, t.compared);
	return 0;
}
