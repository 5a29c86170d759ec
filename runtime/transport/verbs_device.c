/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.c - see verbs_device.h: devices and ports are opened and described here, chosen in verbs_rails.c.
 *
 * Of which type a GID is, and of which interface, the library says where it is new enough, else sysfs. Of several GIDs of a RoCE
 * port that one is taken that gets furthest: RoCE v2 over IPv4 is what networks are set up for, IPv6 is routed too unless it is
 * link-local, and RoCE v1 is not IP at all. InfiniBand's first GID is the port's own.
 */
#include "verbs_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hostlist.h"
#include "verbs.h"
#include "verbs_inside.h"

#define IB       "sys/class/infiniband"
#define GIDS_MAX 256 /* entries of a port's table that are looked at */

_Static_assert(sizeof(struct ddl__verbs_address) == 44, "the address has no padding");

/* Names */

const char *ddl__verbs_kind_name(enum ddl__verbs_kind kind)
{
	switch (kind) {
	case DDL__VERBS_IB:
		return "InfiniBand";
	case DDL__VERBS_ROCE_V1:
		return "RoCE v1";
	case DDL__VERBS_ROCE_IPV4:
		return "RoCE v2, IPv4";
	case DDL__VERBS_ROCE_IPV6:
		return "RoCE v2, IPv6";
	case DDL__VERBS_ROCE_LINK:
		return "RoCE v2, link-local IPv6";
	}
	return "unknown";
}

const char *ddl__verbs_gid(enum ddl__verbs_kind kind, const uint8_t *gid, char *text)
{
	const bool v4 = kind == DDL__VERBS_ROCE_IPV4;

	return inet_ntop(v4 ? AF_INET : AF_INET6, gid + (v4 ? 12 : 0), text, INET6_ADDRSTRLEN);
}

unsigned ddl__verbs_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* GIDs */

struct gid { /* an entry of a port's table */
	int index;
	enum ddl__verbs_kind kind;
	union ibv_gid gid;
	char netdev[32];
};

static enum ddl__verbs_kind kind_of(const union ibv_gid *gid, bool ethernet, bool v2)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (!ethernet)
		return DDL__VERBS_IB;
	if (!v2)
		return DDL__VERBS_ROCE_V1;
	if (!memcmp(gid->raw, mapped, sizeof(mapped)))
		return DDL__VERBS_ROCE_IPV4;
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? DDL__VERBS_ROCE_LINK : DDL__VERBS_ROCE_IPV6;
}

/* Reads an entry; false: it is empty. */
static bool read_gid(const char *root, const struct ddl__verbs_port *port, int index, bool ethernet, struct gid *gid)
{
	const struct ddl__verbs_device *device = port->device;
	const struct ddl__verbs_api *api = device->api;
	static const union ibv_gid none;
	struct ibv_gid_entry entry = { 0 };
	char type[32];
	int rc = api->query_gid_ex ? api->query_gid_ex(device->context, port->number, (uint32_t)index, &entry, 0, sizeof(entry))
				   : EOPNOTSUPP;
	bool v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;

	memset(gid, 0, sizeof(*gid));
	gid->index = index;
	if (rc == ENODATA)
		return false;
	if (rc) {
		if (api->query_gid(device->context, port->number, index, &entry.gid))
			return false;
		ddl__sysfs_line(root, type, sizeof(type), IB "/%s/ports/%u/gid_attrs/types/%d", device->name, port->number, index);
		v2 = !strcmp(type, "RoCE v2");
	}
	gid->gid = entry.gid;
	if (!memcmp(&gid->gid, &none, sizeof(none)))
		return false;
	gid->kind = kind_of(&gid->gid, ethernet, v2);
	if (!ethernet)
		return true;
	ddl__sysfs_line(root, gid->netdev, sizeof(gid->netdev), IB "/%s/ports/%u/gid_attrs/ndevs/%d", device->name, port->number,
			index);
	if (!*gid->netdev && !*root && entry.ndev_ifindex) {
		char name[IF_NAMESIZE];

		if (if_indextoname(entry.ndev_ifindex, name))
			snprintf(gid->netdev, sizeof(gid->netdev), "%s", name);
	}
	return true;
}

/* How far packets of that kind get: more is better. */
static int reach_of(enum ddl__verbs_kind kind)
{
	switch (kind) {
	case DDL__VERBS_ROCE_IPV4:
		return 4;
	case DDL__VERBS_ROCE_IPV6:
		return 3;
	case DDL__VERBS_ROCE_LINK:
		return 2;
	default:
		return 1;
	}
}

/* The best entry of an interface (NULL: of any); of equal ones the first. */
static const struct gid *best_gid(const struct gid *gids, size_t n, const char *netdev)
{
	const struct gid *best = NULL;

	for (size_t i = 0; i < n; i++)
		if ((!netdev || !strcmp(gids[i].netdev, netdev)) && (!best || reach_of(gids[i].kind) > reach_of(best->kind)))
			best = &gids[i];
	return best;
}

/* Of the interface that comes first among those of this rank, which *at tells; else of any (*at: n_interfaces). */
static const struct gid *choose_gid(const struct gid *gids, size_t n, const struct ddl__verbs_choice *choice, size_t *at)
{
	for (*at = 0; choice->interfaces && *at < choice->n_interfaces; ++*at) {
		const struct gid *gid = best_gid(gids, n, choice->interfaces[*at]);

		if (gid)
			return gid;
	}
	*at = choice->interfaces ? choice->n_interfaces : 0;
	return best_gid(gids, n, NULL);
}

static void fill_gid(const struct ddl__verbs_choice *choice, const struct ibv_port_attr *attr, bool ethernet,
		     struct ddl__verbs_candidate *candidate)
{
	struct ddl__verbs_port *port = &candidate->port;
	const int wanted = choice->settings->gid_index, first = wanted < 0 ? 0 : wanted;
	const int end = wanted < 0 ? (attr->gid_tbl_len < GIDS_MAX ? attr->gid_tbl_len : GIDS_MAX) : wanted + 1;
	struct gid gids[GIDS_MAX];
	const struct gid *gid;
	size_t n = 0;

	if (wanted >= attr->gid_tbl_len) {
		snprintf(port->why, sizeof(port->why), "it has GIDs 0 to %d, and DDL_RDMA_GID_INDEX is %d", attr->gid_tbl_len - 1,
			 wanted);
		return;
	}
	for (int i = first; i < end && (ethernet || n == 0); i++)
		n += read_gid(choice->root, port, i, ethernet, &gids[n]);
	gid = choose_gid(gids, n, choice, &candidate->interface);
	if (!gid) {
		if (wanted >= 0)
			snprintf(port->why, sizeof(port->why), "its GID %d, which DDL_RDMA_GID_INDEX names, is empty", wanted);
		else
			snprintf(port->why, sizeof(port->why), "it has no GID%s",
				 ethernet ? "; its network interface has no address" : "");
		return;
	}
	port->gid = gid->gid;
	port->gid_index = gid->index;
	port->kind = gid->kind;
	snprintf(port->netdev, sizeof(port->netdev), "%s", gid->netdev);
}

/* Ports */

/* The partition named, rather as a full member; else the first in the table. */
static void fill_pkey(const struct ddl__verbs_choice *choice, const struct ibv_port_attr *attr, struct ddl__verbs_port *port)
{
	const int wanted = choice->settings->pkey;
	bool found = false;

	for (int i = 0; i < attr->pkey_tbl_len; i++) {
		__be16 raw = 0;
		uint16_t pkey;

		if (port->device->api->query_pkey(port->device->context, port->number, i, &raw))
			break;
		pkey = ntohs(raw);
		if ((pkey & 0x7fff) == 0 || (wanted >= 0 && (pkey & 0x7fff) != (wanted & 0x7fff)) || (found && !(pkey & 0x8000)))
			continue;
		port->pkey = pkey;
		port->pkey_index = (uint16_t)i;
		found = true;
		if (wanted < 0 || (pkey & 0x8000))
			return;
	}
	if (!found && wanted >= 0)
		snprintf(port->why, sizeof(port->why), "it is not in partition 0x%04x, which DDL_RDMA_PKEY names", wanted);
	else if (!found)
		snprintf(port->why, sizeof(port->why), "it is in no partition");
}

static uint32_t speed_of(const char *root, const struct ddl__verbs_port *port, const struct ibv_port_attr *attr)
{
	static const struct {
		uint8_t speed;
		uint32_t Mbps;
	} lanes[] = {
		{ 1, 2500 }, { 2, 5000 }, { 4, 10000 }, { 8, 10000 }, { 16, 14000 }, { 32, 25000 }, { 64, 50000 }, { 128, 100000 },
	};
	static const uint8_t widths[] = { [1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2 };
	const uint8_t width = attr->active_width < sizeof(widths) ? widths[attr->active_width] : 0;
	char rate[64];

	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		if (lanes[i].speed == attr->active_speed && width)
			return lanes[i].Mbps * width;
	/* newer than that: "800 Gb/sec (4X XDR)" */
	ddl__sysfs_line(root, rate, sizeof(rate), IB "/%s/ports/%u/rate", port->device->name, port->number);
	return (uint32_t)(strtoul(rate, NULL, 10) * 1000);
}

static void fill_mtu(const struct ddl__verbs_choice *choice, const struct ibv_port_attr *attr, struct ddl__verbs_port *port)
{
	port->mtu = attr->active_mtu;
	while (choice->settings->mtu && port->mtu > IBV_MTU_256 &&
	       ddl__verbs_mtu_bytes(port->mtu) > (unsigned)choice->settings->mtu)
		port->mtu--;
}

static void fill_port(const struct ddl__verbs_choice *choice, struct ddl__verbs_candidate *candidate)
{
	struct ddl__verbs_port *port = &candidate->port;
	struct ibv_port_attr attr = { 0 };
	char reason[DDL__REASON_SIZE];
	bool ethernet;
	int rc = port->device->api->query_port(port->device->context, port->number, &attr);

	if (rc) {
		snprintf(port->why, sizeof(port->why), "it does not tell its state: %.100s",
			 ddl__error_reason(reason, sizeof(reason), -rc));
		return;
	}
	ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	port->kind = ethernet ? DDL__VERBS_ROCE_V1 : DDL__VERBS_IB; /* until a GID is found */
	port->state = attr.state;
	port->lid = ethernet ? 0 : attr.lid;
	port->grh = (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
	port->speed_Mbps = speed_of(choice->root, port, &attr);
	fill_mtu(choice, &attr, port);
	fill_pkey(choice, &attr, port);
	fill_gid(choice, &attr, ethernet, candidate);
	if (attr.state == IBV_PORT_INIT || attr.state == IBV_PORT_ARMED)
		snprintf(port->why, sizeof(port->why), "it waits to be set up by %s", ethernet ? "its driver" : "a subnet manager");
	else if (attr.state != IBV_PORT_ACTIVE)
		snprintf(port->why, sizeof(port->why), "it is down");
}

/* Devices */

void ddl__verbs_device_close(struct ddl__verbs_device *device)
{
	if (device->pd)
		device->api->dealloc_pd(device->pd);
	if (device->context)
		device->api->close_device(device->context);
	free(device);
}

/* Tries whether RC queue pairs can be made: a device does not tell. Returns 0 or the errno. */
static int try_queue_pair(const struct ddl__verbs_device *device)
{
	const struct ddl__verbs_api *api = device->api;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_cq *cq = api->create_cq(device->context, 2, NULL, NULL, 0);
	struct ibv_qp *qp;
	int rc = 0;

	if (!cq)
		return errno;
	attr.send_cq = attr.recv_cq = cq;
	qp = api->create_qp(device->pd, &attr);
	if (qp)
		api->destroy_qp(qp);
	else
		rc = errno;
	api->destroy_cq(cq);
	return rc;
}

/* Opens it as far as it goes; why ("": all is there) says how far. */
static void open_device(struct ddl__verbs_device *device, struct ibv_device *from, char *why, size_t size)
{
	const struct ddl__verbs_api *api = device->api;
	char reason[DDL__REASON_SIZE];
	int flags, rc;

	if (from->transport_type == IBV_TRANSPORT_IWARP) {
		snprintf(why, size, "it speaks iWARP, which has no write with immediate");
		return;
	}
	device->context = api->open_device(from);
	if (!device->context) {
		snprintf(why, size, "it cannot be opened: %.100s", ddl__error_reason(reason, sizeof(reason), -errno));
		return;
	}
	flags = fcntl(device->context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(device->context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		rc = errno;
	else
		rc = api->query_device(device->context, &device->limits);
	if (rc == 0) {
		device->pd = api->alloc_pd(device->context);
		rc = device->pd ? 0 : errno;
	}
	if (rc) {
		snprintf(why, size, "it cannot be used: %.100s", ddl__error_reason(reason, sizeof(reason), -rc));
		return;
	}
	if ((unsigned)device->limits.max_qp_wr < DDL__VERBS_RECEIVES ||
	    (unsigned)device->limits.max_cqe < DDL__VERBS_RECEIVES + DDL__VERBS_SENDS) {
		snprintf(why, size, "its queues take %d work requests and %d completions, and %u and %u are needed",
			 device->limits.max_qp_wr, device->limits.max_cqe, DDL__VERBS_RECEIVES,
			 DDL__VERBS_RECEIVES + DDL__VERBS_SENDS);
		return;
	}
	rc = try_queue_pair(device);
	if (rc)
		snprintf(why, size, "it makes no queue pairs for reliable connections (RC): %.80s",
			 ddl__error_reason(reason, sizeof(reason), -rc));
}

static int add_candidate(struct ddl__verbs_survey *survey, struct ddl__verbs_device *device, uint8_t number, const char *why)
{
	struct ddl__verbs_candidate *more = realloc(survey->candidates, (survey->n_candidates + 1) * sizeof(*survey->candidates));

	if (!more)
		return -ENOMEM;
	survey->candidates = more;
	more += survey->n_candidates++;
	memset(more, 0, sizeof(*more));
	more->port.device = device;
	more->port.number = number;
	more->port.rail = -1;
	snprintf(more->port.why, sizeof(more->port.why), "%s", why);
	return 0;
}

static int add_device(struct ddl__verbs_survey *survey, struct ibv_device *from)
{
	struct ddl__verbs_device *device = calloc(1, sizeof(*device)), **more;
	char why[sizeof(survey->candidates->port.why)] = "";
	int rc = 0;

	more = device ? realloc(survey->devices, (survey->n_devices + 1) * sizeof(*survey->devices)) : NULL;
	if (!more) {
		free(device);
		return -ENOMEM;
	}
	survey->devices = more;
	more[survey->n_devices++] = device;
	device->api = survey->api;
	snprintf(device->name, sizeof(device->name), "%s", survey->api->get_device_name(from));
	device->numa = (int)ddl__sysfs_number(survey->choice->root, -1, IB "/%s/device/numa_node", device->name);
	open_device(device, from, why, sizeof(why));
	if (*why)
		return add_candidate(survey, device, 0, why);
	for (unsigned i = 1; i <= device->limits.phys_port_cnt && rc == 0; i++) {
		rc = add_candidate(survey, device, (uint8_t)i, "");
		if (rc == 0)
			fill_port(survey->choice, &survey->candidates[survey->n_candidates - 1]);
	}
	return rc;
}

static bool is_wanted(const struct ddl__rdma_settings *settings, const char *name)
{
	for (size_t i = 0; i < settings->n_ports; i++)
		if (!strcmp(settings->ports[i].device, name))
			return true;
	return settings->n_ports == 0;
}

int ddl__verbs_survey_open(struct ddl__verbs_survey *survey, bool wanted_only)
{
	const struct ddl__verbs_api *api = survey->api;
	struct ibv_device **list, *swap;
	int n = 0, rc = 0;

	list = api->get_device_list(&n);
	if (!list)
		return errno == ENOMEM ? -ENOMEM : 0; /* a kernel without RDMA */
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && ddl__name_compare(api->get_device_name(list[j - 1]), api->get_device_name(list[j])) > 0;
		     j--) {
			swap = list[j];
			list[j] = list[j - 1];
			list[j - 1] = swap;
		}
	for (int i = 0; i < n && rc == 0; i++) {
		const char *name = api->get_device_name(list[i]);

		if (strlen(survey->names) + strlen(name) + 3 < sizeof(survey->names)) {
			strcat(survey->names, *survey->names ? ", " : "");
			strcat(survey->names, name);
		}
		if (!wanted_only || is_wanted(survey->choice->settings, name))
			rc = add_device(survey, list[i]);
	}
	api->free_device_list(list);
	return rc;
}

void ddl__verbs_survey_close(struct ddl__verbs_survey *survey)
{
	for (size_t i = 0; i < survey->n_devices; i++)
		ddl__verbs_device_close(survey->devices[i]);
	free(survey->devices);
	free(survey->candidates);
	survey->devices = NULL;
	survey->candidates = NULL;
	survey->n_devices = survey->n_candidates = 0;
}

void ddl__verbs_ports_close(struct ddl__verbs_ports *ports)
{
	for (size_t i = 0; i < ports->n_devices; i++)
		ddl__verbs_device_close(ports->devices[i]);
	free(ports->devices);
	free(ports->ports);
	memset(ports, 0, sizeof(*ports));
}

/* Addresses */

void ddl__verbs_port_describe(const struct ddl__verbs_port *port, struct ddl__verbs_address *address)
{
	memcpy(address->gid, port->gid.raw, sizeof(address->gid));
	address->lid = port->lid;
	address->pkey = port->pkey;
	address->kind = (uint8_t)port->kind;
	address->mtu = (uint8_t)port->mtu;
	address->port = port->number;
	address->reserved = 0;
}

static bool is_sound(const struct ddl__verbs_address *address)
{
	return address->kind >= DDL__VERBS_IB && address->kind <= DDL__VERBS_ROCE_LINK && address->mtu >= IBV_MTU_256 &&
	       address->mtu <= IBV_MTU_4096 && (address->kind != DDL__VERBS_IB || address->lid != 0);
}

/* Members of a partition talk to each other, unless both are limited ones. */
static bool share_partition(uint16_t a, uint16_t b)
{
	return (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000);
}

bool ddl__verbs_joins(const struct ddl__verbs_address *a, const struct ddl__verbs_address *b)
{
	if (!is_sound(a) || !is_sound(b) || a->kind != b->kind || !share_partition(a->pkey, b->pkey))
		return false;
	/* between InfiniBand subnets there are routers, whose LIDs nobody here knows */
	return a->kind != DDL__VERBS_IB || !memcmp(a->gid, b->gid, 8);
}

void ddl__verbs_why_apart(const struct ddl__verbs_address *ours, const struct ddl__verbs_address *theirs, char *why, size_t size)
{
	if (!is_sound(ours) || !is_sound(theirs))
		snprintf(why, size, "its address is malformed: all ranks need the same version of DDL");
	else if (ours->kind != theirs->kind)
		snprintf(why, size,
			 "its port has an address of the kind %s and this one's %s: set DDL_RDMA_GID_INDEX on each node so that "
			 "all are "
			 "of one kind (ddl info --alone)",
			 ddl__verbs_kind_name((enum ddl__verbs_kind)theirs->kind),
			 ddl__verbs_kind_name((enum ddl__verbs_kind)ours->kind));
	else if (!share_partition(ours->pkey, theirs->pkey))
		snprintf(why, size,
			 "its key of a partition is 0x%04x and this one's 0x%04x: set DDL_RDMA_PKEY alike on all nodes, to a key "
			 "of which "
			 "they are full members",
			 theirs->pkey, ours->pkey);
	else
		snprintf(why, size, "its port is in another subnet of InfiniBand: name ports of one subnet by DDL_RDMA");
}

void ddl__verbs_path(const struct ddl__verbs_port *port, const struct ddl__verbs_address *peer,
		     const struct ddl__rdma_settings *settings, struct ibv_qp_attr *attr)
{
	static const struct ddl__rdma_settings nothing_set = DDL__RDMA_SETTINGS_INIT;
	struct ibv_ah_attr *path = &attr->ah_attr;

	if (!settings)
		settings = &nothing_set;
	memset(path, 0, sizeof(*path));
	path->dlid = peer->lid;
	path->sl = (uint8_t)settings->service_level;
	path->port_num = port->number;
	path->is_global = port->kind != DDL__VERBS_IB || port->grh;
	if (path->is_global) {
		memcpy(path->grh.dgid.raw, peer->gid, sizeof(path->grh.dgid.raw));
		path->grh.sgid_index = (uint8_t)port->gid_index;
		path->grh.hop_limit = 64;
		path->grh.traffic_class = (uint8_t)settings->traffic_class;
	}
	attr->path_mtu = (enum ibv_mtu)peer->mtu < port->mtu ? (enum ibv_mtu)peer->mtu : port->mtu;
	attr->pkey_index = port->pkey_index;
	attr->port_num = port->number;
}
