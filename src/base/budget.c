/* SPDX-License-Identifier: Apache-2.0
 * src/base/budget.c - see budget.h. One mutex guards everything. */
#include "base/budget.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/map.h"

#define TRIM_BYTES_MIN (8 * 1024 * 1024) /* less freed memory than this is kept for later */

struct berth_budget_owner {
    int64_t used;
    int charges;
    char name[];
};

struct berth_budget {
    pthread_mutex_t lock;
    int64_t max, used;
    int64_t most; /* the largest `used` since memory was returned to the system */
    struct berth_map owners;
};

int berth_budget_new(int64_t bytes_max, struct berth_budget **out, struct berth_error *err)
{
    struct berth_budget *budget = calloc(1, sizeof *budget);
    if (!budget)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: budget.");
    pthread_mutex_init(&budget->lock, NULL);
    budget->max = bytes_max;
    *out = budget;
    return BERTH_OK;
}

void berth_budget_free(struct berth_budget *budget)
{
    if (!budget)
        return;
    berth_map_clear(&budget->owners);
    pthread_mutex_destroy(&budget->lock);
    free(budget);
}

int64_t berth_budget_used(struct berth_budget *budget)
{
    pthread_mutex_lock(&budget->lock);
    int64_t used = budget->used;
    pthread_mutex_unlock(&budget->lock);
    return used;
}

/* --- owners; lock held --- */

static struct berth_budget_owner *owner_hold(struct berth_budget *budget, const char *name)
{
    struct berth_budget_owner *owner = berth_map_get(&budget->owners, name);
    if (!owner) {
        size_t size = strlen(name) + 1;
        auto_free struct berth_budget_owner *fresh = calloc(1, sizeof *fresh + size);
        if (!fresh || !berth_map_put(&budget->owners, name, fresh))
            return NULL;
        memcpy(fresh->name, name, size);
        owner = take_ptr(fresh);
    }
    owner->charges++;
    return owner;
}

static void owner_drop(struct berth_budget *budget, struct berth_budget_owner *owner)
{
    if (!owner || --owner->charges)
        return;
    (void)berth_map_remove(&budget->owners, owner->name);
    free(owner);
}

/* --- charges --- */

static bool budget_fits(const struct berth_budget *budget, const struct berth_budget_owner *owner,
                        int64_t more)
{
    int64_t left = budget->max - budget->used - more;
    return more <= 0 || (left >= 0 && (!owner || owner->used + more <= left));
}

static void budget_add(struct berth_budget *budget, struct berth_charge *charge, int64_t more)
{
    budget->used += more;
    if (budget->used > budget->most)
        budget->most = budget->used;
    if (charge->owner)
        charge->owner->used += more;
    charge->bytes += more;
}

bool berth_charge_set(struct berth_charge *charge, struct berth_budget *budget, const char *owner,
                      int64_t bytes)
{
    bool first = !charge->budget, fits = true;
    if (bytes == charge->bytes)
        return true;
    pthread_mutex_lock(&budget->lock);
    if (first && owner)
        fits = (charge->owner = owner_hold(budget, owner)) != NULL;
    fits = fits && budget_fits(budget, charge->owner, bytes - charge->bytes);
    if (fits) {
        charge->budget = budget;
        budget_add(budget, charge, bytes - charge->bytes);
    } else if (first) {
        owner_drop(budget, charge->owner);
        charge->owner = NULL;
    }
    pthread_mutex_unlock(&budget->lock);
    return fits;
}

void berth_charge_drop(struct berth_charge *charge)
{
    struct berth_budget *budget = charge->budget;
    if (!budget)
        return;
    pthread_mutex_lock(&budget->lock);
    budget_add(budget, charge, -charge->bytes);
    owner_drop(budget, charge->owner);
    bool trim = budget->used == 0 && budget->most >= TRIM_BYTES_MIN;
    if (trim)
        budget->most = 0;
    pthread_mutex_unlock(&budget->lock);
    *charge = (struct berth_charge){0};
    if (trim)
        (void)malloc_trim(0); /* free memory within the heap goes back to the system */
}
