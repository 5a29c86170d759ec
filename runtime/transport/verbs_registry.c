/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_registry.c - see verbs_registry.h. */
#include "verbs_registry.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#include "error.h"

/* KiB that this process has pinned and locked, as the kernel counts them against the limit; 0: it does not tell. */
static uint64_t locked_KiB(void)
{
	unsigned long long kib, sum = 0;
	char line[128];
	FILE *in = fopen("/proc/self/status", "re");
	if (!in)
		return 0;
	while (fgets(line, sizeof(line), in))
		if (sscanf(line, "VmPin: %llu", &kib) == 1 || sscanf(line, "VmLck: %llu", &kib) == 1)
			sum += kib;
	fclose(in);
	return sum;
}

static int refuse(const struct ddl__verbs_registry *registry, size_t device, size_t bytes, int code, struct ddl_error *err)
{
	const char *name = registry->devices[device].name;
	char why[DDL__REASON_SIZE];
	uint64_t locked = locked_KiB();
	struct rlimit limit;
	ddl__error_reason(why, sizeof(why), code);
	if (code != -ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return ddl__error_set(err, code, "%zu bytes could not be registered with the RDMA device %s: %s", bytes, name, why);
	if (locked < registry->bytes / 1024)
		locked = registry->bytes / 1024;
	return ddl__error_set(
		err, code,
		"%zu bytes could not be registered with the RDMA device %s: %s; %llu KiB may be locked here (ulimit -l) and "
		"%llu KiB are: set LimitMEMLOCK=infinity for slurmd (systemctl edit slurmd) and "
		"PropagateResourceLimitsExcept=MEMLOCK in slurm.conf; DDL_TRANSPORTS=shm,tcp does without RDMA",
		bytes, name, why, (unsigned long long)limit.rlim_cur / 1024, (unsigned long long)locked);
}

void ddl__verbs_registry_remove(struct ddl__verbs_registry *registry, struct ddl__verbs_entry *entry)
{
	for (size_t d = 0; d < registry->n_devices; d++) {
		if (!entry->mr[d])
			continue;
		registry->api->dereg_mr(entry->mr[d]);
		registry->bytes -= entry->region.bytes;
		entry->mr[d] = NULL;
	}
}

int ddl__verbs_registry_add(struct ddl__verbs_registry *registry, struct ddl__verbs_entry *entry, void *at, size_t bytes,
			    struct ddl_error *err)
{
	entry->region.at = at;
	entry->region.bytes = bytes;
	for (size_t d = 0; d < registry->n_devices; d++) {
		errno = 0;
		entry->mr[d] = registry->api->reg_mr(registry->devices[d].pd, at, bytes,
						     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		if (!entry->mr[d]) {
			int rc = refuse(registry, d, bytes, errno ? -errno : -ENOMEM, err);
			ddl__verbs_registry_remove(registry, entry);
			return rc;
		}
		registry->bytes += bytes;
		entry->region.lkey[d] = entry->mr[d]->lkey;
		entry->region.rkey[d] = entry->mr[d]->rkey;
	}
	return 0;
}
