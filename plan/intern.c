/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intern.c - a set of names with numbers, by hashing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "intern.h"
#include "plan.h"

/* The slot of a name: where it is, or the free one where it belongs. */
static size_t find_slot(const struct ddl__intern *set, const char *name, size_t length)
{
	size_t slot = (size_t)ddl__plan_digest(name, length) & (set->n_slots - 1);
	const char *there;

	for (; set->slots[slot]; slot = (slot + 1) & (set->n_slots - 1)) {
		there = set->names[set->slots[slot] - 1];
		if (!strncmp(there, name, length) && !there[length])
			break;
	}
	return slot;
}

static int grow(struct ddl__intern *set)
{
	size_t i, n_slots = set->n_slots ? 2 * set->n_slots : 64, *slots;
	char **names;

	if (set->n == set->capacity) {
		names = realloc(set->names, (n_slots / 2) * sizeof(*names));
		if (!names)
			return -ENOMEM;
		set->names = names;
		set->capacity = n_slots / 2;
	}
	if (2 * (set->n + 1) <= set->n_slots)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(set->slots);
	set->slots = slots;
	set->n_slots = n_slots;
	for (i = 0; i < set->n; i++)
		set->slots[find_slot(set, set->names[i], strlen(set->names[i]))] = i + 1;
	return 0;
}

int ddl__intern_add(struct ddl__intern *set, const char *name, size_t length, size_t *number)
{
	size_t slot;
	char *copy;

	if (set->n_slots) {
		slot = find_slot(set, name, length);
		if (set->slots[slot]) {
			*number = set->slots[slot] - 1;
			return 0;
		}
	}
	if (grow(set) < 0)
		return -ENOMEM;
	copy = malloc(length + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, length);
	copy[length] = '\0';
	set->names[set->n] = copy;
	slot = find_slot(set, name, length);
	set->slots[slot] = ++set->n;
	*number = set->n - 1;
	return 0;
}

void ddl__intern_fini(struct ddl__intern *set)
{
	size_t i;

	for (i = 0; i < set->n; i++)
		free(set->names[i]);
	free(set->names);
	free(set->slots);
}
