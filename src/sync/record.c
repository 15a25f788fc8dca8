/* SPDX-License-Identifier: Apache-2.0
 * src/sync/record.c - see record.h. */
#include "sync/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/limits.h"

#define PERMISSIONS 0777
#define END "end "
#define NUMBER_BYTES 21 /* of a number in base 10 at most, or in base 8 when it is small */
#define LINE_BYTES (2 + 5 * (NUMBER_BYTES + 1) + 2 * BERTH_SHA256_SIZE + 1)

/* Each of these writes at `at`, without a NUL, and returns what follows. A manifest has many
 * numbers: printf and strtoll took a third of the time of a push that changes nothing. */

static char *put_number(char *at, int64_t number, unsigned base)
{
    char digits[NUMBER_BYTES + 1], *first = digits + sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    if (number < 0)
        *at++ = '-';
    do
        *--first = (char)('0' + left % base);
    while (left /= base);
    size_t len = (size_t)(digits + sizeof digits - first);
    memcpy(at, first, len);
    return at + len;
}

static char *put_hex(char *at, const unsigned char sum[BERTH_SHA256_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < BERTH_SHA256_SIZE; i++) {
        *at++ = digits[sum[i] >> 4];
        *at++ = digits[sum[i] & 15];
    }
    return at;
}

void berth_record_put_text(struct berth_buf *out, const char *text)
{
    berth_buf_append(out, text, strlen(text) + 1);
}

void berth_record_put_entry(struct berth_buf *out, const struct berth_entry *e)
{
    static const char kinds[] = {'d', 'f', 'l'};
    const int64_t numbers[] = {e->size, e->mtime_ns, e->ctime_ns, (int64_t)e->inode};
    char line[LINE_BYTES], *at = line;
    *at++ = kinds[e->kind];
    *at++ = ' ';
    at = put_number(at, e->mode, 8);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        *at++ = ' ';
        at = put_number(at, numbers[i], 10);
    }
    *at++ = ' ';
    if (e->hashed)
        at = put_hex(at, e->hash);
    else
        *at++ = '-';
    *at++ = '\n';
    berth_buf_append(out, line, (size_t)(at - line));
    berth_record_put_text(out, e->path);
    berth_record_put_text(out, e->target ? e->target : "");
}

void berth_record_put_end(struct berth_buf *out, size_t begin, size_t count)
{
    unsigned char sum[BERTH_SHA256_SIZE];
    char hex[2 * BERTH_SHA256_SIZE];
    struct berth_error err;
    berth_buf_printf(out, END "%zu ", count);
    if (out->failed || berth_sha256(out->data + begin, out->len - begin, sum, &err) < 0) {
        out->failed = true;
        return;
    }
    (void)put_hex(hex, sum);
    berth_buf_append(out, hex, sizeof hex);
    berth_buf_append(out, "\n", 1);
}

/* Reads a whole number and the byte behind it. */
bool berth_record_number(struct berth_record *r, int base, char behind, int64_t *out)
{
    const char *at = r->at;
    bool negative = at < r->end && *at == '-';
    at += negative;
    const char *first = at;
    uint64_t number = 0;
    for (; at < r->end && *at >= '0' && *at < '0' + base; at++)
        if (__builtin_mul_overflow(number, (uint64_t)base, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return false;
    if (at == first || at >= r->end || *at != behind || number > INT64_MAX)
        return false;
    r->at = at + 1;
    *out = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool read_hash(struct berth_record *r, unsigned char out[BERTH_SHA256_SIZE])
{
    if (r->end - r->at <= 2 * BERTH_SHA256_SIZE)
        return false;
    if (!berth_hex_read(r->at, out, BERTH_SHA256_SIZE))
        return false;
    r->at += 2 * BERTH_SHA256_SIZE;
    return *r->at++ == '\n';
}

const char *berth_record_text(struct berth_record *r)
{
    const char *text = r->at, *end = memchr(text, '\0', (size_t)(r->end - text));
    if (!end)
        return NULL;
    r->at = end + 1;
    return text;
}

bool berth_record_entry(struct berth_record *r, struct berth_entry *e)
{
    static const char kinds[] = "dfl";
    int64_t mode, inode;
    const char *kind = *r->at ? strchr(kinds, *r->at) : NULL;
    if (!kind || r->end - r->at < 3 || r->at[1] != ' ')
        return false;
    r->at += 2;
    *e = (struct berth_entry){.kind = (enum berth_entry_kind)(kind - kinds)};
    if (!berth_record_number(r, 8, ' ', &mode) || !berth_record_number(r, 10, ' ', &e->size) ||
        !berth_record_number(r, 10, ' ', &e->mtime_ns) ||
        !berth_record_number(r, 10, ' ', &e->ctime_ns) || !berth_record_number(r, 10, ' ', &inode))
        return false;
    if (r->end - r->at > 2 && r->at[0] == '-' && r->at[1] == '\n')
        r->at += 2;
    else if (!(e->hashed = read_hash(r, e->hash)))
        return false;
    e->mode = (uint16_t)mode;
    e->inode = (uint64_t)inode;
    e->path = berth_record_text(r);
    e->target = e->path ? berth_record_text(r) : NULL;
    if (!e->target || mode < 0 || mode > PERMISSIONS || e->size < 0 || !berth_path_valid(e->path))
        return false;
    bool link = e->kind == BERTH_ENTRY_LINK;
    if (link != (*e->target != '\0') || strlen(e->target) > BERTH_TREE_PATH_BYTES_MAX ||
        (e->kind != BERTH_ENTRY_FILE && (e->size || e->hashed)))
        return false;
    if (!link)
        e->target = NULL;
    return true;
}

bool berth_record_at_end(const struct berth_record *r)
{
    return (size_t)(r->end - r->at) >= strlen(END) && memcmp(r->at, END, strlen(END)) == 0;
}

bool berth_record_end(struct berth_record *r, const char *begin, size_t count)
{
    int64_t said;
    unsigned char sum[BERTH_SHA256_SIZE], told[BERTH_SHA256_SIZE];
    struct berth_error err;
    r->at += strlen(END);
    return berth_record_number(r, 10, ' ', &said) && said == (int64_t)count &&
           berth_sha256(begin, (size_t)(r->at - begin), sum, &err) == BERTH_OK &&
           read_hash(r, told) && memcmp(sum, told, sizeof sum) == 0 && r->at == r->end;
}
