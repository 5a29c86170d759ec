/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_blocks.c - the formulas of reduce-scatter, all-gather, reduce, gather and scatter, see cost.h. Blocks are taken for equal.
 */
#include "cost_inside.h"

#define SLICES      16    /* that a chain cuts a message into */
#define SLICE_BYTES 16384 /* but none shorter */

static double latency_us(const struct ddl__model *model)
{
	double latency = 0;
	for (uint32_t l = 0; l < model->n_levels; l++)
		if (ddl__model_joins(model, l) && model->level[l].latency_us > latency)
			latency = model->level[l].latency_us;
	return latency;
}

/* Time in which each rank moves so many bytes when up to `sharing` neighbours send them to others at once. */
static double transfer_us(const struct ddl__model *model, double bytes, double sharing)
{
	double slowest = 0;
	for (uint32_t l = 0; l < model->n_levels; l++) {
		double us = ddl__model_transfer_us(model, l, sharing, bytes);
		if (ddl__model_joins(model, l) && us > slowest)
			slowest = us;
	}
	return slowest;
}

/* What of the whole are the others' blocks. */
static double others(const struct ddl__model *model, double bytes)
{
	return (model->n_ranks - 1.0) / model->n_ranks * bytes;
}

double ddl__cost_ring_allgather(const struct ddl__model *model, double bytes)
{
	return (model->n_ranks - 1.0) * latency_us(model) + transfer_us(model, others(model, bytes), 1);
}

double ddl__cost_ring_reduce_scatter(const struct ddl__model *model, double bytes)
{
	return ddl__cost_ring_allgather(model, bytes) + ddl__model_reduce_us(model, others(model, bytes));
}

double ddl__cost_bruck_allgather(const struct ddl__model *model, double bytes)
{
	double us = 0;
	uint64_t n = model->n_ranks;
	for (uint64_t have = 1; have < n; have *= 2) {
		double moved = (double)(n - have < have ? n - have : have);
		us += latency_us(model) + transfer_us(model, moved / (double)n * bytes, (double)have);
	}
	return n < 2 ? 0 : us + ddl__model_reduce_us(model, 2 * bytes);
}

double ddl__cost_bruck_reduce_scatter(const struct ddl__model *model, double bytes)
{
	return ddl__cost_bruck_allgather(model, bytes) + ddl__model_reduce_us(model, others(model, bytes));
}

double ddl__cost_reduce_chain(const struct ddl__model *model, double bytes)
{
	double n = model->n_ranks, slice = bytes / SLICES > SLICE_BYTES ? bytes / SLICES : SLICE_BYTES;
	slice = slice < bytes ? slice : bytes;
	return n < 2 ? 0
		     : (n - 1) * latency_us(model) + transfer_us(model, bytes + (n - 2) * slice, 1) +
			       ddl__model_reduce_us(model, bytes);
}

double ddl__cost_reduce_knomial(const struct ddl__model *model, double bytes)
{
	return ddl__cost_knomial(model, bytes) / 2;
}

double ddl__cost_star(const struct ddl__model *model, double bytes)
{
	double n = model->n_ranks;
	return n < 2 ? 0 : latency_us(model) + (n - 1) * DDL__MESSAGE_US + transfer_us(model, others(model, bytes), 1);
}

double ddl__cost_binomial(const struct ddl__model *model, double bytes)
{
	return model->n_ranks < 2 ? 0
				  : ddl__tree_depth(model->n_ranks, 2) * (latency_us(model) + DDL__MESSAGE_US) +
					    transfer_us(model, others(model, bytes), 1) + ddl__model_reduce_us(model, 2 * bytes);
}
