/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.h - RDMA devices and their ports: which there are, what each lacks, which become rails, and how their peers are
 * addressed. A rail of transport/verbs is a port.
 *
 * Ports that are named (DDL_RDMA) are rails in that order, or the sentence says why one cannot be. Else, of the usable ports:
 * InfiniBand ports in natural order of their devices' names, then RoCE ports in the order of the network interfaces that this
 * rank's traffic goes over (all, where none are given), by the GIDs of just these interfaces. Data are spread evenly over rails, so
 * those that are too slow for that are left out; and where some are on the NUMA nodes of this process's cores, the others are.
 *
 * Rail i of one rank is joined to rail i of another, so ranks should see the same rails in the same order; where they do not, the
 * names say it. Rails that do not join (one of them InfiniBand, or in another subnet) are not used: tcp serves.
 */
#ifndef DDL_TRANSPORT_VERBS_DEVICE_H
#define DDL_TRANSPORT_VERBS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#include "sysfs.h"
#include "tcp_net.h"
#include "transport.h"
#include "verbs_api.h"

enum ddl__verbs_kind {                           /* what a port's GID is; travels in addresses */
		       DDL__VERBS_IB = 1,        /* InfiniBand: packets go by LID */
		       DDL__VERBS_ROCE_V1 = 2,   /* Ethernet frames, within one network */
		       DDL__VERBS_ROCE_IPV4 = 3, /* RoCE v2: UDP over IPv4 */
		       DDL__VERBS_ROCE_IPV6 = 4, /* over IPv6, an address that is routed */
		       DDL__VERBS_ROCE_LINK = 5, /* over IPv6, a link-local address: within one network */
};

struct ddl__verbs_device {                /* an open device, shared by its ports */
	const struct ddl__verbs_api *api; /* borrowed until close */
	struct ibv_context *context;      /* its async_fd does not block */
	struct ibv_pd *pd;                /* protection domain of all that is registered and connected */
	char name[DDL__DEVICE_MAX];       /* "mlx5_0" */
	struct ibv_device_attr limits;    /* max_qp_wr, max_sge, max_cqe, max_mr_size, ... */
	int numa;                         /* its NUMA node; -1 not known */
};

struct ddl__verbs_port {
	struct ddl__verbs_device *device;
	uint8_t number;            /* from 1 */
	enum ddl__verbs_kind kind; /* of its GID */
	union ibv_gid gid;         /* that it is known by */
	int gid_index;             /* in the port's table */
	uint16_t lid;              /* InfiniBand; 0 on Ethernet */
	bool grh;                  /* InfiniBand: packets need the global header all the same */
	uint16_t pkey;             /* partition key, bit 15: full member */
	uint16_t pkey_index;       /* in the port's table */
	enum ibv_mtu mtu;          /* in force, at most what the settings say */
	enum ibv_port_state state; /* IBV_PORT_ACTIVE: up */
	uint32_t speed_Mbps;       /* of its link; 0 not known */
	char netdev[32];           /* network interface of its GID; "": none, or not known */
	int rail;                  /* which it became; -1: none */
	char why[160];             /* why it is no rail, a clause ("it is down"); "": it is one */
};

struct ddl__verbs_choice {                         /* what to choose by */
	const char *root;                          /* folder that proc and sys are below; "": this machine's */
	const struct ddl__rdma_settings *settings; /* DDL_RDMA and DDL_RDMA_*; NULL: nothing is set */
	const char *const *interfaces;             /* network interfaces of this rank's traffic, in order; NULL: not known */
	size_t n_interfaces;
	const struct ddl__cpus *cpus; /* that threads of this process may use; NULL: not known, and nothing is far */
};

struct ddl__verbs_ports { /* open devices and ports of them */
	struct ddl__verbs_device **devices;
	size_t n_devices;
	struct ddl__verbs_port *ports; /* after open: the rails, in order */
	size_t n;
};

/*
 * Opens the ports that are rails, at most DDL__RAILS_MAX, and their devices. The caller ends it with close.
 * Returns 0; -ENODEV with a sentence where there is none to use or a named one cannot be; -EINVAL: a named one does not exist;
 * -ENOMEM. Without a device at all that is -ENODEV too.
 */
int ddl__verbs_ports_open(const struct ddl__verbs_api *api, const struct ddl__verbs_choice *choice, struct ddl__verbs_ports *ports,
			  struct ddl_error *err);

/*
 * The same for a report: every port of every device, in natural order of names, also those that are no rails.
 * A device that cannot be opened has one port, of number 0, whose `why` says it. 0 also where there are none. refused (may be NULL)
 * gets the sentence where ddl__verbs_ports_open() would fail (code 0: it would not).
 */
int ddl__verbs_ports_survey(const struct ddl__verbs_api *api, const struct ddl__verbs_choice *choice,
			    struct ddl__verbs_ports *ports, struct ddl_error *refused, struct ddl_error *err);

/* Closes the devices: all that was made of them is gone before. Zeroed: does nothing. */
void ddl__verbs_ports_close(struct ddl__verbs_ports *ports);

/* "RoCE v2, IPv4", "InfiniBand"; static. */
const char *ddl__verbs_kind_name(enum ddl__verbs_kind kind);

/* A GID as users know it: of RoCE v2 over IPv4 the IPv4 address. text: INET6_ADDRSTRLEN bytes; returned. */
const char *ddl__verbs_gid(enum ddl__verbs_kind kind, const uint8_t *gid, char *text);

unsigned ddl__verbs_mtu_bytes(enum ibv_mtu mtu);

/* Addresses */

struct ddl__verbs_address {             /* own part of an address, of one rail. No padding. */
	struct ddl__tcp_address stream; /* where its control connections are accepted */
	uint8_t gid[16];                /* InfiniBand: the first 8 bytes are the subnet's prefix */
	uint16_t lid;                   /* InfiniBand; else 0 */
	uint16_t pkey;                  /* bit 15: full member */
	uint8_t kind;                   /* enum ddl__verbs_kind */
	uint8_t mtu;                    /* enum ibv_mtu */
	uint8_t port;                   /* number, for sentences */
	uint8_t reserved;               /* 0 */
};

/* Fills all of it but the stream, which is left alone. */
void ddl__verbs_port_describe(const struct ddl__verbs_port *port, struct ddl__verbs_address *address);

/* Whether queue pairs of two ports can be connected, from the addresses alone; symmetric. False also where one is malformed. */
bool ddl__verbs_joins(const struct ddl__verbs_address *a, const struct ddl__verbs_address *b);

/* Why they do not join, as half a sentence with the remedy. */
void ddl__verbs_why_apart(const struct ddl__verbs_address *ours, const struct ddl__verbs_address *theirs, char *why, size_t size);

/*
 * Fills of attr what the path to a port that joins is: path_mtu, ah_attr, pkey_index, port_num. The rest, which belongs to the
 * queue pair, is left alone. settings: NULL: nothing is set.
 */
void ddl__verbs_path(const struct ddl__verbs_port *port, const struct ddl__verbs_address *peer,
		     const struct ddl__rdma_settings *settings, struct ibv_qp_attr *attr);

#endif
