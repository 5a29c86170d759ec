/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_verbs.c - RDMA devices as libibverbs sees them. What it lists it has a provider for; sysfs lists what the kernel has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "settings.h"
#include "sysfs.h"

#define PACKAGES "libibverbs1 and ibverbs-providers (Debian), libibverbs (RHEL)"

#ifdef DDL_HAVE_VERBS
#include "survey.h"
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

/* Which ports become rails, or why none does. */
static void check_rails(const char *root, const struct ddl__facts *facts, const struct ddl__rdma_settings *settings,
			const struct ddl__verbs_api *api, json_t *lines)
{
	char text[DDL__CHECK_TEXT] = "", alike[DDL__CHECK_TEXT] = "";
	struct ddl_error err = { .text = "" }, refused = { .text = "" };
	struct ddl__verbs_ports ports = { .n = 0 };
	int rc = ddl__survey(root, facts, settings, api, &ports, &refused, &err);

	for (size_t i = 0; i < ports.n; i++) {
		const struct ddl__verbs_port *p = &ports.ports[i];

		if (p->rail < 0)
			continue;
		ddl__check_append(text, "%s port %d (%s, GID index %d)", p->device->name, p->number, ddl__verbs_kind_name(p->kind),
				  p->gid_index);
		ddl__check_append(alike, "%s, %u bytes, %u Mbit/s", ddl__verbs_kind_name(p->kind), ddl__verbs_mtu_bytes(p->mtu),
				  p->speed_Mbps);
	}
	if (rc < 0)
		ddl__check_add(lines, "rails", DDL__FAIL, "free some memory", "%s", err.text);
	else if (refused.code)
		ddl__check_add(lines, "rails", settings->n_ports ? DDL__FAIL : DDL__WARN,
			       settings->n_ports ? "correct DDL_RDMA, or unset it: then there is a rule"
						 : "see to what is named; till then TCP serves",
			       "%s", refused.text);
	else
		ddl__check_add(lines, "rails", DDL__PASS, NULL, "RDMA goes over %s", text);
	ddl__check_alike(lines, alike);
	ddl__verbs_ports_close(&ports);
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
	check_rails(root, facts, settings, api, lines);
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
