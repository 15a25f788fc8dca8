/* SPDX-License-Identifier: Apache-2.0
 * src/sync/pack.h - writes entries of a tree as a tar archive, piece by piece. */
#ifndef BERTH_SYNC_PACK_H
#define BERTH_SYNC_PACK_H

#include "sync/manifest.h"
#include "sync/progress.h"

/* Receives the bytes of an archive, in order. An error ends the packing. */
struct berth_pack_sink {
    int (*put)(void *ctx, const void *bytes, size_t len, struct berth_error *err);
    void *ctx;
    bool (*is_over)(void *ctx); /* `put` would fail: the bytes are not wanted any more; or NULL */
    struct berth_progress *progress; /* counts the files that are packed; or NULL */
};

/* Packs `count` entries of the tree below root_fd, in the order of a manifest. Sets hash, size and
 * mode of each file to what was packed. The format is that of GNU tar, because the tar of busybox
 * does not read the long names of the pax format. CONFLICT: a file changes while it is read. */
int berth_pack(int root_fd, struct berth_entry *const *entries, size_t count,
               const struct berth_pack_sink *sink, int cancel_fd, struct berth_error *err);
#endif
