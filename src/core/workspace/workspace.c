/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace.c - see workspace.h. A lock on the directory at home keeps two
 * merges apart, and keeps a merge out while the directory is being sent. */
#include "core/workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/lease/lease.h"
#include "core/lease/lease_directory.h"
#include "core/workspace/transport.h"
#include "core/workspace/workspace_branch.h"
#include "core/workspace/workspace_diff.h"
#include "core/workspace/workspace_git.h"
#include "core/workspace/workspace_setup.h"
#include "core/workspace/workspace_state.h"
#include "os/fs.h"
#include "sync/apply.h"
#include "sync/tree.h"

#define LABEL_LEN 8 /* digits of an id in the names of remote versions */
#define LOCK_LOOK_MS 100
#define LISTED_CONFLICTS_MAX 200 /* in the JSON of a report */
#define MERGE_TRIES_MAX 20       /* while files of the place change */
#define MERGE_TRIES_MS 10000     /* no further try begins after this time */

static const char *const policy_words[] = {"keep-both", "remote", "local", "fail", NULL};
const struct berth_enum berth_merge_policies = {"conflict policy", policy_words};

static const char *const ignore_files[] = {".gitignore", ".berthignore", NULL};

/* --- the directory at home --- */

/* Waits for the lock on a directory. It is dropped when the descriptor is closed. */
static int lock_root(int fd, int operation, const char *path, int cancel_fd,
                     struct berth_error *err)
{
    struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};
    while (flock(fd, operation | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return berth_fail_errno(err, "Cannot lock the workspace %s", path);
        if (poll(&cancel, 1, LOCK_LOOK_MS) > 0)
            return berth_fail(err, BERTH_E_CANCELLED, "Waiting for the workspace was cancelled.");
    }
    return BERTH_OK;
}

/* Opens the directory, locks it, and finishes a merge that a killed process has left there. */
static int open_root(const struct berth_git_trip *trip, const char *path, size_t *recovered,
                     struct berth_error *err)
{
    auto_apply_report report = {0};
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open the workspace %s", path);
    int rc = lock_root(fd, LOCK_EX, path, trip->cancel_fd, err);
    if (rc == BERTH_OK)
        rc = berth_apply_recover(&(struct berth_apply_root){fd, trip->journals}, &report, err);
    if (rc < 0)
        return rc;
    *recovered = report.recovered;
    int opened = fd;
    fd = -1;
    return opened;
}

/* --- progress --- */

/* A transfer that the caller watches. */
struct watched {
    struct berth_progress progress;
    berth_workspace_progress_fn *fn;
    void *ctx;
    bool returning;
};

static void watched_report(void *ctx, const struct berth_progress_count *count)
{
    const struct watched *w = ctx;
    struct berth_workspace_progress now = {w->returning, count->files, count->files_total,
                                           count->bytes, count->bytes_total};
    w->fn(w->ctx, &now);
}

/* Returns the counter of a transfer, or NULL when the caller gave no callback. */
static struct berth_progress *watch(struct watched *w, berth_workspace_progress_fn *fn, void *ctx,
                                    bool returning)
{
    *w = (struct watched){.progress = {.report = watched_report, .ctx = w},
                          .fn = fn,
                          .ctx = ctx,
                          .returning = returning};
    return fn ? &w->progress : NULL;
}

/* --- sending --- */

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

/* Finds the other leases that hold the directory, too. Each of them comes home by a merge of its
 * own, so that a file that two of them change becomes a conflict. */
static int find_sharers(struct berth_git_trip *trip, struct berth_list *out,
                        struct berth_error *err)
{
    struct berth_workspace_site *site = trip->site;
    struct berth_list others;
    *out = (struct berth_list){0};
    int rc = berth_workspace_state_others(site->states, trip->arena, trip->state->path,
                                          trip->lease_id, &others, err);
    for (int i = 0; rc == BERTH_OK && i < others.count; i++) {
        struct berth_error ignored; /* the lease is gone, and with it its copy */
        bool has_work;
        if (site->ops->look(site, others.items[i], &has_work, &ignored) == BERTH_OK && has_work)
            (void)berth_list_add(out, trip->arena, others.items[i]);
    }
    return rc < 0 ? rc : berth_arena_check(trip->arena, err);
}

/* Adds the leases that the state names and the list lacks. */
static void add_sharers(struct berth_git_trip *trip, struct berth_list *list)
{
    for (const char *at = trip->state->shared; at && *at;) {
        size_t len = strcspn(at, "\n");
        const char *id = berth_arena_copy(trip->arena, at, len);
        bool known = !id;
        for (int i = 0; !known && i < list->count; i++)
            known = strcmp(list->items[i], id) == 0;
        if (!known)
            (void)berth_list_add(list, trip->arena, (void *)(uintptr_t)id);
        at += len + (at[len] == '\n');
    }
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
        fill_report(s, trip->arena, out);
    return rc;
}

/* Sends the directory, which is locked, and its repository. */
static int push_root(struct berth_git_trip *trip, const struct berth_workspace_push *push,
                     int root_fd, struct berth_workspace_report *out, struct berth_error *err)
{
    auto_transport *t = NULL;
    struct watched watched;
    bool fresh = false;
    int rc = find_sharers(trip, &out->shared_with, err);
    if (rc == BERTH_OK)
        rc = keep_findings(trip->state, out, err);
    if (rc == BERTH_OK)
        rc = berth_transport_open(trip, NULL, &t, err);
    if (t)
        t->progress = watch(&watched, push->on_progress, push->ctx, false);
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
    auto_close int root_fd = open_root(trip, s->path, &out->recovered, err);
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

/* --- coming home --- */

/* One pull under way. */
struct homecoming {
    const struct berth_workspace_pull *pull;
    struct berth_lease_work_seen seen; /* before the place was listed */
    struct berth_workspace_state state;
    struct berth_tree_manifest remote, local;
    struct berth_merge plan;
    struct berth_apply_report applied;
    struct berth_git_trip trip;
    struct berth_git_return git;
    struct berth_branch_return branch;
    bool tree_made; /* the worktree of the branch was made again for this pull */
    struct berth_buf diff;
    bool diff_made, diff_cut;
    const char *git_trouble; /* why commits of the place are not here; or NULL */
};

/* Forgets what was read and planned. */
static void forget_attempt(struct homecoming *h)
{
    berth_apply_report_clear(&h->applied);
    berth_merge_clear(&h->plan);
    berth_tree_manifest_clear(&h->remote);
    berth_tree_manifest_clear(&h->local);
    berth_buf_clear(&h->diff);
}

static void homecoming_clear(struct homecoming *h)
{
    forget_attempt(h);
    berth_workspace_state_clear(&h->state);
}
#define auto_homecoming __attribute__((cleanup(homecoming_clear))) struct homecoming

/* The list of the place, which a thread makes. */
struct place_listing {
    struct homecoming *home;
    struct berth_transport *transport;
    struct berth_ignore *ignore; /* its own: rules remember the last query */
    int rc;
    struct berth_error err;
};

static void *list_place(void *ctx)
{
    struct place_listing *l = ctx;
    const struct berth_workspace_state *s = &l->home->state;
    l->rc = l->transport->ops->list(l->transport, s->token, l->ignore, &s->copy, &l->home->remote,
                                    &l->err);
    return NULL;
}

static int list_home(struct homecoming *h, int root_fd, int cancel_fd, struct berth_error *err)
{
    struct berth_workspace_state *s = &h->state;
    struct berth_tree_options options = {.ignore = s->ignore, .cancel_fd = cancel_fd};
    int rc = berth_tree_list(root_fd, &options, &h->local, err);
    return rc < 0
               ? rc
               : berth_tree_hash(root_fd, &h->local,
                                 berth_tree_can_vouch(root_fd) ? &s->base : NULL, cancel_fd, err);
}

/* Lists the place and the directory at home at the same time. */
static int list_both(struct homecoming *h, struct berth_transport *t, int root_fd,
                     struct berth_error *err)
{
    struct place_listing place = {.home = h, .transport = t};
    pthread_t thread;
    int rc = berth_ignore_copy(h->state.ignore, &place.ignore, err);
    if (rc < 0)
        return rc;
    bool threaded = pthread_create(&thread, NULL, list_place, &place) == 0;
    if (!threaded)
        (void)list_place(&place);
    rc = list_home(h, root_fd, t->cancel_fd, err);
    if (threaded)
        (void)pthread_join(thread, NULL);
    berth_ignore_free(place.ignore);
    if (place.rc < 0) /* says more: the place may have been replaced */
        *err = place.err;
    return place.rc < 0 ? place.rc : rc;
}

static int make_plan(struct homecoming *h, struct berth_error *err)
{
    int wanted = h->pull->on_conflict;
    enum berth_merge_policy policy = wanted < 0 ? h->state.policy : (enum berth_merge_policy)wanted;
    int rc = berth_merge_plan(&h->state.base, &h->remote, &h->local, policy, h->state.label,
                              &h->plan, err);
    if (rc == BERTH_OK && !h->pull->mass_deletion && berth_merge_deletes_most(&h->plan))
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "The place has deleted %zu of %zu files, which may be a mistake. Nothing "
                        "was changed here. Fetch it with \"berth workspace pull --mass-deletion\" "
                        "if that is right.",
                        h->plan.deleted, h->plan.base_count);
    return rc;
}

static int gather_files(struct homecoming *h, struct berth_transport *t, struct berth_error *err)
{
    auto_free const struct berth_entry **files = calloc(h->plan.count + 1, sizeof *files);
    size_t count = 0;
    if (!files)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    for (size_t i = 0; i < h->plan.count; i++) {
        const struct berth_change *change = &h->plan.changes[i];
        if (change->kind == BERTH_CHANGE_PUT && change->remote &&
            change->remote->kind == BERTH_ENTRY_FILE)
            files[count++] = change->remote;
    }
    return t->ops->gather(t, files, count, err);
}

static void put_conflicts(struct berth_json_writer *w, const struct berth_conflict *all,
                          size_t count, size_t *room)
{
    for (size_t i = 0; i < count && *room; i++, --*room) {
        berth_json_open(w, '{');
        berth_json_put_foreign(w, "path", all[i].path);
        berth_json_put_str(w, "kind", berth_conflict_word(all[i].kind));
        berth_json_put_foreign(w, "beside", all[i].beside);
        berth_json_close(w, '}');
    }
}

void berth_workspace_put_findings(struct berth_json_writer *w,
                                  const struct berth_workspace_report *report)
{
    const struct berth_list *leases = &report->shared_with;
    if (report->warning)
        berth_json_put_foreign(w, "warning", report->warning);
    if (report->recovered)
        berth_json_put_int(w, "recovered", (int64_t)report->recovered);
    berth_json_open_in(w, "sharedWith", '[');
    for (int i = 0; i < leases->count; i++)
        berth_json_put_str(w, NULL, leases->items[i]);
    berth_json_close(w, ']');
}

/* Writes the report as JSON. */
static int write_json(const struct homecoming *h, const struct berth_workspace_report *report,
                      bool with_diff, const char **json, struct berth_error *err)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {
        .buf = &buf, .hide = h->pull->hide, .hide_ctx = h->pull->hide_ctx};
    size_t room = LISTED_CONFLICTS_MAX;
    berth_json_open(&w, '{');
    berth_json_put_foreign(&w, "path", *h->state.branch ? h->state.repository : h->state.path);
    berth_json_put_str(&w, "state", "home");
    berth_json_put_int(&w, "added", (int64_t)report->added);
    berth_json_put_int(&w, "updated", (int64_t)report->updated);
    berth_json_put_int(&w, "deleted", (int64_t)report->deleted);
    berth_json_put_int(&w, "bytes", report->bytes);
    berth_json_put_int(&w, "conflictCount", (int64_t)report->conflicts);
    berth_json_open_in(&w, "conflicts", '[');
    put_conflicts(&w, h->plan.conflicts, h->plan.conflict_count, &room);
    put_conflicts(&w, h->applied.conflicts, h->applied.conflict_count, &room);
    berth_json_close(&w, ']');
    berth_workspace_put_findings(&w, report);
    berth_workspace_git_json(&h->trip, &h->git, &w);
    if (h->branch.head)
        berth_workspace_branch_json(&h->state, &h->branch, &w);
    if (report->diff && with_diff)
        berth_json_put_foreign(&w, "diff", report->diff);
    if (report->diff)
        berth_json_put_bool(&w, "diffCut", h->diff_cut);
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "The report of the workspace", err);
    if (rc < 0)
        return rc;
    *json = berth_arena_copy(h->trip.arena, berth_buf_str(&buf), buf.len);
    return berth_arena_check(h->trip.arena, err);
}

static int write_report(const struct homecoming *h, struct berth_workspace_report *out,
                        struct berth_error *err)
{
    out->added = h->plan.added;
    out->updated = h->plan.updated;
    out->deleted = h->plan.deleted;
    out->bytes = h->plan.bytes;
    out->skipped = h->remote.skipped;
    out->warning = *h->state.warning ? h->state.warning : NULL;
    out->conflicts = h->plan.conflict_count + h->applied.conflict_count;
    if (h->diff_made)
        out->diff = berth_arena_strdup(h->trip.arena, berth_buf_str(&h->diff));
    int rc = write_json(h, out, false, &out->json, err);
    return rc < 0 ? rc : write_json(h, out, true, &out->json_with_diff, err);
}

/* Lists the content of the place as the next baseline. A file that is the same here has the times
 * and the inode that it has here, so that they vouch for it; the others have none. */
static int make_baseline(const struct homecoming *h, struct berth_tree_manifest *base,
                         struct berth_error *err)
{
    size_t at = 0;
    int rc = BERTH_OK;
    base->taken_at_ns = h->local.taken_at_ns;
    for (size_t i = 0; rc == BERTH_OK && i < h->remote.count; i++) {
        struct berth_entry e = h->remote.entries[i];
        const struct berth_entry *here = berth_tree_manifest_next(&h->local, &at, e.path);
        bool same = here && here->kind == e.kind && here->size == e.size &&
                    memcmp(here->hash, e.hash, sizeof e.hash) == 0;
        e.mtime_ns = same ? here->mtime_ns : 0;
        e.ctime_ns = same ? here->ctime_ns : 0;
        e.inode = same ? here->inode : 0;
        rc = berth_tree_manifest_add(base, &e, err);
    }
    return rc;
}

/* Replaces a list by another one, which becomes empty. */
static void take_list(struct berth_tree_manifest *list, struct berth_tree_manifest *other)
{
    berth_tree_manifest_clear(list);
    *list = *other;
    *other = (struct berth_tree_manifest){0};
}

/* Puts the lists of the place into the state, unless they are there already and no file had to be
 * read for them. */
static int take_lists(struct homecoming *h, struct berth_error *err)
{
    struct berth_workspace_state *s = &h->state;
    auto_tree_manifest base = {0};
    int rc = make_baseline(h, &base, err);
    if (rc < 0)
        return rc;
    s->lists_kept = !h->local.files_read && !h->remote.files_read &&
                    berth_tree_manifest_same(&base, &s->base) &&
                    (!s->copy.count || berth_tree_manifest_same(&h->remote, &s->copy));
    if (s->lists_kept)
        return BERTH_OK;
    take_list(&s->base, &base);
    if (s->copy.count)
        take_list(&s->copy, &h->remote);
    return BERTH_OK;
}

/* From now on the state of the place is the baseline: its changes are home. */
static int finish_home(struct homecoming *h, struct berth_error *err)
{
    struct berth_workspace_site *site = h->trip.site;
    struct berth_workspace_state *s = &h->state;
    if (s->git.sent && h->git.state && strcmp(h->git.state, "gone") != 0) {
        s->git.ref = h->git.ref ? h->git.ref : "";
        s->git.head = h->git.head ? h->git.head : "";
        s->git.index = h->git.index ? h->git.index : "";
    }
    if (h->branch.head)
        s->branch_start = h->branch.head;
    s->recovered = s->warning = "";
    int rc = take_lists(h, err);
    if (rc < 0)
        return rc;
    rc = berth_workspace_state_save(site->states, h->pull->lease_id, s, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(workspace_after_home);
    return site->ops->mark_home(site, h->pull->lease_id, h->seen.mark_ms, err);
}

/* Fetches commits of the place. When that fails the files come home all the same, and the place is
 * kept with its commits. */
static int fetch_commits(struct homecoming *h, struct berth_error *err)
{
    if (h->trip.in_place && !h->state.git.sent && !h->remote.repositories)
        return BERTH_OK; /* without asking the place: its list shows that it has none */
    int rc = berth_workspace_git_fetch(&h->trip, h->pull->dry_run, &h->git, err);
    return rc < 0 ? berth_workspace_git_excuse(&h->trip, rc, &h->git_trouble, err) : rc;
}

/* Changes the repository at home, after its files: first the index, then the branch. */
static int apply_commits(struct homecoming *h, struct berth_error *err)
{
    BERTH_FAILPOINT(workspace_after_merge);
    int rc = berth_workspace_git_join(&h->trip, &h->git, err);
    if (rc < 0 || !*h->state.branch || h->git_trouble)
        return rc;
    rc = berth_workspace_branch_commit(&h->trip, &h->branch, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(workspace_after_commit);
    return rc;
}

/* Shows what the plan changes. Invalid UTF-8 is replaced when the report is written. Changes that
 * come home do so without a difference when it cannot be made. */
static int make_diff(struct homecoming *h, struct berth_transport *t, int root_fd,
                     struct berth_error *err)
{
    const char *scratch;
    h->diff = (struct berth_buf)BERTH_BUF_INIT(h->pull->diff_max + 1);
    int rc = berth_workspace_state_path(h->trip.site->states, h->trip.arena, h->pull->lease_id,
                                        ".diff", &scratch, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_diff(h->pull, &h->plan, t, root_fd, scratch, &h->diff, &h->diff_cut,
                                  err);
    for (size_t i = 0; i < h->diff.len; i++)
        if (!h->diff.data[i])
            h->diff.data[i] = '?';
    if (rc == BERTH_OK)
        rc = berth_buf_check(&h->diff, "The difference", err);
    h->diff_made = rc == BERTH_OK;
    return h->pull->dry_run ? rc : BERTH_OK;
}

/* Loads the state once its directory is locked: another pull of the lease may have come first. */
static int load_locked(struct homecoming *h, struct berth_error *err)
{
    struct berth_workspace_state now;
    int rc = berth_workspace_state_load(h->trip.site->states, h->pull->lease_id, &now, err);
    if (rc == BERTH_OK && strcmp(now.path, h->state.path) != 0)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "Another directory was sent to lease %s meanwhile: try again.",
                        h->pull->lease_id);
    if (rc < 0) {
        berth_workspace_state_clear(&now);
        return rc;
    }
    berth_workspace_state_clear(&h->state);
    h->state = now;
    return BERTH_OK;
}

/* Merges the files, unless it is a dry run. *reads: the step that failed reads the place. */
static int merge_files(struct homecoming *h, struct berth_transport *t, int root_fd, bool *reads,
                       struct berth_error *err)
{
    struct berth_apply_source source = {.fetch = t->ops->fetch, .ctx = t};
    struct berth_apply_root root = {root_fd, h->trip.journals};
    *reads = true;
    int rc = list_both(h, t, root_fd, err);
    if (rc < 0)
        return rc;
    *reads = false;
    rc = make_plan(h, err);
    if (rc < 0)
        return rc;
    *reads = true;
    if (!h->pull->dry_run)
        rc = gather_files(h, t, err);
    if (rc == BERTH_OK && h->pull->diff_max)
        rc = make_diff(h, t, root_fd, err);
    if (rc < 0)
        return rc;
    *reads = false;
    rc = fetch_commits(h, err);
    *reads = rc == BERTH_OK;
    return rc < 0 || h->pull->dry_run ? rc
                                      : berth_apply(&root, &h->plan, &source, &h->applied, err);
}

/* The same, again when commands change files of the place while they are read. */
static int merge_steady_files(struct homecoming *h, struct berth_transport *t, int root_fd,
                              struct berth_error *err)
{
    int64_t begun_ms = berth_time_mono_ms();
    for (int tries = 1;; tries++) {
        bool reads;
        int rc = merge_files(h, t, root_fd, &reads, err);
        bool changed =
            reads && (rc == BERTH_E_UPSTREAM || err->os_errno == ESTALE || err->os_errno == ENOENT);
        if (rc == BERTH_OK || !changed || tries == MERGE_TRIES_MAX ||
            berth_time_mono_ms() - begun_ms > MERGE_TRIES_MS)
            return rc;
        forget_attempt(h);
    }
}

static int bring_home(struct homecoming *h, struct berth_workspace_report *out,
                      struct berth_error *err)
{
    auto_transport *t = NULL;
    struct watched watched;
    auto_close int root_fd = open_root(&h->trip, h->state.path, &out->recovered, err);
    if (root_fd < 0)
        return root_fd;
    int rc = load_locked(h, err);
    if (rc < 0)
        return rc;
    berth_workspace_git_recover(h->state.path);
    rc = find_sharers(&h->trip, &out->shared_with, err);
    add_sharers(&h->trip, &out->shared_with);
    out->recovered += strtoul(h->state.recovered, NULL, 10);
    if (rc == BERTH_OK)
        rc = berth_transport_open(&h->trip, NULL, &t, err);
    if (t)
        t->progress = watch(&watched, h->pull->on_progress, h->pull->ctx, true);
    if (rc == BERTH_OK)
        rc = merge_steady_files(h, t, root_fd, err);
    if (rc == BERTH_OK && !h->pull->dry_run)
        rc = apply_commits(h, err);
    if (rc == BERTH_OK)
        rc = write_report(h, out, err);
    if (rc == BERTH_OK && h->git_trouble)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "The files are home, but not the commits of the place: %.700s",
                        h->git_trouble);
    return rc < 0 || h->pull->dry_run ? rc : finish_home(h, err);
}

/* The same for a branch, whose worktree goes when the work is home. After an error it stays, and
 * the next pull continues with it. */
static int bring_branch_home(struct homecoming *h, struct berth_workspace_report *out,
                             struct berth_error *err)
{
    int rc = berth_workspace_branch_reopen(&h->trip, &h->tree_made, err);
    if (rc == BERTH_OK)
        rc = bring_home(h, out, err);
    if (h->pull->dry_run ? h->tree_made : rc == BERTH_OK)
        berth_workspace_branch_close(&h->trip);
    return rc;
}

int berth_workspace_site_pull(struct berth_workspace_site *site, struct berth_arena *arena,
                              const struct berth_workspace_pull *pull,
                              struct berth_workspace_report *out, struct berth_error *err)
{
    auto_homecoming h = {.pull = pull};
    struct berth_error trouble;
    *out = (struct berth_workspace_report){0};
    int rc = berth_workspace_state_peek(site->states, pull->lease_id, &h.state, err);
    if (rc == BERTH_OK)
        rc = site->ops->reopen(site, pull->lease_id, &h.seen, err);
    if (rc < 0)
        return rc;
    h.trip = (struct berth_git_trip){.site = site,
                                     .arena = arena,
                                     .lease_id = pull->lease_id,
                                     .journals = berth_workspace_journals(site, arena),
                                     .cancel_fd = pull->cancel_fd,
                                     .state = &h.state};
    rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK && h.seen.partial)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "The workspace was not sent to lease %s as a whole, so that its changes "
                        "cannot be told. Copy what you need with \"berth cp\", then give the place "
                        "up with --discard-work.",
                        pull->lease_id);
    if (rc == BERTH_OK)
        rc = *h.state.branch ? bring_branch_home(&h, out, err) : bring_home(&h, out, err);
    if (site->ops->give_back(site, pull->lease_id, h.seen.reopened, &trouble) < 0 &&
        rc == BERTH_OK) {
        *err = trouble;
        return trouble.code;
    }
    return rc;
}

int berth_workspace_pull(struct berth *b, struct berth_arena *arena,
                         const struct berth_workspace_pull *pull,
                         struct berth_workspace_report *out, struct berth_error *err)
{
    auto_runtime_site site = {0};
    int rc = berth_runtime_site_init(&site, b, err);
    return rc < 0 ? rc : berth_workspace_site_pull(&site.base, arena, pull, out, err);
}
