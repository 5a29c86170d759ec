/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_write.c - the rate of plain RDMA writes between RDMA devices, as the limit that collectives over them are held against.
 *
 * The ranks are a ring: each holds a queue pair (or several) to the next, and writes one message after the other over it, into the
 * same memory there, with a window of writes under way, as ib_write_bw does. With --senders 1 only rank 0 writes: that is
 * ib_write_bw between two devices. With all of them it is what a ring does in the end: each link carries data at once.
 *
 *   rdma_write --rank R --size N --next ADDRESS --port P --device NAME [--device-port 1] [--gid-index 0] [--bytes 1048576]
 *              [--window 128] [--pairs 1] [--senders N] [--milliseconds 1000] [--timeout 18] [--wait spin|yield]
 *
 * Ranks meet over TCP: each listens at PORT + RANK and connects to PORT + (RANK + 1) mod N at ADDRESS. A sender prints
 * {"rank": R, "bytes_per_s": X}. What completes in the first third of the time does not count, nor what is under way at its end.
 * The clock is CLOCK_MONOTONIC, so this tells a rate also where the processor tells no frequency, without which perftest has none.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define LIFE_S      60        /* of the program */
#define TRIES       500       /* to connect */
#define TRY_US      10000     /* between two of them */
#define FLIGHT      (8 << 20) /* bytes under way at most, but two writes may always be */
#define NOTES       65536     /* completions that are told apart */
#define PAIRS_MAX   16        /* to the next rank */
#define RETRIES     6         /* of a packet; 7 would be for ever with some devices */
#define READY_TIMER 12        /* a receiver's "not ready" timer, 0.64 ms; never used by writes */

struct options {
	int rank, size;
	const char *next;   /* address of the next rank's listener */
	int port;           /* of rank 0's listener */
	const char *device; /* name */
	int device_port, gid_index;
	size_t bytes;  /* of a message */
	size_t window; /* writes under way */
	size_t pairs;  /* to the next rank, taken in turn */
	int senders;   /* ranks below it write */
	int ms;        /* for so long */
	int timeout;   /* of an acknowledgement: 4.096 us * 2^timeout */
	int yields;    /* a poll that finds nothing offers the processor to others */
};

/* What one end tells the other, over TCP. */
struct end {
	uint64_t address; /* of the memory that is written to */
	uint32_t rkey, qpn, psn, mtu;
	uint16_t lid;
	uint8_t gid[16];
};

struct note {
	double at;    /* microseconds */
	size_t count; /* of writes that had completed */
};

struct state {
	const struct options *o;
	struct ibv_context *context;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *to_next[PAIRS_MAX], *to_previous[PAIRS_MAX];
	struct end next; /* what is written to */
	size_t turn;     /* writes posted so far */
	int fd_next, fd_previous;
	unsigned char *memory; /* the first half is sent, the second written to */
};

static struct note notes[NOTES];

static int fail(const char *what)
{
	fprintf(stderr, "rdma_write: %s: %s\n", what, strerror(errno));
	return -1;
}

/* --- the meeting --- */

static int connect_to(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
		fprintf(stderr, "rdma_write: \"%s\" is no IPv4 address\n", address);
		return -1;
	}
	for (int i = 0; i < TRIES; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return fail("a socket");
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
			return fd;
		close(fd);
		usleep(TRY_US);
	}
	return fail("connecting");
}

static int meet(struct state *s)
{
	const struct options *o = s->o;
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)(o->port + o->rank)) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (listener < 0)
		return fail("a socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0)
		return fail("listening");
	s->fd_next = connect_to(o->next, o->port + (o->rank + 1) % o->size);
	if (s->fd_next < 0)
		return -1;
	s->fd_previous = accept(listener, NULL, NULL);
	return s->fd_previous < 0 ? fail("accepting") : 0;
}

static int give(int fd, const void *data, size_t size)
{
	return send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : fail("telling a neighbour");
}

static int take(int fd, void *data, size_t size)
{
	return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size ? 0 : fail("hearing from a neighbour");
}

/* Returns when every rank has called it: a word goes round the ring twice. */
static int barrier(struct state *s)
{
	char word = 0;

	for (int i = 0; i < 2; i++) {
		if (s->o->rank == 0 && give(s->fd_next, &word, 1) < 0)
			return -1;
		if (take(s->fd_previous, &word, 1) < 0 || (s->o->rank != 0 && give(s->fd_next, &word, 1) < 0))
			return -1;
	}
	return 0;
}

/* --- the device --- */

static int open_device(struct state *s)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; list && i < n && !s->context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), s->o->device))
			s->context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (!s->context) {
		fprintf(stderr, "rdma_write: there is no device \"%s\" among %d, or it cannot be opened\n", s->o->device, n);
		return -1;
	}
	if (ibv_query_port(s->context, (uint8_t)s->o->device_port, &s->port) ||
	    ibv_query_gid(s->context, (uint8_t)s->o->device_port, s->o->gid_index, &s->gid))
		return fail("the device's port");
	return 0;
}

static int make_memory(struct state *s)
{
	const size_t size = 2 * s->o->bytes;
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	s->memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	if (!s->memory)
		return fail("memory");
	memset(s->memory, 1, size);
	s->pd = ibv_alloc_pd(s->context);
	s->mr = s->pd ? ibv_reg_mr(s->pd, s->memory, size, access) : NULL;
	s->cq = s->mr ? ibv_create_cq(s->context, (int)s->o->window + 1, NULL, NULL, 0) : NULL;
	return s->cq ? 0 : fail("registering memory, or a completion queue");
}

static struct ibv_qp *make_pair(struct state *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = (uint32_t)s->o->window, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)s->o->device_port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	if (qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return qp;
	fail("a queue pair");
	return NULL;
}

static void describe(const struct state *s, const struct ibv_qp *qp, struct end *end)
{
	*end = (struct end){
		.address = (uint64_t)(uintptr_t)(s->memory + s->o->bytes),
		.rkey = s->mr->rkey,
		.qpn = qp->qp_num,
		.psn = (uint32_t)(rand() & 0xffffff),
		.mtu = s->port.active_mtu,
		.lid = s->port.lid,
	};
	memcpy(end->gid, s->gid.raw, sizeof(end->gid));
}

static int join(struct state *s, struct ibv_qp *qp, const struct end *own, const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = own->mtu < peer->mtu ? own->mtu : peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = READY_TIMER,
		.ah_attr = { .dlid = peer->lid,
			     .port_num = (uint8_t)s->o->device_port,
			     .is_global = s->port.link_layer == IBV_LINK_LAYER_ETHERNET,
			     .grh = { .sgid_index = (uint8_t)s->o->gid_index, .hop_limit = 64 } },
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		return fail("a queue pair that is to receive");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = (uint8_t)s->o->timeout;
	attr.retry_cnt = attr.rnr_retry = RETRIES;
	attr.sq_psn = own->psn;
	attr.max_rd_atomic = 1;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		return fail("a queue pair that is to send");
	return 0;
}

static int connect_pair(struct state *s, size_t i)
{
	struct end to_next, to_previous, previous;

	s->to_next[i] = make_pair(s);
	s->to_previous[i] = make_pair(s);
	if (!s->to_next[i] || !s->to_previous[i])
		return -1;
	describe(s, s->to_next[i], &to_next);
	describe(s, s->to_previous[i], &to_previous);
	if (give(s->fd_next, &to_next, sizeof(to_next)) < 0 || give(s->fd_previous, &to_previous, sizeof(to_previous)) < 0 ||
	    take(s->fd_next, &s->next, sizeof(s->next)) < 0 || take(s->fd_previous, &previous, sizeof(previous)) < 0)
		return -1;
	return join(s, s->to_next[i], &to_next, &s->next) < 0 ? -1 : join(s, s->to_previous[i], &to_previous, &previous);
}

static int connect_pairs(struct state *s)
{
	for (size_t i = 0; i < s->o->pairs; i++)
		if (connect_pair(s, i) < 0)
			return -1;
	return 0;
}

/* --- the writes --- */

static int post(struct state *s)
{
	struct ibv_sge piece = { .addr = (uint64_t)(uintptr_t)s->memory, .length = (uint32_t)s->o->bytes, .lkey = s->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = s->next.address, .rkey = s->next.rkey },
	};

	errno = ibv_post_send(s->to_next[s->turn++ % s->o->pairs], &wr, &bad);
	return errno ? fail("posting a write") : 0;
}

/* How many completed; -1 after a sentence. */
static int poll_writes(struct state *s)
{
	struct ibv_wc wc[16];
	const int n = ibv_poll_cq(s->cq, 16, wc);

	if (n < 0)
		return fail("polling");
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "rdma_write: a write failed: %s\n", ibv_wc_status_str(wc[i].status));
			return -1;
		}
	}
	if (n == 0 && s->o->yields)
		sched_yield();
	return n;
}

/* Writes for the time; returns the number of notes, or -1 after a sentence. */
static int write_all(struct state *s)
{
	const size_t fit = FLIGHT / s->o->bytes < 2 ? 2 : FLIGHT / s->o->bytes;
	const size_t window = fit < s->o->window ? fit : s->o->window;
	const double end = now_us() + s->o->ms * 1e3;
	size_t posted = 0, done = 0;
	int n = 0;

	while (now_us() < end || n < 4) { /* four notes are needed, however slow the link is; the program's life bounds it */
		int got;

		for (; posted < done + window; posted++)
			if (post(s) < 0)
				return -1;
		got = poll_writes(s);
		if (got < 0)
			return -1;
		done += (size_t)got;
		if (got > 0 && n < NOTES)
			notes[n++] = (struct note){ now_us(), done };
	}
	return n;
}

static int tell_rate(const struct state *s, int n)
{
	const double third = notes[0].at + (notes[n - 1].at - notes[0].at) / 3;
	int from = 0;

	while (from + 2 < n && notes[from].at < third)
		from++;
	printf("{\"rank\": %d, \"bytes_per_s\": %.0f}\n", s->o->rank,
	       (double)(notes[n - 1].count - notes[from].count) * (double)s->o->bytes / (notes[n - 1].at - notes[from].at) * 1e6);
	return fflush(stdout);
}

/* Queue pairs stay until all are done: nobody's write may go unanswered while it counts. */
static int run(struct state *s)
{
	int n;

	if (open_device(s) < 0 || make_memory(s) < 0 || meet(s) < 0 || connect_pairs(s) < 0 || barrier(s) < 0)
		return -1;
	if (s->o->rank < s->o->senders) {
		n = write_all(s);
		if (n < 0)
			return -1;
		tell_rate(s, n);
	}
	return barrier(s);
}

/* --- the call --- */

static int parse_option(int c, const char *value, struct options *o)
{
	const long number = atol(value);

	switch (c) {
	case 'n':
		o->next = value;
		return 0;
	case 'd':
		o->device = value;
		return 0;
	case 'y':
		o->yields = !strcmp(value, "yield");
		return o->yields || !strcmp(value, "spin") ? 0 : -1;
	case 'b':
		o->bytes = (size_t)number;
		return number > 0 && number <= 1 << 30 ? 0 : -1;
	case 'w':
		o->window = (size_t)number;
		return number > 0 && number <= 4096 ? 0 : -1;
	case 'q':
		o->pairs = (size_t)number;
		return number > 0 && number <= PAIRS_MAX ? 0 : -1;
	case 'r':
		o->rank = (int)number;
		return 0;
	case 's':
		o->size = (int)number;
		return 0;
	case 'p':
		o->port = (int)number;
		return number > 0 && number < 65000 ? 0 : -1;
	case 'P':
		o->device_port = (int)number;
		return number > 0 && number < 255 ? 0 : -1;
	case 'g':
		o->gid_index = (int)number;
		return number >= 0 && number < 255 ? 0 : -1;
	case 'S':
		o->senders = (int)number;
		return number > 0 ? 0 : -1;
	case 'm':
		o->ms = (int)number;
		return number > 0 ? 0 : -1;
	case 't':
		o->timeout = (int)number;
		return number > 0 && number < 32 ? 0 : -1;
	default:
		return -1;
	}
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
		{ "rank", 1, NULL, 'r' },    { "size", 1, NULL, 's' },         { "next", 1, NULL, 'n' },
		{ "port", 1, NULL, 'p' },    { "device", 1, NULL, 'd' },       { "device-port", 1, NULL, 'P' },
		{ "window", 1, NULL, 'w' },  { "gid-index", 1, NULL, 'g' },    { "bytes", 1, NULL, 'b' },
		{ "senders", 1, NULL, 'S' }, { "milliseconds", 1, NULL, 'm' }, { "timeout", 1, NULL, 't' },
		{ "wait", 1, NULL, 'y' },    { "pairs", 1, NULL, 'q' },        { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		if (c == '?' || parse_option(c, optarg, o) < 0)
			return -1;
	return o->rank >= 0 && o->rank < o->size && o->next && o->device && o->port ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct options o = { .rank = -1,
			     .device_port = 1,
			     .bytes = 1 << 20,
			     .window = 128,
			     .pairs = 1,
			     .senders = 1 << 30,
			     .ms = 1000,
			     .timeout = 18 };
	struct state s = { .o = &o };

	if (parse(argc, argv, &o) < 0) {
		fprintf(stderr, "usage: rdma_write --rank R --size N --next ADDRESS --port P --device NAME ...; see the top of its "
				"source\n");
		return 2;
	}
	alarm(LIFE_S);
	srand((unsigned)getpid());
	return run(&s) < 0 ? 1 : 0;
}
