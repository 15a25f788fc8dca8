/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_directory.c - see lease_directory.h. A directory that is to go is first
 * renamed to trash/STORE/ID. */
#include "core/lease/lease_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "core/paths.h"
#include "os/fs.h"
#include "os/pool.h"
#include "store/store.h"

/* Other stores may be in the same directory, and a copy of a store has the same id and leases: so
 * the name has the name of the store's file in it, too. */
int berth_lease_directories(const struct berth *b, const char *name, char **out,
                            struct berth_error *err)
{
    auto_free char *all = NULL;
    const char *where = berth_store_where(b->store), *slash = strrchr(where, '/');
    const char *file = berth_store_shared(b->store) ? "" : slash ? slash + 1 : where;
    int rc = berth_directory(b, name, &all, err);
    if (rc < 0)
        return rc;
    int len = asprintf(out, "%s/%s%s%s", all, file, *file ? "." : "", b->store_id);
    return len < 0 ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.") : BERTH_OK;
}

int berth_lease_directory(const struct berth *b, struct berth_arena *arena, const char *lease_id,
                          const char **out, struct berth_error *err)
{
    auto_free char *leases = NULL;
    int rc = berth_lease_directories(b, "leases", &leases, err);
    if (rc < 0)
        return rc;
    *out = berth_arena_printf(arena, "%s/%s", leases, lease_id);
    return berth_arena_check(arena, err);
}

/* --- removing --- */

static void delete_job(void *ctx)
{
    auto_free char *path = ctx;
    struct berth_error ignored; /* the sweep tries again */
    (void)berth_fs_remove_tree(path, &ignored);
}

/* Moves the directory of a lease to the trash. Returns the new path, which the caller frees, or
 * NULL. */
static char *move_to_trash(const struct berth *b, const char *lease_id)
{
    auto_free char *leases = NULL, *trash = NULL, *from = NULL;
    char *to = NULL;
    struct berth_error ignored;
    if (berth_lease_directories(b, "leases", &leases, &ignored) < 0 ||
        asprintf(&from, "%s/%s", leases, lease_id) < 0 || access(from, F_OK) < 0)
        return NULL; /* most leases have none */
    if (berth_lease_directories(b, "trash", &trash, &ignored) < 0 ||
        berth_fs_mkdirs(trash, S_IRWXU, &ignored) < 0 ||
        asprintf(&to, "%s/%s", trash, lease_id) < 0)
        return NULL;
    if (rename(from, to) == 0)
        return to;
    free(to);
    return NULL;
}

void berth_lease_directory_discard(struct berth *b, const char *lease_id)
{
    struct berth_error ignored;
    char *path = move_to_trash(b, lease_id);
    if (path && berth_pool_submit(b->pool, delete_job, path, &ignored) < 0)
        free(path); /* the sweep deletes it */
}

/* Returns the first line of a small file without what it has to begin with, which the caller frees;
 * NULL: it is another kind of file. */
static char *read_pointer(const char *directory, const char *name, const char *beginning)
{
    auto_buf text = BERTH_BUF_INIT(PATH_MAX + 16);
    auto_free char *path = NULL;
    struct berth_error ignored;
    if (asprintf(&path, "%s/%s", directory, name) < 0)
        return NULL;
    auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    size_t skip = strlen(beginning);
    if (fd < 0 || berth_fs_read_all(fd, &text, &ignored) < 0 || text.len <= skip ||
        strncmp(berth_buf_str(&text), beginning, skip) != 0)
        return NULL;
    return strndup(text.data + skip, strcspn(text.data + skip, "\n"));
}

/* Removes what a repository knows of a worktree that is to go: git would not check out its branch
 * elsewhere otherwise. Both name each other by a file, TREE/.git and ADMIN/gitdir. */
static void forget_worktree(const char *tree)
{
    struct berth_error ignored; /* "git worktree prune" does it later */
    auto_free char *admin = read_pointer(tree, ".git", "gitdir: ");
    auto_free char *back = admin ? read_pointer(admin, "gitdir", tree) : NULL;
    if (back && strcmp(back, "/.git") == 0)
        (void)berth_fs_remove_tree(admin, &ignored);
}

void berth_lease_workspace_remove(const char *workspaces, const char *lease_id)
{
    static const char *const suffixes[] = {"",
                                           ".new",
                                           ".lists-a",
                                           ".lists-a.new",
                                           ".lists-b",
                                           ".lists-b.new",
                                           ".blobs",
                                           ".asset",
                                           ".git",
                                           ".diff",
                                           BERTH_LEASE_WORKTREE_SUFFIX};
    struct berth_error ignored; /* the next sweep or command tries again */
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        auto_free char *path = NULL;
        if (asprintf(&path, "%s/%s%s", workspaces, lease_id, suffixes[i]) < 0)
            return;
        if (strcmp(suffixes[i], BERTH_LEASE_WORKTREE_SUFFIX) == 0)
            forget_worktree(path);
        if (unlink(path) < 0 && errno == EISDIR)
            (void)berth_fs_remove_tree(path, &ignored);
        else if (i == 0 && access(workspaces, F_OK) < 0)
            return; /* no workspace was ever sent from here */
    }
}

void berth_lease_workspace_discard(struct berth *b, const char *lease_id)
{
    auto_free char *workspaces = NULL;
    struct berth_error ignored; /* the sweep tries again */
    if (berth_lease_directories(b, "workspaces", &workspaces, &ignored) == BERTH_OK)
        berth_lease_workspace_remove(workspaces, lease_id);
}
