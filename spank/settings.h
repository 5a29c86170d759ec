/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what is in force for one command or step: the administrator's arguments in plugstack.conf and the user's --ddl.
 *
 *     optional /usr/lib64/slurm/spank_ddl.so default=off topology=slurm uplink=4:1/2:1 log=info
 *
 * A broken argument is reported and its default stays; what the user says wrong is refused where the job is submitted.
 */
#ifndef DDL_SPANK_SETTINGS_H
#define DDL_SPANK_SETTINGS_H

#include <stddef.h>

#include <ddl/error.h>

#include "options.h"

#define DDL__SPANK_TEXT_SIZE 1024 /* bytes of the option's text with NUL */
#define DDL__SPANK_PATH_SIZE 4096 /* bytes of a topology file's path with NUL */

enum ddl__spank_source {
	DDL__SPANK_SLURM = 0, /* ask slurmctld, once a step */
	DDL__SPANK_ENV = 1,   /* ask nobody: the tasks exchange what their nodes know */
	DDL__SPANK_FILE = 2,  /* read a file */
};

enum ddl__spank_level {
	DDL__SPANK_ERROR = 0, /* what is broken */
	DDL__SPANK_INFO = 1,  /* and what makes a plan less than it could be */
	DDL__SPANK_DEBUG = 2, /* and every plan */
};

struct ddl__spank_settings {
	struct ddl__options options;     /* in force; mode off: the plugin does nothing */
	char text[DDL__SPANK_TEXT_SIZE]; /* as the user or default= spelled it, with uplink= added; "": nothing was said */
	struct ddl__uplink uplink;       /* what the administrator says of uplinks */
	int said;                        /* 1: the user gave --ddl */
	enum ddl__spank_source source;   /* who is asked for the switches */
	char file[DDL__SPANK_PATH_SIZE]; /* DDL__SPANK_FILE: the path */
	enum ddl__spank_level level;     /* what is logged */
};

/*
 * Sets the defaults, then reads the arguments of the plugstack.conf line.
 * Returns 0; -EINVAL: some were broken and are left at their defaults, all others are in force; the sentence names the broken ones.
 */
int ddl__spank_settings_read(struct ddl__spank_settings *settings, int argc, char *const *argv, struct ddl_error *err);

/* The user's --ddl=TEXT. Replaces what was there, default= included. Returns 0; -EINVAL with a sentence, nothing changed. */
int ddl__spank_settings_say(struct ddl__spank_settings *settings, const char *text, struct ddl_error *err);

/* Logs one line, headed "ddl: ", if the level is wanted. Errors go out as Slurm's errors, all others as its information. */
void ddl__spank_log(const struct ddl__spank_settings *settings, enum ddl__spank_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
