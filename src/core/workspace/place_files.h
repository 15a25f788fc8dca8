/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_files.h - reads and writes files in the place of an active lease. It
 * needs nothing but the ability to run commands there. A path is absolute, or relative to the
 * directory of the lease. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_FILES_H
#define BERTH_CORE_WORKSPACE_PLACE_FILES_H

#include "core/workspace/place_shell.h"

/* The files of one lease. Used by one thread. */
struct berth_place_files {
    struct berth_arena *arena;
    struct berth_place_shell shell;
    const char *directory; /* of the lease, absolute */
};

/* Prepares the directory of the lease. cancel_fd: calls are given up when it becomes readable; -1:
 * never. CONFLICT: the lease is not active. */
int berth_place_files_open(struct berth *b, struct berth_arena *arena, const char *lease_id,
                           int cancel_fd, struct berth_place_files *out, struct berth_error *err);

/* All calls return NOT_FOUND when the path does not exist, and INVALID when it leaves the directory
 * of the lease by "..". */

/* Receives a file. */
struct berth_place_reading {
    int64_t offset; /* of the first byte; < 0: counted from the end */
    int64_t length; /* how many bytes are wanted; -1: all */
    /* Called first, with the size of the file, and the offset and number of the bytes that come. */
    int (*begin)(void *ctx, int64_t size, int64_t offset, int64_t length, struct berth_error *err);
    int (*put)(void *ctx, const void *bytes, size_t len, struct berth_error *err);
    void *ctx;
};
/* Reads a file. UNPROCESSABLE: it is a directory, or not a regular file. */
int berth_place_files_read(struct berth_place_files *f, const char *path,
                           const struct berth_place_reading *to, struct berth_error *err);

/* Gives the content of a file, or an archive: as `feed` of struct berth_place_script. */
struct berth_place_writing {
    int64_t length;   /* -1: not known */
    const char *mode; /* of a file, in octal; NULL: that of the old file, or 0644 */
    int (*feed)(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err);
    void *ctx;
};
/* Writes a file as a whole, or not at all. Directories on the way are made. UNPROCESSABLE: the path
 * is a directory. */
int berth_place_files_write(struct berth_place_files *f, const char *path,
                            const struct berth_place_writing *from, struct berth_error *err);
/* Removes a file, link or directory; one that is not empty only if `recursive`. The directory of
 * the lease itself is refused. */
int berth_place_files_remove(struct berth_place_files *f, const char *path, bool recursive,
                             struct berth_error *err);

/* What to list, or to pack. */
struct berth_place_listing {
    const char *path;
    int depth;                   /* how many levels; 0: only the path itself; -1: all */
    bool hashed;                 /* with the SHA-256 of files */
    struct berth_ignore *ignore; /* paths that the rules exclude are left out; or NULL */
};
/* Lists a directory; a file or link is listed alone, under its name. *is_directory says which.
 * UNSUPPORTED: the place lacks a program for it. */
int berth_place_files_list(struct berth_place_files *f, const struct berth_place_listing *what,
                           bool *is_directory, struct berth_tree_manifest *out,
                           struct berth_error *err);
/* Packs a directory as a tar archive; a file or link alone, under its name. `depth` and `hashed`
 * are ignored. */
int berth_place_files_pack(struct berth_place_files *f, const struct berth_place_listing *what,
                           const struct berth_pack_sink *sink, struct berth_error *err);
/* Unpacks a tar archive into a directory, which is made. What the archive does not have stays. */
int berth_place_files_unpack(struct berth_place_files *f, const char *path,
                             const struct berth_place_writing *from, struct berth_error *err);
#endif
