/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts_text.c - the facts that are told to the other ranks, as one line.
 *
 *     v=1;node=n1;address=spine.leaf.n1;pattern=switch.switch.node;machine=...;numa=2;cores=64;cpus=128;may=0-127;
 *     serve=63;if=eth0,10.1.0.1,25000,1500,0,u;gpu=0000:3b:00.0,0,NVIDIA H100
 *
 * Interfaces are told as far as they are chosen by rule: those that carry traffic. An interface's last field is letters: u up,
 * l loopback, v virtual. Bytes that separate, and all that are not printable ASCII, are written as %XX. Unknown keys are skipped,
 * and so are further fields of known ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "cores.h"
#include "facts.h"

#define VERSION   "1"
#define FIELD_MAX 1100 /* bytes of a decoded field, with NUL */

static void put_escaped(FILE *out, const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c < ' ' || *c > '~' || strchr(";,=%", *c))
			fprintf(out, "%%%02X", *c);
		else
			fputc(*c, out);
	}
}

static void put_pair(FILE *out, const char *key, const char *value)
{
	if (!*value)
		return;
	fprintf(out, ";%s=", key);
	put_escaped(out, value);
}

/* A set that is too ragged for a list is not told. */
static void put_cpus(FILE *out, const char *key, const struct ddl__cpus *cpus)
{
	char list[DDL__CPU_LIST_SIZE];

	if (ddl__cpus_text(cpus, list, sizeof(list)))
		put_pair(out, key, list);
}

static void put_interface(FILE *out, const struct ddl__interface *interface, size_t named)
{
	fputs(";if=", out);
	put_escaped(out, interface->name);
	fputc(',', out);
	put_escaped(out, interface->address);
	fprintf(out, ",%u,%u,%d,%s%s%s%s", interface->speed_Mbps, interface->mtu, interface->numa, interface->up ? "u" : "",
		interface->loopback ? "l" : "", interface->virtual ? "v" : "", named ? "n" : "");
}

/* The interfaces that carry traffic. */
static size_t carriers(const struct ddl__facts *facts, size_t *indices)
{
	size_t n = facts->n_named;

	if (n)
		memcpy(indices, facts->named, n * sizeof(*indices));
	else
		ddl__facts_choose_interfaces(facts, NULL, indices, &n, NULL);
	return n;
}

int ddl__facts_encode(const struct ddl__facts *facts, char **text, struct ddl_error *err)
{
	size_t indices[DDL__INTERFACES_MAX], n, size;
	char *line = NULL;
	FILE *out = open_memstream(&line, &size);
	int failed;

	if (!out)
		return ddl__error_memory(err);
	fputs("v=" VERSION, out);
	put_pair(out, "node", facts->node);
	put_pair(out, "address", facts->address);
	put_pair(out, "pattern", facts->pattern);
	put_pair(out, "machine", facts->machine);
	fprintf(out, ";numa=%u;cores=%u;cpus=%u", facts->numa_nodes, facts->cores, facts->cpus);
	put_cpus(out, "may", &facts->may);
	put_cpus(out, "serve", &facts->serve);
	if (facts->ports)
		fprintf(out, ";ports=%u", facts->ports);
	n = carriers(facts, indices);
	for (size_t i = 0; i < n; i++)
		put_interface(out, &facts->interfaces[indices[i]], facts->n_named);
	for (size_t i = 0; i < facts->n_gpus; i++) {
		fputs(";gpu=", out);
		put_escaped(out, facts->gpus[i].pci);
		fprintf(out, ",%d,", facts->gpus[i].numa);
		put_escaped(out, facts->gpus[i].model);
	}
	failed = ferror(out);
	if (fclose(out) != 0 || failed) {
		free(line);
		return ddl__error_memory(err);
	}
	*text = line;
	return 0;
}

struct reader {                /* where the decoder stands */
	const char *text;      /* start of the whole text */
	const char *at;        /* next byte */
	const char *end;       /* one past the last byte */
	struct ddl_error *err; /* the caller's */
};

static int broken(const struct reader *in, const char *what)
{
	return ddl__error_set(in->err, -EBADMSG, "the facts of a node are broken at byte %zu: %s", (size_t)(in->at - in->text),
			      what);
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads up to the next separator into field, size bytes with NUL. */
static int read_field(struct reader *in, char *field, size_t size)
{
	size_t n = 0;

	for (; in->at < in->end && !memchr(";,=", *in->at, 3); in->at++) {
		char c = *in->at;

		if (c == '%') {
			if (in->end - in->at < 3 || hex(in->at[1]) < 0 || hex(in->at[2]) < 0)
				return broken(in, "% is not followed by two digits");
			c = (char)(hex(in->at[1]) * 16 + hex(in->at[2]));
			in->at += 2;
		}
		if (c == '\0')
			return broken(in, "a NUL byte");
		if (n + 1 >= size)
			return broken(in, "a value is too long");
		field[n++] = c;
	}
	field[n] = '\0';
	return 0;
}

/* The next field of a value; a missing one is an error. */
static int next_field(struct reader *in, char *field, size_t size)
{
	if (in->at >= in->end || *in->at != ',')
		return broken(in, "a value has too few fields");
	in->at++;
	return read_field(in, field, size);
}

static int to_number(const struct reader *in, const char *field, int64_t low, int64_t high, int64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoll(field, &end, 10);
	if (end == field || *end || errno || *number < low || *number > high)
		return broken(in, "a number is malformed or out of range");
	return 0;
}

static int next_number(struct reader *in, int64_t low, int64_t high, int64_t *number)
{
	char field[24];
	int rc = next_field(in, field, sizeof(field));

	return rc < 0 ? rc : to_number(in, field, low, high, number);
}

static int read_number(struct reader *in, uint32_t *value)
{
	char field[24];
	int64_t number = 0;
	int rc = read_field(in, field, sizeof(field));

	if (rc == 0)
		rc = to_number(in, field, 0, UINT32_MAX, &number);
	if (rc == 0)
		*value = (uint32_t)number;
	return rc;
}

static int read_cpus(struct reader *in, struct ddl__cpus *cpus)
{
	char list[DDL__CPU_LIST_SIZE];
	int rc = read_field(in, list, sizeof(list));

	if (rc == 0)
		ddl__cpus_parse(cpus, list);
	return rc;
}

static int read_interface(struct reader *in, struct ddl__facts *facts)
{
	struct ddl__interface interface = { .numa = -1 };
	int64_t speed = 0, mtu = 0, numa = -1;
	char flags[16] = "";
	int rc = read_field(in, interface.name, sizeof(interface.name));

	if (rc == 0)
		rc = next_field(in, interface.address, sizeof(interface.address));
	if (rc == 0)
		rc = next_number(in, 0, UINT32_MAX, &speed);
	if (rc == 0)
		rc = next_number(in, 0, UINT32_MAX, &mtu);
	if (rc == 0)
		rc = next_number(in, -1, INT32_MAX, &numa);
	if (rc == 0)
		rc = next_field(in, flags, sizeof(flags));
	if (rc < 0)
		return rc;
	if (facts->n_interfaces == DDL__INTERFACES_MAX)
		return broken(in, "too many interfaces");
	interface.speed_Mbps = (uint32_t)speed;
	interface.mtu = (uint32_t)mtu;
	interface.numa = (int)numa;
	interface.up = strchr(flags, 'u') != NULL;
	interface.loopback = strchr(flags, 'l') != NULL;
	interface.virtual = strchr(flags, 'v') != NULL;
	if (strchr(flags, 'n'))
		facts->named[facts->n_named++] = facts->n_interfaces;
	facts->interfaces[facts->n_interfaces++] = interface;
	return 0;
}

static int read_gpu(struct reader *in, struct ddl__facts *facts)
{
	struct ddl__gpu gpu = { .numa = -1 };
	int64_t numa = -1;
	int rc = read_field(in, gpu.pci, sizeof(gpu.pci));

	if (rc == 0)
		rc = next_number(in, -1, INT32_MAX, &numa);
	if (rc == 0)
		rc = next_field(in, gpu.model, sizeof(gpu.model));
	if (rc < 0)
		return rc;
	if (facts->n_gpus == DDL__GPUS_MAX)
		return broken(in, "too many GPUs");
	gpu.numa = (int)numa;
	facts->gpus[facts->n_gpus++] = gpu;
	return 0;
}

static int read_value(struct reader *in, const char *key, struct ddl__facts *facts)
{
	if (!strcmp(key, "node"))
		return read_field(in, facts->node, sizeof(facts->node));
	if (!strcmp(key, "address"))
		return read_field(in, facts->address, sizeof(facts->address));
	if (!strcmp(key, "pattern"))
		return read_field(in, facts->pattern, sizeof(facts->pattern));
	if (!strcmp(key, "machine"))
		return read_field(in, facts->machine, sizeof(facts->machine));
	if (!strcmp(key, "numa"))
		return read_number(in, &facts->numa_nodes);
	if (!strcmp(key, "cores"))
		return read_number(in, &facts->cores);
	if (!strcmp(key, "cpus"))
		return read_number(in, &facts->cpus);
	if (!strcmp(key, "ports"))
		return read_number(in, &facts->ports);
	if (!strcmp(key, "may"))
		return read_cpus(in, &facts->may);
	if (!strcmp(key, "serve"))
		return read_cpus(in, &facts->serve);
	if (!strcmp(key, "if"))
		return read_interface(in, facts);
	if (!strcmp(key, "gpu"))
		return read_gpu(in, facts);
	return 0;
}

/* "key=" and what follows it up to the next semicolon. */
static int read_pair(struct reader *in, struct ddl__facts *facts)
{
	char key[32];
	int rc = read_field(in, key, sizeof(key));

	if (rc < 0)
		return rc;
	if (in->at >= in->end || *in->at != '=')
		return broken(in, "a key without a value");
	in->at++;
	rc = read_value(in, key, facts);
	while (rc == 0 && in->at < in->end && *in->at != ';')
		in->at++;
	return rc;
}

static int read_version(struct reader *in)
{
	char version[16], word[24];
	int rc;

	if (in->end - in->at < 2 || memcmp(in->at, "v=", 2))
		return broken(in, "it does not begin with v=");
	in->at += 2;
	rc = read_field(in, version, sizeof(version));
	if (rc < 0)
		return rc;
	if (strcmp(version, VERSION))
		return ddl__error_set(in->err, -EPROTO,
				      "a node tells its facts in version %s, this library knows " VERSION
				      ": use the same version of DDL on "
				      "all nodes",
				      ddl__error_word(word, sizeof(word), version, strlen(version)));
	return 0;
}

int ddl__facts_decode(const char *text, size_t length, struct ddl__facts *facts, struct ddl_error *err)
{
	struct reader in = { .text = text, .at = text, .end = text + length, .err = err };
	struct ddl__facts *found = calloc(1, sizeof(*found));
	int rc;

	if (!found)
		return ddl__error_memory(err);
	found->numa_nodes = 1;
	rc = read_version(&in);
	while (rc == 0 && in.at < in.end) {
		if (*in.at != ';') {
			rc = broken(&in, "a semicolon is missing");
			break;
		}
		in.at++;
		rc = read_pair(&in, found);
	}
	if (rc == 0 && !*found->node)
		rc = broken(&in, "the node's name is missing");
	if (rc == 0)
		*facts = *found;
	free(found);
	return rc;
}

int ddl__place_init(struct ddl__place *place, const struct ddl__facts *facts)
{
	char may[DDL__CPU_LIST_SIZE], serve[DDL__CPU_LIST_SIZE];
	const char *const from[] = { facts->node, facts->address, facts->pattern, facts->machine, may, serve };
	const char **const to[] = { &place->node, &place->address, &place->pattern, &place->machine, &place->may, &place->serve };
	size_t indices[DDL__INTERFACES_MAX], rails, size = 0;

	ddl__cpus_text(&facts->may, may, sizeof(may));
	ddl__cpus_text(&facts->serve, serve, sizeof(serve));
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		size += strlen(from[i]) + 1;
	place->text = malloc(size);
	if (!place->text)
		return -ENOMEM;
	char *at = place->text;
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		*to[i] = strcpy(at, from[i]);
		at += strlen(at) + 1;
	}
	rails = carriers(facts, indices);
	place->rails = facts->ports ? facts->ports : (uint32_t)rails;
	place->rail_numa = rails ? facts->interfaces[indices[0]].numa : -1;
	place->link_Mbps = 0;
	for (size_t i = 0; i < rails; i++) {
		uint32_t speed = facts->interfaces[indices[i]].loopback ? 0 : facts->interfaces[indices[i]].speed_Mbps;

		if (speed && (!place->link_Mbps || speed < place->link_Mbps))
			place->link_Mbps = speed;
	}
	return 0;
}

void ddl__place_fini(struct ddl__place *place)
{
	free(place->text);
	memset(place, 0, sizeof(*place));
}
