/* SPDX-License-Identifier: Apache-2.0 */
/*
 * too_long.c - linked into a second copy of the plugin with --wrap=ddl__plan_encode: every plan is too long, as with many
 * thousand nodes of irregular names, which no test cluster has.
 */
#include <errno.h>

#include "error.h"
#include "plan.h"

int __wrap_ddl__plan_encode(const struct ddl__plan *plan, char **text, struct ddl_error *err);

int __wrap_ddl__plan_encode(const struct ddl__plan *plan, char **text, struct ddl_error *err)
{
	return ddl__error_set(err, -E2BIG, "the plan has 123456 bytes; at most %u are possible", DDL__PLAN_TEXT_MAX);
}
