/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_rows.c - from what was asked for to the rows that are measured.
 */
#include <errno.h>
#include <stdlib.h>

#include "error.h"
#include "perf.h"

static int by_bytes(const void *a, const void *b)
{
	const struct ddl__perf_row *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* One row a distinct size, then that of all. rows has room for a row a tensor and one more. */
static size_t list_rows(const struct ddl__perf_options *o, struct ddl__perf_row *rows)
{
	const size_t type_size = ddl_type_size(o->type);
	uint64_t total = 0;
	size_t n = 0;

	for (size_t i = 0; i < o->n_tensors; i++) {
		rows[i] = (struct ddl__perf_row){ i, 1, 1, o->tensors, o->tensors[i].count * type_size, false };
		total += rows[i].bytes;
	}
	qsort(rows, o->n_tensors, sizeof(*rows), by_bytes);
	for (size_t i = 0; i < o->n_tensors && !o->total_only; i++) {
		if (n > 0 && rows[n - 1].bytes == rows[i].bytes)
			rows[n - 1].alike++;
		else
			rows[n++] = rows[i];
	}
	rows[n++] = (struct ddl__perf_row){ 0, o->n_tensors, o->n_tensors, o->tensors, total, true };
	return n;
}

static int size_rows(const struct ddl__perf_options *o, struct ddl__perf_row *rows, struct ddl__perf_tensor *tensors,
		     struct ddl_error *err)
{
	const size_t type_size = ddl_type_size(o->type);

	for (size_t i = 0; i < o->n_sizes; i++) {
		if (o->sizes[i] % type_size != 0)
			return ddl__error_set(err, -EINVAL, "size %llu is no multiple of an element's %zu bytes",
					      (unsigned long long)o->sizes[i], type_size);
		tensors[i] = (struct ddl__perf_tensor){ NULL, o->sizes[i] / type_size };
		rows[i] = (struct ddl__perf_row){ i, 1, 1, tensors, o->sizes[i], false };
	}
	return 0;
}

int ddl__perf_rows(const struct ddl__perf_options *options, struct ddl__perf_row **rows, size_t *n_rows,
		   struct ddl__perf_tensor **made, struct ddl_error *err)
{
	const size_t room = options->n_tensors + options->n_sizes + 1;
	struct ddl__perf_row *list = calloc(room, sizeof(*list));
	struct ddl__perf_tensor *tensors = calloc(room, sizeof(*tensors));
	size_t n = 1; /* a barrier: one row without tensors */
	int rc = 0;

	if (!list || !tensors) {
		free(list);
		free(tensors);
		return ddl__error_memory(err);
	}
	if (options->n_tensors > 0) {
		n = list_rows(options, list);
	} else if (options->n_sizes > 0) {
		n = options->n_sizes;
		rc = size_rows(options, list, tensors, err);
	}
	if (rc < 0) {
		free(list);
		free(tensors);
		return rc;
	}
	*rows = list;
	*n_rows = n;
	*made = tensors;
	return 0;
}
