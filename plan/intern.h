/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intern.h - a set of names, each with a number: 0, 1, 2... in the order in which they came. Inside of plan/ only.
 */
#ifndef DDL_PLAN_INTERN_H
#define DDL_PLAN_INTERN_H

#include <stddef.h>

struct ddl__intern {     /* starts as all zero */
	char **names;    /* by number; owned */
	size_t n;        /* names */
	size_t capacity; /* of names */
	size_t *slots;   /* hash table with open addressing: number + 1, 0 free */
	size_t n_slots;  /* a power of two, at least twice n; 0 at first */
};

/* The number of a name (length bytes), which is added if it is new. Returns 0 or -ENOMEM. */
int ddl__intern_add(struct ddl__intern *set, const char *name, size_t length, size_t *number);

/* Frees what the set owns. */
void ddl__intern_fini(struct ddl__intern *set);

#endif
