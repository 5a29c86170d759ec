/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_node.c - what a process finds on its node: limits, shared memory, processors, interfaces, GPUs.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "facts.h"
#include "options.h"
#include "sysfs.h"
#include "tools.h"
#include "transport.h"

enum { SHM_SMALL_MIB = 256 };

/* ---- memory and processors ---- */

/* Of /dev/shm, in MiB; -1: not mounted, or not for writing. */
static int64_t shm_MiB(const char *root)
{
	char path[DDL__PATH_SIZE], line[1024], type[64], options[512], memory[128];
	int64_t mib = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/mounts", root);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *size;

		if (sscanf(line, "%*s /dev/shm %63s %511s", type, options) != 2)
			continue;
		size = strstr(options, "size=");
		if (strncmp(options, "ro", 2) == 0 && (options[2] == ',' || !options[2]))
			mib = -1;
		else if (size)
			mib = strtoll(size + 5, NULL, 10) >> 10; /* the kernel writes it as 65536k */
		else                                             /* half of the memory */
			mib = strtoll(ddl__check_find_line(root, "proc/meminfo", "MemTotal:", memory, sizeof(memory)) +
					      (*memory ? 9 : 0),
				      NULL, 10) >>
			      11;
	}
	if (file)
		fclose(file);
	return mib;
}

static void check_shm(const char *root, json_t *lines)
{
	const int64_t mib = shm_MiB(root);

	if (mib < 0)
		ddl__check_add(lines, "shm", DDL__WARN, "mount -t tmpfs shm /dev/shm, or give the container one",
			       "/dev/shm is not mounted for writing: PyTorch's data loaders, NCCL and MPI need it (DDL does not)");
	else if (mib < SHM_SMALL_MIB)
		ddl__check_add(lines, "shm", DDL__WARN,
			       "mount -o remount,size=50% /dev/shm; for containers --shm-size (Docker) or the host's /dev/shm",
			       "/dev/shm has %lld MiB, little for PyTorch's data loaders, NCCL and MPI (DDL does not use it)",
			       (long long)mib);
	else
		ddl__check_add(lines, "shm", DDL__PASS, NULL, "/dev/shm has %lld MiB", (long long)mib);
}

static void check_transports(json_t *lines)
{
	char good[DDL__CHECK_TEXT] = "", bad[DDL__CHECK_TEXT] = "";

	for (const struct ddl__transport_ops *const *t = ddl__transports; *t; t++) {
		char why[256] = "";

		if ((*t)->probe(why, sizeof(why)) == 1)
			ddl__check_append(good, "%s", (*t)->name);
		else if (strcmp((*t)->name, "shm") == 0 || strcmp((*t)->name, "tcp") == 0)
			ddl__check_append(bad, "%s: %s", (*t)->name, why);
	}
	if (*bad)
		ddl__check_add(lines, "transports", DDL__FAIL, "mend what is named, or leave it out by DDL_TRANSPORTS",
			       "not usable here: %s", bad);
	else
		ddl__check_add(lines, "transports", DDL__PASS, NULL, "%s", good);
}

static void check_cpus(const struct ddl__facts *facts, json_t *lines)
{
	char alike[128];

	if (facts->cpus == 1)
		ddl__check_add(
			lines, "cpus", DDL__WARN,
			"ask for more (srun --cpus-per-task=2), or do without service threads (progress=0, the default)",
			"this process may use one hardware thread: a service thread (progress=1) would share it with the program");
	else
		ddl__check_add(lines, "cpus", DDL__PASS, NULL,
			       "this process may use %u hardware threads on %u cores of %u NUMA node%s", facts->cpus, facts->cores,
			       facts->numa_nodes, facts->numa_nodes == 1 ? "" : "s");
	snprintf(alike, sizeof(alike), "%u %u %u", facts->cpus, facts->cores, facts->numa_nodes);
	ddl__check_alike(lines, alike);
}

/* ---- network ---- */

static void check_network(const struct ddl__facts *facts, json_t *lines)
{
	size_t chosen[DDL__INTERFACES_MAX], n = 0;
	char text[DDL__CHECK_TEXT] = "", alike[DDL__CHECK_TEXT] = "", odd[DDL__CHECK_TEXT] = "";
	const char *named = getenv("DDL_NET");
	struct ddl_error err;
	bool loopback = false;

	if (ddl__facts_choose_interfaces(facts, named, chosen, &n, &err) < 0) {
		ddl__check_add(lines, "network", DDL__FAIL,
			       "correct DDL_NET, or unset it: then DDL takes what is up, fast and no bridge", "DDL_NET: %s",
			       err.text);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct ddl__interface *f = &facts->interfaces[chosen[i]];
		char speed[32] = "speed not known";

		if (f->speed_Mbps)
			snprintf(speed, sizeof(speed), "%u Mbit/s", f->speed_Mbps);
		ddl__check_append(text, "%s %s MTU %u", f->name, speed, f->mtu);
		ddl__check_append(alike, "%s MTU %u", speed, f->mtu);
		if (!f->up)
			ddl__check_append(odd, "%s is down", f->name);
		else if (f->virtual)
			ddl__check_append(odd, "%s is virtual", f->name);
		loopback = loopback || f->loopback;
	}
	if (loopback || n == 0)
		ddl__check_add(lines, "network", DDL__WARN,
			       "for jobs on several nodes, bring up an interface with an address, or name one by DDL_NET (ddl info "
			       "lists them)",
			       "only the loopback is usable: nodes cannot reach each other");
	else if (*odd)
		ddl__check_add(lines, "network", DDL__WARN, "name others by DDL_NET, or unset it (ddl info lists them)",
			       "DDL_NET=%s: %s", named ? named : "", odd);
	else
		ddl__check_add(lines, "network", DDL__PASS, NULL, "TCP goes over %s", text);
	ddl__check_alike(lines, alike);
}

/* ---- GPUs ---- */

static void check_gpus(const char *root, const struct ddl__facts *facts, json_t *lines)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	char text[DDL__CHECK_TEXT] = "";

	if (facts->n_gpus == 0) {
		ddl__check_add(lines, "gpus", DDL__PASS, NULL, "no GPU");
		ddl__check_alike(lines, "");
		return;
	}
	snprintf(text, sizeof(text), "%zu on the PCI bus, the first %s", facts->n_gpus, facts->gpus[0].model);
	if (strncmp(facts->gpus[0].model, "10de:", 5) == 0 && !ddl__sysfs_exists(root, "proc/driver/nvidia/version"))
		ddl__check_add(lines, "gpus", DDL__WARN, "install NVIDIA's driver and load it (modprobe nvidia; nvidia-smi)",
			       "%s, but its driver is not loaded", text);
	else if (ddl__check_is_task() && !(visible && *visible) && !getenv("ROCR_VISIBLE_DEVICES"))
		ddl__check_add(
			lines, "gpus", DDL__WARN,
			"ask for some (srun --gpus-per-node=N); where Slurm knows of none, write gres.conf (slurm-conf/examples)",
			"%s, but this job was given none (no CUDA_VISIBLE_DEVICES)", text);
	else
		ddl__check_add(lines, "gpus", DDL__PASS, NULL, "%s%s%s", text, visible ? "; this process sees " : "",
			       visible ? visible : "");
	ddl__check_alike(lines, text);
}

bool ddl__check_is_task(void)
{
	const char *step = getenv("SLURM_STEP_ID");

	/* steps of srun count from 0; batch scripts and interactive shells have numbers near the end */
	return step && *step && getenv("SLURM_PROCID") && strtoull(step, NULL, 10) < 0xfffffff0u;
}

void ddl__check_node(const char *root, json_t *lines)
{
	struct ddl__facts *facts = calloc(1, sizeof(*facts));
	struct ddl_error err;

	if (!facts || ddl__facts_gather(root, "", facts, &err) < 0) {
		ddl__check_add(lines, "node", DDL__FAIL, "free some memory", "no memory to look at this node");
		free(facts);
		return;
	}
	check_cpus(facts, lines);
	if (ddl__check_rdma(root, facts, NULL, lines) < 0)
		ddl__check_add(lines, "node", DDL__FAIL, "free some memory", "no memory to look at this node's RDMA devices");
	check_shm(root, lines);
	if (!*root)
		check_transports(lines);
	check_network(facts, lines);
	check_gpus(root, facts, lines);
	free(facts);
}
