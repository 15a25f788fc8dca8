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

static bool can_mask(const struct berth_locked *value)
{
    return value->len >= BERTH_MASKED_BYTES_MIN;
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

static int fill(struct berth_mask *mask, const struct berth_locked *values, int count,
                struct berth_error *err)
{
    for (int i = 0; i < count; i++) {
        if (!can_mask(&values[i]))
            continue;
        struct berth_locked *copy = &mask->values[mask->count];
        int rc = berth_locked_new(values[i].len, copy, err);
        if (rc < 0)
            return rc;
        mask->count++;
        berth_locked_append(copy, values[i].bytes, values[i].len);
        if (copy->len > mask->longest)
            mask->longest = copy->len;
    }
    return berth_locked_new(mask->longest - 1 + ROOM, &mask->window, err);
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
        mask->values = calloc((size_t)usable, sizeof *mask->values);
    int rc = mask && mask->values ? fill(mask, values, count, err)
                                  : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: mask.");
    if (rc < 0)
        berth_mask_free(mask);
    else
        *out = mask;
    return rc;
}

/* Stars over all values in `shown`, a copy of the window, since values may overlap. Answers how far
 * those that begin before `certain` go on behind it: there they cannot be found again. */
static size_t blot(const struct berth_mask *mask, char *shown, size_t certain)
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
static void hand_on(struct berth_mask *mask, size_t keep, berth_mask_out_fn *out, void *ctx)
{
    size_t len = mask->window.len, certain = len > keep ? len - keep : 0, rest = 0;
    if (!certain)
        return;
    auto_free char *shown = malloc(len);
    if (shown) {
        memcpy(shown, mask->window.bytes, len);
        rest = blot(mask, shown, certain);
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
        hand_on(mask, mask->longest - 1, out, ctx);
    }
}

void berth_mask_end(struct berth_mask *mask, berth_mask_out_fn *out, void *ctx)
{
    if (mask)
        hand_on(mask, 0, out, ctx);
}
