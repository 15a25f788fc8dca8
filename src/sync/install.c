/* SPDX-License-Identifier: Apache-2.0
 * src/sync/install.c - see install.h. */
#include "sync/install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "os/fs.h"
#include "sync/unpack.h"

#define SECOND_NS INT64_C(1000000000)

struct install {
    int root_fd, blobs_fd;
    char fresh[BERTH_ID_SIZE + 16]; /* the name of a file or link until it is complete */
    /* The directory of the last entry, which is often that of the next, too. */
    char above[BERTH_TREE_PATH_BYTES_MAX + 1];
    int above_fd;
};

/* Returns the name of the entry in its directory, and opens that directory as in->above_fd. */
static const char *enter_above(struct install *in, const char *path, struct berth_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (in->above_fd >= 0 && strlen(in->above) == len && memcmp(in->above, path, len) == 0)
        return slash ? slash + 1 : path;
    if (in->above_fd >= 0)
        (void)close(in->above_fd);
    memcpy(in->above, path, len);
    in->above[len] = '\0';
    in->above_fd = berth_fs_open_real(in->root_fd, len ? in->above : ".", O_RDONLY | O_DIRECTORY);
    if (in->above_fd >= 0)
        return slash ? slash + 1 : path;
    if (errno == ELOOP || errno == ENOTDIR)
        (void)berth_fail(err, BERTH_E_CONFLICT, "%.600s is not a directory here.", in->above);
    else
        (void)berth_fail_errno(err, "Cannot open %s", in->above);
    return NULL;
}

static int install_directory(struct install *in, const char *name, const struct berth_entry *e,
                             struct berth_error *err)
{
    struct stat st;
    if (mkdirat(in->above_fd, name, S_IRWXU) == 0)
        return BERTH_OK;
    if (errno != EEXIST)
        return berth_fail_errno(err, "Cannot make %s", e->path);
    if (fstatat(in->above_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return BERTH_OK;
    return berth_fail(err, BERTH_E_CONFLICT, "%.600s is not a directory here.", e->path);
}

static int make_fresh(const struct install *in, const struct berth_entry *e,
                      struct berth_error *err)
{
    struct timespec times[] = {
        {.tv_nsec = UTIME_NOW},
        {e->mtime_ns / SECOND_NS, e->mtime_ns ? e->mtime_ns % SECOND_NS : UTIME_NOW}};
    if (e->kind == BERTH_ENTRY_LINK)
        return symlinkat(e->target, in->above_fd, in->fresh) < 0
                   ? berth_fail_errno(err, "Cannot make %s", e->path)
                   : BERTH_OK;
    int rc = berth_unpack_fetch(in->blobs_fd, e, in->above_fd, in->fresh, err);
    if (rc < 0)
        return rc;
    auto_close int fd =
        openat(in->above_fd, in->fresh, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, e->mode) < 0 || futimens(fd, times) < 0)
        return berth_fail_errno(err, "Cannot set the mode and time of %s", e->path);
    return BERTH_OK;
}

static int install_leaf(struct install *in, const char *name, const struct berth_entry *e,
                        struct berth_error *err)
{
    int rc = make_fresh(in, e, err);
    if (rc == BERTH_OK && renameat(in->above_fd, in->fresh, in->above_fd, name) < 0)
        rc = errno == EISDIR
                 ? berth_fail(err, BERTH_E_CONFLICT, "%.600s is a directory here.", e->path)
                 : berth_fail_errno(err, "Cannot write %s", e->path);
    if (rc < 0)
        (void)unlinkat(in->above_fd, in->fresh, 0);
    return rc;
}

/* Sets the modes of directories, the deepest first: a directory may be closed to its owner. */
static int set_directory_modes(struct install *in, const struct berth_tree_manifest *m,
                               struct berth_error *err)
{
    for (size_t i = m->count; i-- > 0;) {
        const struct berth_entry *e = &m->entries[i];
        if (e->kind != BERTH_ENTRY_DIRECTORY)
            continue;
        const char *name = enter_above(in, e->path, err);
        if (!name)
            return err->code;
        auto_close int fd = berth_fs_open_real(in->above_fd, name, O_RDONLY | O_DIRECTORY);
        if (fd < 0 || fchmod(fd, e->mode) < 0)
            return berth_fail_errno(err, "Cannot set the mode of %s", e->path);
    }
    return BERTH_OK;
}

int berth_tree_install(int root_fd, const struct berth_tree_manifest *m, int blobs_fd,
                       struct berth_error *err)
{
    struct install in = {.root_fd = root_fd, .blobs_fd = blobs_fd, .above_fd = -1};
    struct berth_id id = berth_id_new_random();
    (void)snprintf(in.fresh, sizeof in.fresh, ".berth-new-%s", id.text);
    int rc = berth_tree_manifest_check(m, err);
    for (size_t i = 0; rc == BERTH_OK && i < m->count; i++) {
        const struct berth_entry *e = &m->entries[i];
        const char *name = enter_above(&in, e->path, err);
        if (!name)
            rc = err->code;
        else if (e->kind == BERTH_ENTRY_DIRECTORY)
            rc = install_directory(&in, name, e, err);
        else
            rc = install_leaf(&in, name, e, err);
    }
    if (rc == BERTH_OK)
        rc = set_directory_modes(&in, m, err);
    if (in.above_fd >= 0)
        (void)close(in.above_fd);
    return rc;
}
