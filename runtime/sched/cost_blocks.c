/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_blocks.c - the formulas of reduce-scatter, all-gather, reduce, gather and scatter, see cost.h. Blocks are taken for equal.
 */
#include "cost.h"

#include <stdbool.h>

#define MESSAGE_US  4.0   /* the work of one message more at the same time, as in cost.c */
#define SLICES      16    /* that a chain cuts a message into */
#define SLICE_BYTES 16384 /* but none shorter */

/* Whether ranks meet at that level. */
static bool joins(const struct ddl__model *model, uint32_t level)
{
	return model->level[level].ranks > (level == 0 ? 1 : model->level[level - 1].ranks);
}

static double latency_us(const struct ddl__model *model)
{
	double latency = 0;
	for (uint32_t l = 0; l < model->n_levels; l++)
		if (joins(model, l) && model->level[l].latency_us > latency)
			latency = model->level[l].latency_us;
	return latency;
}

/* Time in which each rank moves so many bytes when up to `sharing` neighbours send them to others at once. */
static double transfer_us(const struct ddl__model *model, double bytes, double sharing)
{
	double slowest = 0;
	for (uint32_t l = 0; l < model->n_levels; l++) {
		double us = ddl__model_transfer_us(model, l, sharing, bytes);
		if (joins(model, l) && us > slowest)
			slowest = us;
	}
	return slowest;
}

static double memory_us(const struct ddl__model *model, double bytes)
{
	return model->reduce_GBps > 0 ? bytes / (model->reduce_GBps * 1000) : 0;
}

/* What of the whole are the others' blocks. */
static double others(const struct ddl__model *model, double bytes)
{
	return (model->n_ranks - 1.0) / model->n_ranks * bytes;
}

static uint32_t depth_of(uint64_t ranks)
{
	uint32_t depth = 0;
	while (1ULL << depth < ranks)
		depth++;
	return depth;
}

double ddl__cost_ring_allgather(const struct ddl__model *model, double bytes)
{
	return (model->n_ranks - 1.0) * latency_us(model) + transfer_us(model, others(model, bytes), 1);
}

double ddl__cost_ring_reduce_scatter(const struct ddl__model *model, double bytes)
{
	return ddl__cost_ring_allgather(model, bytes) + memory_us(model, others(model, bytes));
}

double ddl__cost_bruck_allgather(const struct ddl__model *model, double bytes)
{
	double us = 0;
	uint64_t n = model->n_ranks;
	for (uint64_t have = 1; have < n; have *= 2) {
		double moved = (double)(n - have < have ? n - have : have);
		us += latency_us(model) + transfer_us(model, moved / (double)n * bytes, (double)have);
	}
	return n < 2 ? 0 : us + memory_us(model, 2 * bytes);
}

double ddl__cost_bruck_reduce_scatter(const struct ddl__model *model, double bytes)
{
	return ddl__cost_bruck_allgather(model, bytes) + memory_us(model, others(model, bytes));
}

double ddl__cost_reduce_chain(const struct ddl__model *model, double bytes)
{
	double n = model->n_ranks, slice = bytes / SLICES > SLICE_BYTES ? bytes / SLICES : SLICE_BYTES;
	slice = slice < bytes ? slice : bytes;
	return n < 2 ? 0 : (n - 1) * latency_us(model) + transfer_us(model, bytes + (n - 2) * slice, 1) + memory_us(model, bytes);
}

double ddl__cost_reduce_knomial(const struct ddl__model *model, double bytes)
{
	return ddl__cost_knomial(model, bytes) / 2;
}

double ddl__cost_star(const struct ddl__model *model, double bytes)
{
	double n = model->n_ranks;
	return n < 2 ? 0 : latency_us(model) + (n - 1) * MESSAGE_US + transfer_us(model, others(model, bytes), 1);
}

double ddl__cost_binomial(const struct ddl__model *model, double bytes)
{
	return model->n_ranks < 2 ? 0
				  : depth_of(model->n_ranks) * (latency_us(model) + MESSAGE_US) +
					    transfer_us(model, others(model, bytes), 1) + memory_us(model, 2 * bytes);
}
