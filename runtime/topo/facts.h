/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.h - what a node has: its name, place, NUMA nodes, network interfaces, GPUs. Gathered by each rank, told to all.
 *
 * The root folder of sysfs and proc is a parameter, so that captured machines serve as tests.
 */
#ifndef DDL_TOPO_FACTS_H
#define DDL_TOPO_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#include "sysfs.h"

#define DDL__INTERFACES_MAX 32 /* interfaces of a node that are looked at */
#define DDL__GPUS_MAX       32 /* GPUs of a node that are looked at */

struct ddl__interface {
	char name[32];       /* "eth0" */
	char address[64];    /* first usable address, numeric: IPv4 preferred, else global IPv6; "" none */
	uint32_t prefix;     /* bits of the address that name its network; 0 not known */
	uint32_t speed_Mbps; /* link speed; 0 not known */
	uint32_t mtu;        /* bytes */
	int numa;            /* NUMA node of the device; -1 not known or virtual */
	int up;              /* 1: carrier and administratively up */
	int loopback;        /* 1: the loopback interface */
	int virtual;         /* 1: bridge without a device, tunnel, docker, libvirt and the like: never chosen by rule */
};

struct ddl__gpu {
	char pci[32];   /* "0000:3b:00.0" */
	char model[64]; /* as sysfs or the driver names it, else vendor:device */
	int numa;       /* NUMA node; -1 not known */
};

struct ddl__facts {
	char node[256];         /* name: SLURMD_NODENAME, else the launcher's, else the host name up to the first dot */
	char address[1024];     /* SLURM_TOPOLOGY_ADDR; "" not known */
	char pattern[256];      /* SLURM_TOPOLOGY_ADDR_PATTERN; "" not known */
	char machine[80];       /* equal on ranks that can share memory: boot id and network namespace */
	uint32_t numa_nodes;    /* NUMA nodes that this process may use, at least 1 */
	uint32_t cores;         /* physical cores within the cpuset */
	uint32_t cpus;          /* hardware threads within the cpuset */
	struct ddl__cpus may;   /* these: all that threads of this process may use */
	struct ddl__cpus serve; /* of these the ones that the user named for service threads; none: by rule */
	size_t n_interfaces;
	struct ddl__interface interfaces[DDL__INTERFACES_MAX];
	size_t n_named; /* interfaces that carry traffic because they were named; 0: by rule */
	size_t named[DDL__INTERFACES_MAX];
	uint32_t ports; /* RDMA ports that this rank's traffic goes over, in place of the interfaces; 0: none */
	size_t n_gpus;
	struct ddl__gpu gpus[DDL__GPUS_MAX];
};

/*
 * Gathers the facts. root: "" for this machine, else a folder with captured proc/ and sys/ (then addresses come from the file
 * `addresses` in it: lines "NAME ADDRESS"). host: the launcher's name of this node, "" not known. Never fails for what a machine
 * lacks: -ENOMEM only.
 */
int ddl__facts_gather(const char *root, const char *host, struct ddl__facts *facts, struct ddl_error *err);

/*
 * Chooses the interfaces that carry traffic. wanted: comma-separated exact names, in that order; NULL or "": by rule - up, not
 * loopback, not virtual, with an address, fastest first, then by name; the first k for that k at which k times the slowest speed is
 * largest (data are spread evenly, so a slow interface for administration must not join fast ones; a speed that is not known
 * counts as 1 Gbit/s); of several in one subnet the first, since the others would not be used; veth counts as a device
 * (containers), and so does a bridge with a device as a port; if nothing is left, the loopback. indices: room for
 * DDL__INTERFACES_MAX. Returns 0; -ENOENT: a name does not exist (the sentence lists those that do) or has no address.
 */
int ddl__facts_choose_interfaces(const struct ddl__facts *facts, const char *wanted, size_t *indices, size_t *n,
				 struct ddl_error *err);

struct ddl__place {       /* what is kept of another rank's facts: little, for there may be many ranks */
	char *text;       /* owned; holds the strings */
	const char *node; /* as in ddl__facts, and so on */
	const char *address;
	const char *pattern;
	const char *machine;
	const char *may;    /* list of hardware threads; "" not known */
	const char *serve;  /* list of those that service threads were named for */
	uint32_t rails;     /* ports, else interfaces, that carry traffic */
	uint32_t link_Mbps; /* speed of the slowest of them; 0 not known */
	int rail_numa;      /* NUMA node of the first; -1 not known */
};

/* Keeps of the facts what a place holds. fini frees it. -ENOMEM. */
int ddl__place_init(struct ddl__place *place, const struct ddl__facts *facts);
void ddl__place_fini(struct ddl__place *place);

/*
 * The part of the facts that is told to the other ranks, as one line of key=value;... (node, address, pattern, machine, numa,
 * cores, hardware threads, ports, GPUs, and the interfaces that carry traffic: those named, else those that the rule chooses).
 * encode: *text is freed by the caller. decode: -EBADMSG for malformed text, -EPROTO for another version; unknown keys are skipped.
 */
int ddl__facts_encode(const struct ddl__facts *facts, char **text, struct ddl_error *err);
int ddl__facts_decode(const char *text, size_t length, struct ddl__facts *facts, struct ddl_error *err);

#endif
