/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffi.h - the part of XLA's foreign function interface that a handler of custom calls sees, version 0.x of its C ABI.
 *
 * The ABI is meant for handlers that are compiled once and called by all releases: every struct begins with its size, and fields
 * are only added at ends. So it is declared here and no framework is needed for building; tests/python/test_jax.py holds these
 * declarations against the header that jaxlib brings.
 */
#ifndef DDL_XLA_FFI_H
#define DDL_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

#define FFI_MAJOR 0 /* of the ABI */
#define FFI_MINOR 1 /* all that is used here is as old as this */

enum ffi_extension_type {
	FFI_EXTENSION_METADATA = 1, /* XLA asks what the handler is, and does not want it to run */
};

enum ffi_code { /* of errors: the usual ones of gRPC */
		FFI_INVALID_ARGUMENT = 3,
		FFI_DEADLINE_EXCEEDED = 4,
		FFI_RESOURCE_EXHAUSTED = 8,
		FFI_FAILED_PRECONDITION = 9,
		FFI_ABORTED = 10,
		FFI_INTERNAL = 13,
		FFI_UNAVAILABLE = 14,
};

enum ffi_type { /* of elements */
		FFI_S8 = 2,
		FFI_S32 = 4,
		FFI_S64 = 5,
		FFI_U8 = 6,
		FFI_F16 = 10,
		FFI_F32 = 11,
		FFI_F64 = 12,
		FFI_BF16 = 16,
		FFI_TOKEN = 17, /* no memory: orders calls */
};

enum ffi_attribute_type {
	FFI_ATTRIBUTE_ARRAY = 1,
	FFI_ATTRIBUTE_DICTIONARY = 2,
	FFI_ATTRIBUTE_SCALAR = 3,
	FFI_ATTRIBUTE_STRING = 4,
};

enum ffi_stage {
	FFI_EXECUTE = 3, /* the others are before it */
};

struct ffi_extension {
	size_t struct_size;         /* bytes */
	int type;                   /* enum ffi_extension_type */
	struct ffi_extension *next; /* NULL: the last */
};

struct ffi_version {
	size_t struct_size;              /* bytes */
	struct ffi_extension *extension; /* NULL: none */
	int major_version;               /* of the ABI that the handler was compiled for */
	int minor_version;               /* of it */
};

struct ffi_metadata {
	size_t struct_size;         /* bytes */
	struct ffi_version version; /* written by the handler */
	uint32_t traits;            /* written by the handler: none */
};

struct ffi_metadata_extension {
	struct ffi_extension base;     /* of type FFI_EXTENSION_METADATA */
	struct ffi_metadata *metadata; /* XLA's */
};

struct ffi_error; /* XLA's */

struct ffi_error_arguments {
	size_t struct_size;              /* bytes */
	struct ffi_extension *extension; /* NULL: none */
	const char *message;             /* copied */
	int code;                        /* enum ffi_code */
};

struct ffi_api {
	size_t struct_size;              /* bytes */
	struct ffi_extension *extension; /* NULL: none */
	struct ffi_version version;      /* of XLA */
	const void *internal;            /* XLA's */
	struct ffi_error *(*error_create)(struct ffi_error_arguments *arguments);
};

struct ffi_buffer {
	size_t struct_size;              /* bytes */
	struct ffi_extension *extension; /* NULL: none */
	int type;                        /* enum ffi_type */
	void *data;                      /* dense, in row-major order */
	int64_t rank;                    /* number of dims */
	const int64_t *dims;             /* elements each */
};

struct ffi_span {
	const char *begin; /* no 0 at its end */
	size_t length;     /* bytes */
};

struct ffi_array {
	int type;         /* enum ffi_type */
	size_t count;     /* elements */
	const void *data; /* dense */
};

struct ffi_buffers {                     /* arguments, and results */
	size_t struct_size;              /* bytes */
	struct ffi_extension *extension; /* NULL: none */
	int64_t count;                   /* of buffers */
	const int *types;                /* 1 each: a buffer */
	struct ffi_buffer **buffers;     /* count of them */
};

struct ffi_attributes {
	size_t struct_size;              /* bytes */
	struct ffi_extension *extension; /* NULL: none */
	int64_t count;                   /* of attributes */
	const int *types;                /* enum ffi_attribute_type */
	struct ffi_span **names;         /* count of them */
	void **values;                   /* struct ffi_array, struct ffi_span (a string), ... */
};

struct ffi_call {
	size_t struct_size;               /* bytes */
	struct ffi_extension *extension;  /* NULL: none */
	const struct ffi_api *api;        /* XLA's */
	void *context;                    /* XLA's */
	int stage;                        /* enum ffi_stage */
	struct ffi_buffers arguments;     /* operands */
	struct ffi_buffers results;       /* written by the handler */
	struct ffi_attributes attributes; /* constants of the call */
};

#endif
