/* SPDX-License-Identifier: Apache-2.0
 * src/sync/progress.h - counts files and bytes on their way, and reports from time to time. */
#ifndef BERTH_SYNC_PROGRESS_H
#define BERTH_SYNC_PROGRESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* How far a transfer is. */
struct berth_progress_count {
    size_t files, files_total;
    int64_t bytes, bytes_total; /* of their content */
};

/* One transfer. May be counted by several threads. */
struct berth_progress {
    /* Called by a thread that counts: at the start, then at most ten times a second, and at the
     * end. Must not block. */
    void (*report)(void *ctx, const struct berth_progress_count *count);
    void *ctx;
    size_t files_total;
    int64_t bytes_total;
    _Atomic size_t files;
    _Atomic int64_t bytes, due_ms;
};

/* All four do nothing for NULL. */
void berth_progress_start(struct berth_progress *p, size_t files_total, int64_t bytes_total);
void berth_progress_add(struct berth_progress *p, int64_t bytes);
void berth_progress_add_file(struct berth_progress *p); /* a file is complete */
void berth_progress_end(struct berth_progress *p);
#endif
