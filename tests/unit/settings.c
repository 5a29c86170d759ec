/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - the arguments of plugstack.conf and the option's text: good, broken, and both at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "settings.h"

/* In place of Slurm's: the last line of each. */
void slurm_error(const char *fmt, ...);
void slurm_info(const char *fmt, ...);
static char error_line[1200], info_line[1200];

void slurm_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error_line, sizeof(error_line), fmt, args);
	va_end(args);
}

void slurm_info(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(info_line, sizeof(info_line), fmt, args);
	va_end(args);
}

static int read_arguments(struct ddl__spank_settings *settings, struct ddl_error *err, char **words)
{
	int n = 0;

	while (words[n])
		n++;
	return ddl__spank_settings_read(settings, n, words, err);
}

static void without_arguments_nothing_is_done(void **state)
{
	struct ddl__spank_settings settings;

	assert_int_equal(ddl__spank_settings_read(&settings, 0, NULL, NULL), 0);
	assert_int_equal(settings.options.mode, DDL__MODE_OFF);
	assert_int_equal(settings.source, DDL__SPANK_SLURM);
	assert_int_equal(settings.level, DDL__SPANK_INFO);
	assert_int_equal(settings.said, 0);
	assert_string_equal(settings.text, "");
}

static void good_arguments_are_in_force(void **state)
{
	char *words[] = { (char *)"default=multiring,rings=2", (char *)"topology=file:/etc/slurm/topology.conf",
			  (char *)"log=debug", NULL };
	struct ddl__spank_settings settings;

	assert_int_equal(read_arguments(&settings, NULL, words), 0);
	assert_int_equal(settings.options.mode, DDL__MODE_MULTIRING);
	assert_int_equal(settings.options.rings, 2);
	assert_string_equal(settings.text, "multiring,rings=2");
	assert_int_equal(settings.source, DDL__SPANK_FILE);
	assert_string_equal(settings.file, "/etc/slurm/topology.conf");
	assert_int_equal(settings.level, DDL__SPANK_DEBUG);
}

static void a_broken_argument_is_named_and_leaves_the_others_in_force(void **state)
{
	static const char *const broken[] = {
		"default=multirink",
		"default=help",
		"default=",
		"default=ring,rings=0",
		"topology=",
		"topology=file:",
		"topology=file:x",
		"topology=magic",
		"uplink=",
		"uplink=4",
		"uplink=4:0",
		"uplink=leaf:100G",
		"log=",
		"log=loud",
		"log",
		"nonsense",
		"",
		"=",
		"defaultring",
		"topology\x01=\xff",
		"debug=true",
	};
	struct ddl__spank_settings settings;
	struct ddl_error err;
	size_t i;

	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		char *words[] = { (char *)"log=debug", (char *)broken[i], (char *)"default=ring", NULL };

		err.text[0] = '\0';
		assert_int_equal(read_arguments(&settings, &err, words), -EINVAL);
		assert_true(strlen(err.text) > 10);
		assert_null(strchr(err.text, '\n'));
		assert_int_equal(settings.level, DDL__SPANK_DEBUG);
		assert_int_equal(settings.options.mode, DDL__MODE_RING);
		assert_int_equal(settings.source, DDL__SPANK_SLURM);
	}
}

static void many_broken_arguments_are_one_sentence(void **state)
{
	char *words[101];
	struct ddl__spank_settings settings;
	struct ddl_error err;
	size_t i;

	for (i = 0; i < 100; i++)
		words[i] = (char *)"topology=somewhere-over-the-rainbow";
	words[100] = NULL;
	assert_int_equal(read_arguments(&settings, &err, words), -EINVAL);
	assert_non_null(strstr(err.text, "somewhere-over-the-rainbow"));
	assert_true(strlen(err.text) < sizeof(err.text));
}

static void what_the_user_says_replaces_the_default_wholly(void **state)
{
	char *words[] = { (char *)"default=multiring,rings=2", NULL };
	struct ddl__spank_settings settings;
	struct ddl_error err;
	char long_text[2 * DDL__SPANK_TEXT_SIZE];

	assert_int_equal(read_arguments(&settings, NULL, words), 0);
	assert_int_equal(ddl__spank_settings_say(&settings, "ring", &err), 0);
	assert_int_equal(settings.options.mode, DDL__MODE_RING);
	assert_int_equal(settings.options.rings, 0);
	assert_int_equal(settings.said, 1);
	/* what is refused changes nothing */
	memset(long_text, 'r', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(ddl__spank_settings_say(&settings, "tree", &err), -EINVAL);
	assert_int_equal(ddl__spank_settings_say(&settings, "", &err), -EINVAL);
	assert_int_equal(ddl__spank_settings_say(&settings, NULL, &err), -EINVAL);
	assert_int_equal(ddl__spank_settings_say(&settings, long_text, &err), -EINVAL);
	assert_int_equal(settings.options.mode, DDL__MODE_RING);
	assert_string_equal(settings.text, "ring");
}

/* What --ddl=TEXT becomes with the arguments WORD and OTHER. */
static void check_uplink(const char *word, const char *other, const char *text, const char *want, uint32_t ratio)
{
	char *words[] = { (char *)word, (char *)other, NULL };
	struct ddl__spank_settings settings;

	assert_int_equal(read_arguments(&settings, NULL, words), 0);
	if (text)
		assert_int_equal(ddl__spank_settings_say(&settings, text, NULL), 0);
	assert_string_equal(settings.text, want);
	assert_int_equal(settings.options.uplink.ratio[0], ratio);
}

static void what_is_known_of_uplinks_is_added_to_the_option(void **state)
{
	check_uplink("uplink=4:1/2:1", "log=info", "ring", "ring,uplink=4:1/2:1", 400);
	check_uplink("default=ring", "uplink=2:1", NULL, "ring,uplink=2:1", 200);
	check_uplink("uplink=2:1", "default=ring", NULL, "ring,uplink=2:1", 200);
	check_uplink("uplink=2:1", "default=ring,uplink=8:1", NULL, "ring,uplink=8:1", 800);
	check_uplink("uplink=2:1", "default=ring", "auto", "auto,uplink=2:1", 200);
	check_uplink("uplink=2:1", "default=ring", "auto,uplink=4:1", "auto,uplink=4:1", 400);
	check_uplink("uplink=2:1", "default=ring", "auto,uplink=auto,rings=2", "auto,uplink=auto,rings=2", 0);
	check_uplink("uplink=2:1", "default=ring", "off", "off", 0);
	check_uplink("uplink=2:1", "default=off", "help", "help", 0);
	check_uplink("uplink=2:1", "log=info", NULL, "", 0);
}

static void an_option_that_is_too_long_with_uplinks_is_refused(void **state)
{
	char *words[] = { (char *)"uplink=2:1", NULL };
	struct ddl__spank_settings settings;
	struct ddl_error err;
	char text[DDL__SPANK_TEXT_SIZE] = "ring,rings=";

	assert_int_equal(read_arguments(&settings, NULL, words), 0);
	memset(text + strlen(text), '0', sizeof(text) - 13);
	text[sizeof(text) - 2] = '1';
	assert_int_equal(ddl__spank_settings_say(&settings, text, &err), -EINVAL);
	assert_non_null(strstr(err.text, "1034 bytes; at most 1023"));
	settings.uplink.n = 0;
	assert_int_equal(ddl__spank_settings_say(&settings, text, &err), 0);
	assert_string_equal(settings.text, text);
}

static void the_log_shows_what_its_level_says(void **state)
{
	struct ddl__spank_settings settings = { .level = DDL__SPANK_ERROR };
	char text[4000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ddl__spank_log(&settings, DDL__SPANK_INFO, "not shown");
	assert_string_equal(info_line, "");
	ddl__spank_log(&settings, DDL__SPANK_ERROR, "shown %d", 1);
	assert_string_equal(error_line, "ddl: shown 1");
	settings.level = DDL__SPANK_DEBUG;
	ddl__spank_log(&settings, DDL__SPANK_DEBUG, "%s", text);
	assert_int_equal(strncmp(info_line, "ddl: xxx", 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_arguments_nothing_is_done),
		cmocka_unit_test(good_arguments_are_in_force),
		cmocka_unit_test(a_broken_argument_is_named_and_leaves_the_others_in_force),
		cmocka_unit_test(many_broken_arguments_are_one_sentence),
		cmocka_unit_test(what_the_user_says_replaces_the_default_wholly),
		cmocka_unit_test(what_is_known_of_uplinks_is_added_to_the_option),
		cmocka_unit_test(an_option_that_is_too_long_with_uplinks_is_refused),
		cmocka_unit_test(the_log_shows_what_its_level_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
