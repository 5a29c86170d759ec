/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings_rdma.c - DDL_RDMA and DDL_RDMA_*: what transport/verbs goes by. Only their form is looked at here; whether there is
 * such a device, GID or partition is for the transport to say.
 */
#include "settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { PORT_MAX = 255, MTU_MIN = 256, MTU_MAX = 4096 };

/* Digits, or 0x and digits where hexadecimal is allowed, and nothing else. */
static bool is_number(const char *text, size_t length, bool hexadecimal, long min, long max, int *value)
{
	char digits[12], *end;
	if (length == 0 || length >= sizeof(digits) || !isdigit((unsigned char)*text))
		return false;
	memcpy(digits, text, length);
	digits[length] = '\0';
	const bool prefixed = hexadecimal && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
	errno = 0;
	const long number = strtol(digits, &end, prefixed ? 16 : 10);
	if (errno || *end || number < min || number > max)
		return false;
	*value = (int)number;
	return true;
}

/* Whole numbers; unset leaves what is there. */
static int read_numbers(struct ddl__rdma_settings *rdma, struct ddl_error *err)
{
	const struct {
		const char *name;
		int min, max;
		int *value;
	} numbers[] = {
		{ "DDL_RDMA_GID_INDEX", 0, 255, &rdma->gid_index }, { "DDL_RDMA_SL", 0, 15, &rdma->service_level },
		{ "DDL_RDMA_TC", 0, 255, &rdma->traffic_class },    { "DDL_RDMA_MTU", MTU_MIN, MTU_MAX, &rdma->mtu },
		{ "DDL_RDMA_TIMEOUT", 1, 31, &rdma->timeout },      { "DDL_RDMA_RETRY", 0, 6, &rdma->retry },
	};
	char word[64];
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const char *text = ddl__environment(numbers[i].name);
		if (text && !is_number(text, strlen(text), false, numbers[i].min, numbers[i].max, numbers[i].value))
			return ddl__error_set(err, -EINVAL, "%s=%s is not a whole number from %d to %d", numbers[i].name,
					      ddl__error_word(word, sizeof(word), text, strlen(text)), numbers[i].min,
					      numbers[i].max);
	}
	if (rdma->mtu & (rdma->mtu - 1))
		return ddl__error_set(err, -EINVAL, "DDL_RDMA_MTU=%d is no MTU of RDMA: choose from 256, 512, 1024, 2048, 4096",
				      rdma->mtu);
	return 0;
}

/* A partition's key; without its upper bit, which tells full members from limited ones, 0 is none. */
static int read_pkey(int *pkey, struct ddl_error *err)
{
	const char *text = ddl__environment("DDL_RDMA_PKEY");
	char word[64];
	int key;
	if (!text)
		return 0;
	if (!is_number(text, strlen(text), true, 0, 0xffff, &key) || (key & 0x7fff) == 0)
		return ddl__error_set(err, -EINVAL,
				      "DDL_RDMA_PKEY=%s is no key of a partition: give one from 0x0001 to 0xffff, but not 0x8000",
				      ddl__error_word(word, sizeof(word), text, strlen(text)));
	*pkey = key;
	return 0;
}

static int read_register(enum ddl__register *use, struct ddl_error *err)
{
	static const char *const names[] = {
		[DDL__REGISTER_AUTO] = "auto", [DDL__REGISTER_ALLOC] = "alloc", [DDL__REGISTER_ALL] = "all"
	};
	const char *text = ddl__environment("DDL_RDMA_REGISTER");
	char word[64];
	if (!text)
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		*use = (enum ddl__register)i;
		return 0;
	}
	return ddl__error_set(err, -EINVAL, "DDL_RDMA_REGISTER=%s: choose from auto, alloc, all",
			      ddl__error_word(word, sizeof(word), text, strlen(text)));
}

/* One of DDL_RDMA: DEVICE[:PORT]. */
static int read_port(const char *text, size_t length, struct ddl__rdma_settings *rdma, struct ddl_error *err)
{
	const char *colon = memchr(text, ':', length);
	const size_t name = colon ? (size_t)(colon - text) : length;
	struct ddl__rdma_port port = { .port = 0 };
	char word[80];
	ddl__error_word(word, sizeof(word), text, length);
	if (name == 0 || name >= sizeof(port.device) || memchr(text, '/', name) || memchr(text, ' ', length) ||
	    (colon && !is_number(colon + 1, length - name - 1, false, 1, PORT_MAX, &port.port)))
		return ddl__error_set(
			err, -EINVAL,
			"DDL_RDMA: \"%s\" is no DEVICE or DEVICE:PORT, such as mlx5_0 or mlx5_0:1 (ports count from 1; "
			"ddl info lists what is there)",
			word);
	memcpy(port.device, text, name);
	for (size_t i = 0; i < rdma->n_ports; i++) {
		const struct ddl__rdma_port *other = &rdma->ports[i];
		if (strcmp(other->device, port.device) == 0 && (!other->port || !port.port || other->port == port.port))
			return ddl__error_set(err, -EINVAL, "DDL_RDMA names \"%s\" twice", word);
	}
	if (rdma->n_ports == DDL__RAILS_MAX)
		return ddl__error_set(err, -EINVAL, "DDL_RDMA names more than %d ports", DDL__RAILS_MAX);
	rdma->ports[rdma->n_ports++] = port;
	return 0;
}

static int read_ports(struct ddl__rdma_settings *rdma, struct ddl_error *err)
{
	const char *at = ddl__environment("DDL_RDMA");
	int rc = 0;
	while (at && rc == 0) {
		const size_t length = strcspn(at, ",");
		rc = read_port(at, length, rdma, err);
		at = at[length] ? at + length + 1 : NULL;
	}
	return rc;
}

int ddl__settings_rdma(struct ddl__rdma_settings *rdma, struct ddl_error *err)
{
	struct ddl__rdma_settings read = DDL__RDMA_SETTINGS_INIT;
	int rc = read_ports(&read, err);
	rc = rc ? rc : read_numbers(&read, err);
	rc = rc ? rc : read_pkey(&read.pkey, err);
	rc = rc ? rc : read_register(&read.use, err);
	if (rc == 0)
		*rdma = read;
	return rc;
}
