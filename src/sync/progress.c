/* SPDX-License-Identifier: Apache-2.0
 * src/sync/progress.c - see progress.h. */
#include "sync/progress.h"

#include "base/time.h"

#define STEP_MS 100

static void progress_report(struct berth_progress *p)
{
    struct berth_progress_count now = {atomic_load(&p->files), p->files_total,
                                       atomic_load(&p->bytes), p->bytes_total};
    p->report(p->ctx, &now);
}

void berth_progress_start(struct berth_progress *p, size_t files_total, int64_t bytes_total)
{
    if (!p)
        return;
    p->files_total = files_total;
    p->bytes_total = bytes_total;
    atomic_store(&p->files, 0);
    atomic_store(&p->bytes, 0);
    atomic_store(&p->due_ms, berth_time_mono_ms() + STEP_MS);
    progress_report(p);
}

void berth_progress_add(struct berth_progress *p, int64_t bytes)
{
    if (!p)
        return;
    atomic_fetch_add(&p->bytes, bytes);
    int64_t now = berth_time_mono_ms(), due = atomic_load(&p->due_ms);
    if (now >= due && atomic_compare_exchange_strong(&p->due_ms, &due, now + STEP_MS))
        progress_report(p);
}

void berth_progress_add_file(struct berth_progress *p)
{
    if (p)
        atomic_fetch_add(&p->files, 1);
}

void berth_progress_end(struct berth_progress *p)
{
    if (p)
        progress_report(p);
}
