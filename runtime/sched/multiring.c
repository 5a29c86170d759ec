/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multiring.c - all-reduce over dimensions: reduce-scatter along level 0, then level 1, ...; at the top an all-reduce of what is
 * left; then all-gather back. 2 * sum(p_i - 1) steps instead of 2(N - 1). Source: PowerAI DDL (Cho et al., 2017) and BlueConnect
 * (Cho et al., 2019), carried over to groups of unequal size.
 *
 * Uneven groups. After its reduce-scatter a group holds a partition of the data: intervals, each owned by one member. A group of
 * groups works on the common refinement of its members' partitions: every elementary interval has exactly one owner in each of
 * them, and these owners form a ring on that interval. So the pieces of the next partition are the chunks of these rings.
 * Intervals are kept on a grid of GRID units with many divisors, so that equal shapes give equal boundaries, and are scaled to
 * elements last.
 *
 * A rank's rings hang together as a tree: the chunk that it owns after one ring is cut into the intervals of the rings above it.
 * `rings` here are parts of the data, each with rings of its own.
 * Straight to the top (multidirect): there the owners do not form a ring, but send straight to each other, as in direct.c: n-1
 * lanes, lane d to the owner d further. On a wire that rounds only these lanes round, and the lower ones carry elements as they
 * are: each group's sum is rounded once and the result once. While a piece is gathered, the next is added, and the one after that
 * is sent.
 *
 * A ring has two lanes, down (reduce-scatter) and up (all-gather), so that while one piece is on level 1 the next is on level 0; a
 * top ring has one lane that does both. Waits: down on the ring below, up on all rings above.
 */
#include "groups.h"
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 8, STRAIGHT_SLOTS = 12, CHUNK_SLICES = 4, GRAIN = 16, PIECES = 4 };
enum { LAG = 3 }; /* pieces by which the results of a straight top are behind */
enum { SLICE_BYTES_MAX = 256 * 1024, SLICE_BYTES_MIN = 16 * 1024, CHUNK_BYTES_MIN = 8 * 1024 };

#define NONE UINT32_MAX
#define GRID (65536ull * 729 * 125 * 49 * 11 * 13 * 17 * 19) /* about 2^54 */

struct interval {            /* of a group's partition */
	uint64_t begin, end; /* grid units */
	int owner;           /* rank */
	uint32_t ring;       /* where the owner is this rank: its ring that made it; NONE: the input */
};

struct partition {
	struct interval *at; /* owned */
	size_t n, room;
};

struct ring {                /* one that this rank is in */
	uint32_t number;     /* of its first lane: the same on all its members */
	uint32_t lane;       /* index of that lane */
	uint32_t n_lanes;    /* how many */
	uint64_t begin, end; /* grid units */
	uint32_t n;          /* members, at least 2 */
	uint32_t position;   /* this rank's place */
	int before, after;   /* ranks */
	uint32_t below;      /* ring whose chunk holds the interval; NONE: the input */
	bool top;            /* does both halves */
	int *ranks;          /* of a straight top: its members; owned; else NULL */
	uint32_t *ends;      /* last step of each piece in each lane [piece * n_lanes + lane]; NONE: none; owned */
};

struct maker {
	const struct ddl__build *build;
	struct ring *rings; /* this rank's, the lower before the upper */
	uint32_t n, room;
	bool straight;      /* at the top */
	uint32_t numbers;   /* lanes of all ranks so far */
	uint32_t lanes;     /* this rank's so far */
	uint64_t chunk_max; /* longest chunk of any of them, grid units */
	struct ddl__schedule *schedule;
	uint64_t begin, count, grain; /* of the current piece, elements */
	uint64_t piece, pieces;       /* which one it is, of how many */
};

static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

static int append(struct partition *p, struct interval interval)
{
	if (interval.begin == interval.end)
		return 0;
	if (p->n == p->room) {
		size_t room = p->room ? p->room * 2 : 8;
		struct interval *more = realloc(p->at, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		p->at = more;
		p->room = room;
	}
	p->at[p->n++] = interval;
	return 0;
}

/* Remembers a ring if this rank is one of its members; *mine: its index, NONE if not. */
static int add_ring(struct maker *m, const struct interval *owners, uint32_t n, uint64_t begin, uint64_t end, bool top,
		    uint32_t *mine)
{
	const bool straight = top && m->straight;
	uint32_t number = m->numbers, position = 0, n_lanes = straight ? n - 1 : 2;
	m->numbers += n_lanes;
	*mine = NONE;
	m->chunk_max = (end - begin + n - 1) / n > m->chunk_max ? (end - begin + n - 1) / n : m->chunk_max;
	while (position < n && owners[position].owner != m->build->rank)
		position++;
	if (position == n)
		return 0;
	if (m->n == m->room) {
		uint32_t room = m->room ? m->room * 2 : 8;
		struct ring *more = realloc(m->rings, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		m->rings = more;
		m->room = room;
	}
	int *ranks = straight ? calloc(n, sizeof(*ranks)) : NULL;
	if (straight && !ranks)
		return -ENOMEM;
	for (uint32_t i = 0; straight && i < n; i++)
		ranks[i] = owners[i].owner;
	m->rings[m->n] = (struct ring){ .number = number,
					.lane = m->lanes,
					.n_lanes = n_lanes,
					.ranks = ranks,
					.begin = begin,
					.end = end,
					.n = n,
					.position = position,
					.before = owners[(position + n - 1) % n].owner,
					.after = owners[(position + 1) % n].owner,
					.below = owners[position].ring,
					.top = top };
	m->lanes += n_lanes;
	*mine = m->n++;
	return 0;
}

/* One elementary interval: its ring, and the chunks that become intervals of the group's partition. */
static int close_interval(struct maker *m, const struct interval *owners, uint32_t n, uint64_t begin, uint64_t end, bool top,
			  struct partition *result)
{
	uint32_t mine;
	int rc = add_ring(m, owners, n, begin, end, top, &mine);
	/* chunk c ends at position c-1: in the order of the data that is position n-1, 0, 1, ... */
	for (uint32_t c = 0; rc == 0 && !top && c < n; c++) {
		uint32_t position = (c + n - 1) % n;
		struct interval chunk = { begin + scale(end - begin, c, n), begin + scale(end - begin, c + 1, n),
					  owners[position].owner, owners[position].owner == m->build->rank ? mine : NONE };
		rc = append(result, chunk);
	}
	return rc;
}

/* The partition of a group after its reduce-scatter. top: the rings of this group do the whole all-reduce. */
static int divide(struct maker *m, const struct ddl__group *group, bool top, struct partition *result)
{
	uint32_t n = group->n;
	if (n == 0)
		return append(result, (struct interval){ 0, GRID, group->rank, NONE });
	struct partition *parts = calloc(n, sizeof(*parts));
	size_t *at = calloc(n, sizeof(*at));
	struct interval *owners = calloc(n, sizeof(*owners));
	int rc = parts && at && owners ? 0 : -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = divide(m, group->children[i], false, &parts[i]);
	for (uint64_t begin = 0; rc == 0 && begin < GRID;) {
		uint64_t end = GRID;
		for (uint32_t i = 0; i < n; i++) {
			owners[i] = parts[i].at[at[i]];
			end = owners[i].end < end ? owners[i].end : end;
		}
		rc = close_interval(m, owners, n, begin, end, top, result);
		for (uint32_t i = 0; i < n; i++)
			at[i] += parts[i].at[at[i]].end == end;
		begin = end;
	}
	for (uint32_t i = 0; parts && i < n; i++)
		free(parts[i].at);
	free(parts);
	free(at);
	free(owners);
	return rc;
}

/* ---- steps ---- */

/* The element at which a grid position lies in the current piece. */
static uint64_t element(const struct maker *m, uint64_t position)
{
	uint64_t x = scale(position, m->count, GRID);
	return m->begin + (position == GRID ? m->count : x / m->grain * m->grain);
}

static void chunk_of(const struct maker *m, const struct ring *ring, uint32_t chunk, uint64_t *begin, uint64_t *count)
{
	uint64_t length = ring->end - ring->begin;
	*begin = element(m, ring->begin + scale(length, chunk, ring->n));
	*count = element(m, ring->begin + scale(length, chunk + 1, ring->n)) - *begin;
}

static struct ddl__steps *lane_of(const struct maker *m, const struct ring *ring, bool up)
{
	return &m->schedule->lanes[ring->lane + (up && !ring->top)];
}

/* The last step of the current piece in lane l of a ring. */
static uint32_t *end_of(const struct maker *m, const struct ring *ring, uint32_t l)
{
	return &ring->ends[m->piece * ring->n_lanes + l];
}

/* A step waits for the current piece in a lane of a ring, if it has any steps there. */
static void wait_for(struct ddl__step *step, const struct maker *m, const struct ring *ring, uint32_t l)
{
	const uint32_t end = *end_of(m, ring, l);
	step->wait_lane = end == NONE ? DDL__NO_WAIT : ring->lane + l;
	step->wait_step = end;
}

static void set_piece(struct maker *m, uint64_t piece)
{
	m->piece = piece;
	ddl__split(m->build->count, m->pieces, piece, m->grain, &m->begin, &m->count);
}

/* Adds the steps of ring order k = from ... to: step k concerns chunk position-k. */
static uint32_t add_steps(const struct maker *m, const struct ring *ring, struct ddl__steps *lane, uint32_t from, uint32_t to,
			  bool gather_only)
{
	uint32_t n = ring->n, first = NONE;
	enum ddl__buffer src = ring->below == NONE && !gather_only ? DDL__INPUT : DDL__OUTPUT;
	for (uint32_t k = from; k <= to; k++) {
		bool store = k == n - 1, last = k == 2 * (n - 1);
		enum ddl__step_kind kind = k == 0                 ? DDL__SEND
					   : k < n - 1            ? DDL__RECV_REDUCE_SEND
					   : store && gather_only ? DDL__SEND
					   : store && ring->top   ? DDL__RECV_REDUCE_STORE_SEND
					   : store                ? DDL__RECV_REDUCE
					   : last                 ? DDL__RECV
								  : DDL__RECV_STORE_SEND;
		uint64_t begin, count;
		chunk_of(m, ring, (ring->position + 2 * n - k) % n, &begin, &count);
		if (count == 0)
			continue;
		first = first == NONE ? lane->n : first;
		struct ddl__step *step = ddl__schedule_add(lane, kind, src, begin, DDL__OUTPUT, begin, count);
		step->final = kind == DDL__RECV_REDUCE_STORE_SEND;
		/* What is given away comes back complete, so after it was read; what is complete replaces what was read. */
		step->lend = kind == DDL__SEND;
		step->place = k >= n - 1 && !last && kind != DDL__RECV_REDUCE;
	}
	return first;
}

/* Reduce-scatter of the current piece; at the top all of it. */
static void go_down(struct maker *m, struct ring *ring)
{
	struct ddl__steps *lane = lane_of(m, ring, false);
	uint32_t first = add_steps(m, ring, lane, 0, ring->top ? 2 * (ring->n - 1) : ring->n - 1, false);
	*end_of(m, ring, 0) = first == NONE ? NONE : lane->n - 1;
	*end_of(m, ring, 1) = NONE;
	if (first != NONE && ring->below != NONE)
		wait_for(&lane->steps[first], m, &m->rings[ring->below], 0);
}

/* A step without elements, to wait for lane l of another ring. */
static void add_wait(struct maker *m, struct ddl__steps *lane, const struct ring *ring, uint32_t l)
{
	if (*end_of(m, ring, l) != NONE)
		wait_for(ddl__schedule_add(lane, DDL__COPY, DDL__OUTPUT, 0, DDL__OUTPUT, 0, 0), m, ring, l);
}

/* All-gather of the current piece: when all rings above are through, or the own reduce-scatter where there is none. */
static void go_up(struct maker *m, struct ring *ring)
{
	struct ddl__steps *lane = lane_of(m, ring, true);
	const uint32_t before = lane->n;
	if (ring->top || *end_of(m, ring, 0) == NONE)
		return;
	for (uint32_t r = (uint32_t)(ring - m->rings) + 1; r < m->n; r++) {
		const struct ring *above = &m->rings[r];
		const bool is_above = above->below == (uint32_t)(ring - m->rings);
		const uint32_t first = above->top ? 0 : 1, end = above->top && !above->ranks ? 1 : above->n_lanes;
		for (uint32_t l = first; is_above && l < end; l++)
			add_wait(m, lane, above, l);
	}
	if (lane->n == before)
		add_wait(m, lane, ring, 0);
	add_steps(m, ring, lane, ring->n - 1, 2 * (ring->n - 1), true);
	*end_of(m, ring, 1) = lane->n - 1;
}

/* ---- a straight top ---- */

enum role { SEND, REDUCE, GIVE, TAKE }; /* in the order in which they follow each other, each a piece behind the last */

/* Adds a step of lane d-1, to or from the owner d further; returns it, NULL: the chunk of that member is empty. */
static struct ddl__step *add_straight(struct maker *m, const struct ring *ring, uint32_t d, enum ddl__step_kind kind,
				      uint32_t member, bool input)
{
	struct ddl__steps *lane = &m->schedule->lanes[ring->lane + d - 1];
	const enum ddl__buffer src = input && ring->below == NONE ? DDL__INPUT : DDL__OUTPUT;
	uint64_t begin, count;
	chunk_of(m, ring, member % ring->n, &begin, &count);
	if (count == 0)
		return NULL;
	*end_of(m, ring, d - 1) = lane->n;
	return ddl__schedule_add(lane, kind, src, begin, DDL__OUTPUT, begin, count);
}

/* The steps of a role for the current piece. */
static void go_straight(struct maker *m, struct ring *ring, enum role role)
{
	const uint32_t n = ring->n, me = ring->position;
	for (uint32_t d = 1; d < n; d++) {
		struct ddl__step *step = NULL;
		switch (role) {
		case SEND:
			*end_of(m, ring, d - 1) = NONE;
			step = add_straight(m, ring, d, DDL__SEND, me + d, true);
			break;
		case REDUCE:
			step = add_straight(m, ring, d, DDL__RECV_REDUCE, me, d == 1);
			break;
		case GIVE:
			step = add_straight(m, ring, d, d == 1 ? DDL__SEND_STORE : DDL__SEND, me, false);
			break;
		case TAKE: /* behind what was sent from there: the lane that sends to that member is n-d */
			step = add_straight(m, ring, d, DDL__RECV, me + n - d, false);
			break;
		}
		if (!step)
			continue;
		step->final = role == REDUCE && d == n - 1;
		if (ring->below != NONE && (role == SEND || (role == REDUCE && d == 1)))
			wait_for(step, m, &m->rings[ring->below], 0);
		else if (role == REDUCE && d > 1)
			wait_for(step, m, ring, d - 2);
		else if (role == GIVE && n > 2)
			wait_for(step, m, ring, d == 1 ? n - 2 : 0);
		else if (role == TAKE && 2 * d != n)
			wait_for(step, m, ring, n - d - 1);
	}
}

/* Elements of the longest chunk of any rank in a piece of `count` elements. */
static uint64_t longest_chunk(const struct maker *m, uint64_t count)
{
	return scale(m->chunk_max, count, GRID) + 1 + m->grain;
}

/* How many pieces, so that no chunk exceeds half of the slots, and levels overlap where the message is long enough. */
static uint64_t choose_pieces(const struct maker *m, uint64_t slice_max)
{
	const struct ddl__build *b = m->build;
	uint64_t room = slice_max * CHUNK_SLICES, pieces = (longest_chunk(m, b->count) + room - 1) / room;
	uint64_t bytes = b->count * b->wire_bytes / (uint64_t)b->layout->n_ranks;
	while (pieces < PIECES && bytes / (pieces * 2) >= CHUNK_BYTES_MIN)
		pieces *= 2;
	return pieces;
}

static int reserve_lanes(struct maker *m, uint64_t pieces)
{
	for (uint32_t r = 0; r < m->n; r++) {
		struct ring *ring = &m->rings[r];
		uint64_t above = 0;
		ring->ends = calloc(pieces * ring->n_lanes, sizeof(*ring->ends));
		if (!ring->ends)
			return -ENOMEM;
		for (uint32_t q = r + 1; q < m->n; q++)
			above += m->rings[q].below == r ? m->rings[q].n_lanes : 0;
		for (uint32_t l = 0; l < ring->n_lanes; l++) {
			struct ddl__steps *lane = &m->schedule->lanes[ring->lane + l];
			lane->number = ring->number + l;
			lane->native = m->straight && !ring->top;
			if (l && ring->top && !ring->ranks)
				continue;
			lane->recv_peer = ring->ranks ? ring->ranks[(ring->position + ring->n - l - 1) % ring->n] : ring->before;
			lane->send_peer = ring->ranks ? ring->ranks[(ring->position + l + 1) % ring->n] : ring->after;
			uint64_t steps = ring->ranks ? 4 : ring->top ? 2 * (uint64_t)ring->n : ring->n + above + 1;
			int rc = ddl__schedule_reserve(lane, pieces * steps);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

/* The steps that stand at index i of each lane's pieces: those of piece i, and of a straight top also those of pieces before it. */
static void emit_pieces(struct maker *m, uint64_t i)
{
	const uint64_t lag = m->straight ? LAG : 0;
	for (uint32_t r = 0; r < m->n; r++) {
		struct ring *ring = &m->rings[r];
		for (uint64_t role = SEND; ring->ranks && role <= TAKE; role++) {
			if (i < role || i - role >= m->pieces)
				continue;
			set_piece(m, i - role);
			go_straight(m, ring, (enum role)role);
		}
		if (ring->ranks || i >= m->pieces)
			continue;
		set_piece(m, i);
		go_down(m, ring);
	}
	if (i < lag)
		return;
	set_piece(m, i - lag);
	for (uint32_t r = m->n; r-- > 0;)
		go_up(m, &m->rings[r]);
}

static int emit(struct maker *m)
{
	const struct ddl__build *b = m->build;
	const uint64_t bytes = m->straight && b->rounds ? sizeof(float) : b->wire_bytes; /* of an element in the longest slices */
	uint64_t max = (b->slice_bytes ? b->slice_bytes : SLICE_BYTES_MAX) / bytes, min = SLICE_BYTES_MIN / bytes;
	max = max ? max : 1;
	min = min < max ? min : max;
	m->grain = ddl__grain(b, b->count >= (uint64_t)b->layout->n_ranks * GRAIN * 16 ? GRAIN : 1);
	m->pieces = choose_pieces(m, max);
	uint64_t largest, none;
	int rc = reserve_lanes(m, m->pieces);
	if (rc < 0)
		return rc;
	ddl__split(b->count, m->pieces, 0, m->grain, &none, &largest); /* the first piece is the largest */
	uint64_t slice = (longest_chunk(m, largest) + CHUNK_SLICES - 1) / CHUNK_SLICES;
	m->schedule->slots = m->straight ? STRAIGHT_SLOTS : SLOTS;
	m->schedule->slice_elements = ddl__whole_blocks(b, slice > min ? slice : min);
	for (uint64_t i = 0; i < m->pieces + (m->straight ? LAG : 0); i++)
		emit_pieces(m, i);
	return 0;
}

/* One part: all rings of it. */
static int build_part(const struct ddl__build *build, bool straight, struct ddl__schedule **schedule)
{
	struct maker m = { .build = build, .straight = straight };
	struct ddl__group *root = NULL;
	struct partition none = { 0 };
	int rc = build->n_dims ? ddl__groups_from_dims(build->layout, 0, build->dims, build->n_dims, &root)
			       : ddl__groups_from_layout(build->layout, 0, &root);
	rc = rc ? rc : divide(&m, root, true, &none);
	rc = rc ? rc : ddl__schedule_create(m.lanes, &m.schedule);
	rc = rc ? rc : emit(&m);
	free(none.at);
	for (uint32_t r = 0; r < m.n; r++) {
		free(m.rings[r].ranks);
		free(m.rings[r].ends);
	}
	free(m.rings);
	ddl__groups_destroy(root);
	if (rc < 0) {
		ddl__schedule_destroy(m.schedule);
		return rc;
	}
	*schedule = m.schedule;
	return 0;
}

static int build_rings(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_part(build, false, schedule);
}

static int build_straight(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	return build_part(build, true, schedule);
}

int ddl__build_multiring(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	if (build->layout->n_ranks == 1 || build->count == 0)
		return ddl__build_ring(build, schedule);
	return ddl__build_parts(build, build_rings, schedule);
}

/* Whether the ranks form groups of groups. */
static int has_levels(const struct ddl__build *build, bool *levels)
{
	struct ddl__group *root = NULL;
	int rc = build->n_dims ? ddl__groups_from_dims(build->layout, 0, build->dims, build->n_dims, &root)
			       : ddl__groups_from_layout(build->layout, 0, &root);
	*levels = false;
	for (uint32_t i = 0; rc == 0 && i < root->n; i++)
		*levels |= root->children[i]->n > 0;
	ddl__groups_destroy(root);
	return rc;
}

int ddl__build_multidirect(const struct ddl__build *build, struct ddl__schedule **schedule)
{
	bool levels;
	int rc = has_levels(build, &levels);
	if (rc < 0 || !levels || build->count == 0)
		return rc ? rc : ddl__build_direct(build, schedule);
	return ddl__build_parts(build, build_straight, schedule);
}
