/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs_inside.h - what the files of the fabric share. */
#ifndef TESTS_FAKE_VERBS_INSIDE_H
#define TESTS_FAKE_VERBS_INSIDE_H

#include <pthread.h>

#include "fake_verbs.h"

#define FAKE_DEVICES 32
#define FAKE_CUTS    64

struct fake__queue { /* of events, told through an eventfd that counts them */
	int fd;
	struct fake__event *first, *last;
};

struct fake__event {
	struct fake__event *next;
	struct ibv_async_event what; /* of a device */
	struct fake__cq *cq;         /* of a channel */
};

struct fake__device {
	struct ibv_device ibv; /* first */
	struct fake_device spec;
	union ibv_gid gids[FAKE_PORTS][FAKE_GIDS];
	unsigned fail_reg;  /* registrations that fail */
	int fail_reg_error; /* with that */
	uint64_t fail_send; /* requests until one fails; 0 none will */
	enum ibv_wc_status fail_status;
	unsigned fail_post_send, fail_post_recv; /* posts that fail */
	int fail_post_error;                     /* with that */
	unsigned fail_join;                      /* queue pairs that do not get ready to receive */
	int fail_join_error;                     /* with that */
};

struct fake__context {
	struct ibv_context ibv; /* first */
	struct fake__device *device;
	struct fake__queue events;
	unsigned users; /* objects made of it */
	unsigned unacked;
	struct fake__context *next;
};

struct fake__pd {
	struct ibv_pd ibv; /* first */
	unsigned users;
};

struct fake__mr {
	struct ibv_mr ibv; /* first */
	int access;
	struct fake__mr *next;
};

struct fake__channel {
	struct ibv_comp_channel ibv; /* first */
	struct fake__queue events;
};

struct fake__cqe {
	struct ibv_wc wc;
	unsigned frees; /* places of its queue that are free once it was polled */
	bool receive;   /* that is the receive queue */
};

struct fake__cq {
	struct ibv_cq ibv; /* first */
	struct fake__cqe *ring;
	size_t head, n;
	bool armed, solicited_only;
	bool overrun;
	unsigned users;   /* queue pairs' queues */
	unsigned unacked; /* events */
};

struct fake__send { /* a work request of a send queue */
	uint64_t id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	__be32 imm;
	uint64_t to;
	uint32_t rkey;
	int n_sge;
	struct ibv_sge *sge;
	uint8_t *inlined; /* its bytes, where they were copied */
	size_t bytes;
	bool counted;              /* fail_send has seen it */
	bool waits;                /* tried, and no answer came */
	bool not_ready;            /* since no receive was posted */
	bool landed;               /* carried out; or failed: status */
	bool answered;             /* landed: the status is known here without the peer's answer */
	enum ibv_wc_status status; /* landed */
	unsigned tries;
};

struct fake__receive {
	uint64_t id;
	int n_sge;
	struct ibv_sge *sge;
};

struct fake__qp {
	struct ibv_qp ibv; /* first */
	struct fake__context *context;
	struct ibv_qp_attr attr; /* as modified so far */
	struct ibv_qp_cap cap;
	bool all_signaled;
	struct fake__send *sends;
	struct ibv_sge *send_sges;
	uint8_t *send_bytes;
	size_t send_head, n_sends; /* not completed */
	size_t n_landed;           /* of these, from the head */
	size_t send_used;          /* places taken */
	unsigned send_done;        /* completed since the last completion that was told */
	struct fake__receive *receives;
	struct ibv_sge *receive_sges;
	size_t receive_head, n_receives, receive_used;
	unsigned unacked;
	struct fake__qp *next;
};

struct fake__cut {
	const struct fake__device *from, *to;
	uint8_t from_port, to_port;
};

struct fake__fabric {
	pthread_mutex_t lock;
	pthread_cond_t work; /* for the thread */
	struct fake__device *devices[FAKE_DEVICES];
	size_t n_devices;
	struct fake__context *contexts;
	struct fake__qp *qps;
	struct fake__mr *mrs;
	uint32_t next_key, next_qp;
	struct fake__cut cuts[FAKE_CUTS];
	size_t n_cuts;
	enum fake_delivery delivery;
	uint64_t random;
	pthread_t thread;
	bool threaded, ending;
	bool renewed;              /* something that the thread may have to do */
	struct fake__event *spare; /* events that are not in use */
	size_t memory_limit;
	unsigned fail_qp, fail_cq, fail_reg;
	int fail_qp_error, fail_cq_error, fail_reg_error;
	struct fake_verbs_counts counts;
	size_t lists; /* device lists that were not freed */
	char misuse[256];
};

extern struct fake__fabric fake__fabric;

void *fake__zeroed(size_t n, size_t size); /* memory; never NULL */

/* All with the lock held. */
void fake__misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fake__tell(struct fake__device *device, const struct ibv_async_event *event); /* all its contexts; of a qp or cq: its own */
void fake__complete(struct fake__cq *cq, const struct fake__cqe *cqe, bool solicited);
void fake__queue_put(struct fake__queue *queue, const struct fake__event *event);
void fake__queue_drop(struct fake__queue *queue, const void *object); /* the events of an ibv_cq or ibv_qp; NULL: all */
void fake__queue_fini(struct fake__queue *queue);
struct fake__send *fake__send_at(struct fake__qp *qp, size_t i); /* the i-th that is not completed */
const struct fake_port *fake__port_of(const struct fake__qp *qp);
void fake__qp_fail(struct fake__qp *qp); /* to the error state: what is in its queues is flushed */
void fake__serve(struct fake__qp *qp);   /* something may go on; as delivery says */
void fake__serve_all(void);
void fake__serve_peer(struct fake__qp *qp); /* whoever waits for a receive of this one */

/* The verbs of queue pairs, which lock by themselves. */
struct ibv_qp *fake__create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int fake__modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int fake__destroy_qp(struct ibv_qp *qp);
int fake__post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake__post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void fake__qp_free(struct fake__qp *qp); /* its memory alone */
void *fake__wire(void *unused);          /* the thread */

#endif
