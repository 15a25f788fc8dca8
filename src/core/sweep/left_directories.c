/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/left_directories.c - see left_directories.h. */
#include "core/sweep/left_directories.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/id.h"
#include "core/lease/lease.h"
#include "core/lease/lease_directory.h"
#include "core/paths.h"
#include "os/fs.h"

/* The ledger may have been restored from a copy that is older than a directory. */
#define UNKNOWN_SECONDS_MAX (24 * 60 * 60)

/* Returns whether no lease needs the directory any more. */
static bool is_left_over(struct berth *b, struct berth_arena *arena, const char *lease_id,
                         const struct stat *st)
{
    struct berth_lease *lease;
    struct berth_error err;
    int rc = berth_lease_get(b, arena, lease_id, &lease, &err);
    if (rc == BERTH_E_NOT_FOUND)
        return time(NULL) - st->st_mtime > UNKNOWN_SECONDS_MAX;
    return rc == BERTH_OK &&
           (lease->status == BERTH_LEASE_RELEASED || lease->status == BERTH_LEASE_EXPIRED ||
            lease->status == BERTH_LEASE_FAILED);
}

/* Calls `each` for the directories of a directory that are named by the id of a lease. */
static int each_lease(struct berth *b, const char *name,
                      void (*each)(struct berth *b, DIR *dir, const char *path, const char *id),
                      struct berth_error *err)
{
    auto_free char *path = NULL;
    int rc = berth_directory(b, name, &path, err);
    auto_dir *dir = rc < 0 ? NULL : opendir(path);
    if (!dir)
        return rc < 0 || errno == ENOENT ? rc : berth_fail_errno(err, "Cannot read %s", path);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (berth_id_valid(entry->d_name))
            each(b, dir, path, entry->d_name);
    return BERTH_OK;
}

static void discard_left_over(struct berth *b, DIR *dir, const char *path, const char *id)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct stat st;
    (void)path;
    if (fstatat(dirfd(dir), id, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_left_over(b, &arena, id, &st))
        berth_lease_directory_discard(b, id);
}

static void delete_trash(struct berth *b, DIR *dir, const char *path, const char *id)
{
    auto_free char *whole = NULL;
    struct berth_error ignored; /* the next sweep tries again */
    (void)b, (void)dir;
    if (asprintf(&whole, "%s/%s", path, id) >= 0)
        (void)berth_fs_remove_tree(whole, &ignored);
}

int berth_left_directories_remove(struct berth *b, struct berth_error *err)
{
    int rc = each_lease(b, "trash", delete_trash, err);
    return rc < 0 ? rc : each_lease(b, "leases", discard_left_over, err);
}
