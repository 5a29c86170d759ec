/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.c - the table of algorithms, and the choice among them by predicted time.
 */
#include "select.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

#define CLEARLY 0.75 /* predictions are rough: another than the first row must be so much faster */

const struct ddl__algorithm ddl__algorithms[] = {
	{ 1, DDL__ALLREDUCE, "ring", "reduce-scatter and all-gather around the plan's ring; bandwidth-optimal", ddl__build_ring,
	  ddl__cost_ring },
	{ 4, DDL__ALLREDUCE, "multiring", "reduce-scatter and all-gather level by level of the switch tree", ddl__build_multiring,
	  ddl__cost_multiring },
	{ 5, DDL__ALLREDUCE, "doubling", "log2 N rounds in which whole values are exchanged; short messages", ddl__build_doubling,
	  ddl__cost_doubling },
	{ 6, DDL__ALLREDUCE, "halving", "recursive halving and doubling, 2 log2 N rounds", ddl__build_halving, ddl__cost_halving },
	{ 7, DDL__ALLREDUCE, "tree", "up and down two binary trees, half of the message each, pipelined", ddl__build_tree,
	  ddl__cost_tree },
	{ 8, DDL__ALLREDUCE, "direct", "straight to the owners and back; one rounding however many ranks", ddl__build_direct,
	  ddl__cost_direct },
	{ 9, DDL__ALLREDUCE, "knomial", "up and down a tree of radix 4; short messages", ddl__build_knomial, ddl__cost_knomial },
	{ 2, DDL__BROADCAST, "chain", "pipelined chain from the root along the ring order", ddl__build_chain, NULL },
	{ 3, DDL__BARRIER, "dissemination", "log2 N rounds of signals", ddl__build_dissemination, NULL },
	{ 20, DDL__REDUCE_SCATTER, "ring", "around the plan's ring; bandwidth-optimal", ddl__build_ring_reduce_scatter,
	  ddl__cost_ring_reduce_scatter },
	{ 21, DDL__REDUCE_SCATTER, "bruck", "log2 N rounds, for short blocks", ddl__build_bruck_reduce_scatter,
	  ddl__cost_bruck_reduce_scatter },
	{ 22, DDL__ALLGATHER, "ring", "around the plan's ring; bandwidth-optimal", ddl__build_ring_allgather,
	  ddl__cost_ring_allgather },
	{ 23, DDL__ALLGATHER, "bruck", "log2 N rounds, for short blocks", ddl__build_bruck_allgather, ddl__cost_bruck_allgather },
	{ 24, DDL__REDUCE, "chain", "pipelined chain along the ring order to the root", ddl__build_reduce_chain,
	  ddl__cost_reduce_chain },
	{ 25, DDL__REDUCE, "knomial", "tree of degree 4, for short messages", ddl__build_reduce_knomial, ddl__cost_reduce_knomial },
	{ 26, DDL__ALLTOALL, "pairwise", "each two ranks exchange their blocks, 8 at once", ddl__build_pairwise, NULL },
	{ 27, DDL__GATHER, "direct", "straight to the root", ddl__build_star_gather, ddl__cost_star },
	{ 28, DDL__GATHER, "binomial", "log2 N levels, for short blocks", ddl__build_binomial_gather, ddl__cost_binomial },
	{ 29, DDL__SCATTER, "direct", "straight from the root", ddl__build_star_scatter, ddl__cost_star },
	{ 30, DDL__SCATTER, "binomial", "log2 N levels, for short blocks", ddl__build_binomial_scatter, ddl__cost_binomial },
	{ 31, DDL__SENDRECV, "direct", "straight from one rank to the other", ddl__build_point, NULL },
	{ 0, 0, NULL, NULL, NULL, NULL },
};

const char *ddl__collective_name(enum ddl__collective collective)
{
	switch (collective) {
	case DDL__ALLREDUCE:
		return "all-reduce";
	case DDL__BROADCAST:
		return "broadcast";
	case DDL__BARRIER:
		return "barrier";
	case DDL__REDUCE_SCATTER:
		return "reduce-scatter";
	case DDL__ALLGATHER:
		return "all-gather";
	case DDL__REDUCE:
		return "reduce";
	case DDL__ALLTOALL:
		return "all-to-all";
	case DDL__GATHER:
		return "gather";
	case DDL__SCATTER:
		return "scatter";
	case DDL__SENDRECV:
		return "send/receive";
	}
	return "unknown collective";
}

const char *ddl__algorithm_name(uint32_t id)
{
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		if (a->id == id)
			return a->name;
	return "unknown algorithm";
}

int ddl__select(enum ddl__collective collective, const char *wanted, const struct ddl__algorithm **algorithm, struct ddl_error *err)
{
	char names[256] = "", word[64];
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		if (a->collective != collective)
			continue;
		if (!wanted || strcmp(wanted, a->name) == 0) {
			*algorithm = a;
			return 0;
		}
		size_t used = strlen(names);
		snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", a->name);
	}
	return ddl__error_set(err, -EOPNOTSUPP, "no algorithm \"%s\" for %s: choose from %s, or none to let the library choose",
			      ddl__error_word(word, sizeof(word), wanted, strlen(wanted)), ddl__collective_name(collective), names);
}

const char *ddl__select_wanted(const struct ddl__options *options)
{
	return options->mode == DDL__MODE_RING ? "ring" : options->n_dims ? "multiring" : NULL;
}

const struct ddl__algorithm *ddl__select_cheapest(enum ddl__collective collective, const struct ddl__model *model, double bytes)
{
	const struct ddl__algorithm *best = NULL;
	double least = 0;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		if (a->collective != collective || (best && !a->cost))
			continue;
		double us = a->cost ? a->cost(model, bytes) : 0;
		if (!best || us < least) {
			least = best ? us : us * CLEARLY;
			best = a;
		}
	}
	return best;
}
