/* SPDX-License-Identifier: Apache-2.0
 * src/base/buf.c - see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool buf_resize(struct berth_buf *buf, size_t cap)
{
    char *data = buf->secret ? malloc(cap) : realloc(buf->data, cap);
    if (!data) {
        buf->failed = true;
        return false;
    }
    if (buf->secret && buf->data) {
        memcpy(data, buf->data, buf->len + 1);
        explicit_bzero(buf->data, buf->cap);
        free(buf->data);
    }
    if (!buf->data)
        *data = '\0';
    buf->data = data;
    buf->cap = cap;
    return true;
}

/* Makes room for `more` bytes and the NUL. Returns false when the buffer has failed. */
static bool reserve(struct berth_buf *buf, size_t more)
{
    if (buf->failed)
        return false;
    if (more > buf->max - buf->len) {
        buf->failed = buf->too_long = true;
        return false;
    }
    size_t need = buf->len + more + 1;
    if (need <= buf->cap)
        return true;
    size_t cap = buf->cap ? buf->cap : 512;
    while (cap < need)
        cap *= 2;
    return buf_resize(buf, cap);
}

void berth_buf_reserve(struct berth_buf *buf, size_t more)
{
    if (!buf->failed && more <= buf->max - buf->len && buf->len + more + 1 > buf->cap)
        (void)buf_resize(buf, buf->len + more + 1);
}

void berth_buf_append(struct berth_buf *buf, const void *bytes, size_t len)
{
    if (!reserve(buf, len))
        return;
    if (len)
        memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void berth_buf_puts(struct berth_buf *buf, const char *text)
{
    berth_buf_append(buf, text, strlen(text));
}

void berth_buf_printf(struct berth_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len >= 0 && reserve(buf, (size_t)len)) {
        (void)vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void berth_buf_truncate(struct berth_buf *buf, size_t len)
{
    if (buf->failed || len >= buf->len)
        return;
    buf->len = len;
    buf->data[len] = '\0';
}

int berth_buf_check(const struct berth_buf *buf, const char *what, struct berth_error *err)
{
    if (!buf->failed)
        return BERTH_OK;
    if (buf->too_long)
        return berth_fail(err, BERTH_E_TOO_LARGE, "%s is longer than %zu bytes.", what, buf->max);
    return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: %s.", what);
}

const char *berth_buf_str(const struct berth_buf *buf)
{
    if (buf->failed)
        return NULL;
    return buf->data ? buf->data : "";
}

char *berth_buf_take(struct berth_buf *buf)
{
    if (!buf->data && !buf->failed)
        berth_buf_append(buf, "", 0);
    char *data = buf->failed ? NULL : buf->data;
    if (buf->failed)
        berth_buf_clear(buf);
    *buf = (struct berth_buf){.max = buf->max, .secret = buf->secret};
    return data;
}

void berth_buf_clear(struct berth_buf *buf)
{
    if (buf->secret && buf->data)
        explicit_bzero(buf->data, buf->cap);
    free(buf->data);
    *buf = (struct berth_buf){.max = buf->max, .secret = buf->secret};
}
