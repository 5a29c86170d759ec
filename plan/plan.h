/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - the plan: the ordered tree of the switches and nodes of one job step, with what the user asked for.
 *
 * Everything follows from the tree (doc/plan_format.md): the ring order is its leaves from left to right; ring r is the same tree
 * with the children of every vertex rotated by r. The text form is one line, the same bytes for the same plan, always.
 *
 *     1;job=4242.0;mode=multiring;src=slurm/tree;tree=spine(leaf0(n[1-4]),leaf1(n[5-8]));tasks=2(x8)
 */
#ifndef DDL_PLAN_PLAN_H
#define DDL_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <ddl/error.h>

#include "options.h"
#include "topology.h"

#define DDL__PLAN_VERSION   1
#define DDL__PLAN_TEXT_MAX  98304u     /* bytes of a plan's text with NUL: one environment string may have 131072 */
#define DDL__PLAN_DEPTH_MAX 16u        /* levels of switches */
#define DDL__PLAN_ENV       "DDL_PLAN" /* the environment variable that carries the text */
#define DDL__MODE_ENV       "DDL_MODE" /* that which carries what --ddl was given */

struct ddl__vertex {
	char *name;                    /* switch, block or node */
	struct ddl__vertex *parent;    /* NULL at the root */
	struct ddl__vertex **children; /* in order, left to right; NULL: a node */
	size_t n_children;             /* 0: a node */
	size_t node;                   /* a node: its index in ddl__plan.nodes */
	uint32_t tasks;                /* a node: tasks of the step there; 0: not known */
	uint64_t link_speed;           /* of the link to the parent, as LinkSpeed in topology.conf; 0: not known */
	uint32_t oversubscribed;       /* a switch: by how much, in hundredths, all nodes below outdo that link; 0: not known */
};

struct ddl__plan {
	char *job;                   /* "4242.0"; "" outside a job */
	char *source;                /* "slurm/tree", "env/tree", "file/block", "none/flat": who told / what kind */
	struct ddl__options options; /* what the user asked for */
	uint32_t rails;              /* network interfaces that every node has; 0: not known */
	struct ddl__vertex *root;    /* never NULL; a switch, also when nothing is known of switches (named "fabric") */
	struct ddl__vertex **nodes;  /* the nodes, left to right */
	size_t n_nodes;              /* at least 1 */
};

struct ddl__plan_request {                    /* what a plan is made of */
	const struct ddl__topology *topology; /* NULL: nothing is known: one switch */
	const char *source;                   /* who told: "slurm", "env", "file", "none" */
	const char *job;                      /* "4242.0"; NULL: "" */
	const char *const *nodes;             /* names, in Slurm's order, without repetition */
	const uint32_t *tasks;                /* per node; NULL: not known */
	size_t n_nodes;                       /* at least 1 */
	const struct ddl__options *options;   /* borrowed */
};

/*
 * Builds a plan: cuts the request's nodes out of the topology, orders children by name (natural order), drops switches with a
 * single child; nodes that the topology does not have hang below the root, last. order=slurm: one switch, nodes as given. The
 * ratios of the option uplink are counted by the levels of the topology, whatever is dropped.
 * Returns 0; -EINVAL (no node, a name twice or with reserved characters); -ENOMEM. *plan is freed with ddl__plan_destroy().
 */
int ddl__plan_create(const struct ddl__plan_request *request, struct ddl__plan **plan, struct ddl_error *err);

/*
 * A plan for other nodes of the same tree: exactly the n nodes named stay, with these tasks (NULL: not known), in the order of
 * the plan; those that the plan does not have hang below the root, last, in natural order; switches with a single child are
 * dropped. Job, source, options, rails, link speeds and ratios are those of plan, which is not changed. 10,000 nodes: no O(n^2).
 * Returns 0; -EINVAL (no node, a name twice or with reserved characters); -ENOMEM. *result is freed with ddl__plan_destroy().
 */
int ddl__plan_restrict(const struct ddl__plan *plan, const char *const *names, const uint32_t *tasks, size_t n,
		       struct ddl__plan **result, struct ddl_error *err);

/*
 * Encodes a plan as one line without newline; *text is NUL-ended; caller frees.
 * Returns 0; -E2BIG (DDL__PLAN_TEXT_MAX; the sentence says how long); -ENOMEM.
 */
int ddl__plan_encode(const struct ddl__plan *plan, char **text, struct ddl_error *err);

/*
 * Decodes text (length bytes, no NUL needed). Unknown keys are skipped, an unknown version is refused.
 * Returns 0; -EBADMSG with position; -EPROTO (version); -ENOMEM.
 */
int ddl__plan_decode(const char *text, size_t length, struct ddl__plan **plan, struct ddl_error *err);

/* Orders the children of every switch by name, as ddl__plan_create() does; the nodes get new indices. */
void ddl__plan_sort(struct ddl__plan *plan);

/* A 64-bit digest of a text (FNV-1a), by which ranks compare plans. Not cryptographic. */
uint64_t ddl__plan_digest(const char *text, size_t length);

/* Index of a node by name; -ENOENT. O(n). */
int ddl__plan_find_node(const struct ddl__plan *plan, const char *name, size_t *index);

/* Prints the tree for people, one vertex a line, with box-drawing indents; nodes of a switch compressed where they fit a line. */
void ddl__plan_print(const struct ddl__plan *plan, FILE *out);

void ddl__plan_destroy(struct ddl__plan *plan);

#endif
