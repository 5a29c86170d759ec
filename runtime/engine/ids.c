/* SPDX-License-Identifier: Apache-2.0 */
/* ids.c - see ids.h. */
#include "ids.h"

#include <errno.h>
#include <stdlib.h>

#include "engine.h"

enum { ROOM_MIN = 64 };

/* The first row with at least that id. */
static uint32_t search(const struct ddl__ids *ids, uint32_t id)
{
	uint32_t low = 0, high = ids->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ids->rows[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Empty rows go; those left stay in order. */
static void squeeze(struct ddl__ids *ids)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ids->n; i++)
		if (ids->rows[i].request)
			ids->rows[kept++] = ids->rows[i];
	ids->n = kept;
}

static int make_room(struct ddl__ids *ids)
{
	uint32_t room = ids->room ? ids->room * 2 : ROOM_MIN;
	struct ddl__ids_row *more;

	if (ids->n < ids->room)
		return 0;
	if (ids->live <= ids->n / 2 && ids->n) {
		squeeze(ids);
		return 0;
	}
	more = realloc(ids->rows, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	ids->rows = more;
	ids->room = room;
	return 0;
}

int ddl__ids_enter(struct ddl__ids *ids, struct ddl_request *request)
{
	int rc = ids->created == DDL__IDS_MAX ? -EOVERFLOW : make_room(ids);

	if (rc < 0)
		return rc;
	request->id = ids->created++;
	ids->rows[ids->n++] = (struct ddl__ids_row){ request, request->id };
	ids->live++;
	return 0;
}

void ddl__ids_leave(struct ddl__ids *ids, const struct ddl_request *request)
{
	uint32_t i = search(ids, request->id);

	if (i == ids->n || ids->rows[i].request != request)
		return;
	ids->rows[i].request = NULL;
	ids->live--;
	while (ids->n && !ids->rows[ids->n - 1].request)
		ids->n--;
}

bool ddl__ids_find(const struct ddl__ids *ids, uint32_t id, struct ddl_request **request)
{
	uint32_t i;

	if (id >= ids->created)
		return false;
	i = search(ids, id);
	*request = i < ids->n && ids->rows[i].id == id ? ids->rows[i].request : NULL;
	return true;
}

void ddl__ids_fini(struct ddl__ids *ids)
{
	free(ids->rows);
	*ids = (struct ddl__ids){ 0 };
}
