/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_absent.c - transport/verbs where this was built without the header of libibverbs: it is listed, and says so. */
#include <stdio.h>

#include "error.h"
#include "transport.h"

#define WHY "this DDL was built without rdma-core (DDL_VERBS)"

static int absent_probe(char *why, size_t size)
{
	snprintf(why, size, WHY);
	return 0;
}

static int absent_open(const struct ddl__transport_config *config, struct ddl__transport **transport, struct ddl_error *err)
{
	return ddl__error_set(err, -ENODEV, "verbs: " WHY);
}

const struct ddl__transport_ops ddl__transport_verbs = {
	.name = "verbs",
	.description = "RDMA over InfiniBand or RoCE (libibverbs)",
	.probe = absent_probe,
	.open = absent_open,
};
