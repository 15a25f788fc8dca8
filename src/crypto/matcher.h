/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/matcher.h - finds many byte strings in a stream at once (Aho-Corasick). The work is at
 * most two steps for each byte of the stream, whatever the strings are. Once made, a matcher does
 * not change, so several streams and threads may use it. */
#ifndef BERTH_CRYPTO_MATCHER_H
#define BERTH_CRYPTO_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_pattern {
    const char *bytes;
    size_t len; /* 0: the pattern is left out */
};

struct berth_matcher;
/* Copies the patterns, which is 1 byte of locked memory and 16 bytes of other memory for each of
 * their bytes. TOO_LARGE: they have more than BERTH_PATTERNS_BYTES_MAX bytes together. */
int berth_matcher_new(const struct berth_pattern *patterns, size_t count,
                      struct berth_matcher **out, struct berth_error *err);
void berth_matcher_free(struct berth_matcher *matcher); /* zeroes its memory; NULL is fine */

/* The position of one stream: {0} at its beginning. */
struct berth_match {
    uint32_t node;
    uint64_t steps; /* how often a table was looked up; tests bound it */
};
/* Called for each byte of the stream at which patterns end: the longest of them has `len` bytes,
 * and ends before bytes[end] of the piece that is being read. */
typedef void berth_match_fn(void *ctx, size_t end, size_t len);
/* Reads the next piece of the stream. */
void berth_matcher_read(const struct berth_matcher *matcher, struct berth_match *at,
                        const char *bytes, size_t len, berth_match_fn *on_match, void *ctx);
/* Returns how many of the bytes read last may be the beginning of a pattern that is not complete.
 */
size_t berth_matcher_begun(const struct berth_matcher *matcher, const struct berth_match *at);
/* Returns whether a pattern is in the text. NULL: no. */
bool berth_matcher_finds(const struct berth_matcher *matcher, const char *text, size_t len);
#endif
