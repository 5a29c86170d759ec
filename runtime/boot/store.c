/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - the bootstrap over a key-value store of the caller's (struct ddl_store), for example torch's.
 *
 * Keys are "ddl/<rank>/<key>"; a store, or a prefix in it, serves one communicator, since a key is set once. The store has no
 * barrier, so the fence makes one: every rank sets a marker, rank 0 waits for all of them and then sets "go", for which the others
 * wait. So a fence costs N gets on one rank only. When the deadline passes, each rank looks itself whose marker is missing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot.h"
#include "clock.h"
#include "error.h"
#include "missing.h"

#define KEY_SIZE     256  /* bytes of a full key, with NUL */
#define FIRST_GUESS  4096 /* bytes tried at first for a value of unknown size */
#define LAST_LOOK_MS 1    /* how long the search for the missing waits for each marker */
#define NEVER_PUT_MS 2000 /* after a fence every key is there: how long a get still waits for it */

struct store {
	struct ddl__boot boot; /* first */
	struct ddl_store ops;  /* the caller's callbacks */
	int timeout_ms;        /* deadline of a fence */
	int fences;            /* fences so far */
};

static int store_probe(const struct ddl_comm_options *options, char *why, size_t size)
{
	if (!options || !options->store) {
		snprintf(why, size, "the program gave no store");
		return 0;
	}
	snprintf(why, size, "the program gave a store, as rank %d of %d", options->store->rank, options->store->size);
	return 1;
}

static int store_open(const struct ddl_comm_options *options, int timeout_ms, struct ddl__boot **boot, struct ddl_error *err)
{
	const struct ddl_store *ops = options->store;
	struct store *store;

	if (!ops->set || !ops->get)
		return ddl__error_set(err, -EINVAL, "the store given to ddl_comm_create() lacks its %s callback",
				      ops->set ? "get" : "set");
	if (ops->size < 1 || ops->rank < 0 || ops->rank >= ops->size)
		return ddl__error_set(err, -EINVAL, "the store says rank %d of %d ranks: ranks are 0 to size-1", ops->rank,
				      ops->size);
	store = calloc(1, sizeof(*store));
	if (!store)
		return ddl__error_set(err, -ENOMEM, "no memory for the bootstrap");
	store->boot.ops = &ddl__boot_store;
	store->boot.rank = ops->rank;
	store->boot.size = ops->size;
	if (gethostname(store->boot.host, sizeof(store->boot.host) - 1) < 0)
		store->boot.host[0] = '\0';
	store->ops = *ops;
	store->timeout_ms = timeout_ms;
	*boot = &store->boot;
	return 0;
}

static int full_key(char *full, int rank, const char *key, struct ddl_error *err)
{
	if (snprintf(full, KEY_SIZE, "ddl/%d/%s", rank, key) >= KEY_SIZE)
		return ddl__error_set(err, -EINVAL, "the key %.64s... is longer than %d bytes", key, KEY_SIZE - 1);
	return 0;
}

static int store_put(struct ddl__boot *boot, const char *key, const void *data, size_t size, struct ddl_error *err)
{
	struct store *store = (struct store *)boot;
	char full[KEY_SIZE];
	int rc = full_key(full, boot->rank, key, err);

	if (rc < 0)
		return rc;
	rc = store->ops.set(store->ops.context, full, data, size);
	if (rc < 0)
		return ddl__error_set(
			err, rc, "rank %d could not set %s in the store: %s (each communicator needs a store or prefix of its own)",
			boot->rank, full, strerror(-rc));
	return 0;
}

/* Waits until rank's marker of a word is there: 0, -ETIMEDOUT, or what the store says. */
static int wait_marker(struct store *store, int rank, const char *word, int timeout_ms)
{
	char key[KEY_SIZE], data[8];
	size_t size;
	int rc;

	snprintf(key, sizeof(key), "ddl/%d/%s/%d", rank, word, store->fences);
	rc = store->ops.get(store->ops.context, key, data, sizeof(data), &size, timeout_ms);
	return rc < 0 ? rc : 0;
}

static int set_marker(struct store *store, const char *word, struct ddl_error *err)
{
	char key[64];

	snprintf(key, sizeof(key), "%s/%d", word, store->fences);
	return store_put(&store->boot, key, "1", 1, err);
}

/* Rank 0: waits for everybody's marker. Others: wait for rank 0's go. */
static int wait_all(struct store *store, int64_t deadline_ms)
{
	int rc = 0;

	for (int rank = 0; rank < store->boot.size && rc == 0; rank++) {
		int64_t left = deadline_ms - ddl__now_ms();
		const char *word = store->boot.rank == 0 ? "fence" : "go";

		rc = wait_marker(store, rank, word, left > 0 ? (int)left : LAST_LOOK_MS);
		if (store->boot.rank != 0)
			break;
	}
	return rc;
}

/* Says who is missing. */
static int name_missing(struct store *store, struct ddl_error *err)
{
	struct ddl__missing missing = { 0, "" };

	for (int rank = 0; rank < store->boot.size && missing.n <= DDL__MISSING_MAX; rank++)
		if (wait_marker(store, rank, "fence", LAST_LOOK_MS) == -ETIMEDOUT)
			ddl__missing_add(&missing, rank);
	if (missing.n == 0) /* they came while we looked, but too late for rank 0 */
		return ddl__error_set(err, -ETIMEDOUT, "rank %d waited %d ms for rank 0, which never let the ranks go on",
				      store->boot.rank, store->timeout_ms);
	return ddl__missing_tell(&missing, store->boot.size, "the store", store->timeout_ms, err);
}

static int store_fence(struct ddl__boot *boot, struct ddl_error *err)
{
	struct store *store = (struct store *)boot;
	int rc = set_marker(store, "fence", err);

	if (rc < 0)
		return rc;
	rc = wait_all(store, ddl__now_ms() + store->timeout_ms);
	if (rc == -ETIMEDOUT)
		return name_missing(store, err);
	if (rc < 0)
		return ddl__error_set(err, rc, "rank %d could not wait for the others over the store: %s", boot->rank,
				      strerror(-rc));
	if (boot->rank == 0) {
		rc = set_marker(store, "go", err);
		if (rc < 0)
			return rc;
	}
	store->fences++;
	return 0;
}

static int store_get(struct ddl__boot *boot, int rank, const char *key, void **data, size_t *size, struct ddl_error *err)
{
	struct store *store = (struct store *)boot;
	size_t capacity = FIRST_GUESS, got = 0;
	char full[KEY_SIZE], *buffer = NULL;
	int rc;

	if (rank < 0 || rank >= boot->size)
		return ddl__error_set(err, -EINVAL, "there is no rank %d: the store says %d ranks", rank, boot->size);
	rc = full_key(full, rank, key, err);
	if (rc < 0)
		return rc;
	for (int attempt = 0; attempt < 2; attempt++) {
		free(buffer);
		buffer = malloc(capacity + 1);
		if (!buffer)
			return ddl__error_set(err, -ENOMEM, "no memory for %zu bytes of the key %s", capacity, full);
		rc = store->ops.get(store->ops.context, full, buffer, capacity, &got, NEVER_PUT_MS);
		if (rc != -EMSGSIZE)
			break;
		capacity = got;
	}
	if (rc == 0 && got > capacity)
		rc = -EMSGSIZE;
	if (rc < 0) {
		free(buffer);
		if (rc == -ETIMEDOUT || rc == -ENOENT)
			return ddl__error_set(err, -ENOENT, "rank %d never put the key %s", rank, full);
		return ddl__error_set(err, rc, "rank %d could not read %s from the store: %s", boot->rank, full, strerror(-rc));
	}
	buffer[got] = '\0';
	*data = buffer;
	*size = got;
	return 0;
}

static void store_close(struct ddl__boot *boot)
{
	free(boot);
}

const struct ddl__boot_ops ddl__boot_store = {
	.name = "store",
	.description = "a key-value store of the program's own",
	.probe = store_probe,
	.open = store_open,
	.put = store_put,
	.fence = store_fence,
	.get = store_get,
	.close = store_close,
};
