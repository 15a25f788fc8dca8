/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/masking.c - see masking.h. */
#include "core/run/masking.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "core/run/mask_budget.h"

void berth_masking_init(struct berth_masking *m, struct berth *b, const char *company_id,
                        const struct berth_pattern *values, size_t count)
{
    *m = (struct berth_masking){.b = b, .company_id = company_id, .values = values, .count = count};
}

int berth_masking_make(struct berth_masking *m, struct berth_error *err)
{
    size_t bytes = 0;
    if (m->made || !m->count)
        return BERTH_OK;
    for (size_t i = 0; i < m->count; i++)
        bytes += m->values[i].len;
    int rc = berth_mask_budget_take(m->b->mask_budget, m->company_id, bytes, err);
    if (rc < 0)
        return rc;
    rc = berth_mask_new(m->values, m->count, &m->mask, err);
    if (rc < 0) {
        berth_mask_budget_give(m->b->mask_budget, m->company_id, bytes);
        return rc;
    }
    m->bytes = bytes;
    m->made = true;
    return BERTH_OK;
}

struct masked_text {
    char *to;
    bool cut; /* what comes may be the beginning of a value */
};

static void masked_text_put(void *ctx, const char *bytes, size_t len)
{
    struct masked_text *t = ctx;
    memcpy(t->to, bytes, len);
    if (t->cut)
        memset(t->to, '*', len);
    t->to += len;
}

void berth_masking_hide(struct berth_masking *m, char *bytes, size_t len, bool cut)
{
    struct masked_text t = {.to = bytes};
    struct berth_error ignored;
    if (!len || !m->count)
        return;
    if (berth_masking_make(m, &ignored) < 0) {
        memset(bytes, '*', len);
        return;
    }
    if (!m->mask)
        return;
    auto_free char *copy = malloc(len);
    if (!copy) {
        memset(bytes, '*', len);
        return;
    }
    memcpy(copy, bytes, len);
    berth_mask_put(m->mask, copy, len, masked_text_put, &t);
    t.cut = cut;
    berth_mask_end(m->mask, masked_text_put, &t);
}

static void masking_hide_message(struct berth_masking *m, char *text, size_t size)
{
    size_t len = strlen(text);
    berth_masking_hide(m, text, len, len + 1 >= size);
}

void berth_masking_hide_error(struct berth_masking *m, struct berth_error *err)
{
    masking_hide_message(m, err->message, sizeof err->message);
    masking_hide_message(m, err->where, sizeof err->where);
}

void berth_masking_clear(struct berth_masking *m)
{
    berth_mask_free(take_ptr(m->mask));
    if (m->bytes)
        berth_mask_budget_give(m->b->mask_budget, m->company_id, m->bytes);
    m->bytes = 0;
    m->made = false;
}
