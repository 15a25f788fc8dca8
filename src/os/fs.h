/* SPDX-License-Identifier: Apache-2.0
 * src/os/fs.h - files: bounded reads, whole writes, and paths that stay beneath their root. */
#ifndef BERTH_OS_FS_H
#define BERTH_OS_FS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <berth/error.h>

#include "base/auto.h"

struct berth_buf;

/* Opens `path` beneath `root_fd` (openat2): no "..", no absolute path, no link on the way leads
 * out. O_CLOEXEC is added to flags. Returns the descriptor, or < 0. */
int berth_fs_open_beneath(int root_fd, const char *path, int flags, mode_t mode,
                          struct berth_error *err);
/* Opens a path from `at` (as openat), without "..", on which no part may be a symbolic link. A user
 * who can write a directory on the way can then not choose what is opened. O_CLOEXEC is added to
 * flags. Makes only a system call. Returns the descriptor, or -1 with errno: ELOOP for a link. */
int berth_fs_open_real(int at, const char *path, int flags);
/* Makes the directory and its parents; those that exist are left as they are. */
int berth_fs_mkdirs(const char *path, mode_t mode, struct berth_error *err);
/* Removes the directory with its content, of any depth, without following links; directories that
 * their owner has closed are opened. A missing one is fine. Goes on after a failure, and reports
 * the first. */
int berth_fs_remove_tree(const char *path, struct berth_error *err);
int berth_fs_remove_tree_at(int at, const char *path, struct berth_error *err); /* see openat(2) */
/* Appends the whole content of `fd` to `buf`. Fails when it is longer than the buffer may be. */
int berth_fs_read_all(int fd, struct berth_buf *buf, struct berth_error *err);
int berth_fs_write_all(int fd, const void *bytes, size_t len, struct berth_error *err);
/* Copies a file from its beginning to the end of `to`, and at most `bytes_max` bytes. Returns their
 * number, or < 0. */
int64_t berth_fs_copy(int from, int to, int64_t bytes_max, struct berth_error *err);

/* Returns whether a path is the directory or lies in it. Both are absolute and without links. */
bool berth_fs_is_within(const char *path, const char *directory);

/* Who may own a file, and what group and others must not be able to do with it. */
enum berth_fs_guard {
    BERTH_FS_OURS_PRIVATE, /* ours; closed to group and others */
    BERTH_FS_PRIVATE,      /* ours or root's; closed to group and others */
    BERTH_FS_TRUSTED,      /* ours or root's; not writable by group and others */
};
enum berth_fs_flaw {
    BERTH_FS_NO_FLAW,
    BERTH_FS_WRONG_TYPE,
    BERTH_FS_WRONG_OWNER,
    BERTH_FS_WRONG_MODE,
};
/* Returns the first rule that a file breaks. type: S_IFREG or S_IFDIR. */
enum berth_fs_flaw berth_fs_find_flaw(const struct stat *st, mode_t type,
                                      enum berth_fs_guard guard);

/* Returns DENIED when this process belongs to root, but the file, or the nearest directory above it
 * that exists, belongs to another user: that user could not open files that root makes there.
 * `what` names the file in the error, as "store". */
int berth_fs_refuse_root(const char *what, const char *path, struct berth_error *err);

void berth_fs_close_dir(DIR **dir); /* NULL is fine */
#define auto_dir auto_clean(berth_fs_close_dir) DIR
#endif
