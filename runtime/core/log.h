/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - what the library says on standard error: one line, "ddl: ...". DDL_LOG=error|warning|info|debug (default warning).
 */
#ifndef DDL_CORE_LOG_H
#define DDL_CORE_LOG_H

enum ddl__log_level {
	DDL__LOG_ASKED = -1,  /* what somebody asked for by a variable of its own: always told */
	DDL__LOG_ERROR = 0,   /* a call fails because of it */
	DDL__LOG_WARNING = 1, /* it works, but not as asked */
	DDL__LOG_INFO = 2,    /* once a communicator; failures, which the caller is told of anyway */
	DDL__LOG_DEBUG = 3,   /* once a request or connection */
};

void ddl__log(enum ddl__log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
