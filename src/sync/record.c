/* SPDX-License-Identifier: Apache-2.0
 * src/sync/record.c - see record.h. */
#include "sync/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"

#define PERMISSIONS 0777
#define END "end "

static void put_hex(struct berth_buf *out, const unsigned char *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++)
        berth_buf_append(out, (char[]){digits[bytes[i] >> 4], digits[bytes[i] & 15]}, 2);
}

void berth_record_put_text(struct berth_buf *out, const char *text)
{
    berth_buf_append(out, text, strlen(text) + 1);
}

void berth_record_put_entry(struct berth_buf *out, const struct berth_entry *e)
{
    static const char kinds[] = {'d', 'f', 'l'};
    berth_buf_printf(out, "%c %o %" PRId64 " %" PRId64, kinds[e->kind], e->mode, e->size,
                     e->mtime_ns);
    berth_buf_printf(out, " %" PRId64 " %" PRId64 " ", e->ctime_ns, (int64_t)e->inode);
    if (e->hashed)
        put_hex(out, e->hash, sizeof e->hash);
    else
        berth_buf_puts(out, "-");
    berth_buf_append(out, "\n", 1);
    berth_record_put_text(out, e->path);
    berth_record_put_text(out, e->target ? e->target : "");
}

void berth_record_put_end(struct berth_buf *out, size_t begin, size_t count)
{
    unsigned char sum[BERTH_SHA256_SIZE];
    struct berth_error err;
    berth_buf_printf(out, END "%zu ", count);
    if (out->failed || berth_sha256(out->data + begin, out->len - begin, sum, &err) < 0) {
        out->failed = true;
        return;
    }
    put_hex(out, sum, sizeof sum);
    berth_buf_append(out, "\n", 1);
}

/* Reads a whole number and the byte behind it. */
bool berth_record_number(struct berth_record *r, int base, char behind, int64_t *out)
{
    char *end;
    errno = 0;
    if (r->at == r->end || strchr(" \t\r\n+", *r->at))
        return false;
    long long number = strtoll(r->at, &end, base);
    if (errno || end == r->at || end >= r->end || *end != behind)
        return false;
    r->at = end + 1;
    *out = number;
    return true;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool read_hash(struct berth_record *r, unsigned char out[BERTH_SHA256_SIZE])
{
    if (r->end - r->at <= 2 * BERTH_SHA256_SIZE)
        return false;
    for (int i = 0; i < BERTH_SHA256_SIZE; i++) {
        int high = hex_digit(r->at[2 * i]), low = hex_digit(r->at[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
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
