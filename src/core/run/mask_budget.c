/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/mask_budget.c - see mask_budget.h. */
#include "core/run/mask_budget.h"

#include <assert.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/lock_order.h"

struct company_use {
    size_t bytes;
};

struct berth_mask_budget {
    struct berth_lock lock;
    struct berth_map companies; /* struct company_use by id; those that use nothing are left out */
};

int berth_mask_budget_new(struct berth_mask_budget **out, struct berth_error *err)
{
    struct berth_mask_budget *budget = calloc(1, sizeof *budget);
    if (!budget)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: commands.");
    berth_lock_init(&budget->lock, BERTH_RANK_MASK_BUDGET);
    *out = budget;
    return BERTH_OK;
}

void berth_mask_budget_free(struct berth_mask_budget *budget)
{
    if (!budget)
        return;
    assert(!budget->companies.count); /* no command is left */
    berth_map_clear(&budget->companies);
    berth_lock_destroy(&budget->lock);
    free(budget);
}

static size_t counted(size_t bytes)
{
    return bytes > BERTH_MASKED_FREE_BYTES ? bytes - BERTH_MASKED_FREE_BYTES : 0;
}

/* Lock held. Returns NULL when memory runs out. */
static struct company_use *company_of(struct berth_mask_budget *budget, const char *company_id)
{
    struct company_use *use = berth_map_get(&budget->companies, company_id);
    if (use)
        return use;
    use = calloc(1, sizeof *use);
    if (use && !berth_map_put(&budget->companies, company_id, use)) {
        free(use);
        return NULL;
    }
    return use;
}

int berth_mask_budget_take(struct berth_mask_budget *budget, const char *company_id, size_t bytes,
                           struct berth_error *err)
{
    size_t more = counted(bytes);
    int rc = BERTH_OK;
    if (!more)
        return BERTH_OK;
    berth_lock_take(&budget->lock);
    struct company_use *use = company_of(budget, company_id);
    if (!use)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: commands.");
    else if (use->bytes + more > BERTH_MASKED_COMPANY_BYTES_MAX)
        rc = berth_fail(err, BERTH_E_UNAVAILABLE,
                        "The running commands of this company have secrets of %zu bytes already. "
                        "Wait until some have ended, or use fewer or shorter secrets.",
                        use->bytes);
    else
        use->bytes += more;
    if (use && !use->bytes)
        free(berth_map_remove(&budget->companies, company_id));
    berth_lock_drop(&budget->lock);
    return rc;
}

void berth_mask_budget_give(struct berth_mask_budget *budget, const char *company_id, size_t bytes)
{
    size_t less = counted(bytes);
    if (!less)
        return;
    berth_lock_take(&budget->lock);
    struct company_use *use = berth_map_get(&budget->companies, company_id);
    assert(use && use->bytes >= less);
    use->bytes -= less;
    if (!use->bytes)
        free(berth_map_remove(&budget->companies, company_id));
    berth_lock_drop(&budget->lock);
}
