/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_node.c - what a process finds on its node: limits, shared memory, processors, interfaces, RDMA devices, GPUs.
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

#define INFINIBAND "sys/class/infiniband"

enum { SHM_SMALL_MIB = 256, MEMLOCK_SMALL_MIB = 1024, TEXT_SIZE = 1024 };

/* Appends to a text, with a comma where there is something before it. */
static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char *text, const char *format, ...)
{
	size_t used = strlen(text);
	va_list list;

	if (used > 0 && used < TEXT_SIZE)
		used += (size_t)snprintf(text + used, TEXT_SIZE - used, ", ");
	va_start(list, format);
	if (used < TEXT_SIZE)
		vsnprintf(text + used, TEXT_SIZE - used, format, list);
	va_end(list);
}

/* A line of a file below root that begins with what; "" where there is none. */
static const char *find_line(const char *root, const char *path, const char *what, char *line, size_t size)
{
	char full[DDL__PATH_SIZE];
	bool found = false;
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	file = fopen(full, "re");
	while (file && !found && fgets(line, (int)size, file))
		found = strncmp(line, what, strlen(what)) == 0;
	if (file)
		fclose(file);
	if (!found)
		*line = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* ---- RDMA ---- */

/* One port. Returns whether it is active. */
static bool read_port(const char *root, const char *device, const char *port, char *text, char *alike)
{
	char state[64], rate[64], layer[64];
	const char *word;

	ddl__sysfs_line(root, state, sizeof(state), INFINIBAND "/%s/ports/%s/state", device, port); /* "4: ACTIVE" */
	ddl__sysfs_line(root, rate, sizeof(rate), INFINIBAND "/%s/ports/%s/rate", device, port);    /* "100 Gb/sec (4X EDR)" */
	ddl__sysfs_line(root, layer, sizeof(layer), INFINIBAND "/%s/ports/%s/link_layer", device, port);
	word = strchr(state, ' ') ? strchr(state, ' ') + 1 : state;
	append(text, "%s port %s %s, %s, %s", device, port, *word ? word : "in an unknown state", *rate ? rate : "speed not known",
	       *layer ? layer : "link layer not known");
	append(alike, "%s, %s, %s", word, rate, layer);
	return strcmp(word, "ACTIVE") == 0;
}

/* Returns how many ports are active. */
static size_t check_rdma(const char *root, json_t *lines)
{
	char text[TEXT_SIZE] = "", alike[TEXT_SIZE] = "", **devices, **ports, path[DDL__PATH_SIZE];
	size_t n_devices, n_ports, active = 0, down = 0;

	if (ddl__sysfs_list(root, INFINIBAND, &devices, &n_devices) < 0)
		return 0;
	for (size_t d = 0; d < n_devices; d++) {
		snprintf(path, sizeof(path), INFINIBAND "/%s/ports", devices[d]);
		if (ddl__sysfs_list(root, path, &ports, &n_ports) < 0)
			break;
		for (size_t p = 0; p < n_ports; p++) {
			if (read_port(root, devices[d], ports[p], text, alike))
				active++;
			else
				down++;
		}
		free(ports);
	}
	free(devices);
	if (down > 0)
		ddl__check_add(lines, "rdma", DDL__WARN,
			       "see to the cable, the switch port and, on InfiniBand, the subnet manager (ibstat, rdma link)", "%s",
			       text);
	else
		ddl__check_add(lines, "rdma", DDL__PASS, NULL, "%s", n_devices ? text : "no RDMA device");
	ddl__check_alike(lines, alike);
	return active;
}

/* "unlimited", or a number of bytes, in MiB; UINT64_MAX: unlimited. */
static uint64_t limit_MiB(const char *word)
{
	return strncmp(word, "unlimited", 9) == 0 ? UINT64_MAX : strtoull(word, NULL, 10) >> 20;
}

static void check_memlock(const char *root, size_t rdma_ports, json_t *lines)
{
	static const char what[] = "Max locked memory";
	char line[256], hard[64] = "";
	const char *soft = find_line(root, "proc/self/limits", what, line, sizeof(line));
	uint64_t mib;

	soft += *soft ? sizeof(what) - 1 : 0;
	soft += strspn(soft, " ");
	if (!*soft || sscanf(soft, "%*s %63s", hard) != 1)
		return;
	mib = limit_MiB(soft);
	if (mib == UINT64_MAX)
		ddl__check_add(lines, "memlock", DDL__PASS, NULL, "memory may be locked without a limit");
	else if (rdma_ports == 0)
		ddl__check_add(lines, "memlock", DDL__PASS, NULL,
			       "%llu MiB may be locked; without RDMA nothing needs it (shared memory and TCP lock nothing)",
			       (unsigned long long)mib);
	else
		ddl__check_add(lines, "memlock", mib < MEMLOCK_SMALL_MIB ? DDL__FAIL : DDL__WARN,
			       limit_MiB(hard) > mib && limit_MiB(hard) > MEMLOCK_SMALL_MIB
				       ? "ulimit -l unlimited in the job, or PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"
				       : "LimitMEMLOCK=infinity for slurmd (systemctl edit slurmd) and "
					 "PropagateResourceLimitsExcept=MEMLOCK in "
					 "slurm.conf, then restart slurmd; slurm-conf/examples has both",
			       "only %llu MiB may be locked, and RDMA registers all memory that travels", (unsigned long long)mib);
}

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
			mib = strtoll(find_line(root, "proc/meminfo", "MemTotal:", memory, sizeof(memory)) + (*memory ? 9 : 0),
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
	char good[TEXT_SIZE] = "", bad[TEXT_SIZE] = "";

	for (const struct ddl__transport_ops *const *t = ddl__transports; *t; t++) {
		char why[256] = "";

		if ((*t)->probe(why, sizeof(why)) == 1)
			append(good, "%s", (*t)->name);
		else if (strcmp((*t)->name, "shm") == 0 || strcmp((*t)->name, "tcp") == 0)
			append(bad, "%s: %s", (*t)->name, why);
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
	char text[TEXT_SIZE] = "", alike[TEXT_SIZE] = "", odd[TEXT_SIZE] = "";
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
		append(text, "%s %s MTU %u", f->name, speed, f->mtu);
		append(alike, "%s MTU %u", speed, f->mtu);
		if (!f->up)
			append(odd, "%s is down", f->name);
		else if (f->virtual)
			append(odd, "%s is virtual", f->name);
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
	char text[TEXT_SIZE] = "";

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
	check_memlock(root, check_rdma(root, lines), lines);
	check_shm(root, lines);
	if (!*root)
		check_transports(lines);
	check_network(facts, lines);
	check_gpus(root, facts, lines);
	free(facts);
}
