/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cube.c - the first 2 * extras positions of the ring are pairs: extra, member, extra, member, ...; the others are members.
 */
#include "cube.h"

#include <errno.h>
#include <stdlib.h>

int ddl__cube_init(const struct ddl__layout *layout, int rank, struct ddl__cube *cube)
{
	uint32_t n = (uint32_t)layout->n_ranks, position = 0;
	*cube = (struct ddl__cube){ .order = calloc(n, sizeof(*cube->order)), .n = 1 };
	if (!cube->order)
		return -ENOMEM;
	ddl__layout_order(layout, 0, cube->order);
	while (cube->order[position] != rank)
		position++;
	while (cube->n <= n / 2) {
		cube->n *= 2;
		cube->rounds++;
	}
	cube->extras = n - cube->n;
	cube->extra = position < 2 * cube->extras && position % 2 == 0;
	cube->member = position < 2 * cube->extras ? position / 2 : position - cube->extras;
	return 0;
}

void ddl__cube_fini(struct ddl__cube *cube)
{
	free(cube->order);
}

int ddl__cube_rank(const struct ddl__cube *cube, uint32_t member)
{
	return cube->order[member < cube->extras ? 2 * member + 1 : member + cube->extras];
}

int ddl__cube_extra(const struct ddl__cube *cube, uint32_t member)
{
	return member < cube->extras ? cube->order[2 * member] : -1;
}
