/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uplink.c - reads and writes ratios of oversubscription, see uplink.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "counts.h"
#include "uplink.h"

#define HUNDREDTHS_MAX (DDL__RATIO_MAX * 100) /* of a side of a ratio */

/* A number with at most two decimals, in hundredths, at least 1. */
static int read_hundredths(const char *text, size_t length, uint64_t *hundredths)
{
	const char *point = memchr(text, '.', length);
	size_t whole = point ? (size_t)(point - text) : length, digits = point ? length - whole - 1 : 0;
	uint64_t units = 0, rest = 0;

	if (ddl__number_read(text, whole, DDL__RATIO_MAX, &units) < 0 || digits > 2)
		return -EINVAL;
	if (point && ddl__number_read(point + 1, digits, 99, &rest) < 0)
		return -EINVAL;
	*hundredths = units * 100 + (digits == 1 ? rest * 10 : rest);
	return *hundredths ? 0 : -EINVAL;
}

/* "4:1", "2.5:1", "3:2". */
static int read_ratio(const char *text, size_t length, uint32_t *ratio)
{
	const char *colon = memchr(text, ':', length);
	uint64_t down = 0, up = 0, result;

	if (!colon || read_hundredths(text, (size_t)(colon - text), &down) < 0 ||
	    read_hundredths(colon + 1, length - (size_t)(colon - text) - 1, &up) < 0)
		return -EINVAL;
	result = (down * 100 + up / 2) / up;
	if (!result || result > DDL__RATIO_MAX)
		return -EINVAL;
	*ratio = (uint32_t)result;
	return 0;
}

int ddl__uplink_parse(const char *text, size_t length, struct ddl__uplink *uplink)
{
	struct ddl__uplink result = { 0 };
	size_t at = 0;

	if (length == 9 && !memcmp(text, "linkspeed", 9)) {
		result.linkspeed = 1;
	} else if (length != 4 || memcmp(text, "auto", 4)) {
		while (at <= length) {
			const char *end = memchr(text + at, '/', length - at);
			size_t n = end ? (size_t)(end - text) - at : length - at;

			if (result.n == DDL__UPLINKS_MAX || read_ratio(text + at, n, &result.ratio[result.n]) < 0)
				return -EINVAL;
			result.n++;
			at += n + 1;
		}
	}
	*uplink = result;
	return 0;
}

int ddl__uplink_said(const struct ddl__uplink *uplink)
{
	return uplink->n || uplink->linkspeed;
}

const char *ddl__ratio_format(uint32_t ratio, char *text, size_t size)
{
	if (ratio % 100 == 0)
		snprintf(text, size, "%u:1", ratio / 100);
	else if (ratio % 10 == 0)
		snprintf(text, size, "%u.%u:1", ratio / 100, ratio % 100 / 10);
	else
		snprintf(text, size, "%u.%02u:1", ratio / 100, ratio % 100);
	return text;
}

const char *ddl__uplink_format(const struct ddl__uplink *uplink, char *text, size_t size)
{
	size_t used = 0;
	char ratio[DDL__RATIO_SIZE];

	snprintf(text, size, "%s", uplink->linkspeed ? "linkspeed" : "auto");
	for (uint32_t i = 0; i < uplink->n && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "/" : "",
					 ddl__ratio_format(uplink->ratio[i], ratio, sizeof(ratio)));
	return text;
}

uint32_t ddl__uplink_ratio(const struct ddl__uplink *uplink, size_t height)
{
	uint64_t product = 100;

	if (!uplink->n)
		return 0;
	for (size_t i = 0; i < height && i < uplink->n; i++) {
		product = product * uplink->ratio[i] / 100;
		if (product > DDL__RATIO_MAX)
			product = DDL__RATIO_MAX;
	}
	return product ? (uint32_t)product : 1;
}
