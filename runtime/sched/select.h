/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - the table of what can carry out a collective, and the choice. The choice uses facts that all ranks agree on, only.
 */
#ifndef DDL_SCHED_SELECT_H
#define DDL_SCHED_SELECT_H

#include <ddl/error.h>

#include "cost.h"
#include "schedule.h"

#define DDL__CANDIDATES_MAX      32 /* what is compared for one message size */
#define DDL__CANDIDATE_TEXT_SIZE 64 /* bytes of a candidate's name with its dimensions, NUL included */
#define DDL__CANDIDATE_DIMS      8  /* dimensions that a candidate may have of its own */

struct ddl__algorithm {
	uint32_t id;                     /* in struct ddl__call; never renumbered */
	enum ddl__collective collective; /* what it carries out */
	const char *name;                /* the spelling of DDL_ALGO and `ddl info` */
	const char *description;         /* one line for people */
	int (*build)(const struct ddl__build *build, struct ddl__schedule **schedule);
	/* Predicted time in microseconds of so many bytes on the wire; NULL: never chosen by cost. */
	double (*cost)(const struct ddl__model *model, double bytes);
};

/* All algorithms, ended by a row whose name is NULL. */
extern const struct ddl__algorithm ddl__algorithms[];

struct ddl__candidate { /* an algorithm, and of multiring the dimensions: "ring", "multiring", "multiring:4x8x8" */
	const struct ddl__algorithm *algorithm;
	uint32_t dims[DDL__CANDIDATE_DIMS]; /* the innermost first */
	uint32_t n_dims;                    /* 0: those of the plan's options, else of its tree */
};

struct ddl__need {     /* what a choice must keep; all false: anything goes */
	bool rounds;   /* elements travel in fewer bits than they have in memory */
	bool narrow;   /* they have 16 bits in memory: partial results there are rounded */
	bool flat;     /* each contribution may be rounded once, and the result once */
	bool in_order; /* contributions are to be reduced in the order of ranks */
	bool ring;     /* where the wire rounds only `ring` will do: others carry blocks in changing company */
};

/* Whether an algorithm keeps what is needed, however its schedule is cut. */
bool ddl__algorithm_keeps(const struct ddl__algorithm *algorithm, const struct ddl__need *need, uint32_t n_ranks);

/* The names of those of a collective that do: "direct, exchange"; "none". Writes size bytes at most, returns list. */
const char *ddl__algorithms_keeping(enum ddl__collective collective, const struct ddl__need *need, uint32_t n_ranks, char *list,
				    size_t size);

/* "all-reduce", "broadcast", "barrier". Static. */
const char *ddl__collective_name(enum ddl__collective collective);

/* Whether dimensions may follow its name. */
bool ddl__takes_dims(const struct ddl__algorithm *algorithm);

/* The name of an id; "unknown algorithm" for none of the table's. Static. */
const char *ddl__algorithm_name(uint32_t id);

/*
 * Finds by the name, with dimensions or without; NULL: the first of the collective. Returns 0; -EOPNOTSUPP (no such algorithm for
 * this collective: the sentence lists those that exist); -EINVAL (dimensions that are none, or of another algorithm than
 * multiring and multidirect).
 */
int ddl__select(enum ddl__collective collective, const char *wanted, struct ddl__candidate *candidate, struct ddl_error *err);

/*
 * Whether dimensions make up so many ranks; none always do. Returns 0; -EINVAL with a sentence that tells the factors of the number
 * of ranks.
 */
int ddl__dims_check(const uint32_t *dims, uint32_t n, int n_ranks, struct ddl_error *err);

/* Its name; text: DDL__CANDIDATE_TEXT_SIZE bytes. Returns text. */
char *ddl__candidate_text(const struct ddl__candidate *candidate, char *text);

/* The ranks that dimensions make up, their product; UINT64_MAX: more than that. */
uint64_t ddl__dims_ranks(const uint32_t *dims, uint32_t n);

bool ddl__candidate_same(const struct ddl__candidate *a, const struct ddl__candidate *b);

/* Its schedule: multiring's dimensions are the candidate's own, else those of the plan's options. Sets build's. */
int ddl__candidate_build(const struct ddl__candidate *candidate, struct ddl__build *build, struct ddl__schedule **schedule);

/* Predicted time in microseconds; 0 where the algorithm has no cost. */
double ddl__candidate_cost(const struct ddl__candidate *candidate, const struct ddl__model *model, double bytes);

/*
 * What could carry out a collective of so many bytes on the wire: every algorithm of the table that has a cost and keeps what is
 * needed (multidirect only where the wire rounds, the chain only where the order of ranks is needed), and multiring and multidirect
 * with the most promising of the dimensions that the ranks can be split into. By predicted time, the least first. candidates: room
 * for DDL__CANDIDATES_MAX. Returns how many.
 */
size_t ddl__candidates(enum ddl__collective collective, const struct ddl__model *model, double bytes, const struct ddl__need *need,
		       struct ddl__candidate *candidates);

/* What the plan's options say of all-reduce: "ring" for --ddl=ring, "multiring" where dims are given; NULL: a free choice. */
const char *ddl__select_wanted(const struct ddl__options *options);

/*
 * The candidate of the least predicted time for so many bytes on the wire; the first of the collective where none has a cost or
 * none is clearly faster than it.
 */
struct ddl__candidate ddl__select_cheapest(enum ddl__collective collective, const struct ddl__model *model, double bytes);

/* The same among those that keep what is needed. -ENOENT: none does. */
int ddl__select_keeping(enum ddl__collective collective, const struct ddl__model *model, double bytes, const struct ddl__need *need,
			struct ddl__candidate *candidate);

#endif
