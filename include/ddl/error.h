/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddl/error.h - the error record that set-up calls of DDL fill.
 *
 * Every call returns 0 (or a documented positive value) on success and a negative errno on failure. Set-up calls also
 * take a `struct ddl_error *`, always last, which may be NULL. It is written only on failure.
 *
 * One meaning each:
 *   -EINVAL      an argument is out of its documented range
 *   -ENOMEM      memory could not be allocated
 *   -EAGAIN      retry after progress
 *   -EOPNOTSUPP  not implemented here
 *   -ENOENT      something named does not exist (a file, an interface, a transport)
 *   -EBADMSG     malformed bytes (plan text, topology text, packets)
 *   -EPROTO      peers disagree (plan, count, type, operation, version)
 *   -ECONNRESET  a peer is gone
 *   -ECONNREFUSED a peer could not be connected
 *   -ETIMEDOUT   the deadline passed
 *   -ECANCELED   the communicator was aborted
 */
#ifndef DDL_ERROR_H
#define DDL_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#define DDL_ERROR_TEXT_SIZE 512 /* bytes, with the terminating NUL */

struct ddl_error {
	int code;                       /* negative errno */
	char text[DDL_ERROR_TEXT_SIZE]; /* one sentence: what, which rank and node, and the remedy */
};

#ifdef __cplusplus
}
#endif
#endif
