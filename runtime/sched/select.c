/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.c - the table of algorithms, and the choice among them by predicted time.
 */
#include "select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define CLEARLY 0.75 /* predictions are rough, but for one node: another than the first row must be so much faster */

enum { DIMS = 4, SPLITS = 4 }; /* dimensions that ranks are split into, and how many such splits are worth comparing */

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
	{ 10, DDL__ALLREDUCE, "exchange", "everything straight to everybody, one hop; the shortest messages", ddl__build_exchange,
	  ddl__cost_exchange },
	{ 11, DDL__ALLREDUCE, "multidirect", "as multiring, at the top straight to the owners; there alone a wire rounds",
	  ddl__build_multidirect, ddl__cost_multidirect },
	{ 12, DDL__ALLREDUCE, "chain", "from rank to rank and back, in the order of ranks; for reproducible results",
	  ddl__build_allreduce_chain, ddl__cost_allreduce_chain },
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

bool ddl__takes_dims(const struct ddl__algorithm *algorithm)
{
	return algorithm->build == ddl__build_multiring || algorithm->build == ddl__build_multidirect;
}

const char *ddl__algorithm_name(uint32_t id)
{
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		if (a->id == id)
			return a->name;
	return "unknown algorithm";
}

/* Those that round each contribution once, and the result once, on a wire or in memory of few bits. */
static bool is_flat(const struct ddl__algorithm *a, const struct ddl__need *need, uint32_t n_ranks)
{
	if (n_ranks <= 2 && a->collective == DDL__ALLREDUCE)
		return true;
	if (a->build == ddl__build_direct)
		return !need->narrow || n_ranks <= DDL__SOURCES_MAX;
	if (a->build == ddl__build_multidirect)
		return !need->narrow;
	/* on a wire that rounds it leaves the result as it is: the error would begin lower with few ranks, and then grow */
	return a->build == ddl__build_exchange && n_ranks <= DDL__EXCHANGE_RANKS_MAX && !need->rounds;
}

/* Those that reduce in the order of ranks where the build asks for it, and round alike. */
static bool is_in_order(const struct ddl__algorithm *a, const struct ddl__need *need, uint32_t n_ranks)
{
	if (a->build == ddl__build_direct)
		return n_ranks <= DDL__SOURCES_MAX;
	if (a->build == ddl__build_allreduce_chain)
		return !need->rounds && !need->narrow;
	return a->build == ddl__build_exchange && n_ranks <= DDL__EXCHANGE_RANKS_MAX && !need->rounds;
}

bool ddl__algorithm_keeps(const struct ddl__algorithm *algorithm, const struct ddl__need *need, uint32_t n_ranks)
{
	if (n_ranks < 2)
		return true;
	if (need->ring && need->rounds && strcmp(algorithm->name, "ring") != 0)
		return false;
	if (need->in_order && !is_in_order(algorithm, need, n_ranks))
		return false;
	return !need->flat || !(need->rounds || need->narrow) || is_flat(algorithm, need, n_ranks);
}

const char *ddl__algorithms_keeping(enum ddl__collective collective, const struct ddl__need *need, uint32_t n_ranks, char *list,
				    size_t size)
{
	size_t used = 0;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++)
		if (a->collective == collective && used < size && ddl__algorithm_keeps(a, need, n_ranks))
			used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "", a->name);
	if (used == 0)
		snprintf(list, size, "none");
	return list;
}

/* Reads the dimensions behind the colon of "multiring:4x8x8". */
static int read_dims(const char *wanted, const char *text, struct ddl__candidate *candidate, struct ddl_error *err)
{
	char word[64];
	candidate->n_dims = 0;
	for (;;) {
		char *end;
		unsigned long dim = *text >= '1' && *text <= '9' ? strtoul(text, &end, 10) : 0;
		if (dim == 0 || dim > INT32_MAX || candidate->n_dims == DDL__CANDIDATE_DIMS || (*end && *end != 'x'))
			return ddl__error_set(err, -EINVAL,
					      "the dimensions of \"%s\" are not understood: write multiring:4x8x8, with at most %d "
					      "numbers whose product is the number of ranks",
					      ddl__error_word(word, sizeof(word), wanted, strlen(wanted)), DDL__CANDIDATE_DIMS);
		candidate->dims[candidate->n_dims++] = (uint32_t)dim;
		if (!*end)
			return 0;
		text = end + 1;
	}
}

int ddl__select(enum ddl__collective collective, const char *wanted, struct ddl__candidate *candidate, struct ddl_error *err)
{
	char names[256] = "", word[64];
	size_t length = wanted ? strcspn(wanted, ":") : 0;
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		if (a->collective != collective)
			continue;
		if (!wanted || (strlen(a->name) == length && strncmp(wanted, a->name, length) == 0)) {
			*candidate = (struct ddl__candidate){ .algorithm = a };
			if (!wanted || !wanted[length])
				return 0;
			if (ddl__takes_dims(a))
				return read_dims(wanted, wanted + length + 1, candidate, err);
			return ddl__error_set(err, -EINVAL,
					      "%s takes no dimensions: only multiring and multidirect do, as in multiring:4x8x8",
					      a->name);
		}
		size_t used = strlen(names);
		snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", a->name);
	}
	return ddl__error_set(err, -EOPNOTSUPP, "no algorithm \"%s\" for %s: choose from %s, or none to let the library choose",
			      ddl__error_word(word, sizeof(word), wanted ? wanted : "", length), ddl__collective_name(collective),
			      names);
}

uint64_t ddl__dims_ranks(const uint32_t *dims, uint32_t n)
{
	uint64_t product = 1;
	for (uint32_t i = 0; i < n; i++)
		if (__builtin_mul_overflow(product, dims[i], &product))
			return UINT64_MAX;
	return product;
}

int ddl__dims_check(const uint32_t *dims, uint32_t n, int n_ranks, struct ddl_error *err)
{
	const uint64_t product = ddl__dims_ranks(dims, n);
	char given[256] = "", factors[256] = "";
	for (uint32_t i = 0; i < n; i++)
		snprintf(given + strlen(given), sizeof(given) - strlen(given), "%s%u", i ? "x" : "", dims[i]);
	if (n == 0 || product == (uint64_t)n_ranks)
		return 0;
	for (int left = n_ranks, factor = 2; left > 1; left % factor ? factor++ : (left /= factor))
		if (left % factor == 0)
			snprintf(factors + strlen(factors), sizeof(factors) - strlen(factors), "%s%d", *factors ? "x" : "", factor);
	return ddl__error_set(err, -EINVAL,
			      "dims=%s makes %llu ranks, but there are %d: choose dimensions whose product is %d (%s)", given,
			      (unsigned long long)product, n_ranks, n_ranks, *factors ? factors : "1");
}

char *ddl__candidate_text(const struct ddl__candidate *candidate, char *text)
{
	int used = snprintf(text, DDL__CANDIDATE_TEXT_SIZE, "%s", candidate->algorithm->name);
	for (uint32_t i = 0; i < candidate->n_dims && used < DDL__CANDIDATE_TEXT_SIZE; i++)
		used += snprintf(text + used, DDL__CANDIDATE_TEXT_SIZE - (size_t)used, "%c%u", i ? 'x' : ':', candidate->dims[i]);
	return text;
}

bool ddl__candidate_same(const struct ddl__candidate *a, const struct ddl__candidate *b)
{
	return a->algorithm == b->algorithm && a->n_dims == b->n_dims &&
	       memcmp(a->dims, b->dims, a->n_dims * sizeof(a->dims[0])) == 0;
}

int ddl__candidate_build(const struct ddl__candidate *candidate, struct ddl__build *build, struct ddl__schedule **schedule)
{
	const struct ddl__options *options = &build->layout->plan->options;
	build->n_dims = candidate->n_dims ? candidate->n_dims : options->n_dims;
	build->dims = candidate->n_dims ? candidate->dims : options->n_dims ? options->dims : NULL;
	return candidate->algorithm->build(build, schedule);
}

double ddl__candidate_cost(const struct ddl__candidate *candidate, const struct ddl__model *model, double bytes)
{
	struct ddl__model own = *model;
	if (!candidate->algorithm->cost)
		return 0;
	if (candidate->n_dims) {
		memcpy(own.dims, candidate->dims, candidate->n_dims * sizeof(own.dims[0]));
		own.n_dims = candidate->n_dims;
	}
	return candidate->algorithm->cost(&own, bytes);
}

struct ranking { /* candidates by predicted time, the least first */
	const struct ddl__model *model;
	double bytes;
	struct ddl__candidate *at;
	double us[DDL__CANDIDATES_MAX];
	size_t n, room;
};

static void rank_in(struct ranking *ranking, const struct ddl__candidate *candidate)
{
	double us = ddl__candidate_cost(candidate, ranking->model, ranking->bytes);
	size_t i = ranking->n;
	if (ranking->n == ranking->room && us >= ranking->us[--i])
		return;
	ranking->n += ranking->n < ranking->room;
	for (; i > 0 && ranking->us[i - 1] > us; i--) {
		ranking->us[i] = ranking->us[i - 1];
		ranking->at[i] = ranking->at[i - 1];
	}
	ranking->us[i] = us;
	ranking->at[i] = *candidate;
}

/* Ranks what the candidate's dimensions so far become with each way to split the `left` ranks of the rest. At most DIMS deep. */
static void rank_dims(struct ranking *ranking, struct ddl__candidate *candidate, uint32_t left)
{
	uint32_t depth = candidate->n_dims++;
	if (depth > 0) { /* the last takes the rest; one dimension alone is the ring */
		candidate->dims[depth] = left;
		rank_in(ranking, candidate);
	}
	for (uint32_t p = 2; depth + 2 <= DIMS && p <= left / 2; p++) {
		if (left % p)
			continue;
		candidate->dims[depth] = p;
		rank_dims(ranking, candidate, left / p);
	}
	candidate->n_dims = depth;
}

/* Two are made for one thing each: where that is not asked for, others do as well. */
static bool is_of_use(const struct ddl__algorithm *a, const struct ddl__need *need)
{
	return (a->build != ddl__build_multidirect || need->rounds) && (a->build != ddl__build_allreduce_chain || need->in_order);
}

size_t ddl__candidates(enum ddl__collective collective, const struct ddl__model *model, double bytes, const struct ddl__need *need,
		       struct ddl__candidate *candidates)
{
	struct ddl__candidate split[SPLITS];
	struct ranking all = { .model = model, .bytes = bytes, .at = candidates, .room = DDL__CANDIDATES_MAX };
	struct ranking best = { .model = model, .bytes = bytes, .at = split, .room = SPLITS };
	for (const struct ddl__algorithm *a = ddl__algorithms; a->name; a++) {
		struct ddl__candidate candidate = { .algorithm = a };
		if (a->collective != collective || !a->cost || !ddl__algorithm_keeps(a, need, model->n_ranks) ||
		    !is_of_use(a, need))
			continue;
		rank_in(&all, &candidate);
		if (!ddl__takes_dims(a) || model->n_dims)
			continue;
		best.n = 0;
		rank_dims(&best, &candidate, model->n_ranks);
		for (size_t i = 0; i < best.n; i++)
			rank_in(&all, &split[i]);
	}
	return all.n;
}

const char *ddl__select_wanted(const struct ddl__options *options)
{
	return options->mode == DDL__MODE_RING ? "ring" : options->n_dims ? "multiring" : NULL;
}

int ddl__select_keeping(enum ddl__collective collective, const struct ddl__model *model, double bytes, const struct ddl__need *need,
			struct ddl__candidate *candidate)
{
	struct ddl__candidate candidates[DDL__CANDIDATES_MAX], first = { .algorithm = ddl__algorithms };
	size_t n = ddl__candidates(collective, model, bytes, need, candidates);
	ddl__select(collective, NULL, &first, NULL);
	const bool keeps = ddl__algorithm_keeps(first.algorithm, need, model->n_ranks);
	const bool one_node = model->level[0].ranks == model->n_ranks;
	double least = ddl__candidate_cost(&first, model, bytes) * (one_node ? 1 : CLEARLY);
	if (n == 0 && !keeps)
		return -ENOENT;
	*candidate = n > 0 && (!keeps || ddl__candidate_cost(&candidates[0], model, bytes) < least) ? candidates[0] : first;
	return 0;
}

struct ddl__candidate ddl__select_cheapest(enum ddl__collective collective, const struct ddl__model *model, double bytes)
{
	const struct ddl__need none = { 0 };
	struct ddl__candidate candidate = { .algorithm = ddl__algorithms };
	ddl__select_keeping(collective, model, bytes, &none, &candidate);
	return candidate;
}
