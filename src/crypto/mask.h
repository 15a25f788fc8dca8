/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/mask.h - takes known values out of a stream, byte for byte, wherever chunks end: what
 * comes out is as long as what went in, so counts and offsets stay the child's own. */
#ifndef BERTH_CRYPTO_MASK_H
#define BERTH_CRYPTO_MASK_H

#include "crypto/locked.h"

#define BERTH_MASKED_BYTES_MIN 6 /* a shorter value cannot be masked without spoiling the rest */

struct berth_mask; /* of one stream; not shared between threads */

/* The values are copied. Without any that can be masked *out is NULL, which the others take: then
 * everything passes as it is. */
int berth_mask_new(const struct berth_locked *values, int count, struct berth_mask **out,
                   struct berth_error *err);
void berth_mask_free(struct berth_mask *mask);

typedef void berth_mask_out_fn(void *ctx, const char *bytes, size_t len);
/* Hands on what is certain; at most the longest value less one byte is held back. */
void berth_mask_put(struct berth_mask *mask, const char *bytes, size_t len, berth_mask_out_fn *out,
                    void *ctx);
void berth_mask_end(struct berth_mask *mask, berth_mask_out_fn *out, void *ctx);
#endif
