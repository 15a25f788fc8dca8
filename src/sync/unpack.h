/* SPDX-License-Identifier: Apache-2.0
 * src/sync/unpack.h - reads a tar archive from a stranger. Nothing is written under a name of the
 * archive: the content of each file is stored in one flat directory, under its SHA-256 in hex. */
#ifndef BERTH_SYNC_UNPACK_H
#define BERTH_SYNC_UNPACK_H

#include <sys/types.h>

#include "sync/ignore.h"
#include "sync/manifest.h"
#include "sync/progress.h"

/* Gives the bytes of an archive, in order. */
struct berth_unpack_source {
    /* Sets *bytes to the next bytes, valid until the next call, and returns their number; 0: the
     * end; < 0: an error. */
    ssize_t (*get)(void *ctx, const void **bytes, struct berth_error *err);
    void *ctx;
    struct berth_progress *progress; /* counts the files that are unpacked; or NULL */
};

/* Reads an archive and adds its entries to `out`, sorted and hashed. Names that never cross, and
 * paths that `ignore` excludes, are left out; NULL: no rules. Sockets, pipes and devices are
 * counted as skipped. The directory of an entry may be missing: see berth_tree_manifest_check.
 * INVALID: the archive is damaged, has no entry at all (one of an empty directory has that
 * directory), or has a path that is not below its root. */
int berth_unpack(const struct berth_unpack_source *source, struct berth_ignore *ignore,
                 int blobs_fd, struct berth_tree_manifest *out, struct berth_error *err);

/* Makes the file `name` in a directory with the content that berth_unpack stored for an entry. */
int berth_unpack_fetch(int blobs_fd, const struct berth_entry *entry, int directory_fd,
                       const char *name, struct berth_error *err);
#endif
