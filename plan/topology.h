/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - the switch tree of a whole cluster (or of what is known of it), read from any of the forms in which Slurm tells
 * it.
 *
 * Readers are pure: text in, tree out. A topology may hold more nodes than a job; plan.h cuts the job's tree out of it.
 */
#ifndef DDL_PLAN_TOPOLOGY_H
#define DDL_PLAN_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

struct ddl__topology;

struct ddl__node_address {   /* what one node knows of itself: SLURM_TOPOLOGY_ADDR and _PATTERN */
	const char *node;    /* name */
	const char *address; /* "spine1.leaf3.n7"; NULL: not known */
	const char *pattern; /* "switch.switch.node", "block.node", "node"; NULL: not known */
};

/*
 * Readers. Each returns 0 and writes *topology (freed with ddl__topology_destroy()); -EBADMSG with a sentence that names line and
 * word; -EOPNOTSUPP (a kind of topology that is not known here); -ENOMEM. Nothing is written on failure.
 *   controller  what slurm_print_topo_info_msg() / `scontrol show topology` prints: SwitchName=... and BlockName=... lines in
 *               any order; empty: flat
 *   conf        topology.conf (tree or block)
 *   yaml        topology.yaml (25.05 and later): the topology named `name` (-ENOENT if there is none), NULL: the one marked
 *               cluster_default, else the first
 *   addresses   what the nodes know of themselves; nodes without an address are left out: ddl__plan_create() hangs them below
 *               the root
 *   file        a file that holds any of the first three, told apart by its contents; -ENOENT and the like if unreadable
 */
int ddl__topology_read_controller(const char *text, size_t length, struct ddl__topology **topology, struct ddl_error *err);
int ddl__topology_read_conf(const char *text, size_t length, struct ddl__topology **topology, struct ddl_error *err);
int ddl__topology_read_yaml(const char *text, size_t length, const char *name, struct ddl__topology **topology,
			    struct ddl_error *err);
int ddl__topology_read_addresses(const struct ddl__node_address *nodes, size_t n, struct ddl__topology **topology,
				 struct ddl_error *err);
int ddl__topology_load(const char *path, struct ddl__topology **topology, struct ddl_error *err);

/* "tree", "block" or "flat". Static. */
const char *ddl__topology_kind(const struct ddl__topology *topology);

/* All node names of the topology in tree order; for `ddl plan --topology FILE` without --nodes. Caller frees as one allocation. */
int ddl__topology_nodes(const struct ddl__topology *topology, char ***names, size_t *n);

void ddl__topology_destroy(struct ddl__topology *topology);

#endif
