/* SPDX-License-Identifier: Apache-2.0
 * src/os/fs.c - see fs.h. */
#include "os/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

#define TREE_DEPTH_MAX 30
#define COPY_BYTES (256 * 1024)

/* RESOLVE_BENEATH lets a ".." pass that does not lead out. */
static bool has_dotdot(const char *path)
{
    for (const char *p = path; (p = strstr(p, "..")); p += 2)
        if ((p == path || p[-1] == '/') && (!p[2] || p[2] == '/'))
            return true;
    return false;
}

int berth_fs_open_beneath(int root_fd, const char *path, int flags, mode_t mode,
                          struct berth_error *err)
{
    if (has_dotdot(path))
        return berth_fail(err, BERTH_E_DENIED, "Cannot open %s: \"..\" is not allowed.", path);
    bool makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; /* has O_DIRECTORY in it */
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .mode = makes ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
    };
    long fd;
    do
        fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    while (fd < 0 && errno == EAGAIN); /* a rename raced with the walk */
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open %s", path);
    return (int)fd;
}

int berth_fs_open_real(int at, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, at, path, &how, sizeof how);
}

int berth_fs_mkdirs(const char *path, mode_t mode, struct berth_error *err)
{
    if (!path[0])
        return berth_fail(err, BERTH_E_INVALID, "A directory needs a name.");
    auto_free char *copy = strdup(path);
    if (!copy)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: %s.", path);
    for (char *slash = copy + 1;; *slash++ = '/') {
        slash = strchr(slash, '/');
        if (slash)
            *slash = '\0';
        struct stat st;
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
            return berth_fail_errno(err, "Cannot make the directory %s", copy);
        if (stat(copy, &st) < 0)
            return berth_fail_errno(err, "Cannot make the directory %s", copy);
        if (!S_ISDIR(st.st_mode))
            return berth_fail(err, BERTH_E_INVALID, "%s is not a directory.", copy);
        if (!slash)
            return BERTH_OK;
    }
}

int berth_fs_read_all(int fd, struct berth_buf *buf, struct berth_error *err)
{
    char chunk[16 * 1024];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return berth_fail_errno(err, "Cannot read");
        if (got == 0)
            return berth_buf_check(buf, "Input", err);
        berth_buf_append(buf, chunk, (size_t)got);
        if (buf->failed)
            return berth_buf_check(buf, "Input", err);
    }
}

int berth_fs_write_all(int fd, const void *bytes, size_t len, struct berth_error *err)
{
    const char *p = bytes;
    while (len) {
        ssize_t put = write(fd, p, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return berth_fail_errno(err, "Cannot write");
        p += put;
        len -= (size_t)put;
    }
    return BERTH_OK;
}

int64_t berth_fs_copy(int from, int to, int64_t bytes_max, struct berth_error *err)
{
    auto_free char *bytes = malloc(COPY_BYTES);
    int64_t at = 0;
    if (!bytes)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: copying a file.");
    while (at < bytes_max) {
        int64_t left = bytes_max - at;
        ssize_t got = pread(from, bytes, left < COPY_BYTES ? (size_t)left : COPY_BYTES, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return berth_fail_errno(err, "Cannot read");
        int rc = berth_fs_write_all(to, bytes, (size_t)got, err);
        if (rc < 0)
            return rc;
        at += got;
        if (!got)
            break;
    }
    return at;
}

/* --- removing --- */

/* A tree that is being removed. What lies deeper than TREE_DEPTH_MAX is moved up into its root, so
 * that no tree needs more descriptors than that. */
struct removal {
    int root_fd;
    unsigned long next; /* the name of the next directory that is moved up */
    bool moved;         /* since the root was last read */
    int first_errno;    /* 0: nothing has failed */
};

static void removal_failed(struct removal *r, int why)
{
    if (!r->first_errno)
        r->first_errno = why;
}

/* Opens a directory, also one that its owner has closed for himself. */
static DIR *open_to_empty(int parent, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(parent, name, flags);
    if (fd < 0 && errno == EACCES && fchmodat(parent, name, S_IRWXU, AT_SYMLINK_NOFOLLOW) == 0)
        fd = openat(parent, name, flags);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU)
        (void)fchmod(fd, S_IRWXU); /* if that fails, the content cannot be removed */
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        (void)close(fd);
    return dir;
}

static void move_up(struct removal *r, int parent, const char *name)
{
    char fresh[32];
    int rc;
    do {
        (void)snprintf(fresh, sizeof fresh, "%lu", r->next++);
        rc = renameat(parent, name, r->root_fd, fresh); /* over an empty directory is fine */
    } while (rc < 0 && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR));
    if (rc == 0)
        r->moved = true;
    else
        removal_failed(r, errno);
}

static void remove_entry(struct removal *r, int parent, const char *name, int depth);

static void empty_directory(struct removal *r, DIR *dir, int depth)
{
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_entry(r, dirfd(dir), entry->d_name, depth);
}

/* Goes on after a failure: the rest may still be removed. */
static void remove_entry(struct removal *r, int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return;
    auto_dir *dir = errno == EISDIR || errno == EPERM ? open_to_empty(parent, name) : NULL;
    int why = errno; /* if it was not opened */
    if (dir && depth == TREE_DEPTH_MAX) {
        move_up(r, parent, name);
        return;
    }
    if (dir)
        empty_directory(r, dir, depth + 1);
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        removal_failed(r, dir ? errno : why);
}

int berth_fs_remove_tree_at(int at, const char *path, struct berth_error *err)
{
    if (unlinkat(at, path, 0) == 0 || errno == ENOENT)
        return BERTH_OK;
    auto_dir *dir = errno == EISDIR || errno == EPERM ? open_to_empty(at, path) : NULL;
    if (!dir)
        return berth_fail_errno(err, "Cannot remove %s", path);
    struct removal r = {.root_fd = dirfd(dir)};
    do {
        r.moved = false;
        rewinddir(dir);
        empty_directory(&r, dir, 1);
    } while (r.moved);
    if (!r.first_errno && unlinkat(at, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
        removal_failed(&r, errno);
    errno = r.first_errno;
    return errno ? berth_fail_errno(err, "Cannot remove %s", path) : BERTH_OK;
}

int berth_fs_remove_tree(const char *path, struct berth_error *err)
{
    return berth_fs_remove_tree_at(AT_FDCWD, path, err);
}

int berth_fs_refuse_root(const char *what, const char *path, struct berth_error *err)
{
    auto_free char *copy = strdup(path);
    const char *at = path;
    struct stat st;
    if (!copy)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    while (stat(at, &st) < 0 && errno == ENOENT && strcmp(at, "/") != 0 && strcmp(at, ".") != 0)
        at = dirname(copy);
    if (geteuid() != 0 || stat(at, &st) < 0 || st.st_uid == 0)
        return BERTH_OK; /* another error is reported when the file is opened */
    return berth_fail(err, BERTH_E_DENIED,
                      "The %s %s%s%s belongs to uid %u, and files that root makes there would lock "
                      "that user out. Run berth as that user, for example with setpriv --reuid %u "
                      "--clear-groups.",
                      what, path, at == path ? "" : " would be made, and its directory ",
                      at == path ? "" : at, (unsigned)st.st_uid, (unsigned)st.st_uid);
}

void berth_fs_close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

bool berth_fs_is_within(const char *path, const char *directory)
{
    size_t len = strcmp(directory, "/") == 0 ? 0 : strlen(directory);
    return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

enum berth_fs_flaw berth_fs_find_flaw(const struct stat *st, mode_t type, enum berth_fs_guard guard)
{
    mode_t forbidden = guard == BERTH_FS_TRUSTED ? S_IWGRP | S_IWOTH : S_IRWXG | S_IRWXO;
    bool root_may_own = guard != BERTH_FS_OURS_PRIVATE;
    if ((st->st_mode & S_IFMT) != type)
        return BERTH_FS_WRONG_TYPE;
    if (st->st_uid != geteuid() && !(root_may_own && st->st_uid == 0))
        return BERTH_FS_WRONG_OWNER;
    return st->st_mode & forbidden ? BERTH_FS_WRONG_MODE : BERTH_FS_NO_FLAW;
}
