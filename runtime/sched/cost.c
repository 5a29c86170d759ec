/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.c - the formulas. GB/s are 1000 bytes a microsecond.
 */
#include "cost_inside.h"

#include <string.h>

#include "schedule.h"

#define NODE_LATENCY_US    1.5 /* between what ranks with a core each take, 0.3, and ranks that share one */
#define NETWORK_LATENCY_US 40.0
#define SWITCH_LATENCY_US  1.0 /* more for every switch higher up */
#define NODE_GBPS          20.0
#define NODE_FUSED         0.3
#define REDUCE_GBPS        32.0
#define NETWORK_GBPS       1.25
#define NODE_MESSAGE_US    0.3 /* the work of one message more at the same time, through memory */
#define NODE_ANSWER_US     0.1 /* the way back in the slot that a message came in */

static uint32_t ranks_below(const struct ddl__layout *layout, const struct ddl__vertex *vertex, struct ddl__model *model,
			    uint32_t *height)
{
	uint32_t ranks = 0, highest = 0, last = 0, uneven = 0;
	if (vertex->n_children == 0)
		ranks = (uint32_t)(layout->first[vertex->node + 1] - layout->first[vertex->node]);
	for (size_t i = 0; i < vertex->n_children; i++) {
		uint32_t h;
		uint32_t below = ranks_below(layout, vertex->children[i], model, &h);
		uneven |= i > 0 && below != last;
		last = below;
		ranks += below;
		highest = h + 1 > highest ? h + 1 : highest;
	}
	if (model->level[highest].ranks < ranks)
		model->level[highest].ranks = ranks;
	model->level[highest].uneven |= uneven;
	*height = highest;
	return ranks;
}

/* The slowest link speed above 0 of the switches below a vertex; 0: there is none. */
static uint64_t slowest_link(const struct ddl__vertex *vertex)
{
	uint64_t slowest = 0;
	for (size_t i = 0; i < vertex->n_children; i++) {
		const struct ddl__vertex *child = vertex->children[i];
		uint64_t speeds[] = { child->n_children ? child->link_speed : 0, slowest_link(child) };
		for (int k = 0; k < 2; k++)
			slowest = speeds[k] && (!slowest || speeds[k] < slowest) ? speeds[k] : slowest;
	}
	return slowest;
}

struct below { /* what is below a vertex */
	uint32_t ranks;
	uint32_t nodes; /* that have ranks */
	uint32_t height;
};

struct uplinks { /* how to tell their speed */
	const struct ddl__layout *layout;
	struct ddl__model *model;
	double network;   /* GB/s of a node's link */
	uint64_t slowest; /* link speed without a unit that is as fast as a node's link */
};

static double uplink_GBps(const struct uplinks *u, const struct ddl__vertex *vertex, uint32_t nodes, bool *known)
{
	*known = true;
	if (vertex->oversubscribed)
		return u->network * nodes * 100 / vertex->oversubscribed;
	if (vertex->link_speed && u->layout->plan->options.uplink.linkspeed)
		return (double)vertex->link_speed / 8000;
	if (vertex->link_speed)
		return u->network * (double)vertex->link_speed / (double)u->slowest;
	*known = false;
	return u->network;
}

/*
 * Goes over the uplinks below a vertex. Of a level the slowest link per rank counts where all ranks send (uplink_GBps is that of
 * one rank until all is seen), and the slowest where one does.
 */
static struct below take_uplinks(const struct uplinks *u, const struct ddl__vertex *vertex)
{
	struct below all = { 0 };
	if (vertex->n_children == 0) {
		all.ranks = (uint32_t)(u->layout->first[vertex->node + 1] - u->layout->first[vertex->node]);
		all.nodes = all.ranks > 0;
		return all;
	}
	double least = 0, per_rank = 0;
	bool any = false;
	for (size_t i = 0; i < vertex->n_children; i++) {
		struct below one = take_uplinks(u, vertex->children[i]);
		all.ranks += one.ranks;
		all.nodes += one.nodes;
		all.height = one.height + 1 > all.height ? one.height + 1 : all.height;
		if (one.height == 0 || one.ranks == 0)
			continue;
		bool known;
		double speed = uplink_GBps(u, vertex->children[i], one.nodes, &known);
		any |= known;
		least = least > 0 && least < speed ? least : speed;
		per_rank = per_rank > 0 && per_rank < speed / one.ranks ? per_rank : speed / one.ranks;
	}
	struct ddl__level *level = &u->model->level[all.height];
	if (least > 0 && (level->narrow_GBps <= 0 || least < level->narrow_GBps))
		level->narrow_GBps = least;
	if (per_rank > 0 && (level->uplink_GBps <= 0 || per_rank < level->uplink_GBps))
		level->uplink_GBps = per_rank;
	level->uplink_from = any ? DDL__FROM_PLAN : level->uplink_from;
	return all;
}

void ddl__model_init(struct ddl__model *model, const struct ddl__layout *layout)
{
	uint32_t height;
	memset(model, 0, sizeof(*model));
	model->n_ranks = ranks_below(layout, layout->plan->root, model, &height);
	model->n_levels = height + 1;
	model->reduce_GBps = REDUCE_GBPS;
	model->widen = 1;
	double network = layout->link_Mbps ? layout->link_Mbps / 8000.0 : NETWORK_GBPS;
	const struct ddl__options *options = &layout->plan->options;
	memcpy(model->dims, options->dims, sizeof(model->dims));
	model->n_dims = options->n_dims;
	for (uint32_t l = 0; l < model->n_levels; l++) {
		struct ddl__level *level = &model->level[l];
		level->latency_us = l == 0 ? NODE_LATENCY_US : NETWORK_LATENCY_US + (l - 1) * SWITCH_LATENCY_US;
		level->bandwidth_GBps = l == 0 ? NODE_GBPS : network;
		level->fused = l == 0 ? NODE_FUSED : 0;
		level->bandwidth_from = l > 0 && layout->link_Mbps ? DDL__FROM_LINKS : DDL__FROM_DEFAULT;
	}
	const struct uplinks uplinks = { layout, model, network, slowest_link(layout->plan->root) };
	take_uplinks(&uplinks, layout->plan->root);
	for (uint32_t l = 2; l < model->n_levels; l++)
		model->level[l].uplink_GBps *= model->level[l - 1].ranks;
}

struct ddl__model ddl__model_on_wire(const struct ddl__model *model, double widen, double work)
{
	struct ddl__model own = *model;
	own.widen = widen;
	own.level[0].bandwidth_GBps /= widen;
	own.reduce_GBps /= widen * work;
	return own;
}

/*
 * The level at which blocks of so many neighbours in ring order meet. Where they do not divide the ranks of a vertex, some block
 * lies across two vertices: then it is a higher one.
 */
static uint32_t level_of(const struct ddl__model *model, uint64_t ranks)
{
	uint32_t l = 0;
	while (l + 1 < model->n_levels && (model->level[l].ranks < ranks || model->level[l].ranks % ranks))
		l++;
	return l;
}

/* How many ranks of a node send at once to ranks that they meet at that level, of a block of `group` neighbours that do. */
static uint32_t sharing_at(const struct ddl__model *model, uint32_t level, uint64_t group)
{
	uint32_t ranks = model->level[0].ranks;
	return level == 0 ? 1 : group < ranks ? (uint32_t)group : ranks;
}

static size_t split(const struct ddl__model *model, struct ddl__dimension *dimensions)
{
	size_t made = 0;
	uint64_t block = 1;
	for (uint32_t i = 0; i < model->n_dims; i++) {
		uint64_t group = block;
		block *= model->dims[i];
		if (model->dims[i] < 2)
			continue;
		uint32_t level = level_of(model, block);
		dimensions[made++] = (struct ddl__dimension){ model->dims[i], level, sharing_at(model, level, group), group };
	}
	return made;
}

size_t ddl__model_dimensions(const struct ddl__model *model, struct ddl__dimension *dimensions)
{
	if (model->n_dims)
		return split(model, dimensions);
	size_t n = 0;
	uint32_t below = 1;
	for (uint32_t l = 0; l < model->n_levels; l++) {
		uint32_t groups = (model->level[l].ranks + below - 1) / below;
		if (groups < 2)
			continue;
		dimensions[n++] = (struct ddl__dimension){ groups, l, sharing_at(model, l, below), below };
		below = model->level[l].ranks;
	}
	return n;
}

double ddl__model_transfer_us(const struct ddl__model *model, uint32_t level, double group, double bytes)
{
	double ranks = model->level[0].ranks, sharing = level == 0 ? 1 : group < ranks ? group : ranks;
	double us = bytes * sharing / (model->level[level].bandwidth_GBps * 1000);
	for (uint32_t l = 2; l <= level; l++) {
		const struct ddl__level *up = &model->level[l];
		double below = model->level[l - 1].ranks, narrow = up->narrow_GBps > 0 ? up->narrow_GBps : up->uplink_GBps;
		if (up->uplink_GBps <= 0)
			continue;
		double crossing = group < below ? bytes * group / (narrow * 1000) : bytes * below / (up->uplink_GBps * 1000);
		us = crossing > us ? crossing : us;
	}
	return us;
}

double ddl__cost_ring(const struct ddl__model *model, double bytes)
{
	double n = model->n_ranks, latency = 0, transfer = 0, part = 2 * (n - 1) / n * bytes;
	for (uint32_t l = 0; l < model->n_levels; l++) {
		double us = ddl__model_transfer_us(model, l, 1, part) * (1 + model->level[l].fused);
		if (!ddl__model_joins(model, l))
			continue;
		latency = model->level[l].latency_us > latency ? model->level[l].latency_us : latency;
		transfer = us > transfer ? us : transfer;
	}
	return 2 * (n - 1) * latency + transfer + ddl__model_reduce_us(model, part / 2);
}

double ddl__cost_multiring(const struct ddl__model *model, double bytes)
{
	struct ddl__dimension dimensions[DDL__LEVELS_MAX];
	size_t n = ddl__model_dimensions(model, dimensions);
	double us = 0;
	for (size_t i = 0; i < n; i++) {
		const struct ddl__dimension *d = &dimensions[i];
		double part = (d->n - 1.0) / d->n * bytes;
		us += 2 * ((d->n - 1) * model->level[d->level].latency_us * (1 + model->level[d->level].uneven) +
			   ddl__model_transfer_us(model, d->level, (double)d->group, part) * (1 + model->level[d->level].fused)) +
		      ddl__model_reduce_us(model, part);
		bytes /= d->n;
	}
	return us;
}

/* Rounds of a hypercube over the ranks in ring order: in round k partners are 2^k apart. halve: each carries half of the last. */
static double rounds_us(const struct ddl__model *model, double bytes, int halve)
{
	double us = 0;
	for (uint64_t d = 1; 2 * d <= model->n_ranks; d *= 2) {
		uint32_t level = level_of(model, 2 * d);
		bytes = halve ? bytes / 2 : bytes;
		us += model->level[level].latency_us + ddl__model_transfer_us(model, level, (double)d, bytes);
	}
	return us;
}

static double extra_us(const struct ddl__model *model, double bytes)
{
	if ((model->n_ranks & (model->n_ranks - 1)) == 0)
		return 0;
	return model->level[0].ranks > 1 ? model->level[0].latency_us + ddl__model_transfer_us(model, 0, 1, bytes)
					 : model->level[1].latency_us + ddl__model_transfer_us(model, 1, 1, bytes);
}

double ddl__cost_doubling(const struct ddl__model *model, double bytes)
{
	double us = rounds_us(model, bytes, 0) + extra_us(model, bytes);
	for (uint64_t d = 1; 2 * d <= model->n_ranks; d *= 2)
		us += ddl__model_reduce_us(model, bytes);
	return us;
}

double ddl__cost_halving(const struct ddl__model *model, double bytes)
{
	return 2 * (rounds_us(model, bytes, 1) + extra_us(model, bytes)) + ddl__model_reduce_us(model, bytes);
}

/* The longest latency of a step, and the time in which a rank that shares its node's link moves so many bytes. */
static double slowest_step_us(const struct ddl__model *model, double bytes, double *latency)
{
	double transfer = 0;
	*latency = 0;
	for (uint32_t l = 0; l < model->n_levels; l++) {
		const struct ddl__level *level = &model->level[l];
		if (!ddl__model_joins(model, l))
			continue;
		double us = bytes * sharing_at(model, l, model->n_ranks) / (level->bandwidth_GBps * 1000);
		double up = ddl__model_transfer_us(model, l, 1, bytes);
		us = up > us ? up : us;
		*latency = level->latency_us > *latency ? level->latency_us : *latency;
		transfer = us > transfer ? us : transfer;
	}
	return transfer;
}

double ddl__cost_tree(const struct ddl__model *model, double bytes)
{
	double latency, transfer = slowest_step_us(model, 2 * bytes, &latency);
	return 2 * ddl__tree_depth(model->n_ranks, 2) * latency + transfer + ddl__model_reduce_us(model, 1.5 * bytes);
}

double ddl__cost_knomial(const struct ddl__model *model, double bytes)
{
	uint32_t depth = ddl__tree_depth(model->n_ranks, 4);
	double latency, transfer = slowest_step_us(model, 3 * bytes, &latency);
	return depth * (2 * (latency + 2 * DDL__MESSAGE_US + transfer) + ddl__model_reduce_us(model, 3 * bytes));
}

/* The work of one message more at the same time. */
static double message_us(uint32_t level)
{
	return level == 0 ? NODE_MESSAGE_US : DDL__MESSAGE_US;
}

double ddl__cost_direct(const struct ddl__model *model, double bytes)
{
	double n = model->n_ranks;
	uint32_t top = level_of(model, model->n_ranks);
	if (n < 2)
		return 0;
	double work = 2 * ddl__model_transfer_us(model, top, n, (n - 1) / n * bytes) +
		      ddl__model_reduce_us(model, (n - 1) / n * bytes);
	if (model->collects)
		work += 2 * bytes / (model->level[0].bandwidth_GBps * 1000);
	if (n == 2 && top == 0) /* the answer comes while the question is still warm: that costs no other latency */
		return model->level[top].latency_us + NODE_ANSWER_US + work;
	return 2 * (model->level[top].latency_us + (n - 1) * message_us(top)) + work;
}

double ddl__cost_allreduce_chain(const struct ddl__model *model, double bytes)
{
	const double n = model->n_ranks;
	const double slice = bytes / 16 > 4096 ? bytes / 16 < 262144 ? bytes / 16 : 262144
					       : 4096; /* as allreduce_chain.c cuts it */
	double latency, transfer = slowest_step_us(model, 2 * bytes, &latency);
	if (n < 2)
		return 0;
	const double filling = bytes > 0 ? transfer / (2 * bytes) * (slice < bytes ? slice : bytes) : 0;
	return 2 * (n - 1) * (latency + filling) + transfer + ddl__model_reduce_us(model, bytes);
}

double ddl__cost_multidirect(const struct ddl__model *model, double bytes)
{
	struct ddl__dimension dimensions[DDL__LEVELS_MAX];
	const size_t n = ddl__model_dimensions(model, dimensions);
	const double widen = model->widen > 1 ? model->widen : 1;
	double us = 0;
	if (n < 2)
		return ddl__cost_direct(model, bytes);
	for (size_t i = 0; i < n; i++) {
		const struct ddl__dimension *d = &dimensions[i];
		const struct ddl__level *level = &model->level[d->level];
		const double part = (d->n - 1.0) / d->n * bytes, wide = part * widen;
		if (i == n - 1)
			us += 2 * (level->latency_us + (d->n - 1) * message_us(d->level) +
				   ddl__model_transfer_us(model, d->level, (double)d->group, part)) +
			      ddl__model_reduce_us(model, part);
		else
			us += 2 * ((d->n - 1) * level->latency_us * (1 + level->uneven) +
				   ddl__model_transfer_us(model, d->level, (double)d->group, wide) * (1 + level->fused)) +
			      ddl__model_reduce_us(model, part);
		bytes /= d->n;
	}
	return us;
}

double ddl__cost_exchange(const struct ddl__model *model, double bytes)
{
	double n = model->n_ranks;
	uint32_t top = level_of(model, model->n_ranks);
	if (n < 2)
		return 0;
	if (n > DDL__EXCHANGE_RANKS_MAX)
		return ddl__cost_doubling(model, bytes);
	return model->level[top].latency_us + (n - 1) * 2 * message_us(top) +
	       ddl__model_transfer_us(model, top, n, (n - 1) * bytes) + ddl__model_reduce_us(model, (n - 1) * bytes);
}
