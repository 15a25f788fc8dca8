/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_diff.c - see workspace_diff.h. */
#include "core/workspace/workspace_diff.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "os/fs.h"
#include "sync/diff.h"

#define FILES_MAX 500                     /* that are compared */
#define FILE_BYTES_MAX ((int64_t)1 << 20) /* larger ones are only named */
#define ALL_BYTES_MAX ((int64_t)16 << 20) /* that are fetched for it */
#define FETCHED "content"

struct diffing {
    const struct berth_workspace_pull *pull;
    struct berth_transport *t;
    int root_fd, scratch_fd;
    struct berth_buf *out;
    bool *cut;
    struct berth_error *err;
};

static bool is_file(const struct berth_entry *e)
{
    return e && e->kind == BERTH_ENTRY_FILE;
}

/* Returns whether a change of the plan is shown: the content of a file that changes at home. A
 * version that is put beside another one is a conflict, which is listed elsewhere. */
static bool is_shown(const struct berth_merge *plan, const struct berth_change *c)
{
    if (c->kind == BERTH_CHANGE_REMOVE)
        return is_file(c->local);
    return c->kind == BERTH_CHANGE_PUT && is_file(c->remote) &&
           !berth_map_get(&plan->beside, c->path);
}

static bool is_small(const struct berth_change *c)
{
    return (!is_file(c->remote) || c->remote->size <= FILE_BYTES_MAX) &&
           (!is_file(c->local) || c->local->size <= FILE_BYTES_MAX);
}

/* Reads a file below a directory. */
static int read_side(int directory_fd, const char *path, struct berth_buf *out,
                     struct berth_error *err)
{
    auto_close int fd =
        berth_fs_open_beneath(directory_fd, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0, err);
    return fd < 0 ? fd : berth_fs_read_all(fd, out, err);
}

static int read_remote(const struct diffing *d, const struct berth_entry *e, struct berth_buf *out)
{
    int rc = d->t->ops->fetch(d->t, e, d->scratch_fd, FETCHED, d->err);
    if (rc == BERTH_OK)
        rc = read_side(d->scratch_fd, FETCHED, out, d->err);
    (void)unlinkat(d->scratch_fd, FETCHED, 0);
    return rc;
}

/* Returns the name of one side of a difference, without secrets; NULL: no memory. */
static const char *diff_label(const struct diffing *d, struct berth_arena *arena, char side,
                              const char *path)
{
    char *label = berth_arena_printf(arena, "%c/%s", side, path);
    if (label && d->pull->hide)
        d->pull->hide(d->pull->hide_ctx, label + 2, strlen(label + 2));
    return label;
}

static int diff_one(const struct diffing *d, const struct berth_change *c)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_buf old = BERTH_BUF_INIT((size_t)FILE_BYTES_MAX + 1),
             now = BERTH_BUF_INIT((size_t)FILE_BYTES_MAX + 1);
    bool had = is_file(c->local), has = c->kind == BERTH_CHANGE_PUT, cut = false;
    const char *before = diff_label(d, &arena, 'a', c->path);
    const char *after = diff_label(d, &arena, 'b', c->path);
    int rc = berth_arena_check(&arena, d->err);
    if (rc == BERTH_OK && had)
        rc = read_side(d->root_fd, c->path, &old, d->err);
    if (rc == BERTH_OK && has)
        rc = read_remote(d, c->remote, &now);
    if (rc == BERTH_OK && d->pull->hide) {
        d->pull->hide(d->pull->hide_ctx, old.data, old.len);
        d->pull->hide(d->pull->hide_ctx, now.data, now.len);
    }
    struct berth_diff_side sides[] = {{had ? before : "/dev/null", old.data, old.len},
                                      {has ? after : "/dev/null", now.data, now.len}};
    size_t room = d->pull->diff_max - d->out->len;
    if (rc == BERTH_OK)
        rc = berth_diff_append(&sides[0], &sides[1], room, d->out, &cut, d->err);
    *d->cut |= cut;
    return rc;
}

/* Chooses the changes that are shown. A pull that only looks has not gathered the new files. */
static int choose(const struct berth_merge *plan, const struct diffing *d,
                  const struct berth_change **chosen, size_t *count)
{
    const struct berth_entry *files[FILES_MAX];
    size_t file_count = 0;
    int64_t bytes = 0;
    *count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct berth_change *c = &plan->changes[i];
        if (!is_shown(plan, c))
            continue;
        int64_t more = is_file(c->remote) ? c->remote->size : 0;
        if (!is_small(c) || *count == FILES_MAX || bytes + more > ALL_BYTES_MAX) {
            *d->cut = true;
            continue;
        }
        bytes += more;
        chosen[(*count)++] = c;
        if (is_file(c->remote))
            files[file_count++] = c->remote;
    }
    return d->pull->dry_run ? d->t->ops->gather(d->t, files, file_count, d->err) : BERTH_OK;
}

int berth_workspace_diff(const struct berth_workspace_pull *pull, const struct berth_merge *plan,
                         struct berth_transport *t, int root_fd, const char *scratch,
                         struct berth_buf *out, bool *cut, struct berth_error *err)
{
    const struct berth_change *chosen[FILES_MAX];
    struct berth_error ignored;
    size_t count = 0;
    *cut = false;
    int rc = berth_fs_remove_tree(scratch, err);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(scratch, S_IRWXU, err);
    if (rc < 0)
        return rc;
    auto_close int scratch_fd = open(scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct diffing d = {pull, t, root_fd, scratch_fd, out, cut, err};
    rc = scratch_fd < 0 ? berth_fail_errno(err, "Cannot open %s", scratch)
                        : choose(plan, &d, chosen, &count);
    for (size_t i = 0; rc == BERTH_OK && i < count; i++) {
        if (out->len < pull->diff_max)
            rc = diff_one(&d, chosen[i]);
        else
            *cut = true;
    }
    (void)berth_fs_remove_tree(scratch, &ignored);
    return rc;
}
