/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/hash.h - digests as lower-case hex. */
#ifndef BERTH_CRYPTO_HASH_H
#define BERTH_CRYPTO_HASH_H

#include <stddef.h>

#include <berth/error.h>

#define BERTH_SHA256_HEX_SIZE 65

int berth_sha256_hex(const void *bytes, size_t len, char out[BERTH_SHA256_HEX_SIZE],
                     struct berth_error *err);
#endif
