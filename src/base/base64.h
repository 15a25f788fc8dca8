/* SPDX-License-Identifier: Apache-2.0
 * src/base/base64.h - padded base64 (RFC 4648). Decoding is strict: it accepts only the text that
 * encoding the same bytes gives. */
#ifndef BERTH_BASE_BASE64_H
#define BERTH_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#define BERTH_BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4 + 1) /* with the NUL */

/* Writes BERTH_BASE64_SIZE(len) characters to `out`, with the NUL. */
void berth_base64_encode(const void *bytes, size_t len, char *out);
/* Sets *out to the number of bytes that the text decodes to. Returns false when the length of the
 * text is not a multiple of 4. */
bool berth_base64_length(const char *text, size_t len, size_t *out);
/* Decodes to `out`, which has room for berth_base64_length bytes. Returns false when the text is
 * not strict base64. */
bool berth_base64_decode(const char *text, size_t len, void *out);
#endif
