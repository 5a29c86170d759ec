/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - see pace.h. */
#include "pace.h"

enum {
	SPIN_NS = 20000,
	OFFER_NS = 50000,
	SWITCH_NS = 700,  /* an offer that lasts longer was taken: the call alone takes half of that */
	LATE_NS = 500000, /* it was taken by somebody who computes */
	LATE_FACTOR =
		1, /* for so many times as long no offers are made: what they may cost in the worst case is half of the time */
	CROWD_MAX = 16,
	CROWD_TAKEN = 4, /* one that was taken counts for so many that were not */
	PATIENCE_MAX = 16,
	SOON_NS = 50000, /* a sleep that lasts longer would have been a long spin */
};

void ddl__pace_init(struct ddl__pace *pace, bool crowded)
{
	pace->spin_ns = SPIN_NS;
	pace->offer_ns = OFFER_NS;
	atomic_store_explicit(&pace->crowd, crowded ? CROWD_MAX : 0, memory_order_relaxed);
	atomic_store_explicit(&pace->patience, PATIENCE_MAX, memory_order_relaxed);
	atomic_store_explicit(&pace->until_ns, 0, memory_order_relaxed);
}

/* Adds to a hint that lies between 0 and max. Threads may overwrite each other's. */
static void adjust(atomic_int *hint, int by, int max)
{
	int value = atomic_load_explicit(hint, memory_order_relaxed) + by;

	atomic_store_explicit(hint, value < 0 ? 0 : value > max ? max : value, memory_order_relaxed);
}

bool ddl__pace_crowded(const struct ddl__pace *pace)
{
	return atomic_load_explicit(&pace->crowd, memory_order_relaxed) >= CROWD_MAX / 2;
}

enum ddl__rest ddl__pace_next(const struct ddl__pace *pace, uint64_t now_ns, uint64_t idle_ns)
{
	uint64_t spin_ns = ddl__pace_crowded(pace) ? 0 : pace->spin_ns;

	if (atomic_load_explicit(&pace->patience, memory_order_relaxed) < PATIENCE_MAX / 2)
		return DDL__REST_SLEEP;
	if (idle_ns < spin_ns)
		return DDL__REST_SPIN;
	if (idle_ns - spin_ns < pace->offer_ns && now_ns >= atomic_load_explicit(&pace->until_ns, memory_order_relaxed))
		return DDL__REST_OFFER;
	return DDL__REST_SLEEP;
}

void ddl__pace_paid(struct ddl__pace *pace)
{
	adjust(&pace->patience, 1, PATIENCE_MAX);
}

void ddl__pace_slept(struct ddl__pace *pace, uint64_t lasted_ns)
{
	adjust(&pace->patience, lasted_ns < SOON_NS ? 1 : -1, PATIENCE_MAX);
}

void ddl__pace_learn(struct ddl__pace *pace, uint64_t now_ns, uint64_t lasted_ns)
{
	if (lasted_ns >= LATE_NS)
		atomic_store_explicit(&pace->until_ns, now_ns + (LATE_FACTOR + 1) * lasted_ns, memory_order_relaxed);
	adjust(&pace->crowd, lasted_ns >= SWITCH_NS ? CROWD_TAKEN : -1, CROWD_MAX);
}
