/* SPDX-License-Identifier: Apache-2.0
 * src/sync/entry.h - one directory, file or symbolic link of a tree. */
#ifndef BERTH_SYNC_ENTRY_H
#define BERTH_SYNC_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "crypto/hash.h"

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

/* Orders paths so that a directory is followed at once by everything below it. */
int berth_path_compare(const char *a, const char *b);
/* Returns whether a path from outside may be an entry: relative, without empty names, "." and "..",
 * and within the limits. */
bool berth_path_valid(const char *path);
bool berth_path_is_below(const char *path, const char *above); /* at any depth */

/* Returns whether both are the same content: kind, mode, and hash or target. NULL equals NULL only.
 * Files must be hashed. */
bool berth_entry_same(const struct berth_entry *a, const struct berth_entry *b);
#endif
