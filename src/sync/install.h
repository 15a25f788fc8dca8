/* SPDX-License-Identifier: Apache-2.0
 * src/sync/install.h - puts the entries of an archive into a directory that may have files already.
 * Each file or link appears at once under its name, and replaces a file or link of that name.
 * Everything else stays. No link of the directory is followed. */
#ifndef BERTH_SYNC_INSTALL_H
#define BERTH_SYNC_INSTALL_H

#include "sync/manifest.h"

/* Puts what berth_unpack has read into the directory. `blobs_fd` has the content. On failure a part
 * of it is there. CONFLICT: a directory is in the way of a file, or a file or link in the way of a
 * directory. */
int berth_tree_install(int root_fd, const struct berth_tree_manifest *manifest, int blobs_fd,
                       struct berth_error *err);
#endif
