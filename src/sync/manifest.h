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
#include "crypto/hash.h"

struct berth_buf;

enum berth_entry_kind {
    BERTH_ENTRY_DIRECTORY,
    BERTH_ENTRY_FILE,
    BERTH_ENTRY_LINK, /* symbolic; never followed. Hard links are files. */
};

struct berth_entry {
    const char *path;   /* names separated by "/", below the root; any bytes but NUL */
    const char *target; /* of a link, else NULL */
    enum berth_entry_kind kind;
    uint16_t mode; /* the permission bits, 0777 at most; 0 for a link */
    bool hashed;   /* `hash` is set; files only */
    unsigned char hash[BERTH_SHA256_SIZE];
    int64_t size; /* of a file, else 0 */
    /* These tell whether a file may have changed since. They are not part of its content. */
    int64_t mtime_ns, ctime_ns;
    uint64_t inode;
};

/* Entries are sorted as berth_path_compare says, without duplicates. The root is not an entry. */
struct berth_manifest {
    struct berth_arena arena; /* holds the texts */
    struct berth_entry *entries;
    size_t count, cap;
    int64_t bytes;            /* of all files */
    int64_t taken_at_ns;      /* when the tree was read, by the wall clock of its file system */
    size_t skipped;           /* sockets, pipes and devices, which are left out */
    const char *skipped_path; /* the first of them, or NULL */
};

/* Orders paths so that a directory is followed at once by everything below it. */
int berth_path_compare(const char *a, const char *b);
/* Returns whether a path from outside may be an entry: relative, without empty names, "." and "..",
 * and within the limits. */
bool berth_path_valid(const char *path);
bool berth_path_is_below(const char *path, const char *above); /* at any depth */

void berth_manifest_clear(struct berth_manifest *manifest);
#define auto_manifest __attribute__((cleanup(berth_manifest_clear))) struct berth_manifest

/* Appends an entry and copies its texts. The caller sorts afterwards, unless the entries come in
 * order. TOO_LARGE: the tree has too many entries or bytes. */
int berth_manifest_add(struct berth_manifest *manifest, const struct berth_entry *entry,
                       struct berth_error *err);
/* Sorts the entries. INVALID: a path occurs twice, or lies below a file or link. */
int berth_manifest_sort(struct berth_manifest *manifest, struct berth_error *err);
/* Returns the entry with this path, or NULL. */
struct berth_entry *berth_manifest_find(const struct berth_manifest *manifest, const char *path);
/* Returns whether both are the same content: kind, mode, and hash or target. NULL equals NULL only.
 * Files must be hashed. */
bool berth_entry_same(const struct berth_entry *a, const struct berth_entry *b);

/* Appends the manifest in a form that berth_manifest_parse reads. */
void berth_manifest_write(const struct berth_manifest *manifest, struct berth_buf *out);
/* Reads a manifest from a stranger. A NUL follows the bytes. INVALID: it is not one, or not whole.
 */
int berth_manifest_parse(const char *bytes, size_t len, struct berth_manifest *out,
                         struct berth_error *err);
#endif
