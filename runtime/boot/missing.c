/* SPDX-License-Identifier: Apache-2.0 */
/*
 * missing.c - see missing.h.
 */
#include "missing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

void ddl__missing_add(struct ddl__missing *missing, int rank)
{
	size_t used = strlen(missing->list);

	if (missing->n < DDL__MISSING_MAX)
		snprintf(missing->list + used, sizeof(missing->list) - used, "%s%d", missing->n ? ", " : "", rank);
	else if (missing->n == DDL__MISSING_MAX)
		snprintf(missing->list + used, sizeof(missing->list) - used, " and more");
	missing->n++;
}

int ddl__missing_tell(const struct ddl__missing *missing, int n_ranks, const char *over, int timeout_ms, struct ddl_error *err)
{
	return ddl__error_set(err, -ETIMEDOUT,
			      "%s %s of %d never came to the exchange over %s within %d ms: look at why %s did not start, or raise "
			      "DDL_TIMEOUT",
			      missing->n == 1 ? "rank" : "ranks", missing->list, n_ranks, over, timeout_ms,
			      missing->n == 1 ? "it" : "they");
}
