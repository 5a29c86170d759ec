/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - tests of plan/options.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "error.h"
#include "options.h"

struct good {
	const char *text;
	struct ddl__options options;
};

static const struct good goods[] = {
	{ "off", { .mode = DDL__MODE_OFF, .progress = -1, .reproducible = -1 } },
	{ "auto", { .mode = DDL__MODE_AUTO, .progress = -1, .reproducible = -1 } },
	{ "ring", { .mode = DDL__MODE_RING, .progress = -1, .reproducible = -1 } },
	{ "multiring", { .mode = DDL__MODE_MULTIRING, .progress = -1, .reproducible = -1 } },
	{ "help", { .mode = DDL__MODE_HELP, .progress = -1, .reproducible = -1 } },
	{ "multiring,rings=2,wire=bf16",
	  { .mode = DDL__MODE_MULTIRING, .rings = 2, .wire = DDL__WIRE_BFLOAT16, .progress = -1, .reproducible = -1 } },
	{ "ring,wire=f16,rings=64,order=slurm,progress=1,trace=/tmp/a b=c",
	  { .mode = DDL__MODE_RING,
	    .rings = 64,
	    .wire = DDL__WIRE_FLOAT16,
	    .order = DDL__ORDER_SLURM,
	    .progress = 1,
	    .trace = "/tmp/a b=c",
	    .reproducible = -1 } },
	{ "ring,rings=auto,wire=auto,order=topology,progress=0", { .mode = DDL__MODE_RING, .progress = 0, .reproducible = -1 } },
	{ "multiring,dims=4x08x8",
	  { .mode = DDL__MODE_MULTIRING, .progress = -1, .dims = { 4, 8, 8 }, .n_dims = 3, .reproducible = -1 } },
	{ "multiring,dims=16", { .mode = DDL__MODE_MULTIRING, .progress = -1, .dims = { 16 }, .n_dims = 1, .reproducible = -1 } },
	{ "multiring,dims=auto", { .mode = DDL__MODE_MULTIRING, .progress = -1, .reproducible = -1 } },
	{ "auto,uplink=4:1", { .mode = DDL__MODE_AUTO, .progress = -1, .uplink = { 1, { 400 }, 0 }, .reproducible = -1 } },
	{ "auto,uplink=3:2/2.5:1/1:100",
	  { .mode = DDL__MODE_AUTO, .progress = -1, .uplink = { 3, { 150, 250, 1 }, 0 }, .reproducible = -1 } },
	{ "auto,uplink=10000:1,rings=2",
	  { .mode = DDL__MODE_AUTO, .rings = 2, .progress = -1, .uplink = { 1, { 1000000 }, 0 }, .reproducible = -1 } },
	{ "auto,uplink=linkspeed", { .mode = DDL__MODE_AUTO, .progress = -1, .uplink = { 0, { 0 }, 1 }, .reproducible = -1 } },
	{ "auto,uplink=auto", { .mode = DDL__MODE_AUTO, .progress = -1, .reproducible = -1 } },
	{ "ring,wire=native,rings=01",
	  { .mode = DDL__MODE_RING, .rings = 1, .wire = DDL__WIRE_NATIVE, .progress = -1, .reproducible = -1 } },
	{ "auto,accuracy=flat,reproducible",
	  { .mode = DDL__MODE_AUTO, .progress = -1, .accuracy = DDL__ACCURACY_FLAT, .reproducible = 1 } },
	{ "auto,reproducible=0,accuracy=exact,wire=i8",
	  { .mode = DDL__MODE_AUTO, .wire = DDL__WIRE_INT8, .progress = -1, .accuracy = DDL__ACCURACY_EXACT, .reproducible = 0 } },
	{ "auto,accuracy=fast", { .mode = DDL__MODE_AUTO, .progress = -1, .accuracy = DDL__ACCURACY_FAST, .reproducible = -1 } },
};

struct bad {
	const char *text;
	const char *part[2]; /* what the sentence must say */
};

static const struct bad bads[] = {
	{ "", { "the mode \"\"", "off, auto, ring, multiring, help" } },
	{ "Ring", { "\"Ring\"", "off, auto, ring, multiring, help" } },
	{ "rings", { "\"rings\"", "multiring" } },
	{ "ring,", { "the key \"\"", "rings, wire, order, progress, trace" } },
	{ ",ring", { "the mode \"\"", "ring" } },
	{ "ring,,rings=2", { "the key \"\"", "rings" } },
	{ "ring,colour=red", { "\"colour\"", "rings, wire, order, progress, trace" } },
	{ "ring,rings", { "rings needs a value", "1 to 64" } },
	{ "ring,rings=", { "rings=", "1 to 64" } },
	{ "ring,rings=0", { "rings=0", "1 to 64" } },
	{ "ring,rings=65", { "rings=65", "1 to 64" } },
	{ "ring,rings=-1", { "rings=-1", "1 to 64" } },
	{ "ring,rings=2x", { "rings=2x", "1 to 64" } },
	{ "ring,rings=99999999999999999999", { "rings=9999", "1 to 64" } },
	{ "multiring,dims=", { "dims=", "4x8x8" } },
	{ "multiring,dims=x", { "dims=x", "4x8x8" } },
	{ "multiring,dims=4x", { "dims=4x", "4x8x8" } },
	{ "multiring,dims=4xx2", { "dims=4xx2", "4x8x8" } },
	{ "multiring,dims=0x2", { "dims=0x2", "4x8x8" } },
	{ "multiring,dims=4*2", { "dims=4*2", "4x8x8" } },
	{ "multiring,dims=65536x65536", { "dims=65536x", "4x8x8" } },
	{ "multiring,dims=1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1", { "dims=1x1", "16 numbers" } },
	{ "ring,uplink=", { "uplink= is not possible", "4:1/2:1" } },
	{ "ring,uplink=4", { "uplink=4 is not possible", "4:1/2:1" } },
	{ "ring,uplink=:", { "uplink=:", "4:1" } },
	{ "ring,uplink=4:", { "uplink=4:", "4:1" } },
	{ "ring,uplink=4:0", { "uplink=4:0", "4:1" } },
	{ "ring,uplink=0:1", { "uplink=0:1", "4:1" } },
	{ "ring,uplink=4:1/", { "uplink=4:1/", "4:1" } },
	{ "ring,uplink=/4:1", { "uplink=/4:1", "4:1" } },
	{ "ring,uplink=4:1:1", { "uplink=4:1:1", "4:1" } },
	{ "ring,uplink=4.125:1", { "uplink=4.125:1", "4:1" } },
	{ "ring,uplink=4.:1", { "uplink=4.:1", "4:1" } },
	{ "ring,uplink=-4:1", { "uplink=-4:1", "4:1" } },
	{ "ring,uplink=10001:1", { "uplink=10001:1", "4:1" } },
	{ "ring,uplink=1:1000000", { "uplink=1:1000000", "4:1" } },
	{ "ring,uplink=1000000000000:1", { "uplink=1000", "4:1" } },
	{ "ring,uplink=100G", { "uplink=100G", "linkspeed" } },
	{ "ring,uplink=1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1/1:1",
	  { "uplink=1:1/", "ratio for each level" } },
	{ "ring,uplink=4:1,uplink=4:1", { "uplink is given twice", "once" } },
	{ "ring,rings=2,rings=2", { "rings is given twice", "once" } },
	{ "ring,wire=fp8", { "\"fp8\"", "auto, native, bf16, f16" } },
	{ "ring,order=random", { "\"random\"", "topology, slurm" } },
	{ "ring,progress=9", { "progress=9", "from 0 to 8" } },
	{ "ring,progress=", { "progress=", "from 0 to 8" } },
	{ "ring,progress=-1", { "progress=-1", "from 0 to 8" } },
	{ "ring,trace=", { "trace=", "folder" } },
	{ "ring,accuracy=good", { "\"good\"", "auto, fast, flat, exact" } },
	{ "ring,accuracy", { "accuracy needs a value", "flat" } },
	{ "ring,reproducible=2", { "reproducible=2", "0 or 1" } },
	{ "ring,reproducible,reproducible", { "reproducible is given twice", "once" } },
	{ "ring,trace=/a\nb", { "trace=/a?b", "control" } },
};

static void every_mode_and_key_is_read(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(goods) / sizeof(*goods); i++) {
		const struct ddl__options *want = &goods[i].options;
		struct ddl_error err = { 0, "" };
		struct ddl__options got;

		if (ddl__options_parse(goods[i].text, &got, &err) < 0)
			fail_msg("%s: %s", goods[i].text, err.text);
		assert_int_equal(got.mode, want->mode);
		assert_int_equal(got.rings, want->rings);
		assert_int_equal(got.wire, want->wire);
		assert_int_equal(got.order, want->order);
		assert_int_equal(got.progress, want->progress);
		assert_string_equal(got.trace, want->trace);
		assert_int_equal(got.n_dims, want->n_dims);
		assert_memory_equal(got.dims, want->dims, sizeof(got.dims));
		assert_int_equal(got.accuracy, want->accuracy);
		assert_int_equal(got.reproducible, want->reproducible);
		assert_memory_equal(&got.uplink, &want->uplink, sizeof(got.uplink));
	}
}

static void bad_words_are_refused_with_a_list_and_nothing_changes(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(bads) / sizeof(*bads); i++) {
		struct ddl__options options, before;
		struct ddl_error err = { 0, "" };

		memset(&options, 0x5a, sizeof(options));
		before = options;
		assert_int_equal(ddl__options_parse(bads[i].text, &options, &err), -EINVAL);
		assert_int_equal(err.code, -EINVAL);
		assert_memory_equal(&options, &before, sizeof(options));
		if (!strstr(err.text, bads[i].part[0]) || !strstr(err.text, bads[i].part[1]))
			fail_msg("\"%s\": the sentence \"%s\" lacks \"%s\" or \"%s\"", bads[i].text, err.text, bads[i].part[0],
				 bads[i].part[1]);
		assert_int_equal(ddl__options_parse(bads[i].text, &options, NULL), -EINVAL);
	}
}

static void the_longest_trace_path_fits_and_one_byte_more_is_refused(void **state)
{
	char text[DDL__TRACE_SIZE + 32] = "ring,trace=";
	size_t start = strlen(text);
	struct ddl__options options;
	struct ddl_error err = { 0, "" };

	memset(text + start, 'p', DDL__TRACE_SIZE - 1);
	assert_int_equal(ddl__options_parse(text, &options, &err), 0);
	assert_int_equal(strlen(options.trace), DDL__TRACE_SIZE - 1);
	text[start + DDL__TRACE_SIZE - 1] = 'p';
	assert_int_equal(ddl__options_parse(text, &options, &err), -EINVAL);
	assert_non_null(strstr(err.text, "256 bytes"));
}

static void one_key_is_set_and_the_others_stay(void **state)
{
	struct ddl__options options;
	struct ddl_error err = { 0, "" };

	ddl__options_init(&options);
	assert_int_equal(ddl__options_set(&options, "wire", "bf16", &err), 0);
	assert_int_equal(ddl__options_set(&options, "rings", "3", &err), 0);
	assert_int_equal(options.wire, DDL__WIRE_BFLOAT16);
	assert_int_equal(options.rings, 3);
	assert_int_equal(ddl__options_set(&options, "rings", "", &err), -EINVAL);
	assert_int_equal(ddl__options_set(&options, "ring", "3", &err), -EINVAL);
	assert_non_null(strstr(err.text, "rings, wire"));
	assert_int_equal(options.rings, 3);
}

static void ratios_multiply_from_the_nodes_up(void **state)
{
	static const char *const texts[] = { "auto", "linkspeed", "4:1", "1.5:1/2.25:1/0.01:1" };
	struct ddl__uplink uplink = { 0 };
	char text[DDL__UPLINK_SIZE];
	size_t i;

	assert_int_equal(ddl__uplink_ratio(&uplink, 1), 0);
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		assert_int_equal(ddl__uplink_parse(texts[i], strlen(texts[i]), &uplink), 0);
		assert_string_equal(ddl__uplink_format(&uplink, text, sizeof(text)), texts[i]);
	}
	assert_int_equal(ddl__uplink_parse("4:1/2:1", 7, &uplink), 0);
	assert_int_equal(ddl__uplink_ratio(&uplink, 1), 400);
	assert_int_equal(ddl__uplink_ratio(&uplink, 2), 800);
	assert_int_equal(ddl__uplink_ratio(&uplink, 3), 800); /* not named: it carries what comes */
	assert_int_equal(ddl__uplink_parse("0.01:1/0.01:1", 13, &uplink), 0);
	assert_int_equal(ddl__uplink_ratio(&uplink, 2), 1);
	assert_int_equal(ddl__uplink_parse("9999:1/9999:1", 13, &uplink), 0);
	assert_int_equal(ddl__uplink_ratio(&uplink, 2), DDL__RATIO_MAX);
	uplink.n = DDL__UPLINKS_MAX;
	for (i = 0; i < DDL__UPLINKS_MAX; i++)
		uplink.ratio[i] = DDL__RATIO_MAX - 1;
	assert_int_equal(strlen(ddl__uplink_format(&uplink, text, sizeof(text))), 16 * 9 + 15); /* the longest fits */
}

static void tables_are_found_by_id_and_by_name(void **state)
{
	const struct ddl__choice *const tables[] = { ddl__modes, ddl__orders, ddl__wires, ddl__option_keys };
	size_t i;

	for (i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		const struct ddl__choice *row;

		assert_non_null(tables[i]->name);
		for (row = tables[i]; row->name; row++) {
			assert_ptr_equal(ddl__choice_by_id(tables[i], row->id), row);
			assert_ptr_equal(ddl__choice_by_name(tables[i], row->name, strlen(row->name)), row);
			assert_null(ddl__choice_by_name(tables[i], row->name, strlen(row->name) - 1));
			assert_true(strlen(row->description) > 0);
		}
		assert_null(ddl__choice_by_id(tables[i], 99));
	}
}

static void help_names_every_mode_and_key(void **state)
{
	const struct ddl__choice *row;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	ddl__options_help(out);
	fclose(out);
	for (row = ddl__modes; row->name; row++)
		assert_non_null(strstr(text, row->description));
	for (row = ddl__option_keys; row->name; row++)
		assert_non_null(strstr(text, row->description));
	free(text);
}

static void long_sentences_and_wild_words_are_cut_and_cleaned(void **state)
{
	struct ddl_error err;
	char long_word[1024], quoted[16];

	memset(long_word, 'w', sizeof(long_word) - 1);
	long_word[sizeof(long_word) - 1] = '\0';
	assert_int_equal(ddl__error_set(&err, -EPROTO, "%s", long_word), -EPROTO);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_string_equal(err.text + sizeof(err.text) - 4, "...");
	assert_int_equal(ddl__error_set(NULL, -EPROTO, "%s", long_word), -EPROTO);
	assert_string_equal(ddl__error_word(quoted, sizeof(quoted), "a\033[1m\xff", 6), "a?[1m?");
	assert_string_equal(ddl__error_word(quoted, sizeof(quoted), long_word, 1000), "wwwwwwwwwwww...");
	assert_int_equal(ddl__error_memory(&err), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mode_and_key_is_read),
		cmocka_unit_test(bad_words_are_refused_with_a_list_and_nothing_changes),
		cmocka_unit_test(the_longest_trace_path_fits_and_one_byte_more_is_refused),
		cmocka_unit_test(one_key_is_set_and_the_others_stay),
		cmocka_unit_test(ratios_multiply_from_the_nodes_up),
		cmocka_unit_test(tables_are_found_by_id_and_by_name),
		cmocka_unit_test(help_names_every_mode_and_key),
		cmocka_unit_test(long_sentences_and_wild_words_are_cut_and_cleaned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
