/* SPDX-License-Identifier: Apache-2.0
 * src/base/hex.h - bytes as hexadecimal digits, in lower case. */
#ifndef BERTH_BASE_HEX_H
#define BERTH_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* Writes two digits for each byte, and a NUL. */
void berth_hex_write(const unsigned char *bytes, size_t len, char *out);
/* Reads `len` bytes, two digits each. Returns false when a character is not a digit; the text may
 * end there. */
bool berth_hex_read(const char *text, unsigned char *out, size_t len);
#endif
