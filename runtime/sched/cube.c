/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cube.c - the first 2 * extras positions of the ring are pairs: extra, member, extra, member, ...; the others are members.
 */
#include "cube.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 8, STEP_SLICES = SLOTS / 2 };

static int cube_init(const struct ddl__layout *layout, int rank, struct ddl__cube *cube)
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

static void cube_fini(struct ddl__cube *cube)
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

int ddl__cube_build(const struct ddl__build *build, const struct ddl__cube_algorithm *algorithm, struct ddl__schedule **schedule)
{
	struct ddl__cube_maker m = { 0 };
	if (build->layout->n_ranks == 1 || build->count == 0)
		return ddl__build_ring(build, schedule);
	int rc = cube_init(build->layout, build->rank, &m.cube);
	if (rc < 0)
		return rc;
	struct ddl__schedule *s;
	rc = ddl__schedule_create(algorithm->lanes(&m.cube), &s);
	if (rc < 0)
		goto fini_cube;
	struct ddl__pieces pieces = ddl__pieces_choose(build, algorithm->in_chunks ? m.cube.n : 1, algorithm->slice_bytes);
	m.stages.schedule = s;
	m.stages.room = pieces.slice * STEP_SLICES;
	m.grain = pieces.grain;
	s->slots = SLOTS;
	s->slice_elements = pieces.slice;
	algorithm->set_peers(&m);
	for (uint64_t p = 0; p < pieces.n; p++) {
		ddl__split(build->count, pieces.n, p, pieces.grain, &m.begin, &m.count);
		ddl__stages_begin(&m.stages);
		if (m.cube.extra)
			algorithm->add_extra_piece(&m);
		else
			algorithm->add_member_piece(&m);
	}
	rc = m.stages.rc;
	if (rc < 0)
		ddl__schedule_destroy(s);
	else
		*schedule = s;
fini_cube:
	cube_fini(&m.cube);
	return rc;
}
