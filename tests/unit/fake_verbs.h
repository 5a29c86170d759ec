/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_verbs.h - an RDMA fabric in this process, behind the table of verbs (verbs_api.h): devices with ports, and RC queue pairs
 * that write into each other's memory.
 *
 * It is as strict as the strictest device: it checks keys, bounds and rights, the order of a queue pair's states and the masks that
 * go with them, packet numbers, partition keys, path MTU; a send queue has exactly as many places as asked for, and a work request
 * gives its own back only when a completion of it, or of a later one, was polled; memory is read when the request is carried out,
 * not when it is posted (but for inline ones). It does send, write and write with immediate, not read and atomics.
 *
 * Time does not pass in it: a work request that gets no answer (a cut wire, a port that is down, no receive posted) waits until
 * there is one, and is given up only by fake_verbs_timeouts(), which lets retry timers go off.
 *
 * There is one fabric a process. All calls may come from any thread.
 */
#ifndef TESTS_FAKE_VERBS_H
#define TESTS_FAKE_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs_api.h"

#define FAKE_PORTS 4 /* of a device */
#define FAKE_GIDS  8 /* of a port */
#define FAKE_PKEYS 4 /* of a port */

extern const struct ddl__verbs_api fake_verbs_api;

struct fake_gid {
	const char *text;       /* as an IPv6 address; NULL: no GID */
	enum ibv_gid_type type; /* IBV_GID_TYPE_IB, _ROCE_V1, _ROCE_V2 */
	uint32_t ifindex;       /* of its network interface; 0 none */
};

struct fake_port {
	bool ethernet;             /* RoCE; else InfiniBand */
	enum ibv_port_state state; /* 0: IBV_PORT_ACTIVE */
	enum ibv_mtu mtu;          /* 0: IBV_MTU_4096 */
	uint16_t lid;              /* InfiniBand: 0: one of its own */
	uint8_t speed, width;      /* as in struct ibv_port_attr; 0: 100 Gbit/s */
	bool grh_required;         /* InfiniBand */
	struct fake_gid gids[FAKE_GIDS];
	uint16_t pkeys[FAKE_PKEYS]; /* all 0: 0xffff */
};

struct fake_device {
	const char *name;
	enum ibv_transport_type transport; /* 0: IBV_TRANSPORT_IB */
	bool no_rc;                        /* it has no RC queue pairs */
	int open_error;                    /* open_device() fails with that errno; 0: not */
	int n_ports;                       /* 0: 1 */
	struct fake_port ports[FAKE_PORTS];
	int max_wr, max_sge, max_cqe, max_inline; /* 0: 1024, 4, 4096, 256 */
};

/* ---- the fabric ---- */

/* Makes an empty fabric. */
void fake_verbs_begin(void);

/* Adds a device; name and texts are copied. A RoCE port without a GID gets one of its own (RoCE v2, IPv4), an InfiniBand port too
 * (prefix fe80::). */
void fake_verbs_add(const struct fake_device *device);

/* Adds RoCE devices of one port each by these names. */
void fake_verbs_add_simple(const char *const *names, size_t n);

/* get_device_list() of this thread lists just the devices whose names begin so; NULL: all. */
void fake_verbs_see(const char *prefix);

/* Takes the fabric down. Returns "", or what was wrong: what the program has left open, or misused; valid until begin. */
const char *fake_verbs_end(void);

/* ---- delivery ---- */

enum fake_delivery {
	FAKE_AT_ONCE = 0,  /* work requests are carried out when they are posted */
	FAKE_BY_STEP = 1,  /* when the test says so */
	FAKE_BY_THREAD = 2 /* by a thread, queue pair by queue pair in random order, soon */
};

/* seed: of the order in which queue pairs are served by steps and by the thread; of one queue pair the order is kept. */
void fake_verbs_delivery(enum fake_delivery how, uint64_t seed);

/* Carries out at most n work requests. Returns how many. */
size_t fake_verbs_step(size_t n);

/* The retry timers of all work requests that wait for an answer go off n times: those that have no tries left fail. */
void fake_verbs_timeouts(unsigned n);

/* ---- faults ---- */

/* The next n registrations with that device (NULL: with any) fail. */
void fake_verbs_fail_reg(const char *device, unsigned n, int error);

/* As RLIMIT_MEMLOCK: registrations of more bytes in all, over all devices, fail with ENOMEM. SIZE_MAX: no limit. */
void fake_verbs_limit_memory(size_t bytes);

/* The next n calls of create_qp (create_cq) fail. */
void fake_verbs_fail_qp(unsigned n, int error);
void fake_verbs_fail_cq(unsigned n, int error);

/* The next calls of post_send and post_recv with queue pairs of that device fail: so many of each. */
void fake_verbs_fail_post(const char *device, unsigned sends, unsigned receives, int error);

/* The next n queue pairs of that device do not get ready to receive when they are to (modify_qp), and stay as they are. */
void fake_verbs_fail_join(const char *device, unsigned n, int error);

/* The n-th send request from now on of that device (from 1) is not carried out but completes with that status. */
void fake_verbs_fail_send(const char *device, uint64_t n, enum ibv_wc_status status);

/* The port's state changes, and its device tells. Nothing passes through a port that is not active. */
void fake_verbs_port_state(const char *device, uint8_t port, enum ibv_port_state state);

/* What one port sends does not reach the other (acknowledgements are sent too), until it is mended. */
void fake_verbs_cut(const char *from, uint8_t from_port, const char *to, uint8_t to_port, bool cut);

/* An asynchronous event of a device: IBV_EVENT_DEVICE_FATAL, IBV_EVENT_LID_CHANGE, ... port: for those of ports. */
void fake_verbs_event(const char *device, enum ibv_event_type type, uint8_t port);

/* An asynchronous event of a queue pair, which is in the error state then: IBV_EVENT_QP_FATAL, ... */
void fake_verbs_qp_event(struct ibv_qp *qp, enum ibv_event_type type);

/* ---- what there is, and was ---- */

struct fake_verbs_counts {
	/* now */
	size_t contexts, pds, mrs, channels, cqs, qps;
	size_t bytes; /* registered */
	/* since begin */
	uint64_t registrations;
	uint64_t sends, writes, immediates; /* requests posted: sends, writes without and with immediate */
	uint64_t inlines, signaled;         /* of these */
	uint64_t doorbells;                 /* calls of post_send */
	uint64_t receives;                  /* posted */
	uint64_t delivered, delivered_bytes;
	uint64_t polls;
};

struct fake_verbs_counts fake_verbs_counts(void);

/* What the program did that is wrong with some or all devices, though the call may have worked; "": nothing. */
const char *fake_verbs_misuse(void);

#endif
