/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_branch.c - see workspace_branch.h. */
#include "core/workspace/workspace_branch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "os/fs.h"

#define TEXT_BYTES_MAX ((size_t)256 << 20)
#define FILTERS_MAX 64 /* settings of filters in the user's config */
#define IDENTITY_MAX 6

/* Variables for git in a worktree. */
struct branch_variables {
    const char *items[2 * FILTERS_MAX + IDENTITY_MAX + 2];
    int count;
};

static struct berth_git git_in(const struct berth_git_trip *trip, const char *directory)
{
    return (struct berth_git){
        .engine = trip->site->engine, .directory = directory, .cancel_fd = trip->cancel_fd};
}

/* Switches the filters off that the config names: checking out or adding files would run them. */
static int add_filters(struct berth_git_trip *trip, struct branch_variables *v,
                       struct berth_error *err)
{
    struct berth_git git = git_in(trip, trip->state->repository);
    auto_buf names = BERTH_BUF_INIT(65536);
    int filters = 0;
    int rc = BERTH_GIT(&git, &names, err, "config", "-z", "--name-only", "--get-regexp",
                       "^filter\\..*\\.(clean|smudge|process|required)$");
    if (rc == BERTH_E_UPSTREAM) /* there are none */
        return BERTH_OK;
    const char *end = rc == BERTH_OK && names.len ? names.data + names.len : NULL;
    for (const char *name = names.data; end && name < end; name += strlen(name) + 1) {
        if (filters == FILTERS_MAX)
            return berth_fail(err, BERTH_E_UNPROCESSABLE,
                              "The config of git has more than %d settings of filters.",
                              FILTERS_MAX);
        bool required = strcmp(strrchr(name, '.'), ".required") == 0;
        v->items[v->count++] =
            berth_arena_printf(trip->arena, "GIT_CONFIG_KEY_%d=%s", filters, name);
        v->items[v->count++] = berth_arena_printf(trip->arena, "GIT_CONFIG_VALUE_%d=%s", filters++,
                                                  required ? "false" : "");
    }
    v->items[v->count++] = berth_arena_printf(trip->arena, "GIT_CONFIG_COUNT=%d", filters);
    return rc < 0 ? rc : berth_arena_check(trip->arena, err);
}

/* Names an author for commits, if git does not know one. */
static void add_identity(struct berth_git_trip *trip, struct branch_variables *v)
{
    struct berth_git git = git_in(trip, trip->state->repository);
    struct berth_error ignored;
    if (BERTH_GIT(&git, NULL, &ignored, "var", "GIT_COMMITTER_IDENT") == BERTH_OK &&
        BERTH_GIT(&git, NULL, &ignored, "config", "user.email") == BERTH_OK)
        return;
    v->items[v->count++] = "GIT_AUTHOR_NAME=berth";
    v->items[v->count++] = "GIT_AUTHOR_EMAIL=berth";
    v->items[v->count++] = "GIT_COMMITTER_NAME=berth";
    v->items[v->count++] = "GIT_COMMITTER_EMAIL=berth";
}

/* --- making the worktree --- */

/* Checks that the directory can have branches. *start is the commit that is checked out. */
static int check_repository(struct berth_git_trip *trip, const char **start,
                            struct berth_error *err)
{
    const struct berth_workspace_state *s = trip->state;
    struct berth_git git = git_in(trip, s->repository);
    struct berth_error why;
    auto_buf out = BERTH_BUF_INIT(65536);
    const char *ref = berth_arena_printf(trip->arena, "refs/heads/%s", s->branch);
    if (!ref)
        return berth_arena_check(trip->arena, err);
    if (!berth_git_ref_valid(ref, "refs/heads/"))
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "\"%.200s\" cannot be the name of a branch: git does not allow it.",
                          s->branch);
    int rc = BERTH_GIT(&git, &out, err, "rev-parse", "--show-toplevel");
    if (rc == BERTH_E_UPSTREAM)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "%.300s is not a git repository, so there is no branch to work on.",
                          s->repository);
    if (rc < 0)
        return rc;
    if (strcmp(berth_buf_str(&out), s->repository) != 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "%.300s is a part of the repository %.300s. Name that one to work on a "
                          "branch.",
                          s->repository, berth_buf_str(&out));
    rc = BERTH_GIT(&git, &out, &why, "rev-parse", "--quiet", "--verify", "HEAD^{commit}");
    if (rc < 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "The repository %.300s has no commit yet, so it cannot have branches.",
                          s->repository);
    *start = berth_arena_strdup(&trip->state->arena, berth_buf_str(&out));
    return berth_arena_check(&trip->state->arena, err);
}

/* Sets *start to the commit of the branch. *there is false when there is no such branch. */
static int find_branch(struct berth_git_trip *trip, const char **start, bool *there,
                       struct berth_error *err)
{
    struct berth_git git = git_in(trip, trip->state->repository);
    auto_buf out = BERTH_BUF_INIT(4096);
    const char *ref =
        berth_arena_printf(trip->arena, "refs/heads/%s^{commit}", trip->state->branch);
    if (!ref)
        return berth_arena_check(trip->arena, err);
    int rc = BERTH_GIT(&git, &out, err, "rev-parse", "--quiet", "--verify", ref);
    *there = rc == BERTH_OK;
    if (rc == BERTH_OK)
        *start = berth_arena_strdup(&trip->state->arena, berth_buf_str(&out));
    if (rc == BERTH_E_UPSTREAM)
        return BERTH_OK;
    return rc < 0 ? rc : berth_arena_check(&trip->state->arena, err);
}

static int add_worktree(struct berth_git_trip *trip, bool fresh, struct berth_error *err)
{
    const struct berth_workspace_state *s = trip->state;
    struct branch_variables v = {0};
    struct berth_git git = git_in(trip, s->repository);
    struct berth_error why, ignored;
    int rc = add_filters(trip, &v, err);
    git.env = v.items;
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(trip->site->states, S_IRWXU, err);
    if (rc < 0)
        return rc;
    /* In two steps, so that each can be repeated when git meets the files of a worktree that
     * another process makes or removes. */
    if (fresh)
        rc = BERTH_GIT(&git, NULL, &why, "branch", "-q", "--no-track", s->branch, s->branch_start);
    bool made = fresh && rc == BERTH_OK;
    if (rc == BERTH_OK)
        rc = BERTH_GIT(&git, NULL, &why, "worktree", "add", "-q", s->path, s->branch);
    if (rc < 0 && made)
        (void)BERTH_GIT(&git, NULL, &ignored, "update-ref", "-d",
                        berth_arena_printf(trip->arena, "refs/heads/%s", s->branch),
                        s->branch_start);
    if (rc == BERTH_E_UPSTREAM)
        return berth_fail(err, BERTH_E_CONFLICT, "Cannot make a worktree for the branch %.100s: %s",
                          s->branch, why.message);
    if (rc < 0)
        *err = why;
    return rc;
}

int berth_workspace_branch_begin(struct berth_git_trip *trip, const char **note,
                                 struct berth_error *err)
{
    struct berth_workspace_state *s = trip->state;
    struct berth_git git = git_in(trip, s->repository);
    auto_buf changes = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    bool there = false;
    *note = NULL;
    berth_workspace_branch_close(trip);
    int rc = check_repository(trip, &s->branch_start, err);
    if (rc == BERTH_OK)
        rc = find_branch(trip, &s->branch_start, &there, err);
    if (rc == BERTH_OK)
        rc = BERTH_GIT(&git, &changes, err, "status", "--porcelain", "--no-renames",
                       "--ignore-submodules");
    if (rc == BERTH_OK)
        rc = add_worktree(trip, !there, err);
    s->branch_made = rc == BERTH_OK && !there;
    if (rc == BERTH_OK && changes.len)
        *note =
            "Changes here that are not committed did not travel: the branch begins at a commit.";
    return rc;
}

void berth_workspace_branch_undo(struct berth_git_trip *trip)
{
    const struct berth_workspace_state *s = trip->state;
    struct berth_git git = git_in(trip, s->repository);
    struct berth_error ignored; /* a branch that stays does no harm */
    const char *ref = berth_arena_printf(trip->arena, "refs/heads/%s", s->branch);
    berth_workspace_branch_close(trip);
    git.cancel_fd = -1;
    if (s->branch_made && ref)
        (void)BERTH_GIT(&git, NULL, &ignored, "update-ref", "-d", ref, s->branch_start);
}

int berth_workspace_branch_reopen(struct berth_git_trip *trip, bool *made, struct berth_error *err)
{
    *made = access(trip->state->path, F_OK) < 0;
    return *made ? add_worktree(trip, false, err) : BERTH_OK;
}

/* --- when the work is home --- */

/* Returns CONFLICT when the directory of a submodule has files: a commit cannot hold them. */
static int refuse_submodule_files(struct berth_git_trip *trip, struct berth_error *err)
{
    struct berth_git git = git_in(trip, trip->state->path);
    auto_buf listed = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    int rc = BERTH_GIT(&git, &listed, err, "ls-files", "-z", "--stage");
    const char *end = rc == BERTH_OK && listed.len ? listed.data + listed.len : NULL;
    for (const char *row = listed.data; end && row < end; row += strlen(row) + 1) {
        const char *name = strchr(row, '\t');
        if (strncmp(row, "160000 ", 7) != 0 || !name)
            continue;
        const char *path = berth_arena_printf(trip->arena, "%s/%s", trip->state->path, name + 1);
        if (path && rmdir(path) < 0 && errno != ENOENT)
            return berth_fail(err, BERTH_E_CONFLICT,
                              "The work is on the branch %.100s, but files in the submodule %.200s "
                              "cannot be committed there. Copy them from %.500s, then give the "
                              "place up with \"berth lease destroy %s --discard-work\".",
                              trip->state->branch, name + 1, path, trip->lease_id);
    }
    return rc < 0 ? rc : berth_arena_check(trip->arena, err);
}

/* Commits all files of the worktree. The rules have decided already what came home, so that files
 * which git ignores are added, too. */
static int commit_rest(struct berth_git_trip *trip, struct berth_error *err)
{
    struct branch_variables v = {0};
    struct berth_git git = git_in(trip, trip->state->path);
    auto_buf changes = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    const char *message =
        berth_arena_printf(trip->arena, "Work of berth run %s", trip->state->label);
    int rc = message ? add_filters(trip, &v, err) : berth_arena_check(trip->arena, err);
    if (rc < 0)
        return rc;
    add_identity(trip, &v);
    git.env = v.items;
    rc = BERTH_GIT(&git, NULL, err, "add", "--all", "--force", "--", ".", ":(exclude).berth",
                   ":(exclude).paperclip-runtime");
    if (rc == BERTH_OK)
        rc = BERTH_GIT(&git, &changes, err, "diff-index", "--cached", "--name-only",
                       "--ignore-submodules", "HEAD");
    return rc < 0 || !changes.len
               ? rc
               : BERTH_GIT(&git, NULL, err, "commit", "-q", "--no-verify", "-m", message);
}

static int count_commits(struct berth_git_trip *trip, struct berth_branch_return *out,
                         struct berth_error *err)
{
    struct berth_git git = git_in(trip, trip->state->path);
    auto_buf text = BERTH_BUF_INIT(4096);
    const char *range = berth_arena_printf(trip->arena, "%s..HEAD", trip->state->branch_start);
    int rc = range ? BERTH_GIT(&git, &text, err, "rev-list", "--count", range)
                   : berth_arena_check(trip->arena, err);
    if (rc < 0)
        return rc;
    out->commits = strtoll(berth_buf_str(&text), NULL, 10);
    rc = BERTH_GIT(&git, &text, err, "rev-parse", "HEAD");
    if (rc == BERTH_OK)
        out->head = berth_arena_strdup(&trip->state->arena, berth_buf_str(&text));
    return rc < 0 ? rc : berth_arena_check(&trip->state->arena, err);
}

int berth_workspace_branch_commit(struct berth_git_trip *trip, struct berth_branch_return *out,
                                  struct berth_error *err)
{
    *out = (struct berth_branch_return){0};
    int rc = commit_rest(trip, err);
    if (rc == BERTH_OK)
        rc = refuse_submodule_files(trip, err);
    return rc < 0 ? rc : count_commits(trip, out, err);
}

void berth_workspace_branch_close(struct berth_git_trip *trip)
{
    const struct berth_workspace_state *s = trip->state;
    struct berth_git git = git_in(trip, s->repository);
    struct berth_error ignored;
    git.cancel_fd = -1; /* also after the caller has given up */
    if (access(s->path, F_OK) < 0 ||
        BERTH_GIT(&git, NULL, &ignored, "worktree", "remove", "--force", s->path) == BERTH_OK)
        return;
    (void)berth_fs_remove_tree(s->path, &ignored);
    (void)BERTH_GIT(&git, NULL, &ignored, "worktree", "prune");
}

void berth_workspace_branch_json(const struct berth_workspace_state *state,
                                 const struct berth_branch_return *r, struct berth_json_writer *w)
{
    berth_json_open_in(w, "branch", '{');
    berth_json_put_foreign(w, "name", state->branch);
    berth_json_put_str(w, "head", r->head);
    berth_json_put_int(w, "commits", r->commits);
    berth_json_close(w, '}');
}
