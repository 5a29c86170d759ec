/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info_rdma.c - RDMA devices: every port with what it is known by, and the rail that it becomes or why it becomes none.
 */
#include "info.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#ifdef DDL_HAVE_VERBS
#include "settings.h"
#include "survey.h"

static const char *state_name(enum ibv_port_state state)
{
	static const char *const names[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER" };

	return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static json_t *make_port(const struct ddl__verbs_port *port)
{
	json_t *row = json_pack("{ss si}", "device", port->device->name, "port", (int)port->number);
	static const union ibv_gid none;
	char gid[INET6_ADDRSTRLEN];

	if (*port->why)
		json_object_set_new(row, "why", json_string(port->why));
	if (port->number == 0) /* it could not be opened */
		return row;
	json_object_update_new(row, json_pack("{ss ss si si si}", "state", state_name(port->state), "link_layer",
					      port->kind == DDL__VERBS_IB ? "InfiniBand" : "Ethernet", "speed_Mbps",
					      (int)port->speed_Mbps, "mtu", (int)ddl__verbs_mtu_bytes(port->mtu), "numa",
					      port->device->numa));
	if (memcmp(&port->gid, &none, sizeof(none)) != 0)
		json_object_update_new(row, json_pack("{ss ss si}", "gid", ddl__verbs_gid(port->kind, port->gid.raw, gid),
						      "gid_kind", ddl__verbs_kind_name(port->kind), "gid_index", port->gid_index));
	if (*port->netdev)
		json_object_set_new(row, "interface", json_string(port->netdev));
	if (port->rail >= 0)
		json_object_set_new(row, "rail", json_integer(port->rail));
	return row;
}

json_t *ddl__info_rdma(const char *root, const struct ddl__facts *facts, const struct ddl__verbs_api *api)
{
	struct ddl__rdma_settings settings;
	struct ddl__verbs_ports ports = { .n = 0 };
	json_t *rdma = json_object(), *rows = json_array();
	struct ddl__verbs_api loaded;
	struct ddl_error err = { .text = "" }, refused = { .text = "" };
	char why[256] = "";
	int rc = ddl__settings_rdma(&settings, &err);

	if (rc == 0 && !api && ddl__verbs_load(&loaded, why, sizeof(why)) < 0)
		json_object_set_new(rdma, "why", json_string(why));
	else if (rc < 0 || ddl__survey(root, facts, &settings, api ? api : &loaded, &ports, &refused, &err) < 0)
		json_object_set_new(rdma, "why", json_string(err.text));
	else if (refused.code && ports.n > 0)
		json_object_set_new(rdma, "why", json_string(refused.text));
	for (size_t i = 0; i < ports.n; i++)
		json_array_append_new(rows, make_port(&ports.ports[i]));
	json_object_set_new(rdma, "ports", rows);
	ddl__verbs_ports_close(&ports);
	return rdma;
}

#else
json_t *ddl__info_rdma(const char *root, const struct ddl__facts *facts, const struct ddl__verbs_api *api)
{
	return json_pack("{ss s[]}", "why", "this build is without RDMA", "ports");
}
#endif

static void print_port(FILE *out, const json_t *port)
{
	const char *device = "?", *state = NULL, *layer = "", *gid = NULL, *kind = "", *interface = NULL, *why = NULL;
	int number = 0, speed = 0, mtu = 0, index = -1, numa = -1, rail = -1;
	char name[96];

	json_unpack((json_t *)port, "{s?s s?i s?s s?s s?s s?s s?s s?s s?i s?i s?i s?i s?i}", "device", &device, "port", &number,
		    "state", &state, "link_layer", &layer, "gid", &gid, "gid_kind", &kind, "interface", &interface, "why", &why,
		    "speed_Mbps", &speed, "mtu", &mtu, "gid_index", &index, "numa", &numa, "rail", &rail);
	snprintf(name, sizeof(name), number ? "%s:%d" : "%s", device, number);
	fprintf(out, "  RDMA %-9s ", name);
	if (state)
		fprintf(out, "%s, %s, ", state, layer);
	if (speed > 0)
		fprintf(out, "%d Mbit/s, ", speed);
	if (state)
		fprintf(out, "MTU %d, ", mtu);
	if (gid)
		fprintf(out, "GID %d: %s (%s), ", index, gid, kind);
	if (interface)
		fprintf(out, "interface %s, ", interface);
	if (numa >= 0)
		fprintf(out, "NUMA node %d, ", numa);
	if (rail >= 0)
		fprintf(out, "rail %d\n", rail);
	else
		fprintf(out, "not used%s%s\n", why ? ": " : "", why ? why : "");
}

void ddl__info_print_rdma(FILE *out, const json_t *rdma)
{
	const json_t *ports = json_object_get(rdma, "ports"), *port;
	const char *why = json_string_value(json_object_get(rdma, "why"));
	size_t i;

	json_array_foreach(ports, i, port)
	{
		print_port(out, port);
	}
	if (json_array_size(ports) == 0)
		fprintf(out, "  RDMA           none%s%s\n", why ? ": " : "", why ? why : "");
	else if (why)
		fprintf(out, "  RDMA           not used: %s\n", why);
}
