/* SPDX-License-Identifier: Apache-2.0
 * src/base/base64.c - see base64.h. */
#include "base/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void berth_base64_encode(const void *bytes, size_t len, char *out)
{
    const unsigned char *in = bytes;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t group = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                         (left > 2 ? in[i + 2] : 0);
        *out++ = alphabet[group >> 18];
        *out++ = alphabet[group >> 12 & 63];
        *out++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
        *out++ = left > 2 ? alphabet[group & 63] : '=';
    }
    *out = '\0';
}

bool berth_base64_length(const char *text, size_t len, size_t *out)
{
    if (len % 4 != 0)
        return false;
    *out = len / 4 * 3;
    if (len && text[len - 1] == '=')
        *out -= text[len - 2] == '=' ? 2 : 1;
    return true;
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool berth_base64_decode(const char *text, size_t len, void *out)
{
    unsigned char *to = out;
    size_t bytes;
    if (!berth_base64_length(text, len, &bytes))
        return false;
    for (size_t i = 0; i < len; i += 4) {
        size_t room = bytes < 3 ? bytes : 3;
        uint32_t group = 0;
        for (size_t k = 0; k < 4; k++) {
            int value = k <= room ? value_of(text[i + k]) : 0;
            if (value < 0)
                return false;
            group = group << 6 | (uint32_t)value;
        }
        if ((room == 1 && group & 0xffff) || (room == 2 && group & 0xff))
            return false; /* the unused bits of the last group must be 0 */
        for (size_t k = 0; k < room; k++)
            *to++ = (unsigned char)(group >> (16 - 8 * k));
        bytes -= room;
    }
    return true;
}
