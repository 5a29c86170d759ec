/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_tell.c - what the notes of all ranks say, in sentences of rank 0: each kind once a request, and not many lines at a time.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "log.h"

enum { LINES_MAX = 20, RANKS_NAMED = 4 };
#define WINDOW_NS UINT64_C(10000000000)

/* At most LINES_MAX in ten seconds; the next that is told says how many were not. The audit's lock is held. */
static void say(struct ddl__audit *audit, const struct ddl__call *call, uint64_t start, const char *text)
{
	const uint64_t now = ddl__coarse_ns();
	char what[256], held[48] = "";
	if (audit->lines == 0 || now - audit->window_ns > WINDOW_NS) {
		audit->window_ns = now;
		audit->lines = 0;
	}
	if (audit->lines == LINES_MAX) {
		audit->held++;
		return;
	}
	if (audit->held)
		snprintf(held, sizeof(held), " (%u lines like this one were left out)", audit->held);
	audit->lines++;
	audit->held = 0;
	ddl__call_describe(call, what, sizeof(what));
	ddl__log(DDL__LOG_ASKED, "check: %s, start %" PRIu64 ": %s%s", what, start, text, held);
}

struct list { /* of ranks in a sentence */
	char text[512];
	int n;
};

static void add_rank(struct list *list, const struct ddl_comm *comm, int rank, const char *remark)
{
	const size_t used = strlen(list->text);
	if (list->n++ < RANKS_NAMED)
		snprintf(list->text + used, sizeof(list->text) - used, "%srank %d on node %s%s", list->n > 1 ? ", " : "", rank,
			 ddl_comm_node_name(comm, rank), remark);
}

static const char *end_list(struct list *list)
{
	const size_t used = strlen(list->text);
	if (list->n > RANKS_NAMED)
		snprintf(list->text + used, sizeof(list->text) - used, " and %d more", list->n - RANKS_NAMED);
	return list->text;
}

struct notes { /* of all ranks about one start */
	const struct ddl_comm *comm;
	const struct ddl__note *first;
	size_t stride;
};

static const struct ddl__note *note_of(const struct notes *notes, int rank)
{
	return &notes->first[(size_t)rank * notes->stride];
}

/* Ranks whose inputs hold what is no finite number. Returns how many. */
static int list_odd(const struct notes *notes, struct list *list)
{
	for (int r = 0; r < notes->comm->size; r++) {
		const struct ddl__note *note = note_of(notes, r);
		char where[64];
		if (!note->odd)
			continue;
		snprintf(where, sizeof(where), " (%s at element %" PRIu64 ")", note->odd == DDL__ODD_NAN ? "NaN" : "infinity",
			 note->odd_at);
		add_rank(list, notes->comm, r, where);
	}
	return list->n;
}

/* A rank with the right bits: those of most ranks; where as many have others, those nearer to the reference. */
static int find_right(const struct notes *notes)
{
	int best = 0, most = 0;
	for (int r = 0; r < notes->comm->size; r++) {
		int alike = 0;
		for (int k = 0; k < notes->comm->size; k++)
			alike += note_of(notes, k)->hash == note_of(notes, r)->hash;
		if (alike > most || (alike == most && note_of(notes, r)->wrong < note_of(notes, best)->wrong)) {
			best = r;
			most = alike;
		}
		if (2 * most > notes->comm->size)
			break;
	}
	return best;
}

static int list_differing(const struct notes *notes, int right, struct list *list)
{
	for (int r = 0; r < notes->comm->size; r++)
		if (note_of(notes, r)->hash != note_of(notes, right)->hash)
			add_rank(list, notes->comm, r, "");
	return list->n;
}

static bool first_time(unsigned *told, enum ddl__told what)
{
	const bool first = !(*told & what);
	*told |= what;
	return first;
}

static void tell_input(struct ddl__audit *audit, const struct ddl__call *call, const struct notes *notes, unsigned *told)
{
	struct list list = { .n = 0 };
	char text[640];
	if (list_odd(notes, &list) == 0)
		return;
	audit->odd++;
	snprintf(text, sizeof(text), "the input of %s is not finite", end_list(&list));
	if (first_time(told, DDL__TOLD_ODD))
		say(audit, call, note_of(notes, 0)->input_start, text);
}

static void tell_bits(struct ddl__audit *audit, const struct ddl__call *call, const struct notes *notes, int right, unsigned *told)
{
	struct list list = { .n = 0 };
	char text[640];
	if (list_differing(notes, right, &list) == 0)
		return;
	audit->differing++;
	snprintf(text, sizeof(text),
		 "the result of %s is not the same bits as that of the others; memory, a network card or a link is "
		 "damaged, or the buffer was written during the call",
		 end_list(&list));
	if (first_time(told, DDL__TOLD_BITS))
		say(audit, call, note_of(notes, 0)->start, text);
}

static void tell_result(struct ddl__audit *audit, const struct ddl__call *call, const struct notes *notes, unsigned *told)
{
	const struct ddl__note *right = note_of(notes, find_right(notes));
	const char *type = call->type == DDL_FLOAT64 ? "float64" : "float32";
	char text[256];
	audit->results++;
	tell_bits(audit, call, notes, (int)((size_t)(right - notes->first) / notes->stride), told);
	audit->most = fmax(audit->most, right->ulp.most);
	if (right->lost) {
		audit->lost++;
		snprintf(text, sizeof(text),
			 "%" PRIu64 " elements are finite numbers in %s but not in the result, or the other way", right->lost,
			 type);
		if (first_time(told, DDL__TOLD_LOST))
			say(audit, call, right->start, text);
	}
	snprintf(text, sizeof(text),
		 "against %s the largest error is %.3g ulp, the root of the mean square %.3g ulp, and %.2g of that of the result",
		 type, right->ulp.most, ddl__ulp_rms(&right->ulp), right->whole > 0 ? sqrt(right->wrong / right->whole) : 0);
	if (right->ulp.most > 0 && first_time(told, DDL__TOLD_ERROR))
		say(audit, call, right->start, text);
}

void ddl__audit_judge(struct ddl_comm *comm, const struct ddl__call *call, const struct ddl__note *all, size_t n, size_t at,
		      unsigned *told)
{
	struct ddl__audit *audit = comm->audit;
	const struct notes notes = { comm, all + at, n };
	if (comm->rank != 0)
		return;
	pthread_mutex_lock(&audit->lock);
	if (note_of(&notes, 0)->input_start)
		tell_input(audit, call, &notes, told);
	if (note_of(&notes, 0)->start)
		tell_result(audit, call, &notes, told);
	pthread_mutex_unlock(&audit->lock);
}

void ddl__audit_summary(struct ddl_comm *comm)
{
	const struct ddl__audit *audit = comm->audit;
	if (comm->rank == 0 && audit->requests)
		ddl__log(DDL__LOG_ASKED,
			 "check: %" PRIu64 " results compared: largest error %.3g ulp; not the same bits on all ranks: %" PRIu64
			 "; that lost numbers: %" PRIu64 "; inputs with NaN or infinity: %" PRIu64,
			 audit->results, audit->most, audit->differing, audit->lost, audit->odd);
}
