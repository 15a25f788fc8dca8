/* SPDX-License-Identifier: Apache-2.0
 * src/base/utf8.c - see utf8.h. */
#include "base/utf8.h"

#include <string.h>

#include "base/limits.h"

static bool follows(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t berth_utf8_step(const char *p)
{
    const unsigned char *s = (const unsigned char *)p;
    if (s[0] < 0x80)
        return s[0] ? 1 : 0;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        return follows(s[1]) ? 2 : 0;
    if (s[0] >= 0xe0 && s[0] <= 0xef) {
        if (!follows(s[1]) || (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
            return 0;
        return follows(s[2]) ? 3 : 0;
    }
    if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        if (!follows(s[1]) || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
            return 0;
        return follows(s[2]) && follows(s[3]) ? 4 : 0;
    }
    return 0;
}

bool berth_utf8_valid(const char *text)
{
    while (*text) {
        size_t step = berth_utf8_step(text);
        if (!step)
            return false;
        text += step;
    }
    return true;
}

bool berth_utf8_valid_bytes(const char *bytes, size_t len)
{
    const char *end = bytes + len;
    while (bytes <= end && berth_utf8_valid(bytes))
        bytes += strlen(bytes) + 1;
    return bytes > end;
}

size_t berth_utf8_whole(const char *bytes, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)bytes[len - back];
        size_t wanted = c > 0xf4 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        if (!follows(c))
            return wanted > back ? len - back : len;
    }
    return len;
}

void berth_utf8_mend(char *text)
{
    while (*text) {
        size_t step = berth_utf8_step(text);
        if (!step)
            *text = '?';
        text += step ? step : 1;
    }
}

uint32_t berth_utf8_decode(const char *p, size_t *step)
{
    const unsigned char *b = (const unsigned char *)p;
    *step = berth_utf8_step(p);
    switch (*step) {
    case 1:
        return b[0];
    case 2:
        return (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    case 3:
        return (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    case 4:
        return (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
    default:
        *step = 1;
        return 0xfffd;
    }
}

bool berth_utf8_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x2069) || c == 0xfeff;
}

static bool is_blank(uint32_t c)
{
    return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

int berth_utf8_check(const char *text, size_t max, const char *what, struct berth_error *err)
{
    if (strlen(text) > max)
        return berth_fail(err, BERTH_E_INVALID, "The %s is longer than %zu bytes.", what, max);
    if (!berth_utf8_valid(text))
        return berth_fail(err, BERTH_E_INVALID, "The %s is not UTF-8.", what);
    return BERTH_OK;
}

/* `named` begins the messages. */
static int check_visible(const char *text, const char *named, struct berth_error *err)
{
    uint32_t last = 0;
    size_t step;
    for (const char *p = text; *p; p += step) {
        last = berth_utf8_decode(p, &step);
        if (berth_utf8_is_control(last))
            return berth_fail(err, BERTH_E_INVALID,
                              "%s contains the control character U+%04X: leave it out.", named,
                              last);
    }
    if (is_blank(berth_utf8_decode(text, &step)) || is_blank(last))
        return berth_fail(err, BERTH_E_INVALID, "%s begins or ends with a blank: leave it out.",
                          named);
    return BERTH_OK;
}

int berth_utf8_check_name(const char *name, const char *whose, struct berth_error *err)
{
    if (!name || !*name)
        return berth_fail(err, BERTH_E_INVALID, "%s needs a name.", whose);
    int rc = berth_utf8_check(name, BERTH_NAME_BYTES_MAX, "name", err);
    return rc < 0 ? rc : check_visible(name, "The name", err);
}

int berth_utf8_check_id(const char *id, const char *what, struct berth_error *err)
{
    if (!*id)
        return berth_fail(err, BERTH_E_INVALID, "%s is empty: leave it out, or name one.", what);
    int rc = berth_utf8_check(id, BERTH_NAME_BYTES_MAX, what, err);
    return rc < 0 ? rc : check_visible(id, what, err);
}
