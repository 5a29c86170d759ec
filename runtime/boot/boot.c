/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.c - the table of the bootstraps, and the choice among them.
 *
 * The first member whose probe says yes is taken, and its failure is final: a job whose PMIx is broken must not become as many
 * lonely processes. Where even self declines (a step of several tasks without PMIx), the error says what each member saw.
 */
#include <errno.h>
#include <stdio.h>

#include "boot.h"
#include "error.h"

int ddl__boot_open(const struct ddl_comm_options *options, int timeout_ms, struct ddl__boot **boot, struct ddl_error *err)
{
	char why[256], all[DDL_ERROR_TEXT_SIZE - 32] = "";
	size_t used = 0;

	for (const struct ddl__boot_ops *const *ops = ddl__boots; *ops; ops++) {
		why[0] = '\0';
		if ((*ops)->probe(options, why, sizeof(why)))
			return (*ops)->open(options, timeout_ms, boot, err);
		if (used < sizeof(all)) {
			int n = snprintf(all + used, sizeof(all) - used, "%s%s: %s", used ? "; " : "", (*ops)->name, why);
			used += n > 0 ? (size_t)n : 0;
		}
	}
	return ddl__error_set(err, -EOPNOTSUPP, "the ranks cannot find each other (%s)", all);
}

const struct ddl__boot_ops *const ddl__boots[] = { &ddl__boot_store, &ddl__boot_pmix, &ddl__boot_self, NULL };
