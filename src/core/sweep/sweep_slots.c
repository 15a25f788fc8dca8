/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/sweep_slots.c - see sweep_slots.h. */
#include "core/sweep/sweep_slots.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/lock_order.h"

struct berth_sweep_slots {
    struct berth_lock lock;
    struct berth_map environments; /* environment id -> anything */
    struct berth_map providers;    /* provider -> its number of jobs */
    unsigned passes;
};

int berth_sweep_slots_new(struct berth_sweep_slots **out, struct berth_error *err)
{
    struct berth_sweep_slots *slots = calloc(1, sizeof *slots);
    if (!slots)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: sweep.");
    berth_lock_init(&slots->lock, BERTH_RANK_SWEEP_SLOTS);
    *out = slots;
    return BERTH_OK;
}

void berth_sweep_slots_free(struct berth_sweep_slots *slots)
{
    if (!slots)
        return;
    berth_map_clear(&slots->environments);
    berth_map_clear(&slots->providers);
    berth_lock_destroy(&slots->lock);
    free(slots);
}

bool berth_sweep_slots_enter(struct berth_sweep_slots *slots, const char *environment_id)
{
    berth_lock_take(&slots->lock);
    bool entered = !berth_map_get(&slots->environments, environment_id) &&
                   berth_map_put(&slots->environments, environment_id, slots);
    berth_lock_drop(&slots->lock);
    return entered;
}

void berth_sweep_slots_leave(struct berth_sweep_slots *slots, const char *environment_id)
{
    berth_lock_take(&slots->lock);
    (void)berth_map_remove(&slots->environments, environment_id);
    berth_lock_drop(&slots->lock);
}

bool berth_sweep_slots_enter_provider(struct berth_sweep_slots *slots, const char *provider)
{
    berth_lock_take(&slots->lock);
    uintptr_t jobs = (uintptr_t)berth_map_get(&slots->providers, provider);
    bool entered = jobs < BERTH_PROVIDER_SWEEPS_MAX &&
                   berth_map_put(&slots->providers, provider, (void *)(jobs + 1));
    berth_lock_drop(&slots->lock);
    return entered;
}

void berth_sweep_slots_leave_provider(struct berth_sweep_slots *slots, const char *provider)
{
    berth_lock_take(&slots->lock);
    uintptr_t jobs = (uintptr_t)berth_map_get(&slots->providers, provider);
    if (jobs > 1) /* replacing a value needs no memory */
        (void)berth_map_put(&slots->providers, provider, (void *)(jobs - 1));
    else
        (void)berth_map_remove(&slots->providers, provider);
    berth_lock_drop(&slots->lock);
}

unsigned berth_sweep_slots_count_pass(struct berth_sweep_slots *slots)
{
    berth_lock_take(&slots->lock);
    unsigned number = slots->passes++;
    berth_lock_drop(&slots->lock);
    return number;
}
