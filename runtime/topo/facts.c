/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.c - gathers what a node has: name, place, processors, GPUs. Interfaces: interfaces.c; the text form: facts_text.c.
 *
 * Read from proc and sysfs below a root folder. What is about this process (affinity, environment, network namespace) is only
 * looked at on this machine; a captured machine has all its processors and no environment.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "facts.h"
#include "interfaces.h"
#include "sysfs.h"

#define MACHINE_NUMA_MAX 1024 /* NUMA nodes that are looked at */

enum {
	VENDOR_INTEL = 0x8086,
	VENDOR_NVIDIA = 0x10de,
	VENDOR_AMD = 0x1002,
	CLASS_VGA = 0x0300,
	CLASS_3D = 0x0302,
	CLASS_DISPLAY = 0x0380,
	CLASS_ACCELERATOR = 0x1200,
};

static void copy_env(char *text, size_t size, const char *name)
{
	const char *value = getenv(name);

	if (value && strlen(value) < size)
		strcpy(text, value);
}

static void gather_names(const char *root, const char *host, struct ddl__facts *facts)
{
	char boot_id[64];
	struct stat netns;

	if (!*root) {
		copy_env(facts->node, sizeof(facts->node), "SLURMD_NODENAME");
		copy_env(facts->address, sizeof(facts->address), "SLURM_TOPOLOGY_ADDR");
		copy_env(facts->pattern, sizeof(facts->pattern), "SLURM_TOPOLOGY_ADDR_PATTERN");
	}
	if (!*facts->node && host)
		snprintf(facts->node, sizeof(facts->node), "%s", host);
	if (!*facts->node) {
		if (*root)
			ddl__sysfs_line(root, facts->node, sizeof(facts->node), "proc/sys/kernel/hostname");
		else if (gethostname(facts->node, sizeof(facts->node) - 1) < 0)
			facts->node[0] = '\0';
		facts->node[strcspn(facts->node, ".")] = '\0';
	}
	if (!*facts->node)
		strcpy(facts->node, "localhost");

	/* Shared memory is handed over through abstract unix sockets, which belong to a network namespace. */
	ddl__sysfs_line(root, boot_id, sizeof(boot_id), "proc/sys/kernel/random/boot_id");
	if (!*root && stat("/proc/self/ns/net", &netns) == 0)
		snprintf(facts->machine, sizeof(facts->machine), "%.40s/%llx:%llu", boot_id, (unsigned long long)netns.st_dev,
			 (unsigned long long)netns.st_ino);
	else
		snprintf(facts->machine, sizeof(facts->machine), "%.40s", boot_id);
}

/* Adds what one thread of this process may use. */
static void add_affinity(pid_t thread, cpu_set_t *set, struct ddl__cpus *cpus)
{
	if (sched_getaffinity(thread, CPU_ALLOC_SIZE(DDL__CPUS_MAX), set) < 0)
		return;
	for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++)
		if (CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(DDL__CPUS_MAX), set))
			ddl__cpus_add(cpus, cpu);
}

/*
 * The hardware threads that this process may use: all its threads', since OpenMP binds each of its own to a core, the calling one
 * too.
 */
static int gather_cpuset(const char *root, struct ddl__cpus *cpus)
{
	struct ddl__cpus found;
	char text[4096], **threads;
	cpu_set_t *set;
	size_t n;
	int rc;

	ddl__sysfs_line(root, text, sizeof(text), "sys/devices/system/cpu/online");
	ddl__cpus_parse(cpus, text);
	if (*root)
		return 0;
	rc = ddl__sysfs_list(root, "proc/self/task", &threads, &n);
	if (rc < 0)
		return rc;
	set = CPU_ALLOC(DDL__CPUS_MAX);
	if (!set) {
		free(threads);
		return -ENOMEM;
	}
	memset(&found, 0, sizeof(found));
	add_affinity(0, set, &found);
	for (size_t i = 0; i < n; i++)
		add_affinity((pid_t)strtol(threads[i], NULL, 10), set, &found);
	if (ddl__cpus_has_any(&found))
		*cpus = found;
	CPU_FREE(set);
	free(threads);
	return 0;
}

/* Whether a hardware thread is the first of its core within a set. */
static int leads_core(const char *root, const struct ddl__cpus *cpus, size_t cpu)
{
	struct ddl__cpus siblings;
	char text[512];

	if (ddl__sysfs_line(root, text, sizeof(text), "sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu) < 0)
		return 1;
	ddl__cpus_parse(&siblings, text);
	for (size_t other = 0; other < cpu; other++)
		if (ddl__cpus_has(&siblings, other) && ddl__cpus_has(cpus, other))
			return 0;
	return 1;
}

static int has_common(const struct ddl__cpus *a, const struct ddl__cpus *b)
{
	for (size_t i = 0; i < DDL__CPUS_MAX / 64; i++)
		if (a->bits[i] & b->bits[i])
			return 1;
	return 0;
}

static int gather_processors(const char *root, struct ddl__facts *facts)
{
	struct ddl__cpus of_node, nodes, *cpus = &facts->may;
	char text[4096];
	int rc = gather_cpuset(root, cpus);

	if (rc < 0)
		return rc;
	for (size_t cpu = 0; cpu < DDL__CPUS_MAX; cpu++) {
		if (!ddl__cpus_has(cpus, cpu))
			continue;
		facts->cpus++;
		facts->cores += (uint32_t)leads_core(root, cpus, cpu);
	}
	ddl__sysfs_line(root, text, sizeof(text), "sys/devices/system/node/online");
	ddl__cpus_parse(&nodes, text);
	for (size_t node = 0; node < MACHINE_NUMA_MAX; node++) {
		if (!ddl__cpus_has(&nodes, node))
			continue;
		ddl__sysfs_line(root, text, sizeof(text), "sys/devices/system/node/node%zu/cpulist", node);
		ddl__cpus_parse(&of_node, text);
		facts->numa_nodes += (uint32_t)has_common(cpus, &of_node);
	}
	if (facts->cpus == 0) /* neither proc nor sysfs: one is certain */
		facts->cpus = facts->cores = 1;
	if (facts->numa_nodes == 0)
		facts->numa_nodes = 1;
	return 0;
}

/* Intel's VGA class is graphics built into the processor; its data-centre GPUs are display or accelerator devices. */
static int is_gpu(int64_t vendor, int64_t class)
{
	switch (class) {
	case CLASS_VGA:
		return vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD;
	case CLASS_3D:
	case CLASS_DISPLAY:
	case CLASS_ACCELERATOR:
		return vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD || vendor == VENDOR_INTEL;
	default:
		return 0;
	}
}

static void gpu_model(const char *root, struct ddl__gpu *gpu, int64_t vendor, int64_t device)
{
	char line[128];
	const char *model = line;

	ddl__sysfs_line(root, line, sizeof(line), "proc/driver/nvidia/gpus/%s/information", gpu->pci); /* "Model: \t NVIDIA H100" */
	if (!strncmp(line, "Model:", 6))
		model += 6 + strspn(line + 6, " \t");
	else
		ddl__sysfs_line(root, line, sizeof(line), "sys/bus/pci/devices/%s/product_name", gpu->pci); /* amdgpu */
	if (*model)
		snprintf(gpu->model, sizeof(gpu->model), "%.63s", model);
	else
		snprintf(gpu->model, sizeof(gpu->model), "%04x:%04x", (unsigned)(vendor & 0xffff), (unsigned)(device & 0xffff));
}

static int gather_gpus(const char *root, struct ddl__facts *facts)
{
	static const char folder[] = "sys/bus/pci/devices";
	char **names;
	size_t n;
	int rc = ddl__sysfs_list(root, folder, &names, &n);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n && facts->n_gpus < DDL__GPUS_MAX; i++) {
		struct ddl__gpu *gpu = &facts->gpus[facts->n_gpus];
		int64_t vendor = ddl__sysfs_number(root, 0, "%s/%s/vendor", folder, names[i]);
		int64_t class = ddl__sysfs_number(root, 0, "%s/%s/class", folder, names[i]);

		if (strlen(names[i]) >= sizeof(gpu->pci) || !is_gpu(vendor, class >> 8))
			continue;
		strcpy(gpu->pci, names[i]);
		gpu->numa = (int)ddl__sysfs_number(root, -1, "%s/%s/numa_node", folder, names[i]);
		gpu_model(root, gpu, vendor, ddl__sysfs_number(root, 0, "%s/%s/device", folder, names[i]));
		facts->n_gpus++;
	}
	free(names);
	return 0;
}

int ddl__facts_gather(const char *root, const char *host, struct ddl__facts *facts, struct ddl_error *err)
{
	struct ddl__facts *found = calloc(1, sizeof(*found));
	int rc = found ? 0 : -ENOMEM;

	if (rc == 0) {
		gather_names(root, host, found);
		rc = gather_processors(root, found);
	}
	if (rc == 0)
		rc = ddl__interfaces_gather(root, found);
	if (rc == 0)
		rc = gather_gpus(root, found);
	if (rc == 0)
		*facts = *found;
	free(found);
	return rc < 0 ? ddl__error_memory(err) : 0;
}
