/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/mask.c - see mask.h. */
#include "crypto/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define ROOM (64 * 1024) /* bytes looked at together, beside those held back */

struct berth_mask {
    struct berth_locked *values;
    int count;
    size_t longest;
    struct berth_locked window; /* what was held back, and what came after it */
    size_t masked;              /* so many bytes at its beginning are known to be masked already */
};

/* Ends of lines behind it are no secret, and a shell leaves them out. */
static size_t bare_len(const struct berth_locked *value)
{
    size_t len = value->len;
    while (len && (value->bytes[len - 1] == '\n' || value->bytes[len - 1] == '\r'))
        len--;
    return len;
}

static bool can_mask(const struct berth_locked *value)
{
    return bare_len(value) >= BERTH_MASKED_BYTES_MIN;
}

void berth_mask_free(struct berth_mask *mask)
{
    if (!mask)
        return;
    for (int i = 0; i < mask->count; i++)
        berth_locked_clear(&mask->values[i]);
    berth_locked_clear(&mask->window);
    free(mask->values);
    free(mask);
}

/* A terminal makes two bytes of each end of a line: then a value of several lines is another. */
static int mask_add(struct berth_mask *mask, const struct berth_locked *value, bool on_terminal,
                    struct berth_error *err)
{
    size_t len = bare_len(value), ends = 0;
    for (size_t i = 0; on_terminal && i < len; i++)
        ends += value->bytes[i] == '\n';
    if (on_terminal && !ends)
        return BERTH_OK;
    struct berth_locked *copy = &mask->values[mask->count];
    int rc = berth_locked_new(len + ends, copy, err);
    if (rc < 0)
        return rc;
    mask->count++;
    for (size_t i = 0; i < len; i++) {
        if (ends && value->bytes[i] == '\n')
            berth_locked_append(copy, "\r", 1);
        berth_locked_append(copy, value->bytes + i, 1);
    }
    if (copy->len > mask->longest)
        mask->longest = copy->len;
    return BERTH_OK;
}

static int mask_fill(struct berth_mask *mask, const struct berth_locked *values, int count,
                     struct berth_error *err)
{
    int rc = BERTH_OK;
    for (int i = 0; i < count && rc == BERTH_OK; i++) {
        if (!can_mask(&values[i]))
            continue;
        rc = mask_add(mask, &values[i], false, err);
        if (rc == BERTH_OK)
            rc = mask_add(mask, &values[i], true, err);
    }
    return rc < 0 ? rc : berth_locked_new(mask->longest - 1 + ROOM, &mask->window, err);
}

int berth_mask_new(const struct berth_locked *values, int count, struct berth_mask **out,
                   struct berth_error *err)
{
    int usable = 0;
    for (int i = 0; i < count; i++)
        usable += can_mask(&values[i]);
    *out = NULL;
    if (!usable)
        return BERTH_OK;
    struct berth_mask *mask = calloc(1, sizeof *mask);
    if (mask)
        mask->values = calloc((size_t)usable * 2, sizeof *mask->values);
    int rc = mask && mask->values ? mask_fill(mask, values, count, err)
                                  : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: mask.");
    if (rc < 0)
        berth_mask_free(mask);
    else
        *out = mask;
    return rc;
}

/* Stars over all values in `shown`, a copy of the window, since values may overlap. Answers how far
 * those that begin before `certain` go on behind it: there they cannot be found again. */
static size_t mask_blot(const struct berth_mask *mask, char *shown, size_t certain)
{
    const char *bytes = mask->window.bytes;
    size_t len = mask->window.len, rest = 0;
    for (int i = 0; i < mask->count; i++) {
        const struct berth_locked *v = &mask->values[i];
        for (const char *at = bytes;
             (at = memmem(at, len - (size_t)(at - bytes), v->bytes, v->len)); at++) {
            size_t from = (size_t)(at - bytes), end = from + v->len;
            memset(shown + from, '*', v->len);
            if (from < certain && end > certain && end - certain > rest)
                rest = end - certain;
        }
    }
    return rest;
}

/* Hands on the window but for its last `keep` bytes, which may be the beginning of a value. */
static void mask_hand_on(struct berth_mask *mask, size_t keep, berth_mask_out_fn *out, void *ctx)
{
    size_t len = mask->window.len, certain = len > keep ? len - keep : 0, rest = 0;
    if (!certain)
        return;
    auto_free char *shown = malloc(len);
    if (shown) {
        memcpy(shown, mask->window.bytes, len);
        rest = mask_blot(mask, shown, certain);
    } else { /* without memory nothing is shown that might be a secret */
        memset(mask->window.bytes, '*', certain);
    }
    char *bytes = shown ? shown : mask->window.bytes;
    memset(bytes, '*', mask->masked < certain ? mask->masked : certain);
    out(ctx, bytes, certain);
    if (shown)
        explicit_bzero(shown, len);
    size_t before = mask->masked > certain ? mask->masked - certain : 0;
    mask->masked = rest > before ? rest : before;
    memmove(mask->window.bytes, mask->window.bytes + certain, keep);
    mask->window.len = keep;
}

/* How many bytes at the end of the window may be the beginning of a value. */
static size_t uncertain(const struct berth_mask *mask)
{
    size_t len = mask->window.len, most = 0;
    for (int i = 0; i < mask->count; i++) {
        const struct berth_locked *v = &mask->values[i];
        for (size_t n = v->len - 1 < len ? v->len - 1 : len; n > most; n--)
            if (memcmp(mask->window.bytes + len - n, v->bytes, n) == 0)
                most = n;
    }
    return most;
}

void berth_mask_put(struct berth_mask *mask, const char *bytes, size_t len, berth_mask_out_fn *out,
                    void *ctx)
{
    if (!mask) {
        out(ctx, bytes, len);
        return;
    }
    while (len) {
        size_t room = mask->window.cap - mask->window.len, part = len < room ? len : room;
        berth_locked_append(&mask->window, bytes, part);
        bytes += part;
        len -= part;
        mask_hand_on(mask, uncertain(mask), out, ctx);
    }
}

void berth_mask_end(struct berth_mask *mask, berth_mask_out_fn *out, void *ctx)
{
    if (mask)
        mask_hand_on(mask, 0, out, ctx);
}
