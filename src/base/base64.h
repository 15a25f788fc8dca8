/* SPDX-License-Identifier: Apache-2.0
 * src/base/base64.h - bytes as text (RFC 4648, padded). Reading is strict: one text per bytes. */
#ifndef BERTH_BASE_BASE64_H
#define BERTH_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#define BERTH_BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4 + 1) /* with the NUL */

void berth_base64_encode(const void *bytes, size_t len, char *out);
/* How many bytes the text stands for, or false: a wrong length. */
bool berth_base64_length(const char *text, size_t len, size_t *out);
/* `out` has room for that many. False: not base64, or not the text we would have written. */
bool berth_base64_decode(const char *text, size_t len, void *out);
#endif
