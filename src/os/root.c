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

#include "base/limits.h"

#define BASE "/usr" /* the new root is mounted on this directory, which every machine has */
#define PATH_SIZE (PATH_MAX + sizeof BASE)
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
    return kind == BERTH_MOUNT_READ || kind == BERTH_MOUNT_WRITE || kind == BERTH_MOUNT_DEVICE ||
           kind == BERTH_MOUNT_PROC;
}

/* Sets *fd to a detached mount of the source, or to -1 when it is left out. */
static bool open_source(const struct berth_mount *m, int *fd, struct berth_root_failure *f)
{
    const char *path = m->source ? m->source : m->target;
    *fd = -1;
    if (!has_source(m->kind))
        return true;
    *fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (*fd < 0)
        return (m->optional && errno != EPERM && errno != ENOSYS) || root_fail(f, "open", path);
    return set_attributes(*fd, "", AT_EMPTY_PATH | AT_RECURSIVE, source_attributes(m->kind)) ||
           root_fail(f, "protect", path);
}

/* --- targets --- */

/* Makes the directories above the path, and the last one, too, if `whole`. */
static bool make_directories(char *path, bool whole)
{
    for (char *slash = strchr(path + sizeof BASE, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = mkdir(path, 0755);
        *slash = '/';
        if (rc < 0 && errno != EEXIST && errno != EROFS)
            return false;
    }
    return !whole || mkdir(path, 0755) == 0 || errno == EEXIST || errno == EROFS;
}

/* Makes the directory or the empty file that a source is mounted on. */
static bool make_point(char *path, int source)
{
    struct stat st;
    if (fstat(source, &st) < 0 || !make_directories(path, S_ISDIR(st.st_mode)))
        return false;
    int fd = S_ISDIR(st.st_mode) || access(path, F_OK) == 0
                 ? 0
                 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd > 0)
        (void)close(fd);
    return fd >= 0;
}

static bool attach(char *path, int source)
{
    return make_point(path, source) &&
           syscall(SYS_move_mount, source, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

static bool write_text(char *path, const char *text)
{
    if (!make_directories(path, false))
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    ssize_t wrote = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0)
        (void)close(fd);
    return wrote == (ssize_t)strlen(text);
}

static bool mount_proc(const char *path)
{
    return syscall(SYS_mount, "proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

static bool place_mount(const struct berth_mount *m, int source, char *path)
{
    switch (m->kind) {
    case BERTH_MOUNT_READ:
    case BERTH_MOUNT_WRITE:
    case BERTH_MOUNT_DEVICE:
        return source < 0 || attach(path, source);
    case BERTH_MOUNT_PROC:
        return make_directories(path, true) && (mount_proc(path) || attach(path, source));
    case BERTH_MOUNT_SCRATCH:
        return make_directories(path, true) && mount_memory(path, BERTH_ROOT_SCRATCH_OPTIONS);
    case BERTH_MOUNT_COVER: /* nothing is there: nothing needs to be hidden */
        return access(path, F_OK) < 0 || mount_memory(path, "mode=0755");
    case BERTH_MOUNT_TEXT:
        return write_text(path, m->text);
    case BERTH_MOUNT_LINK:
        return make_directories(path, false) && symlink(m->text, path) == 0;
    }
    return false;
}

/* Makes everything read-only that was writable only for building. */
static bool protect_memory(const struct berth_root *root, char path[PATH_SIZE])
{
    bool ok = set_attributes(AT_FDCWD, BASE, 0, MOUNT_ATTR_RDONLY);
    for (size_t i = 0; ok && i < root->count; i++) {
        (void)snprintf(path, PATH_SIZE, BASE "%s", root->mounts[i].target);
        if (root->mounts[i].kind == BERTH_MOUNT_COVER)
            ok = set_attributes(AT_FDCWD, path, 0, MOUNT_ATTR_RDONLY) || errno == EINVAL ||
                 errno == ENOENT;
    }
    return ok;
}

/* Makes BASE the root, and lets go of the old one. */
static bool change_root(void)
{
    return chdir(BASE) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
           syscall(SYS_umount2, ".", UMOUNT_DETACH) == 0 && chdir("/") == 0;
}

bool berth_root_enter(const struct berth_root *root, struct berth_root_failure *f)
{
    int sources[BERTH_ROOT_MOUNTS_MAX];
    char path[PATH_SIZE];
    mode_t mask = umask(0);
    errno = E2BIG;
    if (root->count > BERTH_ROOT_MOUNTS_MAX)
        return root_fail(f, "list", "of mounts");
    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return root_fail(f, "separate", "/");
    for (size_t i = 0; i < root->count; i++)
        if (!open_source(&root->mounts[i], &sources[i], f))
            return false;
    if (!mount_memory(BASE, "mode=0755"))
        return root_fail(f, "mount", "a root directory in memory");
    for (size_t i = 0; i < root->count; i++) {
        (void)snprintf(path, sizeof path, BASE "%s", root->mounts[i].target);
        if (!place_mount(&root->mounts[i], sources[i], path))
            return root_fail(f, "mount", root->mounts[i].target);
        if (sources[i] >= 0)
            (void)close(sources[i]);
    }
    (void)umask(mask);
    return (protect_memory(root, path) && change_root()) || root_fail(f, "enter", "the new root");
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
