/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/left_directories.c - see left_directories.h. */
#include "core/sweep/left_directories.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/id.h"
#include "core/lease/lease.h"
#include "core/lease/lease_directory.h"
#include "os/fs.h"

/* Returns whether the lease has ended. The directory of a lease that the ledger does not know
 * stays: the ledger may have been restored from an older copy. */
static bool is_left_over(struct berth *b, struct berth_arena *arena, const char *lease_id)
{
    struct berth_lease *lease;
    struct berth_error err;
    return berth_lease_get(b, arena, lease_id, &lease, &err) == BERTH_OK &&
           (lease->status == BERTH_LEASE_RELEASED || lease->status == BERTH_LEASE_EXPIRED ||
            lease->status == BERTH_LEASE_FAILED);
}

/* Calls `each` for the directories of a directory that are named by the id of a lease. */
static int each_lease(struct berth *b, const char *name,
                      void (*each)(struct berth *b, const char *path, const char *id),
                      struct berth_error *err)
{
    auto_free char *path = NULL;
    int rc = berth_lease_directories(b, name, &path, err);
    auto_dir *dir = rc < 0 ? NULL : opendir(path);
    if (!dir)
        return rc < 0 || errno == ENOENT ? rc : berth_fail_errno(err, "Cannot read %s", path);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char id[BERTH_ID_SIZE]; /* some names have a suffix */
        (void)snprintf(id, sizeof id, "%.*s", (int)sizeof id - 1, entry->d_name);
        if (berth_id_valid(id))
            each(b, path, id);
    }
    return BERTH_OK;
}

static void discard_left_over(struct berth *b, const char *path, const char *id)
{
    auto_arena arena = BERTH_ARENA_INIT;
    (void)path;
    if (is_left_over(b, &arena, id))
        berth_lease_directory_discard(b, id);
}

static void discard_left_state(struct berth *b, const char *path, const char *id)
{
    auto_arena arena = BERTH_ARENA_INIT;
    (void)path;
    if (is_left_over(b, &arena, id))
        berth_lease_workspace_discard(b, id);
}

static void delete_trash(struct berth *b, const char *path, const char *id)
{
    auto_free char *whole = NULL;
    struct berth_error ignored; /* the next sweep tries again */
    (void)b;
    if (asprintf(&whole, "%s/%s", path, id) >= 0)
        (void)berth_fs_remove_tree(whole, &ignored);
}

int berth_left_directories_remove(struct berth *b, struct berth_error *err)
{
    int rc = each_lease(b, "trash", delete_trash, err);
    if (rc == BERTH_OK)
        rc = each_lease(b, "leases", discard_left_over, err);
    return rc < 0 ? rc : each_lease(b, "workspaces", discard_left_state, err);
}
