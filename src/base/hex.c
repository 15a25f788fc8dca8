/* SPDX-License-Identifier: Apache-2.0
 * src/base/hex.c - see hex.h. */
#include "base/hex.h"

void berth_hex_write(const unsigned char *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

static int hex_digit(char c)
{
    static const signed char digits[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
        ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
        ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    };
    return digits[(unsigned char)c] - 1; /* without branches: a hash is not predictable */
}

bool berth_hex_read(const char *text, unsigned char *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}
