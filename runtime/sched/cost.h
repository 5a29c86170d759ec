/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.h - what a collective takes, predicted: latency and bandwidth by level of the tree, and formulas that count an algorithm's
 * steps and bytes on each. Pure functions of facts that all ranks agree on, so all choose alike.
 *
 * A level is how high two ranks must go to meet: 0 in their node, l in a switch of height l.
 */
#ifndef DDL_SCHED_COST_H
#define DDL_SCHED_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define DDL__LEVELS_MAX (DDL__PLAN_DEPTH_MAX + 1)

/* Where a number of the model comes from. */
enum ddl__known_from {
	DDL__FROM_DEFAULT = 0, /* nobody knows it */
	DDL__FROM_LINKS = 1,   /* the nodes' network interfaces */
	DDL__FROM_PLAN = 2,    /* what the plan says of uplinks: LinkSpeed of topology.conf, uplink= */
};

struct ddl__level {
	double latency_us;     /* of one step between two ranks that meet there, with the work of sending and receiving */
	double bandwidth_GBps; /* of what a rank (level 0) or a node (above) is connected by, each direction */
	double uplink_GBps; /* of the link from a switch with `ranks` ranks of the level below up to this one; 0: no bottleneck */
	double fused;       /* share by which steps that receive and send at once take longer than one after the other */
	double narrow_GBps; /* of the slowest such link, below however few ranks; 0: as uplink_GBps */
	uint32_t ranks;     /* most ranks below one vertex of this level */
	uint32_t uneven;    /* 1: groups of different size meet there, so that a rank is in two rings at once */
	uint8_t bandwidth_from; /* enum ddl__known_from */
	uint8_t uplink_from;    /* enum ddl__known_from */
};

struct ddl__model {
	uint32_t n_levels; /* at least 1 */
	struct ddl__level level[DDL__LEVELS_MAX];
	uint32_t n_ranks;             /* of all */
	double reduce_GBps;           /* bytes on the wire that a rank reduces; 0: no time is counted for it */
	bool collects;                /* direct collects contributions before it adds them: twice through memory */
	double widen;                 /* bytes in memory of what is one byte on the wire */
	uint32_t dims[DDL__DIMS_MAX]; /* what the user gave for multiring */
	uint32_t n_dims;              /* how many; 0: those of the tree */
};

struct ddl__dimension {   /* of a multi-level algorithm */
	uint32_t n;       /* groups (or ranks) that it joins, at least 2 */
	uint32_t level;   /* at which they meet */
	uint32_t sharing; /* its rings that use the same node's link at once */
	uint64_t group;   /* ranks of a group: as many rings stand side by side */
};

/*
 * The model of a layout: the speed of its nodes' links where it is known, default latencies and bandwidths for the rest. An uplink
 * has the speed that the plan tells: the links of the nodes below by the ratio of oversubscription; LinkSpeed in Mbit/s; or
 * LinkSpeed without a unit, of which the slowest counts as a node's link. Of other uplinks the worst is assumed, that they are as
 * narrow as a node's link: that rules out what would suffer, and costs those nothing that cross an uplink once.
 */
void ddl__model_init(struct ddl__model *model, const struct ddl__layout *layout);

/*
 * The model where elements travel in `widen` times fewer bytes than they have in memory, and a rank's work on one takes `work`
 * times as long: only links carry less then. What goes through memory takes as long as it did.
 */
struct ddl__model ddl__model_on_wire(const struct ddl__model *model, double widen, double work);

/*
 * The dimensions of multiring: those that the user gave (of neighbours in ring order, as ddl__groups_from_dims() takes them), else
 * those of the tree, one a level that joins anything. dimensions: room for DDL__LEVELS_MAX. Returns how many.
 */
size_t ddl__model_dimensions(const struct ddl__model *model, struct ddl__dimension *dimensions);

/*
 * Time in which blocks of `group` neighbours in ring order send `bytes` from each of their ranks to ranks that they meet at a
 * level: the slowest of the node's link, which its ranks share, and the uplinks up to there, which the ranks below them share.
 */
double ddl__model_transfer_us(const struct ddl__model *model, uint32_t level, double group, double bytes);

/*
 * Predicted time in microseconds of an all-reduce of `bytes` on the wire, S. To each comes what a rank reduces, at reduce_GBps:
 *   ring       2(N-1) * a_max + 2(N-1)/N * S/B_min
 *   multiring  2 * sum_i [ (p_i-1) * a_i + (p_i-1)/p_i * S_i * q_i/B_i ], S_i = S / (p_0 ... p_(i-1)), q_i rings sharing the link;
 *              a_i counts twice where groups of different size meet
 *   multidirect  as multiring, S natively below the top; there as direct
 *   doubling   sum_k [ a_k + S * q_k/B_k ] over the rounds k, and one more where N is no power of two
 *   halving    2 * sum_k [ a_k + S/2^(k+1) * q_k/B_k ], and two more
 *   tree       2 * ceil(log2 N) * a_max + 2 * S * q/B_min
 *   knomial    2 * ceil(log4 N) * (a_max + 2 a_0' + 3 S * q/B_min): radix 4, a_0' the work of one message
 *   direct     2 * (a_top + (N-1) * a_0') + 2(N-1)/N * S * q/B, and 2 S/B_0 where it collects
 *   chain      2(N-1) * (a_max + s/B_min) + 2 * S * q/B_min, s a slice, q as if no two of a node's ranks followed each other
 *   exchange   a_top + 2(N-1) * a_0' + (N-1) * S * q/B: as many messages are sent and received at once; of more ranks than a
 *              reduction takes at once doubling's
 */
double ddl__cost_ring(const struct ddl__model *model, double bytes);
double ddl__cost_multiring(const struct ddl__model *model, double bytes);
double ddl__cost_multidirect(const struct ddl__model *model, double bytes);
double ddl__cost_doubling(const struct ddl__model *model, double bytes);
double ddl__cost_halving(const struct ddl__model *model, double bytes);
double ddl__cost_tree(const struct ddl__model *model, double bytes);
double ddl__cost_knomial(const struct ddl__model *model, double bytes);
double ddl__cost_direct(const struct ddl__model *model, double bytes);
double ddl__cost_allreduce_chain(const struct ddl__model *model, double bytes);
double ddl__cost_exchange(const struct ddl__model *model, double bytes);

/*
 * The same of the other collectives; S is all blocks together, q how many ranks of a node send out of it at once:
 *   ring       reduce-scatter, all-gather: (N-1) * a_max + (N-1)/N * S/B_min
 *   bruck      reduce-scatter, all-gather: sum_k [ a_max + m_k/N * S * min(2^k, q)/B_min ], m_k = min(2^k, N - 2^k) blocks
 *   chain      reduce: (N-1) * a_max + (S + (N-2) s)/B_min, s a slice
 *   knomial    reduce: half of the all-reduce's
 *   direct     gather, scatter: a_max + (N-1) a_0' + (N-1)/N * S/B_min
 *   binomial   gather, scatter: ceil(log2 N) * (a_max + a_0') + (N-1)/N * S/B_min; two copies
 */
double ddl__cost_ring_reduce_scatter(const struct ddl__model *model, double bytes);
double ddl__cost_ring_allgather(const struct ddl__model *model, double bytes);
double ddl__cost_bruck_reduce_scatter(const struct ddl__model *model, double bytes);
double ddl__cost_bruck_allgather(const struct ddl__model *model, double bytes);
double ddl__cost_reduce_chain(const struct ddl__model *model, double bytes);
double ddl__cost_reduce_knomial(const struct ddl__model *model, double bytes);
double ddl__cost_star(const struct ddl__model *model, double bytes);
double ddl__cost_binomial(const struct ddl__model *model, double bytes);

#endif
