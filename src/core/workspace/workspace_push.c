/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_push.c - sends a directory and its repository to the place of a
 * lease. */
#include "core/workspace/workspace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "core/lease/lease.h"
#include "core/lease/lease_directory.h"
#include "core/workspace/transport.h"
#include "core/workspace/workspace_branch.h"
#include "core/workspace/workspace_git.h"
#include "core/workspace/workspace_setup.h"
#include "core/workspace/workspace_state.h"
#include "core/workspace/workspace_trip.h"
#include "sync/tree.h"

#define LABEL_LEN 8 /* digits of an id in the names of remote versions */

static const char *const ignore_files[] = {".gitignore", ".berthignore", NULL};

static int add_excludes(struct berth_ignore *ignore, const char *const *rules,
                        struct berth_error *err)
{
    int rc = BERTH_OK;
    for (; rc == BERTH_OK && rules && *rules; rules++)
        rc = berth_ignore_add_override(ignore, *rules, err);
    return rc;
}

/* Makes the directory that is sent a worktree of the one that was named. */
static int choose_branch(const struct berth_workspace_site *site,
                         const struct berth_workspace_push *push, struct berth_workspace_state *s,
                         struct berth_error *err)
{
    if (push->dry_run)
        return berth_fail(err, BERTH_E_INVALID, "Only a directory can be counted, not a branch.");
    s->repository = s->path;
    s->branch = berth_arena_strdup(&s->arena, push->branch);
    return berth_workspace_state_path(site->states, &s->arena, push->lease_id,
                                      BERTH_LEASE_WORKTREE_SUFFIX, &s->path, err);
}

/* Fills the parts of the state that the request gives. */
static int begin_state(const struct berth_workspace_site *site,
                       const struct berth_workspace_push *push, const char *cwd,
                       struct berth_workspace_state *s, struct berth_error *err)
{
    struct berth_id token = berth_id_new_random();
    auto_free char *path = realpath(push->path, NULL);
    if (!path)
        return berth_fail_errno(err, "Cannot open the workspace %s", push->path);
    if (strcmp(path, "/") == 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "The workspace / is the whole machine.");
    s->path = berth_arena_strdup(&s->arena, path);
    s->cwd = berth_arena_strdup(&s->arena, cwd);
    s->token = berth_arena_strdup(&s->arena, token.text);
    s->label = berth_arena_copy(&s->arena, push->label ? push->label : push->lease_id, LABEL_LEN);
    s->policy = push->on_conflict;
    s->shared = s->repository = s->branch = s->branch_start = s->recovered = s->warning = s->lists =
        "";
    int rc = berth_arena_check(&s->arena, err);
    if (rc == BERTH_OK && push->branch)
        rc = choose_branch(site, push, s, err); /* only what is committed travels */
    else if (rc == BERTH_OK)
        rc = berth_workspace_refuse_data(site, path, err);
    if (rc == BERTH_OK)
        rc = berth_ignore_new(&s->ignore, err);
    return rc < 0 ? rc : add_excludes(s->ignore, push->exclude, err);
}

/* The state of the last push or pull, whose lists vouch for files. A thread reads it. */
struct earlier {
    const struct berth_git_trip *trip;
    struct berth_workspace_state state; /* empty: there is none, or it is about other directories */
    char lists[BERTH_ID_SIZE + 1];      /* of the stored state, whatever it is about */
};

static void *earlier_load(void *ctx)
{
    struct earlier *e = ctx;
    const struct berth_workspace_state *s = e->trip->state;
    struct berth_error ignored; /* without it, all files are read */
    bool found = berth_workspace_state_load(e->trip->site->states, e->trip->lease_id, &e->state,
                                            &ignored) == BERTH_OK;
    (void)snprintf(e->lists, sizeof e->lists, "%s", found ? e->state.lists : "");
    if (!found || strcmp(e->state.path, s->path) != 0 || strcmp(e->state.cwd, s->cwd) != 0)
        berth_workspace_state_clear(&e->state);
    return NULL;
}

/* Lists the directory at home into the state, while a thread reads the earlier one. */
static int list_sent(struct earlier *e, int root_fd, struct berth_error *err)
{
    struct berth_workspace_state *s = e->trip->state;
    struct berth_tree_options options = {.ignore = s->ignore,
                                         .ignore_files = ignore_files,
                                         .cancel_fd = e->trip->cancel_fd,
                                         .leave_mounts = true};
    pthread_t thread;
    bool threaded = pthread_create(&thread, NULL, earlier_load, e) == 0;
    if (!threaded)
        (void)earlier_load(e);
    int rc = berth_tree_list(root_fd, &options, &s->base, err);
    if (threaded)
        (void)pthread_join(thread, NULL);
    return rc;
}

/* Notes whether the stored lists are still right: then they need not be written again. A list that
 * had to read files is written, so that the next one need not. */
static void compare_lists(struct berth_workspace_state *s, const struct earlier *e,
                          const struct berth_tree_manifest *there)
{
    s->lists = berth_arena_strdup(&s->arena, e->lists);
    s->lists_kept = s->lists && e->state.path && !s->base.files_read && !there->files_read &&
                    berth_tree_manifest_same(&s->base, &e->state.base) &&
                    berth_tree_manifest_same(&s->copy, &e->state.copy);
}

/* Makes the place like the directory at home, which is listed. *fresh: the place was empty before.
 */
static int send_list(struct berth_transport *t, int root_fd, struct berth_workspace_state *s,
                     const struct earlier *e, bool *fresh, struct berth_error *err)
{
    const struct berth_workspace_state *earlier = &e->state;
    auto_tree_manifest there = {0};
    int rc = t->ops->list(t, NULL, s->ignore, &earlier->copy, &there, err);
    if (rc == BERTH_OK && there.count)
        rc = berth_tree_hash(root_fd, &s->base,
                             berth_tree_can_vouch(root_fd) ? &earlier->base : NULL, t->cancel_fd,
                             err);
    *fresh = !there.count;
    if (rc == BERTH_OK)
        rc = t->ops->send(t, root_fd, &s->base, &there, s->token, &s->copy, err);
    if (rc == BERTH_OK)
        compare_lists(s, e, &there);
    return rc < 0 ? rc : berth_arena_check(&s->arena, err);
}

/* Adds to the warning of the state that directories stay here. */
static int warn_of_mounts(struct berth_workspace_state *s, struct berth_error *err)
{
    if (s->base.mounts)
        s->warning = berth_arena_printf(&s->arena,
                                        "%s%sSomething is mounted on %.400s%s: that is not sent, "
                                        "and nothing comes home into it.",
                                        s->warning, *s->warning ? " " : "", s->base.mount_path,
                                        s->base.mounts > 1 ? " and on other directories" : "");
    return berth_arena_check(&s->arena, err);
}

/* Lists the directory at home into the state, and makes the place like it. */
static int send_tree(const struct berth_git_trip *trip, struct berth_transport *t, int root_fd,
                     bool *fresh, struct berth_error *err)
{
    struct earlier earlier = {.trip = trip};
    int rc = list_sent(&earlier, root_fd, err);
    if (rc == BERTH_OK)
        rc = warn_of_mounts(trip->state, err);
    if (rc == BERTH_OK)
        rc = send_list(t, root_fd, trip->state, &earlier, fresh, err);
    berth_workspace_state_clear(&earlier.state);
    return rc;
}

static int refuse_second_push(struct berth_workspace_site *site, const char *lease_id,
                              struct berth_error *err)
{
    bool has_work;
    int rc = site->ops->look(site, lease_id, &has_work, err);
    if (rc == BERTH_OK && has_work)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "The place of lease %s holds work that did not come home. Fetch it with "
                        "\"berth workspace pull %s\" first.",
                        lease_id, lease_id);
    return rc;
}

/* Stores in the state what was found, for the report when the work comes home. */
static int keep_findings(struct berth_workspace_state *s,
                         const struct berth_workspace_report *report, struct berth_error *err)
{
    const struct berth_list *list = &report->shared_with;
    s->shared = "";
    for (int i = 0; i < list->count && s->shared; i++)
        s->shared =
            berth_arena_printf(&s->arena, "%s%s\n", s->shared, (const char *)list->items[i]);
    if (report->recovered)
        s->recovered = berth_arena_printf(&s->arena, "%zu", report->recovered);
    return berth_arena_check(&s->arena, err);
}

static void fill_report(const struct berth_workspace_state *s, struct berth_arena *arena,
                        struct berth_workspace_report *out)
{
    out->skipped = s->base.skipped;
    out->bytes = s->base.bytes;
    out->note = s->git.note && *s->git.note ? berth_arena_strdup(arena, s->git.note) : NULL;
    out->warning = *s->warning ? berth_arena_strdup(arena, s->warning) : NULL;
    for (size_t i = 0; i < s->base.count; i++)
        out->files += s->base.entries[i].kind != BERTH_ENTRY_DIRECTORY;
}

/* Counts what a push would send. */
static int measure(struct berth_git_trip *trip, int root_fd, struct berth_workspace_report *out,
                   struct berth_error *err)
{
    struct berth_workspace_state *s = trip->state;
    struct berth_tree_options options = {.ignore = s->ignore,
                                         .ignore_files = ignore_files,
                                         .cancel_fd = trip->cancel_fd,
                                         .leave_mounts = true};
    berth_workspace_git_forget_scratch(trip);
    int rc = berth_tree_list(root_fd, &options, &s->base, err);
    if (rc == BERTH_OK)
        rc = warn_of_mounts(s, err);
    if (rc == BERTH_OK)
        fill_report(s, trip->arena, out);
    return rc;
}

/* Sends the directory, which is locked, and its repository. */
static int push_root(struct berth_git_trip *trip, const struct berth_workspace_push *push,
                     int root_fd, struct berth_workspace_report *out, struct berth_error *err)
{
    auto_transport *t = NULL;
    struct berth_workspace_watch watched;
    bool fresh = false;
    int rc = berth_workspace_find_sharers(trip, &out->shared_with, err);
    if (rc == BERTH_OK)
        rc = keep_findings(trip->state, out, err);
    if (rc == BERTH_OK)
        rc = berth_transport_open(trip, NULL, &t, err);
    if (t)
        t->progress = berth_workspace_watch(&watched, push->on_progress, push->ctx, false);
    if (rc == BERTH_OK)
        rc = trip->site->ops->mark(trip->site, trip->lease_id, BERTH_WORK_SENDING, err);
    if (rc == BERTH_OK)
        rc = send_tree(trip, t, root_fd, &fresh, err);
    return rc < 0 ? rc : berth_workspace_git_send(trip, fresh, err);
}

/* Stores what is needed to bring the work home, and marks the lease. */
static int push_record(struct berth_git_trip *trip, struct berth_error *err)
{
    BERTH_FAILPOINT(workspace_after_send);
    int rc = berth_workspace_state_save(trip->site->states, trip->lease_id, trip->state, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(workspace_after_state);
    rc = trip->site->ops->mark(trip->site, trip->lease_id, BERTH_WORK_AWAY, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(workspace_after_mark);
    return rc;
}

static int push_state(struct berth_git_trip *trip, const struct berth_workspace_push *push,
                      struct berth_workspace_report *out, struct berth_error *err)
{
    struct berth_workspace_state *s = trip->state;
    auto_workspace_assets assets = {0};
    auto_close int root_fd = berth_workspace_open_root(trip, s->path, &out->recovered, err);
    if (root_fd < 0)
        return root_fd;
    (void)flock(root_fd, LOCK_SH); /* others may read it, too */
    berth_workspace_git_recover(s->path);
    int rc = berth_workspace_git_read(trip, err);
    if (push->dry_run)
        return rc < 0 ? rc : measure(trip, root_fd, out, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_assets_open(trip, &push->setup, &assets, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_install(trip, &push->setup, err);
    if (rc == BERTH_OK)
        rc = push_root(trip, push, root_fd, out, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_assets_send(trip, &assets, err);
    return rc < 0 ? rc : push_record(trip, err);
}

int berth_workspace_site_push(struct berth_workspace_site *site, struct berth_arena *arena,
                              const struct berth_workspace_push *push, const char *cwd,
                              struct berth_workspace_report *out, struct berth_error *err)
{
    auto_workspace_state s = {0};
    struct berth_git_trip trip = {.site = site,
                                  .arena = arena,
                                  .lease_id = push->lease_id,
                                  .journals = berth_workspace_journals(site, arena),
                                  .hide = push->hide,
                                  .hide_ctx = push->hide_ctx,
                                  .cancel_fd = push->cancel_fd,
                                  .state = &s};
    const char *note = NULL;
    *out = (struct berth_workspace_report){.cwd = cwd};
    int rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_setup_check(&push->setup, err);
    if (rc == BERTH_OK && !push->dry_run)
        rc = refuse_second_push(site, push->lease_id, err);
    if (rc == BERTH_OK)
        rc = begin_state(site, push, cwd, &s, err);
    if (rc == BERTH_OK && push->branch)
        rc = berth_workspace_branch_begin(&trip, &note, err);
    if (rc < 0)
        return rc;
    rc = push_state(&trip, push, out, err);
    if (rc < 0 && push->branch)
        berth_workspace_branch_undo(&trip);
    if (rc < 0 || push->dry_run)
        return rc;
    fill_report(&s, arena, out);
    out->note = out->note ? out->note : note;
    return BERTH_OK;
}

int berth_workspace_send(struct berth *b, struct berth_arena *arena,
                         const struct berth_workspace_push *push, const char *cwd,
                         struct berth_workspace_report *out, struct berth_error *err)
{
    auto_runtime_site site = {0};
    int rc = berth_runtime_site_init(&site, b, err);
    return rc < 0 ? rc : berth_workspace_site_push(&site.base, arena, push, cwd, out, err);
}

int berth_workspace_push(struct berth *b, struct berth_arena *arena,
                         const struct berth_workspace_push *push,
                         struct berth_workspace_report *out, struct berth_error *err)
{
    struct berth_workspace own = {0};
    struct berth_realized where;
    int rc = berth_lease_realize(b, arena, push->lease_id, &own, &where, err);
    return rc < 0 ? rc : berth_workspace_send(b, arena, push, where.cwd, out, err);
}
