/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/hash.c - see hash.h. */
#include "crypto/hash.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/hex.h"

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

int berth_sha256(const void *bytes, size_t len, unsigned char out[BERTH_SHA256_SIZE],
                 struct berth_error *err)
{
    return hash_digest(&sha256, "SHA-256", bytes, len, out, err);
}

int berth_sha256_hex(const void *bytes, size_t len, char out[BERTH_SHA256_HEX_SIZE],
                     struct berth_error *err)
{
    unsigned char sum[BERTH_SHA256_SIZE];
    int rc = berth_sha256(bytes, len, sum, err);
    if (rc == BERTH_OK)
        berth_hex_write(sum, sizeof sum, out);
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

/* --- streams --- */

/* The context is the stream: OpenSSL hides what it is. */
static EVP_MD_CTX *context_of(struct berth_sha256_stream *stream)
{
    return (EVP_MD_CTX *)(void *)stream;
}

int berth_sha256_stream_new(struct berth_sha256_stream **out, struct berth_error *err)
{
    pthread_once(&once, hash_fetch);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: digest.");
    if (!sha256 || EVP_DigestInit_ex(context, sha256, NULL) != 1) {
        EVP_MD_CTX_free(context);
        return berth_fail(err, BERTH_E_INTERNAL, "SHA-256 is not available in this OpenSSL.");
    }
    *out = (struct berth_sha256_stream *)(void *)context;
    return BERTH_OK;
}

void berth_sha256_stream_free(struct berth_sha256_stream *stream)
{
    EVP_MD_CTX_free(context_of(stream));
}

/* Neither of these fails once the algorithm was found. */
void berth_sha256_stream_begin(struct berth_sha256_stream *stream)
{
    if (EVP_DigestInit_ex(context_of(stream), sha256, NULL) != 1)
        abort();
}

void berth_sha256_stream_put(struct berth_sha256_stream *stream, const void *bytes, size_t len)
{
    if (EVP_DigestUpdate(context_of(stream), bytes, len) != 1)
        abort();
}

void berth_sha256_stream_end(struct berth_sha256_stream *stream,
                             unsigned char out[BERTH_SHA256_SIZE])
{
    if (EVP_DigestFinal_ex(context_of(stream), out, NULL) != 1)
        abort();
}
