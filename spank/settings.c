/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - reads plugstack.conf's arguments and the option's text. One table of arguments.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "settings.h"

static const struct ddl__choice levels[] = {
	{ DDL__SPANK_ERROR, "error", "what is broken" },
	{ DDL__SPANK_INFO, "info", "and what makes a plan less than it could be" },
	{ DDL__SPANK_DEBUG, "debug", "and every plan" },
	{ 0, NULL, NULL },
};

/*
 * Parses text as --ddl does and keeps both forms. What the administrator says of uplinks is added where the text says nothing of
 * them: so it goes wherever the text goes, also to tasks that build their plan themselves.
 */
static int take_text(struct ddl__spank_settings *settings, const char *text, struct ddl_error *err)
{
	struct ddl__options options;
	char whole[sizeof(settings->text)], uplink[DDL__UPLINK_SIZE];
	int rc, length = snprintf(whole, sizeof(whole), "%s", text);

	ddl__options_init(&options);
	if ((size_t)length < sizeof(whole)) {
		rc = ddl__options_parse(text, &options, err);
		if (rc < 0)
			return rc;
	}
	if (ddl__uplink_said(&settings->uplink) && options.mode != DDL__MODE_OFF && options.mode != DDL__MODE_HELP &&
	    !strstr(text, ",uplink=")) {
		options.uplink = settings->uplink;
		length = snprintf(whole, sizeof(whole), "%s,uplink=%s", text,
				  ddl__uplink_format(&options.uplink, uplink, sizeof(uplink)));
	}
	if ((size_t)length >= sizeof(whole))
		return ddl__error_set(err, -EINVAL, "the option has %d bytes; at most %zu are possible", length, sizeof(whole) - 1);
	settings->options = options;
	memcpy(settings->text, whole, (size_t)length + 1);
	return 0;
}

static int set_default(struct ddl__spank_settings *settings, const char *value, struct ddl_error *err)
{
	struct ddl__spank_settings tried = *settings;
	int rc = take_text(&tried, value, err);

	if (rc < 0)
		return rc;
	if (tried.options.mode == DDL__MODE_HELP)
		return ddl__error_set(err, -EINVAL, "help cannot be a default");
	*settings = tried;
	return 0;
}

static int set_topology(struct ddl__spank_settings *settings, const char *value, struct ddl_error *err)
{
	char word[80];

	if (!strcmp(value, "slurm")) {
		settings->source = DDL__SPANK_SLURM;
	} else if (!strcmp(value, "env")) {
		settings->source = DDL__SPANK_ENV;
	} else if (!strncmp(value, "file:", 5) && value[5] == '/' && strlen(value + 5) < sizeof(settings->file)) {
		settings->source = DDL__SPANK_FILE;
		memcpy(settings->file, value + 5, strlen(value + 5) + 1);
	} else {
		return ddl__error_set(err, -EINVAL, "\"%s\" is not known; choose from slurm, env, file:/ABSOLUTE/PATH",
				      ddl__error_word(word, sizeof(word), value, strlen(value)));
	}
	return 0;
}

static int set_uplink(struct ddl__spank_settings *settings, const char *value, struct ddl_error *err)
{
	char word[80];

	if (ddl__uplink_parse(value, strlen(value), &settings->uplink) == 0)
		return 0;
	return ddl__error_set(
		err, -EINVAL,
		"\"%s\" is not possible; give the ratio of each level, the leaf switches' first, as in 4:1 or 4:1/2:1, or "
		"linkspeed where LinkSpeed in topology.conf is in Mbit/s",
		ddl__error_word(word, sizeof(word), value, strlen(value)));
}

static int set_log(struct ddl__spank_settings *settings, const char *value, struct ddl_error *err)
{
	const struct ddl__choice *choice = ddl__choice_by_name(levels, value, strlen(value));
	char word[80], list[80];

	if (!choice)
		return ddl__error_set(err, -EINVAL, "\"%s\" is not known; choose from %s",
				      ddl__error_word(word, sizeof(word), value, strlen(value)),
				      ddl__choice_names(levels, list, sizeof(list)));
	settings->level = (enum ddl__spank_level)choice->id;
	return 0;
}

static const struct argument {
	const char *name;
	int (*set)(struct ddl__spank_settings *settings, const char *value, struct ddl_error *err);
} arguments[] = {
	{ "default=", set_default },
	{ "topology=", set_topology },
	{ "uplink=", set_uplink },
	{ "log=", set_log },
};

static int read_argument(struct ddl__spank_settings *settings, const char *text, struct ddl_error *err)
{
	char word[80];
	size_t i;

	for (i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
		size_t length = strlen(arguments[i].name);

		if (!strncmp(text, arguments[i].name, length))
			return arguments[i].set(settings, text + length, err);
	}
	return ddl__error_set(err, -EINVAL, "\"%s\" is not known; choose from default=, topology=, uplink=, log=",
			      ddl__error_word(word, sizeof(word), text, strlen(text)));
}

int ddl__spank_settings_read(struct ddl__spank_settings *settings, int argc, char *const *argv, struct ddl_error *err)
{
	char all[DDL_ERROR_TEXT_SIZE] = "", text[DDL__SPANK_TEXT_SIZE];
	size_t used = 0;
	int i, broken = 0;

	memset(settings, 0, sizeof(*settings));
	ddl__options_init(&settings->options);
	settings->source = DDL__SPANK_SLURM;
	settings->level = DDL__SPANK_INFO;
	for (i = 0; i < argc; i++) {
		struct ddl_error one;
		int equals = (int)strcspn(argv[i], "=");

		if (read_argument(settings, argv[i], &one) == 0)
			continue;
		if (used < sizeof(all))
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%.*s: %s", broken ? "; " : "",
						 equals > 40 ? 40 : equals, argv[i], one.text);
		broken = 1;
	}
	snprintf(text, sizeof(text), "%s", settings->text);
	if (text[0]) /* uplink= may have come after default=; where the two together are too long, the default stands alone */
		take_text(settings, text, NULL);
	return broken ? ddl__error_set(err, -EINVAL, "%s", all) : 0;
}

int ddl__spank_settings_say(struct ddl__spank_settings *settings, const char *text, struct ddl_error *err)
{
	int rc = take_text(settings, text ? text : "", err);

	if (rc == 0)
		settings->said = 1;
	return rc;
}
