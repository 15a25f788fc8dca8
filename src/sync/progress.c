/* SPDX-License-Identifier: Apache-2.0
 * src/sync/progress.c - see progress.h. */
#include "sync/progress.h"

#include <stddef.h>

#include "base/time.h"

#define STEP_MS 100

void berth_progress_start(struct berth_progress *p, int64_t bytes_total)
{
    if (!p)
        return;
    p->bytes_total = bytes_total;
    atomic_store(&p->bytes, 0);
    atomic_store(&p->due_ms, berth_time_mono_ms() + STEP_MS);
    p->report(p->ctx, 0, bytes_total);
}

void berth_progress_add(struct berth_progress *p, int64_t bytes)
{
    if (!p)
        return;
    int64_t all = atomic_fetch_add(&p->bytes, bytes) + bytes;
    int64_t now = berth_time_mono_ms(), due = atomic_load(&p->due_ms);
    if (now >= due && atomic_compare_exchange_strong(&p->due_ms, &due, now + STEP_MS))
        p->report(p->ctx, all, p->bytes_total);
}

void berth_progress_end(struct berth_progress *p)
{
    if (p)
        p->report(p->ctx, atomic_load(&p->bytes), p->bytes_total);
}
