/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - reads --ddl=MODE[,key=value...]: one table of modes, one of keys, one for each key that takes a word.
 *
 * Everything that is refused is refused with a sentence that quotes the word and lists what exists. Nothing is changed then.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "counts.h"
#include "error.h"
#include "options.h"

enum key {
	KEY_RINGS = 0,
	KEY_WIRE = 1,
	KEY_ORDER = 2,
	KEY_PROGRESS = 3,
	KEY_TRACE = 4,
	KEY_DIMS = 5,
	KEY_UPLINK = 6,
	KEY_ACCURACY = 7,
	KEY_REPRODUCIBLE = 8,
};

const struct ddl__choice ddl__modes[] = {
	{ DDL__MODE_OFF, "off", "no plan" },
	{ DDL__MODE_AUTO, "auto", "a plan; the runtime chooses the algorithm for each message size" },
	{ DDL__MODE_RING, "ring", "flat rings over all ranks in the order of the switches" },
	{ DDL__MODE_MULTIRING, "multiring", "rings along and over the levels of the switch tree, as suits each message size" },
	{ DDL__MODE_HELP, "help", "print this and end" },
	{ 0, NULL, NULL },
};

const struct ddl__choice ddl__orders[] = {
	{ DDL__ORDER_TOPOLOGY, "topology", "nodes by switch" },
	{ DDL__ORDER_SLURM, "slurm", "nodes as Slurm lists them; switches are ignored" },
	{ 0, NULL, NULL },
};

const struct ddl__choice ddl__wires[] = {
	{ DDL__WIRE_AUTO, "auto", "the runtime chooses" },
	{ DDL__WIRE_NATIVE, "native", "the type of the elements" },
	{ DDL__WIRE_BFLOAT16, "bf16", "float32 data travel as bfloat16" },
	{ DDL__WIRE_FLOAT16, "f16", "float32 data travel as float16, each 256 elements with a scale" },
	{ DDL__WIRE_INT8, "i8", "float32 data travel as int8, each 256 elements with a scale" },
	{ 0, NULL, NULL },
};

const struct ddl__choice ddl__accuracies[] = {
	{ DDL__ACCURACY_AUTO, "auto", "as the wire type has it" },
	{ DDL__ACCURACY_FAST, "fast", "partial results may be rounded at every hop" },
	{ DDL__ACCURACY_FLAT, "flat", "each contribution is rounded once and the result once, however many ranks there are" },
	{ DDL__ACCURACY_EXACT, "exact", "nothing is rounded on its way" },
	{ 0, NULL, NULL },
};

const struct ddl__choice ddl__option_keys[] = {
	{ KEY_RINGS, "rings", "number of rings that share the data: 1 to 64, or auto" },
	{ KEY_WIRE, "wire", "type in which float32 data travel: auto, native, bf16, f16 or i8" },
	{ KEY_ORDER, "order", "order of the nodes: topology or slurm" },
	{ KEY_PROGRESS, "progress", "cores of each rank for service threads, 0 (none) to 8: a communicator has one such thread" },
	{ KEY_TRACE, "trace", "folder that traces are written to" },
	{ KEY_DIMS, "dims", "dimensions of a multi-ring, the innermost first: 4x8x8, or auto" },
	{ KEY_UPLINK, "uplink",
	  "oversubscription of the switches' uplinks, from the leaf switches up: 4:1/2:1; linkspeed or auto" },
	{ KEY_ACCURACY, "accuracy", "what rounding may take from results: auto, fast, flat or exact" },
	{ KEY_REPRODUCIBLE, "reproducible",
	  "1 or no value: all-reduces in an order that is fixed for the number of ranks; 0: not" },
	{ 0, NULL, NULL },
};

_Static_assert(sizeof(ddl__option_keys) / sizeof(ddl__option_keys[0]) == DDL__OPTION_KEYS + 1,
	       "the header knows how many there are");

const struct ddl__choice *ddl__choice_by_id(const struct ddl__choice *table, int id)
{
	for (; table->name; table++)
		if (table->id == id)
			return table;
	return NULL;
}

const struct ddl__choice *ddl__choice_by_name(const struct ddl__choice *table, const char *name, size_t length)
{
	for (; table->name; table++)
		if (strlen(table->name) == length && !memcmp(table->name, name, length))
			return table;
	return NULL;
}

const char *ddl__choice_names(const struct ddl__choice *table, char *list, size_t size)
{
	size_t used = 0;

	list[0] = '\0';
	for (; table->name && used < size; table++)
		used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "", table->name);
	return list;
}

void ddl__options_init(struct ddl__options *options)
{
	memset(options, 0, sizeof(*options));
	options->mode = DDL__MODE_OFF;
	options->wire = DDL__WIRE_AUTO;
	options->order = DDL__ORDER_TOPOLOGY;
	options->progress = -1;
	options->accuracy = DDL__ACCURACY_AUTO;
	options->reproducible = -1;
}

/* -EINVAL: `what "word" is not known; choose from a, b, c`. */
static int refuse_choice(struct ddl_error *err, const char *what, const char *word, size_t length, const struct ddl__choice *table)
{
	char quoted[80], list[256];

	return ddl__error_set(err, -EINVAL, "%s \"%s\" is not known; choose from %s", what,
			      ddl__error_word(quoted, sizeof(quoted), word, length), ddl__choice_names(table, list, sizeof(list)));
}

static int refuse_value(struct ddl_error *err, const char *key, const char *value, size_t length, const char *wanted)
{
	char quoted[80];

	return ddl__error_set(err, -EINVAL, "%s=%s is not possible; %s takes %s", key,
			      ddl__error_word(quoted, sizeof(quoted), value, length), key, wanted);
}

static int set_rings(struct ddl__options *options, const char *value, size_t length, struct ddl_error *err)
{
	uint64_t rings = 0;

	if (length == 4 && !memcmp(value, "auto", 4)) {
		options->rings = 0;
		return 0;
	}
	if (ddl__number_read(value, length, DDL__RINGS_MAX, &rings) < 0 || !rings)
		return refuse_value(err, "rings", value, length, "a number from 1 to 64, or auto");
	options->rings = (uint32_t)rings;
	return 0;
}

static int set_trace(struct ddl__options *options, const char *value, size_t length, struct ddl_error *err)
{
	size_t i;

	if (!length)
		return refuse_value(err, "trace", value, length, "the path of a folder");
	if (length >= sizeof(options->trace))
		return ddl__error_set(err, -EINVAL, "the path after trace= has %zu bytes; at most %zu are possible", length,
				      sizeof(options->trace) - 1);
	for (i = 0; i < length; i++)
		if ((unsigned char)value[i] < ' ' || value[i] == 127)
			return refuse_value(err, "trace", value, length, "a path without control characters");
	memcpy(options->trace, value, length);
	options->trace[length] = '\0';
	return 0;
}

/* 4x8x8: up to DDL__DIMS_MAX numbers of at least 1, whose product a number of ranks can be. */
static int set_dims(struct ddl__options *options, const char *value, size_t length, struct ddl_error *err)
{
	static const char wanted[] = "up to 16 numbers with x between them, as in 4x8x8, or auto";
	uint32_t dims[DDL__DIMS_MAX], n = 0;
	uint64_t product = 1;

	if (length == 4 && !memcmp(value, "auto", 4)) {
		options->n_dims = 0;
		return 0;
	}
	for (size_t at = 0; at <= length; n++) {
		const char *end = memchr(value + at, 'x', length - at);
		size_t digits = end ? (size_t)(end - value) - at : length - at;
		uint64_t number = 0;

		if (n == DDL__DIMS_MAX || ddl__number_read(value + at, digits, INT32_MAX, &number) < 0 || !number ||
		    (product *= number) > INT32_MAX)
			return refuse_value(err, "dims", value, length, wanted);
		dims[n] = (uint32_t)number;
		at += digits + 1;
	}
	memcpy(options->dims, dims, n * sizeof(*dims));
	options->n_dims = n;
	return 0;
}

static int set_key(struct ddl__options *options, enum key key, const char *value, size_t length, struct ddl_error *err)
{
	const struct ddl__choice *row;
	uint64_t number = 0;

	switch (key) {
	case KEY_RINGS:
		return set_rings(options, value, length, err);
	case KEY_WIRE:
		row = ddl__choice_by_name(ddl__wires, value, length);
		if (!row)
			return refuse_choice(err, "the wire type", value, length, ddl__wires);
		options->wire = (enum ddl__wire_name)row->id;
		return 0;
	case KEY_ORDER:
		row = ddl__choice_by_name(ddl__orders, value, length);
		if (!row)
			return refuse_choice(err, "the order", value, length, ddl__orders);
		options->order = (enum ddl__order)row->id;
		return 0;
	case KEY_PROGRESS:
		if (ddl__number_read(value, length, DDL__PROGRESS_MAX, &number) < 0)
			return refuse_value(err, "progress", value, length, "a number from 0 to 8");
		options->progress = (int)number;
		return 0;
	case KEY_TRACE:
		return set_trace(options, value, length, err);
	case KEY_DIMS:
		return set_dims(options, value, length, err);
	case KEY_UPLINK:
		if (ddl__uplink_parse(value, length, &options->uplink) < 0)
			return refuse_value(err, "uplink", value, length,
					    "a ratio for each level of switches, the leaf switches' first, as in 4:1 or 4:1/2:1; "
					    "or linkspeed, where LinkSpeed in topology.conf is in Mbit/s; or auto");
		return 0;
	case KEY_ACCURACY:
		row = ddl__choice_by_name(ddl__accuracies, value, length);
		if (!row)
			return refuse_choice(err, "the accuracy", value, length, ddl__accuracies);
		options->accuracy = (enum ddl__accuracy_name)row->id;
		return 0;
	case KEY_REPRODUCIBLE:
		if (ddl__number_read(value, length, 1, &number) < 0)
			return refuse_value(err, "reproducible", value, length, "0 or 1, or no value for 1");
		options->reproducible = (int)number;
		return 0;
	}
	return ddl__error_set(err, -EINVAL, "unknown key");
}

int ddl__options_set(struct ddl__options *options, const char *key, const char *value, struct ddl_error *err)
{
	const struct ddl__choice *row = ddl__choice_by_name(ddl__option_keys, key, strlen(key));

	if (!row)
		return refuse_choice(err, "the key", key, strlen(key), ddl__option_keys);
	return set_key(options, (enum key)row->id, value, strlen(value), err);
}

/* One "key=value" (length bytes). seen: bit of every key that was there before. */
static int parse_pair(const char *text, size_t length, struct ddl__options *options, unsigned *seen, struct ddl_error *err)
{
	const char *equals = memchr(text, '=', length);
	size_t name = equals ? (size_t)(equals - text) : length;
	const struct ddl__choice *row = ddl__choice_by_name(ddl__option_keys, text, name);

	if (!row)
		return refuse_choice(err, "the key", text, name, ddl__option_keys);
	if (!equals && row->id != KEY_REPRODUCIBLE)
		return ddl__error_set(err, -EINVAL, "%s needs a value, as in %s=...; it is the %s", row->name, row->name,
				      row->description);
	if (*seen & (1u << row->id))
		return ddl__error_set(err, -EINVAL, "%s is given twice; give it once", row->name);
	*seen |= 1u << row->id;
	return equals ? set_key(options, (enum key)row->id, equals + 1, length - name - 1, err)
		      : set_key(options, (enum key)row->id, "1", 1, err);
}

int ddl__options_parse(const char *text, struct ddl__options *options, struct ddl_error *err)
{
	struct ddl__options result;
	const struct ddl__choice *mode;
	const char *word = text;
	unsigned seen = 0;
	size_t length;
	int rc;

	length = strcspn(word, ",");
	mode = ddl__choice_by_name(ddl__modes, word, length);
	if (!mode)
		return refuse_choice(err, "the mode", word, length, ddl__modes);
	ddl__options_init(&result);
	result.mode = (enum ddl__mode)mode->id;
	while (word[length] == ',') {
		word += length + 1;
		length = strcspn(word, ",");
		rc = parse_pair(word, length, &result, &seen, err);
		if (rc < 0)
			return rc;
	}
	*options = result;
	return 0;
}

void ddl__options_help(FILE *out)
{
	const struct ddl__choice *row;

	fprintf(out, "--ddl=MODE[,key=value...]\n\nModes:\n");
	for (row = ddl__modes; row->name; row++)
		fprintf(out, "  %-10s %s\n", row->name, row->description);
	fprintf(out, "\nKeys:\n");
	for (row = ddl__option_keys; row->name; row++)
		fprintf(out, "  %-10s %s\n", row->name, row->description);
	fprintf(out, "\nExample: --ddl=multiring,rings=2,wire=bf16\n");
}
