/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_registry.h - registers memory with all devices of a transport, or with none.
 */
#ifndef DDL_TRANSPORT_VERBS_REGISTRY_H
#define DDL_TRANSPORT_VERBS_REGISTRY_H

#include "verbs_api.h"
#include "verbs_memory.h"

struct ddl__verbs_registry {
	const struct ddl__verbs_api *api;
	struct ddl__verbs_memory_device devices[DDL__RAILS_MAX];
	size_t n_devices;
	uint64_t bytes; /* registered now, with each device anew */
};

struct ddl__verbs_entry {                  /* first field of whatever is registered */
	struct ddl__verbs_region region;   /* what users see of it */
	struct ibv_mr *mr[DDL__RAILS_MAX]; /* by device */
};

/* Negative errno of the device that refused; err says which, how much may be locked, how much is, and the remedy. */
int ddl__verbs_registry_add(struct ddl__verbs_registry *registry, struct ddl__verbs_entry *entry, void *at, size_t bytes,
			    struct ddl_error *err);
void ddl__verbs_registry_remove(struct ddl__verbs_registry *registry, struct ddl__verbs_entry *entry);

#endif
