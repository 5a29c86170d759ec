/* SPDX-License-Identifier: Apache-2.0 */
/* auth.c - see auth.h. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "auth.h"
#include "transport.h"

struct claim { /* what is proved. No padding. */
	char role[8];
	char transport[8];
	struct ddl__auth_hello hello;
	uint8_t nonce[DDL__AUTH_NONCE];
};

struct label { /* what a secret is derived for; of another size than a claim. No padding. */
	char what[8];
	uint64_t number;
	int64_t color;
};

_Static_assert(sizeof(struct label) == 24, "the label has no padding");
_Static_assert(sizeof(struct ddl__auth_hello) == 32 + DDL__AUTH_NONCE, "the hello has no padding");
_Static_assert(sizeof(struct claim) == 16 + 32 + 2 * DDL__AUTH_NONCE, "the claim has no padding");

void ddl__auth_open(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, NULL);
}

int ddl__auth_random(void *buffer, size_t n)
{
	uint8_t *to = buffer;

	while (n) {
		ssize_t got = getrandom(to, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		to += got;
		n -= (size_t)got;
	}
	return 0;
}

int ddl__auth_prove(const uint8_t *secret, enum ddl__auth_role role, const char *transport, const struct ddl__auth_hello *hello,
		    const uint8_t *nonce, uint8_t *mac)
{
	struct claim claim;
	unsigned int size = 0;

	memset(&claim, 0, sizeof(claim));
	memcpy(claim.role, role == DDL__AUTH_LISTEN ? "listen\0" : "connect", sizeof(claim.role));
	memcpy(claim.transport, transport, strnlen(transport, sizeof(claim.transport)));
	claim.hello = *hello;
	memcpy(claim.nonce, nonce, sizeof(claim.nonce));
	if (!HMAC(EVP_sha256(), secret, DDL__SECRET_SIZE, (const unsigned char *)&claim, sizeof(claim), mac, &size) ||
	    size != DDL__AUTH_MAC)
		return -EIO;
	return 0;
}

bool ddl__auth_holds(const uint8_t *secret, enum ddl__auth_role role, const char *transport, const struct ddl__auth_hello *hello,
		     const uint8_t *nonce, const uint8_t *mac)
{
	uint8_t right[DDL__AUTH_MAC];

	return ddl__auth_prove(secret, role, transport, hello, nonce, right) == 0 && CRYPTO_memcmp(right, mac, sizeof(right)) == 0;
}

int ddl__auth_derive(const uint8_t *secret, uint64_t number, int color, uint8_t *derived)
{
	const struct label label = { .what = "split", .number = number, .color = color };
	unsigned int size = 0;

	if (!HMAC(EVP_sha256(), secret, DDL__SECRET_SIZE, (const unsigned char *)&label, sizeof(label), derived, &size) ||
	    size != DDL__SECRET_SIZE)
		return -EIO;
	return 0;
}
