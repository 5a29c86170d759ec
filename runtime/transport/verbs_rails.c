/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rails.c - see verbs_device.h: which ports become rails.
 *
 * Whatever is not taken is told why, in its own `why`: `ddl info` shows it, and where nothing is left the sentence is made of it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "verbs_inside.h"

static const struct ddl__rdma_settings nothing_set = DDL__RDMA_SETTINGS_INIT;

struct picked { /* candidates, in the order of rails */
	struct ddl__verbs_candidate **list;
	size_t n;
};

static bool is_usable(const struct ddl__verbs_candidate *candidate)
{
	return !*candidate->port.why;
}

static void __attribute__((format(printf, 2, 3))) refuse(struct ddl__verbs_candidate *candidate, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(candidate->port.why, sizeof(candidate->port.why), fmt, args);
	va_end(args);
}

/* Takes out those that were refused meanwhile. */
static void drop_refused(struct picked *picked)
{
	size_t kept = 0;

	for (size_t i = 0; i < picked->n; i++)
		if (is_usable(picked->list[i]))
			picked->list[kept++] = picked->list[i];
	picked->n = kept;
}

/* By rule */

/* Whether a goes before b: InfiniBand first, then by interfaces; else the order is left. */
static bool goes_before(const struct ddl__verbs_candidate *a, const struct ddl__verbs_candidate *b)
{
	if ((a->port.kind == DDL__VERBS_IB) != (b->port.kind == DDL__VERBS_IB))
		return a->port.kind == DDL__VERBS_IB;
	return a->port.kind != DDL__VERBS_IB && a->interface < b->interface;
}

static void pick_usable(struct ddl__verbs_survey *survey, struct picked *picked)
{
	const struct ddl__verbs_choice *choice = survey->choice;

	for (size_t i = 0; i < survey->n_candidates; i++) {
		struct ddl__verbs_candidate *candidate = &survey->candidates[i];
		size_t at = picked->n;

		if (!is_usable(candidate))
			continue;
		if (candidate->port.kind != DDL__VERBS_IB && choice->interfaces && candidate->interface == choice->n_interfaces) {
			refuse(candidate, "its network interface%s%s is none of those that traffic goes over",
			       *candidate->port.netdev ? " " : "", candidate->port.netdev);
			continue;
		}
		for (; at > 0 && goes_before(candidate, picked->list[at - 1]); at--)
			picked->list[at] = picked->list[at - 1];
		picked->list[at] = candidate;
		picked->n++;
	}
}

/* k rails carry k times the slowest of them: those stay that together carry most. Where a speed is not known, all do. */
static void drop_slow(struct picked *picked)
{
	uint64_t best = 0;
	uint32_t least = 0;

	for (size_t i = 0; i < picked->n; i++) {
		const uint32_t speed = picked->list[i]->port.speed_Mbps;
		uint64_t sum = 0;

		if (!speed)
			return;
		for (size_t j = 0; j < picked->n; j++)
			sum += picked->list[j]->port.speed_Mbps >= speed ? speed : 0;
		if (sum > best || (sum == best && speed > least)) {
			best = sum;
			least = speed;
		}
	}
	for (size_t i = 0; i < picked->n; i++)
		if (picked->list[i]->port.speed_Mbps < least)
			refuse(picked->list[i], "with %u Mbit/s it would slow the others down, which have %u",
			       picked->list[i]->port.speed_Mbps, least);
	drop_refused(picked);
}

/* Whether some of these hardware threads are on a NUMA node. */
static bool is_near(const char *root, const struct ddl__cpus *cpus, int numa)
{
	struct ddl__cpus there;
	char list[1024];

	ddl__sysfs_line(root, list, sizeof(list), "sys/devices/system/node/node%d/cpulist", numa);
	ddl__cpus_parse(&there, list);
	for (size_t i = 0; i < DDL__CPUS_MAX / 64; i++)
		if (there.bits[i] & cpus->bits[i])
			return true;
	return false;
}

/* Where some are near, those stay, and such as nobody knows of. */
static void drop_far(const struct ddl__verbs_choice *choice, struct picked *picked)
{
	const struct ddl__cpus *cpus = choice->cpus;
	bool any = false;

	for (size_t i = 0; cpus && i < picked->n && !any; i++)
		any = picked->list[i]->port.device->numa >= 0 && is_near(choice->root, cpus, picked->list[i]->port.device->numa);
	for (size_t i = 0; i < picked->n && any; i++) {
		const int numa = picked->list[i]->port.device->numa;

		if (numa >= 0 && !is_near(choice->root, cpus, numa))
			refuse(picked->list[i], "it is on NUMA node %d, far from this process's cores, and others are near", numa);
	}
	drop_refused(picked);
}

static void choose_by_rule(struct ddl__verbs_survey *survey, struct picked *picked)
{
	pick_usable(survey, picked);
	drop_slow(picked);
	drop_far(survey->choice, picked);
	for (size_t i = DDL__RAILS_MAX; i < picked->n; i++)
		refuse(picked->list[i], "a process has at most %d rails", DDL__RAILS_MAX);
	drop_refused(picked);
}

/* By name */

static int refuse_named(const struct ddl__rdma_port *named, const struct ddl__verbs_candidate *candidate, struct ddl_error *err)
{
	char device[DDL__DEVICE_MAX + 4], port[16] = "";

	if (candidate->port.number)
		snprintf(port, sizeof(port), " port %u", candidate->port.number);
	return ddl__error_set(err, -ENODEV, "DDL_RDMA names %s%s, which cannot be used: %s; name another or unset it",
			      ddl__error_word(device, sizeof(device), named->device, strlen(named->device)), port,
			      candidate->port.why);
}

static int no_such_port(const struct ddl__verbs_survey *survey, const struct ddl__rdma_port *named, unsigned ports,
			struct ddl_error *err)
{
	char device[DDL__DEVICE_MAX + 4];

	ddl__error_word(device, sizeof(device), named->device, strlen(named->device));
	if (ports)
		return ddl__error_set(err, -EINVAL,
				      "DDL_RDMA names port %d of %s, which has %s%u; name one that it has, or none for all",
				      named->port, device, ports > 1 ? "ports 1 to " : "only port ", ports);
	if (!*survey->names)
		return ddl__error_set(err, -ENODEV, "DDL_RDMA names %s, and this node has no RDMA device; unset it", device);
	return ddl__error_set(err, -EINVAL,
			      "DDL_RDMA names %s, which this node does not have; it has %s: name some of these, or unset it",
			      device, survey->names);
}

/* Takes what one name says: a port, or all of a device that can be used. */
static int pick_named(struct ddl__verbs_survey *survey, const struct ddl__rdma_port *named, struct picked *picked,
		      struct ddl_error *err)
{
	const struct ddl__verbs_candidate *refused = NULL;
	const size_t before = picked->n;
	unsigned ports = 0;

	for (size_t i = 0; i < survey->n_candidates; i++) {
		struct ddl__verbs_candidate *candidate = &survey->candidates[i];

		if (strcmp(candidate->port.device->name, named->device))
			continue;
		ports++;
		if (named->port && candidate->port.number && candidate->port.number != named->port)
			continue;
		if (!is_usable(candidate)) {
			refused = refused ? refused : candidate;
			continue;
		}
		for (size_t k = 0; k < picked->n; k++)
			if (picked->list[k] == candidate)
				return ddl__error_set(err, -EINVAL, "DDL_RDMA names port %u of %s twice", candidate->port.number,
						      candidate->port.device->name);
		picked->list[picked->n++] = candidate;
	}
	if (picked->n > before)
		return 0;
	return refused ? refuse_named(named, refused, err) : no_such_port(survey, named, ports, err);
}

static int choose_by_name(struct ddl__verbs_survey *survey, struct picked *picked, struct ddl_error *err)
{
	const struct ddl__rdma_settings *settings = survey->choice->settings;
	int rc = 0;

	for (size_t i = 0; i < settings->n_ports && rc == 0; i++)
		rc = pick_named(survey, &settings->ports[i], picked, err);
	if (rc)
		return rc;
	if (picked->n > DDL__RAILS_MAX)
		return ddl__error_set(err, -EINVAL, "DDL_RDMA names %zu ports; a process has at most %d rails", picked->n,
				      DDL__RAILS_MAX);
	return 0;
}

/* Both */

static int none_usable(const struct ddl__verbs_survey *survey, struct ddl_error *err)
{
	char all[400] = "";
	size_t used = 0;

	if (survey->n_candidates == 0)
		return ddl__error_set(err, -ENODEV, "verbs: this node has no RDMA device");
	for (size_t i = 0; i < survey->n_candidates && used < sizeof(all); i++) {
		const struct ddl__verbs_port *port = &survey->candidates[i].port;

		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", used ? "; " : "", port->device->name);
		if (port->number && used < sizeof(all))
			used += (size_t)snprintf(all + used, sizeof(all) - used, " port %u", port->number);
		if (used < sizeof(all))
			used += (size_t)snprintf(all + used, sizeof(all) - used, ": %s", port->why);
	}
	return ddl__error_set(err, -ENODEV, "verbs: no RDMA port of this node can be used: %s", all);
}

/* Gives candidates their rails. Returns as ddl__verbs_ports_open(). */
static int choose(struct ddl__verbs_survey *survey, struct ddl_error *err)
{
	struct picked picked = { .list = malloc((survey->n_candidates + 1) * sizeof(*picked.list)) };
	int rc = 0;

	if (!picked.list)
		return ddl__error_memory(err);
	if (survey->choice->settings->n_ports)
		rc = choose_by_name(survey, &picked, err);
	else
		choose_by_rule(survey, &picked);
	for (size_t i = 0; i < picked.n && rc == 0; i++)
		picked.list[i]->port.rail = (int)i;
	for (size_t i = 0; i < survey->n_candidates; i++)
		if (is_usable(&survey->candidates[i]) && survey->candidates[i].port.rail < 0)
			refuse(&survey->candidates[i], rc ? "what DDL_RDMA names cannot be used" : "DDL_RDMA does not name it");
	if (rc == 0 && picked.n == 0)
		rc = none_usable(survey, err);
	free(picked.list);
	return rc;
}

static struct ddl__verbs_choice complete(const struct ddl__verbs_choice *choice)
{
	struct ddl__verbs_choice full = *choice;

	full.root = choice->root ? choice->root : "";
	full.settings = choice->settings ? choice->settings : &nothing_set;
	return full;
}

/* Hands over the ports, or (rails_only) the rails in their order, and the devices that these are of. */
static int hand_over(struct ddl__verbs_survey *survey, bool rails_only, struct ddl__verbs_ports *ports, struct ddl_error *err)
{
	struct ddl__verbs_port *list = calloc(survey->n_candidates + 1, sizeof(*list));
	size_t n = 0, kept = 0;

	if (!list)
		return ddl__error_memory(err);
	for (size_t i = 0; i < survey->n_candidates; i++) {
		const struct ddl__verbs_port *port = &survey->candidates[i].port;

		if (rails_only && port->rail < 0)
			continue;
		list[rails_only ? (size_t)port->rail : n] = *port;
		n++;
	}
	for (size_t i = 0; i < survey->n_devices; i++) {
		bool used = !rails_only;

		for (size_t k = 0; k < n && !used; k++)
			used = list[k].device == survey->devices[i];
		if (used)
			survey->devices[kept++] = survey->devices[i];
		else
			ddl__verbs_device_close(survey->devices[i]);
	}
	*ports = (struct ddl__verbs_ports){ .devices = survey->devices, .n_devices = kept, .ports = list, .n = n };
	survey->devices = NULL;
	survey->n_devices = 0;
	return 0;
}

int ddl__verbs_ports_open(const struct ddl__verbs_api *api, const struct ddl__verbs_choice *choice, struct ddl__verbs_ports *ports,
			  struct ddl_error *err)
{
	const struct ddl__verbs_choice full = complete(choice);
	struct ddl__verbs_survey survey = { .api = api, .choice = &full };
	int rc = ddl__verbs_survey_open(&survey, true);

	rc = rc ? ddl__error_memory(err) : choose(&survey, err);
	if (rc == 0)
		rc = hand_over(&survey, true, ports, err);
	ddl__verbs_survey_close(&survey);
	return rc;
}

int ddl__verbs_ports_survey(const struct ddl__verbs_api *api, const struct ddl__verbs_choice *choice,
			    struct ddl__verbs_ports *ports, struct ddl_error *refused, struct ddl_error *err)
{
	const struct ddl__verbs_choice full = complete(choice);
	struct ddl__verbs_survey survey = { .api = api, .choice = &full };
	struct ddl_error reason = { 0 };
	int rc = ddl__verbs_survey_open(&survey, false);

	if (rc == 0 && choose(&survey, &reason) == -ENOMEM)
		rc = -ENOMEM;
	if (rc)
		ddl__error_memory(err);
	else
		rc = hand_over(&survey, false, ports, err);
	if (rc == 0 && refused)
		*refused = reason;
	ddl__verbs_survey_close(&survey);
	return rc;
}
