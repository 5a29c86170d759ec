/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interfaces.c - the network interfaces of a node, and the choice among them.
 *
 * On this machine the kernel's interface list (getifaddrs) says which there are: it belongs to our network namespace. sysfs may
 * belong to another one, since it shows the namespace of whoever mounted it; it is believed only where index and hardware address
 * agree. Else ioctls tell speed, MTU and driver. A captured machine has sysfs and the file `addresses`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"
#include "hostlist.h"
#include "interfaces.h"
#include "sysfs.h"

#define NET               "sys/class/net"
#define UNKNOWN_SPEED     1000    /* Mbit/s that an interface of unknown speed counts for */
#define SPEED_IMPLAUSIBLE 4000000 /* Mbit/s: what drivers say when they do not know */

static int starts_with_any(const char *name, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (!strncmp(name, *prefixes, strlen(*prefixes)))
			return 1;
	return 0;
}

/* Whether a name or driver is one of those that never carry a job's traffic between nodes. */
static int is_virtual_name(const char *name)
{
	static const char *const prefixes[] = { "docker", "br-",       "virbr",  "vnet",         "cni",    "flannel", "cali",
						"kube-",  "podman",    "lxdbr",  "lxcbr",        "dummy",  "ifb",     "tun",
						"tap",    "tailscale", "wg",     "nodelocaldns", "sit",    "gre",     "erspan",
						"ip6",    "tunl",      "gretap", "vxlan",        "geneve", NULL };

	return starts_with_any(name, prefixes);
}

static int is_virtual_driver(const char *driver)
{
	static const char *const prefixes[] = { "tun",    "dummy", "ifb", "vxlan", "geneve", "wireguard",
						"bridge", "gre",   "ip6", "sit",   "ipip",   NULL };

	return starts_with_any(driver, prefixes);
}

/* Whether a bridge has a port that is a real device: then it stands in for that device (hosts of virtual machines). */
static int bridges_device(const char *root, const char *name, int64_t *speed)
{
	char path[128], **ports;
	size_t n;
	int found = 0;

	snprintf(path, sizeof(path), NET "/%s/brif", name);
	if (ddl__sysfs_list(root, path, &ports, &n) < 0)
		return 0;
	for (size_t i = 0; i < n && !found; i++) {
		found = ddl__sysfs_exists(root, NET "/%s/device", ports[i]) || ddl__sysfs_exists(root, NET "/%s/bonding", ports[i]);
		if (found)
			*speed = ddl__sysfs_number(root, 0, NET "/%s/speed", ports[i]);
	}
	free(ports);
	return found;
}

/* The value of DEVTYPE= in uevent, "" where there is none. */
static void device_type(const char *root, const char *name, char *type, size_t size)
{
	char path[DDL__PATH_SIZE], line[128];
	FILE *file;

	type[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/" NET "/%s/uevent", root, name) >= (int)sizeof(path))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	for (int i = 0; i < 16 && fgets(line, sizeof(line), file); i++) {
		if (strncmp(line, "DEVTYPE=", 8))
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(type, size, "%.*s", (int)size - 1, line + 8);
		break;
	}
	fclose(file);
}

/* Whether sysfs says that an interface is virtual; *speed is set for a bridge over a device. */
static int is_virtual(const char *root, const char *name, int64_t *speed)
{
	int64_t type = ddl__sysfs_number(root, ARPHRD_ETHER, NET "/%s/type", name);
	char kind[32];

	if (ddl__sysfs_exists(root, NET "/%s/device", name) || ddl__sysfs_exists(root, NET "/%s/bonding", name))
		return 0;
	if (ddl__sysfs_exists(root, NET "/%s/bridge", name))
		return !bridges_device(root, name, speed);
	if (type != ARPHRD_ETHER && type != ARPHRD_INFINIBAND)
		return 1;
	device_type(root, name, kind, sizeof(kind));
	return ddl__sysfs_exists(root, NET "/%s/brport", name) || ddl__sysfs_exists(root, NET "/%s/tun_flags", name) ||
	       is_virtual_driver(kind) || is_virtual_name(name);
}

static uint32_t plausible_speed(int64_t speed)
{
	return speed > 0 && speed < SPEED_IMPLAUSIBLE ? (uint32_t)speed : 0;
}

/* Fills from sysfs all but name and address. */
static void describe_by_sysfs(const char *root, struct ddl__interface *interface)
{
	const char *name = interface->name;
	int64_t flags = ddl__sysfs_number(root, 0, NET "/%s/flags", name);
	int64_t speed = ddl__sysfs_number(root, 0, NET "/%s/speed", name);
	char state[32];

	ddl__sysfs_line(root, state, sizeof(state), NET "/%s/operstate", name);
	interface->loopback = (flags & IFF_LOOPBACK) != 0;
	interface->up = (flags & IFF_UP) && (!strcmp(state, "up") || !strcmp(state, "unknown"));
	interface->mtu = (uint32_t)ddl__sysfs_number(root, 0, NET "/%s/mtu", name);
	interface->numa = (int)ddl__sysfs_number(root, -1, NET "/%s/device/numa_node", name);
	interface->virtual = !interface->loopback && is_virtual(root, name, &speed);
	interface->speed_Mbps = plausible_speed(speed);
}

/* The same by asking the kernel through a socket. */
static void describe_by_ioctl(unsigned flags, int type, struct ddl__interface *interface)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_cmd link = { .cmd = ETHTOOL_GSET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request;

	interface->loopback = (flags & IFF_LOOPBACK) != 0;
	interface->up = (flags & IFF_UP) && (flags & IFF_RUNNING);
	interface->numa = -1;
	if (fd >= 0) {
		memset(&request, 0, sizeof(request));
		snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", interface->name);
		if (ioctl(fd, SIOCGIFMTU, &request) == 0)
			interface->mtu = (uint32_t)request.ifr_mtu;
		request.ifr_data = (char *)&link;
		if (ioctl(fd, SIOCETHTOOL, &request) == 0)
			interface->speed_Mbps = plausible_speed(ethtool_cmd_speed(&link));
		request.ifr_data = (char *)&info;
		if (ioctl(fd, SIOCETHTOOL, &request) < 0)
			info.driver[0] = '\0';
		close(fd);
	}
	interface->virtual = !interface->loopback && ((type != ARPHRD_ETHER && type != ARPHRD_INFINIBAND) ||
						      is_virtual_driver(info.driver) || is_virtual_name(interface->name));
}

/* Whether this machine's sysfs shows the same interface as the kernel's list: it may show another network namespace. */
static int sysfs_agrees(const char *name, const struct sockaddr_ll *link)
{
	char text[128], expected[128] = "";
	size_t used = 0;

	for (int i = 0; i < link->sll_halen && i < 8; i++)
		used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%s%02x", i ? ":" : "", link->sll_addr[i]);
	ddl__sysfs_line("", text, sizeof(text), NET "/%s/address", name);
	return ddl__sysfs_number("", -1, NET "/%s/ifindex", name) == link->sll_ifindex && !strncmp(text, expected, used);
}

static struct ddl__interface *find(struct ddl__facts *facts, const char *name)
{
	for (size_t i = 0; i < facts->n_interfaces; i++)
		if (!strcmp(facts->interfaces[i].name, name))
			return &facts->interfaces[i];
	return NULL;
}

/* Takes an address if it is usable and better than what is there: IPv4, then global IPv6; not link-local. */
static void offer_address(struct ddl__interface *interface, int family, const void *address, uint32_t prefix)
{
	char text[INET6_ADDRSTRLEN];
	const uint8_t *bytes = address;

	if (family == AF_INET) {
		if (*interface->address && !strchr(interface->address, ':'))
			return;
		if (bytes[0] == 0 || bytes[0] >= 224 || (bytes[0] == 169 && bytes[1] == 254))
			return;
	} else {
		if (*interface->address || bytes[0] == 0xff || (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80))
			return;
	}
	if (inet_ntop(family, address, text, sizeof(text)))
		snprintf(interface->address, sizeof(interface->address), "%s", text);
	interface->prefix = prefix;
}

/* Bits of a netmask. */
static uint32_t count_bits(const uint8_t *mask, size_t n)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < n; i++)
		bits += (uint32_t)__builtin_popcount(mask[i]);
	return bits;
}

/* Offers an address from the kernel's list. */
static void offer_entry(struct ddl__interface *interface, const struct ifaddrs *entry)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)entry->ifa_addr;
	const struct sockaddr_in *mask = (const struct sockaddr_in *)entry->ifa_netmask;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)entry->ifa_addr;
	const struct sockaddr_in6 *mask6 = (const struct sockaddr_in6 *)entry->ifa_netmask;

	if (entry->ifa_addr->sa_family == AF_INET)
		offer_address(interface, AF_INET, &in->sin_addr, mask ? count_bits((const uint8_t *)&mask->sin_addr, 4) : 0);
	else if (entry->ifa_addr->sa_family == AF_INET6)
		offer_address(interface, AF_INET6, &in6->sin6_addr, mask6 ? count_bits(mask6->sin6_addr.s6_addr, 16) : 0);
}

static int compare_names(const void *a, const void *b)
{
	return ddl__name_compare(((const struct ddl__interface *)a)->name, ((const struct ddl__interface *)b)->name);
}

/* Adds an interface; where there are too many (hosts of containers), virtual ones give way. */
static void add(struct ddl__facts *facts, const struct ddl__interface *interface)
{
	if (facts->n_interfaces < DDL__INTERFACES_MAX) {
		facts->interfaces[facts->n_interfaces++] = *interface;
		return;
	}
	for (size_t i = 0; i < facts->n_interfaces && !interface->virtual; i++) {
		if (!facts->interfaces[i].virtual)
			continue;
		facts->interfaces[i] = *interface;
		return;
	}
}

static int gather_here(struct ddl__facts *facts)
{
	struct ddl__interface *interface;
	struct ifaddrs *list;

	if (getifaddrs(&list) < 0)
		return errno == ENOMEM ? -ENOMEM : 0;
	for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
		const struct sockaddr_ll *link = (const struct sockaddr_ll *)entry->ifa_addr;
		struct ddl__interface found = { .numa = -1 };

		if (!link || link->sll_family != AF_PACKET || find(facts, entry->ifa_name))
			continue;
		snprintf(found.name, sizeof(found.name), "%.31s", entry->ifa_name);
		if (sysfs_agrees(found.name, link))
			describe_by_sysfs("", &found);
		else
			describe_by_ioctl(entry->ifa_flags, link->sll_hatype, &found);
		add(facts, &found);
	}
	for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
		interface = find(facts, entry->ifa_name);
		if (interface && entry->ifa_addr)
			offer_entry(interface, entry);
	}
	freeifaddrs(list);
	return 0;
}

/* The file `addresses` of a captured machine: lines "NAME ADDRESS" or "NAME ADDRESS/BITS". */
static void read_addresses(const char *root, struct ddl__facts *facts)
{
	char path[DDL__PATH_SIZE], line[256], name[32], address[64];
	uint8_t bytes[16];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/addresses", root) >= (int)sizeof(path))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		struct ddl__interface *interface;
		uint32_t prefix = 0;

		if (sscanf(line, "%31s %63[^/ \n]/%u", name, address, &prefix) < 2)
			continue;
		interface = find(facts, name);
		if (interface && inet_pton(AF_INET, address, bytes) == 1)
			offer_address(interface, AF_INET, bytes, prefix);
		else if (interface && inet_pton(AF_INET6, address, bytes) == 1)
			offer_address(interface, AF_INET6, bytes, prefix);
	}
	fclose(file);
}

static int gather_captured(const char *root, struct ddl__facts *facts)
{
	char **names;
	size_t n;
	int rc = ddl__sysfs_list(root, NET, &names, &n);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct ddl__interface found = { .numa = -1 };

		/* bonding_masters is a file here, not an interface */
		if (strlen(names[i]) >= sizeof(found.name) || !ddl__sysfs_exists(root, NET "/%s/flags", names[i]))
			continue;
		strcpy(found.name, names[i]);
		describe_by_sysfs(root, &found);
		add(facts, &found);
	}
	free(names);
	read_addresses(root, facts);
	return 0;
}

int ddl__interfaces_gather(const char *root, struct ddl__facts *facts)
{
	int rc = *root ? gather_captured(root, facts) : gather_here(facts);

	if (rc == 0)
		qsort(facts->interfaces, facts->n_interfaces, sizeof(facts->interfaces[0]), compare_names);
	return rc;
}

static uint32_t speed_of(const struct ddl__interface *interface)
{
	return interface->speed_Mbps ? interface->speed_Mbps : UNKNOWN_SPEED;
}

/* Whether a goes before b: faster first, then by name. */
static int goes_before(const struct ddl__interface *a, const struct ddl__interface *b)
{
	if (speed_of(a) != speed_of(b))
		return speed_of(a) > speed_of(b);
	return ddl__name_compare(a->name, b->name) < 0;
}

/* Data are spread evenly over the chosen ones, so k of them carry k times the slowest of them: the best k. */
static size_t best_count(const struct ddl__facts *facts, const size_t *indices, size_t n)
{
	uint64_t best = 0;
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t sum = (uint64_t)(i + 1) * speed_of(&facts->interfaces[indices[i]]);

		if (sum > best) {
			best = sum;
			count = i + 1;
		}
	}
	return count;
}

/* Whether both addresses are of one network, as far as that is known. */
static int in_one_subnet(const struct ddl__interface *a, const struct ddl__interface *b)
{
	int family = strchr(a->address, ':') ? AF_INET6 : AF_INET;
	uint8_t x[16] = { 0 }, y[16] = { 0 };
	uint32_t bits = a->prefix;

	if (!a->prefix || a->prefix != b->prefix || bits > (family == AF_INET ? 32 : 128) ||
	    inet_pton(family, a->address, x) != 1 || inet_pton(family, b->address, y) != 1)
		return 0;
	for (uint32_t i = 0; i < bits; i++)
		if ((x[i / 8] ^ y[i / 8]) & (0x80 >> i % 8))
			return 0;
	return 1;
}

/* Of several in one subnet the first stays: routes would send what is for the others over it. Returns how many are left. */
static size_t drop_doubles(const struct ddl__facts *facts, size_t *indices, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		size_t before = 0;

		while (before < kept && !in_one_subnet(&facts->interfaces[indices[before]], &facts->interfaces[indices[i]]))
			before++;
		if (before == kept)
			indices[kept++] = indices[i];
	}
	return kept;
}

static void choose_by_rule(const struct ddl__facts *facts, size_t *indices, size_t *n)
{
	size_t count = 0;

	for (size_t i = 0; i < facts->n_interfaces; i++) {
		const struct ddl__interface *interface = &facts->interfaces[i];
		size_t at = count;

		if (!interface->up || interface->loopback || interface->virtual || !*interface->address)
			continue;
		for (; at > 0 && goes_before(interface, &facts->interfaces[indices[at - 1]]); at--)
			indices[at] = indices[at - 1];
		indices[at] = i;
		count++;
	}
	count = best_count(facts, indices, drop_doubles(facts, indices, count));
	for (size_t i = 0; i < facts->n_interfaces && count == 0; i++)
		if (facts->interfaces[i].loopback && *facts->interfaces[i].address)
			indices[count++] = i;
	*n = count;
}

static int no_such_interface(const struct ddl__facts *facts, const char *name, size_t length, struct ddl_error *err)
{
	char word[40], all[300] = "";
	size_t used = 0;

	for (size_t i = 0; i < facts->n_interfaces && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", facts->interfaces[i].name);
	return ddl__error_set(err, -ENOENT,
			      "node %.64s has no network interface %s; it has %s: name some of these in DDL_NET, or unset it",
			      facts->node, ddl__error_word(word, sizeof(word), name, length), *all ? all : "none");
}

int ddl__facts_choose_interfaces(const struct ddl__facts *facts, const char *wanted, size_t *indices, size_t *n,
				 struct ddl_error *err)
{
	size_t chosen[DDL__INTERFACES_MAX], count = 0;

	if (!wanted || !*wanted) {
		choose_by_rule(facts, indices, n);
		return 0;
	}
	for (const char *name = wanted; *name;) {
		size_t length = strcspn(name, ","), i = 0, before = 0;

		while (i < facts->n_interfaces &&
		       (strlen(facts->interfaces[i].name) != length || memcmp(facts->interfaces[i].name, name, length)))
			i++;
		if (length && i == facts->n_interfaces)
			return no_such_interface(facts, name, length, err);
		if (length && !*facts->interfaces[i].address)
			return ddl__error_set(err, -ENOENT, "network interface %s of node %.64s has no address: name one that has",
					      facts->interfaces[i].name, facts->node);
		while (before < count && chosen[before] != i)
			before++;
		if (length && before == count)
			chosen[count++] = i;
		name += length + (name[length] == ',');
	}
	if (count == 0)
		return no_such_interface(facts, wanted, strlen(wanted), err);
	memcpy(indices, chosen, count * sizeof(*chosen));
	*n = count;
	return 0;
}
