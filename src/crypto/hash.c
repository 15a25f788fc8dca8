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
static void fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
}

int berth_sha256_hex(const void *bytes, size_t len, char out[BERTH_SHA256_HEX_SIZE],
                     struct berth_error *err)
{
    pthread_once(&once, fetch);
    unsigned char digest[32];
    unsigned size = sizeof digest;
    if (!sha256 || EVP_Digest(bytes, len, digest, &size, sha256, NULL) != 1)
        return berth_fail(err, BERTH_E_INTERNAL, "SHA-256 is not available in this OpenSSL.");
    for (unsigned i = 0; i < sizeof digest; i++)
        (void)snprintf(out + (size_t)i * 2, 3, "%02x", digest[i]);
    return BERTH_OK;
}

int berth_sha1_base64(const void *bytes, size_t len, char out[BERTH_SHA1_BASE64_SIZE],
                      struct berth_error *err)
{
    pthread_once(&once, fetch);
    unsigned char digest[20];
    unsigned size = sizeof digest;
    if (!sha1 || EVP_Digest(bytes, len, digest, &size, sha1, NULL) != 1)
        return berth_fail(err, BERTH_E_INTERNAL, "SHA-1 is not available in this OpenSSL.");
    berth_base64_encode(digest, sizeof digest, out);
    return BERTH_OK;
}
