/* SPDX-License-Identifier: Apache-2.0
 * src/net/lines.c - see lines.h. */
#include "net/lines.h"

#include <string.h>

#define KEPT_BYTES_MAX (1024 * 1024)

void berth_lines_init(struct berth_lines *lines, size_t max)
{
    /* Room for a whole line, and for the rest of what came with its end. */
    *lines = (struct berth_lines){.buf = BERTH_BUF_INIT(2 * max + 1024 * 1024), .max = max};
    lines->buf.secret = true;
}

static void forget_taken(struct berth_lines *lines)
{
    struct berth_buf *buf = &lines->buf;
    if (!lines->taken)
        return;
    if (lines->taken == buf->len && buf->cap > KEPT_BYTES_MAX) { /* the next is hardly as long */
        berth_buf_clear(buf);
        lines->taken = lines->scanned = 0;
        return;
    }
    memmove(buf->data, buf->data + lines->taken, buf->len - lines->taken);
    berth_buf_truncate(buf, buf->len - lines->taken);
    lines->scanned -= lines->taken;
    lines->taken = 0;
}

void berth_lines_put(struct berth_lines *lines, const char *bytes, size_t len)
{
    struct berth_buf *buf = &lines->buf;
    forget_taken(lines);
    const char *end = lines->dropped ? memchr(bytes, '\n', len) : bytes;
    size_t skipped = end ? (size_t)(end - bytes) : len;
    lines->dropped += skipped;
    berth_buf_append(buf, bytes + skipped, len - skipped);
    if (!buf->failed)
        return;
    lines->dropped += buf->len + len - skipped;
    berth_buf_clear(buf);
    lines->scanned = 0;
}

bool berth_lines_next(struct berth_lines *lines, char **line, size_t *len, size_t *dropped)
{
    struct berth_buf *buf = &lines->buf;
    char *from = buf->data ? buf->data + lines->taken : NULL;
    char *end = from ? memchr(buf->data + lines->scanned, '\n', buf->len - lines->scanned) : NULL;
    size_t whole = from ? (size_t)((end ? end : buf->data + buf->len) - from) : 0;
    lines->scanned = buf->len;
    if (!end && whole > lines->max) { /* too long: drop it without waiting for its end */
        lines->dropped += whole;
        berth_buf_clear(buf);
        lines->taken = lines->scanned = 0;
    }
    if (!end)
        return false;
    lines->taken = lines->scanned = (size_t)(end - buf->data) + 1;
    *dropped = lines->dropped ? lines->dropped + whole : whole > lines->max ? whole : 0;
    lines->dropped = 0;
    *line = from;
    *len = *dropped ? 0 : whole;
    if (*len && from[*len - 1] == '\r')
        --*len;
    from[*len] = '\0';
    return true;
}

void berth_lines_clear(struct berth_lines *lines)
{
    berth_buf_clear(&lines->buf);
}
