/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_rdma.c - RDMA devices, and what is in the way of using them.
 *
 * What sysfs shows needs no rights and no library, and can be captured: ports, GIDs, MTUs, the files that programs open. A device
 * is never needed, since TCP serves where RDMA does not: so what is amiss is a warning, unless the user asked for what is not
 * there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "settings.h"
#include "sysfs.h"

#define INFINIBAND "sys/class/infiniband"

enum {
	MEMLOCK_SMALL_MIB = 1024,
	GIDS_MAX = 256,
	PORT_MAX = 255,
	PAYLOAD_MAX = 4096, /* bytes of data in a packet */
	HEADERS = 96,       /* and beside them, at most */
};

struct port { /* of an RDMA device, as sysfs shows it */
	char device[DDL__DEVICE_MAX];
	int number;
	char state[32];     /* "ACTIVE", "DOWN", "INIT", ...; "" not known */
	bool ethernet;      /* RoCE, else InfiniBand */
	char rate[64];      /* "200 Gb/sec (4X HDR)" */
	char interface[32]; /* of Ethernet; "" not known */
	bool interface_up;
	int64_t mtu; /* of the interface; 0 not known */
	size_t gids; /* entries of the table that stand for an address */
	size_t v2;   /* of these of RoCE v2 */
	bool wanted; /* DDL_RDMA_GID_INDEX names one of them */
};

struct ports {
	struct port *at;
	size_t n;
};

static bool is_active(const struct port *port)
{
	return strcmp(port->state, "ACTIVE") == 0;
}

/* ---- what sysfs shows ---- */

static void read_gids(const char *root, int wanted, struct port *port)
{
	char gid[64], type[64];

	for (int i = 0; i < GIDS_MAX; i++) {
		ddl__sysfs_line(root, gid, sizeof(gid), INFINIBAND "/%s/ports/%d/gids/%d", port->device, port->number, i);
		if (gid[strspn(gid, "0:")] == '\0')
			continue;
		ddl__sysfs_line(root, type, sizeof(type), INFINIBAND "/%s/ports/%d/gid_attrs/types/%d", port->device, port->number,
				i);
		port->gids++;
		port->v2 += strcmp(type, "RoCE v2") == 0;
		port->wanted = port->wanted || i == wanted;
	}
}

/* The interface behind an Ethernet port: that of its first GID, or the device's parent. */
static void read_interface(const char *root, struct port *port)
{
	char *name = port->interface, state[32];

	for (int i = 0; i < GIDS_MAX && !*name; i++)
		ddl__sysfs_line(root, name, sizeof(port->interface), INFINIBAND "/%s/ports/%d/gid_attrs/ndevs/%d", port->device,
				port->number, i);
	if (!*name)
		ddl__sysfs_line(root, name, sizeof(port->interface), INFINIBAND "/%s/parent", port->device);
	if (!*name)
		return;
	ddl__sysfs_line(root, state, sizeof(state), "sys/class/net/%s/operstate", name);
	port->interface_up = strcmp(state, "up") == 0;
	port->mtu = ddl__sysfs_number(root, 0, "sys/class/net/%s/mtu", name);
}

static void read_port(const char *root, int wanted, struct port *port)
{
	char state[64], layer[64];

	ddl__sysfs_line(root, state, sizeof(state), INFINIBAND "/%s/ports/%d/state", port->device, port->number); /* "4: ACTIVE" */
	ddl__sysfs_line(root, layer, sizeof(layer), INFINIBAND "/%s/ports/%d/link_layer", port->device, port->number);
	ddl__sysfs_line(root, port->rate, sizeof(port->rate), INFINIBAND "/%s/ports/%d/rate", port->device, port->number);
	snprintf(port->state, sizeof(port->state), "%.31s", strchr(state, ' ') ? strchr(state, ' ') + 1 : state);
	port->ethernet = strcmp(layer, "Ethernet") == 0;
	read_gids(root, wanted, port);
	if (port->ethernet)
		read_interface(root, port);
}

static int add_device(const char *root, const char *device, int wanted, struct ports *ports)
{
	char path[DDL__PATH_SIZE], **numbers;
	struct port *more;
	size_t n;

	snprintf(path, sizeof(path), INFINIBAND "/%s/ports", device);
	if (strlen(device) >= sizeof(ports->at->device))
		return 0;
	if (ddl__sysfs_list(root, path, &numbers, &n) < 0)
		return -ENOMEM;
	more = realloc(ports->at, (ports->n + n + 1) * sizeof(*more));
	for (size_t i = 0; i < n && more; i++) {
		struct port *port = &more[ports->n];

		memset(port, 0, sizeof(*port));
		port->number = atoi(numbers[i]);
		if (port->number < 1 || port->number > PORT_MAX)
			continue;
		strcpy(port->device, device);
		read_port(root, wanted, port);
		ports->n++;
	}
	free(numbers);
	if (more)
		ports->at = more;
	return more ? 0 : -ENOMEM;
}

/* ---- lines ---- */

static void check_ports(const struct ports *ports, json_t *lines)
{
	char text[DDL__CHECK_TEXT] = "", alike[DDL__CHECK_TEXT] = "";
	const char *remedy = NULL;
	enum ddl__verdict verdict = DDL__PASS;

	for (size_t i = 0; i < ports->n; i++) {
		const struct port *p = &ports->at[i];
		const char *layer = p->ethernet ? "Ethernet" : "InfiniBand";

		ddl__check_append(text, "%s port %d %s, %s, %s", p->device, p->number, *p->state ? p->state : "in an unknown state",
				  *p->rate ? p->rate : "speed not known", layer);
		if (*p->interface)
			ddl__check_append(text, "interface %s", p->interface);
		ddl__check_append(alike, "%s, %s, %s", p->state, p->rate, layer);
		if (is_active(p))
			continue;
		verdict = DDL__WARN;
		if (p->ethernet && p->interface_up) {
			snprintf(text + strlen(text), sizeof(text) - strlen(text), " which is up");
			remedy = "the driver does not follow its interface: see dmesg, reload it (rdma link shows the port)";
		} else if (!p->ethernet && strcmp(p->state, "INIT") == 0) {
			remedy = "no subnet manager has configured it: start one (opensm, or the switch's), and see ibstat";
		} else if (!remedy) {
			remedy = "see to the cable, the switch port and, on InfiniBand, the subnet manager (ibstat, rdma link)";
		}
	}
	ddl__check_add(lines, "rdma", verdict, remedy, "%s", ports->n ? text : "no RDMA device");
	ddl__check_alike(lines, alike);
}

/* Whether a port is what DDL_RDMA names. */
static bool is_named(const struct port *port, const struct ddl__rdma_port *name)
{
	return strcmp(port->device, name->device) == 0 && (!name->port || name->port == port->number);
}

/* Whether it may become a rail: all may where none is named. */
static bool may_serve(const struct port *port, const struct ddl__rdma_settings *settings)
{
	bool named = settings->n_ports == 0;

	for (size_t i = 0; i < settings->n_ports; i++)
		named = named || is_named(port, &settings->ports[i]);
	return named && is_active(port);
}

/* RoCE without v2 stays within one network, and switches do not treat it as they treat IP. */
static void check_gids(const struct ports *ports, const struct ddl__rdma_settings *settings, json_t *lines)
{
	char without[DDL__CHECK_TEXT] = "", old[DDL__CHECK_TEXT] = "";

	for (size_t i = 0; i < ports->n; i++) {
		const struct port *p = &ports->at[i];

		if (!may_serve(p, settings))
			continue;
		if (settings->gid_index >= 0 && !p->wanted)
			ddl__check_append(without, "%s port %d", p->device, p->number);
		if (p->ethernet && !p->v2)
			ddl__check_append(old, "%s port %d has %s", p->device, p->number, p->gids ? "RoCE v1 only" : "no GID");
	}
	if (*without)
		ddl__check_add(lines, "gid", DDL__FAIL,
			       "unset DDL_RDMA_GID_INDEX: then there is a rule; rdma link, show_gids and ddl info list GIDs",
			       "DDL_RDMA_GID_INDEX=%d: there is no such GID on %s", settings->gid_index, without);
	else if (*old)
		ddl__check_add(lines, "gid", DDL__WARN,
			       "give the interface an address; where it has one, see to the card's firmware and driver, which "
			       "should offer RoCE v2",
			       "no GID of RoCE v2: %s", old);
	else
		ddl__check_add(lines, "gid", DDL__PASS, NULL, "every active port has a GID to be reached by");
}

/* How many bytes of data a packet carries where the interface's MTU is this. */
static int64_t payload_of(int64_t mtu)
{
	int64_t payload = PAYLOAD_MAX;

	while (payload > 256 && payload + HEADERS > mtu)
		payload /= 2;
	return payload;
}

static void check_mtus(const struct ports *ports, json_t *lines)
{
	char small[DDL__CHECK_TEXT] = "", alike[DDL__CHECK_TEXT] = "";
	size_t n = 0;

	for (size_t i = 0; i < ports->n; i++) {
		const struct port *p = &ports->at[i];

		if (!is_active(p) || !p->mtu)
			continue;
		n++;
		ddl__check_append(alike, "%lld", (long long)payload_of(p->mtu));
		if (payload_of(p->mtu) < PAYLOAD_MAX)
			ddl__check_append(small, "%s has MTU %lld, so packets of %s carry %lld bytes", p->interface,
					  (long long)p->mtu, p->device, (long long)payload_of(p->mtu));
	}
	if (n == 0)
		return;
	if (*small)
		ddl__check_add(
			lines, "mtu", DDL__WARN,
			"ip link set INTERFACE mtu 9000 on all nodes, and as much on the switches: 4096 bytes a packet need 4192",
			"%s", small);
	else
		ddl__check_add(lines, "mtu", DDL__PASS, NULL, "RoCE carries 4096 bytes a packet");
	ddl__check_alike(lines, alike);
}

/* Opens a file of a device as libibverbs does. 0 or negative errno. */
static int try_file(const char *root, const char *name)
{
	char path[DDL__PATH_SIZE];
	int fd;

	snprintf(path, sizeof(path), "%s/dev/infiniband/%s", root, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void check_files(const char *root, json_t *lines)
{
	char missing[DDL__CHECK_TEXT] = "", refused[DDL__CHECK_TEXT] = "", device[DDL__DEVICE_MAX], **names;
	size_t n;

	if (ddl__sysfs_list(root, "sys/class/infiniband_verbs", &names, &n) < 0)
		return;
	size_t files = 0;
	for (size_t i = 0; i < n; i++) {
		ddl__sysfs_line(root, device, sizeof(device), "sys/class/infiniband_verbs/%s/ibdev", names[i]);
		if (!*device) /* abi_version */
			continue;
		files++;
		switch (try_file(root, names[i])) {
		case -ENOENT:
			ddl__check_append(missing, "/dev/infiniband/%s (%s)", names[i], device);
			break;
		case -EACCES:
		case -EPERM:
			ddl__check_append(refused, "/dev/infiniband/%s (%s)", names[i], device);
			break;
		}
	}
	free(names);
	if (files == 0)
		ddl__check_add(lines, "uverbs", DDL__WARN, "modprobe ib_uverbs (package rdma-core loads it at boot)",
			       "no program can use RDMA: the kernel's module ib_uverbs is not loaded");
	else if (*missing)
		ddl__check_add(lines, "uverbs", DDL__WARN,
			       "hand the folder into the container (docker --device=/dev/infiniband, or a bind mount); on the node "
			       "itself, see to udev",
			       "not there: %s", missing);
	else if (*refused)
		ddl__check_add(lines, "uverbs", DDL__WARN,
			       "its mode should be 0666 (rdma-core's udev rules); where cgroups constrain devices, the job's must "
			       "allow it",
			       "this user may not open %s", refused);
	else
		ddl__check_add(lines, "uverbs", DDL__PASS, NULL, "this user may open the devices below /dev/infiniband");
}

/* What DDL_RDMA names is there. Returns whether it is. */
static bool check_named(const struct ports *ports, const struct ddl__rdma_settings *settings, json_t *lines)
{
	char text[DDL__CHECK_TEXT] = "";

	for (size_t k = 0; k < settings->n_ports; k++) {
		const struct ddl__rdma_port *name = &settings->ports[k];
		size_t found = 0, active = 0;
		char number[16] = "";

		for (size_t i = 0; i < ports->n; i++) {
			found += is_named(&ports->at[i], name);
			active += is_named(&ports->at[i], name) && is_active(&ports->at[i]);
		}
		if (name->port)
			snprintf(number, sizeof(number), ":%d", name->port);
		if (active == 0)
			ddl__check_append(text, "%s%s is not %s", name->device, number, found ? "active" : "there");
	}
	if (*text)
		ddl__check_add(lines, "rails", DDL__FAIL,
			       "correct DDL_RDMA (ddl info lists devices), or unset it: then there is a rule", "DDL_RDMA: %s",
			       text);
	return !*text;
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
	const char *soft = ddl__check_find_line(root, "proc/self/limits", what, line, sizeof(line));
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
		ddl__check_add(
			lines, "memlock", mib < MEMLOCK_SMALL_MIB ? DDL__FAIL : DDL__WARN,
			limit_MiB(hard) > mib && limit_MiB(hard) > MEMLOCK_SMALL_MIB
				? "ulimit -l unlimited in the job, or PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"
				: "LimitMEMLOCK=infinity for slurmd (systemctl edit slurmd) and "
				  "PropagateResourceLimitsExcept=MEMLOCK in "
				  "slurm.conf, then restart slurmd; slurm-conf/examples has both",
			"only %llu MiB may be locked%s, and RDMA registers all memory that travels%s", (unsigned long long)mib,
			ddl__check_is_task() ? " in this job" : " in this shell, which jobs inherit unless Slurm is told otherwise",
			mib < DDL__RDMA_LOCK_MIB ? "; so TCP serves all but root" : "");
}

/* Without being told of what is unmapped, buffers of the program go through slots. */
static void check_watch(const char *root, const struct ddl__rdma_settings *settings, json_t *lines)
{
	char why[160] = "";
	int rc = 0;

	if (settings->use != DDL__REGISTER_AUTO) {
		ddl__check_add(lines, "register", DDL__PASS, NULL, "DDL_RDMA_REGISTER=%s: the kernel is not asked what is unmapped",
			       settings->use == DDL__REGISTER_ALL ? "all" : "alloc");
		return;
	}
	if (*root)
		rc = ddl__sysfs_exists(root, "proc/sys/vm/unprivileged_userfaultfd") ? 0 : -ENOSYS;
	else
		rc = ddl__check_watch(why, sizeof(why));
	if (rc < 0)
		ddl__check_add(lines, "register", DDL__WARN,
			       "take buffers from ddl_mem_alloc(), or have the kernel and the container permit userfaultfd(2) "
			       "(Linux 5.11 and "
			       "CONFIG_USERFAULTFD; seccomp)",
			       "buffers of the program's own are copied before they travel: %s",
			       *why ? why : "the kernel has no userfaultfd");
	else
		ddl__check_add(lines, "register", DDL__PASS, NULL,
			       "the kernel tells what is unmapped, so any buffer may be registered");
}

int ddl__check_rdma(const char *root, const struct ddl__facts *facts, const struct ddl__verbs_api *api, json_t *lines)
{
	struct ddl__rdma_settings settings = DDL__RDMA_SETTINGS_INIT;
	struct ports ports = { .n = 0 };
	size_t n, active = 0;
	struct ddl_error err;
	char **devices;
	const bool good = ddl__settings_rdma(&settings, &err) == 0;
	int rc = 0;

	if (!good)
		ddl__check_add(lines, "rails", DDL__FAIL, "correct the variable, or unset it (man 7 ddl)", "%s", err.text);
	if (ddl__sysfs_list(root, INFINIBAND, &devices, &n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add_device(root, devices[i], settings.gid_index, &ports);
	free(devices);
	for (size_t i = 0; i < ports.n; i++)
		active += is_active(&ports.at[i]);
	check_ports(&ports, lines);
	if (good && check_named(&ports, &settings, lines) && ports.n > 0 && (!*root || api))
		ddl__check_verbs(root, facts, &settings, api, lines);
	if (ports.n > 0) {
		check_files(root, lines);
		check_gids(&ports, &settings, lines);
		check_mtus(&ports, lines);
		check_watch(root, &settings, lines);
	}
	check_memlock(root, active, lines);
	free(ports.at);
	return rc;
}
