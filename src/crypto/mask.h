/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/mask.h - replaces each byte of known values in a stream by "*", wherever the pieces of
 * the stream end. The output is as long as the input, so counts and offsets stay the command's own.
 * The work is linear in the length of the stream, whatever the values are. */
#ifndef BERTH_CRYPTO_MASK_H
#define BERTH_CRYPTO_MASK_H

#include <stdint.h>

#include "crypto/locked.h"
#include "crypto/matcher.h"

#define BERTH_MASKED_BYTES_MIN 6 /* a shorter value cannot be masked without spoiling the rest */

struct berth_mask; /* of one stream; not shared between threads */

/* Copies the values. When none of them can be masked *out is NULL: the other functions take NULL,
 * and then hand everything on as it is. TOO_LARGE: see berth_matcher_new. */
int berth_mask_new(const struct berth_pattern *values, size_t count, struct berth_mask **out,
                   struct berth_error *err);
/* Makes a mask of the same values for another stream; NULL gives NULL. The two share their tables,
 * so they are made and freed by one thread at a time. */
int berth_mask_twin(struct berth_mask *mask, struct berth_mask **out, struct berth_error *err);
void berth_mask_free(struct berth_mask *mask);

typedef void berth_mask_out_fn(void *ctx, const char *bytes, size_t len);
/* Hands on the bytes that are certain. At most the length of the longest value less one byte is
 * held back. */
void berth_mask_put(struct berth_mask *mask, const char *bytes, size_t len, berth_mask_out_fn *out,
                    void *ctx);
/* Ends the stream: hands on what was held back. The mask can then be used for another stream. */
void berth_mask_end(struct berth_mask *mask, berth_mask_out_fn *out, void *ctx);
/* Returns how many steps all streams of this mask took, for tests; NULL: 0. */
uint64_t berth_mask_steps(const struct berth_mask *mask);
#endif
