/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/seal.c - see seal.h. */
#include "crypto/seal.h"

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/base64.h"

#define NONCE_BYTES 12
#define TAG_BYTES 16

static void free_cipher(EVP_CIPHER_CTX **cipher)
{
    EVP_CIPHER_CTX_free(*cipher);
}

/* The same steps both ways; the tag is given (unseal) or answered (seal). */
static bool run_cipher(bool sealing, const unsigned char *key, const unsigned char *nonce,
                       const char *context, const void *in, size_t len, unsigned char *out,
                       unsigned char *tag)
{
    EVP_CIPHER_CTX *cipher auto_clean(free_cipher) = EVP_CIPHER_CTX_new();
    int done = 0, last = 0;
    if (!cipher || len > INT_MAX ||
        EVP_CipherInit_ex(cipher, EVP_aes_256_gcm(), NULL, key, nonce, sealing) != 1 ||
        EVP_CipherUpdate(cipher, NULL, &done, (const unsigned char *)context,
                         (int)strlen(context)) != 1 ||
        EVP_CipherUpdate(cipher, out, &done, in, (int)len) != 1)
        return false;
    if (!sealing && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) != 1)
        return false;
    if (EVP_CipherFinal_ex(cipher, out + done, &last) != 1)
        return false;
    return !sealing || EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1;
}

int berth_seal(const unsigned char key[BERTH_KEY_BYTES], const char *context, const void *plain,
               size_t len, char **out, struct berth_error *err)
{
    size_t size = NONCE_BYTES + len + TAG_BYTES;
    auto_free unsigned char *bytes = malloc(size);
    auto_free char *text = malloc(BERTH_BASE64_SIZE(size));
    if (!bytes || !text)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: secret.");
    if (RAND_bytes(bytes, NONCE_BYTES) != 1 ||
        !run_cipher(true, key, bytes, context, plain, len, bytes + NONCE_BYTES,
                    bytes + NONCE_BYTES + len))
        return berth_fail(err, BERTH_E_INTERNAL, "AES-256-GCM failed in this OpenSSL.");
    berth_base64_encode(bytes, size, text);
    *out = take_ptr(text);
    return BERTH_OK;
}

static int fail_sealed(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_INVALID, "Invalid local_encrypted secret material");
}

int berth_unseal(const unsigned char key[BERTH_KEY_BYTES], const char *context, const char *sealed,
                 struct berth_locked *out, struct berth_error *err)
{
    size_t size, text_len = strlen(sealed);
    if (!berth_base64_length(sealed, text_len, &size) || size < NONCE_BYTES + TAG_BYTES)
        return fail_sealed(err);
    auto_free unsigned char *bytes = malloc(size);
    if (!bytes)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: secret.");
    if (!berth_base64_decode(sealed, text_len, bytes))
        return fail_sealed(err);
    size_t len = size - NONCE_BYTES - TAG_BYTES;
    auto_locked plain = BERTH_LOCKED_INIT;
    int rc = berth_locked_new(len, &plain, err);
    if (rc < 0)
        return rc;
    if (!run_cipher(false, key, bytes, context, bytes + NONCE_BYTES, len,
                    (unsigned char *)plain.bytes, bytes + size - TAG_BYTES))
        return fail_sealed(err);
    plain.len = len;
    *out = plain;
    plain = (struct berth_locked)BERTH_LOCKED_INIT;
    return BERTH_OK;
}
