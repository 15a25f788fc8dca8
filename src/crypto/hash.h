/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/hash.h - digests as text. */
#ifndef BERTH_CRYPTO_HASH_H
#define BERTH_CRYPTO_HASH_H

#include <stddef.h>

#include <berth/error.h>

#define BERTH_SHA256_HEX_SIZE 65
#define BERTH_SHA1_BASE64_SIZE 29

int berth_sha256_hex(const void *bytes, size_t len, char out[BERTH_SHA256_HEX_SIZE],
                     struct berth_error *err); /* in lower case */
/* Only where a protocol wants it: it proves nothing. */
int berth_sha1_base64(const void *bytes, size_t len, char out[BERTH_SHA1_BASE64_SIZE],
                      struct berth_error *err);
#endif
