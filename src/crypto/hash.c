/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/hash.c - see hash.h. */
#include "crypto/hash.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>

#include "base/base64.h"

static EVP_MD *sha256, *sha1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* OpenSSL 3.0 looks an algorithm up on every use unless it is fetched once. Kept for good. */
static void hash_fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
}

static int hash_digest(EVP_MD *const *kind, const char *name, const void *bytes, size_t len,
                       unsigned char *out, struct berth_error *err)
{
    pthread_once(&once, hash_fetch);
    if (*kind && EVP_Digest(bytes, len, out, NULL, *kind, NULL) == 1)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_INTERNAL, "%s is not available in this OpenSSL.", name);
}

int berth_sha256_hex(const void *bytes, size_t len, char out[BERTH_SHA256_HEX_SIZE],
                     struct berth_error *err)
{
    unsigned char sum[32];
    int rc = hash_digest(&sha256, "SHA-256", bytes, len, sum, err);
    for (unsigned i = 0; rc == BERTH_OK && i < sizeof sum; i++)
        (void)snprintf(out + (size_t)i * 2, 3, "%02x", sum[i]);
    return rc;
}

int berth_sha1_base64(const void *bytes, size_t len, char out[BERTH_SHA1_BASE64_SIZE],
                      struct berth_error *err)
{
    unsigned char sum[20];
    int rc = hash_digest(&sha1, "SHA-1", bytes, len, sum, err);
    if (rc == BERTH_OK)
        berth_base64_encode(sum, sizeof sum, out);
    return rc;
}
