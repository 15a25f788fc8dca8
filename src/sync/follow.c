/* SPDX-License-Identifier: Apache-2.0
 * src/sync/follow.c - see follow.h. */
#include "sync/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "os/fs.h"

#define PERMISSIONS 0777

struct following {
    struct berth_ignore *ignore;
    const struct stat *closed;
    int cancel_fd;
    size_t entries;
    char path[BERTH_TREE_PATH_BYTES_MAX + 1]; /* of the current entry */
    struct berth_error *err;
};

/* A directory that is being copied, and the one above it. */
struct level {
    const struct level *above;
    int fd, copy_fd;
    dev_t device;
    ino_t inode;
    int depth;
};

static int copy_directory(struct following *f, struct level *here);

static int copy_failed(struct following *f)
{
    return berth_fail_errno(f->err, "Cannot copy %.600s", f->path);
}

static int copy_file(struct following *f, const struct level *in, const char *name,
                     const struct stat *st)
{
    auto_close int from = openat(in->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (from < 0)
        return copy_failed(f);
    auto_close int to = openat(in->copy_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return copy_failed(f);
    int64_t copied = berth_fs_copy(from, to, BERTH_TREE_BYTES_MAX, f->err);
    if (copied < 0)
        return (int)copied;
    return fchmod(to, st->st_mode & PERMISSIONS) == 0 ? BERTH_OK : copy_failed(f);
}

static int check_circle(struct following *f, const struct level *in, const struct stat *st)
{
    for (; in; in = in->above)
        if (in->device == st->st_dev && in->inode == st->st_ino)
            return berth_fail(f->err, BERTH_E_INVALID,
                              "%.600s leads to a directory that contains it. Exclude it.", f->path);
    return BERTH_OK;
}

static int copy_below(struct following *f, const struct level *in, const char *name,
                      const struct stat *st)
{
    int rc = check_circle(f, in, st);
    if (rc < 0)
        return rc;
    if (f->closed->st_dev == st->st_dev && f->closed->st_ino == st->st_ino)
        return berth_fail(f->err, BERTH_E_DENIED,
                          "%.600s leads to the data of berth, which must not travel. Exclude it.",
                          f->path);
    if (in->depth == BERTH_TREE_DEPTH_MAX)
        return berth_fail(f->err, BERTH_E_TOO_LARGE, "%.600s is too deep.", f->path);
    auto_close int fd = openat(in->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || mkdirat(in->copy_fd, name, S_IRWXU) < 0)
        return copy_failed(f);
    auto_close int copy_fd = openat(in->copy_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy_fd < 0)
        return copy_failed(f);
    struct level here = {in, fd, copy_fd, st->st_dev, st->st_ino, in->depth + 1};
    rc = copy_directory(f, &here);
    return rc < 0 || fchmod(copy_fd, st->st_mode & PERMISSIONS) == 0 ? rc : copy_failed(f);
}

/* Copies one entry, whose path is set. */
static int copy_entry(struct following *f, const struct level *in, const char *name)
{
    struct stat st;
    struct pollfd cancel = {.fd = f->cancel_fd, .events = POLLIN};
    if (f->cancel_fd >= 0 && poll(&cancel, 1, 0) > 0)
        return berth_fail(f->err, BERTH_E_CANCELLED, "Copying files was cancelled.");
    if (++f->entries > BERTH_TREE_ENTRIES_MAX)
        return berth_fail(f->err, BERTH_E_TOO_LARGE, "There are more than %d files.",
                          BERTH_TREE_ENTRIES_MAX);
    bool found = fstatat(in->fd, name, &st, 0) == 0;
    if (berth_ignore_excludes(f->ignore, f->path, found && S_ISDIR(st.st_mode)))
        return BERTH_OK;
    if (!found && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR))
        return berth_fail(f->err, BERTH_E_INVALID,
                          "The link %.600s leads nowhere. Remove it, or exclude it.", f->path);
    if (!found)
        return copy_failed(f);
    return S_ISREG(st.st_mode)   ? copy_file(f, in, name, &st)
           : S_ISDIR(st.st_mode) ? copy_below(f, in, name, &st)
                                 : BERTH_OK;
}

static int copy_directory(struct following *f, struct level *here)
{
    int fd = dup(here->fd), rc = BERTH_OK;
    auto_dir *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t len = strlen(f->path);
    if (!dir) {
        rc = copy_failed(f);
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    for (const struct dirent *d; rc == BERTH_OK && (errno = 0, d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        int n = snprintf(f->path + len, sizeof f->path - len, "%s%s", len ? "/" : "", d->d_name);
        rc = (size_t)n < sizeof f->path - len
                 ? copy_entry(f, here, d->d_name)
                 : berth_fail(f->err, BERTH_E_TOO_LARGE, "A path below %.200s is too long.",
                              f->path);
        f->path[len] = '\0';
    }
    return rc == BERTH_OK && errno ? copy_failed(f) : rc;
}

int berth_tree_follow(int root_fd, int copy_fd, struct berth_ignore *ignore,
                      const struct stat *closed, int cancel_fd, struct berth_error *err)
{
    struct stat st;
    struct following f = {.ignore = ignore, .closed = closed, .cancel_fd = cancel_fd, .err = err};
    if (fstat(root_fd, &st) < 0)
        return berth_fail_errno(err, "Cannot read the directory");
    struct level root = {NULL, root_fd, copy_fd, st.st_dev, st.st_ino, 0};
    return copy_directory(&f, &root);
}
