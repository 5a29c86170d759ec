/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - both ends of a new connection prove that they know the job's secret, before anything else is listened to.
 *
 *     connecting -> listening   HELLO      who I am, whom I want, nonce
 *     listening -> connecting   CHALLENGE  nonce, HMAC-SHA256(secret, "listen", claim)
 *     connecting -> listening   PROOF      HMAC-SHA256(secret, "connect", claim)
 *     listening -> connecting   WELCOME
 *
 * The claim holds both nonces, both ranks, their number and the random number of the listening transport, so a proof is good for
 * this one connection only. The secret travels through the job's bootstrap and never over these connections. What follows the
 * handshake is not encrypted: it keeps strangers out, not those who can alter packets under way.
 */
#ifndef DDL_TRANSPORT_AUTH_H
#define DDL_TRANSPORT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DDL__AUTH_VERSION 2u
#define DDL__AUTH_NONCE   32u /* bytes */
#define DDL__AUTH_MAC     32u /* bytes */

struct ddl__auth_hello {                /* body of HELLO. No padding. */
	uint32_t version;               /* DDL__AUTH_VERSION */
	uint32_t from;                  /* rank of the connecting side */
	uint32_t to;                    /* rank it wants */
	uint32_t n_ranks;               /* of the communicator */
	uint64_t instance;              /* of the listening transport, from its address */
	uint32_t rail;                  /* of the connection */
	uint32_t channel;               /* of the connection */
	uint8_t nonce[DDL__AUTH_NONCE]; /* of the connecting side */
};

struct ddl__auth_challenge {            /* body of CHALLENGE */
	uint8_t nonce[DDL__AUTH_NONCE]; /* of the listening side */
	uint8_t mac[DDL__AUTH_MAC];
};

struct ddl__auth_proof { /* body of PROOF */
	uint8_t mac[DDL__AUTH_MAC];
};

enum ddl__auth_role {
	DDL__AUTH_LISTEN = 1,
	DDL__AUTH_CONNECT = 2,
};

/* Sees to it that libcrypto has registered what it does at the end of the process. */
void ddl__auth_open(void);
/* Fills n random bytes. 0, -errno. */
int ddl__auth_random(void *buffer, size_t n);
/* The proof of that role for the claim (hello with its nonce, the listening side's nonce). transport: its name. 0, -EIO. */
int ddl__auth_prove(const uint8_t *secret, enum ddl__auth_role role, const char *transport, const struct ddl__auth_hello *hello,
		    const uint8_t *nonce, uint8_t *mac);
/* Whether mac is that proof; takes the same time whatever it holds. */
bool ddl__auth_holds(const uint8_t *secret, enum ddl__auth_role role, const char *transport, const struct ddl__auth_hello *hello,
		     const uint8_t *nonce, const uint8_t *mac);
/* The secret of the communicator with that color that the number-th split cuts out: DDL__SECRET_SIZE bytes. 0, -EIO. */
int ddl__auth_derive(const uint8_t *secret, uint64_t number, int color, uint8_t *derived);

#endif
