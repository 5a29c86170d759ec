/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.c - the bootstrap of a process that is alone: what it puts it gets.
 *
 * It declines where the process is one of several that were started together without PMIx: each of them would train alone and
 * nobody would notice.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot.h"
#include "error.h"

struct blob {
	struct blob *next; /* the one put before */
	char *key;         /* NUL-ended */
	size_t size;       /* bytes of data */
	char *data;        /* owned; NUL-ended beyond size */
};

struct self {
	struct ddl__boot boot; /* first */
	struct blob *blobs;    /* the latest first */
};

static int self_probe(const struct ddl_comm_options *options, char *why, size_t size)
{
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
	const char *pmi = getenv("PMI_SIZE");
	const char *nspace = getenv("PMIX_NAMESPACE");

	(void)options;
	if (nspace && *nspace) {
		snprintf(why, size, "this process belongs to the PMIx job %.64s and is not alone", nspace);
		return 0;
	}
	if (tasks && strtol(tasks, NULL, 10) > 1) {
		snprintf(why, size, "the Slurm step has %.16s tasks but no PMIx: start it with srun --mpi=pmix", tasks);
		return 0;
	}
	if (pmi && strtol(pmi, NULL, 10) > 1) {
		snprintf(why, size, "the launcher speaks PMI 1 or 2 to its %.16s processes: use one that speaks PMIx", pmi);
		return 0;
	}
	snprintf(why, size, "the process is alone");
	return 1;
}

static int self_open(const struct ddl_comm_options *options, int timeout_ms, struct ddl__boot **boot, struct ddl_error *err)
{
	struct self *self = calloc(1, sizeof(*self));

	(void)options;
	(void)timeout_ms;
	if (!self)
		return ddl__error_set(err, -ENOMEM, "no memory for the bootstrap");
	self->boot.ops = &ddl__boot_self;
	self->boot.size = 1;
	if (gethostname(self->boot.host, sizeof(self->boot.host) - 1) < 0)
		self->boot.host[0] = '\0';
	*boot = &self->boot;
	return 0;
}

static const struct blob *find(const struct self *self, const char *key)
{
	for (const struct blob *blob = self->blobs; blob; blob = blob->next)
		if (!strcmp(blob->key, key))
			return blob;
	return NULL;
}

static void blob_destroy(struct blob *blob)
{
	if (!blob)
		return;
	free(blob->key);
	free(blob->data);
	free(blob);
}

static int self_put(struct ddl__boot *boot, const char *key, const void *data, size_t size, struct ddl_error *err)
{
	struct self *self = (struct self *)boot;
	struct blob *blob;

	if (find(self, key))
		return ddl__error_set(err, -EINVAL, "the key %s was put before: a key is put once", key);
	blob = calloc(1, sizeof(*blob));
	if (blob) {
		blob->key = strdup(key);
		blob->data = calloc(1, size + 1);
	}
	if (!blob || !blob->key || !blob->data) {
		blob_destroy(blob);
		return ddl__error_set(err, -ENOMEM, "no memory for %zu bytes under the key %s", size, key);
	}
	if (size)
		memcpy(blob->data, data, size);
	blob->size = size;
	blob->next = self->blobs;
	self->blobs = blob;
	return 0;
}

static int self_fence(struct ddl__boot *boot, struct ddl_error *err)
{
	(void)boot;
	(void)err;
	return 0;
}

static int self_get(struct ddl__boot *boot, int rank, const char *key, void **data, size_t *size, struct ddl_error *err)
{
	const struct blob *blob;
	char *copy;

	if (rank != 0)
		return ddl__error_set(err, -EINVAL, "there is no rank %d: this process is alone", rank);
	blob = find((struct self *)boot, key);
	if (!blob)
		return ddl__error_set(err, -ENOENT, "rank 0 never put the key %s", key);
	copy = malloc(blob->size + 1);
	if (!copy)
		return ddl__error_set(err, -ENOMEM, "no memory for %zu bytes of the key %s", blob->size, key);
	memcpy(copy, blob->data, blob->size + 1);
	*data = copy;
	*size = blob->size;
	return 0;
}

static void self_close(struct ddl__boot *boot)
{
	struct self *self = (struct self *)boot;
	struct blob *next;

	if (!self)
		return;
	for (struct blob *blob = self->blobs; blob; blob = next) {
		next = blob->next;
		blob_destroy(blob);
	}
	free(self);
}

const struct ddl__boot_ops ddl__boot_self = {
	.name = "self",
	.description = "a process that is alone",
	.probe = self_probe,
	.open = self_open,
	.put = self_put,
	.fence = self_fence,
	.get = self_get,
	.close = self_close,
};
