/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/hash.h - digests. */
#ifndef BERTH_CRYPTO_HASH_H
#define BERTH_CRYPTO_HASH_H

#include <stddef.h>

#include <berth/error.h>

#define BERTH_SHA256_SIZE 32
#define BERTH_SHA256_HEX_SIZE 65
#define BERTH_SHA1_BASE64_SIZE 29

int berth_sha256(const void *bytes, size_t len, unsigned char out[BERTH_SHA256_SIZE],
                 struct berth_error *err);
int berth_sha256_hex(const void *bytes, size_t len, char out[BERTH_SHA256_HEX_SIZE],
                     struct berth_error *err); /* in lower case */

/* The SHA-256 of bytes that come one after the other. Used by one thread at a time. */
struct berth_sha256_stream;
int berth_sha256_stream_new(struct berth_sha256_stream **out, struct berth_error *err);
void berth_sha256_stream_free(struct berth_sha256_stream *stream); /* NULL is fine */
/* Begins anew: a stream can be used for one text after the other. */
void berth_sha256_stream_begin(struct berth_sha256_stream *stream);
void berth_sha256_stream_put(struct berth_sha256_stream *stream, const void *bytes, size_t len);
void berth_sha256_stream_end(struct berth_sha256_stream *stream,
                             unsigned char out[BERTH_SHA256_SIZE]);

/* Only where a protocol wants it: it proves nothing. */
int berth_sha1_base64(const void *bytes, size_t len, char out[BERTH_SHA1_BASE64_SIZE],
                      struct berth_error *err);
#endif
