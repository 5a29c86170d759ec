/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat_view.c - the states of ranks as a table, and who is to blame.
 *
 * To blame is a rank that others wait for and that does not wait for anybody in that request: it is stopped, gone, has failed,
 * does not call DDL, or has not started the request. Waits that lead on to another rank are followed by the same rule, since that
 * rank is waited for too. Only where that finds nobody, ranks are named that wait in other requests than those that wait for them:
 * they start them in different orders, or disagree on what comes next.
 */
#include <stdlib.h>
#include <string.h>

#include "stat.h"
#include "tools.h"

#define LATELY_S 2.0 /* a program that tested a request so recently waits by testing */
#define NAMED    8   /* ranks that a sentence lists */

struct entry { /* a rank of a communicator */
	const json_t *state;
	const char *communicator, *node, *process;
	int rank, active;
	double longest; /* of its waits, s; -1 none */
	bool blamed;
};

struct view {
	struct entry *entries;
	size_t n;
};

static const char *text_in(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static int number_in(const json_t *object, const char *key)
{
	return (int)json_integer_value(json_object_get(object, key));
}

static bool is_stopped(const struct entry *e)
{
	return *e->process == 'T' || *e->process == 't';
}

static bool is_ended(const struct entry *e)
{
	return *e->process == 'Z' || *e->process == 'X';
}

/* Whether its active requests make progress: it is in a call, asks again and again, or has a thread for that. */
static bool is_waiting(const struct entry *e)
{
	const double tested = json_number_value(json_object_get(e->state, "tested_s"));

	return e->active > 0 && !is_stopped(e) && !is_ended(e) && !number_in(e->state, "failed") &&
	       (json_is_true(json_object_get(e->state, "asleep")) || json_is_true(json_object_get(e->state, "thread")) ||
		(tested >= 0 && tested < LATELY_S));
}

static const char *condition(const struct entry *e)
{
	return is_stopped(e)                   ? "stopped"
	       : is_ended(e)                   ? "ended"
	       : number_in(e->state, "failed") ? "failed"
	       : e->active == 0                ? "idle"
	       : is_waiting(e)                 ? "waits"
					       : "runs";
}

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	const int names = strcmp(x->communicator, y->communicator);

	return names ? names : x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int by_interest(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;

	if (x->blamed != y->blamed)
		return x->blamed ? -1 : 1;
	if (x->longest < y->longest || x->longest > y->longest)
		return x->longest > y->longest ? -1 : 1;
	return by_place(x, y);
}

static void fill(struct view *v, const json_t *states)
{
	const json_t *state, *wait;
	size_t i, k;

	json_array_foreach(states, i, state)
	{
		struct entry *e = &v->entries[v->n];

		if (!json_is_integer(json_object_get(state, "rank")))
			continue;
		*e = (struct entry){ .state = state,
				     .communicator = text_in(state, "communicator"),
				     .node = text_in(state, "node"),
				     .process = text_in(state, "process"),
				     .rank = number_in(state, "rank"),
				     .active = number_in(state, "active"),
				     .longest = -1 };
		json_array_foreach(json_object_get(state, "waits"), k, wait)
		{
			const double s = json_number_value(json_object_get(wait, "for_s"));

			e->longest = s > e->longest ? s : e->longest;
		}
		v->n++;
	}
	qsort(v->entries, v->n, sizeof(*v->entries), by_place);
}

/* ---- who is to blame ---- */

static struct entry *find(const struct view *v, const char *communicator, int rank)
{
	const struct entry key = { .communicator = communicator, .rank = rank };

	return bsearch(&key, v->entries, v->n, sizeof(*v->entries), by_place);
}

static bool waits_in(const struct entry *e, int request)
{
	const json_t *wait;
	size_t i;

	json_array_foreach(json_object_get(e->state, "waits"), i, wait)
	{
		if (number_in(wait, "request") == request)
			return true;
	}
	return false;
}

/* What is wrong with a rank that a request waits for, as a clause; "": it waits itself. orders: also if that is in another one. */
static void diagnose(const struct entry *e, int request, bool orders, char *text, size_t size)
{
	text[0] = '\0';
	if (is_stopped(e))
		snprintf(text, size, "is stopped (by a signal or a debugger; kill -CONT lets it go on)");
	else if (is_ended(e))
		snprintf(text, size, "has ended");
	else if (number_in(e->state, "failed"))
		snprintf(text, size, "has failed (%s)", strerror(-number_in(e->state, "failed")));
	else if (e->active == 0)
		snprintf(text, size, "has not started request %d, and waits for nothing in DDL", request);
	else if (!is_waiting(e))
		snprintf(text, size,
			 "has %d active request%s but is in no call of DDL: it computes (DDL_PROGRESS=1 lets requests go on)",
			 e->active, e->active == 1 ? "" : "s");
	else if (orders && json_array_size(json_object_get(e->state, "waits")) > 0 && !waits_in(e, request))
		snprintf(text, size, "has not started request %d, and waits in another one", request);
}

/* A sentence for a rank that n others wait for. */
static void accuse(FILE *out, const char *communicator, int rank, const json_t *wait, const struct entry *e, const char *what,
		   const char *list, size_t n)
{
	fprintf(out, "rank %d on node %s", rank, e ? e->node : text_in(wait, "peer_node"));
	if (e)
		fprintf(out, " (process %d)", number_in(e->state, "pid"));
	fprintf(out, " %s: ", what);
	fprintf(out, "rank%s %s%s wait%s for it in request %d (%s)", n == 1 ? "" : "s", list, n > NAMED ? " and others" : "",
		n == 1 ? "s" : "", number_in(wait, "request"), text_in(wait, "call"));
	fprintf(out, "%s%s\n", *communicator ? " of communicator " : "", communicator);
}

struct claim { /* somebody waits for a rank */
	const char *communicator;
	int peer, rank;
	const json_t *wait;
};

static int by_peer(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	const int names = strcmp(x->communicator, y->communicator);

	if (names || x->peer != y->peer)
		return names ? names : x->peer < y->peer ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* All that ranks which wait say of whom they wait for. */
static struct claim *collect_claims(const struct view *v, size_t *n)
{
	struct claim *claims;
	const json_t *wait;
	size_t all = 0, i;

	for (size_t k = 0; k < v->n; k++)
		all += json_array_size(json_object_get(v->entries[k].state, "waits"));
	claims = calloc(all + 1, sizeof(*claims));
	*n = 0;
	for (size_t k = 0; claims && k < v->n; k++) {
		const struct entry *e = &v->entries[k];

		if (!is_waiting(e))
			continue;
		json_array_foreach(json_object_get(e->state, "waits"), i, wait)
			claims[(*n)++] = (struct claim){ e->communicator, number_in(wait, "peer"), e->rank, wait };
	}
	if (claims)
		qsort(claims, *n, sizeof(*claims), by_peer);
	return claims;
}

/* Looks at one rank that others wait for: claims[0 ... n - 1]. Returns whether it is to blame. */
static bool judge(FILE *out, const struct view *v, const struct claim *claims, size_t n, bool orders)
{
	struct entry *e = find(v, claims[0].communicator, claims[0].peer);
	const json_t *wait = claims[0].wait;
	char what[192] = "is not there: its process has ended, or its node did not answer", list[128] = "";
	size_t ranks = 0, used = 0;
	int last = -1;

	if (e) {
		what[0] = '\0';
		for (size_t i = 0; i < n && !what[0]; i++) {
			wait = claims[i].wait;
			diagnose(e, number_in(wait, "request"), orders, what, sizeof(what));
		}
		if (!what[0])
			return false;
		e->blamed = true;
	}
	for (size_t i = 0; i < n; i++) {
		if (claims[i].rank == last)
			continue;
		last = claims[i].rank;
		if (ranks++ < NAMED)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d", ranks > 1 ? ", " : "", last);
	}
	accuse(out, claims[0].communicator, claims[0].peer, wait, e, what, list, ranks);
	return true;
}

/* Returns how many are to blame. */
static size_t judge_each(FILE *out, const struct view *v, const struct claim *claims, size_t n, bool orders)
{
	size_t blamed = 0;

	for (size_t i = 0, next; i < n; i = next) {
		for (next = i; next < n && claims[next].peer == claims[i].peer &&
			       strcmp(claims[next].communicator, claims[i].communicator) == 0;)
			next++;
		blamed += judge(out, v, &claims[i], next - i, orders);
	}
	return blamed;
}

static void judge_all(FILE *out, const struct view *v)
{
	size_t n;
	struct claim *claims = collect_claims(v, &n);

	if (claims && n > 0 && judge_each(out, v, claims, n, false) == 0 && judge_each(out, v, claims, n, true) == 0)
		fprintf(out, "every rank that is waited for waits itself: data are on their way, or the network is stuck\n");
	free(claims);
}

/* ---- the table ---- */

static void print_wait(FILE *out, const json_t *wait)
{
	fprintf(out, "%6.1f s  %s %s rank %d on %s: request %d (%s), lane %d step %d of %d (%s), %lld of %lld bytes done",
		json_number_value(json_object_get(wait, "for_s")), text_in(wait, "what"),
		strcmp(text_in(wait, "what"), "data") == 0 ? "from" : "at", number_in(wait, "peer"), text_in(wait, "peer_node"),
		number_in(wait, "request"), text_in(wait, "call"), number_in(wait, "lane"), number_in(wait, "step"),
		number_in(wait, "steps"), text_in(wait, "kind"), (long long)json_integer_value(json_object_get(wait, "done")),
		(long long)json_integer_value(json_object_get(wait, "all")));
}

/* The first wait of the request that has waited longest, by order of requests. */
static const json_t *oldest_wait(const struct entry *e)
{
	const json_t *wait;
	size_t i;

	json_array_foreach(json_object_get(e->state, "waits"), i, wait)
	{
		if (json_number_value(json_object_get(wait, "for_s")) >= e->longest)
			return wait;
	}
	return NULL;
}

static void print_entry(FILE *out, const struct entry *e)
{
	const json_t *wait = is_stopped(e) ? NULL : oldest_wait(e);

	fprintf(out, "%6d  %-12s %8d  %-8s %6d  ", e->rank, e->node, number_in(e->state, "pid"), condition(e), e->active);
	if (wait)
		print_wait(out, wait);
	else
		fprintf(out, "%8s", "-");
	if (*e->communicator)
		fprintf(out, "  [%s]", e->communicator);
	fputc('\n', out);
}

static void print_table(FILE *out, struct view *v, size_t rows)
{
	struct entry **sorted = calloc(v->n + 1, sizeof(struct entry *));

	if (!sorted)
		return;
	for (size_t i = 0; i < v->n; i++)
		sorted[i] = &v->entries[i];
	qsort(sorted, v->n, sizeof(struct entry *), by_interest);
	fprintf(out, "%6s  %-12s %8s  %-8s %6s  %8s  %s\n", "rank", "node", "process", "state", "active", "waits", "for");
	for (size_t i = 0; i < v->n && (rows == 0 || i < rows); i++)
		print_entry(out, sorted[i]);
	if (rows && v->n > rows)
		fprintf(out, "... and %zu more (--all)\n", v->n - rows);
	free(sorted);
}

void ddl__stat_print(FILE *out, const json_t *states, size_t rows)
{
	struct view v = { .entries = calloc(json_array_size(states) + 1, sizeof(*v.entries)) };
	char *verdict = NULL;
	size_t size = 0;
	FILE *after = open_memstream(&verdict, &size);

	if (v.entries && after) {
		fill(&v, states);
		judge_all(after, &v); /* before the table, which begins with those to blame */
		fclose(after);
		after = NULL;
		if (v.n == 0)
			fprintf(out, "no process with a communicator was found\n");
		else
			print_table(out, &v, rows);
		if (size)
			fprintf(out, "\n%s", verdict);
	}
	if (after)
		fclose(after);
	free(verdict);
	free(v.entries);
}
