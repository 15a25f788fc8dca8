/* SPDX-License-Identifier: Apache-2.0
 * src/sync/manifest.h - a tree as a sorted list of its directories, files and symbolic links. The
 * manifest of a workspace at the moment of its upload is the baseline of the merge that brings
 * changes home. */
#ifndef BERTH_SYNC_MANIFEST_H
#define BERTH_SYNC_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

#include "base/arena.h"
#include "sync/entry.h"

struct berth_buf;

/* Entries are sorted as berth_path_compare says, without duplicates. The root is not an entry. */
struct berth_tree_manifest {
    struct berth_arena arena; /* holds the texts */
    struct berth_entry *entries;
    size_t count, cap;
    size_t files;             /* that are neither directories nor links */
    int64_t bytes;            /* of all files */
    int64_t taken_at_ns;      /* when the tree was read, by the wall clock of its file system */
    size_t skipped;           /* sockets, pipes and devices, which are left out */
    const char *skipped_path; /* the first of them, or NULL */
    size_t mounts;            /* directories that were left out, see struct berth_tree_options */
    const char *mount_path;   /* the first of them, or NULL */
    size_t files_read;        /* by berth_tree_hash: the others were vouched for */
    size_t repositories;      /* names ".git" in it, where berth_tree_list read it */
};

void berth_tree_manifest_clear(struct berth_tree_manifest *manifest);
#define auto_tree_manifest                                                                         \
    __attribute__((cleanup(berth_tree_manifest_clear))) struct berth_tree_manifest

/* Appends an entry and copies its texts. The caller sorts afterwards, unless the entries come in
 * order. TOO_LARGE: the tree has too many entries or bytes. */
int berth_tree_manifest_add(struct berth_tree_manifest *manifest, const struct berth_entry *entry,
                            struct berth_error *err);
/* Sorts the entries. INVALID: a path occurs twice, or lies below a file or link. */
int berth_tree_manifest_sort(struct berth_tree_manifest *manifest, struct berth_error *err);
/* Returns INVALID when the directory of an entry is not an entry. The entries are sorted. */
int berth_tree_manifest_check(const struct berth_tree_manifest *manifest, struct berth_error *err);
/* Returns whether both have the same entries, also their times and inodes. */
bool berth_tree_manifest_same(const struct berth_tree_manifest *a,
                              const struct berth_tree_manifest *b);
/* Returns the entry with this path, or NULL. */
struct berth_entry *berth_tree_manifest_find(const struct berth_tree_manifest *manifest,
                                             const char *path);
/* Returns the entry with this path, or NULL. The paths of a series of calls are in order; *at is
 * where the search begins, 0 at first. */
const struct berth_entry *berth_tree_manifest_next(const struct berth_tree_manifest *manifest,
                                                   size_t *at, const char *path);
/* Appends the manifest in a form that berth_tree_manifest_parse reads. */
void berth_tree_manifest_write(const struct berth_tree_manifest *manifest, struct berth_buf *out);
/* Reads a manifest from a stranger. A NUL follows the bytes. INVALID: it is not one, or not whole.
 */
int berth_tree_manifest_parse(const char *bytes, size_t len, struct berth_tree_manifest *out,
                              struct berth_error *err);
#endif
