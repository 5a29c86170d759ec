/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_verbs.c - RDMA devices as libibverbs sees them. What it lists it has a provider for; sysfs lists what the kernel has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sysfs.h"

#define PACKAGES "libibverbs1 and ibverbs-providers (Debian), libibverbs (RHEL)"

#ifdef DDL_HAVE_VERBS
#include "verbs_api.h"
#include "watch_memory.h"

/* The devices of sysfs that the library does not list. */
static int find_unknown(const char *root, const struct ddl__verbs_api *api, char *text)
{
	struct ibv_device **list;
	char **names;
	int n_known = 0;
	size_t n;

	if (ddl__sysfs_list(root, "sys/class/infiniband", &names, &n) < 0)
		return -ENOMEM;
	list = api->get_device_list(&n_known);
	for (size_t i = 0; i < n; i++) {
		bool known = false;

		for (int k = 0; list && k < n_known; k++)
			known = known || strcmp(api->get_device_name(list[k]), names[i]) == 0;
		if (!known)
			ddl__check_append(text, "%s", names[i]);
	}
	if (list)
		api->free_device_list(list);
	free(names);
	return 0;
}

void ddl__check_verbs(const char *root, const struct ddl__facts *facts, const struct ddl__rdma_settings *settings,
		      const struct ddl__verbs_api *api, json_t *lines)
{
	char why[256] = "", unknown[DDL__CHECK_TEXT] = "";
	struct ddl__verbs_api loaded;

	if (!api && ddl__verbs_load(&loaded, why, sizeof(why)) < 0) {
		ddl__check_add(lines, "rails", DDL__WARN, "install " PACKAGES, "RDMA is not used: %s", why);
		return;
	}
	api = api ? api : &loaded;
	if (find_unknown(root, api, unknown) < 0)
		return;
	if (*unknown)
		ddl__check_add(lines, "provider", DDL__WARN, "install the device's provider: " PACKAGES ", or the vendor's",
			       "libibverbs does not know %s, which the kernel has", unknown);
}

int ddl__check_watch(char *why, size_t size)
{
	int rc = ddl__memory_watch_get(why, size);

	if (rc == 0)
		ddl__memory_watch_put();
	return rc;
}

#else
void ddl__check_verbs(const char *root, const struct ddl__facts *facts, const struct ddl__rdma_settings *settings,
		      const struct ddl__verbs_api *api, json_t *lines)
{
	ddl__check_add(lines, "rails", DDL__WARN, "install DDL's packages, or build it where libibverbs-dev (rdma-core-devel) is",
		       "RDMA is not used: this build is without it");
}

int ddl__check_watch(char *why, size_t size)
{
	snprintf(why, size, "this build is without RDMA");
	return -ENOSYS;
}
#endif
