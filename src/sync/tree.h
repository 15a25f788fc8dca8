/* SPDX-License-Identifier: Apache-2.0
 * src/sync/tree.h - reads the manifest of a directory, and copies the directory. Links are never
 * followed, and everything is opened below the root. What cannot be read is an error, never an
 * absence. */
#ifndef BERTH_SYNC_TREE_H
#define BERTH_SYNC_TREE_H

#include "sync/ignore.h"
#include "sync/manifest.h"
#include "sync/progress.h"

/* How to read a tree. */
struct berth_tree_options {
    struct berth_ignore *ignore; /* the rules; those of files in the tree are added to it */
    /* Names of ignore files to read in each directory, the weakest first, closed by NULL. NULL: the
     * rules are used as they are. */
    const char *const *ignore_files;
    int cancel_fd; /* reading ends when it becomes readable; -1: never */
    /* Directories on which something is mounted are left out, and a rule that excludes them is
     * added to `ignore`: files cannot be renamed into them. */
    bool leave_mounts;
};

/* Lists the tree without reading files. `out` is empty before, and sorted afterwards. */
int berth_tree_list(int root_fd, const struct berth_tree_options *options,
                    struct berth_tree_manifest *out, struct berth_error *err);

/* Sets the hash of every file that has none. `known` is an earlier manifest of the same tree, or
 * NULL: it vouches for files whose size, times and inode are the same, unless they may have changed
 * in the moment at which it was taken. The other files are read, by several threads. CONFLICT with
 * ESTALE: a file changes while it is read. */
int berth_tree_hash(int root_fd, struct berth_tree_manifest *manifest,
                    const struct berth_tree_manifest *known, int cancel_fd,
                    struct berth_error *err);

/* Reads the hash of an open file. CONFLICT: it changes meanwhile, or is not a regular file. */
int berth_tree_hash_fd(int fd, unsigned char hash[BERTH_SHA256_SIZE], struct berth_error *err);

/* Copies the entries of a listed tree into a directory that is empty, and in which nothing else
 * happens meanwhile. Sets the hash of every file to that of the copy, so that the manifest
 * describes the copy. Files keep their modification times. On failure a part of the tree is in the
 * directory. CONFLICT: a file changes while it is copied. */
int berth_tree_copy(int root_fd, struct berth_tree_manifest *manifest, int copy_fd, int cancel_fd,
                    struct berth_progress *progress, struct berth_error *err);
/* Makes the file `name` in a directory, with the content of a file of the tree. CONFLICT with
 * ESTALE: the content does not have the hash of the entry. */
int berth_tree_copy_file(int root_fd, const struct berth_entry *entry, int directory_fd,
                         const char *name, struct berth_error *err);

/* Returns the time by the clock of the times of files. */
int64_t berth_tree_now_ns(void);
/* Returns whether times and inodes of this file system can vouch for a file. */
bool berth_tree_can_vouch(int root_fd);
#endif
