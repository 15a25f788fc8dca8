/* SPDX-License-Identifier: Apache-2.0
 * src/sync/progress.h - counts bytes on their way, and reports the count from time to time. */
#ifndef BERTH_SYNC_PROGRESS_H
#define BERTH_SYNC_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

/* One transfer. May be counted by several threads. */
struct berth_progress {
    /* Called by a thread that counts: at the start, then at most ten times a second, and at the
     * end. Must not block. */
    void (*report)(void *ctx, int64_t bytes, int64_t bytes_total);
    void *ctx;
    int64_t bytes_total;
    _Atomic int64_t bytes, due_ms;
};

/* All three do nothing for NULL. */
void berth_progress_start(struct berth_progress *p, int64_t bytes_total);
void berth_progress_add(struct berth_progress *p, int64_t bytes);
void berth_progress_end(struct berth_progress *p);
#endif
