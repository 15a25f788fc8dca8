/* SPDX-License-Identifier: Apache-2.0
 * src/sync/follow.h - copies a tree with the files that its links lead to. */
#ifndef BERTH_SYNC_FOLLOW_H
#define BERTH_SYNC_FOLLOW_H

#include <sys/stat.h>

#include "sync/ignore.h"

/* Copies a tree into an empty directory, without what the rules exclude. In place of a link, the
 * file or directory is copied that the link leads to, wherever that is. Sockets, pipes and devices
 * are left out. INVALID: a link leads nowhere, or to a directory above itself. DENIED: a link leads
 * to the directory `closed`. */
int berth_tree_follow(int root_fd, int copy_fd, struct berth_ignore *ignore,
                      const struct stat *closed, int cancel_fd, struct berth_error *err);
#endif
