/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce.c - the handler of XLA's custom call.
 *
 * A call has persistent requests, one an array. They are made in the first call of a kind (lengths, types, operation, options),
 * kept with the group, and laid on the arrays of every call. XLA hands a handler nothing of ours but attributes, so the groups are
 * found by their numbers in a table. It may run handlers in several threads; one call of a group runs at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla.h"

struct kind { /* of calls */
	struct kind *next;
	int64_t numbers[DDL_XLA_NUMBERS];
	char *algorithm; /* NULL: chosen */
	size_t n;        /* arrays */
	size_t *counts;  /* elements of each */
	enum ddl_type *types;
	struct ddl_request **requests; /* NULL where there is nothing to reduce */
};

struct group {
	struct group *next;
	int64_t number;
	struct ddl_comm *comm; /* borrowed until ddl_xla_detach(); NULL afterwards */
	pthread_mutex_t busy;  /* held while a call runs */
	struct kind *kinds;
};

/* Groups are added and never taken out, since a call may have found one that is detached meanwhile. */
static struct group *groups;
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;

static struct group *find_group(int64_t number)
{
	struct group *g;

	pthread_mutex_lock(&groups_lock);
	for (g = groups; g && g->number != number; g = g->next)
		;
	pthread_mutex_unlock(&groups_lock);
	return g;
}

int ddl_xla_attach(int64_t number, struct ddl_comm *comm)
{
	struct group *g;

	if (find_group(number))
		return -EEXIST;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->number = number;
	g->comm = comm;
	pthread_mutex_init(&g->busy, NULL);
	pthread_mutex_lock(&groups_lock);
	g->next = groups;
	groups = g;
	pthread_mutex_unlock(&groups_lock);
	return 0;
}

static void kind_destroy(struct kind *k)
{
	if (!k)
		return;
	for (size_t i = 0; k->requests && i < k->n; i++)
		ddl_request_free(k->requests[i]);
	free(k->algorithm);
	free(k->counts);
	free(k->types);
	free(k->requests);
	free(k);
}

void ddl_xla_detach(int64_t number)
{
	struct group *g = find_group(number);

	if (!g)
		return;
	pthread_mutex_lock(&g->busy);
	while (g->kinds) {
		struct kind *next = g->kinds->next;

		kind_destroy(g->kinds);
		g->kinds = next;
	}
	g->comm = NULL;
	pthread_mutex_unlock(&g->busy);
}

static struct ffi_error *fail(const struct ffi_call *call, int rc, const char *text)
{
	struct ffi_error_arguments arguments = { sizeof(arguments), NULL, text, FFI_INTERNAL };

	switch (-rc) {
	case EINVAL:
		arguments.code = FFI_INVALID_ARGUMENT;
		break;
	case ETIMEDOUT:
		arguments.code = FFI_DEADLINE_EXCEEDED;
		break;
	case ENOMEM:
		arguments.code = FFI_RESOURCE_EXHAUSTED;
		break;
	case EPROTO:
		arguments.code = FFI_FAILED_PRECONDITION;
		break;
	case ECANCELED:
		arguments.code = FFI_ABORTED;
		break;
	case ECONNRESET:
		arguments.code = FFI_UNAVAILABLE;
		break;
	}
	/* cppcheck-suppress returnDanglingLifetime ; the error is XLA's, with copies of all that the arguments name */
	return call->api->error_create(&arguments);
}

/* XLA's type as ours; 0: there is none. */
static int type_of(int type)
{
	switch (type) {
	case FFI_F64:
		return DDL_FLOAT64;
	case FFI_F32:
		return DDL_FLOAT32;
	case FFI_F16:
		return DDL_FLOAT16;
	case FFI_BF16:
		return DDL_BFLOAT16;
	case FFI_S64:
		return DDL_INT64;
	case FFI_S32:
		return DDL_INT32;
	case FFI_S8:
		return DDL_INT8;
	case FFI_U8:
		return DDL_UINT8;
	}
	return 0;
}

static size_t count_of(const struct ffi_buffer *b)
{
	size_t count = 1;

	for (int64_t d = 0; d < b->rank; d++)
		count *= (size_t)b->dims[d];
	return count;
}

/* The attribute of a name and a type, NULL where the call has none. */
static const void *attribute(const struct ffi_call *call, const char *name, int type)
{
	const struct ffi_attributes *a = &call->attributes;

	for (int64_t i = 0; i < a->count; i++)
		if (a->types[i] == type && a->names[i]->length == strlen(name) &&
		    memcmp(a->names[i]->begin, name, strlen(name)) == 0)
			return a->values[i];
	return NULL;
}

static int is_kind(const struct kind *k, const struct ffi_call *call, const int64_t *numbers, const struct ffi_span *algorithm)
{
	const char *name = k->algorithm ? k->algorithm : "";

	if (memcmp(k->numbers, numbers, sizeof(k->numbers)) != 0 || k->n != (size_t)call->arguments.count ||
	    strlen(name) != algorithm->length || memcmp(name, algorithm->begin, algorithm->length) != 0)
		return 0;
	for (size_t i = 0; i < k->n; i++) {
		const struct ffi_buffer *b = call->arguments.buffers[i];

		if (b->type == FFI_TOKEN ? k->counts[i] != 0 : (int)k->types[i] != type_of(b->type) || k->counts[i] != count_of(b))
			return 0;
	}
	return 1;
}

static int make_requests(struct kind *k, const struct ffi_call *call, struct ddl_comm *comm, struct ddl_error *err)
{
	struct ddl_request_options options = DDL_REQUEST_OPTIONS_INIT;

	options.wire = (enum ddl_wire)k->numbers[DDL_XLA_WIRE];
	options.rings = (int)k->numbers[DDL_XLA_RINGS];
	options.rounding = (enum ddl_rounding)k->numbers[DDL_XLA_ROUNDING];
	options.seed = (uint64_t)k->numbers[DDL_XLA_SEED];
	options.accuracy = (enum ddl_accuracy)k->numbers[DDL_XLA_ACCURACY];
	options.reproducible = (int)k->numbers[DDL_XLA_REPRODUCIBLE];
	options.algorithm = k->algorithm;
	for (size_t i = 0; i < k->n; i++) {
		const struct ffi_buffer *send = call->arguments.buffers[i];
		int rc;

		if (send->type == FFI_TOKEN)
			continue;
		k->counts[i] = count_of(send);
		k->types[i] = (enum ddl_type)type_of(send->type);
		if (k->counts[i] == 0)
			continue;
		rc = ddl_allreduce_init(send->data, call->results.buffers[i]->data, k->counts[i], k->types[i],
					(enum ddl_op)k->numbers[DDL_XLA_OP], comm, &options, &k->requests[i], err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int make_kind(struct group *g, const struct ffi_call *call, const int64_t *numbers, const struct ffi_span *algorithm,
		     struct kind **kind, struct ddl_error *err)
{
	struct kind *k = calloc(1, sizeof(*k));
	int rc = -ENOMEM;

	snprintf(err->text, sizeof(err->text), "no memory for an all-reduce of %lld arrays", (long long)call->arguments.count);
	if (!k)
		return rc;
	k->n = (size_t)call->arguments.count;
	memcpy(k->numbers, numbers, sizeof(k->numbers));
	k->counts = calloc(k->n + 1, sizeof(*k->counts));
	k->types = calloc(k->n + 1, sizeof(*k->types));
	k->requests = calloc(k->n + 1, sizeof(struct ddl_request *));
	if (algorithm->length)
		k->algorithm = strndup(algorithm->begin, algorithm->length);
	if (k->counts && k->types && k->requests && (k->algorithm || !algorithm->length))
		rc = make_requests(k, call, g->comm, err);
	if (rc < 0) {
		kind_destroy(k);
		return rc;
	}
	k->next = g->kinds;
	g->kinds = k;
	*kind = k;
	return 0;
}

/* All arrays at once. Requests lie on the arrays of an earlier call until then. */
static int run(const struct kind *k, const struct ffi_call *call, struct ddl_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < k->n; i++)
		if (k->requests[i])
			rc = ddl_request_set_buffers(k->requests[i], call->arguments.buffers[i]->data,
						     call->results.buffers[i]->data, err);
	for (size_t i = 0; rc == 0 && i < k->n; i++)
		if (k->requests[i])
			rc = ddl_start(k->requests[i]);
	for (size_t i = 0; rc == 0 && i < k->n; i++)
		if (k->requests[i])
			rc = ddl_wait(k->requests[i]);
	return rc;
}

/* Whether the call is as the package makes it. */
static int check(const struct ffi_call *call, const struct ffi_array *numbers, const struct ffi_span *algorithm)
{
	if (!numbers || numbers->type != FFI_S64 || numbers->count != DDL_XLA_NUMBERS || !algorithm ||
	    call->arguments.count != call->results.count)
		return 0;
	for (int64_t i = 0; i < call->arguments.count; i++) {
		const struct ffi_buffer *in = call->arguments.buffers[i], *out = call->results.buffers[i];

		if (in->type != out->type || (in->type != FFI_TOKEN && (!type_of(in->type) || count_of(in) != count_of(out))))
			return 0;
	}
	return 1;
}

struct ffi_error *ddl_xla_allreduce(struct ffi_call *call)
{
	const struct ffi_array *numbers;
	const struct ffi_span *algorithm;
	struct ddl_error err = { 0 };
	struct kind *k;
	struct group *g;
	int rc = 0;

	for (struct ffi_extension *e = call->extension; e; e = e->next)
		if (e->type == FFI_EXTENSION_METADATA) {
			struct ffi_metadata *metadata = ((struct ffi_metadata_extension *)e)->metadata;

			metadata->version.major_version = FFI_MAJOR;
			metadata->version.minor_version = FFI_MINOR;
			metadata->traits = 0;
			return NULL;
		}
	if (call->stage != FFI_EXECUTE)
		return NULL;
	numbers = attribute(call, "numbers", FFI_ATTRIBUTE_ARRAY);
	algorithm = attribute(call, "algorithm", FFI_ATTRIBUTE_STRING);
	if (!check(call, numbers, algorithm))
		return fail(call, -EINVAL, "the call is not as ddl.jax of this release makes it: install both from one release");
	g = find_group(((const int64_t *)numbers->data)[DDL_XLA_GROUP]);
	if (!g)
		return fail(call, -EINVAL, "the program was compiled for a communicator that is not there: compile it anew");
	pthread_mutex_lock(&g->busy);
	for (k = g->kinds; k && !is_kind(k, call, numbers->data, algorithm); k = k->next)
		;
	if (!g->comm) {
		rc = -EINVAL;
		snprintf(err.text, sizeof(err.text), "the communicator was destroyed: make another one");
	} else if (!k) {
		rc = make_kind(g, call, numbers->data, algorithm, &k, &err);
	}
	if (rc == 0) {
		rc = run(k, call, &err);
		if (rc < 0)
			ddl_comm_get_error(g->comm, &err);
	}
	pthread_mutex_unlock(&g->busy);
	return rc < 0 ? fail(call, rc, err.text) : NULL;
}
