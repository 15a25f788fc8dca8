/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/seal.h - AES-256-GCM: what is sealed can be read by the key alone, and only together
 * with the context that it was sealed for. */
#ifndef BERTH_CRYPTO_SEAL_H
#define BERTH_CRYPTO_SEAL_H

#include "crypto/locked.h"

#define BERTH_KEY_BYTES 32

/* *out is base64 of nonce, ciphertext and tag; the caller's. */
int berth_seal(const unsigned char key[BERTH_KEY_BYTES], const char *context, const void *plain,
               size_t len, char **out, struct berth_error *err);
/* INVALID: not a sealed text, another key, another context, or a bit has changed. */
int berth_unseal(const unsigned char key[BERTH_KEY_BYTES], const char *context, const char *sealed,
                 struct berth_locked *out, struct berth_error *err);
#endif
