/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - see choose.h. */
#include "choose.h"

#include <errno.h>

#include "error.h"
#include "reduce.h"
#include "shape.h"

/* Time that a rank works on an element, in what it takes natively: one core, sums within the second cache. */
static const double work[] = { [DDL_WIRE_NATIVE] = 1, [DDL_WIRE_BFLOAT16] = 1.2, [DDL_WIRE_FLOAT16] = 2, [DDL_WIRE_INT8] = 2 };

enum ddl_accuracy ddl__said_accuracy(const struct ddl__said *said)
{
	return said->accuracy ? said->accuracy : said->env_accuracy ? said->env_accuracy : (enum ddl_accuracy)said->plan->accuracy;
}

static bool said_reproducible(const struct ddl__said *said)
{
	const int word = said->reproducible >= 0       ? said->reproducible
			 : said->env_reproducible >= 0 ? said->env_reproducible
						       : said->plan->reproducible;
	return word > 0;
}

static void add_way(struct ddl__pick *pick, enum ddl_wire wire, enum ddl_type type, uint64_t elements)
{
	const double native = (double)ddl__wire_bytes(DDL_WIRE_NATIVE, type, elements);
	struct ddl__way *way = &pick->ways[pick->n_ways++];
	way->wire = wire;
	way->bytes = ddl__wire_bytes(wire, type, elements);
	way->widen = way->bytes > 0 ? native / (double)way->bytes : 1;
	way->work = work[wire];
	way->rounds = wire != DDL_WIRE_NATIVE;
}

/* The wires that a reduction may take: what is named, else where something is said of accuracy two that time decides between. */
static void add_ways(const struct ddl__said *said, const struct ddl__call *call, uint64_t elements, struct ddl__pick *pick)
{
	const enum ddl_type type = (enum ddl_type)call->type;
	const enum ddl_accuracy accuracy = ddl__said_accuracy(said);
	const enum ddl_wire plan = (enum ddl_wire)said->plan->wire;
	enum ddl_wire wire = accuracy == DDL_ACCURACY_EXACT ? DDL_WIRE_NATIVE : said->wire;
	if (!wire && (accuracy == DDL_ACCURACY_AUTO || plan == DDL_WIRE_NATIVE))
		wire = plan ? plan : DDL_WIRE_NATIVE;
	if (type != DDL_FLOAT32)
		wire = DDL_WIRE_NATIVE;
	add_way(pick, wire ? wire : DDL_WIRE_NATIVE, type, elements);
	if (!wire)
		add_way(pick, plan ? plan : DDL_WIRE_BFLOAT16, type, elements);
}

int ddl__choose_ways(const struct ddl__said *said, const struct ddl__call *call, uint64_t elements, struct ddl__pick *pick,
		     struct ddl_error *err)
{
	const enum ddl_type type = call->type ? (enum ddl_type)call->type : DDL_UINT8;
	const enum ddl_accuracy accuracy = ddl__said_accuracy(said);
	const bool floats = ddl__type_rounds(type);
	pick->collective = (enum ddl__collective)call->collective;
	pick->n_ways = 0;
	pick->need = (struct ddl__need){ 0 };
	if (said->accuracy == DDL_ACCURACY_EXACT && said->wire > DDL_WIRE_NATIVE && type == DDL_FLOAT32)
		return ddl__error_set(
			err, -EINVAL,
			"the accuracy exact and the wire %s contradict each other: ask for another accuracy, or leave the "
			"wire open",
			ddl__wire_name(said->wire));
	if (!ddl__reduces(pick->collective)) {
		const bool wire = call->collective == DDL__ALLGATHER && said->wire && type == DDL_FLOAT32;
		add_way(pick, wire ? said->wire : DDL_WIRE_NATIVE, type, elements);
		pick->need.ring = call->collective == DDL__ALLGATHER;
		return 0;
	}
	add_ways(said, call, elements, pick);
	const bool extremes = call->op == DDL_MIN || call->op == DDL_MAX;
	pick->need.narrow = ddl__type_narrow(type);
	pick->need.flat = accuracy == DDL_ACCURACY_FLAT || accuracy == DDL_ACCURACY_EXACT;
	/* extremes are the same in any order, unless a wire rounds what is compared */
	pick->need.in_order = floats && !(extremes && type != DDL_FLOAT32) && said_reproducible(said);
	pick->need.ring = call->collective == DDL__REDUCE_SCATTER && call->feedback;
	return 0;
}

void ddl__choose_refuse(const struct ddl__pick *pick, struct ddl_error *err)
{
	const char *collective = ddl__collective_name(pick->collective);
	const char *name = pick->forced ? pick->forced->algorithm->name : "any algorithm";
	struct ddl__need need = pick->need;
	char list[128];
	need.rounds = pick->ways[0].rounds;
	if (need.ring && need.rounds) {
		ddl__error_set(err, -EOPNOTSUPP, "%s by %s cannot be done with %s: use ring, or leave the choice open", collective,
			       name, pick->collective == DDL__ALLGATHER ? "a wire that rounds" : "error feedback");
		return;
	}
	ddl__error_set(err, -EOPNOTSUPP, "%s by %s %s: what can be used here is %s; leave the algorithm open, or ask for less",
		       collective, name,
		       need.in_order ? "does not add contributions in the order of ranks (reproducible)"
				     : "rounds contributions more than once (accuracy)",
		       ddl__algorithms_keeping(pick->collective, &need, pick->model->n_ranks, list, sizeof(list)));
}

bool ddl__choose_relax(const struct ddl__said *said, struct ddl__pick *pick)
{
	bool *first = &pick->need.in_order, *then = &pick->need.flat;
	const bool may_first = said->reproducible <= 0, may_then = said->accuracy == DDL_ACCURACY_AUTO;
	bool *drop = *first && may_first ? first : *then && may_then ? then : NULL;
	if (pick->collective == DDL__ALLREDUCE || !drop)
		return false;
	*drop = false;
	return true;
}
