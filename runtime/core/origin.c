/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin.c - see origin.h.
 */
#include "origin.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

int ddl__origin_create(const struct ddl__settings *settings, struct ddl__origin **origin, struct ddl_error *err)
{
	struct ddl__origin *o = calloc(1, sizeof(*o));
	if (!o)
		return ddl__error_memory(err);
	o->settings = *settings;
	o->transports = settings->transports ? strdup(settings->transports) : NULL;
	o->interfaces = settings->interfaces ? strdup(settings->interfaces) : NULL;
	if ((settings->transports && !o->transports) || (settings->interfaces && !o->interfaces)) {
		ddl__origin_destroy(o);
		return ddl__error_memory(err);
	}
	o->settings.transports = o->transports;
	o->settings.interfaces = o->interfaces;
	*origin = o;
	return 0;
}

void ddl__origin_destroy(struct ddl__origin *origin)
{
	if (!origin)
		return;
	free(origin->transports);
	free(origin->interfaces);
	free(origin);
}
