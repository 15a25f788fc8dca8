/* SPDX-License-Identifier: Apache-2.0
 * src/os/root.c - see root.h. All sources are opened as detached mounts first, so that the new root
 * can be put together on top of a directory of the old one. The system calls are made by number,
 * because the C library may be older than they are. */
#include "os/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "os/fs.h"

#define BASE "/usr" /* the new root is mounted on this directory, which every machine has */
#define DIRECTORY (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define UMOUNT_DETACH 2 /* MNT_DETACH; <sys/mount.h> does not go with <linux/mount.h> */

#ifndef MOUNT_ATTR_RDONLY
#error "the kernel's headers must be of Linux 5.12 or later"
#endif

static int compare_mounts(const void *a, const void *b)
{
    const struct berth_mount *one = a, *two = b;
    return strcmp(one->target, two->target);
}

void berth_root_sort(struct berth_mount *mounts, size_t count)
{
    qsort(mounts, count, sizeof *mounts, compare_mounts);
}

/* Returns false, with what failed and errno in *f. */
static bool root_fail(struct berth_root_failure *f, const char *what, const char *path)
{
    f->number = errno;
    (void)snprintf(f->what, sizeof f->what, "%s %s", what, path);
    return false;
}

static bool mount_memory(const char *path, const char *options)
{
    return syscall(SYS_mount, "berth", path, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

static bool set_attributes(int fd, const char *path, unsigned flags, unsigned long long set)
{
    struct mount_attr attr = {.attr_set = set};
    return syscall(SYS_mount_setattr, fd, path, flags, &attr, sizeof attr) == 0;
}

/* --- sources --- */

static unsigned long long source_attributes(enum berth_mount_kind kind)
{
    switch (kind) {
    case BERTH_MOUNT_WRITE:
        return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    case BERTH_MOUNT_DEVICE:
        return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;
    default:
        return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY;
    }
}

static bool has_source(enum berth_mount_kind kind)
{
    return kind == BERTH_MOUNT_READ || kind == BERTH_MOUNT_SYSTEM || kind == BERTH_MOUNT_WRITE ||
           kind == BERTH_MOUNT_DEVICE || kind == BERTH_MOUNT_PROC;
}

/* Returns a detached mount of what is at the path, or -1. */
static int clone_tree(const char *path, bool follow)
{
    auto_close int fd =
        follow ? open(path, O_PATH | O_CLOEXEC) : berth_fs_open_real(AT_FDCWD, path, O_PATH);
    return fd < 0
               ? -1
               : (int)syscall(SYS_open_tree, fd, "",
                              OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
}

/* Sets *fd to a detached mount of the source, or to -1 when it is left out. */
static bool open_source(const struct berth_mount *m, int *fd, struct berth_root_failure *f)
{
    const char *path = m->source ? m->source : m->target;
    *fd = -1;
    if (!has_source(m->kind))
        return true;
    *fd = clone_tree(path, m->kind == BERTH_MOUNT_SYSTEM);
    if (*fd < 0)
        return (m->optional && errno != EPERM && errno != ENOSYS) || root_fail(f, "open", path);
    return set_attributes(*fd, "", AT_EMPTY_PATH | AT_RECURSIVE, source_attributes(m->kind)) ||
           root_fail(f, "protect", path);
}

/* --- targets --- */

/* Opens a directory of the new root, from the slash at `path` to `end`, and makes what is missing.
 * Links are not followed: the files of an outer mount may belong to the author of the program, and
 * a link there would lead into the old root. */
static int make_directory(int base, const char *path, const char *end)
{
    char name[NAME_MAX + 1];
    int at = fcntl(base, F_DUPFD_CLOEXEC, 0);
    while (at >= 0 && path < end) {
        int len = (int)strcspn(path + 1, "/");
        (void)snprintf(name, sizeof name, "%.*s", len, path + 1);
        (void)mkdirat(at, name, 0755); /* where it fails, the directory cannot be opened */
        int inner = openat(at, name, DIRECTORY);
        (void)close(at);
        at = inner;
        path += 1 + len;
    }
    return at;
}

/* Attaches a source, on a new directory or an empty file unless there is one. */
static bool attach(int parent, const char *name, int source)
{
    struct stat st;
    if (fstat(source, &st) < 0)
        return false;
    if (S_ISDIR(st.st_mode)) {
        (void)mkdirat(parent, name, 0755);
    } else {
        int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        if (fd >= 0)
            (void)close(fd);
    }
    return syscall(SYS_move_mount, source, "", parent, name, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

static bool write_text(int parent, const char *name, const char *text)
{
    auto_close int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool mount_proc(const char *path)
{
    return syscall(SYS_mount, "proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

/* Makes a directory the working directory: mount(2) follows the links of every path but ".". */
static bool enter_directory(int parent, const char *name)
{
    (void)mkdirat(parent, name, 0755);
    auto_close int fd = openat(parent, name, DIRECTORY);
    return fd >= 0 && fchdir(fd) == 0;
}

static bool cover(int base, const char *target)
{
    auto_close int fd = berth_fs_open_real(base, target + 1, DIRECTORY);
    if (fd < 0)
        return true; /* nothing is there: nothing needs to be hidden */
    return fchdir(fd) == 0 && mount_memory(".", "mode=0755");
}

static bool place_mount(const struct berth_mount *m, int source, int base)
{
    const char *name = strrchr(m->target, '/') + 1;
    if (m->kind == BERTH_MOUNT_COVER)
        return cover(base, m->target);
    if (has_source(m->kind) && source < 0)
        return true;
    auto_close int parent = make_directory(base, m->target, name - 1);
    if (parent < 0)
        return false;
    switch (m->kind) {
    case BERTH_MOUNT_PROC:
        return (enter_directory(parent, name) && mount_proc(".")) || attach(parent, name, source);
    case BERTH_MOUNT_SCRATCH:
        return enter_directory(parent, name) && mount_memory(".", BERTH_ROOT_SCRATCH_OPTIONS);
    case BERTH_MOUNT_TEXT:
        return write_text(parent, name, m->text);
    case BERTH_MOUNT_LINK:
        return symlinkat(m->text, parent, name) == 0;
    default:
        return attach(parent, name, source);
    }
}

/* Makes everything read-only that was writable only for building. */
static bool protect_memory(const struct berth_root *root, int base)
{
    bool ok = set_attributes(base, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
    for (size_t i = 0; ok && i < root->count; i++) {
        if (root->mounts[i].kind != BERTH_MOUNT_COVER)
            continue;
        auto_close int fd = berth_fs_open_real(base, root->mounts[i].target + 1, DIRECTORY);
        ok = fd < 0 || set_attributes(fd, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY) || errno == EINVAL;
    }
    return ok;
}

/* Makes BASE the root, and lets go of the old one. */
static bool change_root(void)
{
    return chdir(BASE) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
           syscall(SYS_umount2, ".", UMOUNT_DETACH) == 0 && chdir("/") == 0;
}

/* Puts the new root together on BASE. */
static bool build_root(const struct berth_root *root, const int *sources,
                       struct berth_root_failure *f)
{
    auto_close int base = mount_memory(BASE, "mode=0755") ? open(BASE, DIRECTORY) : -1;
    if (base < 0)
        return root_fail(f, "mount", "a root directory in memory");
    for (size_t i = 0; i < root->count; i++) {
        if (!place_mount(&root->mounts[i], sources[i], base))
            return root_fail(f, "mount", root->mounts[i].target);
        if (sources[i] >= 0)
            (void)close(sources[i]);
    }
    return protect_memory(root, base) || root_fail(f, "protect", "the new root");
}

bool berth_root_enter(const struct berth_root *root, struct berth_root_failure *f)
{
    int sources[BERTH_ROOT_MOUNTS_MAX];
    mode_t mask = umask(0);
    errno = E2BIG;
    if (root->count > BERTH_ROOT_MOUNTS_MAX)
        return root_fail(f, "list", "of mounts");
    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return root_fail(f, "separate", "/");
    for (size_t i = 0; i < root->count; i++)
        if (!open_source(&root->mounts[i], &sources[i], f))
            return false;
    if (!build_root(root, sources, f))
        return false;
    (void)umask(mask);
    return change_root() || root_fail(f, "enter", "the new root");
}

enum berth_root_ability berth_root_try(void)
{
    struct mount_attr none = {0};
    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        !mount_memory(BASE, "mode=0755") || mkdir(BASE "/proc", 0755) < 0 ||
        syscall(SYS_mount_setattr, AT_FDCWD, BASE, 0, &none, sizeof none) < 0)
        return BERTH_ROOT_NONE;
    return mount_proc(BASE "/proc") ? BERTH_ROOT_COMPLETE : BERTH_ROOT_FOREIGN;
}
