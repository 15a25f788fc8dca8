/* SPDX-License-Identifier: Apache-2.0
 * src/base/json_long.c - see json_long.h. Long strings are cut out and decoded here. The library
 * parses the rest, with a short random word in the place of each long string. */
#include "base/json_long.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/utf8.h"

#define LONG_BYTES (32 * 1024)
#define LONG_MAX 64 /* strings; the library parses any further ones */
#define WORD_LEN 34 /* sixteen random bytes as hex, and two digits */

struct longs {
    char nonce[33];
    struct berth_buf texts[LONG_MAX];
    int count;
};

/* Returns the quote that ends the string whose content begins at `p`, or NULL. */
static const char *end_of(const char *p, const char *end)
{
    const char *quote = NULL;
    while (p < end) {
        if (!quote || quote < p) /* a quote behind several escapes is searched for once */
            quote = memchr(p, '"', (size_t)(end - p));
        if (!quote)
            return NULL;
        const char *slash = memchr(p, '\\', (size_t)(quote - p));
        if (!slash)
            return quote;
        p = slash + 2;
    }
    return NULL;
}

/* Returns the number of bytes at `p` that need no decoding. */
static size_t plain_bytes(const char *p, const char *end)
{
    const char *at = p;
    while (at < end) {
        uint64_t eight;
        if (end - at >= 8) { /* eight at a time: ASCII without controls and backslashes */
            memcpy(&eight, at, 8);
            uint64_t high = eight & UINT64_C(0x8080808080808080);
            uint64_t low =
                (eight - UINT64_C(0x2020202020202020)) & ~eight & UINT64_C(0x8080808080808080);
            uint64_t slash = eight ^ UINT64_C(0x5c5c5c5c5c5c5c5c);
            slash = (slash - UINT64_C(0x0101010101010101)) & ~slash & UINT64_C(0x8080808080808080);
            if (!(high | low | slash)) {
                at += 8;
                continue;
            }
        }
        unsigned char c = (unsigned char)*at;
        if (c < 0x20 || c == '\\')
            break;
        size_t step = c < 0x80 ? 1 : berth_utf8_step(at);
        if (!step)
            break;
        at += step;
    }
    return (size_t)(at - p);
}

static int hex_digit(char c)
{
    char lower = (char)(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

int berth_json_unit(const char *p, const char *end)
{
    int unit = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static void put_point(struct berth_buf *out, int point)
{
    char bytes[4];
    size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const int first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len; i-- > 1; point >>= 6)
        bytes[i] = (char)(0x80 | (point & 0x3f));
    bytes[0] = (char)(first[len] | point);
    berth_buf_append(out, bytes, len);
}

/* Decodes one escape. Returns its length, or 0 when it is not a valid escape. */
static size_t take_escape(struct berth_buf *out, const char *p, const char *end)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (end - p < 2 || p[0] != '\\')
        return 0;
    const char *name = p[1] && p[1] != 'u' ? strchr(names, p[1]) : NULL;
    if (name) {
        berth_buf_append(out, &values[name - names], 1);
        return 2;
    }
    int unit = berth_json_unit(p, end);
    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return 0;
    if (unit < 0xd800 || unit > 0xdbff) {
        put_point(out, unit);
        return 6;
    }
    int low = berth_json_unit(p + 6, end);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    put_point(out, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
    return 12;
}

/* Decodes the content of a string. Returns false when it is invalid or memory runs out; the library
 * then parses it and reports the error. */
static bool decode(struct berth_buf *out, const char *p, const char *end)
{
    *out = (struct berth_buf){.max = (size_t)(end - p) + 1, .secret = true};
    while (p < end) {
        size_t plain = plain_bytes(p, end);
        berth_buf_append(out, p, plain);
        p += plain;
        size_t escape = p < end ? take_escape(out, p, end) : 1;
        if (!escape)
            break;
        p += p < end ? escape : 0;
    }
    if (p == end && !out->failed)
        return true;
    berth_buf_clear(out);
    return false;
}

/* Copies the document to `out`, with a word in the place of each long string. */
static void cut_out(struct longs *l, const char *text, size_t len, struct berth_buf *out)
{
    const char *end = text + len, *from = text;
    for (const char *p = text; (p = memchr(p, '"', (size_t)(end - p)));) {
        const char *close = end_of(p + 1, end);
        if (!close)
            break;
        bool key = close[1 + strspn(close + 1, " \t\n\r")] == ':';
        if (close - p > LONG_BYTES && l->count < LONG_MAX && !key &&
            decode(&l->texts[l->count], p + 1, close)) {
            berth_buf_append(out, from, (size_t)(p + 1 - from));
            berth_buf_printf(out, "%s%02d", l->nonce, l->count++);
            from = close;
        }
        p = close + 1;
    }
    berth_buf_append(out, from, (size_t)(end - from));
}

static bool is_word(const struct longs *l, const json_t *value)
{
    return json_is_string(value) && json_string_length(value) == WORD_LEN &&
           strncmp(json_string_value(value), l->nonce, strlen(l->nonce)) == 0;
}

/* Returns the long string that a word stands for, or NULL when memory runs out. */
static json_t *long_text(const struct longs *l, const json_t *word)
{
    const struct berth_buf *text = &l->texts[atoi(json_string_value(word) + strlen(l->nonce))];
    return json_stringn_nocheck(text->data ? text->data : "", text->len);
}

/* Replaces the words in `value` by their long strings. Returns false when memory runs out. */
static bool put_back(const struct longs *l, json_t *value)
{
    const char *key;
    json_t *inner;
    void *next;
    size_t i;
    json_object_foreach_safe(value, next, key, inner)
    {
        if (is_word(l, inner) ? json_object_set_new(value, key, long_text(l, inner)) < 0
                              : !put_back(l, inner))
            return false;
    }
    json_array_foreach(value, i, inner)
    {
        if (is_word(l, inner) ? json_array_set_new(value, i, long_text(l, inner)) < 0
                              : !put_back(l, inner))
            return false;
    }
    return true;
}

json_t *berth_json_load_long(const char *text, size_t len, size_t flags, json_error_t *at)
{
    struct longs l = {0};
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return json_loadb(text, len, flags, at);
    for (int i = 0; i < 16; i++)
        (void)snprintf(l.nonce + 2 * (size_t)i, 3, "%02x", random[i]);
    struct berth_buf rest = {.max = len + LONG_MAX * WORD_LEN, .secret = true};
    cut_out(&l, text, len, &rest);
    json_t *value = rest.failed ? NULL : json_loadb(rest.data, rest.len, flags, at);
    if (value && l.count && !put_back(&l, value)) {
        json_decref(value);
        value = NULL;
    }
    if (value && is_word(&l, value)) { /* the whole document is one string */
        json_t *whole = long_text(&l, value);
        json_decref(value);
        value = whole;
    }
    for (int i = 0; i < l.count; i++)
        berth_buf_clear(&l.texts[i]);
    berth_buf_clear(&rest);
    return value;
}
